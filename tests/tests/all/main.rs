//! Tests on data: golden pairs of YAML, and rules of the code base.
//!
//! Tests that need a running Envoy or API server are in `scenario-tests/`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod budgets;
mod cases;
mod chart;
mod contour;
mod dist;
mod expressions;
mod golden;
mod house;
mod kgateway;
mod limits;
mod mutations;
mod processes;
mod sets;
mod stored;
mod texts;
mod unknown_fields;
