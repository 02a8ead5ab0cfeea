//! The desired state, which processes are up, and the record: shared by the attack and the oracles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::story::dice::Dice;

use super::door::Staleness;
use super::edits::Edit;
use super::form::{Form, Kind};
use super::guard::Guard;
use super::record::Record;
use super::row::Row;
use super::slot::{CALM, CROWD, SENDERS, Slot, WILD};

/// Number of routes by namespace; the last one of each is an HTTPProxy.
const ROUTES: [(&str, usize); 3] = [(CALM, 5), (WILD, 8), (CROWD, 5)];
/// Time after a start before time counts for the oracles.
const SETTLED: Duration = Duration::from_secs(5);

/// The state.
#[derive(Debug)]
pub(super) struct State {
    /// The routes.
    pub(super) slots: Vec<Slot>,
    /// When Holdfast was started, if it is up.
    pub(super) holdfast: Option<Instant>,
    /// When each Envoy was started, if it is up.
    pub(super) envoys: BTreeMap<String, Option<Instant>>,
    /// The record.
    pub(super) record: Record,
    /// Whether innocent edits are served whatever other namespaces do.
    pub(super) is_isolated: bool,
}

/// The state, shared.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<State>>);

impl Shared {
    /// Creates the routes of a run; every second HTTPRoute is guarded.
    pub(super) fn new(seed: u64, row: Row) -> Self {
        let mut dice = Dice::new(seed);
        let mut slots = Vec::new();
        for (namespace, count) in ROUTES {
            for number in 0..count {
                let kind = if number + 1 == count { Kind::HttpProxy } else { Kind::HttpRoute };
                let mut slot = Slot::new(namespace, number, kind);
                slot.form = Some(Form::good(0, 0));
                let is_guarded = kind == Kind::HttpRoute && number % 2 == 1;
                slot.set_guard(is_guarded.then(|| Guard::new(0, &mut dice)));
                slot.decide();
                slots.push(slot);
            }
        }
        let record = Record::new(seed, row);
        let is_isolated = row.isolates_namespaces();
        Self(Arc::new(Mutex::new(State { slots, holdfast: None, envoys: BTreeMap::new(), record, is_isolated })))
    }

    /// Locks the state.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The positions of the routes of a namespace.
    pub(super) fn of(&self, namespace: &str) -> Vec<usize> {
        (0..self.slots.len()).filter(|index| self.slots[*index].namespace == namespace).collect()
    }

    /// Makes an edit: changes the desired state first, then the file.
    pub(super) fn edit(&mut self, index: usize, edit: Edit, dice: &mut Dice, world: &World) -> Result<()> {
        let slot = &mut self.slots[index];
        edit.apply(slot, dice);
        slot.write(world)?;
        let guard = slot.guard.map_or_else(|| "none".to_owned(), |guard| format!("{:?} {}", guard.form, guard.number));
        let form = slot.form.map_or_else(|| "deleted".to_owned(), |form| format!("{form:?}"));
        let detail = format!("{}: {form}, guard {guard}", slot.name);
        self.record.add(&format!("{edit:?}"), &detail);
        Ok(())
    }

    /// Records the start of an Envoy: its time starts again.
    pub(super) fn envoy_starts(&mut self, node: &str) {
        self.envoys.insert(node.to_owned(), Some(Instant::now()));
        for slot in &mut self.slots {
            slot.staleness.insert(node.to_owned(), Staleness::default());
        }
    }

    /// Counts time where everything that it depends on has been up for a while.
    pub(super) fn pass(&mut self, time: Duration) {
        let is_settled = |since: &Option<Instant>| since.is_some_and(|since| since.elapsed() >= SETTLED);
        if !is_settled(&self.holdfast) {
            return;
        }
        let all = self.envoys.values().all(is_settled);
        for slot in &mut self.slots {
            if all {
                SENDERS.into_iter().for_each(|sender| slot.door(sender).pass(time));
            }
            for (node, staleness) in &mut slot.staleness {
                if self.envoys.get(node).is_some_and(is_settled) {
                    staleness.time += time;
                }
            }
        }
    }
}
