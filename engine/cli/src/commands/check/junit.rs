//! The report as JUnit XML, which CI servers show as the results of tests.
//!
//! A file is a suite and an object is a test, so that objects without findings are shown as passed. A test has at most
//! one failure, with all findings of the object: several CI servers show only the first failure of a test.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::report::{CheckFinding, CheckSeverity, Report};
use super::text;
use super::xml::Escaped;

/// The suite of findings about objects that are in no file.
const NO_FILE: &str = "objects without a file";

/// An object, or a place of a file with a finding about no object.
#[derive(Default)]
struct Case<'a> {
    /// The line of the object; 0 if it is unknown.
    line: u32,
    /// The findings that fail the check.
    failures: Vec<&'a CheckFinding>,
    /// Other findings.
    notes: Vec<&'a CheckFinding>,
}

/// The tests of a file, by name.
type Suite<'a> = BTreeMap<String, Case<'a>>;

/// The report as one document. Findings below `fail_on` are output of passed tests.
pub(super) fn format(report: &Report, fail_on: CheckSeverity) -> String {
    let suites = suites(report, fail_on);
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&suites, &mut text);
    text
}

fn suites(report: &Report, fail_on: CheckSeverity) -> BTreeMap<&str, Suite<'_>> {
    let mut suites: BTreeMap<&str, Suite<'_>> = BTreeMap::new();
    for checked in &report.checked {
        let case = Case { line: checked.line, ..Case::default() };
        suites.entry(suite_name(&checked.file)).or_default().insert(checked.object.clone(), case);
    }
    for finding in &report.findings {
        let name = if finding.object.is_empty() { text::place(finding) } else { finding.object.clone() };
        let suite = suites.entry(suite_name(&finding.file)).or_default();
        let case = suite.entry(name).or_insert_with(|| Case { line: finding.line, ..Case::default() });
        if finding.severity.fails(fail_on) { case.failures.push(finding) } else { case.notes.push(finding) }
    }
    suites
}

fn suite_name(file: &str) -> &str {
    if file.is_empty() { NO_FILE } else { file }
}

fn write(suites: &BTreeMap<&str, Suite<'_>>, text: &mut String) -> fmt::Result {
    let tests: usize = suites.values().map(BTreeMap::len).sum();
    let all_failed: usize = suites.values().map(failed).sum();
    writeln!(text, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(text, r#"<testsuites name="holdfast check" tests="{tests}" failures="{all_failed}" errors="0">"#)?;
    for (name, suite) in suites {
        let (named, tests, failed) = (Escaped(name), suite.len(), failed(suite));
        writeln!(text, r#"  <testsuite name="{named}" tests="{tests}" failures="{failed}" errors="0" skipped="0">"#)?;
        let mut cases: Vec<_> = suite.iter().collect();
        cases.sort_by_key(|(_, case)| case.line);
        cases.into_iter().try_for_each(|(case_name, case)| write_case(name, case_name, case, text))?;
        writeln!(text, "  </testsuite>")?;
    }
    writeln!(text, "</testsuites>")
}

/// The number of tests with a failure.
fn failed(suite: &Suite<'_>) -> usize {
    suite.values().filter(|case| !case.failures.is_empty()).count()
}

fn write_case(suite: &str, name: &str, case: &Case<'_>, text: &mut String) -> fmt::Result {
    write!(text, r#"    <testcase name="{}" classname="{}""#, Escaped(name), Escaped(suite))?;
    if suite != NO_FILE {
        write!(text, r#" file="{}""#, Escaped(suite))?;
    }
    if case.line > 0 {
        write!(text, r#" line="{}""#, case.line)?;
    }
    if case.failures.is_empty() && case.notes.is_empty() {
        return writeln!(text, " />");
    }
    writeln!(text, ">")?;
    if let Some(first) = case.failures.first() {
        let message = text::message(first);
        write!(text, r#"      <failure type="{}" message="{}">"#, Escaped(first.reason), Escaped(&message))?;
        write_lines(&case.failures, text)?;
        writeln!(text, "</failure>")?;
    }
    if !case.notes.is_empty() {
        write!(text, "      <system-out>")?;
        write_lines(&case.notes, text)?;
        writeln!(text, "</system-out>")?;
    }
    writeln!(text, "    </testcase>")
}

/// The lines of the text report.
fn write_lines(findings: &[&CheckFinding], text: &mut String) -> fmt::Result {
    for (index, finding) in findings.iter().enumerate() {
        let end = if index + 1 < findings.len() { "\n" } else { "" };
        write!(text, "{}{end}", Escaped(&text::finding(finding)))?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::commands::check::tests::{CheckFolder, GATEWAY};

    const SERVICE: &str = "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: b}, spec: {}}";

    #[test]
    fn a_file_is_a_suite_and_an_object_a_test() {
        let folder = CheckFolder::new();
        folder.write("a&b.yaml", GATEWAY);
        folder.write("service.yaml", &format!("{SERVICE}\n---\n{SERVICE}\n"));
        folder.write("torn.yaml", "a: [");
        let report = folder.report("");
        let text = |fail_on| format(&report, fail_on).replace(&folder.path(), "M");
        let all = text(CheckSeverity::Warning);
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"holdfast check\" tests=\"4\" failures=\"2\" \
             errors=\"0\">\n  <testsuite name=\"M/a&amp;b.yaml\" tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"0\">\n",
            "    <testcase name=\"gateway.networking.k8s.io/GatewayClass:holdfast\" classname=\"M/a&amp;b.yaml\" \
             file=\"M/a&amp;b.yaml\" line=\"2\" />\n",
            "    <testcase name=\"core/Service:b/a\" classname=\"M/service.yaml\" file=\"M/service.yaml\" line=\"1\">\n      \
             <failure type=\"DuplicateDefinition\" message=\"defined in M/service.yaml:1 and again in \
             M/service.yaml:3; the first one is used\">M/service.yaml:1:1: warning: core/Service:b/a: defined in",
            "    <testcase name=\"M/torn.yaml:1:4\" classname=\"M/torn.yaml\" file=\"M/torn.yaml\" line=\"1\">\n      \
             <failure type=\"Unreadable\" message=",
        ];
        expected.iter().for_each(|expected| assert!(all.contains(expected), "{expected}\n{all}"));
        let errors = text(CheckSeverity::Error);
        assert!(errors.contains("failures=\"1\" errors=\"0\">\n  <testsuite name"), "{errors}");
        assert!(errors.contains("<system-out>M/service.yaml:1:1: warning: core/Service:b/a: "), "{errors}");
    }

    #[test]
    fn all_findings_of_an_object_are_one_failure() {
        let folder = CheckFolder::new();
        let gateway =
            GATEWAY.replace("port: 8080, protocol: HTTP", "port: 8080, protocol: HTTP, \"x\\e[31m\": 1, y: 2");
        folder.write("gateway.yaml", &gateway);
        let text = format(&folder.report(""), CheckSeverity::Warning);
        assert_eq!((text.matches("<failure ").count(), text.matches("gateway.yaml:13:").count()), (1, 2), "{text}");
        assert!(text.contains(r"x\u{1b}[31m") && !text.contains('\u{1b}'), "{text}");
    }
}
