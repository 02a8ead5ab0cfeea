//! The objects of the golden cases, for tests that change them.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_test_support as testing;
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

/// Returns the file name and the documents of each case, in order. The manifests of other projects are left out.
pub(crate) fn all() -> Vec<(String, Vec<Value>)> {
    let areas = fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path());
    let areas = areas.filter(|area| !area.ends_with("include") && !area.ends_with("upstream"));
    let files = areas.flat_map(|area| fs::read_dir(area).unwrap().map(|entry| entry.unwrap().path()));
    let mut cases: Vec<_> = files.map(|path| (path.to_str().unwrap().to_owned(), path)).collect();
    cases.retain(|(name, _)| !name.ends_with(".out.yaml"));
    cases.sort_unstable();
    cases.into_iter().map(|(name, path)| (name, documents(&path))).collect()
}

/// Returns the documents of a case, including those of included files.
fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let included = text.lines().filter_map(|line| line.strip_prefix("# include: "));
    let included = included.flat_map(|files| files.split(',').map(|file| golden().join(file.trim())));
    let mut texts: Vec<String> = included.map(|file| fs::read_to_string(file).unwrap()).collect();
    texts.push(text.replace("\n# step:", "\n--- # step:"));
    texts.iter().flat_map(|text| testing::documents(text)).collect()
}
