//! The sequence of measurements for one number of routes, in standalone mode.

use anyhow::{Context, Result};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::echo::{Echo, EchoOptions};
use holdfast_scenario_tests::manifests::NAMESPACE;

use crate::fixture::{Edited, Fixture};
use crate::report::{Run, Stages, VirtualHosts};
use crate::start::Running;
use crate::{edits, floors, through_envoy};

/// Measures everything for one number of routes, in a world of its own; an error has the end of the logs.
pub(crate) async fn measure(routes: usize, count: usize, virtual_hosts: VirtualHosts) -> Result<Run> {
    let world = World::new()?;
    let measured = sequence(&world, routes, count, virtual_hosts).await;
    measured.with_context(|| format!("measurement of {routes} routes\n{}", world.logs()))
}

async fn sequence(world: &World, routes: usize, count: usize, virtual_hosts: VirtualHosts) -> Result<Run> {
    progress(routes, "cold start");
    let echo = Echo::start(EchoOptions { recorded_max: 0, ..EchoOptions::new(NAMESPACE, "echo", "echo") }).await?;
    let fixture = Fixture::write(world, routes, echo.address(), virtual_hosts)?;
    let port = world.port()?;
    let mut options = fixture.options("off")?.without_envoy();
    options.xds = format!("127.0.0.1:{port}");
    let (mut running, cold_start) = Running::start(options.clone(), port, &fixture).await?;
    running.settle().await?;
    let after_start = running.memory()?;
    progress(routes, "idle");
    let idle = edits::idle(&mut running, count).await?;

    progress(routes, "edits");
    let mut edited = Edited::default();
    let (edit, response) = edits::effective(&mut running, &fixture, &mut edited, count, idle).await?;
    progress(routes, "rewrites without effect");
    let half = count.div_ceil(2);
    let annotate = |edited: &mut Edited| edited.annotation += 1;
    let annotation = edits::without_effect(&mut running, &fixture, &mut edited, half, idle, annotate).await?;
    let same_bytes = edits::without_effect(&mut running, &fixture, &mut edited, half, idle, |_| {}).await?;
    running.settle().await?;
    let after_edits = running.memory()?;

    progress(routes, "restart");
    running.holdfast.terminate().await?.expect_code(0)?;
    let (mut running, restart) = Running::start(options, port, &fixture).await?;
    running.settle().await?;
    let after_restart = running.memory()?;
    running.holdfast.terminate().await?.expect_code(0)?;

    progress(routes, "Envoy");
    let envoy = through_envoy::measure(&fixture, &mut edited, count).await?;
    progress(routes, "floors");
    let floors = floors::measure(&fixture, world.folder(), response, count).await?;
    Ok(Run {
        routes,
        cold_start,
        restart,
        edit,
        annotation,
        same_bytes,
        idle_cpu_percent: idle * 100.0,
        memory: Stages { after_start, after_edits, after_restart },
        memory_per_route: None,
        floors,
        envoy: Some(envoy),
    })
}

fn progress(routes: usize, step: &str) {
    eprintln!("{routes} routes: {step}");
}
