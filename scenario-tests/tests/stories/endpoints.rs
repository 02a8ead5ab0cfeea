//! Endpoints change every second without a failed request.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, service};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "endpoints",
        true,
        [all_pods_are_used, pods_are_replaced_under_load, pods_that_are_not_ready, service_without_pods_answers_503]
    )
}

async fn all_pods_are_used(world: World) -> Result<()> {
    let mut pods = Vec::new();
    for name in ["pod-1", "pod-2", "pod-3"] {
        pods.push(world.pod("default", "echo", name).await?);
    }
    let addresses: Vec<_> = pods.iter().map(|pod| pod.address()).collect();
    world.write("service.yaml", service("default", "echo", None, &addresses))?;
    let port = world.gateway()?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_answer(200).await?;
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        seen.insert(get(port, "/").send().await?.pod()?);
    }
    ensure!(seen.len() == 3, "{seen:?}");
    Ok(())
}

async fn pods_are_replaced_under_load(world: World) -> Result<()> {
    let blue = world.pod("default", "echo", "blue").await?;
    let green = world.pod("default", "echo", "green").await?;
    let with =
        |addresses: &[std::net::SocketAddr]| world.write("service.yaml", service("default", "echo", None, addresses));
    let port = world.gateway()?;
    with(&[blue.address()])?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_reach("blue").await?;
    let load = Hammer::start([get(port, "/load"), get(port, "/load").http2()]);
    for _ in 0..5 {
        with(&[green.address()])?;
        get(port, "/").comes_to_reach("green").await?;
        with(&[green.address(), blue.address()])?;
        load.goes_on(10).await?;
        with(&[blue.address()])?;
        get(port, "/").comes_to_reach("blue").await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    // A removed pod does not receive requests any more.
    with(&[blue.address()])?;
    get(port, "/").comes_to_reach("blue").await?;
    until("the pod that left is not asked any more", || async {
        let before = green.received();
        for _ in 0..20 {
            get(port, "/").reaches("blue").await?;
        }
        ensure!(green.received() == before);
        Ok(())
    })
    .await
}

async fn pods_that_are_not_ready(world: World) -> Result<()> {
    let ready = world.pod("default", "echo", "ready").await?;
    let starting = world.pod("default", "echo", "starting").await?;
    let text = service("default", "echo", None, &[ready.address(), starting.address()]);
    let (head, tail) = text.rsplit_once("ready: true").unwrap_or_default();
    world.write("service.yaml", format!("{head}ready: false{tail}"))?;
    let port = world.gateway()?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_reach("ready").await?;
    for _ in 0..30 {
        get(port, "/").reaches("ready").await?;
    }
    ensure!(starting.received() == 0, "a pod that is not ready was asked");
    world.write("service.yaml", &text)?;
    get(port, "/").comes_to_reach("starting").await?;
    Ok(())
}

/// A Service without pods is not a broken reference: the response is 503.
async fn service_without_pods_answers_503(world: World) -> Result<()> {
    let echo = world.pod("default", "echo", "echo").await?;
    let port = world.gateway()?;
    world.write("service.yaml", service("default", "echo", None, &[]).trim_end_matches("---\n"))?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_answer(503).await?;
    world.write("slices.yaml", manifests::slices("default", "echo", &[echo.address()]))?;
    get(port, "/").comes_to_reach("echo").await?;
    world.delete("slices.yaml")?;
    get(port, "/").comes_to_answer(503).await?;
    Ok(())
}
