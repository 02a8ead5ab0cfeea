//! The sequence of measurements for one number of routes.

use anyhow::{Context, Result};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::echo::{Echo, EchoOptions};
use holdfast_scenario_tests::manifests::NAMESPACE;

use crate::fixture::Fixture;
use crate::objects::Edited;
use crate::report::{Input, Run, Stages, VirtualHosts};
use crate::start::Running;
use crate::{edits, floors, through_envoy};

/// What is measured with a folder only, each with the reason.
const FOLDER_ONLY: [&str; 2] = [
    "the same object again: the API server sends no event for it",
    "edits through an Envoy: the same as with a folder, from the xDS server on",
];

/// Measures everything for one number of routes, in a world of its own; an error has the end of the logs.
pub(crate) async fn measure(input: Input, routes: usize, count: usize, virtual_hosts: VirtualHosts) -> Result<Run> {
    let world = World::new()?;
    let measured = sequence(&world, input, routes, count, virtual_hosts).await;
    measured.with_context(|| format!("measurement of {routes} routes\n{}", world.logs()))
}

async fn sequence(
    world: &World,
    input: Input,
    routes: usize,
    count: usize,
    virtual_hosts: VirtualHosts,
) -> Result<Run> {
    let has_folder = input == Input::Folder;
    progress(routes, "objects");
    let echo = Echo::start(EchoOptions { recorded_max: 0, ..EchoOptions::new(NAMESPACE, "echo", "echo") }).await?;
    let fixture = Fixture::create(input, world, routes, echo.address(), virtual_hosts).await?;
    progress(routes, "cold start");
    let port = world.port()?;
    let mut options = fixture.options("off")?.without_envoy();
    options.xds = format!("127.0.0.1:{port}");
    let before = fixture.requests().await?.writes;
    let (mut running, cold_start) = Running::start(options.clone(), port, &fixture).await?;
    let statuses = if has_folder { 0 } else { before + routes as u64 };
    let settled = running.settle(&fixture, statuses).await?;
    let statuses = if has_folder { None } else { Some(running.statuses(&fixture, settled, before).await?) };
    let after_start = running.memory()?;
    progress(routes, "idle");
    let idle = edits::idle(&mut running, &fixture, count).await?;

    progress(routes, "edits");
    let mut edited = Edited::default();
    let (edit, response) = edits::effective(&mut running, &fixture, &mut edited, count, idle).await?;
    progress(routes, "edits without effect");
    let half = count.div_ceil(2);
    let annotate = |edited: &mut Edited| edited.annotation += 1;
    let annotation = edits::without_effect(&mut running, &fixture, &mut edited, half, idle, annotate).await?;
    let same_bytes = if has_folder {
        Some(edits::without_effect(&mut running, &fixture, &mut edited, half, idle, |_| {}).await?)
    } else {
        None
    };
    running.settle(&fixture, 0).await?;
    let after_edits = running.memory()?;

    progress(routes, "restart");
    running.holdfast.terminate().await?.expect_code(0)?;
    let (mut running, restart) = Running::start(options, port, &fixture).await?;
    running.settle(&fixture, 0).await?;
    let after_restart = running.memory()?;
    running.holdfast.terminate().await?.expect_code(0)?;

    let mut envoy = None;
    if has_folder {
        progress(routes, "Envoy");
        envoy = Some(through_envoy::measure(&fixture, &mut edited, count).await?);
    }
    progress(routes, "floors");
    let floors = floors::measure(&fixture, &mut edited, response, count).await?;
    Ok(Run {
        routes,
        cold_start,
        statuses,
        restart,
        edit,
        annotation,
        same_bytes,
        idle_cpu_percent: idle * 100.0,
        memory: Stages { after_start, after_edits, after_restart },
        memory_per_route: None,
        floors,
        envoy,
        left_out: if has_folder { Vec::new() } else { FOLDER_ONLY.map(str::to_owned).into() },
    })
}

fn progress(routes: usize, step: &str) {
    eprintln!("{routes} routes: {step}");
}
