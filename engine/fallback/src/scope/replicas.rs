//! Several replicas: only the leader convicts and promotes. Followers serve the same plan and report the answers of
//! their Envoys to the leader. The leader election is implemented elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_store::shards::{Observation, ObservedScope, OffersByScope, ScopeOffers};
use holdfast_translate::fleet::FleetId;
use holdfast_xds::EnvoyId;

use super::scopes::{BUILDS_MAX, FallbackScopes};
use super::{FallbackScope, apart};
use crate::attribution::verdicts::edited;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::persistence::restored::{Restored, RestoredScope};
use crate::replication::observation::{NODES_MAX, answers, remote_name};

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
        apart::end_scopes_apart(self, inputs);
        for (name, scopes) in &mut self.gateways {
            self.touched.insert(name.clone());
            let learned = self.learned.get(name);
            for scope in scopes {
                if follows {
                    scope.step_down(inputs);
                } else {
                    scope.step_up(inputs);
                    let known = learned.into_iter().flatten().find(|learned| learned.build == scope.id.build);
                    if let Some(known) = known {
                        scope.forget_what_went(known, inputs);
                    }
                }
                scope.settle(Next::Replan, inputs);
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
    pub(crate) fn learn(&mut self, learned: Restored, inputs: &mut StepInputs<'_>) {
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
        let (gateway, main) = (first.id.gateway.clone(), FleetId::main(&first.id.gateway));
        if let ([only], Some(known)) = (&mut scopes[..], learned.first())
            && only.is_unused()
            && of(&only.id.build).is_none()
        {
            *only = FallbackScope::new(&gateway, &known.build, only.id.fleet.clone());
            edited(only, &inputs.translator.route_keys(), inputs.translator);
        }
        for known in learned {
            if scopes.len() < BUILDS_MAX && scopes.iter().all(|scope| scope.id.build != known.build) {
                let fleet = FleetId { gateway: gateway.clone(), label: known.build.clone() };
                inputs.translator.open(&fleet, &main);
                let mut scope = FallbackScope::new(&gateway, &known.build, fleet);
                edited(&mut scope, &inputs.translator.route_keys(), inputs.translator);
                scopes.push(scope);
            }
        }
        for scope in scopes {
            scope.take_in(of(&scope.id.build), inputs);
            scope.settle(Next::Replan, inputs);
        }
    }

    /// Handles the reports of other replicas.
    pub(crate) fn observed(&mut self, seen: &[Observation], inputs: &mut StepInputs<'_>) {
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
            .map(|(scope, node)| EnvoyId {
                fleet: scope.id.name.clone(),
                node: node.clone(),
                build: scope.id.build.clone(),
            })
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
            let Some(scope) = self.scope(&observed.gateway, &observed.build, "") else { continue };
            // Content on trial was offered only to the Envoy that tries it.
            let tries = scope.trials.current.as_ref().map(|trial| trial.node.clone());
            let tries =
                tries.filter(|node| observed.nodes.iter().any(|known| remote_name(observation, known) == *node));
            for answer in answers(observation, observed, tries) {
                scope.answered(&answer, inputs);
            }
            self.touched.insert(observed.gateway.clone());
        }
    }

    /// Returns the number of answers that changed the state of a resource, and the number of Envoys of other replicas.
    pub fn answers(&self) -> (u64, usize) {
        let of = |scope: &FallbackScope| (scope.hold.answers(), scope.members.remote_nodes().count());
        self.iter().map(of).fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1))
    }

    /// Returns the answers of this replica's Envoys, for the leader.
    pub fn observation(&self) -> Vec<ObservedScope> {
        self.shared().filter_map(FallbackScope::observation).collect()
    }

    /// Returns the offers to all Envoys, for followers.
    pub fn offered_to_all(&self) -> OffersByScope {
        let offers = |scope: &FallbackScope| ScopeOffers { all: scope.offered_to_all(), trial: scope.remote_trial() };
        self.shared().map(|scope| (scope.id.stored(), offers(scope))).collect()
    }

    /// Returns the scopes that replicas have in common.
    fn shared(&self) -> impl Iterator<Item = &FallbackScope> {
        self.iter().filter(|scope| !scope.id.build.is_empty() && !scope.id.is_apart())
    }
}

/// The shared state by Gateway, with one entry per build.
pub(super) type Learned = BTreeMap<Arc<str>, Vec<RestoredScope>>;
