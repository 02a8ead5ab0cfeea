//! The Helm chart: rendered by Helm, parsed by the program, accepted by a real API server; its alerts are tested by
//! promtool.

mod alerts;
mod arguments;
mod installing;
mod packaged;
mod rendering;
mod roles;
mod upgrading;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::chart::{chart, helm, objects, of_kind, render};
use holdfast_scenario_tests::kubernetes::{assets, tools};
use holdfast_scenario_tests::{World, runner};
use serde_json::Value;

/// Concurrent stories: each story with an API server starts a separate one.
const AT_ONCE: usize = 2;

fn main() -> ExitCode {
    let plain = [rendering::stories(), arguments::stories(), roles::stories()].concat();
    let (alerts, installing) =
        (alerts::stories(), [installing::stories(), packaged::stories(), upgrading::stories()].concat());
    if std::env::args().any(|argument| argument == "--list") {
        return runner::run_at_once(&[plain, alerts, installing].concat(), AT_ONCE);
    }
    let helm = missing(tools::HELM.find());
    let promtool = helm.clone().or_else(|| missing(tools::PROMTOOL.find()));
    let server = helm.clone().or_else(|| missing(assets::find()));
    let groups = [(plain, helm), (alerts, promtool), (installing, server)];
    let stories = groups.into_iter().flat_map(|(stories, missing)| {
        stories.into_iter().map(move |story| (story, missing.clone().map(runner::MissingTool::from)))
    });
    runner::run_with_tools(stories.collect(), AT_ONCE)
}

/// Returns the reason why a tool is not available.
fn missing<T>(found: Result<T>) -> Option<String> {
    found.err().map(|why| format!("{why:#}"))
}

/// Returns the path of the values file with every value set.
fn full() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/full.yaml").display().to_string()
}

/// Returns the only object of a kind.
fn only<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    let found = of_kind(objects, kind);
    ensure!(found.len() == 1, "{} objects of kind {kind}", found.len());
    found.first().copied().context("there is none")
}

/// Writes a file of the story.
fn write(world: &World, name: &str, text: &str) -> Result<String> {
    let file = world.folder().join(name);
    fs::write(&file, text)?;
    Ok(file.display().to_string())
}
