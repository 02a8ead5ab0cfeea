//! The quarantine: the only memory of refused content, for one Gateway and one build of Envoy.
//!
//! The key is the translated content: an edit that changes the content releases the object, and refused content stays
//! refused for any object. The quarantine does not decide what is done; the plan is derived from it each time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::hold_down::HoldDown;
pub use crate::hold_down::{
    HOLD_DOWN_FIRST_MS, HOLD_DOWN_MAX_MS, HOLD_DOWN_OBJECTS_MAX, HOLD_DOWN_REFUSALS, HOLD_DOWN_WINDOW_MS,
};
use crate::{Content, Detected, ObjectKey, Verdict};

/// Maximum number of verdicts; beyond it, the oldest is removed first, and its content may be tried again.
pub const VERDICTS_MAX: usize = 16_384;
/// Maximum length of a message that is kept, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1_024;
/// Maximum length of a field path that is kept, in bytes.
pub const FIELD_BYTES_MAX: usize = 512;
/// Maximum number of witnesses of a verdict; the verdict then applies wherever the kept ones are present.
pub const WITNESSES_MAX: usize = 64;

/// Verdicts by content.
#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    verdicts: HashMap<Content, KeptVerdict>,
    /// Contents by age: in the order of their convictions.
    ages: BTreeMap<u64, Content>,
    objects: HashMap<ObjectKey, BTreeSet<Content>>,
    convicted: u64,
    hold_down: HoldDown,
}

#[derive(Clone, Debug)]
struct KeptVerdict {
    verdict: Verdict,
    age: u64,
}

impl Quarantine {
    /// Returns a quarantine without verdicts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Convicts a content; returns whether it was not convicted before.
    ///
    /// For a content that is already in quarantine, the time of the first verdict is kept, and a weaker verdict does
    /// not replace a stronger one: a suspicion does not replace a conviction, and a verdict with witnesses does not
    /// replace one without.
    pub fn convict(&mut self, content: Content, mut verdict: Verdict) -> bool {
        bound(&mut verdict);
        if let Some(kept) = self.verdicts.get_mut(&content) {
            let is_firm = kept.verdict.detected != Detected::Suspected;
            let is_weaker = verdict.detected == Detected::Suspected
                || (kept.verdict.witnesses.is_empty() && !verdict.witnesses.is_empty());
            if is_firm && is_weaker {
                return false;
            }
            verdict.since = kept.verdict.since;
            let old = std::mem::replace(&mut kept.verdict, verdict.clone());
            self.unlist(&old.node.key, &content);
            self.objects.entry(verdict.node.key).or_default().insert(content);
            return false;
        }
        self.objects.entry(verdict.node.key.clone()).or_default().insert(content);
        self.ages.insert(self.convicted, content);
        self.verdicts.insert(content, KeptVerdict { verdict, age: self.convicted });
        self.convicted += 1;
        while self.verdicts.len() > VERDICTS_MAX {
            let Some((_, oldest)) = self.ages.first_key_value() else { break };
            let oldest = *oldest;
            self.acquit(&oldest);
        }
        true
    }

    /// Removes a verdict.
    pub fn acquit(&mut self, content: &Content) -> Option<Verdict> {
        let kept = self.verdicts.remove(content)?;
        self.ages.remove(&kept.age);
        self.unlist(&kept.verdict.node.key, content);
        Some(kept.verdict)
    }

    fn unlist(&mut self, key: &ObjectKey, content: &Content) {
        let Some(contents) = self.objects.get_mut(key) else { return };
        contents.remove(content);
        if contents.is_empty() {
            self.objects.remove(key);
        }
    }

    /// Returns the verdict about a content, whether or not its witnesses are present.
    pub fn get(&self, content: &Content) -> Option<&Verdict> {
        self.verdicts.get(content).map(|kept| &kept.verdict)
    }

    /// Returns the verdict that applies to a content now: a verdict with witnesses applies only where all of them are
    /// present.
    pub fn refuses(&self, content: &Content, present: impl Fn(&Content) -> bool) -> Option<&Verdict> {
        self.get(content).filter(|verdict| verdict.witnesses.iter().all(present))
    }

    /// Returns all verdicts, the oldest first: convicting them in this order in an empty quarantine gives an equal
    /// quarantine.
    pub fn iter(&self) -> impl Iterator<Item = (Content, &Verdict)> {
        self.ages.values().filter_map(|content| Some((*content, self.get(content)?)))
    }

    /// Returns the number of verdicts.
    pub fn len(&self) -> usize {
        self.verdicts.len()
    }

    /// Returns whether the quarantine is empty.
    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }

    /// Returns the verdicts about an object and its sections, ordered by content.
    pub fn of(&self, key: &ObjectKey) -> impl Iterator<Item = (Content, &Verdict)> {
        let contents = self.objects.get(key).into_iter().flatten();
        contents.filter_map(|content| Some((*content, self.get(content)?)))
    }

    /// Counts a refusal, with its time in milliseconds of Unix time. The caller counts one refusal for each edit of an
    /// object, however many of its parts were refused, and does not count suspicions.
    pub fn note_refusal(&mut self, key: &ObjectKey, now_ms: u64) {
        self.hold_down.refused(key, now_ms);
    }

    /// Returns the time until which an object waits before its next try, in milliseconds of Unix time, or `None` where
    /// it need not wait.
    pub fn wait_until(&self, key: &ObjectKey, now_ms: u64) -> Option<u64> {
        self.hold_down.wait_until(key, now_ms)
    }
}

/// Truncates data from outside to its limits.
fn bound(verdict: &mut Verdict) {
    for (text, limit) in [(&mut verdict.message, MESSAGE_BYTES_MAX), (&mut verdict.field, FIELD_BYTES_MAX)] {
        if text.len() > limit {
            let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            *text = text.get(..end).unwrap_or_default().into();
        }
    }
    verdict.witnesses.sort_unstable();
    verdict.witnesses.dedup();
    verdict.witnesses.truncate(WITNESSES_MAX);
}
