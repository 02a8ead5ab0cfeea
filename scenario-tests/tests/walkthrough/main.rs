//! Walk-through of the documentation: every command of the page is run in order, and must print the output on the page.
//!
//! kube-apiserver, Helm, kubectl, Holdfast and Envoy are real; the nodes and the controllers of a cluster are
//! simulated.

mod nodes;
mod page;
mod shell;

use std::process::ExitCode;

use anyhow::{Context, Result};
use holdfast_scenario_tests::kubernetes::{Cluster, assets, namespace, tools};
use holdfast_scenario_tests::{World, envoy, runner, stories};
use nodes::Nodes;
use shell::Shell;

/// The page.
const PAGE: &str = include_str!("../../../docs/operating/walk-through.md");

fn main() -> ExitCode {
    let stories = stories!("walkthrough", true, [from_an_empty_cluster_to_a_contained_failure]);
    if namespace::is_inside() || std::env::args().any(|argument| argument == "--list") {
        return runner::run(&stories);
    }
    let tools = [assets::find().map(drop), tools::HELM.find().map(drop)];
    if let Some(why) = tools.into_iter().find_map(Result::err) {
        return runner::without_tools(&stories, &format!("{why:#}"));
    }
    if let Err(why) = namespace::has_mounts() {
        return runner::skip(&stories, &format!("{why:#}"));
    }
    // The namespace has no network for downloads; the inner process reports missing tools.
    let _ = envoy::find();
    namespace::enter().unwrap_or_else(|why| runner::skip(&stories, &format!("{why:#}")))
}

async fn from_an_empty_cluster_to_a_contained_failure(world: World) -> Result<()> {
    let cluster = Cluster::bare(&world).await?;
    let shell = Shell::new(&world, &cluster)?;
    let mut nodes = Nodes::new(&world, &cluster);
    let walk = async {
        for step in page::steps(PAGE)? {
            shell.walk(&step).await.with_context(|| step.commands.clone())?;
        }
        Ok(())
    };
    tokio::select! {
        walked = walk => walked,
        failed = nodes.work() => failed,
    }
}
