//! Inputs of the statuses of all objects, computed once for each collection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::{BackfilledObject, FallbackReport, Identity};
use holdfast_graph::ObjectKey;
use holdfast_translate::claims::{ListenerId, Parent};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::query::duplicates::Duplicates;

use super::includes::{ClosedIncludes, closed_includes};
use crate::engine::Engine;
use crate::report::below::{EarlierAbove, OvertakenBelow};
use crate::report::unserved::{is_unserved, reasons};

/// Inputs of the statuses of all objects.
pub(super) struct StatusInputs<'a> {
    /// Everything that is not served as desired.
    pub(super) report: FallbackReport,
    /// The duplicate matches at each Gateway that has any.
    pub(super) duplicates: BTreeMap<&'a ObjectKey, Duplicates>,
    /// What the statuses of many routes depend on.
    pub(super) surroundings: Surroundings,
    /// The Gateways that serve an HTTPRoute in an earlier version.
    pub(super) earlier: EarlierAbove<'a>,
    /// The closed includes above each HTTPProxy.
    pub(super) closed_includes: ClosedIncludes,
    /// The rules below earlier versions that no request reaches.
    pub(super) overtaken: OvertakenBelow<'a>,
}

impl<'a> StatusInputs<'a> {
    pub(super) fn of(engine: &'a Engine) -> Self {
        let report = engine.fallback();
        let surroundings = Surroundings::of(engine, &report);
        let earlier = EarlierAbove::of(engine);
        let overtaken = earlier.overtaken();
        let closed_includes = closed_includes(engine, &report);
        let duplicates = engine.translator.duplicates();
        Self { report, duplicates, surroundings, earlier, closed_includes, overtaken }
    }

    /// Returns the objects with a status that depends on more than the object, its plan and the surroundings: those that
    /// the report names, that lost matches to others, that Envoys are served in another version, or that cannot be read.
    pub(super) fn special(&self, engine: &Engine) -> BTreeSet<ObjectKey> {
        let FallbackReport { broken_objects, backfilled_objects, replaced_objects, excluded_objects, gateways, .. } =
            &self.report;
        let named = broken_objects.iter().map(|entry| &entry.object);
        let named = named.chain(backfilled_objects.iter().map(|entry| &entry.object));
        let named = named.chain(replaced_objects.iter().map(|entry| &entry.object));
        let named = named.chain(excluded_objects.iter().map(|entry| &entry.object)).map(Identity::key);
        let in_step = gateways.iter().flat_map(|gateway| gateway.deviations.steps.keys()).map(|node| node.key.clone());
        let lost = self.duplicates.values().flat_map(|duplicates| duplicates.lost.keys()).cloned();
        let scopes = engine.scopes.gateways().into_values().flat_map(speaking);
        let fleets = scopes.map(|scope| scope.id.fleet.clone()).collect();
        let varied = engine.translator.varied_routes(&fleets).cloned();
        let overtaken = self.overtaken.values().flat_map(|parts| parts.keys()).map(|node| node.key.clone());
        let unreadable = engine.unreadable().map(|(key, ..)| key.clone());
        let below = self.closed_includes.keys().cloned();
        named.chain(in_step).chain(below).chain(lost).chain(varied).chain(overtaken).chain(unreadable).collect()
    }
}

/// What the statuses of many routes depend on. It rarely changes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Surroundings {
    /// The messages about the listeners that policies close.
    closed: BTreeMap<ListenerId, String>,
    /// The messages about the listeners that some Envoys are not served.
    unserved: BTreeMap<ListenerId, String>,
    /// The Gateways in the report, and whether their configuration is held.
    held: BTreeMap<Arc<str>, bool>,
    /// The earlier versions that routes are served below.
    backfilled: Vec<BackfilledObject>,
}

impl Surroundings {
    fn of(engine: &Engine, report: &FallbackReport) -> Self {
        Self {
            closed: engine.closed_listeners(),
            unserved: reasons(engine),
            held: report.gateways.iter().map(|state| (state.name.clone(), state.deviations.held)).collect(),
            backfilled: report.backfilled_objects.clone(),
        }
    }

    /// Returns a message about the listeners of a parent that policies close.
    pub(super) fn closed_above(&self, parent: &Parent) -> Option<String> {
        let messages = parent.attachments.iter().filter_map(|at| self.closed.get(&at.listener));
        let messages: BTreeSet<&str> = messages.map(String::as_str).collect();
        (!messages.is_empty()).then(|| messages.into_iter().collect::<Vec<_>>().join("; "))
    }

    /// Returns a message about the listeners of a parent, a Gateway with this plan, if a route attaches to some and none
    /// of them is served.
    pub(super) fn left_out_at(&self, plan: &GatewayPlan, parent: &Parent) -> Option<String> {
        if !is_unserved(parent, |listener| self.unserved.contains_key(listener)) {
            return None;
        }
        let named = |name: &Arc<str>| parent.attachments.iter().find(|at| at.listener.name == *name);
        let named = plan.listeners.iter().filter_map(|listener| named(&listener.name));
        let messages = named.filter_map(|at| self.unserved.get(&at.listener));
        Some(messages.map(String::as_str).collect::<Vec<_>>().join("; "))
    }
}
