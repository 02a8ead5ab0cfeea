//! Endpoints are never held back: while a route is broken, requests follow the pods.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::manifests::service;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Story, World, stories};

use super::refused::{refuses_something, two_routes};
use super::{BACKFILL, LEAVE_OUT, REPLACE, comes_to_serve, good, refused, request, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::pods",
        true,
        [follow_while_backfilled, follow_while_replaced, follow_while_left_out, follow_while_held, follow_the_suspects]
    )
}

/// Sets the pods of the backend.
fn pods(world: &World, addresses: &[std::net::SocketAddr]) -> Result<()> {
    world.write("service-default-echo.yaml", service("default", "echo", None, addresses))
}

/// Pods are replaced and go away while `/cart` is broken; `requests` are those that are still forwarded.
///
/// Returns the last pod, so that it stays.
async fn follow(world: &World, port: u16, requests: &[HttpRequest], cart: u16) -> Result<Echo> {
    let mut last = None;
    for name in ["second", "third"] {
        let pod = world.pod("default", "echo", name).await?;
        pods(world, &[pod.address()])?;
        for request in requests {
            request.comes_to_reach(name).await?;
        }
        for _ in 0..10 {
            for request in requests {
                request.reaches(name).await?;
            }
            request(port, "/cart").answers(cart).await?;
        }
        if name == "third" {
            pods(world, &[])?;
            for request in requests {
                request.comes_to_answer(503).await?;
            }
            pods(world, &[pod.address()])?;
            for request in requests {
                request.comes_to_reach(name).await?;
            }
        }
        last = Some(pod);
    }
    last.context("no pod")
}

async fn follow_while_backfilled(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &BACKFILL).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    let _pod = follow(&world, port, &[request(port, "/cart"), request(port, "/other")], 200).await?;
    super::serves(port, "/cart", "1").await
}

async fn follow_while_replaced(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, _envoy) = two_routes(&world, &REPLACE).await?;
    world.route("cart", &refused("/cart", "2"))?;
    let reply = request(port, "/cart").comes_to_answer(404).await?;
    ensure!(!reply.body.is_empty(), "nothing stands in its place");
    follow(&world, port, &[request(port, "/other")], 404).await.map(drop)
}

async fn follow_while_left_out(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, _envoy) = two_routes(&world, &LEAVE_OUT).await?;
    world.route("cart", &refused("/cart", "2"))?;
    let reply = request(port, "/cart").comes_to_answer(404).await?;
    ensure!(reply.body.is_empty(), "something stands in its place: {reply:?}");
    follow(&world, port, &[request(port, "/other")], 404).await.map(drop)
}

async fn follow_while_held(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &[]).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    let _pod = follow(&world, port, &[request(port, "/cart"), request(port, "/other")], 200).await?;
    super::serves(port, "/cart", "1").await
}

/// Pods change while suspects are tried one after another on one of two Envoys.
async fn follow_the_suspects(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let all = |version: &str, broken: bool| {
        for number in 0..12 {
            let path = format!("/r{number}");
            let spec = if broken && number % 4 == 1 { refused(&path, version) } else { good(&path, version) };
            world.route(&format!("r{number}"), &spec)?;
        }
        anyhow::Ok(())
    };
    all("1", false)?;
    let options = unprobed(&world, &BACKFILL)?;
    let _holdfast = world.run_with(options.clone()).await?;
    let _one = FleetEnvoy::small("one").start(&world, &options).await?;
    let _two = FleetEnvoy::small("two").start(&world, &options).await?;
    for number in 0..12 {
        comes_to_serve(port, &format!("/r{number}"), "1").await?;
    }
    all("2", true)?;
    for name in ["second", "third", "fourth"] {
        let pod = world.pod("default", "echo", name).await?;
        pods(&world, &[pod.address()])?;
        for number in 0..12 {
            get(port, &format!("/r{number}/a-b")).comes_to_reach(name).await?;
        }
    }
    Ok(())
}
