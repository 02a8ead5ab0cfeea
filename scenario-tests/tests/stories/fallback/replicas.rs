//! Two replicas, each with an Envoy: one is killed during a refusal, and the other serves the same.
//!
//! Envoys share the Gateway's port: the kernel selects one of them for each connection.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use super::{BACKFILL, comes_to_blame, good, refused, serves, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback::replicas", true, [one_is_killed_in_fallback])
}

/// Number of connections after which each of two Envoys has had at least one, except once in a billion cases.
const CONNECTIONS: usize = 30;

async fn everywhere(port: u16, path: &str, version: &str) -> Result<()> {
    until(&format!("{path} is served in version {version} by every Envoy"), || async {
        for _ in 0..CONNECTIONS {
            serves(port, path, version).await?;
        }
        Ok(())
    })
    .await
}

/// Versions and contents of the route configurations of an Envoy.
async fn routes(envoy: &RunningEnvoy) -> Result<Vec<(Value, Value)>> {
    let dump = envoy.dump("dynamic_route_configs").await?;
    let configs = dump["configs"].as_array().context("no list")?;
    Ok(configs.iter().map(|config| (config["version_info"].clone(), config["route_config"].clone())).collect())
}

fn replica(world: &World, name: &str) -> Result<HoldfastOptions> {
    let shared = world.folder().join("shared").display().to_string();
    let mut options = unprobed(world, &BACKFILL)?.args(&["--shared-store", &shared]);
    options.data = world.folder().join(name);
    Ok(options)
}

async fn comes_to_lead(holdfast: &Holdfast) -> Result<()> {
    holdfast.comes_to_print(&["Leader"]).await
}

async fn one_is_killed_in_fallback(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let (leads, follows) = (replica(&world, "one")?, replica(&world, "two")?);
    let one = world.run_with(leads.clone()).await?;
    comes_to_lead(&one).await?;
    let two = world.run_with(follows.clone()).await?;
    let first = FleetEnvoy::small("first").start(&world, &leads).await?;
    let second = FleetEnvoy::small("second").start(&world, &follows).await?;
    everywhere(port, "/cart", "1").await?;
    everywhere(port, "/other", "1").await?;

    world.route("cart", &refused("/cart", "2"))?;
    comes_to_blame(&one, "nack", ["cart"]).await?;
    comes_to_blame(&two, "nack", ["cart"]).await?;
    everywhere(port, "/cart", "1").await?;
    // The leader has this Envoy try the content that its own Envoy refused.
    until("the second Envoy was asked", || async {
        ensure!(second.refusals().await? > 0, "no refusal yet");
        Ok(())
    })
    .await?;
    world.route("other", &good("/other", "2"))?;
    everywhere(port, "/other", "2").await?;
    // Before the leader has the answer, three configurations have the content: that of the follower itself, the one that
    // the leader has tried, and that of the edit.
    let refusals = second.refusals().await?;
    ensure!((1..=3).contains(&refusals), "the second Envoy refused {refusals} times");
    until("both Envoys have the same", || async {
        let (one, other) = (routes(&first).await?, routes(&second).await?);
        ensure!(!one.is_empty() && one == other, "{one:?}\n{other:?}");
        Ok(())
    })
    .await?;
    let before = routes(&second).await?;

    one.kill()?;
    first.kill()?;
    comes_to_lead(&two).await?;
    world.route("third", &good("/third", "1"))?;
    everywhere(port, "/third", "1").await?;
    world.delete("route-third.yaml")?;
    until("all is as it was", || async {
        let now = routes(&second).await?;
        ensure!(now == before, "{now:?}\n{before:?}");
        Ok(())
    })
    .await?;
    serves(port, "/cart", "1").await?;
    ensure!(second.refusals().await? == refusals, "the second Envoy is sent again what it refused");
    comes_to_blame(&two, "nack", ["cart"]).await?;
    world.route("cart", &good("/cart", "3"))?;
    everywhere(port, "/cart", "3").await?;
    ensure!(second.refusals().await? == refusals, "what is mended is refused");
    Ok(())
}
