//! Order of matches: random broken matches beside random valid ones, in one host or in a host and its wildcard, requests
//! at the borders of their paths.
//!
//! No request that the readable part of a broken match covers is answered by the backend of another route, unless that
//! route is strictly narrower, or precedes the match as it is written. An equal match of another route is no exception
//! for a guarded rule. No request outside the readable part is answered by the placeholder, and a strictly narrower
//! route keeps its requests.
//!
//! [`holdfast_test_support::matches`] makes the matches and judges the answers. The story `order::random_matches` sends a
//! sample of the requests through a real Envoy. `HOLDFAST_SEEDS=100000` tries more matches.

use holdfast_api::settings::Settings;
use holdfast_engine::engine::Engine;
use holdfast_test_support as testing;
use holdfast_test_support::matches::{MatchApi, MatchPlace, MatchRequest, MatchTrio, host, universe};
use holdfast_xds::{ResourceType, to_json};
use serde_json::Value;

use super::matcher;
use super::trace::RoutedRequest;

/// Default number of hosts for each API; each has one broken match and two valid ones.
const HOSTS: u64 = 200;
/// Hosts of one engine.
const HOSTS_AT_ONCE: u64 = 100;

const PLACE: MatchPlace<'_> = MatchPlace { namespace: "shop", gateway: ("infra", "public"), port: 80 };

fn table(engine: &Engine) -> (Vec<Value>, u64) {
    let mut found = Vec::new();
    for view in engine.gateways() {
        let Some(snapshot) = engine.fleet(&view.name) else { continue };
        found.extend(snapshot.of(ResourceType::Route).values().map(|r| to_json(ResourceType::Route, &r.body)));
    }
    (found, 8080)
}

fn routed(request: &MatchRequest, host: &str) -> RoutedRequest {
    let MatchRequest { method, path, query, headers } = request.clone();
    RoutedRequest { method, host: host.to_owned(), path, query, headers }
}

/// Checks the matches of an API, and prints their number.
fn check(api: MatchApi) {
    let hosts = std::env::var("HOLDFAST_SEEDS").map_or(HOSTS, |seeds| seeds.parse().unwrap());
    let base = match api {
        MatchApi::HttpRoute | MatchApi::GrpcRoute => "include/shop.yaml",
        MatchApi::HttpProxy => "include/services.yaml",
    };
    let base = std::fs::read_to_string(super::folder().join(base)).unwrap();
    let universe = universe(api);
    let (mut wrong, mut requests) = (Vec::new(), 0);
    for from in (0..hosts).step_by(usize::try_from(HOSTS_AT_ONCE).unwrap()) {
        let trios: Vec<(u64, MatchTrio)> =
            (from..(from + HOSTS_AT_ONCE).min(hosts)).map(|seed| (seed, MatchTrio::random(seed, api))).collect();
        let text = trios.iter().fold(base.clone(), |text, (seed, trio)| text + &trio.documents(*seed, api, &PLACE));
        let mut engine = Engine::new(Settings::standalone());
        engine.handle(testing::documents(&text).into_iter().filter_map(testing::event).collect());
        let (tables, port) = table(&engine);
        for (seed, trio) in &trios {
            let host = host(*seed);
            let domain = format!("d{seed}.example.com\"");
            let is_its = |table: &&Value| table["virtualHosts"].to_string().contains(&domain);
            let table = tables.iter().find(is_its).unwrap_or_else(|| panic!("{api:?} {seed}: no host"));
            for request in &universe {
                requests += 1;
                let answer = matcher::answer(table, &routed(request, &host), false, port);
                let by = ["a", "b", "c"].into_iter().find(|to| answer.contains(&format!("service/shop/{to}/80")));
                if let Some(why) = trio.judge(by, request, &universe, api) {
                    wrong.push(format!("seed {seed} {trio:?}: {request:?} → {answer}: {why}"));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {hosts} hosts:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    println!("{api:?}: {hosts} triples, {} pairs of a broken match and a valid one, {requests} requests", 2 * hosts);
}

#[test]
fn matches_of_http_routes() {
    check(MatchApi::HttpRoute);
}

#[test]
fn matches_of_grpc_routes() {
    check(MatchApi::GrpcRoute);
}

#[test]
fn matches_of_http_proxies() {
    check(MatchApi::HttpProxy);
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
