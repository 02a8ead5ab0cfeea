//! Budgets of refusals that serving Envoys are exposed to: a limit per minute for all owners, and a limit per minute
//! for each owner.
//!
//! An owner is a namespace. Each refusal is taken from a budget that refills over time. An owner with an empty budget
//! waits with all of its unproven content, and other owners continue. The last part of the common budget is reserved
//! for owners without a recent refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit of refusals per minute by the Envoys of one Gateway and build, for contents that are tried on serving Envoys.
pub(crate) const REFUSALS_PER_MINUTE_MAX: u64 = 150;
/// Limit of these refusals for the contents of one namespace. With a probe, searches on the probe that end with a
/// verdict about the namespace count as well.
pub(crate) const OWNER_REFUSALS_PER_MINUTE_MAX: u64 = 90;
/// Limit of namespaces with counted refusals; beyond the limit, the namespace with the oldest refusal is forgotten.
pub(crate) const OWNERS_MAX: usize = 4_096;

/// Milliseconds until one more refusal is allowed.
const REFILL_MS: u64 = 1_000;
/// Milliseconds until one more refusal is allowed for one owner.
const OWNER_REFILL_MS: u64 = 2_000;
/// The number of refusals that may occur at once. Together with the refill within a minute, this is the limit per
/// minute.
const CAPACITY: u64 = REFUSALS_PER_MINUTE_MAX - 60_000 / REFILL_MS;
/// The number of refusals of one owner that may occur at once.
const OWNER_CAPACITY: u64 = OWNER_REFUSALS_PER_MINUTE_MAX - 60_000 / OWNER_REFILL_MS;
/// The last part of the common budget, reserved for owners without a recent refusal.
const RESERVED: u64 = 30;

/// Milliseconds after a refusal during which its owner has no share in the reserved part.
const LATELY_MS: u64 = 60_000;

/// The used part of a budget that refills over time.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    /// The used amount at `at_ms`, as the milliseconds until the budget is full again.
    taken_ms: u64,
    at_ms: u64,
}

impl Store {
    fn taken(self, now_ms: u64) -> u64 {
        // A clock that was set back refills nothing.
        self.taken_ms.saturating_sub(now_ms.saturating_sub(self.at_ms))
    }

    fn take(&mut self, now_ms: u64, refill_ms: u64, capacity: u64) {
        let taken = self.taken(now_ms).saturating_add(refill_ms);
        *self = Self { taken_ms: taken.min(capacity * refill_ms), at_ms: now_ms };
    }

    /// Returns the time at which one more refusal can be taken while `reserved` refusals stay available; `None` if one
    /// can be taken now.
    fn wait_until(self, now_ms: u64, refill_ms: u64, capacity: u64, reserved: u64) -> Option<u64> {
        let most = capacity.saturating_sub(reserved + 1) * refill_ms;
        let taken = self.taken(now_ms);
        (taken > most).then(|| now_ms.saturating_add(taken - most))
    }
}

/// The recent refusals.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    common: Store,
    owners: BTreeMap<Arc<str>, Store>,
}

impl Budget {
    /// Records that a serving Envoy refused contents of these owners. With one owner, that owner is charged. With
    /// several owners, the ones with a recent refusal are charged; if there is none, no owner is charged. Owners with a
    /// recent refusal do not use the reserved part of the common budget, whatever Envoys refuse of them.
    pub fn refused(&mut self, owners: &BTreeSet<Arc<str>>, now_ms: u64) {
        let is_known = owners.iter().any(|owner| self.was_refused_lately(owner, now_ms));
        if !is_known || self.common.wait_until(now_ms, REFILL_MS, CAPACITY, RESERVED).is_none() {
            self.common.take(now_ms, REFILL_MS, CAPACITY);
        }
        let known: Vec<Arc<str>> = match owners.len() {
            1 => owners.iter().cloned().collect(),
            _ => owners.iter().filter(|owner| self.was_refused_lately(owner, now_ms)).cloned().collect(),
        };
        known.into_iter().for_each(|owner| self.convicted(owner, now_ms));
    }

    /// Records a refusal of content of an owner that did not occur on a serving Envoy.
    pub fn convicted(&mut self, owner: Arc<str>, now_ms: u64) {
        self.owners.entry(owner).or_default().take(now_ms, OWNER_REFILL_MS, OWNER_CAPACITY);
        if self.owners.len() > OWNERS_MAX {
            let oldest = self.owners.iter().min_by_key(|(_, store)| store.at_ms).map(|(owner, _)| owner.clone());
            oldest.map(|oldest| self.owners.remove(&oldest));
        }
    }

    /// Returns how much of its budget an owner has used recently. Owners with the lowest value are tried first.
    pub fn used(&self, owner: &str, now_ms: u64) -> u64 {
        self.owners.get(owner).map_or(0, |store| store.taken(now_ms).div_ceil(OWNER_REFILL_MS))
    }

    fn was_refused_lately(&self, owner: &str, now_ms: u64) -> bool {
        self.owners.get(owner).is_some_and(|store| now_ms.saturating_sub(store.at_ms) < LATELY_MS)
    }

    /// Returns the time until which an owner waits; `None` if content of the owner may be tried now.
    pub(crate) fn wait_until(&self, owner: &str, now_ms: u64) -> Option<u64> {
        let reserved = if self.was_refused_lately(owner, now_ms) { RESERVED } else { 0 };
        let common = self.common.wait_until(now_ms, REFILL_MS, CAPACITY, reserved);
        let own = self.owners.get(owner);
        let own = own.and_then(|store| store.wait_until(now_ms, OWNER_REFILL_MS, OWNER_CAPACITY, 0));
        common.max(own)
    }

    /// Checks whether an owner has used more than half of its own budget.
    pub fn is_short(&self, owner: &str, now_ms: u64) -> bool {
        self.used(owner, now_ms) > OWNER_CAPACITY / 2
    }

    /// Checks whether all budgets are full, so that no owner has to wait.
    pub(crate) fn is_plentiful(&self, now_ms: u64) -> bool {
        self.common.taken(now_ms) == 0 && self.owners.values().all(|store| store.taken(now_ms) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    /// Counts the refusals within a minute of owners that try ten times a second whenever they may.
    fn within_a_minute(budget: &mut Budget, names: &[&str], from_ms: u64) -> u64 {
        let mut count = 0;
        for step in 0..600 {
            let now_ms = from_ms + step * 100;
            for name in names {
                if budget.wait_until(name, now_ms).is_none() {
                    budget.refused(&owners(&[name]), now_ms);
                    count += 1;
                }
            }
        }
        count
    }

    #[test]
    fn an_owner_is_refused_so_often_a_minute_and_others_are_free() {
        let mut budget = Budget::default();
        assert!(budget.is_plentiful(0));
        for minute in 0..3 {
            assert!(within_a_minute(&mut budget, &["a"], minute * 60_000) <= OWNER_REFUSALS_PER_MINUTE_MAX);
            assert!(budget.wait_until("b", minute * 60_000 + 59_900).is_none());
        }
        assert_eq!(budget.wait_until("a", 240_000), None);
    }

    #[test]
    fn refusals_per_minute_are_limited_and_an_innocent_owner_never_waits() {
        let mut budget = Budget::default();
        for minute in 0..3 {
            let names = ["a", "b", "c", "d", "e"];
            assert!(within_a_minute(&mut budget, &names, minute * 60_000) <= REFUSALS_PER_MINUTE_MAX);
            assert_eq!(budget.wait_until("innocent", minute * 60_000 + 59_900), None);
        }
    }

    #[test]
    fn of_several_owners_those_pay_that_were_refused_lately() {
        let mut budget = Budget::default();
        budget.refused(&owners(&["a", "b"]), 0);
        assert_eq!((budget.used("a", 0), budget.used("b", 0)), (0, 0));
        budget.refused(&owners(&["a"]), 0);
        budget.refused(&owners(&["a", "b"]), 0);
        assert_eq!((budget.used("a", 0), budget.used("b", 0)), (2, 0));
        assert_eq!(budget.used("a", 2 * OWNER_REFILL_MS), 0);
    }

    #[test]
    fn refusals_of_a_known_owner_leave_the_reserved_part_to_others() {
        let mut budget = Budget::default();
        (0..2 * REFUSALS_PER_MINUTE_MAX).for_each(|_| budget.refused(&owners(&["a"]), 0));
        assert!(budget.wait_until("a", 0).is_some());
        assert_eq!(budget.wait_until("innocent", 0), None);
    }

    #[test]
    fn a_clock_set_back_extends_no_wait() {
        let mut budget = Budget::default();
        (0..OWNER_CAPACITY).for_each(|_| budget.convicted("a".into(), 1_000_000));
        let until = budget.wait_until("a", 500).unwrap_or_default();
        assert!(until <= 500 + OWNER_REFILL_MS);
        assert_eq!(budget.wait_until("a", 1_000_000 + OWNER_REFILL_MS), None);
    }
}
