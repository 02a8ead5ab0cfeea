//! Routes below an earlier version of an HTTPRoute: the condition at that HTTPRoute, and the parents of a route that only
//! the earlier version selects.
//!
//! References that cannot be read select no route. The desired plan of a route that they may select has no parent, but
//! the route is served, and its owner needs the reason at the HTTPRoute above.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::fault::Fault;
use holdfast_api::section::{ObjectSection, unit};
use holdfast_api::status::{Condition, FALLBACK_CONDITION};
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::claims::Parent;
use holdfast_translate::route::{Rendered, RoutePlan};

use crate::engine::Engine;
use crate::report::conditions::earlier_version;

/// The field of faults about all HTTPRoutes above a route.
const PARENTS: &str = "spec.parentRefs";
/// The reason of a route that an HTTPRoute above gives no requests.
const NO_PARENT: &str = "NoMatchingParent";
/// The reasons of reports that a route has no parent, or not this one.
const WITHOUT_PARENT: [&str; 2] = ["NoParents", NO_PARENT];
/// The start of the names of fields that can be meant as references.
const REFERENCES: &str = "backendRef";

/// The Gateways that serve an HTTPRoute in an earlier version.
pub(crate) struct EarlierAbove<'a> {
    engine: &'a Engine,
    scopes: BTreeMap<&'a ObjectKey, &'a FallbackScope>,
}

/// By Gateway: the rules below earlier versions that no request reaches, each with the objects that get its requests.
pub(crate) type OvertakenBelow<'a> = BTreeMap<&'a ObjectKey, BTreeMap<Node, BTreeSet<ObjectKey>>>;

impl<'a> EarlierAbove<'a> {
    /// Returns the Gateways with an HTTPRoute in an earlier version.
    pub(crate) fn of(engine: &'a Engine) -> Self {
        let mut scopes = engine.varied();
        let has_route = |scope: &FallbackScope| {
            let mut earlier = scope.derived.overlay.objects.values();
            earlier.any(|object| matches!(object.body, Body::HttpRoute(_)))
        };
        scopes.retain(|_, scope| has_route(scope));
        Self { engine, scopes }
    }

    /// Returns the rules below earlier versions that no request reaches.
    pub(crate) fn overtaken(&self) -> OvertakenBelow<'a> {
        let translator = &self.engine.translator;
        let of = |scope: &FallbackScope| {
            let fleet = &scope.id.fleet;
            let routes = translator.reported_routes(&BTreeSet::from([fleet.clone()]));
            let served = routes.into_keys().filter_map(|key| translator.served_route(fleet, key));
            let all = served.flat_map(|plan| &plan.routes).filter(|rendered| is_below_earlier(rendered, scope));
            let parts: BTreeSet<Node> = all.map(|rendered| rendered.node()).collect();
            translator.overtaken_parts(fleet, &parts)
        };
        self.scopes.iter().map(|(gateway, scope)| (*gateway, of(scope))).collect()
    }

    /// Returns the desired plan of a route with the HTTPRoutes as parents that select it only in their earlier versions;
    /// `None` if there are none.
    pub(crate) fn plan_of(&self, key: &ObjectKey, desired: &RoutePlan) -> Option<RoutePlan> {
        let parents: Vec<Parent> = self.parents_of(key, desired).into_iter().map(|(parent, _)| parent).collect();
        (!parents.is_empty()).then(|| RoutePlan { parents, ..desired.clone() })
    }

    /// Gives the reports that a route has no parent the reason, where an HTTPRoute selects it in its earlier version.
    pub(crate) fn explain(&self, faults: &mut [Fault]) {
        let is_meant = |fault: &&mut Fault| WITHOUT_PARENT.contains(&fault.reason) && fault.field.starts_with(PARENTS);
        for fault in faults.iter_mut().filter(|_| !self.scopes.is_empty()).filter(is_meant) {
            let Some(desired) = self.engine.translator.route(&fault.object) else { continue };
            let parents = self.parents_of(&fault.object, desired);
            let own = parents.iter().find(|(parent, _)| *fault.field == *PARENTS || parent.field() == *fault.field);
            if let Some((parent, above)) = own {
                let message = parent.accepted.message.clone();
                *fault = Fault::new(&fault.object, fault.class, fault.field.clone(), NO_PARENT, message)
                    .caused_by(Some(above.clone()));
            }
        }
    }

    /// Returns the parents of a route without any, where it is served below an earlier version of an HTTPRoute with
    /// references that cannot be read now; each with this HTTPRoute.
    fn parents_of(&self, key: &ObjectKey, desired: &RoutePlan) -> Vec<(Parent, ObjectKey)> {
        let mut found = Vec::new();
        for (gateway, scope) in self.scopes.iter().filter(|_| desired.parents.is_empty()) {
            let Some(served) = self.engine.translator.served_route(&scope.id.fleet, key) else { continue };
            for parent in served.parents.iter().filter(|parent| parent.gateway == **gateway) {
                let above = above(key, served, parent);
                let Some((above, why)) = above.into_iter().find_map(|above| self.unreadable(above, scope)) else {
                    continue;
                };
                let (name, of) = (above.namespaced_name(), scope.derived.served.get(above));
                let generation = of.map(|(generation, _)| format!(" {generation}")).unwrap_or_default();
                let message = format!(
                    "the routes that HTTPRoute {name} selects cannot be read{why}: its current version gives this route \
                     no requests. Until it is edited, the route is served below its generation{generation}, the last \
                     valid version"
                );
                let accepted = Condition::new("Accepted", false, NO_PARENT, message);
                found.push((Parent { accepted, attachments: Vec::new(), ..parent.clone() }, above.clone()));
            }
        }
        found
    }

    /// Returns an HTTPRoute that is served in an earlier version because references of it cannot be read, with the reason
    /// in parentheses.
    fn unreadable<'k>(&self, above: &'k ObjectKey, scope: &FallbackScope) -> Option<(&'k ObjectKey, String)> {
        scope.derived.overlay.objects.get(above)?;
        let lost: BTreeSet<String> = match self.engine.objects().get(above).map(|object| &object.body) {
            Some(Body::HttpRoute(route)) => {
                let lost = route.rules.iter().enumerate().filter(|(_, entry)| entry.may_have_more_backends());
                lost.map(|(index, _)| ObjectSection::Rule(index).to_string()).collect()
            }
            _ => BTreeSet::new(),
        };
        let is_unreadable = self.engine.is_unreadable(above);
        let faults = self.engine.decoding_faults(above).filter(|fault| fault.is_error());
        let own = faults.filter(|fault| is_unreadable || lost.contains(unit(&fault.field)));
        let why = own.min_by_key(|fault| !fault.field.contains(REFERENCES));
        let why = why.map(|fault| format!(" ({})", fault.sentence())).unwrap_or_default();
        (is_unreadable || !lost.is_empty()).then_some((above, why))
    }

    /// Returns the condition `holdfast.dev/Fallback` of a route that is served below an earlier version of an HTTPRoute.
    pub(crate) fn condition(
        &self,
        (report, overtaken): (&FallbackReport, &OvertakenBelow<'_>),
        key: &ObjectKey,
        (served, desired): (&RoutePlan, &Parent),
    ) -> Option<Condition> {
        let above = above(key, served, desired);
        let earlier = report.backfilled_objects.iter().filter(|known| above.iter().any(|above| known.object.is(above)));
        let earlier: BTreeSet<String> = earlier.map(earlier_version).collect();
        if earlier.is_empty() {
            return None;
        }
        let below = format!("below {}", earlier.into_iter().collect::<Vec<_>>().join(" and "));
        let overtaken = overtaken.get(&desired.gateway);
        let parts = here(key, served, desired).map(|rendered| rendered.node());
        let others: Option<Vec<&BTreeSet<ObjectKey>>> = parts.map(|part| overtaken?.get(&part)).collect();
        let message = match others {
            Some(others) => {
                let others: BTreeSet<String> = others
                    .into_iter()
                    .flatten()
                    .map(|other| format!("{} {}", other.kind, other.namespaced_name()))
                    .collect();
                format!(
                    "no request reaches the route {below}: clients get the responses of {} instead",
                    others.into_iter().collect::<Vec<_>>().join(", ")
                )
            }
            None => format!("served {below}"),
        };
        Some(Condition::new(FALLBACK_CONDITION, true, "Backfilled", message))
    }
}

/// Returns whether a rule is served below an HTTPRoute in an earlier version.
fn is_below_earlier(rendered: &Rendered, scope: &FallbackScope) -> bool {
    let chain = rendered.delegated().into_iter().flat_map(|of| &of.chain);
    chain.into_iter().any(|(above, _)| scope.derived.overlay.objects.contains_key(above))
}

/// Returns the rules of a route that are served below a parent.
fn here<'p>(key: &'p ObjectKey, served: &'p RoutePlan, parent: &'p Parent) -> impl Iterator<Item = &'p Arc<Rendered>> {
    served.routes.iter().filter(move |rendered| {
        rendered.delegated().is_some_and(|of| {
            of.chain.last().is_some_and(|(above, _)| parent.is_above(above, &key.namespace))
                && of.places.iter().any(|(gateway, ..)| *gateway == parent.gateway)
        })
    })
}

/// Returns the HTTPRoutes above the rules of a route that are served below a parent.
fn above<'p>(key: &'p ObjectKey, served: &'p RoutePlan, parent: &'p Parent) -> BTreeSet<&'p ObjectKey> {
    let delegated = here(key, served, parent).filter_map(|rendered| rendered.delegated());
    delegated.flat_map(|of| &of.chain).map(|(above, _)| above).collect()
}
