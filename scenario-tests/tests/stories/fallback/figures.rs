//! Durations of the fallback: printed, not checked. Runs only with `HOLDFAST_FIGURES`, preferably with no other load.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, small_binary};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories};

use super::estate::{Estate, RouteFault};
use super::{BACKFILL, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    if std::env::var_os("HOLDFAST_FIGURES").is_none() {
        return Vec::new();
    }
    stories!("fallback::figures", true, [a_thousand_routes, ten_thousand_routes])
}

/// Maximum duration of any step.
const LONG: Duration = Duration::from_secs(180);
/// Numbers of culprits in an edit; each edit is repeated three times.
const CULPRITS: [usize; 2] = [1, 5];

async fn a_thousand_routes(world: World) -> Result<()> {
    figures(&world, 1_000).await
}

async fn ten_thousand_routes(world: World) -> Result<()> {
    figures(&world, 10_000).await
}

async fn figures(world: &World, count: usize) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let estate = Estate::new(world, port, count);
    estate.write(1, &BTreeMap::new())?;

    let options = unprobed(world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy::small("one").start(world, &options).await?;
    all_served(&estate, count, 1).await?;
    for (round, culprits) in CULPRITS.into_iter().enumerate() {
        let version = u32::try_from(10 * (round + 1))?;
        one_edit(&estate, count, version, culprits, "without a probe", Some(&envoy)).await?;
    }
    envoy.kill()?;
    cold_start(world, holdfast, &estate, count).await?;

    let world = World::new()?;
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let estate = Estate::new(&world, port, count);
    estate.write(1, &BTreeMap::new())?;
    let binary = small_binary(&world)?.display().to_string();
    let options = HoldfastOptions::new(&world)?.args(&["--probe", "on"]).args(&BACKFILL).env("ENVOY_BIN", &binary);
    let _holdfast = world.run_with(options).await?;
    all_served(&estate, count, 1).await?;
    for (round, culprits) in CULPRITS.into_iter().enumerate() {
        let version = u32::try_from(10 * (round + 1))?;
        one_edit(&estate, count, version, culprits, "with a probe", None).await?;
    }
    Ok(())
}

/// Writes the file of one owner with some broken routes, then corrects them. An edit counts as isolated when the last
/// of its valid routes is served in its new version, which requires that all broken routes are excluded.
async fn one_edit(
    estate: &Estate,
    count: usize,
    version: u32,
    culprits: usize,
    how: &str,
    envoy: Option<&RunningEnvoy>,
) -> Result<()> {
    let (mut isolated, mut healed, mut rounds) = (Vec::new(), Vec::new(), Vec::new());
    for time in 0..3_u32 {
        let owner = (count / 10) / 3 + usize::try_from(time)?;
        // Of ten routes the last one is always valid.
        let flaws: BTreeMap<usize, RouteFault> =
            (0..culprits).map(|number| (owner * 10 + number, RouteFault::Large)).collect();
        let before = match envoy {
            Some(envoy) => envoy.refusals().await?,
            None => 0,
        };
        let started = Instant::now();
        estate.write_of(owner, version + 2 * time, &flaws)?;
        served(estate, owner * 10 + 9, version + 2 * time).await?;
        isolated.push(started.elapsed());
        if let Some(envoy) = envoy {
            rounds.push(envoy.refusals().await? - before);
        }
        let started = Instant::now();
        estate.write_of(owner, version + 2 * time + 1, &BTreeMap::new())?;
        for route in [0, 9] {
            served(estate, owner * 10 + route, version + 2 * time + 1).await?;
        }
        healed.push(started.elapsed());
    }
    eprintln!(
        "fallback: {count} routes, {how}, {culprits} of 10 edited ones broken: isolated after {isolated:?} (refusals \
         {rounds:?}), healed after {healed:?}"
    );
    Ok(())
}

/// Measures Holdfast and a new Envoy: the first response comes from the store, before any manifest is read.
async fn cold_start(world: &World, holdfast: Holdfast, estate: &Estate, count: usize) -> Result<()> {
    // Waits until the last acknowledged versions are on the disk.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let options = holdfast.kill()?;
    for _ in 0..3 {
        let started = Instant::now();
        let holdfast = Holdfast::start(world, options.clone())?;
        while tokio::net::TcpStream::connect(&options.xds).await.is_err() {
            ensure!(started.elapsed() < LONG, "it never listens");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let listens = started.elapsed();
        let envoy = FleetEnvoy::small("cold").start(world, &options).await?;
        let started = Instant::now();
        served(estate, 0, 1).await?;
        let answered = started.elapsed();
        eprintln!(
            "fallback: {count} routes, cold start: xDS is served {listens:?} after Holdfast was started, a fresh Envoy \
             answers {answered:?} after its own start; all manifests are read: {}",
            holdfast.output().contains("read all objects")
        );
        envoy.kill()?;
        holdfast.kill()?;
    }
    Ok(())
}

async fn all_served(estate: &Estate, count: usize, version: u32) -> Result<()> {
    for route in [0, count / 2, count - 1] {
        served(estate, route, version).await?;
    }
    Ok(())
}

/// Waits until a route is served in a version.
async fn served(estate: &Estate, route: usize, version: u32) -> Result<()> {
    let wanted = version.to_string();
    let polling = async {
        loop {
            if let Ok(reply) = estate.request(route).send().await
                && reply.header("x-version") == wanted
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, polling).await.with_context(|| format!("r{route} is never served in version {version}"))
}
