//! Dispatch of events about Envoys, the probe and the clock to the scopes; creation of a scope for each build.

use holdfast_store::Change;
use holdfast_translate::fleet::FleetId;
use holdfast_xds::EnvoyId;

use super::scopes::{BUILDS_MAX, FallbackScopes};
use super::{FallbackScope, apart, translate};
use crate::attribution::search::SILENCE;
use crate::attribution::verdicts::edited;
use crate::context::next::Next;
use crate::context::step_inputs::StepInputs;
use crate::evidence::last_valid::to_store;
use crate::rollout::Stage;
use crate::scope::event::{Event, Role};

impl FallbackScopes {
    /// Processes an event about Envoys, the probe, the clock or the replicas.
    pub fn on_event(&mut self, event: Event, inputs: &mut StepInputs<'_>) {
        if !matches!(event, Event::Clock(_) | Event::Tried(_)) {
            self.repeat_meanwhile_checks();
        }
        match event {
            Event::Connected(envoy, resumes) => self.connected(&envoy, resumes, inputs),
            Event::Disconnected(envoy) => self.disconnected(&envoy, inputs),
            Event::Answered(answer) => {
                if let Some(scope) = self.scope(&answer.fleet, &answer.build, &answer.node) {
                    scope.answered(&answer, inputs);
                    self.touched.insert(answer.fleet.clone());
                }
            }
            Event::Tried(tried) => {
                for one in &tried {
                    let expecting = |scope: &&mut FallbackScope| {
                        scope.searches.current.as_ref().is_some_and(|search| search.expects(one.id))
                    };
                    if let Some(scope) = self.gateways.values_mut().flatten().find(expecting) {
                        let next = scope.tried(one, inputs);
                        scope.settle(next, inputs);
                        self.touched.insert(scope.id.name.clone());
                    }
                }
            }
            Event::Probe(build) => {
                for scope in self.gateways.values_mut().flatten() {
                    scope.evidence.proof.forget_unjudged();
                    scope.searches.probe_changed();
                    let is_lost = build.is_none() && scope.stage.is_on_probe();
                    if is_lost {
                        scope.stage = Stage::Settled;
                        scope.searches.current = None;
                    }
                    if is_lost || (!inputs.follows && scope.hold.refusals().next().is_some()) {
                        // Resources that the probe refused without a verdict about an object are searched on the
                        // remaining Envoys.
                        scope.settle(Next::Replan, inputs);
                    }
                    self.touched.insert(scope.id.name.clone());
                }
            }
            Event::Clock(_) => self.tick(inputs),
            Event::Role(role) => self.change_role(role == Role::Follower, inputs),
            Event::Learned(learned) => self.learn(*learned, inputs),
            Event::Observed(seen) => self.observed(&seen, inputs),
            _ => {}
        }
        apart::weigh_envoys(self, inputs);
    }

    /// Handles an event after which other routes may have to be closed while new content is tried.
    pub(super) fn repeat_meanwhile_checks(&mut self) {
        self.gateways.values_mut().flatten().for_each(|scope| scope.meanwhile.repeat());
    }

    /// Returns the scope of an Envoy.
    pub(crate) fn scope(&mut self, fleet: &str, build: &str, node: &str) -> Option<&mut FallbackScope> {
        let scopes = self.gateways.get_mut(fleet)?;
        let apart = scopes.iter().position(|scope| scope.id.is_apart_for(node, build));
        let at = apart.or_else(|| scopes.iter().position(|scope| *scope.id.build == *build));
        scopes.get_mut(at.unwrap_or(0))
    }

    pub(crate) fn connected(&mut self, envoy: &EnvoyId, resumes: bool, inputs: &mut StepInputs<'_>) {
        self.came(envoy, resumes, false, inputs);
    }

    /// Handles the connection of an Envoy to this replica, or to another one.
    pub(super) fn came(&mut self, envoy: &EnvoyId, resumes: bool, remote: bool, inputs: &mut StepInputs<'_>) {
        let Some(scopes) = self.gateways.get_mut(&envoy.fleet) else {
            self.early.entry(envoy.fleet.clone()).or_default().push((envoy.clone(), resumes));
            return;
        };
        self.touched.insert(envoy.fleet.clone());
        let known = scopes.iter().any(|scope| scope.id.build == envoy.build);
        let mut is_counted = false;
        if !known
            && let [only] = &mut scopes[..]
            && only.is_unused()
        {
            // Results of a probe of another build do not apply to these Envoys.
            *only = FallbackScope::new(&only.id.gateway.clone(), &envoy.build, only.id.fleet.clone());
            edited(only, &inputs.translator.route_keys(), inputs.translator);
            only.settle(Next::Replan, inputs);
        } else if !known && scopes.len() < BUILDS_MAX {
            let Some(first) = scopes.first() else { return };
            let fleet = FleetId { gateway: first.id.gateway.clone(), label: envoy.build.clone() };
            inputs.translator.open(&fleet, &FleetId::main(&first.id.gateway));
            let mut scope = FallbackScope::new(&first.id.gateway, &envoy.build, fleet);
            // Content that another build has proven is a starting point; it is still unproven for this build.
            for version in first.evidence.last_valid.iter() {
                scope.evidence.last_valid.promote(&version.object, version.since);
                // Followers derive the same plan from it.
                if let Some(stored) = to_store(&version.object, version.since, inputs) {
                    let promoted = Change::Promote(scope.id.stored(), stored);
                    scope.records.record(promoted);
                }
            }
            scope.members.connect(&envoy.node, remote, resumes, inputs.now_ms);
            is_counted = true;
            let routes = inputs.translator.route_keys();
            edited(&mut scope, &routes, inputs.translator);
            scope.settle(Next::Replan, inputs);
            scopes.push(scope);
        }
        if let Some(scope) = self.scope(&envoy.fleet, &envoy.build, &envoy.node) {
            if !is_counted {
                scope.members.connect(&envoy.node, remote, resumes, inputs.now_ms);
            }
            scope.evidence.accepted_by.connected(&envoy.node, resumes);
            scope.stage.canary_connected(&envoy.node, resumes);
            // Before translation has processed the objects, there is no configuration to offer.
            if scope.configurations.everyone.is_none() && !scope.configurations.wanted.is_empty() {
                scope.settle(Next::Advance, inputs);
            }
            let next = scope.start_trial(inputs);
            scope.settle(next, inputs);
        }
    }

    pub(crate) fn disconnected(&mut self, envoy: &EnvoyId, inputs: &mut StepInputs<'_>) {
        if let Some(early) = self.early.get_mut(&envoy.fleet) {
            if let Some(at) = early.iter().position(|(known, _)| known.node == envoy.node) {
                early.swap_remove(at);
            }
            if early.is_empty() {
                self.early.remove(&envoy.fleet);
                self.left.remove(&envoy.fleet);
            }
        }
        let Some(scope) = self.scope(&envoy.fleet, &envoy.build, &envoy.node) else { return };
        let Some(left) = scope.members.disconnect(&envoy.node) else { return };
        scope.hold.unavailable.gone(&envoy.node);
        scope.evidence.accepted_by.disconnected(&envoy.node);
        if left.is_remote() {
            // The replica of the Envoy may have ended, which proves nothing.
            if scope.trials.current.as_ref().is_some_and(|trial| trial.node == envoy.node) {
                scope.end_trial();
            }
            let next = scope.start_trial(inputs);
            scope.settle(next, inputs);
        } else {
            scope.lost(&envoy.node, SILENCE, inputs);
        }
        self.touched.insert(envoy.fleet.clone());
    }

    fn tick(&mut self, inputs: &mut StepInputs<'_>) {
        let due = self.iter().filter(|scope| scope.derived.retry_at.is_some_and(|at| at <= inputs.now_ms));
        let due = due.map(|scope| scope.id.gateway.clone()).collect();
        if self.lend(&due, inputs) {
            translate(inputs);
            self.repeat_meanwhile_checks();
        }
        for scope in self.gateways.values_mut().flatten() {
            let late = match &scope.stage {
                Stage::Canary { node, deadline, waiting, .. } if *deadline <= inputs.now_ms && !waiting.is_empty() => {
                    Some(node.clone())
                }
                _ => scope
                    .trials
                    .current
                    .as_ref()
                    .filter(|trial| trial.deadline <= inputs.now_ms)
                    .map(|trial| trial.node.clone()),
            };
            if scope.continue_rounds(inputs)
                | scope.close_while_waiting(inputs)
                | scope.send_again(inputs.now_ms)
                | scope.members.resume_outliers(inputs.now_ms)
                | (!inputs.follows
                    && (scope.watch_probe(inputs) | scope.watch_fresh(inputs) | scope.watch_outlier_fleet(inputs)))
            {
                self.touched.insert(scope.id.name.clone());
            }
            if let Some(node) = late.as_ref().filter(|node| scope.members.is_remote(node)) {
                scope.members.fell_silent(node);
                scope.end_trial();
                let next = scope.start_trial(inputs);
                scope.settle(next, inputs);
                self.touched.insert(scope.id.name.clone());
            } else if let Some(node) = late {
                if scope.members.is_connected(&node) {
                    scope.overdue(&node, SILENCE, inputs);
                } else {
                    // The Envoy is disconnected, which proves nothing: another one tries the content.
                    scope.settle(Next::Advance, inputs);
                }
                self.touched.insert(scope.id.name.clone());
            } else if (scope.whole.held && scope.whole.changed)
                || scope.derived.retry_at.is_some_and(|at| at <= inputs.now_ms)
            {
                // Waiting content is treated like an edit: refused parts of it are searched.
                scope.searches.rounds = 0;
                scope.searches.forget_blamed(inputs.now_ms);
                scope.settle(Next::Replan, inputs);
                self.touched.insert(scope.id.name.clone());
            } else if scope.stage == Stage::Settled && !inputs.follows && scope.has_work(inputs.now_ms) {
                scope.settle(Next::Advance, inputs);
                self.touched.insert(scope.id.name.clone());
            }
        }
    }
}
