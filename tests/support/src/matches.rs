//! Random matches: a broken one beside two valid ones, each in a host or in its wildcard, and which of them may answer a
//! request to the host.
//!
//! What is readable and what is narrower is computed here from the parts that the matches were made of, and from a
//! universe of requests, without the code under test.

mod calls;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use regex::Regex;

/// The header and the query parameter of conditions.
const HEADER: &str = "x-a";
const QUERY: &str = "q";
/// Beginnings of paths; also the paths of requests.
const TEXTS: [&str; 9] = ["/", "/x", "/x/", "/x/1", "/x1", "/x/y", "/x/y/1", "/x/1.php", "/z/1.php"];
/// Endings of a path expression that do not compile.
const BROKEN: [&str; 6] = ["[0-9", "(a", "[0-9+", ".*(a", "[0-9]/y[", "[0-9]+/y("];
/// Valid path expressions.
const EXPRESSIONS: [&str; 6] = ["/x/[0-9]+", "/.*", "/x.*", "/[a-z]+/.*", "/.*[.]php", "/x/y/[0-9]+"];

/// The properties of a request that matches compare.
#[derive(Clone, Debug)]
pub struct MatchRequest {
    /// Method.
    pub method: String,
    /// Path, without query.
    pub path: String,
    /// Query parameters.
    pub query: Vec<(String, String)>,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
}

/// The hostname of a match: a host, or the wildcard that includes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrittenHost {
    Specific,
    Wildcard,
}

impl WrittenHost {
    /// Returns the hostname of a number.
    fn name(self, number: u64) -> String {
        match self {
            Self::Specific => host(number),
            Self::Wildcard => format!("*.d{number}.example.com"),
        }
    }
}

/// Returns the host to which requests are sent.
pub fn host(number: u64) -> String {
    format!("h.d{number}.example.com")
}

/// Where the objects of the matches are.
#[derive(Clone, Copy, Debug)]
pub struct MatchPlace<'a> {
    /// The namespace of routes and of the Services `a`, `b` and `c`.
    pub namespace: &'a str,
    /// The namespace and name of the Gateway.
    pub gateway: (&'a str, &'a str),
    /// The port of the Services.
    pub port: u16,
}

thread_local! {
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Returns whether an expression matches the whole text. An expression that does not compile matches nothing.
pub fn whole(pattern: &str, text: &str) -> bool {
    COMPILED.with_borrow_mut(|compiled| match compiled.get(pattern) {
        Some(regex) => regex.is_match(text),
        None => match Regex::new(&format!("^(?:{pattern})$")) {
            Ok(regex) => compiled.entry(pattern.to_owned()).or_insert(regex).is_match(text),
            Err(_) => false,
        },
    })
}

/// Returns a generator of numbers below its argument, deterministic for each seed.
pub fn choices(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or_default().checked_rem(below).unwrap_or_default()
    }
}

/// The API that the matches are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchApi {
    /// HTTPRoute.
    HttpRoute,
    /// GRPCRoute.
    GrpcRoute,
    /// HTTPProxy.
    HttpProxy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WrittenPath {
    Exact(&'static str),
    /// By segments in an HTTPRoute, by text in an HTTPProxy.
    Prefix(&'static str),
    Regex(&'static str),
    /// Service and method of a gRPC call.
    Call(calls::Part, calls::Part),
    /// A text followed by something that does not compile.
    Broken(&'static str, &'static str),
}

/// Returns an expression for what is readable of a broken expression, if that is more than its literal beginning.
fn readable(text: &str, end: &str) -> Option<String> {
    match (text, end) {
        ("/", "(a") => Some("/(?:a).*".into()),
        ("/", ".*(a") => Some("/.*(?:a).*".into()),
        (_, "[0-9]/y[" | "[0-9]+/y(") => Some(format!("{text}{}.*", end.get(..end.len() - 1)?)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrittenCondition {
    Absent,
    Value(&'static str),
    /// An expression that does not compile.
    Broken,
}

#[derive(Clone, Debug)]
struct WrittenMatch {
    path: WrittenPath,
    method: Option<&'static str>,
    header: WrittenCondition,
    query: WrittenCondition,
}

impl WrittenMatch {
    fn random(choose: &mut impl FnMut(usize) -> usize, api: MatchApi, is_broken: bool) -> Self {
        if api == MatchApi::GrpcRoute {
            return calls::random(choose, is_broken);
        }
        let mut text = || TEXTS[choose(TEXTS.len())];
        let (exact, prefix) = (text(), text());
        let mut condition = || {
            [
                WrittenCondition::Absent,
                WrittenCondition::Absent,
                WrittenCondition::Value("1"),
                WrittenCondition::Value("2"),
            ][choose(4)]
        };
        let (mut header, mut query) = (condition(), condition());
        let mut path = match choose(3) {
            0 => WrittenPath::Exact(exact),
            1 => WrittenPath::Prefix(prefix),
            _ => WrittenPath::Regex(EXPRESSIONS[choose(EXPRESSIONS.len())]),
        };
        if is_broken {
            match choose(6) {
                0 => header = WrittenCondition::Broken,
                1 => query = WrittenCondition::Broken,
                // A dot is no literal.
                _ => {
                    path =
                        WrittenPath::Broken(prefix.split('.').next().unwrap_or_default(), BROKEN[choose(BROKEN.len())])
                }
            }
        }
        let method = [None, None, Some("GET")][choose(3)].filter(|_| api == MatchApi::HttpRoute);
        Self { path, method, header, query }
    }

    /// Returns whether the readable part of the match covers a request.
    fn covers(&self, request: &MatchRequest, api: MatchApi) -> bool {
        let path = &*request.path;
        let is_path = match self.path {
            WrittenPath::Exact(text) => path == text,
            WrittenPath::Prefix(text) if api == MatchApi::HttpRoute => {
                let segments = text.trim_end_matches('/');
                path == segments || path.starts_with(&format!("{segments}/"))
            }
            WrittenPath::Prefix(text) => path.starts_with(text),
            WrittenPath::Broken(text, end) => match readable(text, end) {
                Some(pattern) => whole(&pattern, path),
                None => path.starts_with(text),
            },
            WrittenPath::Regex(pattern) => whole(pattern, path),
            WrittenPath::Call(service, method) => calls::covers(service, method, path),
        };
        let fulfils = |condition: WrittenCondition, all: &[(String, String)]| {
            let found = all.iter().find(|(name, _)| [HEADER, QUERY].contains(&name.as_str()));
            match condition {
                WrittenCondition::Absent => true,
                WrittenCondition::Value(value) => found.is_some_and(|(_, found)| found == value),
                WrittenCondition::Broken => found.is_some(),
            }
        };
        is_path
            && self.method.is_none_or(|method| request.method == method)
            && fulfils(self.header, &request.headers)
            && fulfils(self.query, &request.query)
    }

    /// Returns the rank in the order of the API; the smaller one comes first.
    fn rank(&self, api: MatchApi) -> (u8, Reverse<usize>, bool, Reverse<usize>, Reverse<usize>) {
        let length = |text: &str| match api {
            MatchApi::HttpRoute => text.trim_end_matches('/').len(),
            MatchApi::HttpProxy | MatchApi::GrpcRoute => text.len(),
        };
        let (kind, length) = match self.path {
            WrittenPath::Exact(_) => (0, 0),
            // The length of an expression that cannot be read means nothing.
            WrittenPath::Broken(text, end) if text != "/" || readable(text, end).is_some() => (1, usize::MAX),
            WrittenPath::Broken(..) => (3, 0),
            WrittenPath::Regex(pattern) => (1, pattern.len()),
            WrittenPath::Prefix(text) => (2, length(text)),
            WrittenPath::Call(service, method) => calls::rank(service, method),
        };
        let count = |condition: WrittenCondition| Reverse(usize::from(condition != WrittenCondition::Absent));
        (kind, Reverse(length), self.method.is_none(), count(self.header), count(self.query))
    }

    fn http_route(&self) -> String {
        let (kind, value) = match self.path {
            WrittenPath::Exact(text) => ("Exact", text.to_owned()),
            WrittenPath::Prefix(text) => ("PathPrefix", text.to_owned()),
            WrittenPath::Regex(pattern) => ("RegularExpression", pattern.to_owned()),
            WrittenPath::Broken(text, end) => ("RegularExpression", format!("{text}{end}")),
            WrittenPath::Call(..) => return String::new(),
        };
        let mut text = format!("path: {{type: {kind}, value: '{value}'}}");
        for (field, name, condition) in [("headers", HEADER, self.header), ("queryParams", QUERY, self.query)] {
            let (kind, value) = match condition {
                WrittenCondition::Absent => continue,
                WrittenCondition::Value(value) => ("Exact", value),
                WrittenCondition::Broken => ("RegularExpression", "["),
            };
            let _ = write!(text, ", {field}: [{{name: {name}, type: {kind}, value: '{value}'}}]");
        }
        if let Some(method) = self.method {
            let _ = write!(text, ", method: {method}");
        }
        text
    }

    fn http_proxy(&self) -> String {
        let path = match self.path {
            WrittenPath::Exact(text) => format!("exact: {text}"),
            WrittenPath::Prefix(text) => format!("prefix: {text}"),
            WrittenPath::Regex(pattern) => format!("regex: '{pattern}'"),
            WrittenPath::Broken(text, end) => format!("regex: '{text}{end}'"),
            WrittenPath::Call(..) => return String::new(),
        };
        let mut text = format!("{{{path}}}");
        for (field, name, condition) in [("header", HEADER, self.header), ("queryParameter", QUERY, self.query)] {
            let value = match condition {
                WrittenCondition::Absent => continue,
                WrittenCondition::Value(value) => format!("exact: '{value}'"),
                WrittenCondition::Broken => "regex: '['".to_owned(),
            };
            let _ = write!(text, ", {{{field}: {{name: {name}, {value}}}}}");
        }
        text
    }
}

/// One broken match, `a`, beside two valid ones, `b` and `c`.
#[derive(Debug)]
pub struct MatchTrio {
    broken: WrittenMatch,
    others: [WrittenMatch; 2],
    /// Hosts of the broken match and of the others. A host with matches of its own gets none of its wildcard.
    hosts: [WrittenHost; 3],
    is_guarded: bool,
    /// Whether the object of the broken match is older than the others; in an HTTPProxy, whether its route comes first.
    is_older: bool,
}

impl MatchTrio {
    /// Returns the matches of a seed.
    pub fn random(seed: u64, api: MatchApi) -> Self {
        let mut choose = choices(seed);
        (0..4).for_each(|_| {
            choose(2);
        });
        let broken = WrittenMatch::random(&mut choose, api, true);
        let others = [(); 2].map(|()| WrittenMatch::random(&mut choose, api, false));
        let (is_guarded, is_older) = (choose(2) == 0, choose(2) == 0);
        // Mostly all in one host: in different ones, they have no request in common.
        let mut host = || [WrittenHost::Specific, WrittenHost::Specific, WrittenHost::Wildcard][choose(3)];
        let hosts = match host() {
            WrittenHost::Specific => [WrittenHost::Specific; 3],
            WrittenHost::Wildcard => [(); 3].map(|()| host()),
        };
        Self { broken, others, hosts, is_guarded, is_older }
    }

    /// Returns whether a match is in the most specific hostname of the request.
    fn is_in_host(&self, index: usize) -> bool {
        self.hosts[index] == WrittenHost::Specific || !self.hosts.contains(&WrittenHost::Specific)
    }

    /// Returns the objects of the matches in YAML, for requests to [`host`].
    pub fn documents(&self, host: u64, api: MatchApi, place: &MatchPlace<'_>) -> String {
        match api {
            MatchApi::HttpRoute => self.routes(host, place, "HTTPRoute", WrittenMatch::http_route),
            MatchApi::GrpcRoute => self.routes(host, place, "GRPCRoute", calls::grpc_route),
            MatchApi::HttpProxy => self.http_proxy(host, place),
        }
    }

    fn routes(
        &self,
        host: u64,
        place: &MatchPlace<'_>,
        kind: &str,
        matches: impl Fn(&WrittenMatch) -> String,
    ) -> String {
        let MatchPlace { namespace, gateway: (infra, gateway), port } = place;
        let route = |to: &str, written: &WrittenMatch, hostname: WrittenHost, age: u32| {
            let hostname = hostname.name(host);
            format!(
                "\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {to}-{host}, \
                 namespace: {namespace}, creationTimestamp: '2026-01-0{age}T00:00:00Z'}}\nspec:\n  parentRefs: [{{name: {gateway}, \
                 namespace: {infra}}}]\n  hostnames: ['{hostname}']\n  rules:\n  - matches: [{{{}}}]\n    \
                 backendRefs: [{{name: {to}, port: {port}}}]",
                matches(written)
            )
        };
        let [a, b, c] = self.hosts;
        let mut text = route("a", &self.broken, a, if self.is_older { 1 } else { 3 });
        text += &route("b", &self.others[0], b, 2);
        text += &route("c", &self.others[1], c, 2);
        if self.is_guarded {
            let _ = write!(
                text,
                "\n---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: g-{host}, \
                 namespace: {namespace}}}\nspec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: {kind}, name: \
                 a-{host}}}]\n  rbac: {{action: Deny, policy: {{matchExpressions: ['true']}}}}"
            );
        }
        text
    }

    fn http_proxy(&self, host: u64, place: &MatchPlace<'_>) -> String {
        let MatchPlace { namespace, port, .. } = place;
        let guard = if self.is_guarded { "\n    ipAllowPolicy: [{source: Peer, cidr: 10.0.0.0/8}]" } else { "" };
        let route = |to: &str, written: &WrittenMatch, guard: &str| {
            let conditions = written.http_proxy();
            format!("\n  - conditions: [{conditions}]\n    services: [{{name: {to}, port: {port}}}]{guard}")
        };
        let mut routes = [
            (self.hosts[0], route("a", &self.broken, guard)),
            (self.hosts[1], route("b", &self.others[0], "")),
            (self.hosts[2], route("c", &self.others[1], "")),
        ];
        if !self.is_older {
            routes.rotate_left(1);
        }
        let mut text = String::new();
        for (hostname, name) in [(WrittenHost::Specific, "p"), (WrittenHost::Wildcard, "w")] {
            let own: String =
                routes.iter().filter(|(of, _)| *of == hostname).map(|(_, route)| route.as_str()).collect();
            if !own.is_empty() {
                let _ = write!(
                    text,
                    "\n---\napiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}-{host}, namespace: \
                     {namespace}}}\nspec:\n  virtualhost: {{fqdn: '{}'}}\n  routes:{own}",
                    hostname.name(host)
                );
            }
        }
        text
    }

    /// Returns whether another match may answer requests that the broken one covers.
    fn may_answer(&self, other: &WrittenMatch, universe: &[MatchRequest], api: MatchApi) -> bool {
        let covered = |written: &WrittenMatch| -> Vec<bool> {
            universe.iter().map(|request| written.covers(request, api)).collect()
        };
        let (own, others) = (covered(&self.broken), covered(other));
        let is_within = others.iter().zip(&own).all(|(other, own)| !other || *own);
        let (rank, written) = (other.rank(api), self.broken.rank(api));
        let precedes = rank < written || (rank == written && !self.is_guarded && !self.is_older);
        precedes || (is_within && (own != others || !self.is_guarded))
    }

    /// Returns whether another match is strictly narrower than the broken one, by more than the end of a segment. Of
    /// expressions this is not always known.
    fn is_known_to_be_narrower(&self, other: &WrittenMatch, universe: &[MatchRequest], api: MatchApi) -> bool {
        let is_within = universe.iter().all(|request| !other.covers(request, api) || self.broken.covers(request, api));
        let is_apart = |text: &str| match self.broken.path {
            WrittenPath::Broken(readable, end) => {
                self::readable(readable, end).is_none() && text.trim_end_matches('/') != readable.trim_end_matches('/')
            }
            _ => false,
        };
        let is_simple = match other.path {
            WrittenPath::Exact(_) => true,
            WrittenPath::Prefix(text) => is_apart(text),
            // A longer expression of a service precedes a text, also a narrower one.
            WrittenPath::Regex(_) | WrittenPath::Broken(..) | WrittenPath::Call(..) => false,
        };
        is_simple && is_within
    }

    /// Returns what is wrong with an answer of the backend `by`, or of no backend.
    pub fn judge(
        &self,
        by: Option<&str>,
        request: &MatchRequest,
        universe: &[MatchRequest],
        api: MatchApi,
    ) -> Option<String> {
        let is_covered = self.is_in_host(0) && self.broken.covers(request, api);
        if by == Some("a") {
            return Some("the broken rule is served".to_owned());
        }
        let others = (1..).zip(["b", "c"].into_iter().zip(&self.others));
        match others.clone().find(|(_, (to, _))| by == Some(to)) {
            Some((index, _)) if !self.is_in_host(index) => Some("a match of another hostname answers".to_owned()),
            Some((_, (_, other))) => (is_covered && !self.may_answer(other, universe, api))
                .then(|| format!("{other:?} answers a request of the broken match")),
            None => {
                let own = others.filter(|(index, _)| self.is_in_host(*index)).map(|(_, (_, other))| other);
                let wanted: Vec<&WrittenMatch> = own.filter(|other| other.covers(request, api)).collect();
                let is_kept = match &*wanted {
                    // Beside two others, the overlap with the one may precede the other.
                    [only] => !is_covered || self.is_known_to_be_narrower(only, universe, api),
                    all => !all.is_empty() && !is_covered,
                };
                is_kept.then(|| "a request of others is not answered by them".to_owned())
            }
        }
    }
}

/// Returns all combinations of paths and conditions that the matches of an API compare.
pub fn universe(api: MatchApi) -> Vec<MatchRequest> {
    let pairs = |name: &str| -> Vec<Vec<(String, String)>> {
        let value = |value: &str| vec![(name.to_owned(), value.to_owned())];
        vec![vec![], value("1"), value("3")]
    };
    if api == MatchApi::GrpcRoute {
        return calls::universe(&pairs(HEADER));
    }
    let more =
        ["/y", "/x/1/", "/x/y/", "/x/a", "/x/yy", "/z/1", "/z/1x", "/a/1", "/1/y", "/x/1/y", "/x/2/y/z", "/x12/y"];
    let mut all = Vec::new();
    for path in TEXTS.iter().chain(&more) {
        for method in ["GET", "POST"] {
            for headers in pairs(HEADER) {
                for query in pairs(QUERY) {
                    let (method, path) = (method.to_owned(), (*path).to_owned());
                    all.push(MatchRequest { method, path, query, headers: headers.clone() });
                }
            }
        }
    }
    all
}
