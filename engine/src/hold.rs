//! What the Envoys of a Gateway answered: what they acknowledged, and what they refused and must not be sent again.
//!
//! A refused resource is held at what was last acknowledged. Who is to blame is not asked here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_xds::{Answer, Outcome, Resource, ResourceType, Snapshot, Version};
use serde::Serialize;

/// Refused versions that are remembered for one Gateway; the oldest by name and version is forgotten beyond.
pub const REFUSALS_MAX: usize = 1000;

type Slot = (ResourceType, Arc<str>);

/// A refusal that is in force: the resource is still wanted in this form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Type of the resource.
    #[serde(rename = "type")]
    pub kind: ResourceType,
    /// Its name.
    pub resource: Arc<str>,
    /// The version that was refused, in hexadecimal digits.
    pub version: String,
    /// Which Envoy refused it.
    pub node: Arc<str>,
    /// Its build.
    pub build: Arc<str>,
    /// Its words, scrubbed.
    pub message: String,
}

/// How a resource stands with the Envoys of its Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The wanted form was acknowledged.
    Acknowledged,
    /// No answer yet.
    Pending,
    /// The wanted form was refused.
    Refused(String),
}

/// The answers of one Gateway's Envoys.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    desired: Snapshot,
    published: Snapshot,
    acknowledged: BTreeMap<Slot, Arc<Resource>>,
    /// Published forms that are not answered yet.
    pending: BTreeMap<Slot, Vec<Arc<Resource>>>,
    refused: BTreeMap<(Slot, Version), Refusal>,
}

impl Hold {
    /// What is published.
    pub(crate) fn published(&self) -> &Snapshot {
        &self.published
    }

    /// Something new is wanted; says what to publish.
    pub(crate) fn desire(&mut self, desired: Snapshot) -> Snapshot {
        let changed: Vec<Slot> =
            ResourceType::ALL.into_iter().flat_map(|kind| differences(kind, &self.desired, &desired)).collect();
        self.desired = desired;
        self.publish(&changed.into_iter().collect())
    }

    fn publish(&mut self, changed: &BTreeSet<Slot>) -> Snapshot {
        for slot in changed {
            let (kind, name) = slot;
            match self.admissible(slot) {
                Some(resource) => {
                    if self.published.get(*kind, name) != Some(&resource) {
                        self.pending.entry(slot.clone()).or_default().push(resource.clone());
                        self.published.insert(*kind, resource);
                    }
                }
                None => self.published.remove(*kind, name),
            }
            if self.desired.get(*kind, name).is_none() {
                self.acknowledged.remove(slot);
                self.pending.remove(slot);
                self.refused.retain(|(refused, _), _| refused != slot);
            }
        }
        self.published.clone()
    }

    /// The wanted form, or where that was refused the one that was acknowledged.
    fn admissible(&self, slot: &Slot) -> Option<Arc<Resource>> {
        let wanted = self.desired.get(slot.0, &slot.1)?;
        if self.refused.contains_key(&(slot.clone(), wanted.version)) {
            return self.acknowledged.get(slot).cloned();
        }
        Some(wanted.clone())
    }

    /// An Envoy answered; says what to publish where that changes.
    pub(crate) fn answered(&mut self, answer: &Answer) -> Option<Snapshot> {
        let mut changed = BTreeSet::new();
        for (name, version) in &answer.resources {
            let (slot, Some(version)) = ((answer.kind, name.clone()), *version) else { continue };
            match &answer.outcome {
                Outcome::Acknowledged => self.acknowledge(slot, version),
                Outcome::Refused { message } => {
                    if self.refuse(&slot, version, answer, message) {
                        changed.insert(slot);
                    }
                }
            }
        }
        (!changed.is_empty()).then(|| self.publish(&changed))
    }

    fn acknowledge(&mut self, slot: Slot, version: Version) {
        // The repeat of a refused certificate is acknowledged while the old one stays in use: no proof.
        if self.refused.contains_key(&(slot.clone(), version)) {
            return;
        }
        let Some(pending) = self.pending.get_mut(&slot) else { return };
        let Some(at) = pending.iter().position(|resource| resource.version == version) else { return };
        let newer = pending.split_off(at + 1);
        let answered = std::mem::replace(pending, newer).pop();
        if pending.is_empty() {
            self.pending.remove(&slot);
        }
        if let Some(resource) = answered {
            self.acknowledged.insert(slot, resource);
        }
    }

    fn refuse(&mut self, slot: &Slot, version: Version, answer: &Answer, message: &str) -> bool {
        let known = self.acknowledged.get(slot).is_some_and(|resource| resource.version == version);
        // Content that this fleet acknowledged is not taken back for one Envoy that refuses it.
        if known || self.desired.get(slot.0, &slot.1).is_none() {
            return false;
        }
        let refusal = Refusal {
            kind: slot.0,
            resource: slot.1.clone(),
            version: version.to_string(),
            node: answer.node.clone(),
            build: answer.build.clone(),
            message: message.to_owned(),
        };
        let first = self.refused.insert((slot.clone(), version), refusal).is_none();
        if let Some(pending) = self.pending.get_mut(slot) {
            pending.retain(|resource| resource.version != version);
        }
        while self.refused.len() > REFUSALS_MAX {
            self.refused.pop_first();
        }
        first
    }

    /// How a resource stands; `None` where it is not wanted.
    pub(crate) fn standing(&self, kind: ResourceType, name: &str) -> Option<Standing> {
        let wanted = self.desired.get(kind, name)?;
        let slot = (kind, wanted.name.clone());
        if let Some(refusal) = self.refused.get(&(slot.clone(), wanted.version)) {
            return Some(Standing::Refused(refusal.message.clone()));
        }
        let acknowledged = self.acknowledged.get(&slot).is_some_and(|resource| resource.version == wanted.version);
        Some(if acknowledged { Standing::Acknowledged } else { Standing::Pending })
    }

    /// The refusals in force.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.refused
            .iter()
            .filter(|((slot, version), _)| self.desired.get(slot.0, &slot.1).is_some_and(|r| r.version == *version))
            .map(|(_, refusal)| refusal)
    }
}

fn differences(kind: ResourceType, old: &Snapshot, new: &Snapshot) -> Vec<Slot> {
    use imbl::ordmap::DiffItem;
    let name = |item: DiffItem<'_, '_, Arc<str>, Arc<Resource>>| match item {
        DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name.clone(),
        DiffItem::Update { new: (name, _), .. } => name.clone(),
    };
    old.of(kind).diff(new.of(kind)).map(|item| (kind, name(item))).collect()
}
