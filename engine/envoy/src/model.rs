//! The served configuration, in Envoy's structure but without Envoy's types: routes with matches and actions, backends,
//! and the origins of each.
//!
//! Translation creates the model, and `encode` encodes it. Nothing here depends on Kubernetes kinds or Envoy messages.

pub mod certificates;
pub mod containment;
pub mod placeholder;
pub mod port;
pub mod sparse;
pub mod table;

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use holdfast_api::object::Age;
use holdfast_graph::{ObjectKey, Origins};
use placeholder::Placeholder;
use port::Transport;
use sparse::Sparse;

use crate::features::body_format::ResponseBodyFormat;
use crate::features::chain::ChainFilter;
use crate::features::cookies::CookieRewrite;
use crate::features::cors::CorsSettings;
use crate::features::filters::Filters;
use crate::features::forward_proxy::Anywhere;
use crate::features::function::Function;
use crate::features::guards::Guards;
use crate::features::hash::Hashed;
use crate::features::headers::HeaderEdits;
use crate::features::hosts::Hosts;
use crate::features::internal_redirect::FollowedRedirects;
use crate::features::ip_filter::IpFilter;
use crate::features::local_rate_limit::LocalLimit;
use crate::features::mirror::Mirror;
use crate::features::redirect::{ListenerContext, Redirect};
use crate::features::remote::Remote;
use crate::features::retry::RouteRetryPolicy;
use crate::features::rewrite::Rewrite;
use crate::features::session::PersistentSession;
use crate::features::share::RouteShare;
use crate::features::timeout::RouteTimeouts;
use crate::features::tracing::TracingSettings;
use crate::features::upstream::{Tuned, UpstreamTls};

/// One route of a virtual host: one match of one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The object that defines the route.
    pub key: ObjectKey,
    /// The unique name, derived from the object's identity.
    pub name: Arc<str>,
    /// Its position among the routes of its host.
    pub precedence: Precedence,
    /// The requests that it matches.
    pub matches: Match,
    /// The broken match that the route replaces, if it is a placeholder.
    pub placeholder: Option<Placeholder>,
    /// The share of the requests of its match that the route gets; all where unset.
    pub share: Option<RouteShare>,
    /// The action on matching requests.
    pub action: Action,
    /// Header changes of requests.
    pub request_headers: Sparse<HeaderEdits>,
    /// Header changes of responses.
    pub response_headers: Sparse<HeaderEdits>,
    /// The CORS policy.
    pub cors: Option<Box<CorsSettings>>,
    /// The allow or deny list of client addresses.
    pub ip_filter: Option<IpFilter>,
    /// The local rate limit.
    pub rate_limit: Option<Box<LocalLimit>>,
    /// Rewriting of cookies that backends set.
    pub cookies: Vec<CookieRewrite>,
    /// Settings that need a filter in the chain: external authorization, JWT authentication, global rate limits and
    /// others.
    pub guards: Sparse<Guards>,
    /// Filter settings of policies.
    pub filters: Filters,
    /// Prefix of the route's statistics; no statistics where unset.
    pub stat_prefix: Option<Arc<str>>,
    /// Tracing settings.
    pub tracing: Option<TracingSettings>,
    /// The HTTPS port, as clients know it, that requests without TLS are redirected to; no redirect where unset.
    pub secure_port: Option<u16>,
    /// The unit of the object that the route comes from, as in `rules[1]`.
    pub section: Arc<str>,
    /// The objects that the route comes from.
    pub origins: Origins,
}

impl Route {
    /// Creates a route with the given action and no further settings.
    pub fn bare(
        key: ObjectKey,
        name: Arc<str>,
        precedence: Precedence,
        matches: Match,
        action: Action,
        section: Arc<str>,
    ) -> Self {
        Self {
            origins: Origins::one(key.clone()),
            key,
            name,
            precedence,
            matches,
            placeholder: None,
            share: None,
            action,
            request_headers: Sparse::default(),
            response_headers: Sparse::default(),
            cors: None,
            ip_filter: None,
            rate_limit: None,
            cookies: Vec::new(),
            guards: Sparse::default(),
            filters: Filters::new(),
            stat_prefix: None,
            tracing: None,
            secure_port: None,
            section,
        }
    }

    /// Returns the backends that receive requests or mirrored requests.
    pub fn backends(&self) -> impl Iterator<Item = &BackendCluster> {
        let forward = if let Action::Forward(forward) = &self.action { Some(forward) } else { None };
        forward.into_iter().flat_map(|forward| {
            let named = forward.backends.iter().filter_map(|backend| backend.backend.as_ref());
            named.chain(forward.mirrors.iter().map(|mirror| &mirror.backend))
        })
    }

    /// Returns the clusters that the route needs: those of its backends, and of services that its filters call.
    pub fn uses(&self) -> BTreeSet<Remote> {
        let filters = if self.guards.is_empty() { Vec::new() } else { self.guards.filters() };
        let remotes = filters.iter().flat_map(ChainFilter::remotes).cloned();
        self.backends().cloned().map(Remote::Backend).chain(remotes).collect()
    }

    /// Returns whether the route is a plain direct response to a literal path. Such a route contains nothing that an
    /// Envoy could refuse.
    pub fn is_plain_answer(&self) -> bool {
        let Match { path, method: _, headers, query, grpc: _ } = &self.matches;
        let literal = !matches!(path, PathMatch::Regex(_)) && headers.is_empty() && query.is_empty();
        let edits = [&self.request_headers, &self.response_headers];
        literal
            && matches!(&self.action, Action::Respond(response) if response.format.is_none())
            && edits.into_iter().all(|edits| edits.is_empty())
            && self.cors.is_none()
            && self.ip_filter.is_none()
            && self.rate_limit.is_none()
            && self.cookies.is_empty()
            && self.guards.is_empty()
            && self.filters.is_empty()
            && self.tracing.is_none()
    }

    /// Returns the port that requests at a listener are redirected to; `None` without a redirect.
    pub fn secure_port_at(&self, listener: ListenerContext) -> Option<u16> {
        self.secure_port.filter(|_| !listener.https)
    }

    /// Returns the guards at a listener; `None` where requests are only redirected to TLS.
    pub fn guards_at(&self, listener: ListenerContext) -> Option<&Guards> {
        Some(&*self.guards).filter(|_| self.secure_port_at(listener).is_none())
    }
}

/// Settings of a whole host, unless a route overrides them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSettings {
    /// The local rate limit of all routes together.
    pub rate_limit: Option<Box<LocalLimit>>,
    /// Filter settings of policies.
    pub filters: Filters,
    /// Settings that need a filter in the chain.
    pub guards: Sparse<Guards>,
}

/// The order of routes in a host, as Gateway API specifies it; the first match wins.
///
/// A route below a match of another object that delegates to it is at the place of that match, before the match itself.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#httproutematch>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precedence {
    /// Whether the route is in its host because of a claim of an earlier version; then routes with current claims come
    /// first.
    pub lent: bool,
    /// The matches of other objects that delegate to the route, the uppermost first; empty for most routes.
    pub above: Vec<Precedence>,
    /// Kind and length of the path match, or a position that was computed before.
    pub path: PathRank,
    /// Whether the route matches any method.
    pub any_method: bool,
    /// Number of header matches.
    pub headers: Reverse<usize>,
    /// Number of query parameter matches.
    pub query: Reverse<usize>,
    /// Whether the route is the placeholder of a broken match; then equal matches of other routes win.
    pub narrowed: bool,
    /// Age of the object; the older one wins.
    pub age: Age,
    /// Index of the rule in the object; the earlier one wins.
    pub rule: usize,
    /// Index of the match in the rule; the earlier one wins.
    pub entry: usize,
    /// Index of the backend of the route's share of the requests; 0 for a route with all requests of its match.
    pub share: usize,
    /// Kind of the object, so that no two routes compare as equal.
    pub kind: Arc<str>,
}

impl Precedence {
    /// Returns the position of a route below a match of another object that delegates to it.
    pub fn below(self, above: &Self) -> Self {
        let mut all = above.above.clone();
        all.push(Self { lent: false, above: Vec::new(), ..above.clone() });
        // What the object above has only because of an earlier version, the routes below it have only because of that.
        Self { lent: self.lent || above.lent, above: all, ..self }
    }

    /// Returns the position without what is above it.
    fn own(&self) -> impl Ord + '_ {
        let Self { lent: _, above: _, path, any_method, headers, query, narrowed, age, rule, entry, share, kind } =
            self;
        (path, any_method, headers, query, narrowed, age, rule, entry, share, kind)
    }

    /// Compares the positions of two routes, without regard to whether their claims are those of an earlier version.
    pub fn cmp_of_equal_claims(&self, other: &Self) -> Ordering {
        let levels = |one: &Self| one.above.len() + 1;
        let own = self.above.iter().chain([self]).map(Self::own);
        let others = other.above.iter().chain([other]).map(Self::own);
        let differing = own.zip(others).map(|(own, others)| own.cmp(&others)).find(|order| order.is_ne());
        // What is below a match comes before the match itself.
        differing.unwrap_or_else(|| levels(other).cmp(&levels(self)))
    }
}

impl Ord for Precedence {
    fn cmp(&self, other: &Self) -> Ordering {
        self.lent.cmp(&other.lent).then_with(|| self.cmp_of_equal_claims(other))
    }
}

impl PartialOrd for Precedence {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Rank of a path match; the smaller one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathRank {
    /// This position among the routes of the host, all of which come from one source that orders them itself.
    Placed(usize),
    /// A match of the whole path.
    Exact,
    /// A gRPC method match: number of characters of the service, then of the method.
    Grpc(Reverse<usize>, Reverse<usize>),
    /// A regular expression: number of characters.
    Regex(Reverse<usize>),
    /// A prefix: number of characters.
    Prefix(Reverse<usize>),
    /// After all other routes of the host.
    Last,
}

/// The conditions of a route on requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The path.
    pub path: PathMatch,
    /// The method; any where unset.
    pub method: Option<Arc<str>>,
    /// Headers that must all match.
    pub headers: Vec<NamedMatch>,
    /// Query parameters that must all match.
    pub query: Vec<NamedMatch>,
    /// Whether only gRPC calls match (by content type).
    pub grpc: bool,
}

impl Match {
    /// Returns a match of every request.
    pub fn any() -> Self {
        Self { path: PathMatch::Prefix("/".into()), method: None, headers: vec![], query: vec![], grpc: false }
    }
}

/// A path match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// The whole path is equal.
    Exact(Arc<str>),
    /// A prefix of whole segments: `/foo` matches `/foo` and `/foo/bar`, not `/foobar`.
    Prefix(Arc<str>),
    /// An RE2 expression matches the whole path.
    Regex(Arc<str>),
    /// The path begins with the text: prefixes of HTTPProxies, and the usable part of a regular expression that does
    /// not compile.
    Text(Arc<str>),
}

/// A match of a header or query parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedMatch {
    /// The name.
    pub name: Arc<str>,
    /// The condition on the value.
    pub value: ValueMatch,
    /// Whether the match is inverted; headers only.
    pub inverted: bool,
    /// Whether an absent header counts as an empty one.
    pub missing_is_empty: bool,
}

impl NamedMatch {
    /// Creates a match that is not inverted.
    pub fn new(name: impl Into<Arc<str>>, value: ValueMatch) -> Self {
        Self { name: name.into(), value, inverted: false, missing_is_empty: false }
    }
}

/// A match of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueMatch {
    /// The whole value is equal.
    Exact(Arc<str>),
    /// An RE2 expression matches the whole value.
    Regex(Arc<str>),
    /// Any value; also the usable part of a regular expression that does not compile.
    Present,
    /// A part of the value matches, or the whole value regardless of case.
    Like(Like),
}

/// A match of a part of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Like {
    /// The part.
    pub part: MatchedPart,
    /// The text that the part must be equal to.
    pub text: Arc<str>,
    /// Whether case is ignored.
    pub ignore_case: bool,
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatchedPart {
    /// The whole value.
    Whole,
    /// The beginning.
    Prefix,
    /// The end.
    Suffix,
    /// Any substring.
    Contains,
}

/// The action on matching requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The request is forwarded to a backend.
    Forward(Box<Forward>),
    /// The client is redirected.
    Redirect(Redirect),
    /// Envoy responds directly.
    Respond(FixedResponse),
}

/// A direct response.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body; empty for none.
    pub body: Arc<str>,
    /// A format that replaces the body.
    pub format: Option<Arc<ResponseBodyFormat>>,
}

impl FixedResponse {
    /// Creates a response with a literal body.
    pub fn new(status: u16, body: Arc<str>) -> Self {
        Self { status, body, format: None }
    }
}

/// Forwarding to backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forward {
    /// The backends by weight; never empty.
    pub backends: Vec<WeightedBackend>,
    /// Rewriting of path and host.
    pub rewrite: Rewrite,
    /// Timeouts.
    pub timeouts: RouteTimeouts,
    /// Request mirrors.
    pub mirrors: Vec<Mirror>,
    /// The retry policy.
    pub retry: Option<RouteRetryPolicy>,
    /// The hash policy.
    pub hashed: Vec<Hashed>,
    /// Session persistence.
    pub session: Option<PersistentSession>,
    /// Redirects of the backend that Envoy follows.
    pub internal_redirect: Option<FollowedRedirects>,
    /// Whether WebSocket upgrades are refused.
    pub no_websockets: bool,
}

/// A backend with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedBackend {
    /// The backend; `None` for one that does not exist. Its share of requests is answered with 500.
    pub backend: Option<BackendCluster>,
    /// The weight; a backend of weight 0 gets no requests.
    pub weight: u32,
    /// Header changes of requests to this backend.
    pub request_headers: Sparse<HeaderEdits>,
    /// Header changes of responses from this backend.
    pub response_headers: Sparse<HeaderEdits>,
    /// The host that the backend receives.
    pub host: Option<Arc<str>>,
    /// Rewriting of cookies that this backend sets; it takes precedence over that of the route.
    pub cookies: Vec<CookieRewrite>,
}

/// A backend and its protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendCluster {
    /// The source of its endpoints.
    pub place: EndpointSource,
    /// The protocol.
    pub protocol: BackendProtocol,
    /// Further cluster settings.
    pub tuned: Option<Arc<Tuned>>,
}

impl BackendCluster {
    /// Returns the objects that its cluster is made of, without the routes that use it.
    pub fn origins(&self) -> impl Iterator<Item = &ObjectKey> {
        let tuned = self.tuned.iter().flat_map(|tuned| tuned.upstream.origins());
        tuned.chain([self.place.key()]).chain(self.place.others())
    }

    /// Returns the same backend over HTTP/2.
    pub fn over_h2(self) -> Self {
        let tuned = self.tuned.as_ref().and_then(|tuned| tuned.upstream.clone().over_h2().tuned());
        Self { protocol: BackendProtocol::H2c, tuned, ..self }
    }

    /// Returns the TLS settings of connections; `None` where they have no TLS.
    pub fn tls(&self) -> Option<&UpstreamTls> {
        self.tuned.as_ref()?.upstream.tls.as_ref()
    }

    /// Returns the Secret with a client certificate of its own.
    pub fn client(&self) -> Option<&ObjectKey> {
        self.tls()?.client.as_ref()
    }

    /// Returns the Service port that supplies its endpoints.
    pub fn service(&self) -> Option<&ServicePort> {
        match &self.place {
            EndpointSource::Service(service) => Some(service),
            EndpointSource::Hosts(_) | EndpointSource::Anywhere(_) | EndpointSource::Function(_) => None,
        }
    }
}

/// The source of a backend's endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointSource {
    /// A port of a Service.
    Service(ServicePort),
    /// Hosts that an object lists itself.
    Hosts(Arc<Hosts>),
    /// Any host that a request chooses.
    Anywhere(Arc<Anywhere>),
    /// A function that is invoked.
    Function(Arc<Function>),
}

impl EndpointSource {
    /// Returns the object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            EndpointSource::Service(service) => &service.key,
            EndpointSource::Hosts(hosts) => &hosts.owner,
            EndpointSource::Anywhere(anywhere) => &anywhere.owner,
            EndpointSource::Function(function) => &function.hosts.owner,
        }
    }

    /// Returns further objects that it comes from.
    pub fn others(&self) -> &[ObjectKey] {
        match self {
            EndpointSource::Service(_) | EndpointSource::Anywhere(_) => &[],
            EndpointSource::Hosts(hosts) => &hosts.members,
            EndpointSource::Function(function) => std::slice::from_ref(&function.secret),
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// The Service.
    pub key: ObjectKey,
    /// The port number.
    pub port: u16,
    /// The transport protocol of the port.
    pub transport: Transport,
    /// The port number of health checks, where it differs.
    pub health: Option<u16>,
}

/// Writes `namespace/name:port`.
impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key.namespaced_name(), self.port)
    }
}

/// The protocol towards a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge: gRPC, and `appProtocol: kubernetes.io/h2c`.
    H2c,
}
