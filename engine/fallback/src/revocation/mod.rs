//! Closing of held resources: routes and filter chains that must no longer be served are closed in the acknowledged
//! resources.
//!
//! A hold keeps bytes, and bytes contain no information about deletions and revoked grants. Held bytes are therefore
//! decoded again. A route becomes a direct response if its object was deleted, if its object no longer claims the host,
//! if its backend is no longer granted, or if its object has named a guard since. The same applies while an outlier
//! keeps its older configuration, and while all other Envoys wait for the Envoy that tries new content; `meanwhile.rs`
//! lists the exceptions. If Envoy refuses even that form, the whole route configuration gives every request the same
//! response. In held listeners, filter chains with weaker requirements than the desired ones are closed.

mod held;
mod meanwhile;
mod secured;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::settings::body_for;
use holdfast_envoy::encode::{names, route};
use holdfast_envoy::hold::Hold;
use holdfast_envoy::inspect::chains::{self, HeldChain};
use holdfast_envoy::inspect::hosts;
use holdfast_envoy::inspect::routes::{self, PublishedRoute};
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_envoy::model::{Action, FixedResponse, Route};
use holdfast_graph::ObjectKey;
use holdfast_translate::delegation::Delegated;
use holdfast_translate::route::{Rendered, RoutePlan};
use holdfast_xds::{Resource, ResourceType, Snapshot};

use self::held::{HeldConnections, HeldRoute};
use crate::context::scope_id::ScopeId;
use crate::context::step_inputs::StepInputs;
use crate::eligibility::served_now::why_not_now;
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
        self.close_unplaced(wanted, &mut closed);
        closed
    }

    /// Closes listeners that an Envoy keeps as they were, because its host lacks what the desired ones need, such as the
    /// port at a new address.
    fn close_unplaced(&self, wanted: &mut Snapshot, closed: &mut Waiting) {
        let unplaced = wanted.of(ResourceType::Listener).keys().cloned().collect::<Vec<_>>().into_iter();
        for name in unplaced.filter(|name| self.hold.unavailable.has_host_refusal(ResourceType::Listener, name)) {
            let held = self.hold.acknowledged(ResourceType::Listener, &name).cloned();
            let Some(instead) = held.and_then(|held| self.closed_listener(&held, false)) else { continue };
            closed.insert((ResourceType::Listener, name), instead.version);
            wanted.insert(ResourceType::Listener, Arc::new(instead));
        }
    }

    /// Closes, in the configuration of all other Envoys, everything that must no longer be served while one Envoy tries
    /// new content. Returns the closed forms.
    pub(crate) fn close_meanwhile(&self, everyone: &mut Snapshot) -> Waiting {
        let wanted = &self.configurations.wanted;
        let routes = everyone.of(ResourceType::Route).values();
        let differ = routes.filter(|held| wanted.get(ResourceType::Route, &held.name) != Some(held));
        let mut closed = Waiting::new();
        // A route that stays as it is then has backends as secure as wanted.
        let has_clusters = self.hold.has_acknowledged_all_clusters();
        for resource in differ.cloned().collect::<Vec<_>>() {
            let meanwhile = meanwhile::trying(self, ResourceType::Route, &resource.name);
            // What every Envoy is about to get need not be closed.
            let unlike = has_clusters.then(|| wanted.get(ResourceType::Route, &resource.name)).flatten();
            let unlike = unlike.and_then(|wanted| hosts::unlike(&resource, wanted));
            if unlike.is_some_and(|unlike| close(&unlike, meanwhile, |held| self.closed(held)).is_none()) {
                continue;
            }
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
        let must_close = |chain: &HeldChain<'_>| why_not_now(&HeldConnections { chain, meanwhile }).is_some();
        let body = chains::close(&held.body, desired.map(|desired| &desired.body[..]), must_close)?;
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
        let rendered = held.current(plan, &self.id.gateway)?;
        let replaced = plan.replaced.iter().any(|replaced| *replaced.section == *rendered.route.section);
        match &rendered.route.action {
            Action::Respond(response) if replaced => Some(response.clone()),
            _ => None,
        }
    }

    /// Checks whether a route must no longer be served, whatever the held bytes contain.
    fn must_close(&self, held: &Held<'_>) -> bool {
        let Some(owner) = names::object_of_route(held.route.name()) else { return false };
        let is_unusable = self.inputs.unusable.contains(&owner);
        !is_unusable && why_not_now(&HeldRoute { revocation: self, held, owner: &owner }).is_some()
    }
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

impl Held<'_> {
    /// Checks whether a place is that of the held route.
    fn is_at(&self, gateway: &ObjectKey, (other, table, host): &(ObjectKey, TableName, Host)) -> bool {
        let PublishedRoute { configuration, domain, .. } = *self.route;
        other == gateway && host.domain() == domain && names::route_configuration(table) == configuration
    }

    /// Returns the current form of the held route. A route below others has one name at several places, with other
    /// policies at each. A share is that of the same backend, which may have another index now.
    fn current<'p>(&self, plan: &'p RoutePlan, gateway: &ObjectKey) -> Option<&'p Arc<Rendered>> {
        let is_here = |of: &Delegated| of.places.iter().any(|place| self.is_at(gateway, place));
        let mut here = plan.routes.iter().filter(|rendered| rendered.delegated().is_none_or(is_here));
        let own = names::without_share(self.route.name());
        if own == self.route.name() {
            return here.find(|rendered| *rendered.route.name == *own);
        }
        let is_share = |rendered: &&Arc<Rendered>| {
            names::without_share(&rendered.route.name) == own && self.has_backends_of(&rendered.route)
        };
        let shares: Vec<_> = here.filter(is_share).collect();
        let same = shares.iter().find(|rendered| *rendered.route.name == *self.route.name());
        same.or(shares.first()).copied()
    }

    /// Checks whether a route forwards to the backends of the held route, or whether both forward to none.
    fn has_backends_of(&self, route: &Route) -> bool {
        let Action::Forward(forward) = &route.action else { return self.route.clusters().next().is_none() };
        let clusters: BTreeSet<String> = forward.backends.iter().map(route::cluster).collect();
        let mut held = self.route.clusters().peekable();
        held.peek().is_some() && held.all(|cluster| clusters.contains(cluster))
    }

    /// Returns the current routes with shares of the requests of the held route, or with all requests if the held route
    /// has a share of them.
    fn shares<'p>(&self, plan: &'p RoutePlan) -> impl Iterator<Item = &'p Arc<Rendered>> {
        let own = names::without_share(self.route.name());
        plan.routes.iter().filter(move |rendered| names::without_share(&rendered.route.name) == own)
    }
}

/// Returns the route configuration with these routes closed; `None` if no route is to be closed.
fn close(
    body: &[u8],
    meanwhile: Option<&Trying>,
    closed: impl Fn(&Held<'_>) -> Option<FixedResponse>,
) -> Option<Bytes> {
    routes::close(body, &|route| closed(&Held { route, meanwhile }))
}
