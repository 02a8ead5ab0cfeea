//! Configurations of a scope: the wanted one, the one that all Envoys have, and those between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::hold::Hold;
use holdfast_envoy::inspect::clusters::shape;
use holdfast_envoy::model::ServicePort;
use holdfast_translate::fleet::FleetId;
use holdfast_xds::{AgainByName, Resource, ResourceType, Snapshot, Version};

use super::served_endpoints::{self, with_all_endpoints, with_current_endpoints};
use super::{Offered, Stage, TRIED, Waiting, changes};
use crate::context::step_inputs::StepInputs;
use crate::evidence::Evidence;
use crate::evidence::forms::{Form, RouteForms};
use crate::members::Members;

/// The configurations of a scope.
#[derive(Debug, Default)]
pub struct Configurations {
    /// The newest configuration from translation, before any part of it is held back.
    pub(crate) newest: Snapshot,
    /// The configuration that the Envoys should have next.
    pub wanted: Snapshot,
    /// The configuration that all Envoys have, or are offered; `None` before the first offer.
    pub everyone: Option<Snapshot>,
    /// The configuration of all Envoys before the newest one.
    pub(crate) previous: Snapshot,
    /// The configuration of all Envoys while the wanted one is tried; `None` if they have the wanted one.
    pub(crate) trying: Option<Trying>,
    /// Current endpoints of Services that Envoys use and the next configuration does not use.
    kept_endpoints: Snapshot,
    /// The ports of these Services, until translation has read their endpoints.
    kept_services: Option<BTreeSet<ServicePort>>,
}

impl Configurations {
    /// Makes the wanted configuration the one of all Envoys.
    pub(crate) fn release(&mut self) {
        self.trying = None;
        if let Some(before) = self.everyone.replace(self.wanted.clone())
            && before != self.wanted
        {
            self.previous = before;
        }
    }

    /// Records the configuration of all Envoys before the wanted one is tried.
    pub(crate) fn begin_to_try(&mut self, forms: &RouteForms, now_ms: u64) {
        let trying = self.trying.get_or_insert_with(|| Trying { since_ms: now_ms, forms: BTreeMap::new() });
        for (name, resource) in self.everyone.iter().flat_map(|everyone| everyone.of(ResourceType::Route)) {
            if self.wanted.get(ResourceType::Route, name).is_none_or(|wanted| wanted.version != resource.version)
                && let Some(form) = forms.of(name, &resource.version).or_else(|| forms.acknowledged(name))
                && form.version == resource.version
            {
                trying.forms.entry(name.clone()).or_insert_with(|| form.clone());
            }
        }
    }

    /// Checks whether the content that is tried has had its time.
    pub(crate) fn is_late(&self, ack_timeout_ms: u64, now_ms: u64) -> bool {
        self.trying.as_ref().is_some_and(|trying| trying.since_ms.saturating_add(ack_timeout_ms) <= now_ms)
    }

    /// Returns the resources with parts that no Envoy has acknowledged.
    pub(crate) fn unproven(&self, evidence: &Evidence, hold: &Hold) -> Waiting {
        let nothing = Snapshot::default();
        let before = self.everyone.as_ref().unwrap_or(&nothing);
        let mut unproven = Waiting::new();
        let mut shapes = BTreeSet::new();
        for kind in TRIED {
            for resource in changes(before, &self.wanted, kind) {
                let mut is_new = || kind != ResourceType::Cluster || shapes.insert(shape(&resource.body));
                if !evidence.is_known_good(hold, kind, &resource) && is_new() {
                    unproven.insert((kind, resource.name.clone()), resource.version);
                }
            }
        }
        unproven
    }

    /// Returns the clusters on their way to the Envoys that differ from this one only in their names, this one
    /// included.
    pub(crate) fn alike(&self, refused: &Resource) -> Vec<(Arc<str>, Version)> {
        let refused = shape(&refused.body);
        let nothing = Snapshot::default();
        let before = self.everyone.as_ref().unwrap_or(&nothing);
        let new = changes(before, &self.wanted, ResourceType::Cluster);
        let alike = new.filter(|resource| shape(&resource.body) == refused);
        alike.map(|resource| (resource.name.clone(), resource.version)).collect()
    }

    /// Keeps current endpoints that Envoys use and the wanted configuration does not use. They are read by the next
    /// translation. `trial`: the configuration of the Envoy that tries suspects.
    pub(crate) fn keep_served_endpoints(
        &mut self,
        fleet: &FleetId,
        members: &Members,
        trial: Option<&Snapshot>,
        inputs: &mut StepInputs<'_>,
    ) {
        let last = members.outliers().map(|(_, outlier)| &outlier.last);
        let served = self.everyone.iter().chain(last).chain(trial);
        let unused = served_endpoints::unused(served, &self.wanted, inputs);
        inputs.translator.keep_endpoints(fleet, unused.clone());
        self.kept_services = Some(unused);
    }

    /// Checks whether the endpoints to be kept are not read yet.
    pub(crate) fn awaits_endpoints(&self) -> bool {
        self.kept_services.is_some()
    }

    /// Reads the endpoints to be kept from the translation.
    pub(crate) fn read_kept_endpoints(&mut self, inputs: &StepInputs<'_>) {
        if let Some(services) = self.kept_services.take() {
            self.kept_endpoints = served_endpoints::endpoints_of(&services, inputs);
        }
    }

    /// Returns the configurations for the Envoys of the scope: one for all of them, and others for single ones by node.
    ///
    /// Untried content is offered only to the Envoy that tries it. `trial`: the Envoy that tries suspects, and its
    /// configuration.
    pub(crate) fn offers(
        &self,
        stage: &Stage,
        trial: Option<(&Arc<str>, &Snapshot)>,
        members: &Members,
        hold: &Hold,
    ) -> Option<Offered> {
        let current = |snapshot: &Snapshot| with_current_endpoints(snapshot, &self.wanted, &self.kept_endpoints);
        let mut nodes = BTreeMap::new();
        match (stage, trial) {
            (Stage::Canary { node, empty, .. }, _) if !empty || self.everyone.is_none() => {
                nodes.insert(node.clone(), self.wanted.clone());
            }
            (_, Some((node, snapshot))) if !members.is_remote(node) => {
                nodes.insert(node.clone(), current(snapshot));
            }
            _ => {}
        }
        let everyone = self.everyone.as_ref();
        for (node, outlier) in members.outliers() {
            if let Some(snapshot) = everyone.and_then(|everyone| outlier.offered(everyone)) {
                let current = || with_all_endpoints(&snapshot, &self.wanted, &self.kept_endpoints);
                nodes.entry(node.clone()).or_insert_with(current);
            }
        }
        let mut again: BTreeMap<Arc<str>, AgainByName> = BTreeMap::new();
        for (node, slot, turn) in hold.unavailable.again() {
            again.entry(node.clone()).or_default().insert(slot.clone(), turn);
        }
        match everyone {
            Some(everyone) => Some(Offered { everyone: current(everyone), waits: false, nodes, again }),
            None if stage.is_on_probe() => None,
            None => Some(Offered { everyone: self.wanted.clone(), waits: true, nodes, again }),
        }
    }
}

/// The configuration of all Envoys while new content is tried.
#[derive(Clone, Debug)]
pub(crate) struct Trying {
    /// The start of the trial of content that not all Envoys have, in milliseconds of Unix time.
    pub(crate) since_ms: u64,
    /// The forms of the route configurations that all Envoys have, as far as these are known.
    pub(crate) forms: BTreeMap<Arc<str>, Form>,
}
