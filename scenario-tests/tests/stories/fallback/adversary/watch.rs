//! The oracles: requests to every route, all the time, and their verdicts.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt;
use holdfast_scenario_tests::{HttpRequest, Reply};
use tokio::time::{Instant, MissedTickBehavior};

use super::door::Meaning;
use super::record::keep_longest;
use super::slot::{CALM, SENDERS, Sender};
use super::state::{Shared, State};

/// Interval between two rounds of requests.
const ROUND: Duration = Duration::from_millis(100);
/// Time that counts at most for one round: a machine that does not run the oracles does not run Holdfast either.
const ROUND_MAX: Duration = Duration::from_millis(300);
/// Time after which a request counts as without a reply.
const REPLY_MAX: Duration = Duration::from_secs(5);
/// Number of requests at the same time.
const AT_ONCE: usize = 8;

/// What a request checks.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The backend must not respond; with the state of knowledge.
    Shut(Sender, u64),
    /// The desired version must be served; with the version.
    Current(u64),
}

/// One request of a round.
struct Check {
    slot: usize,
    purpose: Purpose,
    request: HttpRequest,
}

/// Sends requests until an oracle is violated.
pub(super) async fn watch(shared: &Shared, port: u16) -> Result<()> {
    let mut ticks = tokio::time::interval(ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = Instant::now();
    for round in 0_u64.. {
        ticks.tick().await;
        let time = before.elapsed().min(ROUND_MAX);
        before = Instant::now();
        let checks = {
            let mut state = shared.lock();
            state.pass(time);
            checks(&mut state, port, round % 2 == 1)
        };
        let replies = futures::stream::iter(checks).map(|check: Check| async move {
            let reply = tokio::time::timeout(REPLY_MAX, check.request.send()).await;
            (check, reply.ok().and_then(Result::ok))
        });
        let mut replies = replies.buffer_unordered(AT_ONCE);
        while let Some((check, reply)) = replies.next().await {
            judge(&mut shared.lock(), &check, reply.as_ref())?;
        }
    }
    Ok(())
}

/// The requests of a round; those that must not reach a backend use the earlier hostname in every second round.
fn checks(state: &mut State, port: u16, uses_earlier_host: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    for (index, slot) in state.slots.iter_mut().enumerate() {
        let host = if uses_earlier_host { slot.host.saturating_sub(1) } else { slot.host };
        for sender in SENDERS {
            let door = *slot.door(sender);
            if let Some(request) = slot.request_to(port, sender, host).filter(|_| door.is_shut()) {
                checks.push(Check { slot: index, purpose: Purpose::Shut(sender, door.epoch), request });
            }
        }
        if let Some(request) = slot.served_request(port).filter(|_| slot.namespace == CALM) {
            checks.push(Check { slot: index, purpose: Purpose::Current(slot.version), request });
        }
    }
    checks
}

/// The Envoy that served a response of a backend.
pub(super) fn envoy_of(reply: &Reply) -> Option<&str> {
    let name = |name: &str| Some(name.strip_prefix("x-")?.strip_suffix("-upstream-service-time")?.len());
    let found = reply.headers.keys().find_map(|header| name(header.as_str()).map(|length| (header, length)));
    found.and_then(|(header, length)| header.as_str().get(2..2 + length))
}

fn judge(state: &mut State, check: &Check, reply: Option<&Reply>) -> Result<()> {
    state.record.requests += 1;
    match check.purpose {
        Purpose::Shut(sender, epoch) => judge_shut(state, check, (sender, epoch), reply),
        Purpose::Current(version) => judge_current(state, check, version, reply),
    }
}

fn judge_shut(state: &mut State, check: &Check, (sender, epoch): (Sender, u64), reply: Option<&Reply>) -> Result<()> {
    let (slot, Some(reply)) = (&mut state.slots[check.slot], reply) else { return Ok(()) };
    if slot.door(sender).epoch != epoch {
        return Ok(());
    }
    if !slot.is_from_backend(reply) {
        slot.door(sender).stays_shut();
        return Ok(());
    }
    match slot.door(sender).leaks() {
        Meaning::Allowed => {}
        Meaning::Late(time) => keep_longest(&mut state.record.latest, time, &slot.name),
        Meaning::Violation => bail!(
            "{} by a client with {sender:?} credentials reached the backend of {}\nreply: {reply:?}\nmanifest:\n{}",
            check.request.line(),
            slot.name,
            slot.manifest()
        ),
    }
    Ok(())
}

fn judge_current(state: &mut State, check: &Check, version: u64, reply: Option<&Reply>) -> Result<()> {
    let slot = &mut state.slots[check.slot];
    if slot.version != version || !state.is_isolated {
        return Ok(());
    }
    let right_of = reply.filter(|reply| slot.is_right(reply)).and_then(envoy_of);
    for (node, staleness) in &mut slot.staleness {
        let is_up = state.envoys.get(node).copied().flatten().is_some();
        if right_of == Some(node) {
            keep_longest(&mut state.record.stalest, staleness.time, &format!("{} at {node}", slot.name));
            staleness.ends();
        } else if is_up && reply.is_some() {
            staleness.goes_on();
        }
        if is_up && staleness.is_violation() {
            bail!(
                "Envoy {node} has not served version {version} of {} for {:.1} s of uptime\n{}: {reply:?}",
                slot.name,
                staleness.time.as_secs_f64(),
                check.request.line()
            );
        }
    }
    Ok(())
}
