//! Order of matches: random broken matches beside random valid ones, requests at the borders of their paths.
//!
//! No request that the readable part of a broken match covers is answered by the backend of another route, unless that
//! route is strictly narrower, or precedes the match as it is written. An equal match of another route is no exception
//! for a guarded rule. No request outside the readable part is answered by the placeholder, and a strictly narrower
//! route keeps its requests.
//!
//! What is readable and what is narrower is computed here from the parts that the matches were made of, and from a
//! universe of requests, without the code under test. `HOLDFAST_SEEDS=100000` tries more matches.

use std::cmp::Reverse;
use std::fmt::Write;

use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use holdfast_test_support as testing;
use holdfast_xds::{ResourceType, to_json};
use serde_json::Value;

use super::matcher;
use super::trace::RoutedRequest;
use crate::mutations::choices;

/// Default number of hosts for each API; each has one broken match and two valid ones.
const HOSTS: u64 = 200;
/// Hosts of one engine.
const HOSTS_AT_ONCE: u64 = 100;

/// Beginnings of paths; also the paths of requests.
const TEXTS: [&str; 9] = ["/", "/x", "/x/", "/x/1", "/x1", "/x/y", "/x/y/1", "/x/1.php", "/z/1.php"];
/// Endings of a path expression that do not compile.
const BROKEN: [&str; 4] = ["[0-9", "(a", "[0-9+", ".*(a"];
/// Valid path expressions.
const EXPRESSIONS: [&str; 6] = ["/x/[0-9]+", "/.*", "/x.*", "/[a-z]+/.*", "/.*[.]php", "/x/y/[0-9]+"];

/// The API that the matches are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    HttpRoute,
    HttpProxy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Path {
    Exact(&'static str),
    /// By segments in an HTTPRoute, by text in an HTTPProxy.
    Prefix(&'static str),
    Regex(&'static str),
    /// A text followed by something that does not compile.
    Broken(&'static str, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Absent,
    Value(&'static str),
    /// An expression that does not compile.
    Broken,
}

#[derive(Clone, Debug)]
struct Written {
    path: Path,
    method: Option<&'static str>,
    header: Condition,
    query: Condition,
}

impl Written {
    fn random(choose: &mut impl FnMut(usize) -> usize, api: Api, is_broken: bool) -> Self {
        let mut text = || TEXTS[choose(TEXTS.len())];
        let (exact, prefix) = (text(), text());
        let mut condition =
            || [Condition::Absent, Condition::Absent, Condition::Value("1"), Condition::Value("2")][choose(4)];
        let (mut header, mut query) = (condition(), condition());
        let mut path = match choose(3) {
            0 => Path::Exact(exact),
            1 => Path::Prefix(prefix),
            _ => Path::Regex(EXPRESSIONS[choose(EXPRESSIONS.len())]),
        };
        if is_broken {
            match choose(6) {
                0 => header = Condition::Broken,
                1 => query = Condition::Broken,
                // A dot is no literal.
                _ => path = Path::Broken(prefix.split('.').next().unwrap(), BROKEN[choose(BROKEN.len())]),
            }
        }
        let method = [None, None, Some("GET")][choose(3)].filter(|_| api == Api::HttpRoute);
        Self { path, method, header, query }
    }

    /// Returns whether the readable part of the match covers a request.
    fn covers(&self, request: &RoutedRequest, api: Api) -> bool {
        let path = &*request.path;
        let is_path = match self.path {
            Path::Exact(text) => path == text,
            Path::Prefix(text) if api == Api::HttpRoute => {
                let segments = text.trim_end_matches('/');
                path == segments || path.starts_with(&format!("{segments}/"))
            }
            Path::Prefix(text) | Path::Broken(text, _) => path.starts_with(text),
            Path::Regex(pattern) => matcher::whole(pattern, path),
        };
        let fulfils = |condition: Condition, found: &[(String, String)]| match condition {
            Condition::Absent => true,
            Condition::Value(value) => found.iter().any(|(_, found)| found == value),
            Condition::Broken => !found.is_empty(),
        };
        is_path
            && self.method.is_none_or(|method| request.method == method)
            && fulfils(self.header, &request.headers)
            && fulfils(self.query, &request.query)
    }

    /// Returns the rank in the order of the API; the smaller one comes first.
    fn rank(&self, api: Api) -> (u8, Reverse<usize>, bool, Reverse<usize>, Reverse<usize>) {
        let length = |text: &str| match api {
            Api::HttpRoute => text.trim_end_matches('/').len(),
            Api::HttpProxy => text.len(),
        };
        let (kind, length) = match self.path {
            Path::Exact(_) => (0, 0),
            // The length of an expression that cannot be read means nothing.
            Path::Broken(text, _) if text != "/" => (1, usize::MAX),
            Path::Broken(..) => (3, 0),
            Path::Regex(pattern) => (1, pattern.len()),
            Path::Prefix(text) => (2, length(text)),
        };
        let count = |condition: Condition| Reverse(usize::from(condition != Condition::Absent));
        (kind, Reverse(length), self.method.is_none(), count(self.header), count(self.query))
    }

    fn http_route(&self) -> String {
        let (kind, value) = match self.path {
            Path::Exact(text) => ("Exact", text.to_owned()),
            Path::Prefix(text) => ("PathPrefix", text.to_owned()),
            Path::Regex(pattern) => ("RegularExpression", pattern.to_owned()),
            Path::Broken(text, end) => ("RegularExpression", format!("{text}{end}")),
        };
        let mut text = format!("path: {{type: {kind}, value: '{value}'}}");
        for (field, name, condition) in [("headers", "x-a", self.header), ("queryParams", "q", self.query)] {
            let (kind, value) = match condition {
                Condition::Absent => continue,
                Condition::Value(value) => ("Exact", value),
                Condition::Broken => ("RegularExpression", "["),
            };
            write!(text, ", {field}: [{{name: {name}, type: {kind}, value: '{value}'}}]").unwrap();
        }
        self.method.iter().for_each(|method| write!(text, ", method: {method}").unwrap());
        text
    }

    fn http_proxy(&self) -> String {
        let path = match self.path {
            Path::Exact(text) => format!("exact: {text}"),
            Path::Prefix(text) => format!("prefix: {text}"),
            Path::Regex(pattern) => format!("regex: '{pattern}'"),
            Path::Broken(text, end) => format!("regex: '{text}{end}'"),
        };
        let mut text = format!("{{{path}}}");
        for (field, name, condition) in [("header", "x-a", self.header), ("queryParameter", "q", self.query)] {
            let value = match condition {
                Condition::Absent => continue,
                Condition::Value(value) => format!("exact: '{value}'"),
                Condition::Broken => "regex: '['".to_owned(),
            };
            write!(text, ", {{{field}: {{name: {name}, {value}}}}}").unwrap();
        }
        text
    }
}

/// One broken match, `a`, beside two valid ones, `b` and `c`.
struct Trio {
    broken: Written,
    others: [Written; 2],
    is_guarded: bool,
    /// Whether the object of the broken match is older than the others.
    is_older: bool,
}

impl Trio {
    fn random(seed: u64, api: Api) -> Self {
        let mut choose = choices(seed);
        (0..4).for_each(|_| {
            choose(2);
        });
        let broken = Written::random(&mut choose, api, true);
        let others = [(); 2].map(|()| Written::random(&mut choose, api, false));
        Self { broken, others, is_guarded: choose(2) == 0, is_older: choose(2) == 0 }
    }

    fn documents(&self, host: u64, api: Api) -> String {
        match api {
            Api::HttpRoute => self.http_routes(host),
            Api::HttpProxy => self.http_proxy(host),
        }
    }

    fn http_routes(&self, host: u64) -> String {
        let route = |to: &str, written: &Written, age: u32| {
            format!(
                "\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {to}-{host}, \
                 namespace: shop, creationTimestamp: '2026-01-0{age}T00:00:00Z'}}\nspec:\n  parentRefs: [{{name: public, \
                 namespace: infra}}]\n  hostnames: [h{host}.example.com]\n  rules:\n  - matches: [{{{}}}]\n    \
                 backendRefs: [{{name: {to}, port: 80}}]",
                written.http_route()
            )
        };
        let mut text = route("a", &self.broken, if self.is_older { 1 } else { 3 });
        text += &route("b", &self.others[0], 2);
        text += &route("c", &self.others[1], 2);
        if self.is_guarded {
            write!(
                text,
                "\n---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: g-{host}, \
                 namespace: shop}}\nspec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: \
                 a-{host}}}]\n  rbac: {{action: Deny, policy: {{matchExpressions: ['true']}}}}"
            )
            .unwrap();
        }
        text
    }

    fn http_proxy(&self, host: u64) -> String {
        let guard = if self.is_guarded { "\n    ipAllowPolicy: [{source: Peer, cidr: 10.0.0.0/8}]" } else { "" };
        let route = |to: &str, written: &Written, guard: &str| {
            let conditions = written.http_proxy();
            format!("\n  - conditions: [{conditions}]\n    services: [{{name: {to}, port: 80}}]{guard}")
        };
        let mut text = format!(
            "\n---\napiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: p-{host}, namespace: shop}}\n\
             spec:\n  virtualhost: {{fqdn: h{host}.example.com}}\n  routes:"
        );
        text += &route("a", &self.broken, guard);
        text += &route("b", &self.others[0], "");
        text += &route("c", &self.others[1], "");
        text
    }

    /// Returns whether another match may answer requests that the broken one covers.
    fn may_answer(&self, other: &Written, universe: &[RoutedRequest], api: Api) -> bool {
        let covered =
            |written: &Written| -> Vec<bool> { universe.iter().map(|request| written.covers(request, api)).collect() };
        let (own, others) = (covered(&self.broken), covered(other));
        let is_within = others.iter().zip(&own).all(|(other, own)| !other || *own);
        let (rank, written) = (other.rank(api), self.broken.rank(api));
        let precedes = rank < written || (rank == written && !self.is_guarded && !self.is_older);
        precedes || (is_within && (own != others || !self.is_guarded))
    }

    /// Returns whether another match is strictly narrower than the broken one, by more than the end of a segment. Of
    /// expressions this is not always known.
    fn is_known_to_be_narrower(&self, other: &Written, universe: &[RoutedRequest], api: Api) -> bool {
        let is_within = universe.iter().all(|request| !other.covers(request, api) || self.broken.covers(request, api));
        let is_apart = |text: &str| match self.broken.path {
            Path::Broken(readable, _) => text.trim_end_matches('/') != readable.trim_end_matches('/'),
            _ => false,
        };
        let is_simple = match other.path {
            Path::Exact(_) => true,
            Path::Prefix(text) => is_apart(text),
            Path::Regex(_) | Path::Broken(..) => false,
        };
        is_simple && is_within
    }

    /// Returns what is wrong with an answer.
    fn judge(&self, answer: &str, request: &RoutedRequest, universe: &[RoutedRequest], api: Api) -> Option<String> {
        let is_from = |to: &str| answer.contains(&format!("service/shop/{to}/80"));
        let is_covered = self.broken.covers(request, api);
        if is_from("a") {
            return Some("the broken rule is served".to_owned());
        }
        let by = ["b", "c"].into_iter().zip(&self.others).find(|(to, _)| is_from(to)).map(|(_, other)| other);
        match by {
            Some(other) => (is_covered && !self.may_answer(other, universe, api))
                .then(|| format!("{other:?} answers a request of the broken match")),
            None => {
                let wanted: Vec<&Written> = self.others.iter().filter(|other| other.covers(request, api)).collect();
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

/// Returns all combinations of paths and conditions.
fn universe() -> Vec<RoutedRequest> {
    let pairs = |name: &str| -> Vec<Vec<(String, String)>> {
        let value = |value: &str| vec![(name.to_owned(), value.to_owned())];
        vec![vec![], value("1"), value("3")]
    };
    let more = ["/y", "/x/1/", "/x/y/", "/x/a", "/x/yy"];
    let mut all = Vec::new();
    for path in TEXTS.iter().chain(&more) {
        for method in ["GET", "POST"] {
            for headers in pairs("x-a") {
                for query in pairs("q") {
                    let (method, path) = (method.to_owned(), (*path).to_owned());
                    all.push(RoutedRequest { method, host: String::new(), path, query, headers: headers.clone() });
                }
            }
        }
    }
    all
}

fn table(engine: &Engine) -> (Vec<Value>, u64) {
    let mut found = Vec::new();
    for view in engine.gateways() {
        let Some(snapshot) = engine.fleet(&view.name) else { continue };
        found.extend(snapshot.of(ResourceType::Route).values().map(|r| to_json(ResourceType::Route, &r.body)));
    }
    (found, 8080)
}

/// Returns the number of requests.
fn check(api: Api) -> usize {
    let hosts = std::env::var("HOLDFAST_SEEDS").map_or(HOSTS, |seeds| seeds.parse().unwrap());
    let base = match api {
        Api::HttpRoute => "include/shop.yaml",
        Api::HttpProxy => "include/services.yaml",
    };
    let base = std::fs::read_to_string(super::folder().join(base)).unwrap();
    let universe = universe();
    let (mut wrong, mut requests) = (Vec::new(), 0);
    for from in (0..hosts).step_by(usize::try_from(HOSTS_AT_ONCE).unwrap()) {
        let trios: Vec<(u64, Trio)> =
            (from..(from + HOSTS_AT_ONCE).min(hosts)).map(|seed| (seed, Trio::random(seed, api))).collect();
        let text = trios.iter().fold(base.clone(), |text, (seed, trio)| text + &trio.documents(*seed, api));
        let mut engine = Engine::new(Settings::standalone());
        engine.handle(testing::documents(&text).into_iter().filter_map(testing::event).collect());
        let (tables, port) = table(&engine);
        for (seed, trio) in &trios {
            let host = format!("h{seed}.example.com");
            let is_its = |table: &&Value| table["virtualHosts"].to_string().contains(&format!("\"{host}\""));
            let table = tables.iter().find(is_its).unwrap_or_else(|| panic!("{api:?} {seed}: no host"));
            for request in &universe {
                let request = RoutedRequest { host: host.clone(), ..request.clone() };
                requests += 1;
                let answer = matcher::answer(table, &request, false, port);
                if let Some(why) = trio.judge(&answer, &request, &universe, api) {
                    wrong.push(format!(
                        "seed {seed} {:?}, guarded {}, older {}: {:?} {} {} {:?} {:?} → {answer}: {why}",
                        trio.broken,
                        trio.is_guarded,
                        trio.is_older,
                        trio.others,
                        request.method,
                        request.path,
                        request.headers,
                        request.query
                    ));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {hosts} hosts:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    requests
}

#[test]
fn matches_of_http_routes() {
    let requests = check(Api::HttpRoute);
    println!("{requests} requests");
}

#[test]
fn matches_of_http_proxies() {
    let requests = check(Api::HttpProxy);
    println!("{requests} requests");
}

/// Many broken matches beside many expressions that overlap each of them: beyond the limit of overlaps, a placeholder
/// precedes them as a whole.
#[test]
fn more_overlaps_than_the_limit() {
    let rules = |to: &str, pattern: &dyn Fn(usize) -> String| -> String {
        let rule = |rule: usize| {
            let matches = (0..10)
                .map(|entry| format!("{{path: {{type: RegularExpression, value: '{}'}}}}", pattern(rule * 10 + entry)));
            let matches: Vec<String> = matches.collect();
            format!("\n  - matches: [{}]\n    backendRefs: [{{name: {to}, port: 80}}]", matches.join(", "))
        };
        (0..4).map(rule).collect()
    };
    let route = |to: &str, rules: String| {
        format!(
            "\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {to}, namespace: \
             shop}}\nspec:\n  parentRefs: [{{name: public, namespace: infra}}]\n  hostnames: [h.example.com]\n  \
             rules:{rules}"
        )
    };
    let mut text = std::fs::read_to_string(super::folder().join("include/shop.yaml")).unwrap();
    text += &route("a", rules("a", &|index| format!("/k{index}x/[0-9+")));
    text += &route("b", rules("b", &|index| format!("/.*/v{index}")));
    let mut engine = Engine::new(Settings::standalone());
    engine.handle(testing::documents(&text).into_iter().filter_map(testing::event).collect());
    let (tables, port) = table(&engine);
    let [table] = &*tables else { panic!("{} tables", tables.len()) };
    let hosts = table["virtualHosts"].as_array().unwrap();
    let host = hosts.iter().find(|host| host["domains"][0] == "h.example.com").unwrap();
    let routes = host["routes"].as_array().unwrap().len();
    assert_eq!(routes, 40 + 40 + 1000 + 15, "25 placeholders with 40 overlaps each, 15 as a whole");
    for index in 0..40 {
        let request = |path: String| {
            let (method, host) = ("GET".to_owned(), "h.example.com".to_owned());
            RoutedRequest { method, host, path, query: vec![], headers: vec![] }
        };
        let answer = |path: &str| matcher::answer(table, &request(path.to_owned()), false, port);
        for path in [format!("/k{index}x/v{index}"), format!("/k{index}x/5")] {
            assert!(answer(&path).starts_with("404: httproute/shop/a/"), "{path}: {}", answer(&path));
        }
        assert!(answer(&format!("/other/v{index}")).starts_with("service/shop/b/80"), "/other/v{index}");
    }
}
