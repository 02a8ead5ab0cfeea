//! The chart, as Helm renders it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::tools;
use crate::process::{Finished, Process};
use crate::world::World;

/// The folder of the chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/holdfast")
}

/// Runs Helm to its end.
pub async fn helm(world: &World, args: &[&str]) -> Result<Finished> {
    let home = world.folder().display().to_string();
    let env: Vec<(String, String)> = ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]
        .map(|name| (name.to_owned(), home.clone()))
        .into();
    Process::start(&tools::HELM.find()?, args, &env, &world.log("helm"))?.finish().await
}

/// Renders the chart with these arguments of Helm.
pub async fn render(world: &World, args: &[&str]) -> Result<String> {
    let chart = chart().display().to_string();
    let mut all = vec!["template", "holdfast", &chart, "--namespace", "holdfast"];
    all.extend(args);
    let finished = helm(world, &all).await?;
    ensure!(finished.code == Some(0), "{}", finished.stderr);
    Ok(finished.stdout)
}

/// The objects of a rendering.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let documents = text.split("\n---\n").filter(|document| document.lines().any(|line| !line.starts_with('#')));
    let parsed = documents.map(|document| {
        serde_saphyr::from_str::<Value>(document.trim_start_matches("---\n")).with_context(|| document.to_owned())
    });
    Ok(parsed.collect::<Result<Vec<Value>>>()?.into_iter().filter(|object| !object.is_null()).collect())
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}
