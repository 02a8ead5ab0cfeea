//! A probe of `holdfast probe` in another container: it works like a local probe, and both sides recover when the other
//! dies.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::small_binary;
use holdfast_scenario_tests::process::{self, Process};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, binary, stories, until};

use super::{BACKFILL, comes_to_blame, comes_to_serve, good, refused, serves};

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback::beside", true, [a_probe_of_another_container])
}

fn sidecar(world: &World, folder: &Path) -> Result<Process> {
    let environment = [("ENVOY_BIN".to_owned(), small_binary(world)?.display().to_string())];
    let args = ["probe".to_owned(), "--probe-folder".to_owned(), folder.display().to_string()];
    Process::start(&binary::holdfast()?, args, &environment, &world.log("sidecar"))
}

/// Process ids of the Envoys in the folder.
fn probes(folder: &Path) -> Vec<u32> {
    process::naming(&folder.join("envoy"))
}

async fn has_a_new_probe(folder: &Path, holdfast: &Holdfast, ready: usize) -> Result<()> {
    until(&format!("{ready} probes have been ready"), || async {
        let output = holdfast.output();
        ensure!(output.matches("a probe is ready").count() >= ready, "{output}");
        ensure!(probes(folder).len() == 1, "{} probes", probes(folder).len());
        Ok(())
    })
    .await
}

/// A version that only Envoy refuses is found by the probe, and the next one is served.
async fn finds(world: &World, holdfast: &Holdfast, port: u16, [old, bad, new]: [&str; 3]) -> Result<()> {
    world.route("r", &refused("/r", bad))?;
    comes_to_blame(holdfast, "probe", ["r"]).await?;
    serves(port, "/r", old).await?;
    world.route("r", &good("/r", new))?;
    comes_to_serve(port, "/r", new).await?;
    comes_to_blame(holdfast, "probe", []).await
}

async fn a_probe_of_another_container(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", &good("/r", "1"))?;
    let folder: PathBuf = world.folder().join("beside");
    fs::create_dir(&folder)?;
    let kept = sidecar(&world, &folder)?;
    let shared = folder.display().to_string();
    let small = small_binary(&world)?.display().to_string();
    let flags = ["--probe", "on", "--probe-folder", &shared];
    let options = HoldfastOptions::new(&world)?.args(&flags).args(&BACKFILL).env("ENVOY_BIN", &small);
    let holdfast = world.run_with(options).await?;
    comes_to_serve(port, "/r", "1").await?;
    has_a_new_probe(&folder, &holdfast, 1).await?;
    ensure!(holdfast.probes().is_empty(), "Holdfast has started one itself");
    finds(&world, &holdfast, port, ["1", "2", "3"]).await?;

    // The probe Envoy dies: `holdfast probe` starts another one.
    process::signal(*probes(&folder).first().context("no probe")?, "KILL");
    has_a_new_probe(&folder, &holdfast, 2).await?;
    finds(&world, &holdfast, port, ["3", "4", "5"]).await?;

    // `holdfast probe` dies, and is started again.
    drop(kept);
    holdfast.comes_to_print(&["cannot start the probe"]).await?;
    ensure!(probes(&folder).is_empty(), "its Envoy outlives it");
    let _kept = sidecar(&world, &folder)?;
    has_a_new_probe(&folder, &holdfast, 3).await?;
    finds(&world, &holdfast, port, ["5", "6", "7"]).await?;
    let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(nacks == 0.0, "{nacks} refusals by Envoys that serve");

    // Holdfast dies: the probe ends.
    holdfast.kill()?;
    until("the probe is gone", || async {
        ensure!(probes(&folder).is_empty(), "it runs still");
        Ok(())
    })
    .await
}
