//! Several replicas: only the leader convicts and promotes. Followers serve the same plan and report the answers of
//! their Envoys to the leader. The leader election is implemented elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_store::shards::{Answered, Observation, ObservedScope, Offers, Refused, ScopeOffers};
use holdfast_translate::fleet::FleetId;
use holdfast_xds::{Answer, EnvoyId, Outcome, ResourceType, Version};

use super::following::{kind_of, number};
use super::restored::{Restored, RestoredScope};
use super::scope::FallbackScope;
use super::scopes::{BUILDS_MAX, FallbackScopes};
use super::step_inputs::StepInputs;

/// Limit of Envoys of one Gateway and build that a replica reports.
const NODES_MAX: usize = 256;
/// Limit of acknowledged resources of one Gateway and build per report of a replica.
const ACKNOWLEDGED_MAX: usize = 2_048;
/// Limit of refused resources of one Gateway and build per report of a replica.
const REFUSED_MAX: usize = 64;

impl FallbackScopes {
    /// Checks whether another replica is the leader.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// Makes this replica a follower, or the leader.
    pub(super) fn change_role(&mut self, follows: bool, inputs: &mut StepInputs<'_>) {
        if self.follows == follows {
            return;
        }
        (self.follows, inputs.follows) = (follows, follows);
        for (name, scopes) in &mut self.gateways {
            self.touched.insert(name.clone());
            let learned = self.learned.get(name);
            for scope in scopes {
                if follows {
                    scope.step_down(inputs);
                } else {
                    scope.step_up(inputs);
                    let known = learned.into_iter().flatten().find(|learned| learned.build == scope.build);
                    if let Some(known) = known {
                        scope.forget_what_went(known, inputs);
                    }
                }
                scope.reconcile(inputs);
            }
        }
        if !follows {
            let learned = std::mem::take(&mut self.learned);
            if self.listed {
                let gone = learned.into_keys().filter(|name| !self.gateways.contains_key(name));
                gone.for_each(|name| self.gone.push(holdfast_store::Change::ForgetGateway(name)));
            }
        }
    }

    /// Handles newer state that the leader has shared.
    pub(super) fn learn(&mut self, learned: Restored, inputs: &mut StepInputs<'_>) {
        if !self.follows {
            return;
        }
        self.learned.clear();
        for scope in learned.scopes {
            self.learned.entry(scope.gateway.clone()).or_default().push(scope);
        }
        for name in self.gateways.keys().cloned().collect::<Vec<_>>() {
            self.take_learned(&name, inputs);
        }
    }

    /// Applies the state that the leader has shared to the scopes of a Gateway.
    pub(super) fn take_learned(&mut self, name: &Arc<str>, inputs: &mut StepInputs<'_>) {
        let Some(scopes) = self.gateways.get_mut(name) else { return };
        self.touched.insert(name.clone());
        let learned = self.learned.get(name).map(Vec::as_slice).unwrap_or_default();
        let of = |build: &str| learned.iter().find(|learned| *learned.build == *build);
        let Some(first) = scopes.first() else { return };
        let (gateway, main) = (first.gateway.clone(), FleetId::main(&first.gateway));
        if let ([only], Some(known)) = (&mut scopes[..], learned.first())
            && only.is_unused()
            && of(&only.build).is_none()
        {
            *only = FallbackScope::new(&gateway, &known.build, only.fleet.clone());
            only.edited(&inputs.translator.route_keys(), inputs.translator);
        }
        for known in learned {
            if scopes.len() < BUILDS_MAX && scopes.iter().all(|scope| scope.build != known.build) {
                let fleet = FleetId { gateway: gateway.clone(), label: known.build.clone() };
                inputs.translator.open(&fleet, &main);
                let mut scope = FallbackScope::new(&gateway, &known.build, fleet);
                scope.edited(&inputs.translator.route_keys(), inputs.translator);
                scopes.push(scope);
            }
        }
        for scope in scopes {
            scope.take_in(of(&scope.build), inputs);
            scope.reconcile(inputs);
        }
    }

    /// Handles the reports of other replicas.
    pub(super) fn observed(&mut self, seen: &[Observation], inputs: &mut StepInputs<'_>) {
        if self.follows {
            return;
        }
        let mut there: BTreeSet<EnvoyId> = BTreeSet::new();
        for (observation, observed) in
            seen.iter().flat_map(|one| one.scopes.iter().map(move |observed| (one, observed)))
        {
            let id = |node: &Arc<str>| EnvoyId {
                fleet: observed.gateway.clone(),
                node: remote_name(observation, node),
                build: observed.build.clone(),
            };
            there.extend(observed.nodes.iter().take(NODES_MAX).map(id));
        }
        let known = self.iter().flat_map(|scope| scope.members.remote_nodes().map(move |node| (scope, node)));
        let known: BTreeSet<EnvoyId> = known
            .map(|(scope, node)| EnvoyId { fleet: scope.name.clone(), node: node.clone(), build: scope.build.clone() })
            .collect();
        for gone in known.difference(&there) {
            self.disconnected(gone, inputs);
        }
        for come in there.difference(&known) {
            if self.gateways.contains_key(&come.fleet) {
                self.came(come, true, true, inputs);
            }
        }
        for (observation, observed) in
            seen.iter().flat_map(|one| one.scopes.iter().map(move |observed| (one, observed)))
        {
            let Some(scope) = self.scope(&observed.gateway, &observed.build) else { continue };
            // Content on trial was offered only to the Envoy that tries it.
            let tries = scope.trial.as_ref().map(|trial| trial.node.clone());
            let tries =
                tries.filter(|node| observed.nodes.iter().any(|known| remote_name(observation, known) == *node));
            for answer in answers(observation, observed, tries) {
                scope.answered(&answer, inputs);
            }
            self.touched.insert(observed.gateway.clone());
        }
    }

    /// Returns the answers of this replica's Envoys, for the leader.
    pub fn observation(&self) -> Vec<ObservedScope> {
        self.iter().filter(|scope| !scope.build.is_empty()).filter_map(FallbackScope::observation).collect()
    }

    /// Returns the offers to all Envoys, for followers.
    pub fn offered_to_all(&self) -> Offers {
        let scopes = self.iter().filter(|scope| !scope.build.is_empty());
        let offers = |scope: &FallbackScope| ScopeOffers { all: scope.offered_to_all(), trial: scope.remote_trial() };
        scopes.map(|scope| (scope.stored_scope(), offers(scope))).collect()
    }
}

impl FallbackScope {
    fn observation(&self) -> Option<ObservedScope> {
        let nodes: Vec<Arc<str>> = self.members.local_nodes().cloned().collect();
        let tried = self.trial.iter().flat_map(|trial| &trial.waiting);
        let tried = tried.filter_map(|((kind, name), version)| self.hold.refusal_of(*kind, name, *version));
        let refusals = tried.chain(self.hold.refusals());
        let refused = refusals.filter(|refusal| *refusal.node != *"probe").filter_map(|refusal| {
            let version = *Version::parse(&refusal.version)?.as_bytes();
            let resource = Answered { kind: number(refusal.kind), name: refusal.resource.clone(), version };
            Some(Refused { resource, node: refusal.node.clone(), message: refusal.message.as_str().into() })
        });
        let refused: Vec<Refused> = refused.take(REFUSED_MAX).collect();
        if nodes.is_empty() && refused.is_empty() {
            return None;
        }
        let unknown = self.hold.all_acknowledged().filter(|(kind, resource)| {
            let shared = self.shared.snapshot.get(*kind, &resource.name);
            *kind != ResourceType::Endpoints && shared.is_none_or(|shared| shared.version != resource.version)
        });
        let acknowledged = unknown.take(ACKNOWLEDGED_MAX).map(|(kind, resource)| Answered {
            kind: number(kind),
            name: resource.name.clone(),
            version: *resource.version.as_bytes(),
        });
        Some(ObservedScope {
            gateway: self.name.clone(),
            build: self.build.clone(),
            acknowledged: acknowledged.collect(),
            nodes: nodes.into_iter().take(NODES_MAX).collect(),
            refused,
        })
    }
}

/// Returns the local name of an Envoy of another replica.
fn remote_name(observation: &Observation, node: &str) -> Arc<str> {
    format!("{}/{node}", observation.observer).into()
}

/// Converts the report of a replica into answers of its Envoys.
fn answers(observation: &Observation, observed: &ObservedScope, tries: Option<Arc<str>>) -> Vec<Answer> {
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

/// The shared state by Gateway, with one entry per build.
pub(super) type Learned = BTreeMap<Arc<str>, Vec<RestoredScope>>;
