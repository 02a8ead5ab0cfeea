//! Random matches of one host: a broken one beside two valid ones, and which of them may answer a request.
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
const BROKEN: [&str; 4] = ["[0-9", "(a", "[0-9+", ".*(a"];
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
            WrittenPath::Prefix(text) | WrittenPath::Broken(text, _) => path.starts_with(text),
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
            WrittenPath::Broken(text, _) if text != "/" => (1, usize::MAX),
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
    is_guarded: bool,
    /// Whether the object of the broken match is older than the others.
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
        Self { broken, others, is_guarded: choose(2) == 0, is_older: choose(2) == 0 }
    }

    /// Returns the objects of the matches in YAML; their host is `h<number>.example.com`.
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
        let route = |to: &str, written: &WrittenMatch, age: u32| {
            format!(
                "\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {to}-{host}, \
                 namespace: {namespace}, creationTimestamp: '2026-01-0{age}T00:00:00Z'}}\nspec:\n  parentRefs: [{{name: {gateway}, \
                 namespace: {infra}}}]\n  hostnames: [h{host}.example.com]\n  rules:\n  - matches: [{{{}}}]\n    \
                 backendRefs: [{{name: {to}, port: {port}}}]",
                matches(written)
            )
        };
        let mut text = route("a", &self.broken, if self.is_older { 1 } else { 3 });
        text += &route("b", &self.others[0], 2);
        text += &route("c", &self.others[1], 2);
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
        let mut text = format!(
            "\n---\napiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: p-{host}, namespace: {namespace}}}\n\
             spec:\n  virtualhost: {{fqdn: h{host}.example.com}}\n  routes:"
        );
        text += &route("a", &self.broken, guard);
        text += &route("b", &self.others[0], "");
        text += &route("c", &self.others[1], "");
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
            WrittenPath::Broken(readable, _) => text.trim_end_matches('/') != readable.trim_end_matches('/'),
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
        let is_covered = self.broken.covers(request, api);
        if by == Some("a") {
            return Some("the broken rule is served".to_owned());
        }
        let others = ["b", "c"].into_iter().zip(&self.others);
        match others.clone().find(|(to, _)| by == Some(to)).map(|(_, other)| other) {
            Some(other) => (is_covered && !self.may_answer(other, universe, api))
                .then(|| format!("{other:?} answers a request of the broken match")),
            None => {
                let wanted: Vec<&WrittenMatch> =
                    self.others.iter().filter(|other| other.covers(request, api)).collect();
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
    let more = ["/y", "/x/1/", "/x/y/", "/x/a", "/x/yy"];
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
