//! Log of problems: one line when a problem begins, one when it ends, none in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::fault::{Class, Fault};
use holdfast_engine::report::{GatewayView, ReplacementView};
use holdfast_envoy::hold::Refusal;
use holdfast_fallback::checker::Objection;

use crate::manifests::{Problem, UnservedObject};
use crate::serve::core::ManifestPositions;
use crate::serve::silence::NotAnsweringByGateway;

/// Maximum number of lines of one sort that are logged at once; further ones are only counted.
const LOGGED_LINES_MAX: usize = 50;

/// The last logged state.
#[derive(Debug, Default)]
pub struct News {
    faults: BTreeSet<Fault>,
    problems: BTreeSet<Problem>,
    unserved: BTreeSet<UnservedObject>,
    replacements: BTreeSet<ReplacementView>,
    refusals: BTreeSet<String>,
    objections: BTreeSet<String>,
    gateways: BTreeSet<String>,
    not_answering: BTreeSet<(Arc<str>, Arc<str>)>,
}

impl News {
    /// Logs new faults, and faults that ended.
    pub fn faults(&mut self, faults: &[Fault], places: &ManifestPositions) {
        let now: BTreeSet<Fault> = faults.iter().cloned().collect();
        begun(&now, &self.faults, "faults", |Fault { object, field, reason, message, .. }| {
            let place = places.get(object).map(|place| format!("{}:{}", place.file, place.line)).unwrap_or_default();
            tracing::warn!(place, %object, field, reason, "{message}");
        });
        over(&now, &self.faults, "faults", |Fault { object, field, reason, message, .. }| {
            tracing::info!(%object, field, reason, "no longer: {message}");
        });
        self.faults = now;
    }

    /// Logs new problems of files, and problems that ended.
    pub fn problems(&mut self, problems: &[Problem]) {
        let now: BTreeSet<Problem> = problems.iter().cloned().collect();
        begun(&now, &self.problems, "problems of files", |problem| tracing::warn!("{problem}"));
        over(&now, &self.problems, "problems of files", |problem| tracing::info!("no longer: {problem}"));
        self.problems = now;
    }

    /// Logs objects without effect, and objects of them that are no longer there.
    pub fn unserved(&mut self, unserved: &[UnservedObject]) {
        let now: BTreeSet<UnservedObject> = unserved.iter().cloned().collect();
        begun(&now, &self.unserved, "objects without effect", |UnservedObject { file, line, fault, .. }| {
            tracing::warn!(place = format!("{file}:{line}"), object = %fault.object, reason = fault.reason, "{}", fault.message);
        });
        over(&now, &self.unserved, "objects without effect", |UnservedObject { fault, .. }| {
            tracing::info!(object = %fault.object, reason = fault.reason, "no longer: {}", fault.message);
        });
        self.unserved = now;
    }

    /// Logs new and ended replacements for references to missing objects. Replacements of broken objects are logged
    /// with the fallback.
    pub fn replacements(&mut self, replacements: &[ReplacementView]) {
        let missing = replacements.iter().filter(|replacement| replacement.cause == Class::Referential);
        // Policies that cannot be enforced, for whatever reason, are logged with the fallback.
        let missing = missing.filter(|replacement| replacement.policy.is_none());
        let now: BTreeSet<ReplacementView> = missing.cloned().collect();
        begun(&now, &self.replacements, "replacements", |replacement| {
            let ReplacementView { gateway, object, section, cause, response, .. } = replacement;
            match response {
                Some(response) => {
                    tracing::warn!(%object, section, gateway, ?cause, "replaced by a direct response with status \
                                                                       {response}");
                }
                None => tracing::warn!(%object, section, gateway, ?cause, "left out"),
            }
        });
        over(&now, &self.replacements, "replacements", |ReplacementView { object, section, gateway, .. }| {
            tracing::info!(%object, section, gateway, "no longer replaced");
        });
        self.replacements = now;
    }

    /// Logs Envoys that stopped answering, and Envoys that answer again or have ended.
    pub fn not_answering(&mut self, not_answering: &NotAnsweringByGateway) {
        let pairs = not_answering.iter().flat_map(|(gateway, envoys)| envoys.keys().map(move |node| (gateway, node)));
        let now: BTreeSet<(Arc<str>, Arc<str>)> =
            pairs.map(|(gateway, node)| (gateway.clone(), node.clone())).collect();
        begun(&now, &self.not_answering, "silent Envoys", |(gateway, node)| {
            tracing::warn!(%gateway, %node, "an Envoy does not answer");
        });
        over(&now, &self.not_answering, "silent Envoys", |(gateway, node)| {
            tracing::info!(%gateway, %node, "no longer: an Envoy does not answer");
        });
        self.not_answering = now;
    }

    /// Logs new refusals by Envoys, and refusals that ended. The version makes equal refusals by several Envoys one
    /// entry.
    pub fn refusals(&mut self, refusals: &[(&str, &Refusal)]) {
        let mut now = BTreeSet::new();
        for (gateway, refusal) in refusals {
            let kind = refusal.kind.short_name();
            let key = format!("{gateway} {kind} {} {}", refusal.resource, refusal.version);
            if !self.refusals.contains(&key) && !now.contains(&key) {
                let Refusal { resource, node, message, .. } = refusal;
                tracing::warn!(gateway, kind, %resource, %node, "refused by an Envoy, which keeps its previous \
                                                                 configuration: {message}");
            }
            now.insert(key);
        }
        over(&now, &self.refusals, "refusals", |refusal| tracing::info!("no longer refused: {refusal}"));
        self.refusals = now;
    }

    /// Logs what the checker of fallbacks closed, and closures that ended.
    pub fn objections(&mut self, objections: &[(&str, &Objection)]) {
        let now: BTreeSet<String> =
            objections.iter().map(|(gateway, objection)| format!("{gateway}: {objection}")).collect();
        begun(&now, &self.objections, "objections", |objection| {
            tracing::warn!("closed, since a fallback would not be safe: {objection}");
        });
        over(&now, &self.objections, "objections", |objection| tracing::info!("no longer closed: {objection}"));
        self.objections = now;
    }

    /// Logs the programmed Gateways, with the addresses of their listeners.
    pub fn gateways(&mut self, gateways: &[GatewayView]) {
        let describe = |gateway: &GatewayView| {
            let listeners = gateway.listeners.iter().filter(|listener| listener.serving).map(|listener| {
                format!("{} {} {}:{}", listener.name, listener.protocol, listener.address, listener.port)
            });
            format!("{}: {}", gateway.name, listeners.collect::<Vec<_>>().join(", "))
        };
        let now: BTreeSet<String> = gateways.iter().filter(|gateway| gateway.programmed).map(describe).collect();
        begun(&now, &self.gateways, "Gateways", |gateway| tracing::info!("programmed: {gateway}"));
        over(&now, &self.gateways, "Gateways", |gateway| tracing::info!("no longer programmed: {gateway}"));
        self.gateways = now;
    }
}

fn begun<T: Ord>(now: &BTreeSet<T>, before: &BTreeSet<T>, what: &str, line: impl FnMut(&T)) {
    log_all(now.difference(before), what, line);
}

fn over<T: Ord>(now: &BTreeSet<T>, before: &BTreeSet<T>, what: &str, line: impl FnMut(&T)) {
    log_all(before.difference(now), what, line);
}

fn log_all<'a, T: 'a>(items: impl Iterator<Item = &'a T>, what: &str, mut line: impl FnMut(&'a T)) {
    let mut more = 0_usize;
    for (index, item) in items.enumerate() {
        if index < LOGGED_LINES_MAX { line(item) } else { more += 1 }
    }
    if more > 0 {
        tracing::warn!("and {more} more {what}: see /debug/faults");
    }
}
