//! Delegation between HTTPRoutes, as data: which routes a reference selects, and where a route is served below the
//! routes that delegate to it.
//!
//! The code of `gateway_api/delegation/` decides; nothing here reads objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::gateway::route::{GatewayRoute, RuleEntry};
use holdfast_api::apis::kinds;
use holdfast_envoy::model::{Match, Precedence};
use holdfast_graph::ObjectKey;

use super::claims::Parent;
use super::route::Places;
use crate::precedence::merge::Origins as PolicyOrigins;

/// The group of references that select routes by their label.
const LABEL_GROUP: &str = "delegation.kgateway.dev";
/// The kind of references that select routes by their label.
const LABEL_KIND: &str = "label";
/// The label of routes that references select.
pub(crate) const LABEL: &str = "delegation.kgateway.dev/label";
/// The namespace of a reference by label that selects routes of all namespaces.
const ALL_NAMESPACES: &str = "all";

/// The reason of reports about a route that a rule selects and that cannot be below it.
pub(crate) const REFUSED: &str = "DelegationRefused";
/// The reason of reports about routes that delegate to each other in a cycle.
pub(crate) const CYCLE: &str = "DelegationCycle";
/// The reason of reports about a route with too many routes above it, one above the other.
pub(crate) const TOO_DEEP: &str = "DelegationTooDeep";
/// The reason of reports about a route with too many routes above it.
pub(crate) const TOO_MANY: &str = "TooManyDelegations";

/// The HTTPRoutes that a backendRef delegates to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteSelection {
    /// One route, by its name.
    Named(ObjectKey),
    /// All routes of a namespace.
    Namespace(Arc<str>),
    /// All routes with this value of the label, of one namespace or of all.
    Labelled {
        /// The value.
        value: Arc<str>,
        /// The namespace; unset for all.
        namespace: Option<Arc<str>>,
    },
}

impl RouteSelection {
    /// Returns the routes that a reference of an HTTPRoute in this namespace delegates to; `None` if it is no delegation.
    pub fn of(reference: &BackendRef, namespace: &Arc<str>) -> Option<Self> {
        let namespace = reference.namespace.as_ref().unwrap_or(namespace);
        match (reference.group.as_deref()?, reference.kind.as_deref()?) {
            (GROUP, kinds::HTTP_ROUTE) => Some(match &*reference.name {
                "" | "*" => Self::Namespace(namespace.clone()),
                name => Self::Named(ObjectKey::new(GROUP, kinds::HTTP_ROUTE, &**namespace, name)),
            }),
            (LABEL_GROUP, LABEL_KIND) => {
                let namespace = Some(namespace.clone()).filter(|namespace| **namespace != *ALL_NAMESPACES);
                Some(Self::Labelled { value: reference.name.clone(), namespace })
            }
            _ => None,
        }
    }

    /// Returns every selection that contains a route.
    pub fn containing(route: &ObjectKey, labels: &BTreeMap<String, String>) -> Vec<Self> {
        let namespace: Arc<str> = route.namespace.clone();
        let mut all = vec![Self::Named(route.clone()), Self::Namespace(namespace)];
        all.extend(Self::by_label(route, labels));
        all
    }

    /// Returns every selection that contains a route because of its label.
    pub(crate) fn by_label(route: &ObjectKey, labels: &BTreeMap<String, String>) -> Vec<Self> {
        let Some(value) = labels.get(LABEL) else { return Vec::new() };
        let value: Arc<str> = value.as_str().into();
        let of = |namespace| Self::Labelled { value: value.clone(), namespace };
        vec![of(Some(route.namespace.clone())), of(None)]
    }

    /// Returns the selection in words.
    pub fn words(&self) -> String {
        match self {
            Self::Named(key) => format!("HTTPRoute {}", key.namespaced_name()),
            Self::Namespace(namespace) => format!("HTTPRoutes of namespace {namespace}"),
            Self::Labelled { value, namespace: Some(namespace) } => {
                format!("HTTPRoutes of namespace {namespace} with the label {LABEL}={value}")
            }
            Self::Labelled { value, namespace: None } => format!("HTTPRoutes with the label {LABEL}={value}"),
        }
    }
}

/// A match of a rule that delegates to a route, below everything that is attached to a Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteDelegation {
    /// The delegating routes with the index of the rule, the one that is attached to a Gateway first.
    pub chain: Vec<(ObjectKey, usize)>,
    /// The match of the last of these rules: only requests of it are served.
    pub within: Arc<Match>,
    /// The matches of other rules of that route that come before this match: they keep their requests.
    pub kept: Arc<[Arc<Match>]>,
    /// The position of this match among others.
    pub precedence: Precedence,
    /// Whether no match of the route is within this one. Such a delegation is only reported.
    pub is_empty: bool,
    /// The attachments of the first of these routes, before the resolution of conflicts.
    pub parents: Vec<Parent>,
}

/// What a served route has from the routes that delegate to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Delegated {
    /// The delegating routes with the index of the rule, the one that is attached to a Gateway first.
    pub chain: Vec<(ObjectKey, usize)>,
    /// The only places of the route.
    pub places: Places,
    /// The policies of the route, with those that it inherits, and the origin of each merged field.
    pub policies: (BTreeSet<ObjectKey>, PolicyOrigins),
}

/// Returns the selections that the rules of a route delegate to. A rule that cannot be read has those of its readable
/// references.
pub fn selections<'r>(
    route: &'r GatewayRoute<HttpRule>,
    namespace: &'r Arc<str>,
) -> impl Iterator<Item = RouteSelection> + use<'r> {
    route.rules.iter().flat_map(RuleEntry::backends).filter_map(|reference| RouteSelection::of(reference, namespace))
}
