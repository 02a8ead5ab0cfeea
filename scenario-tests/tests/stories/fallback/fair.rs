//! Fairness: many routes of one namespace change all the time and are refused each time; edits of another namespace are
//! not delayed.
//!
//! The default run is short and checks only a generous time limit. With `HOLDFAST_FIGURES` it measures 100 edits beside
//! 100 routes that change 20 times a second, and prints the durations.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, small_binary};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::route;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use super::{BACKFILL, SAMPLE, good, refused, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback::fair", true, [beside_a_crowd_without_a_probe, beside_a_crowd_with_a_probe])
}

/// The namespace of the routes that are refused.
const CROWD: &str = "crowd";
/// The namespace of the measured route.
const CALM: &str = "calm";
/// Maximum duration of any edit; the measured figures are far below.
const LONG: Duration = Duration::from_secs(120);

/// Size of a run.
struct Extent {
    /// Number of routes that are refused.
    routes: usize,
    /// Time between two edits of any of them.
    every: Duration,
    /// Number of measured edits.
    edits: u32,
}

impl Extent {
    fn of_this_run() -> Self {
        match std::env::var_os("HOLDFAST_FIGURES") {
            Some(_) => Self { routes: 100, every: Duration::from_millis(50), edits: 100 },
            None => Self { routes: 20, every: Duration::from_millis(100), edits: 8 },
        }
    }
}

fn write(world: &World, namespace: &str, name: &str, spec: &str) -> Result<()> {
    let parents = "- name: public\n  namespace: default\n";
    world.write(&format!("{namespace}-{name}.yaml"), route("HTTPRoute", namespace, name, parents, spec))
}

/// Edits the routes of the crowd in turn, until the task is stopped.
async fn flap(world: World, routes: usize, every: Duration) -> Result<()> {
    let mut ticks = tokio::time::interval(every);
    for version in 2_usize.. {
        ticks.tick().await;
        let number = version % routes;
        write(&world, CROWD, &format!("r{number}"), &refused(&format!("/crowd{number}"), &version.to_string()))?;
    }
    Ok(())
}

async fn serves_within(port: u16, path: &str, version: &str) -> Result<Duration> {
    let started = Instant::now();
    let polling = async {
        loop {
            let reply = get(port, &format!("{path}/{SAMPLE}")).send().await;
            if reply.is_ok_and(|reply| reply.header("x-version") == version) {
                return started.elapsed();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, polling).await.with_context(|| format!("{path} is never served in version {version}"))
}

/// Returns detector and message of each broken object of a namespace.
async fn broken_objects(holdfast: &Holdfast, namespace: &str) -> Result<Vec<(String, String)>> {
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    let broken = report["brokenObjects"].as_array().context("no list")?;
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let own = broken.iter().filter(|object| object["namespace"] == namespace);
    Ok(own.map(|object| (text(object, "detectedBy"), text(object, "message"))).collect())
}

async fn beside_a_crowd(world: &World, options: HoldfastOptions, how: &str) -> Result<()> {
    let Extent { routes, every, edits } = Extent::of_this_run();
    let mut echoes = Vec::new();
    for namespace in [CROWD, CALM] {
        echoes.push(world.backend_in(namespace, "echo", None).await?);
    }
    let port = world.gateway()?;
    for number in 0..routes {
        write(world, CROWD, &format!("r{number}"), &good(&format!("/crowd{number}"), "1"))?;
    }
    write(world, CALM, "calm", &good("/calm", "1"))?;
    let probed = how == "with a probe";
    let holdfast = match probed {
        true => world.run_with(options.clone()).await?,
        false => Holdfast::start(world, options.clone())?,
    };
    let envoy = match probed {
        true => None,
        false => Some(FleetEnvoy::small("one").start(world, &options).await?),
    };
    for path in ["/calm".to_owned(), format!("/crowd{}", routes - 1)] {
        serves_within(port, &path, "1").await?;
    }
    let load = Hammer::start([get(port, &format!("/calm/{SAMPLE}"))]);
    let began = Instant::now();
    let crowd = tokio::spawn(flap(world.clone(), routes, every));
    let (mut took, mut accused) = (Vec::new(), Vec::new());
    for version in 2..edits + 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        write(world, CALM, "calm", &good("/calm", &version.to_string()))?;
        let Ok(edit_took) = serves_within(port, "/calm", &version.to_string()).await else {
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            bail!("/calm is never served in version {version}; fallback page: {report:#}");
        };
        took.push(edit_took);
        let broken = broken_objects(&holdfast, CALM).await?;
        accused.extend(
            broken.into_iter().filter(|(detected, message)| detected != "suspected" || message.contains("regex")),
        );
    }
    crowd.abort();
    let lasted = began.elapsed();
    let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
    took.sort_unstable();
    let rank = |percent: usize| took.get((took.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    eprintln!(
        "fallback: {edits} edits beside {routes} refused routes that change every {every:?}, {how}: p50 {:?}, p99 {:?}, max \
         {:?}; {nacks} refusals by the Envoy that serves in {lasted:?}; {} times the route had a message about another one",
        rank(50),
        rank(99),
        took.last(),
        accused.len(),
    );
    ensure!(accused.is_empty(), "the calm route is told of: {accused:?}");
    until("nobody of the calm namespace is suspected", || async {
        let broken = broken_objects(&holdfast, CALM).await?;
        ensure!(broken.is_empty(), "{broken:?}");
        Ok(())
    })
    .await?;
    if probed {
        ensure!(nacks == 0.0, "{nacks} refusals by the Envoy that serves");
    }
    // In the end the crowd is served too.
    let version = "healed".to_owned();
    for number in 0..routes {
        write(world, CROWD, &format!("r{number}"), &good(&format!("/crowd{number}"), &version))?;
    }
    for number in [0, routes / 2, routes - 1] {
        serves_within(port, &format!("/crowd{number}"), &version).await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    drop(envoy);
    Ok(())
}

async fn beside_a_crowd_without_a_probe(world: World) -> Result<()> {
    let options = unprobed(&world, &BACKFILL)?;
    beside_a_crowd(&world, options, "without a probe").await
}

async fn beside_a_crowd_with_a_probe(world: World) -> Result<()> {
    let binary = small_binary(&world)?.display().to_string();
    let options = HoldfastOptions::new(&world)?.args(&["--probe", "on"]).args(&BACKFILL).env("ENVOY_BIN", &binary);
    beside_a_crowd(&world, options, "with a probe").await
}
