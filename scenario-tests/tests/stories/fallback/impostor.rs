//! A local process that connects to the loopback address of the xDS server and refuses every route configuration: what
//! it claims to be has no influence on what a managed Envoy is served.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::impostor::Impostor;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use super::{BACKFILL, REPLACE, comes_to_serve, good};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::impostor",
        true,
        [with_the_id_of_a_managed_envoy, with_the_id_of_a_managed_envoy_and_last_valid_versions, with_another_id]
    )
}

/// The `node.id` of the managed Envoy.
const MANAGED: &str = "default-public-managed";
/// Longest time until an edit is served, on a busy machine.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// Number of edits of each route.
const EDITS: u32 = 10;

/// Two routes in version 1, served by a managed Envoy; returns its port, Holdfast, the xDS port and the Envoy's build.
async fn served(world: &World, flags: &[&str]) -> Result<(u16, Holdfast, u16, String)> {
    let port = world.gateway()?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let options = HoldfastOptions::new(world)?.args(&["--probe", "off"]).args(flags);
    let xds = options.xds.rsplit(':').next().context("no port")?.parse()?;
    let holdfast = world.run_with(options).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    let build = until("the managed Envoy is connected", || async {
        let envoys = holdfast.diagnostics("/debug/envoys").await?;
        let own = envoys["connected"].as_array().and_then(|all| all.iter().find(|envoy| envoy["node"] == MANAGED));
        own.and_then(|own| own["build"].as_str()).map(str::to_owned).with_context(|| envoys.to_string())
    })
    .await?;
    Ok((port, holdfast, xds, build))
}

/// Edits both routes in turn; each edit must be served soon.
async fn edits_are_served(world: &World, port: u16, first: u32) -> Result<()> {
    for version in first..first + EDITS {
        let version = version.to_string();
        for name in ["cart", "other"] {
            world.route(name, &good(&format!("/{name}"), &version))?;
            let edited = Instant::now();
            comes_to_serve(port, &format!("/{name}"), &version).await?;
            ensure!(edited.elapsed() < SERVED_WITHIN, "{name} {version} was served after {:?}", edited.elapsed());
        }
    }
    Ok(())
}

/// Fails if an object is reported as broken now, or was for a moment.
async fn nothing_is_broken(holdfast: &Holdfast) -> Result<()> {
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(report["status"] == "not-triggered", "{report}");
    let faults = holdfast.diagnostics("/debug/faults").await?;
    ensure!(faults["refusals"].as_array().is_none_or(Vec::is_empty), "{faults}");
    let output = holdfast.output();
    for event in ["refused by Envoy", "failed to apply configuration", "may have been refused", "was refused"] {
        ensure!(!output.contains(event), "{event}:\n{output}");
    }
    Ok(())
}

async fn takes_the_id(world: World, flags: &[&str]) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, xds, build) = served(&world, flags).await?;
    let impostor = Impostor::start(xds, MANAGED, "default/public", &build)?;
    until("it has acted", || async {
        ensure!(impostor.refusals() + impostor.turned_away() >= 1, "it does nothing");
        Ok(())
    })
    .await?;
    edits_are_served(&world, port, 2).await?;
    nothing_is_broken(&holdfast).await?;
    ensure!(impostor.refusals() == 0 && impostor.turned_away() > 1, "{impostor:?}");
    holdfast.comes_to_print(&["WARN", MANAGED, "claims to be a managed Envoy", "end the process"]).await?;

    // After a crash the Envoy is adopted, and connects to the same socket.
    let holdfast = world.run_with(holdfast.kill()?).await?;
    edits_are_served(&world, port, 2 + EDITS).await?;
    nothing_is_broken(&holdfast).await?;
    let envoys = holdfast.diagnostics("/debug/envoys").await?;
    ensure!(envoys["managed"].as_array().is_some_and(|all| all.iter().all(|one| one["adopted"] == true)), "{envoys}");
    ensure!(impostor.refusals() == 0, "{impostor:?}");
    Ok(())
}

async fn with_the_id_of_a_managed_envoy(world: World) -> Result<()> {
    takes_the_id(world, &REPLACE).await
}

async fn with_the_id_of_a_managed_envoy_and_last_valid_versions(world: World) -> Result<()> {
    takes_the_id(world, &BACKFILL).await
}

/// The client is another Envoy, and its refusals are reported as those of another build: they concern no other Envoy.
async fn with_another_id(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    for (flags, first) in [(&REPLACE[..], 2), (&BACKFILL, 2 + EDITS)] {
        let (port, holdfast, xds, build) = served(&world, flags).await?;
        let impostor = Impostor::start(xds, "own", "default/public", &build)?;
        until("it refuses", || async {
            ensure!(impostor.refusals() >= 1, "it refuses nothing");
            Ok(())
        })
        .await?;
        edits_are_served(&world, port, first).await?;
        ensure!(impostor.turned_away() == 0, "{impostor:?}");
        let envoys = holdfast.diagnostics("/debug/envoys").await?;
        let builds = |node: &str| -> Vec<&Value> {
            let all = envoys["connected"].as_array().into_iter().flatten();
            all.filter(|envoy| envoy["node"] == node).map(|envoy| &envoy["build"]).collect()
        };
        ensure!(builds("own") == ["unmanaged"] && builds(MANAGED) == [build.as_str()], "{envoys}");
        holdfast.terminate().await?.expect_code(0)?;
    }
    Ok(())
}
