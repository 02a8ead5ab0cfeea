//! What is served, Envoy-shaped and Envoy-free: routes, their matches and actions, back ends, with origins on each.
//!
//! Translation makes it, `encode` writes it down. Nothing here knows Kubernetes' kinds or Envoy's messages.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Origins};

use crate::features::body_format::BodyFormat;
use crate::features::chain::ChainFilter;
use crate::features::cookies::CookieRewrite;
use crate::features::cors::Cors;
use crate::features::filters::Filters;
use crate::features::forward_proxy::Anywhere;
use crate::features::function::Function;
use crate::features::guards::Guards;
use crate::features::hash::Hashed;
use crate::features::headers::HeaderEdits;
use crate::features::hosts::Hosts;
use crate::features::internal_redirect::InternalRedirect;
use crate::features::ip_filter::IpFilter;
use crate::features::local_rate_limit::LocalRateLimit;
use crate::features::mirror::Mirror;
use crate::features::redirect::{ListenerContext, Redirect};
use crate::features::remote::Remote;
use crate::features::retry::Retry;
use crate::features::rewrite::Rewrite;
use crate::features::timeout::Timeouts;
use crate::features::tracing::Tracing;
use crate::features::upstream::Tuned;
use crate::object::Age;

/// One route of a virtual host: one match of one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The object that it is a route of.
    pub key: ObjectKey,
    /// Unique, made from the object's identity.
    pub name: Arc<str>,
    /// Its place among the routes of its host.
    pub precedence: Precedence,
    /// Which requests it is for.
    pub matches: Match,
    /// What happens to them.
    pub action: Action,
    /// Changes to requests.
    pub request_headers: HeaderEdits,
    /// Changes to responses.
    pub response_headers: HeaderEdits,
    /// Cross-origin requests.
    pub cors: Option<Cors>,
    /// Who may come in, by address.
    pub ip_filter: Option<IpFilter>,
    /// How often requests may come to one Envoy.
    pub rate_limit: Option<LocalRateLimit>,
    /// What becomes of cookies that back ends set.
    pub cookies: Vec<CookieRewrite>,
    /// What needs a filter in the chain: who is asked before requests pass, tokens, limits that all Envoys share.
    pub guards: Guards,
    /// What policies tell filters.
    pub filters: Filters,
    /// What the names of its statistics begin with; none are counted for it where unset.
    pub stat_prefix: Option<Arc<str>>,
    /// What is recorded of its requests.
    pub tracing: Option<Tracing>,
    /// Where requests without TLS are redirected to it: the port for it, as clients know it.
    pub secure_port: Option<u16>,
    /// The unit of its object that it came from, as `rules[1]`.
    pub section: Arc<str>,
    /// The objects it was made from.
    pub origins: Origins,
}

impl Route {
    /// A route that does its action and nothing else.
    pub(crate) fn bare(
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
            action,
            request_headers: HeaderEdits::default(),
            response_headers: HeaderEdits::default(),
            cors: None,
            ip_filter: None,
            rate_limit: None,
            cookies: Vec::new(),
            guards: Guards::default(),
            filters: Filters::new(),
            stat_prefix: None,
            tracing: None,
            secure_port: None,
            section,
        }
    }

    /// The back ends that its requests, or copies of them, go to.
    pub fn backends(&self) -> impl Iterator<Item = &Backend> {
        let forward = if let Action::Forward(forward) = &self.action { Some(forward) } else { None };
        forward.into_iter().flat_map(|forward| {
            let named = forward.backends.iter().filter_map(|backend| backend.backend.as_ref());
            named.chain(forward.mirrors.iter().map(|mirror| &mirror.backend))
        })
    }

    /// The clusters that it needs: of its back ends, and of those whom its filters ask.
    pub(crate) fn uses(&self) -> BTreeSet<Remote> {
        let filters = if self.guards.is_empty() { Vec::new() } else { self.guards.filters() };
        let asked = filters.iter().flat_map(ChainFilter::remotes).cloned();
        self.backends().cloned().map(Remote::Backend).chain(asked).collect()
    }

    /// Is it an answer to a literal path and nothing more? Then there is nothing in it that an Envoy could refuse.
    pub fn is_plain_answer(&self) -> bool {
        let Match { path, method: _, headers, query, grpc: _ } = &self.matches;
        let literal = !matches!(path, PathMatch::Regex(_)) && headers.is_empty() && query.is_empty();
        let edits = [&self.request_headers, &self.response_headers];
        literal
            && matches!(&self.action, Action::Respond(response) if response.format.is_none())
            && edits.into_iter().all(|edits| *edits == HeaderEdits::default())
            && self.cors.is_none()
            && self.ip_filter.is_none()
            && self.rate_limit.is_none()
            && self.cookies.is_empty()
            && self.guards.is_empty()
            && self.filters.is_empty()
            && self.tracing.is_none()
    }

    /// The port that requests are redirected to at a listener, where they are.
    pub(crate) fn secure_port_at(&self, listener: ListenerContext) -> Option<u16> {
        self.secure_port.filter(|_| !listener.https)
    }

    /// Its guards at a listener: whoever is only redirected to TLS is asked nothing.
    pub(crate) fn guards_at(&self, listener: ListenerContext) -> Option<&Guards> {
        Some(&self.guards).filter(|_| self.secure_port_at(listener).is_none())
    }
}

/// What holds for a host as a whole, unless a route says something else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSettings {
    /// How often requests may come to one Envoy, all routes together.
    pub rate_limit: Option<LocalRateLimit>,
    /// What policies tell filters.
    pub filters: Filters,
    /// What needs a filter in the chain.
    pub guards: Guards,
}

/// The order of routes in a host, as Gateway API asks; the first that matches wins.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#httproutematch>
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence {
    /// Does it stand in its host by a claim that an earlier version made? Then whatever is claimed today comes first.
    pub lent: bool,
    /// Kind of path and its length, or a place that was worked out before.
    pub path: PathRank,
    /// Does it ask for no method?
    pub any_method: bool,
    /// How many headers it asks for.
    pub headers: Reverse<usize>,
    /// How many query parameters it asks for.
    pub query: Reverse<usize>,
    /// Is it the placeholder of a broken match? Then equal matches of others win.
    pub narrowed: bool,
    /// The older object wins.
    pub age: Age,
    /// The earlier rule of an object wins.
    pub rule: usize,
    /// The earlier match of a rule.
    pub entry: usize,
    /// The kind of object, so that no two are equal.
    pub kind: Arc<str>,
}

/// Rank of a path match; smaller comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathRank {
    /// At this place among the routes of the host, all of which come from one source that orders them itself.
    Placed(usize),
    /// The whole path.
    Exact,
    /// A gRPC call: characters of the service, then of the method.
    Grpc(Reverse<usize>, Reverse<usize>),
    /// A regular expression: characters of it.
    Regex(Reverse<usize>),
    /// A prefix: characters of it.
    Prefix(Reverse<usize>),
    /// After everything else in its host.
    Last,
}

/// Which requests a route is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The path.
    pub path: PathMatch,
    /// The method; any where unset.
    pub method: Option<Arc<str>>,
    /// Headers that must all match.
    pub headers: Vec<NamedMatch>,
    /// Query parameters that must all match.
    pub query: Vec<NamedMatch>,
    /// Only gRPC calls (by content type).
    pub grpc: bool,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self { path: PathMatch::Prefix("/".into()), method: None, headers: vec![], query: vec![], grpc: false }
    }
}

/// How a path is matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// The whole path.
    Exact(Arc<str>),
    /// Whole segments: `/foo` matches `/foo` and `/foo/bar`, not `/foobar`.
    Prefix(Arc<str>),
    /// RE2 on the whole path.
    Regex(Arc<str>),
    /// Any path that begins with the text: as HTTPProxies have it, and what is left of a regular expression that does
    /// not compile.
    Text(Arc<str>),
}

/// A header or query parameter with what its value must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedMatch {
    /// Name.
    pub name: Arc<str>,
    /// Value.
    pub value: ValueMatch,
    /// Is it what must not be? Headers only.
    pub inverted: bool,
    /// Does a header that is not there count as an empty one?
    pub missing_is_empty: bool,
}

impl NamedMatch {
    /// One that must be.
    pub fn new(name: impl Into<Arc<str>>, value: ValueMatch) -> Self {
        Self { name: name.into(), value, inverted: false, missing_is_empty: false }
    }
}

/// How a value is matched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueMatch {
    /// The whole value.
    Exact(Arc<str>),
    /// RE2 on the whole value.
    Regex(Arc<str>),
    /// Any value, or what is left of a regular expression that does not compile.
    Present,
    /// A part of the value, or the whole in any case.
    Like(Like),
}

/// A part that a value must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Like {
    /// Which part.
    pub part: Part,
    /// What it must be.
    pub text: Arc<str>,
    /// Are upper and lower case the same?
    pub ignore_case: bool,
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its beginning.
    Prefix,
    /// Its end.
    Suffix,
    /// Any part.
    Contains,
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It goes to a back end.
    Forward(Box<Forward>),
    /// The client is told to go elsewhere.
    Redirect(Redirect),
    /// It is answered at once.
    Respond(Response),
}

/// A direct response.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body; empty for none.
    pub body: Arc<str>,
    /// What the body is made from, in its place.
    pub format: Option<Arc<BodyFormat>>,
}

impl Response {
    /// One with a body as it is.
    pub fn new(status: u16, body: Arc<str>) -> Self {
        Self { status, body, format: None }
    }
}

/// Forwarding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forward {
    /// Where to, by weight; never empty.
    pub backends: Vec<WeightedBackend>,
    /// Changes of path and host.
    pub rewrite: Rewrite,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Copies of the requests.
    pub mirrors: Vec<Mirror>,
    /// When they are tried again.
    pub retry: Option<Retry>,
    /// What of them is hashed.
    pub hashed: Vec<Hashed>,
    /// Redirects of the back end that are followed.
    pub internal_redirect: Option<InternalRedirect>,
    /// May they not become web sockets?
    pub no_websockets: bool,
}

/// A back end with its share.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedBackend {
    /// The back end; `None` for one that does not exist, whose share is answered 500.
    pub backend: Option<Backend>,
    /// Share of the requests; shares of 0 get none.
    pub weight: u32,
    /// Changes to requests that go here.
    pub request_headers: HeaderEdits,
    /// Changes to responses that come from here.
    pub response_headers: HeaderEdits,
    /// The host that the back end sees.
    pub host: Option<Arc<str>>,
    /// What becomes of cookies that it sets, in the place of what the route says.
    pub cookies: Vec<CookieRewrite>,
}

/// A back end, and the protocol it is spoken to in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backend {
    /// Where its endpoints are found.
    pub place: Place,
    /// What it is spoken to in.
    pub protocol: Protocol,
    /// What else there is to say about it.
    pub tuned: Option<Arc<Tuned>>,
}

impl Backend {
    /// The objects that its cluster is made of, beside the routes that use it.
    pub fn origins(&self) -> impl Iterator<Item = &ObjectKey> {
        let tuned = self.tuned.iter().flat_map(|tuned| tuned.upstream.origins());
        tuned.chain([self.place.key()]).chain(self.place.others())
    }

    /// The same, spoken to in HTTP/2.
    pub fn over_h2(self) -> Self {
        let tuned = self.tuned.as_ref().and_then(|tuned| tuned.upstream.clone().over_h2().tuned());
        Self { protocol: Protocol::H2c, tuned, ..self }
    }

    /// The Secret with the certificate that it is shown.
    pub fn client(&self) -> Option<&ObjectKey> {
        self.tuned.as_ref()?.upstream.tls.as_ref()?.client.as_ref()
    }

    /// The port of a Service whose endpoints it needs.
    pub fn service(&self) -> Option<&ServicePort> {
        match &self.place {
            Place::Service(service) => Some(service),
            Place::Hosts(_) | Place::Anywhere(_) | Place::Function(_) => None,
        }
    }
}

/// Where the endpoints of a back end are found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At a port of a Service.
    Service(ServicePort),
    /// An object names them itself.
    Hosts(Arc<Hosts>),
    /// Wherever requests want to go.
    Anywhere(Arc<Anywhere>),
    /// A function that is called.
    Function(Arc<Function>),
}

impl Place {
    /// The object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Place::Service(service) => &service.key,
            Place::Hosts(hosts) => &hosts.owner,
            Place::Anywhere(anywhere) => &anywhere.owner,
            Place::Function(function) => &function.hosts.owner,
        }
    }

    /// Further objects that it is made of.
    pub(crate) fn others(&self) -> &[ObjectKey] {
        match self {
            Place::Service(_) | Place::Anywhere(_) => &[],
            Place::Hosts(hosts) => &hosts.members,
            Place::Function(function) => std::slice::from_ref(&function.secret),
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePort {
    /// The Service.
    pub key: ObjectKey,
    /// The port's number.
    pub port: u16,
    /// The number of the port that health is asked at, where that is another one.
    pub health: Option<u16>,
}

/// `namespace/name:port`.
impl fmt::Display for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key.namespaced_name(), self.port)
    }
}

/// The protocol that a back end is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without asking: gRPC, and `appProtocol: kubernetes.io/h2c`.
    H2c,
}
