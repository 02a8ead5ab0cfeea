//! What is asked of translation beside its outcome: what something would be, and who looked at what.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::Translator;
use super::gateway::{self, GatewayPlan, Outcome};
use super::overlay::Overlay;
use crate::snapshot::ObjectSnapshot;

impl Translator {
    /// The desired plan of a Gateway; `None` for one that is not ours.
    pub(crate) fn gateway(&self, key: &ObjectKey) -> Option<&Arc<GatewayPlan>> {
        self.plans.get(key)
    }

    /// What a Gateway would be under an overlay, without putting it into force.
    pub(crate) fn try_gateway(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<GatewayPlan> {
        match gateway::plan(key, &self.settings, &mut self.reader(Some(over), objects)) {
            Outcome::Served(plan) => Some(plan),
            Outcome::Stray(_) | Outcome::None => None,
        }
    }

    /// The ReferenceGrants of a namespace: where to look, not what they allow.
    pub(crate) fn grants_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.grants_in(namespace)
    }

    /// The TLSCertificateDelegations of a namespace: where to look, not what they allow.
    pub(crate) fn delegations_in(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.delegations_in(namespace)
    }

    /// The HTTPProxies that name a host: where to look, not which of them has it.
    pub(crate) fn roots_of_host(&self, fqdn: &str) -> impl Iterator<Item = &ObjectKey> {
        self.indexes.roots_of_host(fqdn)
    }
}
