//! What the chart says of the product is so: its values, its roles, its alerts, its image. Nothing here runs Helm; what is
//! rendered is tested in `scenario-tests/tests/chart`.
//!
//! `HOLDFAST_GOLDEN=write cargo test -p holdfast-tests chart` writes anew what is made from something else: the roles'
//! rules and the table in the README.

mod image;
mod monitoring;
mod rights;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file of the chart.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/holdfast").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares a file with what it is made of, or writes it.
fn is_made_of(name: &str, expected: &str) {
    if std::env::var("HOLDFAST_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(path(name), expected).unwrap();
        return;
    }
    assert!(
        text(name) == expected,
        "charts/holdfast/{name} is not up to date: HOLDFAST_GOLDEN=write cargo test -p holdfast-tests chart"
    );
}
