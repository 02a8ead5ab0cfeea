//! The quarantine: the only memory of trouble, for one Gateway and one build of Envoy.
//!
//! It is kept by translated content: an edit that changes the content releases it, and what was refused stays refused
//! whoever brings it. It does not decide what is done about it; the plan is derived from it each time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use crate::hold_down::{
    HOLD_DOWN_FIRST_MS, HOLD_DOWN_MAX_MS, HOLD_DOWN_OBJECTS_MAX, HOLD_DOWN_REFUSALS, HOLD_DOWN_WINDOW_MS,
};

use crate::hold_down::HoldDown;
use crate::{Content, Detected, ObjectKey, Verdict};

/// How many verdicts are kept; beyond it the oldest goes first, and its content may be tried again.
pub const VERDICTS_MAX: usize = 16_384;
/// How many bytes of a message are kept.
pub const MESSAGE_BYTES_MAX: usize = 1_024;
/// How many bytes of a field's path are kept.
pub const FIELD_BYTES_MAX: usize = 512;
/// How many witnesses of a verdict are kept; it then refuses wherever these are together.
pub const WITNESSES_MAX: usize = 64;

/// Verdicts by content.
#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    verdicts: HashMap<Content, Kept>,
    /// By age: in the order in which they were convicted.
    ages: BTreeMap<u64, Content>,
    objects: HashMap<ObjectKey, BTreeSet<Content>>,
    convicted: u64,
    hold_down: HoldDown,
}

#[derive(Clone, Debug)]
struct Kept {
    verdict: Verdict,
    age: u64,
}

impl Quarantine {
    /// A quarantine without verdicts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Convicts a content; true where it was not convicted before.
    ///
    /// Of a content that is in quarantine already the time of the first verdict stays; what is known of it only gets
    /// firmer: a suspicion does not take the place of a conviction, nor one with witnesses that of one without.
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
        self.verdicts.insert(content, Kept { verdict, age: self.convicted });
        self.convicted += 1;
        while self.verdicts.len() > VERDICTS_MAX {
            let Some((_, oldest)) = self.ages.first_key_value() else { break };
            let oldest = *oldest;
            self.acquit(&oldest);
        }
        true
    }

    /// Takes a verdict back.
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

    /// The verdict about a content, whether or not its witnesses are there.
    pub fn get(&self, content: &Content) -> Option<&Verdict> {
        self.verdicts.get(content).map(|kept| &kept.verdict)
    }

    /// The verdict by which a content is refused now: one with witnesses only where all of them are present.
    pub fn refuses(&self, content: &Content, present: impl Fn(&Content) -> bool) -> Option<&Verdict> {
        self.get(content).filter(|verdict| verdict.witnesses.iter().all(present))
    }

    /// All verdicts, the oldest first: convicting them in this order in an empty quarantine gives the same.
    pub fn iter(&self) -> impl Iterator<Item = (Content, &Verdict)> {
        self.ages.values().filter_map(|content| Some((*content, self.get(content)?)))
    }

    /// How many verdicts there are.
    pub fn len(&self) -> usize {
        self.verdicts.len()
    }

    /// True where nothing is in quarantine.
    pub fn is_empty(&self) -> bool {
        self.verdicts.is_empty()
    }

    /// The verdicts about an object and its sections, in order of content.
    pub fn of(&self, key: &ObjectKey) -> impl Iterator<Item = (Content, &Verdict)> {
        let contents = self.objects.get(key).into_iter().flatten();
        contents.filter_map(|content| Some((*content, self.get(content)?)))
    }

    /// Counts a refusal at a time, in milliseconds of Unix time. Of one edit of an object a single refusal counts,
    /// however many of its parts were refused, and a suspicion is none.
    pub fn note_refusal(&mut self, key: &ObjectKey, now_ms: u64) {
        self.hold_down.refused(key, now_ms);
    }

    /// Until when an object waits before its next try, in milliseconds of Unix time; none where it need not wait.
    pub fn wait_until(&self, key: &ObjectKey, now_ms: u64) -> Option<u64> {
        self.hold_down.wait_until(key, now_ms)
    }
}

/// Cuts what came from outside down to its limits.
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
