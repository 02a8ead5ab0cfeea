//! The policies of routes below HTTPRoutes that delegate to them: each way to a rule has other ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::encode::names;
use holdfast_graph::ObjectKey;
use holdfast_translate::precedence::merge::Origins;
use holdfast_translate::route::RoutePlan;

use crate::engine::Engine;

/// The policies that set each field of a route.
pub type PoliciesByField = BTreeMap<String, Vec<String>>;

/// The position of a route in a route configuration.
#[derive(Clone, Copy, Debug)]
pub struct RoutePosition<'a> {
    /// `namespace/name` of the Gateway.
    pub gateway: &'a str,
    /// The name of the route configuration.
    pub route_configuration: &'a str,
    /// The domain of the virtual host.
    pub domain: &'a str,
    /// The name of the route.
    pub route: &'a str,
}

/// The plans of routes to which other HTTPRoutes delegate, as each Gateway serves them.
#[derive(Debug, Default)]
pub struct DelegatedRoutes(BTreeMap<ObjectKey, BTreeMap<Arc<str>, Arc<RoutePlan>>>);

impl DelegatedRoutes {
    /// Returns the routes to which other HTTPRoutes delegate.
    pub fn of(engine: &Engine) -> Self {
        let varied = engine.varied();
        let mut all = Self::default();
        for key in engine.translator.routes().into_keys() {
            let Some(desired) = engine.translator.route(key) else { continue };
            let served = varied.iter().filter_map(|(gateway, scope)| {
                let plan = engine.translator.served_route(&scope.id.fleet, key)?;
                Some((*gateway, plan))
            });
            let mut by_gateway: BTreeMap<&ObjectKey, &Arc<RoutePlan>> =
                desired.gateways().into_iter().map(|gateway| (gateway, desired)).collect();
            by_gateway.extend(served);
            by_gateway.retain(|_, plan| is_below(plan));
            if !by_gateway.is_empty() {
                let plans = by_gateway.into_iter();
                let plans = plans.map(|(gateway, plan)| (gateway.namespaced_name().into(), plan.clone()));
                all.0.insert(key.clone(), plans.collect());
            }
        }
        all
    }

    /// Returns the routes that are served below an HTTPRoute, at any Gateway.
    pub fn below(&self, above: &ObjectKey) -> BTreeSet<ObjectKey> {
        let is_below = |plan: &Arc<RoutePlan>| {
            let mut delegated = plan.routes.iter().filter_map(|rendered| rendered.delegated());
            delegated.any(|of| of.chain.iter().any(|(key, _)| key == above))
        };
        let below = self.0.iter().filter(|(_, plans)| plans.values().any(is_below));
        below.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the policies of a route; `None` if no HTTPRoute delegates to the object at the Gateway.
    pub fn policies_at(&self, object: &ObjectKey, at: RoutePosition<'_>) -> Option<PoliciesByField> {
        let plan = self.0.get(object)?.get(at.gateway)?;
        let served = plan.routes.iter().filter(|rendered| *rendered.route.name == *at.route);
        let mut here = served.filter_map(|rendered| rendered.delegated()).filter(|of| {
            of.places.iter().any(|(gateway, table, host)| {
                gateway.namespaced_name() == *at.gateway
                    && names::route_configuration(table) == at.route_configuration
                    && host.domain() == at.domain
            })
        });
        Some(here.next().map(|of| policies_of(&of.policies.1)).unwrap_or_default())
    }
}

/// Returns whether the routes of a plan are below other HTTPRoutes.
pub(super) fn is_below(plan: &RoutePlan) -> bool {
    plan.routes.iter().any(|rendered| rendered.delegated().is_some())
}

/// Returns the origins of the fields of each rule that has policies, by the rule and the rules that delegate to it, the
/// nearest first: `rules[0]/below/shop/top/1`.
pub(super) fn by_way(plan: &RoutePlan) -> BTreeMap<String, &Origins> {
    let below = plan.routes.iter().filter_map(|rendered| Some((rendered, rendered.delegated()?)));
    let with_policies = below.filter(|(_, of)| !of.policies.0.is_empty());
    let named = with_policies.map(|(rendered, of)| {
        let ways = of.chain.iter().rev();
        let way = ways
            .fold(rendered.route.section.to_string(), |way, (above, rule)| names::delegated_route(&way, above, *rule));
        (way, &of.policies.1)
    });
    named.collect()
}

/// Returns the names of the policies that set each field.
pub(super) fn policies_of(origins: &Origins) -> PoliciesByField {
    let of = |keys: &[ObjectKey]| keys.iter().map(ToString::to_string).collect();
    origins.iter().map(|(field, keys)| ((*field).to_owned(), of(keys))).collect()
}
