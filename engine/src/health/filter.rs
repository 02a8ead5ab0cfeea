//! Health of one namespace or of one Gateway.

use std::collections::BTreeSet;

use holdfast_api::apis::kinds;

use super::view::{DetectedBy, Health, HealthFinding};

impl Health {
    /// Keeps what concerns a namespace: findings about its objects, findings that affect its objects, and problems of
    /// the Envoys of Gateways with routes of the namespace. Problems of inputs are always kept.
    pub fn of_namespace(mut self, namespace: &str) -> Self {
        let at = self.namespaces.get(namespace).cloned().unwrap_or_default();
        let own = |finding: &HealthFinding| {
            let is_subject = finding.objects.iter().any(|subject| &*subject.object.namespace == namespace);
            let is_around = finding.detected_by == DetectedBy::Envoys && !at.is_disjoint(&finding.gateways);
            let served = finding.served.iter().map(|served| &served.object);
            let is_affected = served.chain(&finding.affected).any(|object| &*object.namespace == namespace);
            is_subject || is_around || is_affected
        };
        self.retain(own);
        self.judged()
    }

    /// Keeps what concerns a Gateway (`namespace/name`), including findings with unknown Gateways.
    pub fn of_gateway(mut self, gateway: &str) -> Self {
        self.gateways.retain(|known| &*known.name == gateway);
        self.retain(|finding| finding.gateways.is_empty() || finding.gateways.contains(gateway));
        self.judged()
    }

    /// Returns the known namespaces: those with objects, and those of objects that cannot be read.
    pub fn known_namespaces(&self) -> BTreeSet<&str> {
        let subjects = self.findings().flat_map(|finding| &finding.objects).map(|subject| &subject.object);
        let served = self.findings().flat_map(|finding| &finding.served).map(|served| &served.object);
        let affected = self.findings().flat_map(|finding| &finding.affected);
        let named = subjects
            .chain(served)
            .chain(affected)
            .map(|object| &*object.namespace)
            .filter(|namespace| !namespace.is_empty());
        named.chain(self.namespaces.keys().map(|namespace| &**namespace)).collect()
    }

    /// Returns the known Gateways (`namespace/name`): those with Envoys, and those with a finding.
    pub fn known_gateways(&self) -> BTreeSet<String> {
        let subjects = self.findings().flat_map(|finding| &finding.objects).map(|subject| &subject.object);
        let subjects =
            subjects.filter(|object| &*object.kind == kinds::GATEWAY).map(|object| object.key().namespaced_name());
        let at = self.findings().flat_map(|finding| &finding.gateways).filter(|gateway| !gateway.is_empty());
        let shown = self.gateways.iter().map(|gateway| &gateway.name);
        subjects.chain(at.chain(shown).map(ToString::to_string)).collect()
    }

    fn findings(&self) -> impl Iterator<Item = &HealthFinding> {
        [&self.outages, &self.degraded, &self.warnings].into_iter().flatten()
    }

    fn retain(&mut self, wanted: impl Fn(&HealthFinding) -> bool) {
        for findings in [&mut self.outages, &mut self.degraded, &mut self.warnings] {
            findings.retain(&wanted);
        }
    }
}
