//! Results of the suite, as its log has them: its report is written before all tests have run.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestResult {
    /// The name, without that of the suite.
    pub(super) name: String,
    /// `PASS`, `FAIL` or `SKIP`.
    pub(super) result: String,
    /// The duration, as Go writes it.
    pub(super) duration: String,
}

impl TestResult {
    /// Returns whether the test has run. The suite skips tests of features that are not claimed, and of service meshes.
    pub(super) fn has_run(&self) -> bool {
        self.result != "SKIP"
    }
}

/// Returns the results in a log: lines `--- PASS: TestConformance/NAME (1.00s)`, of tests and not of their parts.
pub(super) fn results(log: &str) -> Vec<TestResult> {
    let parsed = log.lines().filter_map(|line| {
        let (result, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
        let (name, duration) = rest.strip_prefix("TestConformance/")?.split_once(" (")?;
        let duration = duration.trim_end_matches(')').to_owned();
        (!name.contains('/')).then(|| TestResult { name: name.to_owned(), result: result.to_owned(), duration })
    });
    parsed.collect()
}

/// Returns the names of the tests that have begun, in order: the results of all tests are printed at the end.
pub(super) fn begun(log: &str) -> Vec<&str> {
    let name = |line| Some(str::split_once(line, ": Running ")?.1.split_once(", relying on the following features")?.0);
    log.lines().filter_map(name).collect()
}

/// Returns the lines of a log that describe failed assertions.
pub(super) fn failures(log: &str) -> String {
    let beginnings = ["Error:", "Test:", "Messages:", "--- FAIL"];
    let is_shown = |line: &&str| beginnings.iter().any(|beginning| line.trim_start().starts_with(beginning));
    log.lines().filter(is_shown).map(|line| format!("{line}\n")).collect()
}

/// The profiles by name.
pub(super) type Profiles = BTreeMap<String, Profile>;

/// A profile: a set of features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// The tests by name, each with whether it is a core test.
    pub(super) tests: BTreeMap<String, bool>,
    /// The features by name, each with whether it is a core feature.
    pub(super) features: BTreeMap<String, bool>,
}

/// Returns the profiles of a log of the test `TestProfiles`: lines `TEST PROFILE SUPPORT NAME` and
/// `FEATURE PROFILE SUPPORT NAME`, where the support is `core` or `extended`.
pub(super) fn profiles(log: &str) -> Profiles {
    let mut profiles = Profiles::new();
    for line in log.lines() {
        let [what @ ("TEST" | "FEATURE"), profile, support, name] = line.split(' ').collect::<Vec<_>>()[..] else {
            continue;
        };
        let profile = profiles.entry(profile.to_owned()).or_default();
        let names = if what == "TEST" { &mut profile.tests } else { &mut profile.features };
        names.insert(name.to_owned(), support == "core");
    }
    profiles
}

/// Returns the table of the tests that have run, by profile, and the numbers of each profile. A test of several profiles
/// is in each of them.
pub(super) fn table(profiles: &Profiles, run: &[TestResult]) -> String {
    let mut table = "\n| Profile | Test | Result | Duration |\n| --- | --- | --- | --- |\n".to_owned();
    let mut summary = "\n| Profile | Passed | Failed |\n| --- | --- | --- |\n".to_owned();
    for (name, profile) in profiles {
        let of_profile: Vec<_> = run.iter().filter(|test| profile.tests.contains_key(&test.name)).collect();
        for TestResult { name: test, result, duration } in &of_profile {
            let _ = writeln!(table, "| {name} | {test} | {result} | {duration} |");
        }
        let count = |result: &str| of_profile.iter().filter(|test| test.result == result).count();
        let _ = writeln!(summary, "| {name} | {} | {} |", count("PASS"), count("FAIL"));
    }
    table + &summary
}
