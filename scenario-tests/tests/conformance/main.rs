//! The conformance suite of Gateway API, with all profiles of Gateways.
//!
//! kube-apiserver, its controllers, the chart, Holdfast, Envoys and the backends of the suite are real; the nodes and the
//! load balancers of the cluster are simulated. A test of a feature that Holdfast claims, and that does not pass, fails
//! the run.

mod installed;
mod replicas;
mod report;
mod results;
mod suite;
mod variant;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use holdfast_scenario_tests::kubernetes::{assets, namespace, tools};
use holdfast_scenario_tests::{envoy, runner};

/// Maximum duration of a run.
const RUN_MAX: Duration = Duration::from_secs(60 * 60);

fn main() -> ExitCode {
    let stories = suite::stories();
    if namespace::is_inside() || std::env::args().any(|argument| argument == "--list") {
        return runner::run_within(&stories, RUN_MAX);
    }
    if let Err(why) = find_tools() {
        return runner::without_tools(&stories, &format!("{why:#}"));
    }
    if let Err(why) = namespace::has_mounts() {
        return runner::skip(&stories, &format!("{why:#}"));
    }
    // The namespace has no network for downloads; the inner process reports a missing Envoy.
    let _ = envoy::find();
    namespace::enter().unwrap_or_else(|why| runner::skip(&stories, &format!("{why:#}")))
}

fn find_tools() -> Result<()> {
    assets::find()?;
    for tool in [tools::HELM, tools::CONTROLLERS, tools::SUITE, tools::ECHO, tools::COREDNS] {
        tool.find()?;
    }
    Ok(())
}
