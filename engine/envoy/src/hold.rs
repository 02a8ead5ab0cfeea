//! Answers of a Gateway's Envoys: versions of resources that they acknowledged, and versions that they refused and that
//! must not be sent again.
//!
//! A refused resource is held at its last acknowledged version. Blame is not attributed here.

pub mod unavailable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::inspect::chain_parts;
use crate::inspect::references::{self, ResourceReference};
use holdfast_graph::visits;
use holdfast_xds::{Answer, Resource, ResourceType, Snapshot, Version};
use serde::Serialize;

use self::unavailable::Unavailable;
use crate::refusal::RefusalClass;

/// Maximum number of remembered refusals of one Gateway; beyond it, the first by name and version is forgotten.
pub const REFUSALS_MAX: usize = 1000;

/// The node of refusals that no known Envoy of the fleet sent.
const PROBE: &str = "probe";

/// Type and name of a resource.
pub type Slot = (ResourceType, Arc<str>);

/// A refusal in force: the refused version is still the desired one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The type of the resource.
    #[serde(rename = "type")]
    pub kind: ResourceType,
    /// The name of the resource.
    pub resource: Arc<str>,
    /// The refused version, in hexadecimal digits.
    pub version: String,
    /// The node of the Envoy that refused it.
    pub node: Arc<str>,
    /// The build of the Envoy.
    pub build: Arc<str>,
    /// Envoy's message, scrubbed.
    pub message: String,
    /// The class of the refusal.
    pub class: RefusalClass,
    /// The nodes of all Envoys that refused the version.
    #[serde(skip)]
    pub refusers: BTreeSet<Arc<str>>,
}

impl Refusal {
    /// Returns whether the refusal comes from the probe, an earlier run or another replica, not from an Envoy of the
    /// fleet.
    pub fn is_learned(&self) -> bool {
        *self.node == *PROBE
    }

    /// Returns whether this Envoy refused the version.
    pub fn is_by(&self, node: &str) -> bool {
        self.refusers.contains(node)
    }

    /// Returns whether more than one Envoy refused the version.
    pub fn is_confirmed(&self) -> bool {
        self.refusers.len() > 1
    }

    /// Returns Envoy's message, with the consequence where the cause is not the content.
    pub fn explained(&self) -> String {
        let again = "Holdfast sends the configuration to this Envoy again, at least every 30 seconds, and no object \
                     has to be edited";
        match self.class {
            RefusalClass::Content => self.message.clone(),
            RefusalClass::Host => {
                format!("{} (caused by the host of Envoy {}, not by an object: {again})", self.message, self.node)
            }
            RefusalClass::Transient => {
                format!("{} (caused by a temporary state of the host of Envoy {}: {again})", self.message, self.node)
            }
            RefusalClass::Unknown => format!("Envoy {} refused it without an error message: {again}", self.node),
        }
    }
}

/// The state of a resource at the Envoys of its Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceState {
    /// The desired version was acknowledged.
    Acknowledged,
    /// The desired version has no answer yet.
    Pending,
    /// The desired version was refused.
    Refused(String),
    /// The desired version was refused for a reason of the Envoy's host, and is sent again.
    Unavailable(String),
}

/// The answers of one Gateway's Envoys.
#[derive(Debug, Default)]
pub struct Hold {
    desired: Snapshot,
    published: Snapshot,
    acknowledged: BTreeMap<Slot, Arc<Resource>>,
    /// The learned versions among the acknowledged ones, each with the version that Envoys of this replica acknowledged
    /// before: an Envoy that still has it does not acknowledge it again.
    learned: BTreeMap<Slot, Option<Arc<Resource>>>,
    /// Published versions without an answer yet.
    pending: BTreeMap<Slot, Vec<Arc<Resource>>>,
    refused: BTreeMap<(Slot, Version), Refusal>,
    /// The published clusters with another version than the acknowledged one.
    unacknowledged_clusters: BTreeSet<Arc<str>>,
    /// Resources that were refused or pardoned since the last desired configuration.
    to_publish: BTreeSet<Slot>,
    /// Refusals for reasons of Envoys' hosts.
    pub unavailable: Unavailable,
    /// The number of answers that changed the state of a resource.
    answers: u64,
}

impl Hold {
    /// Sets the desired configuration, and returns the snapshot to publish.
    pub fn desire(&mut self, desired: Snapshot) -> Snapshot {
        let mut changed = std::mem::take(&mut self.to_publish);
        changed.extend(ResourceType::ALL.into_iter().flat_map(|kind| differences(kind, &self.desired, &desired)));
        self.desired = desired;
        self.publish(&changed)
    }

    fn publish(&mut self, changed: &BTreeSet<Slot>) -> Snapshot {
        for slot in changed {
            let (kind, name) = slot;
            self.unavailable.release_unwanted(slot, self.desired.get(*kind, name).map(|resource| resource.version));
            match self.admissible(slot) {
                Some(resource) => {
                    if self.published.get(*kind, name) != Some(&resource) {
                        self.pending.entry(slot.clone()).or_default().push(resource.clone());
                        self.published.insert(*kind, resource);
                    }
                }
                None => self.published.remove(*kind, name),
            }
            self.return_to_own(slot);
            if self.desired.get(*kind, name).is_none() {
                self.acknowledged.remove(slot);
                self.learned.remove(slot);
                self.pending.remove(slot);
                // A cluster's name is derived from all settings that distinguish it, and the content of a certificate
                // depends on no other resource: a version that was refused under the name stays refused.
                let stays = matches!(kind, ResourceType::Cluster | ResourceType::Secret);
                self.refused.retain(|(refused, _), _| refused != slot || stays);
            }
            self.compare_cluster(slot);
        }
        self.published.clone()
    }

    /// Compares the published version of a cluster with the acknowledged one, after a change of either.
    fn compare_cluster(&mut self, (kind, name): &Slot) {
        if *kind != ResourceType::Cluster {
            return;
        }
        match self.published.get(*kind, name).is_none_or(|published| self.is_acknowledged(*kind, published)) {
            true => self.unacknowledged_clusters.remove(name),
            false => self.unacknowledged_clusters.insert(name.clone()),
        };
    }

    /// Returns whether the published version of every cluster is the acknowledged one.
    pub fn has_acknowledged_all_clusters(&self) -> bool {
        self.unacknowledged_clusters.is_empty()
    }

    /// Returns the desired version, or the acknowledged one where the desired version was refused.
    fn admissible(&self, slot: &Slot) -> Option<Arc<Resource>> {
        let wanted = self.desired.get(slot.0, &slot.1)?;
        if self.refused.contains_key(&(slot.clone(), wanted.version)) {
            return self.acknowledged.get(slot).cloned();
        }
        Some(wanted.clone())
    }

    /// Acknowledges a desired version that the Envoys of this replica still have. Answers to versions after it may be
    /// under way, and count.
    fn return_to_own(&mut self, slot: &Slot) {
        let wanted = self.desired.get(slot.0, &slot.1).map(|wanted| wanted.version);
        let own = self.learned.get(slot).and_then(Option::as_ref).filter(|own| Some(own.version) == wanted);
        let is_refused = |own: &Arc<Resource>| self.refused.contains_key(&(slot.clone(), own.version));
        if let Some(own) = own.filter(|own| !is_refused(own)).cloned() {
            self.learned.remove(slot);
            self.acknowledged.insert(slot.clone(), own);
        }
    }

    /// Expects answers to versions other than the desired ones, which one Envoy is offered.
    pub fn expect(&mut self, offered: &Snapshot, changed: &BTreeMap<Slot, Version>) {
        for slot in changed.keys() {
            if let Some(resource) = offered.get(slot.0, &slot.1)
                && !self.is_acknowledged(slot.0, resource)
            {
                self.pending.entry(slot.clone()).or_default().push(resource.clone());
            }
        }
    }

    /// Stops expecting answers to versions that are not desired and that one Envoy is no longer offered: late answers
    /// to them do not count.
    pub fn expect_no_more(&mut self, offered: &BTreeMap<Slot, Version>) {
        for (slot, version) in offered {
            let Some(pending) = self.pending.get_mut(slot) else { continue };
            let is_published = self.published.get(slot.0, &slot.1).is_some_and(|known| known.version == *version);
            pending.retain(|resource| resource.version != *version || is_published);
            if pending.is_empty() {
                self.pending.remove(slot);
            }
        }
    }

    /// Acknowledges pending clusters with a desired version that was acknowledged before: an Envoy that still has such
    /// a cluster does not answer again.
    pub fn keep(&mut self, was_acknowledged: impl Fn(&Version) -> bool) {
        let pending = self.pending.iter().filter(|((kind, _), _)| *kind == ResourceType::Cluster);
        let again: Vec<(Slot, Version)> = pending
            .filter_map(|(slot, forms)| Some((slot.clone(), forms.last()?.version)))
            .filter(|(_, version)| was_acknowledged(version))
            .collect();
        for (slot, version) in again {
            self.acknowledge(slot, version);
        }
    }

    /// Expects answers to stand-in versions, which prove nothing about the desired versions.
    pub fn expect_meanwhile(&mut self, offered: &Snapshot, changed: &BTreeMap<Slot, Version>) {
        for slot in changed.keys() {
            if let Some(resource) = offered.get(slot.0, &slot.1) {
                self.pending.entry(slot.clone()).or_default().insert(0, resource.clone());
            }
        }
    }

    /// Returns all acknowledged versions as a snapshot.
    pub fn acknowledged_snapshot(&self) -> Snapshot {
        visits::resources(self.acknowledged.len());
        let mut snapshot = Snapshot::default();
        self.acknowledged.iter().for_each(|(slot, resource)| snapshot.insert(slot.0, resource.clone()));
        snapshot
    }

    /// Returns the acknowledged version of a resource.
    pub fn acknowledged(&self, kind: ResourceType, name: &Arc<str>) -> Option<&Arc<Resource>> {
        self.acknowledged.get(&(kind, name.clone()))
    }

    /// Returns whether no resource was acknowledged yet.
    pub fn has_acknowledged_nothing(&self) -> bool {
        self.acknowledged.is_empty()
    }

    /// Returns whether any route configuration was acknowledged, or a listener that forwards connections.
    pub fn has_acknowledged_routes(&self) -> bool {
        let forwards = |body: &[u8]| chain_parts::parts(body).iter().any(|parts| parts.forwarding.is_some());
        // The types are in the order of the slots: of the acknowledged resources, only these are visited.
        let mut routes = self.acknowledged.range((ResourceType::Route, Arc::from(""))..);
        let mut listeners =
            self.acknowledged.range((ResourceType::Listener, Arc::from(""))..(ResourceType::Route, Arc::from("")));
        routes.any(|((kind, _), _)| *kind == ResourceType::Route)
            || listeners.any(|(_, resource)| forwards(&resource.body))
    }

    /// Restores a version that was acknowledged in an earlier run.
    pub fn restore(&mut self, kind: ResourceType, resource: Arc<Resource>) {
        let slot = (kind, resource.name.clone());
        self.acknowledged.insert(slot.clone(), resource);
        self.compare_cluster(&slot);
    }

    /// Sets the acknowledged version of a resource; `None` where no connected Envoy has any.
    pub fn replace_acknowledged(&mut self, slot: &Slot, resource: Option<Arc<Resource>>) {
        self.to_publish.insert(slot.clone());
        match resource {
            Some(resource) => drop(self.acknowledged.insert(slot.clone(), resource)),
            None => drop(self.acknowledged.remove(slot)),
        }
        self.compare_cluster(slot);
    }

    /// Records that an Envoy refused a version, now or earlier; returns whether this is new.
    pub fn refuse_by(
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
            class: RefusalClass::Content,
            refusers: BTreeSet::from([node.clone()]),
        };
        self.note((slot.clone(), version), refusal)
    }

    /// Adds a version that Envoys of another replica acknowledged. It does not replace a desired version that Envoys of
    /// this replica acknowledged, which is as good, and newer.
    pub fn learn(&mut self, kind: ResourceType, resource: &Arc<Resource>) {
        let slot = (kind, resource.name.clone());
        let wanted = self.desired.get(kind, &resource.name).map(|wanted| wanted.version);
        let known = self.acknowledged.get(&slot).map(|known| known.version);
        if known == Some(resource.version) || (known.is_some() && known == wanted) {
            return;
        }
        let before = self.acknowledged.insert(slot.clone(), resource.clone());
        self.compare_cluster(&slot);
        self.learned.entry(slot).or_insert(before);
    }

    /// Returns the number of answers that changed the state of a resource.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Returns all acknowledged versions.
    pub fn all_acknowledged(&self) -> impl Iterator<Item = (ResourceType, &Arc<Resource>)> {
        visits::resources(self.acknowledged.len());
        self.acknowledged.iter().map(|(slot, resource)| (slot.0, resource))
    }

    /// Returns whether the acknowledged version of a resource is this one.
    pub fn is_acknowledged(&self, kind: ResourceType, resource: &Resource) -> bool {
        self.was_acknowledged(kind, &resource.name, resource.version)
    }

    /// Returns whether the acknowledged version of a resource is the given one.
    pub fn was_acknowledged(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> bool {
        self.acknowledged.get(&(kind, name.clone())).is_some_and(|known| known.version == version)
    }

    /// Returns the refusal of a version.
    pub fn refusal_of(&self, kind: ResourceType, name: &Arc<str>, version: Version) -> Option<&Refusal> {
        self.refused.get(&((kind, name.clone()), version))
    }

    /// Returns the refusals of all versions, desired or not.
    pub fn refused(&self) -> impl Iterator<Item = &Refusal> {
        self.refused.values()
    }

    /// Returns the refusal of a version, regardless of the resource.
    pub fn refused_as(&self, version: Version) -> Option<&Refusal> {
        self.refused.iter().find(|((_, refused), _)| *refused == version).map(|(_, refusal)| refusal)
    }

    /// Returns the versions that this Envoy refused, with the newest message about each.
    pub fn refused_by(&self, node: &str) -> Vec<(Slot, Version, String)> {
        let own = self.refused.iter().filter(|(_, refusal)| refusal.refusers.contains(node));
        own.map(|((slot, version), refusal)| (slot.clone(), *version, refusal.message.clone())).collect()
    }

    /// Returns whether any version in a configuration is refused.
    pub fn refuses_any_of(&self, snapshot: &Snapshot) -> bool {
        self.refused
            .keys()
            .any(|((kind, name), version)| snapshot.get(*kind, name).is_some_and(|r| r.version == *version))
    }

    /// Returns the resources of a type with a refused desired version, with that version.
    pub fn refused_now(&self, kind: ResourceType) -> Vec<(Arc<str>, Version)> {
        let wanted = |slot: &Slot, version: &Version| {
            self.desired.get(slot.0, &slot.1).is_some_and(|resource| resource.version == *version)
        };
        let of_kind = self.refused.keys().filter(|(slot, version)| slot.0 == kind && wanted(slot, version));
        of_kind.map(|(slot, version)| (slot.1.clone(), *version)).collect()
    }

    /// Records that the probe refused a version.
    pub fn refuse_version(
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

    /// Records that an Envoy accepted a version; returns whether this is new.
    pub fn acknowledge(&mut self, slot: Slot, version: Version) -> bool {
        // Envoy acknowledges a repeated refused certificate while the old one stays in use: this is no proof.
        if self.refused.contains_key(&(slot.clone(), version)) {
            return false;
        }
        if let Some(own) = self.learned.get_mut(&slot) {
            own.take_if(|own| own.version != version);
        }
        let Some(answered) = self.take_pending(&slot, version).or_else(|| self.had_stand_in(&slot, version)) else {
            return false;
        };
        self.answers += 1;
        self.learned.remove(&slot);
        self.acknowledged.insert(slot.clone(), answered);
        self.compare_cluster(&slot);
        true
    }

    /// Takes a version that is answered from those without an answer, with all earlier ones.
    fn take_pending(&mut self, slot: &Slot, version: Version) -> Option<Arc<Resource>> {
        let pending = self.pending.get_mut(slot)?;
        let at = pending.iter().position(|resource| resource.version == version)?;
        let newer = pending.split_off(at + 1);
        let answered = std::mem::replace(pending, newer).pop();
        if pending.is_empty() {
            self.pending.remove(slot);
        }
        answered
    }

    /// Returns the desired version if it has this version, and Envoys have acknowledged another one: after a stand-in
    /// version they receive again what was published before, and answer again.
    fn had_stand_in(&self, slot: &Slot, version: Version) -> Option<Arc<Resource>> {
        let desired = self.desired.get(slot.0, &slot.1).filter(|desired| desired.version == version)?;
        let is_published = self.published.get(slot.0, &slot.1).is_some_and(|known| known.version == version);
        (is_published && !self.is_acknowledged(slot.0, desired)).then(|| desired.clone())
    }

    /// Records that an Envoy refused a version; returns whether this is new, and the resource is desired. Refusals of
    /// clusters that are no longer desired are recorded as well: the xDS server never sends them to this Envoy again.
    pub fn refuse(&mut self, answer: &Answer, name: &Arc<str>, version: Version, message: &str) -> bool {
        let slot: Slot = (answer.kind, name.clone());
        let is_desired = self.desired.get(slot.0, &slot.1).is_some();
        let is_recorded = is_desired || slot.0 == ResourceType::Cluster;
        is_recorded && self.refuse_by(&answer.node, &answer.build, &slot, version, message) && is_desired
    }

    /// Removes the refusal of a version that another Envoy accepts.
    pub fn pardon(&mut self, slot: &Slot, version: Version) {
        if self.refused.remove(&(slot.clone(), version)).is_some() {
            self.to_publish.insert(slot.clone());
        }
    }

    /// Removes an Envoy from all refusals. Returns the versions that no other Envoy refused; they may be offered again.
    pub fn forget_refuser(&mut self, node: &str) -> Vec<(Slot, Version)> {
        let mut alone = Vec::new();
        for (form, refusal) in self.refused.iter_mut().filter(|(_, refusal)| refusal.refusers.contains(node)) {
            refusal.refusers.remove(node);
            match refusal.refusers.first() {
                Some(other) => refusal.node = other.clone(),
                None => alone.push(form.clone()),
            }
        }
        alone.iter().for_each(|(slot, version)| self.pardon(slot, *version));
        alone
    }

    fn note(&mut self, form: (Slot, Version), mut refusal: Refusal) -> bool {
        let before = self.refused.get(&form).filter(|before| !before.is_learned());
        refusal.refusers.extend(before.into_iter().flat_map(|before| before.refusers.iter().cloned()));
        if let Some(pending) = self.pending.get_mut(&form.0) {
            pending.retain(|resource| resource.version != form.1);
        }
        self.to_publish.insert(form.0.clone());
        let first = self.refused.insert(form, refusal).is_none();
        self.answers += u64::from(first);
        while self.refused.len() > REFUSALS_MAX {
            self.refused.pop_first();
        }
        first
    }

    /// Returns the state of a resource; `None` where it is not desired.
    pub fn state(&self, kind: ResourceType, name: &str) -> Option<ResourceState> {
        let wanted = self.desired.get(kind, name)?;
        let slot = (kind, wanted.name.clone());
        if let Some(refusal) = self.refused.get(&(slot.clone(), wanted.version)) {
            return Some(ResourceState::Refused(refusal.message.clone()));
        }
        if self.acknowledged.get(&slot).is_some_and(|resource| resource.version == wanted.version) {
            return Some(ResourceState::Acknowledged);
        }
        let mut unavailable = self.unavailable.refusals(&self.desired);
        let own = unavailable.find(|refusal| refusal.kind == kind && *refusal.resource == *name);
        Some(own.map_or(ResourceState::Pending, |refusal| ResourceState::Unavailable(refusal.explained())))
    }

    /// Returns whether a desired resource has no answer yet. Endpoints change all the time, and do not count; nor do
    /// route configurations that no listener refers to, which only connections from before use.
    pub fn awaits_answers(&self) -> bool {
        let is_pending = |(kind, name): &&Slot| self.state(*kind, name) == Some(ResourceState::Pending);
        let pending = self.pending.keys().filter(|(kind, _)| *kind != ResourceType::Endpoints).filter(is_pending);
        let (routes, others): (Vec<&Slot>, Vec<&Slot>) = pending.partition(|(kind, _)| *kind == ResourceType::Route);
        !others.is_empty() || self.are_referred_to(&routes)
    }

    /// Returns whether a desired listener refers to any of these route configurations.
    fn are_referred_to(&self, routes: &[&Slot]) -> bool {
        let names: BTreeSet<&[u8]> = routes.iter().map(|(_, name)| name.as_bytes()).collect();
        let mut found = BTreeSet::new();
        if !names.is_empty() {
            for listener in self.desired.of(ResourceType::Listener).values() {
                references::find(&listener.body, ResourceReference::Routes, &names, &mut found);
            }
        }
        !found.is_empty()
    }

    /// Returns the desired version of a resource, even where it is not published.
    pub fn desired(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.desired.get(kind, name)
    }

    /// Returns the refusals in force.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
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

#[cfg(test)]
mod tests {
    use holdfast_graph::Origins;

    use super::*;

    fn resource(body: &'static str) -> Arc<Resource> {
        Arc::new(Resource::new("r", body, Origins::default()))
    }

    fn snapshot(resource: &Arc<Resource>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.insert(ResourceType::Route, resource.clone());
        snapshot
    }

    /// The desired version is published all the time, but one Envoy is offered a stand-in version in between.
    #[test]
    fn what_is_published_again_after_a_stand_in_is_acknowledged() {
        let (wanted, other, stand_in) = (resource("wanted"), resource("other"), resource("stand-in"));
        let slot: Slot = (ResourceType::Route, "r".into());
        let mut hold = Hold::default();
        hold.desire(snapshot(&wanted));
        assert!(hold.acknowledge(slot.clone(), wanted.version));
        assert!(!hold.acknowledge(slot.clone(), wanted.version), "it is not new");
        hold.expect_meanwhile(&snapshot(&stand_in), &BTreeMap::from([(slot.clone(), stand_in.version)]));
        assert!(hold.acknowledge(slot.clone(), stand_in.version));
        assert_eq!(hold.state(slot.0, &slot.1), Some(ResourceState::Pending));
        assert!(!hold.acknowledge(slot.clone(), other.version), "it was not offered");
        assert!(hold.acknowledge(slot.clone(), wanted.version));
        assert_eq!(hold.state(slot.0, &slot.1), Some(ResourceState::Acknowledged));
    }

    /// Numbers of a fixed sequence below a limit.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 1_u64;
        move |limit| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or_default() % limit
        }
    }

    /// After any sequence of events the answer is that of a comparison of all clusters.
    #[test]
    fn clusters_without_an_acknowledgement_are_known_without_a_search() {
        let names: Vec<Arc<str>> = (0..4).map(|number| format!("c{number}").into()).collect();
        let bodies = ["one", "two", "three"];
        let cluster =
            |name: usize, body: usize| Arc::new(Resource::new(&*names[name], bodies[body], Origins::default()));
        let (mut hold, mut pick, mut seen) = (Hold::default(), numbers(), BTreeSet::new());
        let mut desired = Snapshot::default();
        for step in 0..20_000 {
            let resource = cluster(pick(names.len()), pick(bodies.len()));
            let slot = (ResourceType::Cluster, resource.name.clone());
            match pick(12) {
                0..=2 => desired.insert(slot.0, resource),
                3 => desired.remove(slot.0, &slot.1),
                4 => drop(hold.refuse_by(&"node".into(), &"1".into(), &slot, resource.version, "no")),
                5 => hold.pardon(&slot, resource.version),
                6 => hold.learn(slot.0, &resource),
                7 => hold.replace_acknowledged(&slot, (pick(2) == 0).then_some(resource)),
                8 => hold.restore(slot.0, resource),
                _ => drop(hold.acknowledge(slot, resource.version)),
            }
            let published = if pick(2) == 0 { hold.desire(desired.clone()) } else { hold.published.clone() };
            let mut all = published.of(ResourceType::Cluster).values();
            let expected = all.all(|cluster| hold.is_acknowledged(ResourceType::Cluster, cluster));
            assert_eq!(hold.has_acknowledged_all_clusters(), expected, "step {step}");
            seen.insert((expected, published.is_empty()));
        }
        assert!(seen.contains(&(true, false)) && seen.contains(&(false, false)), "{seen:?}");
    }
}
