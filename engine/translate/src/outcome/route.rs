//! The outcome of a route object: an HTTPRoute, a GRPCRoute, or a root HTTPProxy with its includes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Age;
use holdfast_api::status::Condition;
use holdfast_envoy::encode;
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::features::remote::Remote;
use holdfast_envoy::features::stream::Stream;
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_envoy::model::{Action, BackendCluster, HostSettings, Route, ServicePort};
use holdfast_graph::{Content, Node, ObjectKey, SortedSet};
use holdfast_xds::Version;

use super::claims::{self, Parent};
use super::delegation::Delegated;
use super::finding::Finding;
use super::listener::Traffic;
use super::setting::PolicySetting;
use crate::precedence::merge::Origins as PolicyOrigins;

/// A route with its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The route.
    pub route: Route,
    /// The bytes and their hash; unset where they depend on the listener.
    bytes: Option<(Bytes, Content)>,
    /// The route without policy settings; unset where no policy applies.
    bare: Option<Arc<Route>>,
    /// The policy fields that apply to the route.
    policy_settings: Arc<BTreeSet<PolicySetting>>,
    /// The origin of a route to which another HTTPRoute delegates; unset for a route at every place of its plan.
    delegated: Option<Arc<Delegated>>,
}

impl Rendered {
    pub(crate) fn new(route: Route) -> Self {
        let same_everywhere = !matches!(route.action, Action::Redirect(_)) && route.secure_port.is_none();
        let nowhere = ListenerContext { https: false, port: 0 };
        let bytes = same_everywhere.then(|| hashed(&route, nowhere));
        Self { route, bytes, bare: None, policy_settings: Arc::default(), delegated: None }
    }

    /// Creates a route with policy settings; `bare` is the route without them.
    pub(crate) fn with_policies(route: Route, bare: Arc<Route>, policy_settings: Arc<BTreeSet<PolicySetting>>) -> Self {
        let has_policies = !policy_settings.is_empty();
        Self { bare: has_policies.then_some(bare), policy_settings, ..Self::new(route) }
    }

    /// Returns the route as one to which another HTTPRoute delegates.
    pub(crate) fn below(self, delegated: Arc<Delegated>) -> Self {
        Self { delegated: Some(delegated), ..self }
    }

    /// Returns what the route has from the HTTPRoutes that delegate to it.
    pub fn delegated(&self) -> Option<&Delegated> {
        self.delegated.as_deref()
    }

    /// Returns whether the route is at this place of its plan.
    pub(crate) fn is_at(&self, place: &RoutePlace) -> bool {
        self.delegated.as_ref().is_none_or(|delegated| delegated.places.contains(place))
    }

    /// Returns the policy fields that apply to the route.
    pub fn policy_settings(&self) -> &Arc<BTreeSet<PolicySetting>> {
        &self.policy_settings
    }

    /// Returns the route without policy settings; the route itself where no policy applies.
    pub fn bare(&self) -> &Route {
        self.bare.as_deref().unwrap_or(&self.route)
    }

    /// Returns the rendered route without policy settings.
    pub fn without_policies(&self) -> Self {
        Self::new(self.bare().clone())
    }

    /// Returns the content of the route without policy settings.
    pub fn bare_content(&self, listener: ListenerContext) -> Content {
        match &self.bare {
            Some(bare) => hashed(bare, listener).1,
            None => self.encoded(listener).1,
        }
    }

    /// Returns the bytes for a listener, and their hash.
    pub fn encoded(&self, listener: ListenerContext) -> (Bytes, Content) {
        self.bytes.clone().unwrap_or_else(|| hashed(&self.route, listener))
    }

    /// Returns the unit of the object that the route comes from.
    pub fn node(&self) -> Node {
        Node::section(self.route.key.clone(), self.route.section.clone())
    }
}

fn hashed(route: &Route, listener: ListenerContext) -> (Bytes, Content) {
    let bytes: Bytes = encode::route::encode(route, listener).into();
    let content = Content(*Version::of(&bytes).as_bytes());
    (bytes, content)
}

/// A route of connections or datagrams: the only rule of a TCPRoute, TLSRoute or UDPRoute.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamRoute {
    /// The unit of the object.
    pub node: Node,
    /// The age of the object.
    pub age: Age,
    /// The destination of connections that Envoy reads in plain text, without TLS or after its termination; unset where
    /// they are closed.
    pub plain: Option<Arc<Stream>>,
    /// The destination of connections with TLS that backends terminate; unset where they are closed.
    pub passthrough: Option<Arc<Stream>>,
    /// The destination of datagrams; unset where they are dropped.
    pub datagrams: Option<Arc<Stream>>,
}

impl StreamRoute {
    /// Returns the destination of the connections of a listener; `None` where they are closed.
    pub fn to(&self, traffic: Traffic) -> Option<&Arc<Stream>> {
        match traffic {
            Traffic::Requests => None,
            Traffic::Tcp | Traffic::Terminated => self.plain.as_ref(),
            Traffic::Passthrough => self.passthrough.as_ref(),
            Traffic::Datagrams => self.datagrams.as_ref(),
        }
    }

    /// Returns the backends.
    pub fn backends(&self) -> impl Iterator<Item = &BackendCluster> {
        let streams = self.plain.iter().chain(&self.passthrough).chain(&self.datagrams);
        streams.flat_map(|stream| &stream.backends).filter_map(|(backend, _)| backend.as_ref())
    }

    /// Returns the clusters that it needs.
    pub fn uses(&self) -> BTreeSet<Remote> {
        self.backends().cloned().map(Remote::Backend).collect()
    }
}

/// Places of routes: Gateway, table, host.
pub type Places = SortedSet<RoutePlace>;

/// A place of routes: Gateway, table, host.
pub(crate) type RoutePlace = (ObjectKey, TableName, Host);

/// The outcome of a route object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoutePlan {
    /// The parents, after the resolution of conflicts.
    pub parents: Vec<Parent>,
    /// The routes.
    pub routes: Vec<Arc<Rendered>>,
    /// For a route of connections: where they are forwarded.
    pub stream: Option<Arc<StreamRoute>>,
    /// The places of the routes.
    pub places: Places,
    /// The places among them that only an earlier version of the object claims.
    pub lent: Places,
    /// The backends that the routes use.
    pub backends: SortedSet<BackendCluster>,
    /// The faults.
    pub faults: Vec<Fault>,
    /// Rules that are replaced by a direct response, or left out.
    pub replaced: Vec<Replaced>,
    /// For a route below others: the rules of these with their indexes, the one that is attached to a Gateway first, below
    /// which each replacement is served.
    pub replaced_below: BTreeMap<Replaced, BTreeSet<Vec<(ObjectKey, usize)>>>,
    /// Conditions for every parent: `ResolvedRefs`, and those that report broken rules.
    pub conditions: Vec<Condition>,
    /// Whether all rules are broken.
    pub wholly_invalid: bool,
    /// The Gateways at which each served rule is served as written below some HTTPRoute that delegates to it. What
    /// replaces it below another one there is then not its own fault.
    pub whole_below: BTreeSet<ObjectKey>,
    /// Policies that are attached to the object or its rules, or that rules name.
    pub policies: BTreeSet<ObjectKey>,
    /// The policies of each rule, and the origin of each merged field.
    pub merged: BTreeMap<Arc<str>, (BTreeSet<ObjectKey>, PolicyOrigins)>,
    /// The settings of its hosts as a whole.
    pub host: HostSettings,
    /// For a root HTTPProxy: the HTTPProxies that take part in its host.
    pub members: BTreeSet<ObjectKey>,
    /// For a root HTTPProxy: the findings about these HTTPProxies.
    pub findings: Vec<Finding>,
    /// For an HTTPProxy's part of the plans of its roots: what it adds to the routes of its host and its includes.
    pub additions: BTreeSet<PolicySetting>,
}

impl RoutePlan {
    /// Returns the plan without spare room in its lists, the form in which it is kept.
    pub(crate) fn trimmed(mut self) -> Self {
        claims::trim(&mut self.parents);
        self.routes.shrink_to_fit();
        self.faults.shrink_to_fit();
        self.replaced.shrink_to_fit();
        self.conditions.shrink_to_fit();
        self.findings.shrink_to_fit();
        self
    }

    /// Returns the routes at a place, and whether only an earlier version claims the place.
    pub(crate) fn at<'p>(&'p self, place: &'p RoutePlace) -> impl Iterator<Item = (&'p Arc<Rendered>, bool)> {
        let lent = self.lent.contains(place);
        self.routes.iter().filter(move |rendered| rendered.is_at(place)).map(move |rendered| (rendered, lent))
    }

    /// Returns the Gateways with a place of the route.
    pub fn gateways(&self) -> BTreeSet<&ObjectKey> {
        self.places.iter().map(|(gateway, _, _)| gateway).collect()
    }

    /// Returns the Gateways with a place of the route, and those that its parents name.
    pub fn concerns(&self) -> BTreeSet<&ObjectKey> {
        self.gateways().into_iter().chain(self.parents.iter().map(|parent| &parent.gateway)).collect()
    }

    /// Returns whether a replacement is served below a parent. At a Gateway, each one is.
    pub fn is_replaced_at(&self, replaced: &Replaced, parent: &Parent) -> bool {
        let Some(ways) = self.replaced_below.get(replaced).filter(|_| parent.is_route()) else { return true };
        let is_here = |(above, _): &(ObjectKey, usize)| parent.is_above(above, &replaced.object.namespace);
        ways.iter().any(|way| way.last().is_some_and(is_here))
    }

    /// Returns the external services that the filters of its routes call.
    pub fn remotes(&self) -> BTreeSet<Remote> {
        let guarded = self.routes.iter().map(|rendered| &*rendered.route.guards).filter(|guards| !guards.is_empty());
        let filters: BTreeSet<ChainFilter> = guarded.flat_map(Guards::filters).collect();
        filters.iter().flat_map(ChainFilter::remotes).cloned().collect()
    }

    /// Returns the client certificates that are presented to backends.
    pub fn shown(&self) -> BTreeSet<ObjectKey> {
        let remotes = self.remotes();
        let of_remotes = remotes.iter().filter_map(Remote::client);
        self.backends.iter().filter_map(BackendCluster::client).chain(of_remotes).cloned().collect()
    }

    /// Returns the ports of Services with endpoints that the route needs.
    pub fn services(&self) -> BTreeSet<ServicePort> {
        let remotes = self.remotes();
        let of_remotes = remotes.iter().flat_map(Remote::services);
        self.backends.iter().filter_map(BackendCluster::service).chain(of_remotes).cloned().collect()
    }
}

/// The replacement of a rule, for status, metrics and diagnostics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replaced {
    /// The object.
    pub object: ObjectKey,
    /// The section of the object, as in `rules[1]`.
    pub section: String,
    /// The status that requests get; `None` where the rule is left out.
    pub response: Option<u16>,
    /// The class of the fault.
    pub class: Class,
    /// The message of the first fault.
    pub message: String,
    /// The policy that cannot be enforced, if a policy is the reason.
    pub policy: Option<ObjectKey>,
    /// Whether the reason is that a backend does not exist or may not be used, or that the part has none.
    pub lacks_backend: bool,
}
