//! The rows of the table.

use std::time::Duration;

use super::edits::CrowdEdit::{AddedHeaders, Backends, Hostnames, Policies};
use super::row::Row;

/// The row of the default run.
pub(super) const SMALL: Row = Row {
    name: "small",
    objects: 30,
    per_second: 10,
    lasts: Duration::from_secs(8),
    edit_max: Duration::from_secs(120),
    ..FLAPPING
};

/// Without a probe, with last valid versions: one Envoy, and 100 new routes with changing headers, of which Envoy refuses
/// two of three versions.
const FLAPPING: Row = Row {
    name: "headers-100",
    objects: 100,
    per_second: 20,
    refused_of_three: 2,
    edit: AddedHeaders,
    has_accepted_version: false,
    namespaces: 1,
    envoys: 1,
    has_probe: false,
    uses_last_valid: true,
    lasts: Duration::from_secs(60),
    edit_max: Duration::from_secs(60),
};

/// The first row with a shorter duration.
const SHORT: Row = Row { lasts: Duration::from_secs(40), ..FLAPPING };

/// The table.
pub(super) const ROWS: [Row; 11] = [
    FLAPPING,
    Row { name: "headers-100-gate-only", uses_last_valid: false, ..FLAPPING },
    Row { name: "headers-100-accepted", has_accepted_version: true, ..FLAPPING },
    Row { name: "headers-200", objects: 200, per_second: 50, ..FLAPPING },
    Row { name: "headers-30-third", objects: 30, per_second: 5, refused_of_three: 1, ..SHORT },
    Row { name: "backends-100-all", refused_of_three: 3, edit: Backends, has_accepted_version: true, ..SHORT },
    Row { name: "policies-30-gate-only", objects: 30, edit: Policies, uses_last_valid: false, ..SHORT },
    Row { name: "hostnames-100-3-envoys", edit: Hostnames, namespaces: 3, envoys: 3, ..SHORT },
    Row { name: "headers-100-probe", has_probe: true, ..SHORT },
    Row { name: "headers-200-probe", objects: 200, per_second: 50, has_probe: true, ..SHORT },
    Row {
        name: "hostnames-200-3-envoys",
        objects: 200,
        per_second: 50,
        edit: Hostnames,
        namespaces: 3,
        envoys: 3,
        ..SHORT
    },
];
