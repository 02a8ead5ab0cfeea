//! Held routes and filter chains as earlier units: what they lack, compared with today's objects and policies.

use std::sync::Arc;

use holdfast_api::object::Object;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::filters;
use holdfast_envoy::inspect::chains::HeldChain;
use holdfast_envoy::inspect::routes::PublishedRoute;
use holdfast_envoy::model::Action;
use holdfast_graph::ObjectKey;
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::route::{Rendered, RoutePlan};

use super::{Held, Revocation, meanwhile, secured};
use crate::eligibility::served_now::EarlierUnit;

/// A route of a held route configuration.
pub(super) struct HeldRoute<'a, 'b, 'c> {
    pub(super) revocation: &'a Revocation<'b, 'c>,
    pub(super) held: &'a Held<'a>,
    pub(super) owner: &'a ObjectKey,
}

impl EarlierUnit for HeldRoute<'_, '_, '_> {
    type Why = ();

    fn lacks_claim(&self) -> Option<()> {
        (self.object().is_none() || !self.is_claimed()).then_some(())
    }

    fn lacks_protection(&self) -> Option<()> {
        let object = self.object()?;
        let route = self.held.route;
        let needs_tls = names::is_plain(route.configuration) && self.needs_tls();
        let is_secured = || {
            is_proxy(&object.key) || route.clusters().all(|one| secured::is_secured(self.revocation, one, self.held))
        };
        let is_served = !needs_tls && !self.lacks_guard(object) && is_secured() && self.is_protected(object);
        (!is_served).then_some(())
    }

    fn lacks_reference(&self) -> Option<()> {
        (!self.held.route.clusters().all(|cluster| self.is_granted(cluster))).then_some(())
    }
}

impl HeldRoute<'_, '_, '_> {
    fn object(&self) -> Option<&Object> {
        self.revocation.inputs.objects.get(self.owner).map(|object| &**object)
    }

    /// Checks whether the object has the host of the route in its route table, by a current claim or by a claim that is
    /// served instead of a current one. At another table, other clients would reach the route.
    fn is_claimed(&self) -> bool {
        let Revocation { id, inputs, .. } = self.revocation;
        let here = |plan: &Arc<RoutePlan>| plan.places.iter().any(|place| self.held.is_at(&id.gateway, place));
        inputs.translator.route(self.owner).is_some_and(here)
            || inputs.translator.served_route(&id.fleet, self.owner).is_some_and(here)
    }

    /// Checks whether the object names a guard that the held route may lack. For an HTTPProxy, a root may contain the
    /// guard.
    fn lacks_guard(&self, object: &Object) -> bool {
        let inputs = self.revocation.inputs;
        let roots = inputs.translator.roots_of(self.owner).filter_map(|root| inputs.objects.get(root));
        let mut all = roots.map(|root| &**root).chain([object]);
        all.any(|root| is_proxy(&root.key) && root.body.names_guard(None)) && !self.is_guarded_as_desired()
    }

    /// Checks whether a held route has all protection that current policies require.
    ///
    /// For each filter with current settings at the route, its host or its route configuration, the held settings at
    /// all three levels must be equal to the current ones. Other held filters only add protection. Headers that
    /// the current version removes or overwrites, and its redirects to https, must be so in the held one.
    fn is_protected(&self, object: &Object) -> bool {
        let (revocation, held) = (self.revocation, self.held);
        let translator = &revocation.inputs.translator;
        let Some(plan) = translator.route(self.owner) else { return true };
        let of_gateway = translator.guards(&revocation.id.gateway, held.route.configuration, held.route.domain);
        if of_gateway.closed {
            return false;
        }
        if meanwhile::goes_on(revocation, held, (object, plan), &of_gateway) {
            return true;
        }
        let current = held.current(plan, &revocation.id.gateway);
        // The requests of the route belong to other shares now.
        if current.is_none() && held.shares(plan).any(|rendered| !held.route.protects_as(&rendered.route)) {
            return false;
        }
        let own = match current {
            Some(rendered) if !held.route.protects_as(&rendered.route) => return false,
            Some(rendered) if !matches!(rendered.route.action, Action::Respond(_)) => {
                let guards = rendered.route.guards.under(&of_gateway.levels).guarding();
                filters::guarding(&rendered.route.filters).into_iter().chain(guards).collect()
            }
            // Without a desired route, the settings that policies would apply to it are unknown.
            _ if !plan.policies.is_empty() || object.body.names_guard(None) => return false,
            _ => filters::Guarding::new(),
        };
        held.route.has_settings([&own, &of_gateway.host, &of_gateway.configuration])
    }

    /// Checks whether a route has its desired guards, for the same requests. No route of the Gateway API is served with
    /// a guard.
    fn is_guarded_as_desired(&self) -> bool {
        let (revocation, held) = (self.revocation, self.held);
        let translator = &revocation.inputs.translator;
        let Some(plan) = translator.route(self.owner).filter(|_| is_proxy(self.owner)) else { return false };
        let of_gateway = translator.guards(&revocation.id.gateway, held.route.configuration, held.route.domain);
        let meanwhile = meanwhile::proxy_goes_on(revocation, self.owner, held);
        plan.routes.iter().filter(|rendered| *rendered.route.name == *held.route.name()).any(|rendered| {
            let mut route = rendered.route.clone();
            route.guards = route.guards.under(&of_gateway.levels).into();
            held.route.is_guarded_as(&route, meanwhile)
        })
    }

    /// Checks whether a route of an HTTPProxy requires TLS now but does not require it in the held configuration.
    fn needs_tls(&self) -> bool {
        let held: &PublishedRoute<'_> = self.held.route;
        if held.redirects() {
            return false;
        }
        let Revocation { id, inputs, .. } = self.revocation;
        let plans = inputs.translator.roots_of(self.owner);
        let plans = plans.filter_map(|root| inputs.translator.served_route(&id.fleet, root));
        let here = |plan: &&Arc<RoutePlan>| plan.places.iter().any(|(_, _, host)| host.domain() == held.domain);
        plans.filter(here).any(|plan| {
            let secure = |rendered: &Arc<Rendered>| rendered.route.secure_port.is_some();
            match plan.routes.iter().find(|rendered| *rendered.route.name == *held.name()) {
                Some(rendered) => secure(rendered),
                // The desired form of the route is unknown, but the host is known to have TLS.
                None => plan.routes.iter().any(secure),
            }
        })
    }

    /// Checks whether a current grant allows the route to use the backend of this cluster.
    fn is_granted(&self, cluster: &str) -> bool {
        let inputs = self.revocation.inputs;
        let place = names::backend(cluster);
        place.is_none_or(|(place, _)| inputs.translator.is_granted(self.owner, &place, inputs.objects))
    }
}

/// A filter chain of a held listener.
pub(super) struct HeldConnections<'a> {
    pub(super) chain: &'a HeldChain<'a>,
    /// Whether the listener is held only until the desired one was tried.
    pub(super) meanwhile: bool,
}

impl EarlierUnit for HeldConnections<'_> {
    type Why = ();

    fn lacks_claim(&self) -> Option<()> {
        (!self.chain.is_desired()).then_some(())
    }

    fn lacks_protection(&self) -> Option<()> {
        self.chain.is_weaker(self.meanwhile).then_some(())
    }

    // A desired chain without a granted backend refuses connections: it is stricter than the held one.
    fn lacks_reference(&self) -> Option<()> {
        None
    }
}
