//! Stories of Kubernetes mode: objects are applied to a real API server, real requests pass through a real Envoy.
//!
//! The program runs itself again in a network namespace, in which backends have addresses that Pods could have.

mod canary;
mod certificates;
mod checking;
mod cluster;
mod health;
mod kinds;
mod leading;
mod outage;
mod planes;
mod plugin;
mod pod;
mod reporting;
mod rights;
mod serving;
mod sharing;
mod tokens;
mod watching;
mod webhook;

use std::process::ExitCode;

use holdfast_scenario_tests::kubernetes::{assets, namespace, tools};
use holdfast_scenario_tests::{envoy, runner};

/// Concurrent stories: each has a separate API server.
const AT_ONCE: usize = 6;

fn main() -> ExitCode {
    let of_objects = [cluster::stories(), serving::stories(), watching::stories(), reporting::stories()].concat();
    let of_rights = [rights::stories(), canary::stories(), certificates::stories(), tokens::stories()].concat();
    let of_replicas = [leading::stories(), sharing::stories()].concat();
    let of_problems = [checking::stories(), outage::stories(), kinds::stories(), health::stories()].concat();
    let stories: Vec<_> =
        [of_objects, of_problems, of_rights, of_replicas, planes::stories(), plugin::stories(), webhook::stories()]
            .concat();
    if namespace::is_inside() || std::env::args().any(|argument| argument == "--list") {
        return runner::run_at_once(&stories, AT_ONCE);
    }
    if let Err(why) = assets::find() {
        return runner::without_tools(&stories, &format!("no API server: {why:#}"));
    }
    // The namespace has no network for downloads; the inner process reports missing tools.
    let _ = (envoy::find(), tools::HELM.find());
    namespace::enter().unwrap_or_else(|why| runner::skip(&stories, &format!("{why:#}")))
}
