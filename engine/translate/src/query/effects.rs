//! Effect of backend policies: the Gateways where a policy applies, and the part of its settings that takes effect.
//! Computed on request.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_api::apis::Body;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::ObjectKey;

use crate::backend_policy::{is_config, is_tls, plan};
use crate::precedence::rank;
use crate::reader::Input;
use crate::{Translator, Unit};

/// The effect of a policy at a Gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyEffect {
    /// Whether other policies take precedence in some fields.
    pub merged: bool,
    /// Whether other policies take precedence in all fields.
    pub overridden: bool,
    /// Whether a BackendTLSPolicy takes precedence over its TLS settings.
    pub tls_overridden: bool,
}

impl Translator {
    /// Returns the outcome of a backend policy or Backend.
    pub fn backend(&self, key: &ObjectKey) -> Option<&plan::BackendPlan> {
        self.backend_policy.plans.get(key).map(|plan| &**plan)
    }

    /// Returns whether the object is a backend policy that routes use.
    pub(crate) fn guards_backends(&self, key: &ObjectKey) -> bool {
        crate::backend_policy::is_policy(key) && !self.routes_using(key).is_empty()
    }

    /// Returns the routes that use a backend of a policy, also by way of other policies.
    pub fn routes_using(&self, policy: &ObjectKey) -> BTreeSet<ObjectKey> {
        let mut routes = self.routes_reading(policy);
        let readers = self.units.readers(&Input::Object(policy.clone()));
        for unit in readers {
            if let Unit::Policy(other) = unit {
                routes.extend(self.governed_by(other).0);
            }
        }
        routes
    }

    /// Returns the Gateways where a backend policy applies, with its effect.
    pub fn policy_effects(&self, policy: &ObjectKey, objects: &ObjectSnapshot) -> BTreeMap<ObjectKey, PolicyEffect> {
        let mut effects: BTreeMap<ObjectKey, PolicyEffect> = BTreeMap::new();
        for route in self.routes_using(policy) {
            let Some(plan) = self.routes.get(&route) else { continue };
            let remotes = plan.remotes();
            let of_remotes = remotes.iter().flat_map(|remote| remote.origins()).cloned();
            let own = plan.backends.iter().map(|backend| backend.place.key().clone());
            let places: BTreeSet<ObjectKey> = own.chain(of_remotes).collect();
            let all = places.iter().filter_map(|place| self.effect_at(policy, place, objects));
            let worst = all.fold(PolicyEffect::default(), |one, other| PolicyEffect {
                merged: one.merged || other.merged,
                overridden: one.overridden || other.overridden,
                tls_overridden: one.tls_overridden || other.tls_overridden,
            });
            let gateways = plan.parents.iter().map(|parent| &parent.gateway).chain(plan.gateways());
            for gateway in gateways.collect::<BTreeSet<_>>() {
                let known = effects.entry(gateway.clone()).or_default();
                known.merged |= worst.merged;
                known.overridden |= worst.overridden;
                known.tls_overridden |= worst.tls_overridden;
            }
        }
        effects
    }

    /// Returns the effect of a policy at a backend; `None` where the policy is not attached to the backend.
    fn effect_at(&self, policy: &ObjectKey, place: &ObjectKey, objects: &ObjectSnapshot) -> Option<PolicyEffect> {
        let (own, place) = (objects.get(policy)?, objects.get(place)?);
        let Body::BackendConfigPolicy(written) = &own.body else { return None };
        if !plan::names(&written.targets, policy, place) {
            return None;
        }
        let mut reader = self.reader(None, objects);
        let attached = reader.attached(&place.key, &place.metadata.labels);
        let own_fields: BTreeSet<&str> = written.spec.iter().flat_map(|spec| spec.set()).collect();
        let own_rank = rank::rank(own).0;
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        let mut tls_overridden = false;
        for (key, _) in attached.iter().filter(|(key, _)| *key != policy) {
            if is_tls(key) && own_fields.contains("tls") {
                tls_overridden = true;
                taken.insert("tls");
            }
            let Some(other) = objects.get(key).filter(|_| is_config(key)) else { continue };
            let Body::BackendConfigPolicy(written) = &other.body else { continue };
            if rank::rank(other).0 < own_rank {
                taken.extend(written.spec.iter().flat_map(|spec| spec.set()).filter(|name| own_fields.contains(name)));
            }
        }
        let overridden = !own_fields.is_empty() && taken.len() == own_fields.len();
        Some(PolicyEffect { merged: !taken.is_empty() && !overridden, overridden, tls_overridden })
    }
}
