//! The attack: edits of three namespaces, and kills of Holdfast and Envoys, by the dice of the seed.

use std::time::Duration;

use anyhow::Result;
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::story::dice::Dice;
use tokio::time::Instant;

use super::edits::{BAD, Edit, GOOD};
use super::processes::Processes;
use super::row::Row;
use super::slot::{CALM, CROWD, WILD};
use super::state::Shared;

/// The longest pause between two edits, in milliseconds.
const PAUSE_MAX: u64 = 240;
/// The pause between two edits of a burst.
const BURST_PAUSE: Duration = Duration::from_millis(40);
/// The most edits of a burst.
const BURST_MAX: u64 = 30;
/// One in this number of steps is a burst.
const BURST_EVERY: u64 = 12;
/// One in this number of steps kills Holdfast.
const KILL_EVERY: u64 = 120;
/// One in this number of steps kills an Envoy.
const KILL_ENVOY_EVERY: u64 = 150;
/// One in this number of steps stops an Envoy (SIGSTOP).
const FREEZE_ENVOY_EVERY: u64 = 200;
/// One in this number of steps continues the stopped Envoy, after seconds: some streams are given up, others are not.
const THAW_ENVOY_EVERY: u64 = 60;
/// One in this number of steps starts what was killed.
const START_EVERY: u64 = 6;
/// After one in this number of creations, deletions and changes of the protection, the route stays so for a while: only
/// then can an oracle find that something comes back.
const STAYS_EVERY: u64 = 3;
/// The least number of steps of this while, and the range of the rest.
const STAYS: [u64; 2] = [150, 150];
/// The pauses of the namespace that makes only valid edits, in seconds.
const CALM_PAUSES: [u64; 2] = [4, 8];

/// The attack.
pub(super) struct Attack<'a> {
    /// The world.
    pub(super) world: &'a World,
    /// The state.
    pub(super) shared: &'a Shared,
    /// The dice of the adversaries.
    pub(super) dice: Dice,
    /// The dice of the innocent namespace.
    pub(super) calm_dice: Dice,
    /// The conditions.
    pub(super) row: Row,
    /// Number of steps so far.
    pub(super) step: u64,
}

impl Attack<'_> {
    /// Attacks for this time.
    pub(super) async fn run(&mut self, processes: &mut Processes, lasts: Duration) -> Result<()> {
        let end = Instant::now() + lasts;
        let mut calm_at = Instant::now() + Duration::from_secs(CALM_PAUSES[0]);
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20 + self.dice.below(PAUSE_MAX))).await;
            self.step += 1;
            self.kill(processes).await?;
            if self.dice.one_in(BURST_EVERY) {
                self.burst().await?;
            } else {
                self.edit_any(WILD)?;
            }
            if Instant::now() >= calm_at && self.edit_calm()? {
                let [least, more] = CALM_PAUSES;
                calm_at = Instant::now() + Duration::from_secs(least + self.calm_dice.below(more));
            }
        }
        Ok(())
    }

    /// Sometimes kills, stops or starts a process; one Envoy at most is not up.
    async fn kill(&mut self, processes: &mut Processes) -> Result<()> {
        let is_down = self.shared.lock().envoys.values().any(Option::is_none);
        let (kills, kills_envoy) = (self.dice.one_in(KILL_EVERY), self.dice.one_in(KILL_ENVOY_EVERY));
        let (freezes, thaws) = (self.dice.one_in(FREEZE_ENVOY_EVERY), self.dice.one_in(THAW_ENVOY_EVERY));
        let (starts, starts_envoy) = (self.dice.one_in(START_EVERY), self.dice.one_in(START_EVERY));
        let index = self.dice.index(processes.envoys());
        if kills {
            processes.kill_holdfast()?;
        } else if starts {
            processes.start_holdfast()?;
        }
        if thaws {
            processes.thaw_envoy();
        }
        if kills_envoy && !is_down {
            processes.kill_envoy(index)?;
        } else if freezes && !is_down {
            processes.freeze_envoy(index);
        } else if starts_envoy {
            for index in 0..processes.envoys() {
                processes.start_envoy(index).await?;
            }
        }
        Ok(())
    }

    /// Makes one edit of a random route.
    fn edit_any(&mut self, namespace: &str) -> Result<()> {
        let slots = self.shared.lock().of(namespace);
        let index = slots[self.dice.index(slots.len())];
        self.edit(index)
    }

    fn edit(&mut self, index: usize) -> Result<()> {
        let mut state = self.shared.lock();
        let slot = &state.slots[index];
        let stays = slot.stays_until > self.step;
        let is_possible = |edit: &Edit| {
            let has_effect = *edit != Edit::Mistake || self.row.has_mistakes();
            has_effect && edit.applies(slot) && !(stays && edit.begins_or_ends())
        };
        let edits: Vec<Edit> = GOOD.into_iter().chain(BAD).filter(is_possible).collect();
        // What is broken is repaired often, so that versions become last valid ones.
        let is_repair = slot.form.is_some() && self.dice.one_in(4);
        let Some(edit) =
            edits.get(self.dice.index(edits.len())).map(|edit| if is_repair { Edit::Repair } else { *edit })
        else {
            return Ok(());
        };
        if edit.begins_or_ends() && self.dice.one_in(STAYS_EVERY) {
            let [least, more] = STAYS;
            state.slots[index].stays_until = self.step + least + self.dice.below(more);
        }
        state.edit(index, edit, &mut self.dice, self.world)
    }

    /// Makes many edits of one route in a row.
    async fn burst(&mut self) -> Result<()> {
        let slots = self.shared.lock().of(CROWD);
        let index = slots[self.dice.index(slots.len())];
        for _ in 0..=self.dice.below(BURST_MAX) {
            self.edit(index)?;
            tokio::time::sleep(BURST_PAUSE).await;
        }
        Ok(())
    }

    /// Makes one valid edit of a random innocent route, once its version is served; the first route is never edited.
    fn edit_calm(&mut self) -> Result<bool> {
        let mut state = self.shared.lock();
        let slots = state.of(CALM);
        let index = slots[1 + self.calm_dice.index(slots.len() - 1)];
        let slot = &state.slots[index];
        let is_served = slot.form.is_none() || slot.staleness.values().all(|staleness| staleness.is_confirmed);
        if state.is_isolated && !is_served {
            return Ok(false);
        }
        let edits: Vec<Edit> = GOOD.into_iter().filter(|edit| edit.applies(slot)).collect();
        let edit = edits[self.calm_dice.index(edits.len())];
        state.edit(index, edit, &mut self.calm_dice, self.world)?;
        Ok(true)
    }
}
