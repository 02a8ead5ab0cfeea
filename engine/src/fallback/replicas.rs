//! Several replicas: only the leader convicts and promotes. Followers serve the same plan and report the answers of
//! their Envoys to the leader. The leader election is implemented elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_store::shards::{Answered, Observation, ObservedScope, Offers, Refused, ScopeOffers};
use holdfast_xds::{Answer, EnvoyId, Outcome, ResourceType, Version};

use super::following::{kind_of, number};
use super::line::Line;
use super::lines::{BUILDS_MAX, Lines};
use super::restored::{Restored, RestoredLine};
use super::step_inputs::StepInputs;
use crate::translate::fleet::FleetId;

/// Limit of Envoys of one Gateway and build that a replica reports.
const NODES_MAX: usize = 256;
/// Limit of acknowledged resources of one Gateway and build per report of a replica.
const ACKNOWLEDGED_MAX: usize = 2_048;
/// Limit of refused resources of one Gateway and build per report of a replica.
const REFUSED_MAX: usize = 64;

impl Lines {
    /// Checks whether another replica is the leader.
    pub(crate) fn follows(&self) -> bool {
        self.follows
    }

    /// Makes this replica a follower, or the leader.
    pub(super) fn change_role(&mut self, follows: bool, inputs: &mut StepInputs<'_>) {
        if self.follows == follows {
            return;
        }
        (self.follows, inputs.follows) = (follows, follows);
        for (name, lines) in &mut self.gateways {
            self.touched.insert(name.clone());
            let learned = self.learned.get(name);
            for line in lines {
                if follows {
                    line.step_down(inputs);
                } else {
                    line.step_up(inputs);
                    let known = learned.into_iter().flatten().find(|learned| learned.build == line.build);
                    if let Some(known) = known {
                        line.forget_what_went(known, inputs);
                    }
                }
                line.reconcile(inputs);
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
        for line in learned.lines {
            self.learned.entry(line.gateway.clone()).or_default().push(line);
        }
        for name in self.gateways.keys().cloned().collect::<Vec<_>>() {
            self.take_learned(&name, inputs);
        }
    }

    /// Applies the state that the leader has shared to the scopes of a Gateway.
    pub(super) fn take_learned(&mut self, name: &Arc<str>, inputs: &mut StepInputs<'_>) {
        let Some(lines) = self.gateways.get_mut(name) else { return };
        self.touched.insert(name.clone());
        let learned = self.learned.get(name).map(Vec::as_slice).unwrap_or_default();
        let of = |build: &str| learned.iter().find(|learned| *learned.build == *build);
        let Some(first) = lines.first() else { return };
        let (gateway, main) = (first.gateway.clone(), FleetId::main(&first.gateway));
        if let ([only], Some(known)) = (&mut lines[..], learned.first())
            && only.is_unused()
            && of(&only.build).is_none()
        {
            *only = Line::new(&gateway, &known.build, only.fleet.clone());
            only.edited(&inputs.translator.route_keys(), inputs.translator);
        }
        for known in learned {
            if lines.len() < BUILDS_MAX && lines.iter().all(|line| line.build != known.build) {
                let fleet = FleetId { gateway: gateway.clone(), label: known.build.clone() };
                inputs.translator.open(&fleet, &main);
                let mut line = Line::new(&gateway, &known.build, fleet);
                line.edited(&inputs.translator.route_keys(), inputs.translator);
                lines.push(line);
            }
        }
        for line in lines {
            line.take_in(of(&line.build), inputs);
            line.reconcile(inputs);
        }
    }

    /// Handles the reports of other replicas.
    pub(super) fn observed(&mut self, seen: &[Observation], inputs: &mut StepInputs<'_>) {
        if self.follows {
            return;
        }
        let mut there: BTreeSet<EnvoyId> = BTreeSet::new();
        for (observation, scope) in seen.iter().flat_map(|one| one.scopes.iter().map(move |scope| (one, scope))) {
            let id = |node: &Arc<str>| EnvoyId {
                fleet: scope.gateway.clone(),
                node: remote_name(observation, node),
                build: scope.build.clone(),
            };
            there.extend(scope.nodes.iter().take(NODES_MAX).map(id));
        }
        let known = self.iter().flat_map(|line| line.remote_envoys.iter().map(move |node| (line, node)));
        let known: BTreeSet<EnvoyId> = known
            .map(|(line, node)| EnvoyId { fleet: line.name.clone(), node: node.clone(), build: line.build.clone() })
            .collect();
        for gone in known.difference(&there) {
            self.disconnected(gone, inputs);
        }
        for come in there.difference(&known) {
            if self.gateways.contains_key(&come.fleet) {
                self.came(come, true, true, inputs);
            }
        }
        for (observation, scope) in seen.iter().flat_map(|one| one.scopes.iter().map(move |scope| (one, scope))) {
            let Some(line) = self.line(&scope.gateway, &scope.build) else { continue };
            // Content on trial was offered only to the Envoy that tries it.
            let tries = line.trial.as_ref().map(|trial| trial.node.clone());
            let tries = tries.filter(|node| scope.nodes.iter().any(|known| remote_name(observation, known) == *node));
            for answer in answers(observation, scope, tries) {
                line.answered(&answer, inputs);
            }
            self.touched.insert(scope.gateway.clone());
        }
    }

    /// Returns the answers of this replica's Envoys, for the leader.
    pub(crate) fn observation(&self) -> Vec<ObservedScope> {
        self.iter().filter(|line| !line.build.is_empty()).filter_map(Line::observation).collect()
    }

    /// Returns the offers to all Envoys, for followers.
    pub(crate) fn offered_to_all(&self) -> Offers {
        let lines = self.iter().filter(|line| !line.build.is_empty());
        let offers = |line: &Line| ScopeOffers { all: line.offered_to_all(), trial: line.remote_trial() };
        lines.map(|line| (line.scope(), offers(line))).collect()
    }
}

impl Line {
    fn observation(&self) -> Option<ObservedScope> {
        let nodes: Vec<Arc<str>> =
            self.envoys.keys().filter(|node| !self.remote_envoys.contains(*node)).cloned().collect();
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
fn answers(observation: &Observation, scope: &ObservedScope, tries: Option<Arc<str>>) -> Vec<Answer> {
    let answer = |node: Arc<str>, kind, outcome, resources| Answer {
        fleet: scope.gateway.clone(),
        node,
        build: scope.build.clone(),
        kind,
        outcome,
        resources,
    };
    let named = |one: &Answered| (one.name.clone(), Some(Version::from_bytes(one.version)));
    let mut taken: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    for one in scope.acknowledged.iter().take(ACKNOWLEDGED_MAX) {
        taken.entry(one.kind).or_default().push(named(one));
    }
    let node = tries.unwrap_or_else(|| remote_name(observation, scope.nodes.first().map_or("", |node| node)));
    let taken = taken
        .into_iter()
        .filter_map(|(kind, resources)| Some(answer(node.clone(), kind_of(kind)?, Outcome::Acknowledged, resources)));
    let refused = scope.refused.iter().take(REFUSED_MAX).filter_map(|refused| {
        let outcome = Outcome::Refused { message: refused.message.to_string() };
        let kind = kind_of(refused.resource.kind)?;
        Some(answer(remote_name(observation, &refused.node), kind, outcome, vec![named(&refused.resource)]))
    });
    taken.chain(refused).collect()
}

/// The shared state by Gateway, with one entry per build.
pub(super) type Learned = BTreeMap<Arc<str>, Vec<RestoredLine>>;
