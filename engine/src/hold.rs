//! What the Envoys of a Gateway answered: what they acknowledged, and what they refused and must not be sent again.
//!
//! A refused resource is held at what was last acknowledged. Who is to blame is not asked here.

pub mod unavailable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_xds::{Answer, Resource, ResourceType, Snapshot, Version};
use serde::Serialize;

use self::unavailable::Unavailable;
use crate::refusal::Class;

/// Refused versions that are remembered for one Gateway; the oldest by name and version is forgotten beyond.
pub const REFUSALS_MAX: usize = 1000;

/// The node of refusals that no Envoy of the fleet is known for.
const PROBE: &str = "probe";

pub(crate) type Slot = (ResourceType, Arc<str>);

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
    /// What it is about.
    pub class: Class,
    /// Did another Envoy refuse it as well?
    #[serde(skip)]
    pub is_confirmed: bool,
}

impl Refusal {
    /// Is it known from the probe, an earlier run or another replica, and not from an Envoy?
    pub(crate) fn is_learned(&self) -> bool {
        *self.node == *PROBE
    }

    /// Its words, with what follows where the cause is not the content.
    pub fn explained(&self) -> String {
        let again = "the Envoy is sent it again, at most 30 seconds apart, and nothing has to be edited";
        match self.class {
            Class::Content => self.message.clone(),
            Class::Host => format!("{} (a resource of the host of Envoy {}: {again})", self.message, self.node),
            Class::Transient => {
                format!("{} (a passing state of the host of Envoy {}: {again})", self.message, self.node)
            }
            Class::Unknown => format!("Envoy {} refused it without a reason: {again}", self.node),
        }
    }
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
    /// The wanted form was refused for a reason of the Envoy's host, and is sent again.
    Unavailable(String),
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
    /// Refused or pardoned since the last desired configuration.
    to_publish: BTreeSet<Slot>,
    /// Refused for reasons of hosts.
    pub(crate) unavailable: Unavailable,
}

impl Hold {
    /// Sets the desired configuration, and returns the snapshot to publish.
    pub(crate) fn desire(&mut self, desired: Snapshot) -> Snapshot {
        let mut changed = std::mem::take(&mut self.to_publish);
        changed.extend(ResourceType::ALL.into_iter().flat_map(|kind| differences(kind, &self.desired, &desired)));
        self.desired = desired;
        self.publish(&changed)
    }

    fn publish(&mut self, changed: &BTreeSet<Slot>) -> Snapshot {
        for slot in changed {
            let (kind, name) = slot;
            self.unavailable.retain_wanted(slot, self.desired.get(*kind, name).map(|resource| resource.version));
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
                // The name of a cluster says all that makes it another: what is refused under it stays so.
                self.refused.retain(|(refused, _), _| refused != slot || *kind == ResourceType::Cluster);
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

    /// Other forms than the wanted ones are offered to an Envoy: its answers to them count.
    pub(crate) fn expect(&mut self, offered: &Snapshot, changed: &BTreeMap<Slot, Version>) {
        for slot in changed.keys() {
            if let Some(resource) = offered.get(slot.0, &slot.1)
                && !self.is_acknowledged(slot.0, resource)
            {
                self.pending.entry(slot.clone()).or_default().push(resource.clone());
            }
        }
    }

    /// Forms that are wanted by none were offered to an Envoy, and are offered to it no longer: its late answers to
    /// them do not count.
    pub(crate) fn expect_no_more(&mut self, offered: &BTreeMap<Slot, Version>) {
        for (slot, version) in offered {
            let Some(pending) = self.pending.get_mut(slot) else { continue };
            let is_published = self.published.get(slot.0, &slot.1).is_some_and(|known| known.version == *version);
            pending.retain(|resource| resource.version != *version || is_published);
            if pending.is_empty() {
                self.pending.remove(slot);
            }
        }
    }

    /// Clusters that are wanted again as they were acknowledged once: who has them still is not going to answer to them
    /// once more.
    pub(crate) fn keep(&mut self, was_acknowledged: impl Fn(&Version) -> bool) {
        let pending = self.pending.iter().filter(|((kind, _), _)| *kind == ResourceType::Cluster);
        let again: Vec<(Slot, Version)> = pending
            .filter_map(|(slot, forms)| Some((slot.clone(), forms.last()?.version)))
            .filter(|(_, version)| was_acknowledged(version))
            .collect();
        for (slot, version) in again {
            self.acknowledge(slot, version);
        }
    }

    /// Forms that stand in for older ones are offered: an answer to them says nothing about what is wanted.
    pub(crate) fn expect_meanwhile(&mut self, offered: &Snapshot, changed: &BTreeMap<Slot, Version>) {
        for slot in changed.keys() {
            if let Some(resource) = offered.get(slot.0, &slot.1) {
                self.pending.entry(slot.clone()).or_default().insert(0, resource.clone());
            }
        }
    }

    /// What was acknowledged, as a whole.
    pub(crate) fn acknowledged_snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        self.acknowledged.iter().for_each(|(slot, resource)| snapshot.insert(slot.0, resource.clone()));
        snapshot
    }

    /// The acknowledged form of a resource.
    pub(crate) fn acknowledged(&self, kind: ResourceType, name: &Arc<str>) -> Option<&Arc<Resource>> {
        self.acknowledged.get(&(kind, name.clone()))
    }

    /// Has nobody acknowledged anything?
    pub(crate) fn has_acknowledged_nothing(&self) -> bool {
        self.acknowledged.is_empty()
    }

    /// Was any route configuration acknowledged?
    pub(crate) fn has_acknowledged_routes(&self) -> bool {
        self.acknowledged.keys().any(|(kind, _)| *kind == ResourceType::Route)
    }

    /// Takes in what was acknowledged in an earlier run.
    pub(crate) fn restore(&mut self, kind: ResourceType, resource: Arc<Resource>) {
        self.acknowledged.insert((kind, resource.name.clone()), resource);
    }

    /// Sets the acknowledged form of a resource; none where no connected Envoy has any.
    pub(crate) fn replace_acknowledged(&mut self, slot: &Slot, resource: Option<Arc<Resource>>) {
        self.to_publish.insert(slot.clone());
        match resource {
            Some(resource) => drop(self.acknowledged.insert(slot.clone(), resource)),
            None => drop(self.acknowledged.remove(slot)),
        }
    }

    /// An Envoy refused a form, now or earlier; true where that is new.
    pub(crate) fn refuse_by(
        &mut self,
        node: &Arc<str>,
        build: &Arc<str>,
        slot: &Slot,
        version: Version,
        message: &str,
    ) -> bool {
        let refusal = Refusal {
            kind: slot.0,
            resource: slot.1.clone(),
            version: version.to_string(),
            node: node.clone(),
            build: build.clone(),
            message: message.to_owned(),
            class: Class::Content,
            is_confirmed: false,
        };
        self.note((slot.clone(), version), refusal)
    }

    /// Takes in what Envoys of another replica acknowledged. What own ones took of what is wanted is as good, and
    /// newer.
    pub(crate) fn learn(&mut self, kind: ResourceType, resource: &Arc<Resource>) {
        let slot = (kind, resource.name.clone());
        let wanted = self.desired.get(kind, &resource.name).map(|wanted| wanted.version);
        let known = self.acknowledged.get(&slot).map(|known| known.version);
        if known.is_none() || known != wanted {
            self.acknowledged.insert(slot, resource.clone());
        }
    }

    /// Everything that was acknowledged.
    pub(crate) fn all_acknowledged(&self) -> impl Iterator<Item = (ResourceType, &Arc<Resource>)> {
        self.acknowledged.iter().map(|(slot, resource)| (slot.0, resource))
    }

    /// Is the acknowledged form of a resource this one?
    pub(crate) fn is_acknowledged(&self, kind: ResourceType, resource: &Resource) -> bool {
        self.was_acknowledged(kind, &resource.name, resource.version)
    }

    /// Is the acknowledged form of a resource of this version?
    pub(crate) fn was_acknowledged(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> bool {
        self.acknowledged.get(&(kind, name.clone())).is_some_and(|known| known.version == version)
    }

    /// Why a form was refused, where it was.
    pub(crate) fn refusal_of(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> Option<&Refusal> {
        self.refused.get(&((kind, name.clone()), version))
    }

    /// Every form that was refused, wanted or not.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &Refusal> {
        self.refused.values()
    }

    /// The refusal of a form, whatever its resource.
    pub(crate) fn refused_as(&self, version: Version) -> Option<&Refusal> {
        self.refused.iter().find(|((_, refused), _)| *refused == version).map(|(_, refusal)| refusal)
    }

    /// What this Envoy alone refused, with its words.
    pub(crate) fn refused_by(&self, node: &str) -> Vec<(Slot, Version, String)> {
        let own = self.refused.iter().filter(|(_, refusal)| *refusal.node == *node && !refusal.is_confirmed);
        own.map(|((slot, version), refusal)| (slot.clone(), *version, refusal.message.clone())).collect()
    }

    /// Is anything in a configuration refused?
    pub(crate) fn refuses_any_of(&self, snapshot: &Snapshot) -> bool {
        self.refused
            .keys()
            .any(|((kind, name), version)| snapshot.get(*kind, name).is_some_and(|r| r.version == *version))
    }

    /// Resources of a type whose wanted form is refused, with the version.
    pub(crate) fn refused_now(&self, kind: ResourceType) -> Vec<(Arc<str>, Version)> {
        let wanted = |slot: &Slot, version: &Version| {
            self.desired.get(slot.0, &slot.1).is_some_and(|resource| resource.version == *version)
        };
        let of_kind = self.refused.keys().filter(|(slot, version)| slot.0 == kind && wanted(slot, version));
        of_kind.map(|(slot, version)| (slot.1.clone(), *version)).collect()
    }

    /// The probe refused a form.
    pub(crate) fn refuse_version(
        &mut self,
        kind: ResourceType,
        name: &Arc<str>,
        version: Version,
        build: &Arc<str>,
        message: &str,
    ) {
        let slot = (kind, name.clone());
        if !self.refused.contains_key(&(slot.clone(), version)) {
            self.refuse_by(&PROBE.into(), build, &slot, version, message);
        }
    }

    /// An Envoy took a form; true where that is new.
    pub(crate) fn acknowledge(&mut self, slot: Slot, version: Version) -> bool {
        // The repeat of a refused certificate is acknowledged while the old one stays in use: no proof.
        if self.refused.contains_key(&(slot.clone(), version)) {
            return false;
        }
        let Some(pending) = self.pending.get_mut(&slot) else { return false };
        let Some(at) = pending.iter().position(|resource| resource.version == version) else { return false };
        let newer = pending.split_off(at + 1);
        let answered = std::mem::replace(pending, newer).pop();
        if pending.is_empty() {
            self.pending.remove(&slot);
        }
        let is_there = answered.is_some();
        self.acknowledged.extend(answered.map(|resource| (slot, resource)));
        is_there
    }

    /// An Envoy refused a form; true where that is new.
    pub(crate) fn refuse(&mut self, answer: &Answer, name: &Arc<str>, version: Version, message: &str) -> bool {
        let slot: Slot = (answer.kind, name.clone());
        if self.desired.get(slot.0, &slot.1).is_none() {
            return false;
        }
        self.refuse_by(&answer.node, &answer.build, &slot, version, message)
    }

    /// An Envoy takes a form that another one refused: it is not refused any more.
    pub(crate) fn pardon(&mut self, slot: &Slot, version: Version) {
        if self.refused.remove(&(slot.clone(), version)).is_some() {
            self.to_publish.insert(slot.clone());
        }
    }

    fn note(&mut self, form: (Slot, Version), mut refusal: Refusal) -> bool {
        let before = self.refused.get(&form).filter(|before| !before.is_learned());
        refusal.is_confirmed = before.is_some_and(|before| before.is_confirmed || before.node != refusal.node);
        if let Some(pending) = self.pending.get_mut(&form.0) {
            pending.retain(|resource| resource.version != form.1);
        }
        self.to_publish.insert(form.0.clone());
        let first = self.refused.insert(form, refusal).is_none();
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
        if self.acknowledged.get(&slot).is_some_and(|resource| resource.version == wanted.version) {
            return Some(Standing::Acknowledged);
        }
        let mut unavailable = self.unavailable.refusals(&self.desired);
        let own = unavailable.find(|refusal| refusal.kind == kind && *refusal.resource == *name);
        Some(own.map_or(Standing::Pending, |refusal| Standing::Unavailable(refusal.explained())))
    }

    /// Has nobody answered yet to something that is wanted? Endpoints come and go all the time, and do not count.
    pub(crate) fn awaits_answers(&self) -> bool {
        let pending = self.pending.keys().filter(|(kind, _)| *kind != ResourceType::Endpoints);
        pending.into_iter().any(|(kind, name)| self.standing(*kind, name) == Some(Standing::Pending))
    }

    /// The wanted form of a resource, also where it is not published.
    pub(crate) fn desired(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.desired.get(kind, name)
    }

    /// The refusals in force.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.refused
            .iter()
            .filter(|((slot, version), _)| self.desired.get(slot.0, &slot.1).is_some_and(|r| r.version == *version))
            .map(|(_, refusal)| refusal)
            .chain(self.unavailable.refusals(&self.desired))
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
