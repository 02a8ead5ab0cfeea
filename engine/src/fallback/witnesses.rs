//! Second witnesses: a verdict about content that one Envoy refused has that Envoy as its only witness until another
//! Envoy of the build has refused the content as well.
//!
//! The verdict is in force meanwhile, so that clients are served the fallback. The subject is tried on a second Envoy as
//! soon as there is one: a refusal confirms the verdict; an acknowledgement voids it, and the first Envoy is an
//! outlier, so that every other verdict with that Envoy as the only witness is void too. Content on which an Envoy died,
//! or to which it did not answer, is tried on no second Envoy.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_graph::{Content, Detected, Node};
use holdfast_store::Change;
use holdfast_xds::{Answer, ResourceType, Snapshot, Version};

use super::admission::{TrialRun, Tried};
use super::around::Around;
use super::blame;
use super::line::Line;
use super::readmission::{PARKED_DOUBLINGS, PARKED_MS, Readmission, Subject, owners};
use super::taking_part::Untried;

/// Verdicts of one Gateway and build that are known to rest on one Envoy; beyond it the oldest counts as confirmed.
pub(crate) const LONE_VERDICTS_MAX: usize = 4_096;
/// How often the stream of a second Envoy may end on a subject before the verdict counts as confirmed.
const STREAMS_ENDED_MAX: u32 = 2;

/// The Envoy that refused content which was then convicted, and its refusal.
#[derive(Clone, Debug)]
pub(crate) struct Refuser {
    node: Arc<str>,
    slot: (ResourceType, Arc<str>),
    version: Version,
    message: String,
}

/// A verdict that rests on one Envoy.
#[derive(Clone, Debug)]
struct Lone {
    subject: Subject,
    refuser: Refuser,
    /// When a second Envoy is asked at the earliest, in milliseconds of Unix time.
    not_before_ms: u64,
    unanswered: u32,
    streams_ended: u32,
    /// What second Envoys refused that said nothing about the subject: none is sent it again.
    refused: BTreeSet<(Arc<str>, Version)>,
}

/// The verdicts that rest on one Envoy, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Witnesses {
    lone: VecDeque<Lone>,
}

impl Lone {
    fn is_about(&self, contents: &BTreeSet<Content>) -> bool {
        self.subject.contents.keys().eq(contents)
    }
}

impl Witnesses {
    fn note(&mut self, subject: Subject, refuser: Refuser, now_ms: u64) {
        self.lone.retain(|lone| lone.subject.contents != subject.contents);
        self.lone.push_back(Lone {
            subject,
            refuser,
            not_before_ms: now_ms,
            unanswered: 0,
            streams_ended: 0,
            refused: BTreeSet::new(),
        });
        if self.lone.len() > LONE_VERDICTS_MAX {
            self.lone.pop_front();
        }
    }

    fn of(&self, contents: &BTreeSet<Content>) -> Option<&Lone> {
        self.lone.iter().find(|lone| lone.is_about(contents))
    }

    fn take(&mut self, contents: &BTreeSet<Content>) -> Option<Lone> {
        let at = self.lone.iter().position(|lone| lone.is_about(contents))?;
        self.lone.remove(at)
    }

    /// Those that rest on one of these Envoys.
    fn take_of(&mut self, is_outlier: impl Fn(&str) -> bool) -> Vec<Lone> {
        let (void, lone) = std::mem::take(&mut self.lone).into_iter().partition(|lone| is_outlier(&lone.refuser.node));
        self.lone = lone;
        let void: VecDeque<Lone> = void;
        void.into()
    }

    /// The second Envoy has not answered: it, or another one, is asked again later.
    pub(crate) fn not_answered(&mut self, contents: &BTreeSet<Content>, now_ms: u64) {
        let Some(mut lone) = self.take(contents) else { return };
        lone.not_before_ms = now_ms.saturating_add(PARKED_MS << lone.unanswered.min(PARKED_DOUBLINGS));
        lone.unanswered = lone.unanswered.saturating_add(1);
        self.lone.push_back(lone);
    }

    /// The second Envoy refused a resource that says nothing about the subject.
    fn refused_beside(&mut self, contents: &BTreeSet<Content>, node: &Arc<str>, version: Version) {
        if let Some(lone) = self.lone.iter_mut().find(|lone| lone.is_about(contents)) {
            lone.refused.insert((node.clone(), version));
        }
    }

    /// The stream of the second Envoy ended while it had the subject: content can end an Envoy.
    pub(crate) fn stream_ended(&mut self, contents: &BTreeSet<Content>, now_ms: u64) {
        self.not_answered(contents, now_ms);
        if let Some(lone) = self.lone.back_mut().filter(|lone| lone.is_about(contents)) {
            lone.streams_ended += 1;
            if lone.streams_ended >= STREAMS_ENDED_MAX {
                self.lone.pop_back();
            }
        }
    }
}

impl Line {
    /// The only Envoy that refused a form, with its words; none where the probe did, or an Envoy was lost on it.
    pub(super) fn refuser(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> Option<Refuser> {
        let refusal = self.hold.refusal_of(kind, name, version)?;
        let slot = (kind, name.clone());
        let is_known = !refusal.is_confirmed && self.envoys.contains_key(&refusal.node);
        is_known.then(|| Refuser { node: refusal.node.clone(), slot, version, message: refusal.message.clone() })
    }

    /// A subject was convicted for what this Envoy refused.
    pub(super) fn note_refuser(&mut self, subject: Subject, refuser: Option<Refuser>, around: &Around<'_>) {
        if let Some(refuser) = refuser {
            self.witnesses.note(subject, refuser, around.now_ms);
        }
    }

    /// The subjects on trial, whether suspected or convicted.
    pub(super) fn on_trial_now(&self) -> &[Subject] {
        match self.trial.as_ref().filter(|trial| trial.is_second) {
            Some(trial) => self.witnesses.of(&trial.contents).map_or(&[], |lone| std::slice::from_ref(&lone.subject)),
            None => self.readmission.as_ref().and_then(Readmission::testing).unwrap_or_default(),
        }
    }

    /// Is what is on trial at a second Envoy?
    pub(super) fn is_at_second_witness(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.is_second)
    }

    /// Is there a verdict about which a second Envoy can be asked now?
    pub(super) fn has_a_second_witness_to_ask(&self, now_ms: u64) -> bool {
        self.next_lone(now_ms).is_some()
    }

    /// The verdict to be confirmed next, and the Envoy for it: of the owner that was refused least of late.
    fn next_lone(&self, now_ms: u64) -> Option<(&Lone, Arc<str>)> {
        let budget = &self.fairness.budget;
        let used = |lone: &Lone| {
            let subjects = std::slice::from_ref(&lone.subject);
            owners(subjects).iter().try_fold(0, |most, owner| {
                budget.wait_until(owner, now_ms).is_none().then(|| budget.used(owner, now_ms).max(most))
            })
        };
        let due = self.witnesses.lone.iter().filter(|lone| lone.not_before_ms <= now_ms);
        // With the refuser as the only Envoy no budget is computed.
        let able = due.filter_map(|lone| Some((lone, self.second_witness(&lone.refuser.node)?)));
        let affordable = able.filter_map(|(lone, node)| Some((used(lone)?, lone, node)));
        let (_, lone, node) = affordable.min_by_key(|(used, ..)| *used)?;
        Some((lone, node))
    }

    /// An Envoy of the build that has what is proven, besides the one that refused.
    fn second_witness(&self, refuser: &str) -> Option<Arc<str>> {
        let anything = self.hold.has_acknowledged_routes();
        let others = self.envoys.keys().filter(|node| ***node != *refuser && !self.alone.contains_key(*node));
        let fit = others.filter(|node| !anything || !self.fresh.contains_key(*node));
        fit.min_by_key(|node| (self.silent.contains(*node), self.afar.contains(*node))).cloned()
    }

    /// A subject that one Envoy refused is offered to a second one; true where something was done.
    pub(super) fn ask_a_second_witness(&mut self, around: &mut Around<'_>) -> bool {
        if around.follows || !around.settings.fallback.isolate {
            return false;
        }
        if self.void_of_outliers() {
            self.settle(around);
            return true;
        }
        while let Some((lone, node)) = self.next_lone(around.now_ms) {
            let subject = lone.subject.clone();
            let contents: BTreeSet<Content> = subject.contents.keys().copied().collect();
            if !self.is_lone_verdict(&subject, around) {
                self.witnesses.take(&contents);
                continue;
            }
            if blame::stands_in(&self.gateway, &subject, around) {
                // The unit stays closed in another way: no second Envoy is made to refuse that.
                self.witnesses.not_answered(&contents, around.now_ms);
                continue;
            }
            let tried = Tried::of(std::slice::from_ref(&subject));
            let Some(mut offer) = self.on_trial(&tried, around) else { return false };
            offer.waiting = self.answerable(&node, offer.waiting, &offer.snapshot);
            let has_refused = |version: &Version| {
                let lone = self.witnesses.of(&contents);
                lone.is_some_and(|lone| lone.refused.contains(&(node.clone(), *version)))
            };
            if offer.waiting.is_empty() || offer.waiting.values().any(has_refused) {
                // It is part of nothing that Envoys are offered now, or only beside what this one refuses.
                self.witnesses.not_answered(&contents, around.now_ms);
                continue;
            }
            let trial = TrialRun::new(node, tried, offer, around.now_ms);
            self.begin_trial(TrialRun { is_second: true, ..trial }, around);
            return true;
        }
        false
    }

    /// Is a subject desired as it was convicted, by a verdict that still holds?
    fn is_lone_verdict(&self, subject: &Subject, around: &Around<'_>) -> bool {
        let is_convicted = |content| self.quarantine.get(content).is_some_and(|v| v.detected == Detected::Nack);
        let certificates = || around.translator.certificates(&self.gateway);
        let is_certificate = || {
            let is_it = |(content, node): (&Content, &Node)| certificates().get(&node.key) == Some(content);
            subject.contents.iter().all(is_it)
        };
        subject.contents.keys().any(is_convicted)
            && (is_certificate() || blame::is_made(&self.gateway, subject, &self.derived.overlay, around))
    }

    /// What is on trial at a second Envoy is edited: there is nothing to be confirmed.
    pub(super) fn drop_void_second_trial(&mut self, around: &Around<'_>) {
        let Some(trial) = self.trial.as_ref().filter(|trial| trial.is_second) else { return };
        let contents = trial.contents.clone();
        let is_there = self.witnesses.of(&contents).is_some_and(|lone| self.is_lone_verdict(&lone.subject, around));
        if !is_there {
            self.witnesses.take(&contents);
            self.end_trial();
        }
    }

    /// The second Envoy takes what the first refused: that refusal proves nothing about the form.
    pub(super) fn pardon_what_a_second_witness_takes(&mut self, answer: &Answer, name: &Arc<str>, version: Version) {
        let slot = (answer.kind, name.clone());
        let takes = self.trial.as_ref().is_some_and(|trial| {
            trial.is_second && *trial.node == *answer.node && trial.waiting.get(&slot) == Some(&version)
        });
        if takes {
            self.pardon(&slot, version);
        }
    }

    /// An Envoy is an outlier: what it refused besides, as a whole with the content that others take, may be offered to them.
    /// It is not sent that again itself.
    fn pardon_refused_by(&mut self, node: &Arc<str>, last: &Snapshot) {
        for (slot, version, message) in self.hold.refused_by(node) {
            self.keeps(node, slot.clone(), version, &message, last);
            self.pardon(&slot, version);
        }
    }

    fn pardon(&mut self, slot: &(ResourceType, Arc<str>), version: Version) {
        self.hold.pardon(slot, version);
        if self.remembered.contains(&version) {
            self.remembered.retain(|known| *known != version);
            self.record(Change::Acquit(self.scope(), *version.as_bytes()));
        }
    }

    /// The second Envoy took everything that it was offered. This proves nothing where the subject was not part of it.
    pub(super) fn second_witness_accepted(&mut self, took_part: bool, around: &mut Around<'_>) {
        let is_unreached = self.trial.as_ref().is_some_and(|trial| trial.is_unreached);
        let trial = if took_part && !is_unreached { self.trial.take() } else { self.end_trial() };
        let Some(trial) = trial else { return };
        around.translator.close(&self.trial_fleet());
        if !took_part {
            self.witnesses.not_answered(&trial.contents, around.now_ms);
        } else if let Some(lone) = self.witnesses.take(&trial.contents) {
            let Refuser { node, slot, version, message } = &lone.refuser;
            if self.envoys.contains_key(node) {
                let last = self.everyone.clone().unwrap_or_default();
                self.keeps(node, slot.clone(), *version, message, &last);
                self.pardon_refused_by(node, &last);
            }
            self.void(&lone);
            self.void_of_outliers();
        }
        self.settle(around);
    }

    /// The second Envoy refuses as well: the verdict is confirmed, unless what it refused holds something else that is new.
    pub(super) fn second_witness_refused(
        &mut self,
        refused: Option<(ResourceType, &Arc<str>, Version)>,
        around: &mut Around<'_>,
    ) {
        let untried = refused.map(|(kind, name, version)| self.untried_in(kind, name, version, around));
        let on_trial = self.on_trial_now().iter().flat_map(|subject| subject.contents.keys());
        let proves_nothing = untried.is_some_and(|Untried { others, accused }| {
            !others.is_empty()
                || accused.is_some_and(|accused| !on_trial.clone().any(|content| accused.contains(content)))
        });
        let Some(trial) = self.end_trial() else { return };
        around.translator.close(&self.trial_fleet());
        if proves_nothing {
            if let Some((_, _, version)) = refused {
                self.witnesses.refused_beside(&trial.contents, &trial.node, version);
            }
            self.witnesses.not_answered(&trial.contents, around.now_ms);
        } else {
            self.witnesses.take(&trial.contents);
        }
        self.settle(around);
    }

    /// Verdicts that rest on an Envoy which refuses what others take are void; true where there were any.
    fn void_of_outliers(&mut self) -> bool {
        let outliers = &self.alone;
        let void = self.witnesses.take_of(|node| outliers.contains_key(node));
        void.iter().for_each(|lone| self.void(lone));
        !void.is_empty()
    }

    fn void(&mut self, lone: &Lone) {
        lone.subject.contents.keys().for_each(|content| self.acquit(content));
        self.pardon(&lone.refuser.slot, lone.refuser.version);
    }
}
