//! The report of a run in the form that the Gateway API project collects
//! (<https://gateway-api.sigs.k8s.io/geps/gep-1709/>), and the page about all reports.
//!
//! The suite writes a report of its own before its parallel tests have run; this one has the figures of its log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use holdfast_scenario_tests::kubernetes::tools;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::results::{Profile, Profiles, TestResult};
use super::variant::Variant;

/// Environment variable with the folder of the reports; the page is beside it.
pub(super) const REPORTS: &str = "HOLDFAST_CONFORMANCE_REPORTS";
/// The beginning of the page.
const HEAD: &str = "# Conformance\n\n\
     Results of the official Gateway API conformance suite, with a real kube-apiserver, Holdfast as its chart installs \
     it, and real Envoys. The [suite](../scenario-tests/conformance/README.md) writes this page and the reports in \
     [conformance](conformance), which have the form that the Gateway API project collects.\n\n";

/// A report.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    api_version: String,
    kind: String,
    date: String,
    #[serde(rename = "gatewayAPIChannel")]
    channel: String,
    #[serde(rename = "gatewayAPIVersion")]
    version: String,
    implementation: Implementation,
    mode: String,
    profiles: Vec<ProfileReport>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Implementation {
    contact: Vec<String>,
    organization: String,
    project: String,
    url: String,
    version: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct ProfileReport {
    name: String,
    core: Outcome,
    extended: Outcome,
    summary: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    result: String,
    statistics: Statistics,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed_tests: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    supported_features: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unsupported_features: Vec<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statistics {
    failed: usize,
    passed: usize,
    skipped: usize,
}

/// Writes the report of a run into a folder, and the page about all reports of the folder beside it.
pub(super) fn write(
    folder: &Path,
    variant: Variant,
    profiles: &Profiles,
    run: &[TestResult],
    features: &[String],
) -> Result<()> {
    let report = Report {
        api_version: "gateway.networking.k8s.io/v1".into(),
        kind: "ConformanceReport".into(),
        date: OffsetDateTime::now_utc().replace_nanosecond(0)?.format(&Rfc3339)?,
        channel: if variant == Variant::Experimental { "experimental" } else { "standard" }.into(),
        version: format!("v{}", tools::GATEWAY_API),
        implementation: Implementation {
            contact: vec!["https://holdfast.dev".into()],
            organization: "holdfast".into(),
            project: "holdfast".into(),
            url: "https://holdfast.dev".into(),
            version: format!("v{}", env!("CARGO_PKG_VERSION")),
        },
        mode: variant.name().into(),
        profiles: profiles.iter().map(|(name, profile)| report_of(name, profile, run, features)).collect(),
    };
    fs::create_dir_all(folder)?;
    fs::write(folder.join(format!("{}.yaml", variant.name())), serde_saphyr::to_string(&report)?)?;
    Ok(fs::write(folder.with_extension("md"), page(&read(folder)?))?)
}

fn read(folder: &Path) -> Result<BTreeMap<String, Report>> {
    let mut reports = BTreeMap::new();
    for variant in Variant::ALL {
        let file = folder.join(format!("{}.yaml", variant.name()));
        if file.is_file() {
            let report = serde_saphyr::from_str(&fs::read_to_string(&file)?).context(file.display().to_string())?;
            reports.insert(variant.name().to_owned(), report);
        }
    }
    Ok(reports)
}

fn report_of(name: &str, profile: &Profile, run: &[TestResult], features: &[String]) -> ProfileReport {
    let of = |is_core: bool| {
        let own = run.iter().filter(|test| profile.tests.get(&test.name) == Some(&is_core));
        let (failed, passed): (Vec<_>, Vec<_>) = own.partition(|test| test.result == "FAIL");
        let extended = profile.features.iter().filter(|(_, is_of_core)| !**is_of_core && !is_core);
        let (supported, unsupported) =
            extended.map(|(feature, _)| feature.clone()).partition(|it| features.contains(it));
        Outcome {
            result: if failed.is_empty() { "success" } else { "failure" }.into(),
            statistics: Statistics { failed: failed.len(), passed: passed.len(), skipped: 0 },
            failed_tests: failed.into_iter().map(|test| test.name.clone()).collect(),
            supported_features: supported,
            unsupported_features: unsupported,
        }
    };
    let (core, extended) = (of(true), of(false));
    let describe = |what: &str, outcome: &Outcome| match outcome.statistics.failed {
        0 => format!("{what} tests succeeded."),
        failed => format!("{what} tests failed with {failed} test failures."),
    };
    let summary = format!("{} {}", describe("Core", &core), describe("Extended", &extended));
    ProfileReport { name: name.to_owned(), core, extended, summary }
}

/// Returns the page about reports.
fn page(reports: &BTreeMap<String, Report>) -> String {
    let mut page = HEAD.to_owned();
    page += "## Runs\n\n| Run | Holdfast | Gateway API | Date | Profile | Core | Extended |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n";
    let known = || Variant::ALL.into_iter().filter_map(|variant| Some((variant, reports.get(variant.name())?)));
    for (variant, report) in known() {
        for profile in &report.profiles {
            let counts = |outcome: &Outcome| match &outcome.failed_tests[..] {
                [] => format!("{} passed", outcome.statistics.passed),
                failed => format!("{} passed, failed: {}", outcome.statistics.passed, failed.join(", ")),
            };
            let _ = writeln!(
                page,
                "| [{}](conformance/{}.yaml) | {} | {}, {} | {} | {} | {} | {} |",
                variant.name(),
                variant.name(),
                report.implementation.version,
                report.version,
                report.channel,
                report.date.get(..10).unwrap_or_default(),
                profile.name,
                counts(&profile.core),
                counts(&profile.extended),
            );
        }
    }
    page += "\n| Run | Meaning |\n| --- | --- |\n";
    for (variant, _) in known() {
        let _ = writeln!(page, "| {} | {} |", variant.name(), variant.meaning());
    }
    page += "\n## Features\n\n| Feature | Profiles | Result |\n| --- | --- | --- |\n";
    for (feature, (profiles, result)) in features(reports) {
        let profiles = profiles.into_iter().collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "| {feature} | {profiles} | {result} |");
    }
    page
}

/// Returns the extended features, each with its profiles and the result.
fn features(reports: &BTreeMap<String, Report>) -> BTreeMap<&str, (BTreeSet<&str>, &'static str)> {
    let mut features = BTreeMap::<&str, (BTreeSet<&str>, &'static str)>::new();
    let mut note = |wanted: &dyn Fn(&str) -> bool, result: &'static str, of: fn(&Outcome) -> &[String]| {
        let profiles = reports.iter().filter(|(variant, _)| wanted(variant)).flat_map(|(_, report)| &report.profiles);
        for profile in profiles {
            for feature in of(&profile.extended) {
                features.entry(feature).or_insert((BTreeSet::new(), result)).0.insert(&profile.name);
            }
        }
    };
    let experimental = Variant::Experimental.name();
    // The first note about a feature stays.
    note(&|variant| variant != experimental, "passed", Outcome::passed);
    note(&|variant| variant == experimental, "passed, with the CRDs of the experimental channel", Outcome::passed);
    note(&|_| true, "see the failed tests", |outcome| &outcome.supported_features);
    note(&|_| true, "not claimed", |outcome| &outcome.unsupported_features);
    features
}

impl Outcome {
    /// Returns the features of which all tests have passed.
    fn passed(&self) -> &[String] {
        if self.failed_tests.is_empty() { &self.supported_features } else { &[] }
    }
}
