//! Closing of held resources: routes and filter chains that must no longer be served are closed in the acknowledged
//! resources.
//!
//! A hold keeps bytes, and bytes contain no information about deletions and revoked grants. Held bytes are therefore
//! decoded again. A route becomes a direct response if its object was deleted, if its object no longer claims the host,
//! if its backend is no longer granted, or if its object has named a guard since. The same applies while an outlier
//! keeps its older configuration, and while all other Envoys wait for the Envoy that tries new content; `meanwhile.rs`
//! lists the exceptions. If Envoy refuses even that form, the whole route configuration gives every request the same
//! response. In held listeners, filter chains with weaker requirements than the desired ones are closed.

mod meanwhile;
mod secured;

use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_api::settings::body_for;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::filters;
use holdfast_envoy::hold::Hold;
use holdfast_envoy::inspect::chains;
use holdfast_envoy::inspect::routes::{self, PublishedRoute};
use holdfast_envoy::model::{Action, FixedResponse};
use holdfast_graph::ObjectKey;
use holdfast_translate::httpproxy::is_proxy as is_proxy_key;
use holdfast_translate::route::{Rendered, RoutePlan};
use holdfast_xds::{Resource, ResourceType, Snapshot};

use crate::context::scope_id::ScopeId;
use crate::context::step_inputs::StepInputs;
use crate::evidence::Evidence;
use crate::members::Outlier;
use crate::plan::derive::Derived;
use crate::rollout::Waiting;
use crate::rollout::configurations::{Configurations, Trying};

/// The state of a scope from which it follows what must no longer be served.
pub(crate) struct Revocation<'a, 'b> {
    pub(crate) id: &'a ScopeId,
    pub(crate) evidence: &'a Evidence,
    pub(crate) hold: &'a Hold,
    pub(crate) derived: &'a Derived,
    pub(crate) configurations: &'a Configurations,
    /// Whether the Gateway is held as a whole.
    pub(crate) is_held: bool,
    pub(crate) inputs: &'a StepInputs<'b>,
}

impl Revocation<'_, '_> {
    /// Closes everything in held resources that must no longer be served. Returns the closed forms.
    pub(crate) fn close_held(&self, wanted: &mut Snapshot) -> Waiting {
        let mut closed = Waiting::new();
        for (name, _) in self.hold.refused_now(ResourceType::Route) {
            let Some(resource) = wanted.get(ResourceType::Route, &name).cloned() else { continue };
            let Some(body) = close(&resource.body, None, |held| self.closed(held)) else { continue };
            let mut instead = Resource::new(name.clone(), body, resource.origins.clone());
            if self.hold.refusal_of(ResourceType::Route, &name, instead.version).is_some() {
                let body = routes::close_all(&name, &answer(self.inputs));
                instead = Resource::new(name.clone(), body, resource.origins.clone());
            }
            closed.insert((ResourceType::Route, name), instead.version);
            wanted.insert(ResourceType::Route, Arc::new(instead));
        }
        for (name, _) in self.hold.refused_now(ResourceType::Listener) {
            let held = wanted.get(ResourceType::Listener, &name).cloned();
            let Some(instead) = held.and_then(|held| self.closed_listener(&held, false)) else { continue };
            closed.insert((ResourceType::Listener, name), instead.version);
            wanted.insert(ResourceType::Listener, Arc::new(instead));
        }
        closed
    }

    /// Closes, in the configuration of all other Envoys, everything that must no longer be served while one Envoy tries
    /// new content. Returns the closed forms.
    pub(crate) fn close_meanwhile(&self, everyone: &mut Snapshot) -> Waiting {
        let wanted = &self.configurations.wanted;
        let routes = everyone.of(ResourceType::Route).values();
        let differ = routes.filter(|held| wanted.get(ResourceType::Route, &held.name) != Some(held));
        let mut closed = Waiting::new();
        for resource in differ.cloned().collect::<Vec<_>>() {
            let meanwhile = meanwhile::trying(self, ResourceType::Route, &resource.name);
            let Some(body) = close(&resource.body, meanwhile, |held| self.closed(held)) else { continue };
            let instead = Resource::new(resource.name.clone(), body, resource.origins.clone());
            if self.hold.refusal_of(ResourceType::Route, &instead.name, instead.version).is_none() {
                closed.insert((ResourceType::Route, instead.name.clone()), instead.version);
                everyone.insert(ResourceType::Route, Arc::new(instead));
            }
        }
        for held in everyone.of(ResourceType::Listener).values().cloned().collect::<Vec<_>>() {
            let meanwhile = meanwhile::trying(self, ResourceType::Listener, &held.name).is_some();
            if let Some(instead) = self.closed_listener(&held, meanwhile) {
                closed.insert((ResourceType::Listener, instead.name.clone()), instead.version);
                everyone.insert(ResourceType::Listener, Arc::new(instead));
            }
        }
        closed
    }

    /// Returns the older configuration of an outlier, with everything closed that must no longer be served.
    pub(crate) fn closed_last(&self, outlier: &Outlier) -> Snapshot {
        let mut last = outlier.last.clone();
        for resource in outlier.last.of(ResourceType::Route).values() {
            if let Some(body) = close(&resource.body, None, |held| self.closed(held)) {
                let instead = Resource::new(resource.name.clone(), body, resource.origins.clone());
                last.insert(ResourceType::Route, Arc::new(instead));
            }
        }
        for held in outlier.last.of(ResourceType::Listener).values() {
            if let Some(instead) = self.closed_listener(held, false) {
                last.insert(ResourceType::Listener, Arc::new(instead));
            }
        }
        last
    }

    /// Returns a held listener with all chains closed that require less than the desired ones; `None` if there is no
    /// such chain.
    fn closed_listener(&self, held: &Resource, meanwhile: bool) -> Option<Resource> {
        let desired = self.inputs.translator.snapshot(&self.id.fleet)?;
        let desired = desired.get(ResourceType::Listener, &held.name);
        if desired.is_some_and(|desired| desired.version == held.version) {
            return None;
        }
        let body = chains::close(&held.body, desired.map(|desired| &desired.body[..]), meanwhile)?;
        let instead = Resource::new(held.name.clone(), body, held.origins.clone());
        let refused = self.hold.refusal_of(ResourceType::Listener, &held.name, instead.version).is_some();
        (!refused).then_some(instead)
    }

    /// Returns the response of a route that must no longer be served; `None` if the route continues to be served.
    fn closed(&self, held: &Held<'_>) -> Option<FixedResponse> {
        self.must_close(held).then(|| self.answered_today(held).unwrap_or_else(|| self.answer_of(held.route.name())))
    }

    /// Returns the response of a closed route. Its body names the kind of the route object.
    fn answer_of(&self, route: &str) -> FixedResponse {
        let FixedResponse { status, body, .. } = answer(self.inputs);
        let owner = names::object_of_route(route);
        let body = owner.map_or_else(|| body.clone(), |owner| body_for(&body, &owner.kind));
        FixedResponse::new(status, body)
    }

    /// Returns the current response of a route that is closed in the current translation as well.
    fn answered_today(&self, held: &Held<'_>) -> Option<FixedResponse> {
        let plan = self.inputs.translator.route(&names::object_of_route(held.route.name())?)?;
        let rendered = plan.routes.iter().find(|rendered| *rendered.route.name == *held.route.name())?;
        let replaced = plan.replaced.iter().any(|replaced| *replaced.section == *rendered.route.section);
        match &rendered.route.action {
            Action::Respond(response) if replaced => Some(response.clone()),
            _ => None,
        }
    }

    /// Checks whether a route must no longer be served, whatever the held bytes contain.
    fn must_close(&self, held: &Held<'_>) -> bool {
        let route = held.route;
        let Some(owner) = names::object_of_route(route.name()) else { return false };
        if self.inputs.unusable.contains(&owner) {
            return false;
        }
        if names::is_plain(route.configuration) && self.needs_tls(&owner, route) {
            return true;
        }
        let Some(object) = self.inputs.objects.get(&owner) else { return true };
        let here = |plan: &Arc<RoutePlan>| {
            let mut places = plan.places.iter();
            places.any(|(gateway, _, host)| *gateway == self.id.gateway && host.domain() == route.domain)
        };
        // By a current claim, or by a claim that is served instead of a current one.
        let claimed = self.inputs.translator.route(&owner).is_some_and(here)
            || self.inputs.translator.served_route(&self.id.fleet, &owner).is_some_and(here);
        let granted = || route.clusters().all(|cluster| self.is_granted(&owner, cluster));
        // For an HTTPProxy, a root may contain the guard.
        let roots = self.inputs.translator.roots_of(&owner).filter_map(|root| self.inputs.objects.get(root));
        let guarded = roots.into_iter().chain([object]).any(|root| is_proxy(root) && root.body.names_guard(None));
        let guarded = guarded && !self.is_guarded_as_desired(&owner, held);
        let secured = || is_proxy(object) || route.clusters().all(|cluster| secured::is_secured(self, cluster, held));
        !claimed || guarded || !granted() || !secured() || !self.is_protected(held, &owner, object)
    }

    /// Checks whether a held route has all protection that current policies require.
    ///
    /// For each filter with current settings at the route, its host or its route configuration, the held settings at
    /// all three levels must be equal to the current ones. Other held filters only add protection. Headers that
    /// the current version removes or overwrites, and its redirects to https, must be so in the held one.
    fn is_protected(&self, held: &Held<'_>, owner: &ObjectKey, object: &Object) -> bool {
        let Some(plan) = self.inputs.translator.route(owner) else { return true };
        let of_gateway = self.inputs.translator.guards(&self.id.gateway, held.route.configuration, held.route.domain);
        if of_gateway.closed {
            return false;
        }
        if meanwhile::goes_on(self, held, plan, &of_gateway) {
            return true;
        }
        let wanted = plan.routes.iter().find(|rendered| *rendered.route.name == *held.route.name());
        let own = match wanted {
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
    fn is_guarded_as_desired(&self, owner: &ObjectKey, held: &Held<'_>) -> bool {
        let Some(plan) = self.inputs.translator.route(owner).filter(|_| is_proxy_key(owner)) else { return false };
        let of_gateway = self.inputs.translator.guards(&self.id.gateway, held.route.configuration, held.route.domain);
        let meanwhile = meanwhile::proxy_goes_on(self, owner, held);
        plan.routes.iter().filter(|rendered| *rendered.route.name == *held.route.name()).any(|rendered| {
            let mut route = rendered.route.clone();
            route.guards = route.guards.under(&of_gateway.levels);
            held.route.is_guarded_as(&route, meanwhile)
        })
    }

    /// Checks whether a route of an HTTPProxy requires TLS now but does not require it in the held configuration.
    fn needs_tls(&self, owner: &ObjectKey, held: &PublishedRoute<'_>) -> bool {
        if held.redirects() {
            return false;
        }
        let plans = self.inputs.translator.roots_of(owner);
        let plans = plans.filter_map(|root| self.inputs.translator.served_route(&self.id.fleet, root));
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
    fn is_granted(&self, owner: &ObjectKey, cluster: &str) -> bool {
        let place = names::backend(cluster);
        place.is_none_or(|(place, _)| self.inputs.translator.is_granted(owner, &place, self.inputs.objects))
    }
}

fn is_proxy(object: &Object) -> bool {
    &*object.key.kind == kinds::HTTP_PROXY
}

/// Returns the response of closed routes.
fn answer(inputs: &StepInputs<'_>) -> FixedResponse {
    FixedResponse::new(inputs.settings.closed_status, inputs.settings.missing_backend_body.clone())
}

/// A held route with its context.
struct Held<'a> {
    route: &'a PublishedRoute<'a>,
    /// Set while all Envoys have the held configuration only until new content was tried.
    meanwhile: Option<&'a Trying>,
}

/// Returns the route configuration with these routes closed; `None` if no route is to be closed.
fn close(
    body: &[u8],
    meanwhile: Option<&Trying>,
    closed: impl Fn(&Held<'_>) -> Option<FixedResponse>,
) -> Option<Bytes> {
    routes::close(body, &|route| closed(&Held { route, meanwhile }))
}
