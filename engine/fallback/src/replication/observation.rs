//! Reports of a replica about the answers of its Envoys, and their conversion into answers at the leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_store::shards::{Answered, Observation, ObservedScope, Refused};
use holdfast_xds::{Answer, Outcome, ResourceType, Version};

use super::following::{kind_of, number};
use crate::scope::FallbackScope;

/// Limit of Envoys of one Gateway and build that a replica reports.
pub(crate) const NODES_MAX: usize = 256;
/// Limit of acknowledged resources of one Gateway and build per report of a replica.
const ACKNOWLEDGED_MAX: usize = 2_048;
/// Limit of refused resources of one Gateway and build per report of a replica.
const REFUSED_MAX: usize = 64;

impl FallbackScope {
    /// Returns the answers of this replica's Envoys; `None` if there are none.
    pub(crate) fn observation(&self) -> Option<ObservedScope> {
        let nodes: Vec<Arc<str>> = self.members.local_nodes().cloned().collect();
        let tried = self.trials.current.iter().flat_map(|trial| trial.waiting.iter().map(move |slot| (trial, slot)));
        let tried = tried.filter_map(|(trial, ((kind, name), version))| {
            let refusal = self.hold.refusal_of(*kind, name, *version)?;
            // The Envoy of the trial may be the second one that refuses.
            Some((if refusal.is_by(&trial.node) { &trial.node } else { &refusal.node }, refusal))
        });
        let refusals = tried.chain(self.hold.refusals().map(|refusal| (&refusal.node, refusal)));
        let refused = refusals.filter(|(node, _)| ***node != *"probe").filter_map(|(node, refusal)| {
            let version = *Version::parse(&refusal.version)?.as_bytes();
            let resource = Answered { kind: number(refusal.kind), name: refusal.resource.clone(), version };
            Some(Refused { resource, node: node.clone(), message: refusal.message.as_str().into() })
        });
        let refused: Vec<Refused> = refused.take(REFUSED_MAX).collect();
        if nodes.is_empty() && refused.is_empty() {
            return None;
        }
        let unknown = self.hold.all_acknowledged().filter(|(kind, resource)| {
            let shared = self.shared.snapshot.get(*kind, &resource.name);
            *kind != ResourceType::Endpoints && shared.is_none_or(|shared| shared.version != resource.version)
        });
        let unknown = unknown.map(|(kind, resource)| (kind, &resource.name, &resource.version));
        let accepted = self.trials.accepted.iter().map(|((kind, name), version)| (*kind, name, version));
        let acknowledged = accepted.chain(unknown).take(ACKNOWLEDGED_MAX).map(|(kind, name, version)| Answered {
            kind: number(kind),
            name: name.clone(),
            version: *version.as_bytes(),
        });
        Some(ObservedScope {
            gateway: self.id.name.clone(),
            build: self.id.build.clone(),
            acknowledged: acknowledged.collect(),
            nodes: nodes.into_iter().take(NODES_MAX).collect(),
            refused,
        })
    }
}

/// Returns the local name of an Envoy of another replica.
pub(crate) fn remote_name(observation: &Observation, node: &str) -> Arc<str> {
    format!("{}/{node}", observation.observer).into()
}

/// Converts the report of a replica into answers of its Envoys.
pub(crate) fn answers(observation: &Observation, observed: &ObservedScope, tries: Option<Arc<str>>) -> Vec<Answer> {
    let answer = |node: Arc<str>, kind, outcome, resources| Answer {
        fleet: observed.gateway.clone(),
        node,
        build: observed.build.clone(),
        kind,
        outcome,
        resources,
    };
    let named = |one: &Answered| (one.name.clone(), Some(Version::from_bytes(one.version)));
    let mut taken: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    for one in observed.acknowledged.iter().take(ACKNOWLEDGED_MAX) {
        taken.entry(one.kind).or_default().push(named(one));
    }
    let node = tries.unwrap_or_else(|| remote_name(observation, observed.nodes.first().map_or("", |node| node)));
    let taken = taken
        .into_iter()
        .filter_map(|(kind, resources)| Some(answer(node.clone(), kind_of(kind)?, Outcome::Acknowledged, resources)));
    let refused = observed.refused.iter().take(REFUSED_MAX).filter_map(|refused| {
        let outcome = Outcome::Refused { message: refused.message.to_string() };
        let kind = kind_of(refused.resource.kind)?;
        Some(answer(remote_name(observation, &refused.node), kind, outcome, vec![named(&refused.resource)]))
    });
    taken.chain(refused).collect()
}
