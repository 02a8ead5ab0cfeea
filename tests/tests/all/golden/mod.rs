//! Golden pairs: `golden/<area>/<case>.yaml` contains objects, `<case>.out.yaml` the expected result.
//!
//! A case begins with a comment that describes it, in sentences. Comment lines of the form `# word: …` are directives,
//! see [`case`]. `HOLDFAST_GOLDEN=write cargo test -p holdfast-tests golden` rewrites the expected results: review the
//! difference before you commit it.
//!
//! Each case is translated in three ways, which must agree: the objects of each step at once; one object at a time, in
//! reverse order; and all objects again after every object was deleted.

mod case;
mod matcher;
mod order;
mod planes;
mod report;
mod trace;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};

use case::GoldenCase;
pub(crate) use report::fault;
use serde_json::Value;

/// Defines one test for each area: the tests run in parallel, and a failure names its area.
macro_rules! areas {
    ($($area:ident),* $(,)?) => {
        /// The areas with a test.
        const AREAS: &[&str] = &[$(stringify!($area)),*];
        $(#[test]
        fn $area() {
            check(stringify!($area));
        })*
    };
}

areas! {
    backends,
    broken,
    class,
    delegation,
    filters,
    gateway,
    grpc,
    listeners,
    matches,
    policies,
    provision,
    proxies,
    replacement,
    sets,
    tls,
    upstream,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

#[test]
fn every_folder_of_golden_pairs_has_a_test() {
    let mut found: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name != "include")
        .collect();
    found.sort_unstable();
    assert_eq!(found, AREAS);
}

#[test]
fn every_answer_belongs_to_a_case() {
    for area in AREAS {
        for path in files(area).into_iter().filter(|path| is_answer(path)) {
            let name = path.to_str().unwrap().replace(".out.yaml", ".yaml");
            assert!(Path::new(&name).exists(), "{} has no case", path.display());
        }
    }
}

fn files(area: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder().join(area))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort_unstable();
    files
}

fn is_answer(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(".out.yaml"))
}

fn check(area: &str) {
    let mut wrong = Vec::new();
    let cases: Vec<PathBuf> = files(area).into_iter().filter(|path| !is_answer(path)).collect();
    assert!(!cases.is_empty(), "no case in {area}");
    for path in cases {
        let name = format!("{area}/{}", path.file_stem().unwrap().to_str().unwrap());
        let case = GoldenCase::read(&fs::read_to_string(&path).unwrap(), &folder());
        let text = match case.and_then(|case| report::of(&case)) {
            Ok(report) => text(&report),
            Err(error) => {
                wrong.push(format!("{name}:\n{error}"));
                continue;
            }
        };
        let difference = holdfast_golden::difference(path.with_extension("out.yaml"), &text);
        wrong.extend(difference.map(|lines| format!("{name}:\n{lines}")));
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), holdfast_golden::advice());
}

/// Returns a report as YAML. For every case, this function checks that the YAML parses to the same report.
pub(crate) fn text(report: &Value) -> String {
    let text = yaml::write(report);
    let read: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read, *report, "the answer changes when it is read");
    text
}
