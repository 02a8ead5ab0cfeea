//! Dispatch of events about Envoys, the probe and the clock to the scopes; creation of a scope for each build.

use holdfast_store::Change;
use holdfast_xds::EnvoyId;

use super::line::Line;
use super::lines::{BUILDS_MAX, Lines};
use super::rollout::Stage;
use super::search::SILENCE;
use super::step_inputs::StepInputs;
use crate::event::{Event, Role};
use crate::translate::fleet::FleetId;

impl Lines {
    /// Processes an event about Envoys, the probe, the clock or the replicas.
    pub(crate) fn on_event(&mut self, event: Event, inputs: &mut StepInputs<'_>) {
        match event {
            Event::Connected(envoy, resumes) => self.connected(&envoy, resumes, inputs),
            Event::Disconnected(envoy) => self.disconnected(&envoy, inputs),
            Event::Answered(answer) => {
                if let Some(line) = self.line(&answer.fleet, &answer.build) {
                    line.answered(&answer, inputs);
                    self.touched.insert(answer.fleet.clone());
                }
            }
            Event::Tried(tried) => {
                for one in &tried {
                    let expecting =
                        |line: &&mut Line| line.search.as_ref().is_some_and(|search| search.expects(one.id));
                    if let Some(line) = self.gateways.values_mut().flatten().find(expecting) {
                        line.tried(one, inputs);
                        self.touched.insert(line.name.clone());
                    }
                }
            }
            Event::Probe(build) => {
                for line in self.gateways.values_mut().flatten() {
                    line.proof.forget_unjudged();
                    line.probe_pauses_until = 0;
                    line.search_again_at = None;
                    line.blamed.clear();
                    let is_lost = build.is_none() && line.stage == Stage::Probing;
                    if is_lost {
                        line.stage = Stage::Settled;
                        line.search = None;
                    }
                    if is_lost || (!inputs.follows && line.hold.refusals().next().is_some()) {
                        // Resources that the probe refused without a verdict about an object are searched on the
                        // remaining Envoys.
                        line.reconcile(inputs);
                    }
                    self.touched.insert(line.name.clone());
                }
            }
            Event::Clock(_) => self.tick(inputs),
            Event::Role(role) => self.change_role(role == Role::Follower, inputs),
            Event::Learned(learned) => self.learn(*learned, inputs),
            Event::Observed(seen) => self.observed(&seen, inputs),
            _ => {}
        }
    }

    pub(super) fn line(&mut self, fleet: &str, build: &str) -> Option<&mut Line> {
        let lines = self.gateways.get_mut(fleet)?;
        let at = lines.iter().position(|line| *line.build == *build).unwrap_or(0);
        lines.get_mut(at)
    }

    pub(super) fn connected(&mut self, envoy: &EnvoyId, resumes: bool, inputs: &mut StepInputs<'_>) {
        self.came(envoy, resumes, false, inputs);
    }

    /// Handles the connection of an Envoy to this replica, or to another one.
    pub(super) fn came(&mut self, envoy: &EnvoyId, resumes: bool, remote: bool, inputs: &mut StepInputs<'_>) {
        let Some(lines) = self.gateways.get_mut(&envoy.fleet) else {
            self.early.entry(envoy.fleet.clone()).or_default().push((envoy.clone(), resumes));
            return;
        };
        self.touched.insert(envoy.fleet.clone());
        let known = lines.iter().any(|line| line.build == envoy.build);
        if !known
            && let [only] = &mut lines[..]
            && only.is_unused()
        {
            // Results of a probe of another build do not apply to these Envoys.
            *only = Line::new(&only.gateway.clone(), &envoy.build, only.fleet.clone());
            only.edited(&inputs.translator.route_keys(), inputs.translator);
            only.reconcile(inputs);
        } else if !known && lines.len() < BUILDS_MAX {
            let Some(first) = lines.first() else { return };
            let fleet = FleetId { gateway: first.gateway.clone(), label: envoy.build.clone() };
            inputs.translator.open(&fleet, &FleetId::main(&first.gateway));
            let mut line = Line::new(&first.gateway, &envoy.build, fleet);
            // Content that another build has proven is a starting point; it is still unproven for this build.
            for version in first.last_valid.iter() {
                line.last_valid.promote(&version.object, version.since);
                // Followers derive the same plan from it.
                if let Some(stored) = crate::apis::document::stored(&version.object, version.since) {
                    let promoted = Change::Promote(line.scope(), stored);
                    line.record(promoted);
                }
            }
            line.envoys.insert(envoy.node.clone(), 0);
            line.remote_envoys.extend(remote.then(|| envoy.node.clone()));
            line.fresh.extend((!resumes).then(|| (envoy.node.clone(), inputs.now_ms)));
            let routes = inputs.translator.route_keys();
            line.edited(&routes, inputs.translator);
            line.reconcile(inputs);
            lines.push(line);
        }
        if let Some(line) = self.line(&envoy.fleet, &envoy.build) {
            *line.envoys.entry(envoy.node.clone()).or_insert(0) += 1;
            line.remote_envoys.extend(remote.then(|| envoy.node.clone()));
            line.canary_connected(&envoy.node, resumes);
            if !resumes {
                line.fresh.insert(envoy.node.clone(), inputs.now_ms);
            }
            // Before translation has processed the objects, there is no configuration to offer.
            if line.everyone.is_none() && !line.wanted.is_empty() {
                line.advance(inputs);
            }
            line.start_trial(inputs);
        }
    }

    pub(super) fn disconnected(&mut self, envoy: &EnvoyId, inputs: &mut StepInputs<'_>) {
        if let Some(early) = self.early.get_mut(&envoy.fleet) {
            if let Some(at) = early.iter().position(|(known, _)| known.node == envoy.node) {
                early.swap_remove(at);
            }
            if early.is_empty() {
                self.early.remove(&envoy.fleet);
                self.left.remove(&envoy.fleet);
            }
        }
        let Some(line) = self.line(&envoy.fleet, &envoy.build) else { return };
        let Some(streams) = line.envoys.get_mut(&envoy.node) else { return };
        *streams = streams.saturating_sub(1);
        if *streams > 0 {
            return;
        }
        line.envoys.remove(&envoy.node);
        let remote = line.remote_envoys.remove(&envoy.node);
        line.fresh.remove(&envoy.node);
        line.alone.remove(&envoy.node);
        line.outliers.remove(&envoy.node);
        line.silent.remove(&envoy.node);
        line.last_answer_ms.remove(&envoy.node);
        line.hold.unavailable.gone(&envoy.node);
        if remote {
            // The replica of the Envoy may have ended, which proves nothing.
            if line.trial.as_ref().is_some_and(|trial| trial.node == envoy.node) {
                line.end_trial();
            }
            line.start_trial(inputs);
        } else {
            line.lost(&envoy.node, SILENCE, inputs);
        }
        self.touched.insert(envoy.fleet.clone());
    }

    fn tick(&mut self, inputs: &mut StepInputs<'_>) {
        let due = self.iter().filter(|line| line.derived.retry_at.is_some_and(|at| at <= inputs.now_ms));
        let due = due.map(|line| line.gateway.clone()).collect();
        if self.lend(&due, inputs) {
            inputs.translator.translate(inputs.objects, inputs.graph);
        }
        for line in self.gateways.values_mut().flatten() {
            let late = match &line.stage {
                Stage::Canary { node, deadline, waiting, .. } if *deadline <= inputs.now_ms && !waiting.is_empty() => {
                    Some(node.clone())
                }
                _ => {
                    line.trial.as_ref().filter(|trial| trial.deadline <= inputs.now_ms).map(|trial| trial.node.clone())
                }
            };
            if line.close_while_waiting(inputs)
                | line.send_again(inputs.now_ms)
                | (!inputs.follows
                    && (line.watch_probe(inputs) | line.watch_fresh(inputs) | line.watch_outliers(inputs)))
            {
                self.touched.insert(line.name.clone());
            }
            if let Some(node) = late.as_ref().filter(|node| line.remote_envoys.contains(*node)) {
                line.silent.insert(node.clone());
                line.end_trial();
                line.start_trial(inputs);
                self.touched.insert(line.name.clone());
            } else if let Some(node) = late {
                if line.envoys.contains_key(&node) {
                    line.overdue(&node, SILENCE, inputs);
                } else {
                    // The Envoy is disconnected, which proves nothing: another one tries the content.
                    line.advance(inputs);
                }
                self.touched.insert(line.name.clone());
            } else if (line.whole.held && line.whole.changed)
                || line.derived.retry_at.is_some_and(|at| at <= inputs.now_ms)
            {
                // Waiting content is treated like an edit: refused parts of it are searched.
                line.rounds = 0;
                line.forget_blamed(inputs.now_ms);
                line.reconcile(inputs);
                self.touched.insert(line.name.clone());
            } else if line.stage == Stage::Settled && !inputs.follows && line.has_work(inputs.now_ms) {
                line.advance(inputs);
                self.touched.insert(line.name.clone());
            }
        }
    }
}
