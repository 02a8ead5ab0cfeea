//! Route matching: the rule that a request matches, and the precedence of several matching rules.

use anyhow::Result;
use holdfast_scenario_tests::manifests::{self, documents};
use holdfast_scenario_tests::request::{HttpRequest, get, request};
use holdfast_scenario_tests::{Story, World, stories};
use hyper::Method;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "matching",
        true,
        [
            exact_and_prefix_paths,
            longest_prefix_wins,
            regular_expressions,
            headers,
            query_parameters,
            methods,
            precedence_within_a_route,
            older_route_wins_then_name,
            hostnames,
        ]
    )
}

/// Each request reaches its backend; `-` means status 404.
async fn each_reaches(expected: &[(HttpRequest, &str)]) -> Result<()> {
    for (request, pod) in expected {
        if *pod == "-" {
            request.comes_to_answer(404).await?
        } else {
            request.comes_to_reach(pod).await?
        };
    }
    Ok(())
}

async fn exact_and_prefix_paths(world: World) -> Result<()> {
    let _backends = (world.backend("exact").await?, world.backend("prefix").await?);
    let port = world.gateway()?;
    world.route(
        "paths",
        r"rules:
- matches:
  - path: {type: PathPrefix, value: /one}
  backendRefs: [{name: prefix, port: 8080}]
- matches:
  - path: {type: Exact, value: /one}
  - path: {type: Exact, value: /other/}
  backendRefs: [{name: exact, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[
        (get(port, "/one"), "exact"),
        (get(port, "/one?a=b"), "exact"),
        (get(port, "/one/"), "prefix"),
        (get(port, "/one/two"), "prefix"),
        (get(port, "/one/two?/x"), "prefix"),
        (get(port, "/other/"), "exact"),
        (get(port, "/onetwo"), "-"),
        (get(port, "/One"), "-"),
        (get(port, "/other"), "-"),
        (get(port, "/"), "-"),
    ])
    .await
}

async fn longest_prefix_wins(world: World) -> Result<()> {
    let _backends = (world.backend("root").await?, world.backend("short").await?, world.backend("long").await?);
    let port = world.gateway()?;
    world.route(
        "prefixes",
        r"rules:
- backendRefs: [{name: root, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a/}
  backendRefs: [{name: short, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a/b/c}
  backendRefs: [{name: long, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[
        (get(port, "/"), "root"),
        (get(port, "/ab"), "root"),
        (get(port, "/a"), "short"),
        (get(port, "/a/b"), "short"),
        (get(port, "/a/b/cd"), "short"),
        (get(port, "/a/b/c"), "long"),
        (get(port, "/a/b/c/d"), "long"),
    ])
    .await
}

async fn regular_expressions(world: World) -> Result<()> {
    let _backends = (world.backend("exact").await?, world.backend("regex").await?, world.backend("root").await?);
    let port = world.gateway()?;
    world.route(
        "expressions",
        r"rules:
- matches:
  - path: {type: PathPrefix, value: /}
  backendRefs: [{name: root, port: 8080}]
- matches:
  - path: {type: RegularExpression, value: '/items/[0-9]+(/details)?'}
  backendRefs: [{name: regex, port: 8080}]
- matches:
  - path: {type: Exact, value: /items/42}
  backendRefs: [{name: exact, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[
        (get(port, "/items/7"), "regex"),
        (get(port, "/items/7/details?a=b"), "regex"),
        (get(port, "/items/42"), "exact"),
        (get(port, "/items/x"), "root"),
        (get(port, "/items/7/details/more"), "root"),
        (get(port, "/shop/items/7"), "root"),
    ])
    .await
}

async fn headers(world: World) -> Result<()> {
    let _backends = (
        world.backend("one").await?,
        world.backend("two").await?,
        world.backend("both").await?,
        world.backend("regex").await?,
    );
    let port = world.gateway()?;
    world.route(
        "headers",
        r"rules:
- matches:
  - headers: [{name: Version, value: one}]
  backendRefs: [{name: one, port: 8080}]
- matches:
  - headers: [{name: version, value: two}]
  backendRefs: [{name: two, port: 8080}]
- matches:
  - headers: [{name: version, value: two}, {name: color, value: orange}]
  - headers: [{name: color, value: blue}]
  backendRefs: [{name: both, port: 8080}]
- matches:
  - headers: [{name: build, type: RegularExpression, value: 'v[0-9]+'}]
  backendRefs: [{name: regex, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[
        (request(port).header("version", "one"), "one"),
        (request(port).header("VERSION", "two"), "two"),
        (request(port).header("version", "two").header("color", "orange"), "both"),
        (request(port).header("color", "blue"), "both"),
        (request(port).header("build", "v12"), "regex"),
        (request(port).header("build", "dev12"), "-"),
        (request(port).header("version", "Two"), "-"),
        (request(port).header("color", "orange"), "-"),
        (request(port), "-"),
    ])
    .await
}

async fn query_parameters(world: World) -> Result<()> {
    let _backends = (world.backend("whale").await?, world.backend("dolphin").await?, world.backend("both").await?);
    let port = world.gateway()?;
    world.route(
        "parameters",
        r"rules:
- matches:
  - queryParams: [{name: animal, value: whale}]
  backendRefs: [{name: whale, port: 8080}]
- matches:
  - queryParams: [{name: animal, type: RegularExpression, value: 'dolph.*'}]
  backendRefs: [{name: dolphin, port: 8080}]
- matches:
  - queryParams: [{name: animal, value: whale}, {name: color, value: blue}]
  backendRefs: [{name: both, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[
        (get(port, "/?animal=whale"), "whale"),
        (get(port, "/deep?x=1&animal=whale"), "whale"),
        (get(port, "/?animal=dolphins"), "dolphin"),
        (get(port, "/?color=blue&animal=whale"), "both"),
        (get(port, "/?color=blue"), "-"),
        (get(port, "/?Animal=whale"), "-"),
        (get(port, "/"), "-"),
    ])
    .await
}

async fn methods(world: World) -> Result<()> {
    let _backends = (world.backend("read").await?, world.backend("write").await?);
    let port = world.gateway()?;
    world.route(
        "methods",
        r"rules:
- matches: [{method: GET}]
  backendRefs: [{name: read, port: 8080}]
- matches: [{method: POST}, {method: PATCH, path: {type: PathPrefix, value: /patch}}]
  backendRefs: [{name: write, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[
        (request(port), "read"),
        (request(port).method(Method::POST).body("text"), "write"),
        (get(port, "/patch/1").method(Method::PATCH), "write"),
        (request(port).method(Method::PATCH), "-"),
        (request(port).method(Method::PUT), "-"),
    ])
    .await
}

/// Precedence: path, method, number of headers, number of query parameters, order.
async fn precedence_within_a_route(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["path", "method", "headers", "queries", "first", "second"] {
        backends.push(world.backend(name).await?);
    }
    let port = world.gateway()?;
    world.route(
        "order",
        r"rules:
- matches:
  - path: {type: PathPrefix, value: /a}
  backendRefs: [{name: first, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a}
  backendRefs: [{name: second, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a}
    queryParams: [{name: q, value: '1'}, {name: r, value: '1'}]
  backendRefs: [{name: queries, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a}
    headers: [{name: h, value: '1'}]
  backendRefs: [{name: headers, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a}
    method: PUT
  backendRefs: [{name: method, port: 8080}]
- matches:
  - path: {type: PathPrefix, value: /a/long}
  backendRefs: [{name: path, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let all = |path: &str| get(port, &format!("{path}?q=1&r=1")).header("h", "1").method(Method::PUT);
    each_reaches(&[
        (all("/a/long"), "path"),
        (all("/a"), "method"),
        (all("/a").method(Method::GET), "headers"),
        (get(port, "/a?q=1&r=1"), "queries"),
        (get(port, "/a?q=1"), "first"),
    ])
    .await
}

/// Equal matches of several routes: the older route takes precedence; of routes with equal age the first by
/// `namespace/name`.
async fn older_route_wins_then_name(world: World) -> Result<()> {
    let _backends = (world.backend("old").await?, world.backend("young").await?, world.backend("long").await?);
    let port = world.gateway()?;
    let route = |name: &str, created: &str, spec: &str| {
        manifests::http_route(name, spec).replacen(
            "metadata:",
            &format!("metadata:\n  creationTimestamp: \"{created}\""),
            1,
        )
    };
    let rule = |path: &str, backend: &str| {
        format!(
            "- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
        )
    };
    let both = |backend: &str| format!("rules:\n{}", rule("/age", backend));
    let named = |backend: &str| format!("rules:\n{}", rule("/name", backend));
    world.write(
        "routes.yaml",
        documents(&[
            route("a", "2026-02-01T00:00:00Z", &both("young")),
            route("b", "2026-01-01T00:00:00Z", &both("old")),
            route("c", "2026-02-01T00:00:00Z", &format!("rules:\n{}", rule("/age/longer", "long"))),
            route("n2", "2026-01-01T00:00:00Z", &named("young")),
            route("n1", "2026-01-01T00:00:00Z", &named("old")),
        ]),
    )?;
    let _holdfast = world.run().await?;
    each_reaches(&[(get(port, "/age"), "old"), (get(port, "/age/longer"), "long"), (get(port, "/name"), "old")]).await
}

/// A hostname without wildcard takes precedence over a wildcard, and a longer wildcard over a shorter one.
async fn hostnames(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["exact", "wide", "narrow", "any"] {
        backends.push(world.backend(name).await?);
    }
    let port = world.gateway()?;
    let rule = |backend: &str| format!("rules:\n- backendRefs: [{{name: {backend}, port: 8080}}]");
    let on = |hosts: &str, backend: &str| format!("hostnames: [{hosts}]\n{}", rule(backend));
    world.route("any", &rule("any"))?;
    world.route("exact", &on("one.shop.example.com, other.example.net", "exact"))?;
    world.route("wide", &on("'*.example.com'", "wide"))?;
    world.route("narrow", &on("'*.shop.example.com'", "narrow"))?;
    let _holdfast = world.run().await?;
    let host = |host: &str| request(port).host(host);
    each_reaches(&[
        (host("one.shop.example.com"), "exact"),
        (host("ONE.shop.example.com"), "exact"),
        (host("one.shop.example.com:8080"), "exact"),
        (host("other.example.net"), "exact"),
        (host("two.shop.example.com"), "narrow"),
        (host("a.b.shop.example.com"), "narrow"),
        (host("shop.example.com"), "wide"),
        (host("example.com"), "any"),
        (host("something.else"), "any"),
    ])
    .await
}
