//! Weights: the share of the requests that each backend receives.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Story, World, stories};

/// With this number of requests and the bounds below, a fair distribution fails less than once in a million runs.
const REQUESTS: u32 = 400;

pub(crate) fn stories() -> Vec<Story> {
    stories!("weights", true, [shares, zero_gets_nothing, missing_backend_answers_500_for_its_share])
}

/// Returns the number of requests by pod, or by status where no pod answered.
async fn shares_of(request: &HttpRequest) -> Result<BTreeMap<String, u32>> {
    let mut connection = request.connect().await?;
    let mut shares = BTreeMap::new();
    for _ in 0..REQUESTS {
        let reply = request.send_on(&mut connection).await?;
        let end = reply.pod().unwrap_or_else(|_| reply.status.as_u16().to_string());
        *shares.entry(end).or_default() += 1;
    }
    Ok(shares)
}

fn between(shares: &BTreeMap<String, u32>, end: &str, least: u32, most: u32) -> Result<()> {
    let share = shares.get(end).copied().unwrap_or(0);
    ensure!((least..=most).contains(&share), "{end} has {share} of {REQUESTS}, not {least} to {most}: {shares:?}");
    Ok(())
}

async fn shares(world: World) -> Result<()> {
    let _backends = (world.backend("most").await?, world.backend("some").await?, world.backend("few").await?);
    let port = world.gateway()?;
    world.route(
        "weighted",
        r"rules:
- backendRefs:
  - {name: most, port: 8080, weight: 70}
  - {name: some, port: 8080, weight: 20}
  - {name: few, port: 8080, weight: 10}",
    )?;
    let _holdfast = world.run().await?;
    let request = get(port, "/");
    request.comes_to_answer(200).await?;
    let shares = shares_of(&request).await?;
    between(&shares, "most", 230, 330)?;
    between(&shares, "some", 40, 125)?;
    between(&shares, "few", 10, 80)
}

async fn zero_gets_nothing(world: World) -> Result<()> {
    let all = world.backend("all").await?;
    let none = world.backend("none").await?;
    let port = world.gateway()?;
    world.route(
        "weighted",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /some}}]
  backendRefs:
  - {name: none, port: 8080, weight: 0}
  - {name: all, port: 8080, weight: 1}
- matches: [{path: {type: PathPrefix, value: /nobody}}]
  backendRefs:
  - {name: none, port: 8080, weight: 0}",
    )?;
    let _holdfast = world.run().await?;
    let request = get(port, "/some");
    request.comes_to_reach("all").await?;
    between(&shares_of(&request).await?, "all", REQUESTS, REQUESTS)?;
    let unserved = get(port, "/nobody").send().await?;
    ensure!(unserved.status.as_u16() >= 400 && unserved.echo().is_err(), "{unserved:?}");
    ensure!(none.received() == 0, "a backend of weight 0 was asked {} times", none.received());
    ensure!(all.received() > 0);
    Ok(())
}

async fn missing_backend_answers_500_for_its_share(world: World) -> Result<()> {
    let _there = world.backend("there").await?;
    let port = world.gateway()?;
    world.route(
        "weighted",
        r"rules:
- backendRefs:
  - {name: there, port: 8080, weight: 1}
  - {name: missing, port: 8080, weight: 1}",
    )?;
    let _holdfast = world.run().await?;
    let request = get(port, "/");
    request.comes_to_reach("there").await?;
    let shares = shares_of(&request).await?;
    between(&shares, "there", 140, 260)?;
    between(&shares, "500", 140, 260)?;
    ensure!(shares.len() == 2, "{shares:?}");
    Ok(())
}
