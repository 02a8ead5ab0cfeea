//! The chart against the product: values, roles, alerts. These tests do not run Helm; rendered manifests are
//! tested in `scenario-tests/tests/chart`.
//!
//! `HOLDFAST_GOLDEN=write cargo test -p holdfast-tests chart` rewrites generated parts: the rules of the roles and of the
//! webhook, and the table in the README.

mod monitoring;
mod rights;
mod values;
mod webhook;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the path of a file of the chart.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/holdfast").join(name)
}

/// Returns the text of a file of the chart.
pub(super) fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns a YAML file of the chart.
pub(super) fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
