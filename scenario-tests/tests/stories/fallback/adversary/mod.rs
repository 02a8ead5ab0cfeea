//! The adversary: a seeded program that attacks Holdfast without a probe, through files and kills, while oracles send
//! requests all the time.
//!
//! Two namespaces make edits of every sort, valid and broken; Holdfast and Envoys are killed, and Envoys are stopped for
//! seconds; in some runs one Envoy refuses or accepts what the others do not. A third namespace makes only valid edits.
//! Three oracles must hold:
//!
//! 1. A guarded route never responds from its backend without the credentials, whatever is broken.
//! 2. The third namespace is served as desired.
//! 3. A deleted route does not respond from its backend.
//!
//! At the end everything is repaired, and must be served and reported as desired.
//!
//! `HOLDFAST_ADVERSARY_SECONDS` sets the duration of the attack, `HOLDFAST_ADVERSARY_SEED` the seed,
//! `HOLDFAST_ADVERSARY_ALLOWANCE` the seconds by which a busy machine may exceed 5 seconds (20).

mod attack;
mod door;
mod edits;
mod form;
mod guard;
mod processes;
mod record;
mod repair;
mod row;
mod slot;
mod state;
mod watch;

use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use holdfast_scenario_tests::story::dice::Dice;
use holdfast_scenario_tests::{Story, World, stories};

use attack::Attack;
use door::{ALLOWANCE_SECONDS, ALLOWANCE_VARIABLE};
use processes::Processes;
use row::Row;
use state::Shared;

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback", true, [adversary])
}

/// The duration of the attack in an ordinary run, in seconds.
const SECONDS: u64 = 60;
/// The seed of an ordinary run.
const SEED: u64 = 0;
/// Added to the seed for the dice of the innocent namespace.
const CALM_SEED: u64 = 1 << 32;
/// Number of characters of a diagnostics page in the report of a failure.
const PAGE_MAX: usize = 6000;

fn number(variable: &str, default: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text.parse().with_context(|| format!("{variable}={text} is no number")),
        Err(_) => Ok(default),
    }
}

async fn adversary(world: World) -> Result<()> {
    let lasts = Duration::from_secs(number("HOLDFAST_ADVERSARY_SECONDS", SECONDS)?);
    let seed = number("HOLDFAST_ADVERSARY_SEED", SEED)?;
    number(ALLOWANCE_VARIABLE, ALLOWANCE_SECONDS)?;
    let row = Row::of(seed);
    let shared = Shared::new(seed, row);
    let mut processes = Processes::start(&world, &shared, row).await?;
    repair::comes_to_be_served(&processes, &shared).await.context("before the attack")?;
    let (dice, calm_dice) = (Dice::new(seed), Dice::new(seed + CALM_SEED));
    let mut attack = Attack { world: &world, shared: &shared, dice, calm_dice, row, step: 0 };
    let outcome = attacked(&mut attack, &mut processes, lasts).await;
    eprint!("{}", shared.lock().record);
    match outcome {
        Ok(()) => {
            eprintln!("  no failure");
            Ok(())
        }
        Err(error) => report(&processes, &shared, &error).await,
    }
}

/// Runs the attack and the oracles, then the repair.
async fn attacked(attack: &mut Attack<'_>, processes: &mut Processes, lasts: Duration) -> Result<()> {
    let (shared, port) = (attack.shared, processes.port);
    tokio::select! {
        outcome = attack.run(processes, lasts) => outcome?,
        violation = watch::watch(shared, port) => return violation,
    }
    processes.start_all().await?;
    repair::repair(attack.world, shared, &mut attack.dice)?;
    repair::comes_to_be_served(processes, shared).await
}

/// Fails with everything that is known about a violation.
async fn report(processes: &Processes, shared: &Shared, error: &Error) -> Result<()> {
    let (record, edits, names) = {
        let state = shared.lock();
        let names: Vec<String> = state.slots.iter().map(|slot| slot.name.clone()).collect();
        (state.record.to_string(), state.record.last_edits(), names)
    };
    let error = format!("{error:#}");
    let mut pages = String::new();
    for name in names.iter().filter(|name| error.contains(name.as_str())) {
        pages += &processes.served(name).await;
    }
    for page in ["/debug/config/fallback", "/debug/plan"] {
        let Some(holdfast) = &processes.holdfast else { continue };
        let text = holdfast.diagnostics(page).await.map_or_else(|error| format!("{error:#}"), |page| page.to_string());
        pages += &format!("{page}: {}\n", text.chars().take(PAGE_MAX).collect::<String>());
    }
    bail!("{error}\n{record}the last edits, the violation at {:?}:\n{edits}{pages}", shared.lock().record.now())
}
