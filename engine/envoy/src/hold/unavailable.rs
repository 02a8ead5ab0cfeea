//! Refusals for a reason of an Envoy's host: they are no verdict about any object. The resource is sent again with
//! backoff, and the refusal ends with an ACK.
//!
//! They are recorded for each Envoy, since the port may be free at the next one, and never stored: a new run sends all
//! resources anyway.
//!
//! A refusal also ends as soon as its content is no longer desired: a listener is withdrawn while another process
//! listens on its port. The xDS server never sends a refused content again on its own. So the refusal is released, and
//! the listener is served after the port is free.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_xds::{Again, ResourceType, Snapshot, Version};

use super::{Refusal, Slot};
use crate::refusal::RefusalClass;

/// Wait before the first retry, in milliseconds; each further wait is twice as long.
pub const RETRY_FIRST_MS: u64 = 1_000;
/// The longest wait before a retry, in milliseconds.
pub const RETRY_MS_MAX: u64 = 30_000;
/// Number of retries of a refusal without a message before it counts as a refusal of content.
pub const UNKNOWN_TRIES_MAX: u32 = 3;
/// Maximum number of recorded refusals of one Gateway and build; a content beyond it is not sent again before it
/// changes.
pub const UNAVAILABLE_MAX: usize = 1_000;

/// The refusals of one Gateway's Envoys that are not about content.
#[derive(Debug, Default)]
pub struct Unavailable {
    kept: BTreeMap<(Arc<str>, Slot), Kept>,
    turn: u64,
}

#[derive(Debug)]
struct Kept {
    refusal: Refusal,
    version: Version,
    /// Number of retries.
    tries: u32,
    retry_at: u64,
    /// Whether the content was sent again, so that the next answer is a new one.
    is_sent: bool,
    again: Option<Again>,
    /// Whether the content was no longer desired since: it is not sent again after a wait, but whenever it is desired.
    is_released: bool,
}

impl Unavailable {
    /// Records that an Envoy refused a content; returns whether this is the first answer, or the answer to a retry.
    pub fn note(&mut self, slot: Slot, version: Version, refusal: Refusal, now_ms: u64) -> bool {
        let id = (refusal.node.clone(), slot);
        let before = self.kept.get(&id).filter(|kept| kept.version == version);
        if before.is_some_and(|kept| !kept.is_sent && !kept.is_released) {
            return false;
        }
        let (tries, again) = before.map_or((0, None), |kept| (kept.tries, kept.again));
        if self.kept.len() >= UNAVAILABLE_MAX && !self.kept.contains_key(&id) && !self.forget_a_released() {
            return true;
        }
        let retry_at = now_ms.saturating_add(backoff(tries));
        self.kept.insert(id, Kept { refusal, version, tries, retry_at, is_sent: false, again, is_released: false });
        true
    }

    /// Forgets the refusal that was released first; returns false if there is none. The xDS server has
    /// received the release long before.
    fn forget_a_released(&mut self) -> bool {
        let released = self.kept.iter().filter(|(_, kept)| kept.is_released);
        let first = released.min_by_key(|(_, kept)| kept.again.map(|again| again.turn)).map(|(id, _)| id.clone());
        first.is_some_and(|id| self.kept.remove(&id).is_some())
    }

    /// Returns the number of retries of a content to an Envoy.
    pub fn tries(&self, node: &Arc<str>, slot: &Slot, version: Version) -> u32 {
        let kept = self.kept.get(&(node.clone(), slot.clone()));
        kept.filter(|kept| kept.version == version).map_or(0, |kept| kept.tries)
    }

    /// Records that an Envoy accepted a content.
    pub fn taken(&mut self, node: &Arc<str>, slot: &Slot, version: Version) {
        let id = (node.clone(), slot.clone());
        if self.kept.get(&id).is_some_and(|kept| kept.version == version) {
            self.kept.remove(&id);
        }
    }

    /// Forgets a refusal, which now counts as a refusal of content.
    pub fn forget(&mut self, node: &Arc<str>, slot: &Slot) {
        self.kept.remove(&(node.clone(), slot.clone()));
    }

    /// Forgets the refusals of an Envoy that disconnected: each Envoy that connects is sent all resources.
    pub fn gone(&mut self, node: &str) {
        self.kept.retain(|(of, _), _| **of != *node);
    }

    /// Releases the refusals of versions that are no longer desired: if such a version is desired later, it is sent at
    /// once.
    pub(crate) fn release_unwanted(&mut self, slot: &Slot, wanted: Option<Version>) {
        for ((_, of), kept) in &mut self.kept {
            if of != slot || wanted == Some(kept.version) || kept.is_released {
                continue;
            }
            self.turn += 1;
            kept.again = Some(Again { version: kept.version, turn: self.turn });
            kept.is_released = true;
            kept.tries = 0;
        }
    }

    /// Returns the refusals in force.
    fn in_force(&self) -> impl Iterator<Item = (&(Arc<str>, Slot), &Kept)> {
        self.kept.iter().filter(|(_, kept)| !kept.is_released)
    }

    /// Returns whether an Envoy read a content as valid, and only a resource of its host was missing.
    pub fn excuses(&self, kind: ResourceType, name: &str, version: Version) -> bool {
        self.in_force().any(|((_, slot), kept)| {
            slot.0 == kind && *slot.1 == *name && kept.version == version && kept.refusal.class == RefusalClass::Host
        })
    }

    /// Returns whether a resource could not be applied at an Envoy because of its host, in any version.
    pub fn has_host_refusal(&self, kind: ResourceType, name: &str) -> bool {
        let is_it = |slot: &Slot| slot.0 == kind && *slot.1 == *name;
        self.in_force().any(|((_, slot), kept)| is_it(slot) && kept.refusal.class == RefusalClass::Host)
    }

    /// Returns whether an Envoy lacks this content because a resource of its host was missing.
    pub fn lacks(&self, node: &str, kind: ResourceType, name: &str, version: Version) -> bool {
        self.in_force().any(|((of, slot), kept)| {
            **of == *node
                && slot.0 == kind
                && *slot.1 == *name
                && kept.version == version
                && kept.refusal.class == RefusalClass::Host
        })
    }

    /// Sends due contents again to connected Envoys; returns whether there are any.
    pub fn take_due(&mut self, now_ms: u64, is_there: impl Fn(&Arc<str>) -> bool) -> bool {
        let mut any = false;
        for ((node, _), kept) in &mut self.kept {
            if kept.is_released || kept.retry_at > now_ms || !is_there(node) {
                continue;
            }
            self.turn += 1;
            kept.tries = kept.tries.saturating_add(1);
            kept.again = Some(Again { version: kept.version, turn: self.turn });
            // Without an answer, the content is sent again all the same.
            kept.retry_at = now_ms.saturating_add(backoff(kept.tries));
            kept.is_sent = true;
            any = true;
        }
        any
    }

    /// Returns the contents that Envoys are sent again, as far as they are desired.
    pub fn again(&self) -> impl Iterator<Item = (&Arc<str>, &Slot, Again)> {
        self.kept.iter().filter_map(|((node, slot), kept)| Some((node, slot, kept.again?)))
    }

    /// Returns all refusals of desired contents.
    pub fn refusals<'a>(&'a self, wanted: &'a Snapshot) -> impl Iterator<Item = &'a Refusal> {
        let is_wanted = |slot: &Slot, kept: &Kept| {
            wanted.get(slot.0, &slot.1).is_some_and(|resource| resource.version == kept.version)
        };
        self.in_force().filter(move |((_, slot), kept)| is_wanted(slot, kept)).map(|(_, kept)| &kept.refusal)
    }
}

fn backoff(tries: u32) -> u64 {
    RETRY_FIRST_MS.saturating_mul(1 << tries.min(16)).min(RETRY_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(node: &str) -> Refusal {
        Refusal {
            kind: ResourceType::Listener,
            resource: "http/80".into(),
            version: String::new(),
            node: node.into(),
            build: "".into(),
            message: "cannot bind".into(),
            class: RefusalClass::Host,
            refusers: Default::default(),
        }
    }

    #[test]
    fn it_is_sent_again_after_1_to_30_seconds_for_as_long_as_it_is_refused() {
        let (slot, version): (Slot, _) = ((ResourceType::Listener, "http/80".into()), Version::of(b"1"));
        let mut unavailable = Unavailable::default();
        let mut sent = Vec::new();
        assert!(unavailable.note(slot.clone(), version, refusal("one"), 0));
        assert!(!unavailable.note(slot.clone(), version, refusal("one"), 0), "the same answer, told again");
        for second in 0..130 {
            let now_ms = second * 1_000;
            if unavailable.take_due(now_ms, |_| true) {
                sent.push(second);
                assert!(unavailable.note(slot.clone(), version, refusal("one"), now_ms));
            }
        }
        assert_eq!(sent, [1, 3, 7, 15, 31, 61, 91, 121]);
        let turns: Vec<u64> = unavailable.again().map(|(_, _, again)| again.turn).collect();
        assert_eq!(turns, [8]);
        assert!(unavailable.excuses(slot.0, &slot.1, version));
        unavailable.taken(&"two".into(), &slot, version);
        assert!(unavailable.excuses(slot.0, &slot.1, version), "another Envoy took it");
        unavailable.taken(&"one".into(), &slot, version);
        assert!(!unavailable.excuses(slot.0, &slot.1, version) && unavailable.again().next().is_none());
    }

    #[test]
    fn a_removed_envoy_is_not_awaited_and_new_content_starts_over() {
        let slot: Slot = (ResourceType::Listener, "http/80".into());
        let [one, two] = [b"1", b"2"].map(|content| Version::of(content));
        let mut unavailable = Unavailable::default();
        unavailable.note(slot.clone(), one, refusal("one"), 0);
        assert!(!unavailable.take_due(5_000, |_| false));
        assert!(unavailable.take_due(5_000, |_| true));
        unavailable.note(slot.clone(), two, refusal("one"), 5_000);
        assert_eq!(unavailable.tries(&"one".into(), &slot, two), 0);
        unavailable.release_unwanted(&slot, Some(one));
        assert!(!unavailable.excuses(slot.0, &slot.1, two));
        unavailable.note(slot.clone(), one, refusal("one"), 5_000);
        unavailable.gone("one");
        assert!(!unavailable.excuses(slot.0, &slot.1, one));
    }

    #[test]
    fn a_content_that_is_desired_again_after_its_withdrawal_may_be_sent_at_once() {
        let (slot, version): (Slot, _) = ((ResourceType::Listener, "http/80".into()), Version::of(b"1"));
        let mut unavailable = Unavailable::default();
        for now_ms in [0, 1_000] {
            unavailable.take_due(now_ms, |_| true);
            assert!(unavailable.note(slot.clone(), version, refusal("one"), now_ms));
        }
        let turn = |unavailable: &Unavailable| unavailable.again().map(|(_, _, again)| again.turn).max();
        assert_eq!(turn(&unavailable), Some(1));
        unavailable.release_unwanted(&slot, None);
        assert_eq!(turn(&unavailable), Some(2), "the xDS server may send it");
        assert!(!unavailable.excuses(slot.0, &slot.1, version), "no refusal is in force");
        unavailable.release_unwanted(&slot, None);
        assert!(!unavailable.take_due(60_000, |_| true), "it is not desired");
        unavailable.release_unwanted(&slot, Some(version));
        assert_eq!(turn(&unavailable), Some(2));
        assert!(unavailable.note(slot.clone(), version, refusal("one"), 60_000), "it is refused once more");
        assert!(!unavailable.take_due(60_999, |_| true), "the wait starts over");
        assert!(unavailable.take_due(61_000, |_| true));
        assert_eq!(turn(&unavailable), Some(3));
    }

    #[test]
    fn refusals_of_withdrawn_contents_leave_room_for_others() {
        let mut unavailable = Unavailable::default();
        let (version, slot) = (Version::of(b"1"), |n: usize| (ResourceType::Listener, Arc::from(format!("http/{n}"))));
        for n in 0..=UNAVAILABLE_MAX {
            unavailable.note(slot(n), version, refusal("one"), 0);
        }
        let last = slot(UNAVAILABLE_MAX);
        assert!(!unavailable.excuses(last.0, &last.1, version), "there is no more room");
        unavailable.release_unwanted(&slot(7), None);
        unavailable.note(last.clone(), version, refusal("one"), 0);
        assert!(unavailable.excuses(last.0, &last.1, version));
        assert_eq!(unavailable.kept.len(), UNAVAILABLE_MAX);
    }
}
