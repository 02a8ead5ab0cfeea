//! Random routes and requests: hosts, paths, methods, headers and query parameters from small sets, so that many
//! requests match several routes, and some rules that cannot be served.

use std::fmt::Write;

use holdfast_scenario_tests::manifests::{NAMESPACE, grpc_route, http_route, route as route_of};
use holdfast_scenario_tests::story::dice::Dice;

use super::secure::{self, SECTIONS};

/// The names of the backends.
pub(super) const BACKENDS: [&str; 4] = ["a", "b", "c", "d"];
/// The host of the routes that show which configuration is served.
pub(super) const MARKER: &str = "marker.test";
/// TLS of an HTTPProxy, with its certificate and without.
const TLS: &str = ", tls: {secretName: all}";
const LOST_TLS: &str = ", tls: {secretName: lost}";
/// Routes of one configuration.
const ROUTES: usize = 14;

const HOSTS: [&str; 6] = ["a.example", "'*.example'", "'*.b.example'", "c.b.example", "b.example", "'*'"];
const PATHS: [(&str, &str); 12] = [
    ("Exact", "/x"),
    ("Exact", "/x/1"),
    ("Exact", "/"),
    ("PathPrefix", "/"),
    ("PathPrefix", "/x"),
    ("PathPrefix", "/x/"),
    ("PathPrefix", "/x/y"),
    ("PathPrefix", "/z"),
    ("RegularExpression", "/x/[0-9]+"),
    ("RegularExpression", "/[a-z]"),
    ("RegularExpression", "/.*[.]php"),
    ("RegularExpression", "/(x|z)/.*"),
];
const BROKEN: [&str; 3] = ["/x/[0-9+", "/z(", "/x.*("];
/// Names and values of headers and query parameters in matches.
const VALUES: [(&str, &str); 4] =
    [("Exact", "'1'"), ("Exact", "b c"), ("RegularExpression", "'[0-9]+'"), ("RegularExpression", "'1|b.*'")];

pub(super) const REQUEST_HOSTS: [&str; 11] = [
    "a.example",
    "A.Example",
    "a.example.",
    "x.example",
    "c.b.example",
    "y.b.example",
    "y.z.b.example",
    "b.example",
    "example",
    "other.test",
    "calls.example",
];
const REQUEST_PATHS: [&str; 24] = [
    "/",
    "/x",
    "/x/",
    "/x/1",
    "/x/12",
    "/x/1/",
    "/x/y",
    "/x/y/1",
    "/x/yy",
    "/xx",
    "/z",
    "/z/a.php",
    "/a",
    "/b.php",
    "/x//1",
    "/x/./1",
    "/x/y/../1",
    "/z/..",
    "/x%2F1",
    "/x/%2e%2e/z",
    "/x/%41",
    "/x/a%20b",
    "/q/r",
    "/X",
];
const QUERIES: [&str; 8] = ["", "?q=1", "?q=2", "?q=1&q=2", "?q", "?p=12&q=b%20c", "?p=1", "?q=1/../x"];

/// Methods that Envoy knows, and methods that it does not know over HTTP/1.1.
const ODD_METHODS: [&str; 5] = ["PURGE", "PROPFIND", "BREW", "get", "A-b.c~"];
/// The content types of gRPC calls, and two of other requests.
const CONTENT_TYPES: [&str; 4] =
    ["application/grpc", "application/grpc+proto", "application/grpc;a=b", "application/grpc-web"];
const CALL_PATHS: [&str; 5] = ["/shop.Cart/Add", "/shop.Cart/Remove", "/stock.Shelf/Add", "/x/1", "/x%2F1"];
/// The host of the GRPCRoutes.
const CALL_HOST: &str = "calls.example";

/// A request.
#[derive(Clone, Debug)]
pub(super) struct RandomRequest {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) host: &'static str,
    has_port: bool,
    headers: Vec<(&'static str, &'static str)>,
}

impl RandomRequest {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let request = Self::plain(dice);
        if dice.one_in(5) { request.into_call(dice) } else { request }
    }

    /// Most of the calls are to the host of the GRPCRoutes.
    fn into_call(mut self, dice: &mut Dice) -> Self {
        self.method = "POST";
        self.headers.push(("content-type", pick(dice, &CONTENT_TYPES)));
        if !dice.one_in(3) {
            self.path = pick(dice, &CALL_PATHS).to_owned();
            self.host = pick(dice, &[CALL_HOST, CALL_HOST, self.host]);
        }
        self
    }

    /// Returns whether Envoy regards the request as a gRPC call.
    pub(super) fn is_call(&self) -> bool {
        self.headers.iter().any(|(name, value)| *name == "content-type" && CONTENT_TYPES[..2].contains(value))
    }

    fn plain(dice: &mut Dice) -> Self {
        let mut headers = Vec::new();
        for name in ["x-a", "x-b", "x-a"] {
            if dice.below(2) == 0 {
                headers.push((name, pick(dice, &["1", "12", "b c", ""])));
            }
        }
        if dice.below(60) == 0 {
            headers.push(("x_odd", "1"));
        }
        Self {
            method: if dice.one_in(60) { pick(dice, &ODD_METHODS) } else { pick(dice, &["GET", "GET", "POST", "PUT"]) },
            path: format!("{}{}", pick(dice, &REQUEST_PATHS), pick(dice, &QUERIES)),
            host: if dice.one_in(4) { REQUEST_HOSTS[0] } else { pick(dice, &REQUEST_HOSTS) },
            has_port: dice.below(4) == 0,
            headers,
        }
    }

    /// Returns all headers, with `Host`.
    pub(super) fn headers(&self, port: u16) -> Vec<(String, String)> {
        let host = if self.has_port { format!("{}:{port}", self.host) } else { self.host.to_owned() };
        let others = self.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        [("Host".to_owned(), host)].into_iter().chain(others).collect()
    }
}

pub(super) fn pick<T: Copy>(dice: &mut Dice, from: &[T]) -> T {
    from[dice.index(from.len())]
}

/// Returns the documents of a configuration: HTTPRoutes, one tree of HTTPProxies, and markers with the number. If the
/// Gateway has several listeners, some routes are for one of them only.
pub(super) fn routes(dice: &mut Dice, number: u64, has_sections: bool) -> String {
    let marker = format!(
        "hostnames: [{MARKER}, '*.{MARKER}']\nrules:\n- matches: [{{path: {{type: Exact, value: \
         /configuration/{number}}}}}]\n  backendRefs: [{{name: a, port: 8080}}]"
    );
    let mut all = vec![http_route("marker", &marker)];
    for index in 0..ROUTES {
        let name = format!("r{index}");
        let section = (has_sections && dice.one_in(3)).then(|| pick(dice, &SECTIONS));
        let parent =
            section.map_or_else(|| "- name: public\n".into(), |of| format!("- {{name: public, sectionName: {of}}}\n"));
        all.push(route_of("HTTPRoute", NAMESPACE, &name, &parent, &route(dice)));
    }
    for name in ["calls", "other-calls"] {
        all.push(grpc_route(name, &calls(dice)));
    }
    all.extend(proxies(dice, number, has_sections));
    all.extend(policies(dice));
    all.join("\n---\n")
}

/// Conditions on requests; the markers fulfil none.
const CONDITIONS: [&str; 10] = [
    "request.path.startsWith('/x/')",
    "request.url_path == '/x' || request.query == 'q=1'",
    "request.method == 'POST' && request.path.contains('x')",
    "request.headers['x-a'] == '1'",
    "'x-b' in request.headers && request.url_path.endsWith('1')",
    "request.headers['x-a'].contains('b') || request.url_path.matches('^/z')",
    "request.url_path in ['/a', '/x/1', '/z']",
    "has(request.headers.missing) || request.path.endsWith('/y')",
    "request.host.startsWith('c.') || request.host == 'a.example'",
    "!(request.headers['x-b'] in ['1', '12']) && request.url_path.startsWith('/x')",
];

/// Returns policies of some routes, and sometimes one of the Gateway, which denies only.
fn policies(dice: &mut Dice) -> Vec<String> {
    let mut targets: Vec<String> = (0..3).map(|index| format!("HTTPRoute, name: r{}", 3 * index % ROUTES)).collect();
    targets.extend(dice.one_in(4).then(|| "Gateway, name: public".to_owned()));
    let policy = |(index, target): (usize, &String)| {
        let may_allow = target.starts_with("HTTPRoute");
        let action = if may_allow { pick(dice, &["Allow", "Deny"]) } else { "Deny" };
        // Envoy denies a request if such a condition cannot be evaluated, and the markers have no headers.
        let usable = CONDITIONS.into_iter().filter(|text| may_allow || !text.contains("headers["));
        let usable: Vec<&str> = usable.collect();
        let conditions: Vec<String> = (0..=dice.below(2)).map(|_| format!("\"{}\"", pick(dice, &usable))).collect();
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: p{index}, namespace: \
             {NAMESPACE}}}\nspec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: {target}}}]\n  rbac: {{action: \
             {action}, policy: {{matchExpressions: [{}]}}}}",
            conditions.join(", ")
        )
    };
    targets.iter().enumerate().map(policy).collect()
}

/// Returns a configuration without its broken matches.
pub(super) fn repaired(text: &str) -> String {
    BROKEN.iter().fold(text.to_owned(), |text, broken| text.replace(&format!("'{broken}'"), "'/repaired'"))
}

fn route(dice: &mut Dice) -> String {
    let first = pick(dice, &HOSTS);
    let mut text = if first == "'*'" { String::new() } else { format!("hostnames: [{first}]\n") };
    text.push_str("rules:\n");
    for _ in 0..=dice.below(3) {
        let is_broken = dice.below(8) == 0;
        let matches: Vec<String> = (0..=dice.below(2)).map(|entry| one_match(dice, is_broken && entry == 0)).collect();
        let _ = writeln!(text, "- matches: [{}]", matches.join(", "));
        text.push_str(&action(dice));
    }
    text
}

/// Returns a GRPCRoute, of which some backends are missing.
fn calls(dice: &mut Dice) -> String {
    let mut text = format!("hostnames: [{CALL_HOST}]\nrules:\n");
    for _ in 0..=dice.below(2) {
        let wanted = pick(dice, &["{service: shop.Cart}", "{service: shop.Cart, method: Add}", "{method: Add}"]);
        let backend = pick(dice, &["a", "b", "c", "gone"]);
        let _ = write!(text, "- matches: [{{method: {wanted}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]\n");
    }
    text
}

fn action(dice: &mut Dice) -> String {
    let (one, other) = (pick(dice, &BACKENDS), pick(dice, &BACKENDS));
    match dice.below(12) {
        0 => "  backendRefs: [{name: gone, port: 8080}]\n".to_owned(),
        1 => format!("  backendRefs: [{{name: {one}, port: 8080}}, {{name: gone, port: 8080}}]\n"),
        2 => format!("  backendRefs: [{{name: {one}, port: 8080, weight: 3}}, {{name: {other}, port: 8080}}]\n"),
        3 => redirect("scheme: https, statusCode: 301"),
        4 => redirect("hostname: new.test, port: 8443, path: {type: ReplaceFullPath, replaceFullPath: /new}"),
        _ => format!("  backendRefs: [{{name: {one}, port: 8080}}]\n"),
    }
}

fn redirect(fields: &str) -> String {
    format!("  filters: [{{type: RequestRedirect, requestRedirect: {{{fields}}}}}]\n")
}

fn one_match(dice: &mut Dice, is_broken: bool) -> String {
    let (kind, value) = if is_broken { ("RegularExpression", pick(dice, &BROKEN)) } else { pick(dice, &PATHS) };
    let mut text = format!("{{path: {{type: {kind}, value: '{value}'}}");
    for (field, names) in [("headers", ["x-a", "x-b"]), ("queryParams", ["q", "p"])] {
        if dice.below(4) == 0 {
            let (name, (kind, value)) = (pick(dice, &names), pick(dice, &VALUES));
            let _ = write!(text, ", {field}: [{{name: {name}, type: {kind}, value: {value}}}]");
        }
    }
    if dice.below(5) == 0 {
        let _ = write!(text, ", method: {}", pick(dice, &["GET", "POST"]));
    }
    text + "}"
}

/// Returns a root HTTPProxy that includes another one, and the markers. The root may have TLS, with or without its
/// certificate.
fn proxies(dice: &mut Dice, number: u64, may_have_tls: bool) -> Vec<String> {
    let proxy = |name: &str, spec: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\n\
             spec:\n{spec}"
        )
    };
    let marker = |host: &str, tls: &str| {
        format!(
            "  virtualhost: {{fqdn: {host}{tls}}}\n  routes:\n  - conditions: [{{exact: /configuration/{number}}}]\n    \
             services: [{{name: a, port: 8080}}]\n"
        )
    };
    let tls = if may_have_tls { pick(dice, &["", TLS, TLS, LOST_TLS]) } else { "" };
    let root = format!(
        "  virtualhost: {{fqdn: a.example{tls}}}\n  includes: [{{name: below, conditions: [{{prefix: /x}}]}}]\n  \
         routes:\n{}{}",
        proxy_route(dice),
        proxy_route(dice)
    );
    let below = format!("  routes:\n{}{}", proxy_route(dice), proxy_route(dice));
    let mut all = vec![proxy("marker", &marker(MARKER, "")), proxy("root", &root), proxy("below", &below)];
    if may_have_tls {
        all.push(proxy("secure-marker", &marker(&secure::marker(number), TLS)));
    }
    all
}

fn proxy_route(dice: &mut Dice) -> String {
    let path = pick(dice, &["prefix: /", "prefix: /x", "prefix: /y", "prefix: /1"]);
    let mut conditions = format!("{{{path}}}");
    let condition = pick(
        dice,
        &["", "present: true", "exact: '1'", "notexact: '1'", "contains: b", "regex: '[0-9]+'", "notpresent: true"],
    );
    if !condition.is_empty() {
        let _ = write!(conditions, ", {{header: {{name: x-a, {condition}}}}}");
    }
    if dice.below(4) == 0 {
        conditions.push_str(", {queryParameter: {name: q, exact: '1'}}");
    }
    if dice.one_in(6) {
        let response =
            pick(dice, &["statusCode: 200, body: all 100% of it", "statusCode: 403", "statusCode: 429, body: x"]);
        return format!("  - conditions: [{conditions}]\n    directResponsePolicy: {{{response}}}\n");
    }
    let to = pick(dice, &["a", "b", "c", "d", "gone"]);
    format!("  - conditions: [{conditions}]\n    services: [{{name: {to}, port: 8080}}]\n")
}
