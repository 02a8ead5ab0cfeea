//! Refusals that Envoys which serve are put through: so many a minute for all, and so many of them for each owner.
//!
//! An owner is a namespace. Each refusal takes from a store that fills up again with time; an owner with an empty store
//! waits with everything that is not proven, and others go on. Owners of which nothing was refused lately have the
//! last of the common store for themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Refusals of one Gateway's Envoys of one build within any minute, where contents are tried on Envoys that serve.
pub(crate) const REFUSALS_PER_MINUTE_MAX: u64 = 150;
/// Those of them for the contents of one namespace; with a probe, searches on it that end with a verdict about one.
pub(crate) const OWNER_REFUSALS_PER_MINUTE_MAX: u64 = 90;
/// Namespaces of which refusals are counted; beyond it the one that was refused longest ago is forgotten.
pub(crate) const OWNERS_MAX: usize = 4_096;

/// After how many milliseconds one more refusal is allowed.
const REFILL_MS: u64 = 1_000;
/// The same of one owner.
const OWNER_REFILL_MS: u64 = 2_000;
/// As many may come at once: with those that are allowed again within a minute it is the limit.
const CAPACITY: u64 = REFUSALS_PER_MINUTE_MAX - 60_000 / REFILL_MS;
/// The same of one owner.
const OWNER_CAPACITY: u64 = OWNER_REFUSALS_PER_MINUTE_MAX - 60_000 / OWNER_REFILL_MS;
/// The last of the common store, which only owners have of which nothing was refused lately.
const RESERVED: u64 = 30;

/// For how many milliseconds an owner of which something was refused has no part in that.
const LATELY_MS: u64 = 60_000;

/// What was taken of a store that fills up with time.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    /// How much is taken, in milliseconds until it is full again, at `at_ms`.
    taken_ms: u64,
    at_ms: u64,
}

impl Store {
    fn taken(self, now_ms: u64) -> u64 {
        // A clock that was set back fills nothing.
        self.taken_ms.saturating_sub(now_ms.saturating_sub(self.at_ms))
    }

    fn take(&mut self, now_ms: u64, refill_ms: u64, capacity: u64) {
        let taken = self.taken(now_ms).saturating_add(refill_ms);
        *self = Self { taken_ms: taken.min(capacity * refill_ms), at_ms: now_ms };
    }

    /// When one more can be taken, where `reserved` have to stay; none where it can be now.
    fn wait_until(self, now_ms: u64, refill_ms: u64, capacity: u64, reserved: u64) -> Option<u64> {
        let most = capacity.saturating_sub(reserved + 1) * refill_ms;
        let taken = self.taken(now_ms);
        (taken > most).then(|| now_ms.saturating_add(taken - most))
    }
}

/// Refusals of late.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    common: Store,
    owners: BTreeMap<Arc<str>, Store>,
}

impl Budget {
    /// An Envoy that serves refused contents of these owners: of one, it is that one's; of several, it is of those that
    /// were refused lately, and of no owner where none was.
    pub(crate) fn refused(&mut self, owners: &BTreeSet<Arc<str>>, now_ms: u64) {
        self.common.take(now_ms, REFILL_MS, CAPACITY);
        let known: Vec<Arc<str>> = match owners.len() {
            1 => owners.iter().cloned().collect(),
            _ => owners.iter().filter(|owner| self.was_refused_lately(owner, now_ms)).cloned().collect(),
        };
        known.into_iter().for_each(|owner| self.convicted(owner, now_ms));
    }

    /// Something of an owner was refused, where no Envoy that serves was asked.
    pub(crate) fn convicted(&mut self, owner: Arc<str>, now_ms: u64) {
        self.owners.entry(owner).or_default().take(now_ms, OWNER_REFILL_MS, OWNER_CAPACITY);
        if self.owners.len() > OWNERS_MAX {
            let oldest = self.owners.iter().min_by_key(|(_, store)| store.at_ms).map(|(owner, _)| owner.clone());
            oldest.map(|oldest| self.owners.remove(&oldest));
        }
    }

    /// How much an owner has used up of late; the least is tried first.
    pub(crate) fn used(&self, owner: &str, now_ms: u64) -> u64 {
        self.owners.get(owner).map_or(0, |store| store.taken(now_ms).div_ceil(OWNER_REFILL_MS))
    }

    fn was_refused_lately(&self, owner: &str, now_ms: u64) -> bool {
        self.owners.get(owner).is_some_and(|store| now_ms.saturating_sub(store.at_ms) < LATELY_MS)
    }

    /// Until when an owner waits; none where something of it may be tried.
    pub(crate) fn wait_until(&self, owner: &str, now_ms: u64) -> Option<u64> {
        let reserved = if self.was_refused_lately(owner, now_ms) { RESERVED } else { 0 };
        let common = self.common.wait_until(now_ms, REFILL_MS, CAPACITY, reserved);
        let own = self.owners.get(owner);
        let own = own.and_then(|store| store.wait_until(now_ms, OWNER_REFILL_MS, OWNER_CAPACITY, 0));
        common.max(own)
    }

    /// Has an owner used up more than half of what is its own?
    pub(crate) fn is_short(&self, owner: &str, now_ms: u64) -> bool {
        self.used(owner, now_ms) > OWNER_CAPACITY / 2
    }

    /// Does no owner have to wait?
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

    /// Refusals within a minute of owners that try whenever they may, ten times a second.
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
    fn all_together_are_refused_so_often_a_minute_and_who_was_not_lately_is_never_without() {
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
    fn a_clock_that_is_set_back_holds_nobody_for_longer() {
        let mut budget = Budget::default();
        (0..OWNER_CAPACITY).for_each(|_| budget.convicted("a".into(), 1_000_000));
        let until = budget.wait_until("a", 500).unwrap_or_default();
        assert!(until <= 500 + OWNER_REFILL_MS);
        assert_eq!(budget.wait_until("a", 1_000_000 + OWNER_REFILL_MS), None);
    }
}
