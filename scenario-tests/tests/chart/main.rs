//! The Helm chart: rendered by Helm, read by the program, taken by a real API server, its alerts tested by promtool.

mod alerts;
mod arguments;
mod installing;
mod rendering;
mod roles;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::{assets, tools};
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::{World, runner};
use serde_json::Value;

/// Stories at once: those of the API server have one each.
const AT_ONCE: usize = 2;

fn main() -> ExitCode {
    let plain = [rendering::stories(), arguments::stories(), alerts::stories(), roles::stories()].concat();
    let stories = [plain, installing::stories()].concat();
    if std::env::args().any(|argument| argument == "--list") {
        return runner::run_at_once(&stories, AT_ONCE);
    }
    let all = [tools::HELM.find().map(drop), tools::PROMTOOL.find().map(drop), assets::find().map(drop)];
    match all.into_iter().find_map(Result::err) {
        Some(why) => runner::skip(&stories, &format!("{why:#}")),
        None => runner::run_at_once(&stories, AT_ONCE),
    }
}

/// The folder of the chart.
fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/holdfast")
}

/// The file with everything set.
fn full() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/full.yaml").display().to_string()
}

/// Runs Helm to its end.
async fn helm(world: &World, args: &[&str]) -> Result<Finished> {
    let home = world.folder().display().to_string();
    let env: Vec<(String, String)> = ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]
        .map(|name| (name.to_owned(), home.clone()))
        .into();
    Process::start(&tools::HELM.find()?, args, &env, &world.log("helm"))?.finish().await
}

/// What the chart renders with these arguments of Helm.
async fn render(world: &World, args: &[&str]) -> Result<String> {
    let chart = chart().display().to_string();
    let mut all = vec!["template", "holdfast", &chart, "--namespace", "holdfast"];
    all.extend(args);
    let finished = helm(world, &all).await?;
    ensure!(finished.code == Some(0), "{}", finished.stderr);
    Ok(finished.stdout)
}

/// The objects of a rendering.
fn objects(text: &str) -> Result<Vec<Value>> {
    let documents = text.split("\n---\n").filter(|document| document.lines().any(|line| !line.starts_with('#')));
    let parsed = documents.map(|document| {
        serde_saphyr::from_str::<Value>(document.trim_start_matches("---\n")).with_context(|| document.to_owned())
    });
    Ok(parsed.collect::<Result<Vec<Value>>>()?.into_iter().filter(|object| !object.is_null()).collect())
}

/// The objects of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The only object of a kind.
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
