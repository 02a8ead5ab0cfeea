//! The end of a run: everything is repaired, and must be served and reported as desired.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::story::dice::Dice;
use tokio::time::{Instant, sleep};

use super::edits::Edit;
use super::processes::Processes;
use super::slot::Slot;
use super::state::Shared;
use super::watch::envoy_of;

/// Time after the repair within which everything must be served as desired.
const REPAIRED_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(200);
/// Number of requests of one look at a route: each of three Envoys then has at least one, except once in a billion.
const REQUESTS: usize = 60;

/// Makes every route valid.
pub(super) fn repair(world: &World, shared: &Shared, dice: &mut Dice) -> Result<()> {
    let mut state = shared.lock();
    for index in 0..state.slots.len() {
        let edit = if state.slots[index].form.is_some() { Edit::Repair } else { Edit::Create };
        state.edit(index, edit, dice, world)?;
    }
    Ok(())
}

/// Waits until every Envoy serves every route as desired, and Holdfast reports so.
pub(super) async fn comes_to_be_served(processes: &Processes, shared: &Shared) -> Result<()> {
    let began = Instant::now();
    let (mut slots, nodes) = {
        let state = shared.lock();
        (state.slots.clone(), state.envoys.keys().cloned().collect::<BTreeSet<_>>())
    };
    loop {
        let mut left = Vec::new();
        let mut last = Ok(());
        for slot in slots {
            if let Err(error) = is_served(processes.port, &slot, &nodes).await {
                last = Err(error);
                left.push(slot);
            }
        }
        slots = left;
        if last.is_ok() {
            last = is_reported(processes).await;
        }
        match last {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > REPAIRED_MAX => return Err(error),
            Err(_) => sleep(POLL).await,
        }
    }
}

async fn is_served(port: u16, slot: &Slot, nodes: &BTreeSet<String>) -> Result<()> {
    let request = slot.served_request(port).with_context(|| format!("{} is deleted", slot.name))?;
    let mut missing = nodes.clone();
    let mut sent = 0;
    while !missing.is_empty() {
        let reply = request.send().await?;
        if !slot.is_right(&reply) {
            bail!("{} is not served as desired after the repair: {reply:?}\n{}", slot.name, slot.manifest());
        }
        if let Some(node) = envoy_of(&reply) {
            missing.remove(node);
        }
        sent += 1;
        ensure!(sent < REQUESTS, "no reply of {missing:?} for {}; the last one is {reply:?}", slot.name);
    }
    Ok(())
}

async fn is_reported(processes: &Processes) -> Result<()> {
    let holdfast = processes.holdfast.as_ref().context("Holdfast is not up")?;
    let health = holdfast.diagnostics("/debug/health").await?;
    ensure!(health["verdict"] == "healthy", "everything is served as desired, and health reports {health}");
    let fallback = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(fallback["status"] == "not-triggered", "everything is served as desired, and it reports {fallback}");
    Ok(())
}
