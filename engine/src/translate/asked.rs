//! What is asked of translation beside its outcome: what something would be, and who looked at what.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::fleet::{FleetId, GatewayGuards};
use super::gateway::{self, GatewayPlan, Outcome};
use super::overlay::Overlay;
use super::policy::PolicyPlan;
use super::policy::level::LevelPlan;
use super::reader::Input;
use super::{Translator, Unit};
use crate::snapshot::ObjectSnapshot;

impl Translator {
    /// The desired plan of a Gateway; `None` for one that is not ours.
    pub(crate) fn gateway(&self, key: &ObjectKey) -> Option<&Arc<GatewayPlan>> {
        self.plans.get(key)
    }

    /// What a Gateway would be under an overlay, without putting it into force.
    pub(crate) fn try_gateway(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<GatewayPlan> {
        match gateway::plan(key, &self.settings, &mut self.reader(Some(over), objects)) {
            Outcome::Served(mut plan) => {
                self.close_listeners(key, &mut plan, over);
                Some(plan)
            }
            Outcome::Stray(_) | Outcome::None => None,
        }
    }

    /// What policies of a Gateway say today to the filters that protect a host.
    pub(crate) fn guards(&self, gateway: &ObjectKey, configuration: &str, domain: &str) -> GatewayGuards {
        let fleet = self.fleets.get(&FleetId::main(gateway));
        fleet.map(|fleet| fleet.guards(configuration, domain)).unwrap_or_default()
    }

    /// Is it a policy on which something hangs that is served?
    pub(crate) fn is_guard(&self, key: &ObjectKey) -> bool {
        let readers = self.readers.get(&Input::Policy(key.clone()));
        let governs = || readers.into_iter().flatten().any(|unit| *unit != Unit::Policy(key.clone()));
        (self.policies.contains_key(key) && governs()) || self.guards_back_ends(key)
    }

    /// What policies say to a Gateway, where they say something.
    pub(crate) fn levels(&self, gateway: &ObjectKey) -> Option<&Arc<LevelPlan>> {
        self.levels.get(gateway)
    }

    /// What became of a policy.
    pub(crate) fn policy(&self, key: &ObjectKey) -> Option<&Arc<PolicyPlan>> {
        self.policies.get(key)
    }

    /// The routes and Gateways that a policy says something to.
    pub(crate) fn governed_by(&self, policy: &ObjectKey) -> (BTreeSet<ObjectKey>, BTreeSet<ObjectKey>) {
        let readers = self.readers.get(&Input::Policy(policy.clone()));
        let (mut routes, mut gateways) = (BTreeSet::new(), BTreeSet::new());
        for unit in readers.into_iter().flatten() {
            match unit {
                Unit::Route(key) if self.routes.get(key).is_some_and(|plan| plan.policies.contains(policy)) => {
                    routes.insert(key.clone());
                }
                Unit::Levels(key) => {
                    gateways.insert(key.clone());
                }
                _ => {}
            }
        }
        (routes, gateways)
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
