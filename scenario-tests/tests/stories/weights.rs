//! Weights: the share of the requests that each backend receives.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::ask::{Ask, get};
use holdfast_scenario_tests::{Story, World, stories};

/// With this number of requests and the bounds below, a fair distribution fails less than once in a million runs.
const REQUESTS: u32 = 400;

pub(crate) fn stories() -> Vec<Story> {
    stories!("weights", true, [shares, zero_gets_nothing, missing_back_end_answers_500_for_its_share])
}

/// Returns the number of requests by pod, or by status where no pod answered.
async fn shares_of(ask: &Ask) -> Result<BTreeMap<String, u32>> {
    let mut connection = ask.connect().await?;
    let mut shares = BTreeMap::new();
    for _ in 0..REQUESTS {
        let reply = ask.send_on(&mut connection).await?;
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
    let ask = get(port, "/");
    ask.comes_to_answer(200).await?;
    let shares = shares_of(&ask).await?;
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
    let ask = get(port, "/some");
    ask.comes_to_reach("all").await?;
    between(&shares_of(&ask).await?, "all", REQUESTS, REQUESTS)?;
    let nobody = get(port, "/nobody").send().await?;
    ensure!(nobody.status.as_u16() >= 400 && nobody.echo().is_err(), "{nobody:?}");
    ensure!(none.received() == 0, "a backend of weight 0 was asked {} times", none.received());
    ensure!(all.received() > 0);
    Ok(())
}

async fn missing_back_end_answers_500_for_its_share(world: World) -> Result<()> {
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
    let ask = get(port, "/");
    ask.comes_to_reach("there").await?;
    let shares = shares_of(&ask).await?;
    between(&shares, "there", 140, 260)?;
    between(&shares, "500", 140, 260)?;
    ensure!(shares.len() == 2, "{shares:?}");
    Ok(())
}
