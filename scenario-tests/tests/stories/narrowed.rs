//! Invalid matches: requests for them never fall through to a broader route. Covers regular expressions for paths,
//! headers, query parameters and gRPC methods, each in a route that differs from the broader one by path prefix, by
//! host only, or by a header only. Some expressions are invalid; others are refused only by Envoy.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::small_binary;
use holdfast_scenario_tests::grpc::call;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{NAMESPACE, grpc_route, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};
use hyper::Method;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "narrowed",
        true,
        [
            invalid_under_no_gate,
            invalid_and_isolated,
            invalid_with_last_valid_versions,
            refused_under_no_gate,
            refused_and_isolated,
            refused_with_last_valid_versions,
        ]
    )
}

/// Number of changes of all routes without waiting between them.
const HASTY: usize = 10;
/// The header with the name of the case.
const MARK: &str = "x-case";

/// A regular expression: one that every Envoy accepts, and a bad variant.
#[derive(Clone, Copy)]
struct Expressions {
    good: &'static str,
    bad: &'static str,
}

/// An unclosed bracket.
const INVALID: Expressions = Expressions { good: "[a-z]+", bad: "[a-z" };
/// Larger than Envoy's default limit, and smaller than Holdfast's.
const REFUSED: Expressions = Expressions { good: "[a-z]+", bad: "([a-z]{1,400})" };

/// The invalid part of a rule, and the difference between the rule and the broader one. `$` is the expression.
const CASES: [(&str, &str); 9] = [
    ("path-by-prefix", "path: {type: RegularExpression, value: '/shop/$'}"),
    ("header-by-prefix", "path: {value: /shop}, headers: [{name: x-a, type: RegularExpression, value: '$'}]"),
    ("query-by-prefix", "path: {value: /shop}, queryParams: [{name: a, type: RegularExpression, value: '$'}]"),
    ("path-by-host", "path: {type: RegularExpression, value: '(/shop|/cart)/$'}"),
    ("header-by-host", "headers: [{name: x-a, type: RegularExpression, value: '$'}]"),
    ("query-by-host", "queryParams: [{name: a, type: RegularExpression, value: '$'}]"),
    ("path-by-header", "path: {type: RegularExpression, value: '/shop/$'}, headers: [{name: x-b, value: b}]"),
    ("header-by-header", "headers: [{name: x-a, type: RegularExpression, value: '$'}]"),
    (
        "query-by-header",
        "headers: [{name: x-b, value: b}], queryParams: [{name: a, type: RegularExpression, value: '$'}]",
    ),
];
/// The cases of gRPC calls.
const CALLS: [(&str, &str); 2] = [
    ("method", "method: {type: RegularExpression, service: 'shop\\.C$', method: 'GetA$'}"),
    (
        "call-header",
        "method: {service: shop.Cart, method: GetAll}, headers: [{name: x-a, type: RegularExpression, value: '$'}]",
    ),
];

/// Returns the host of a case: HTTPRoutes and GRPCRoutes cannot share hosts, wildcards included.
fn host(case: &str) -> String {
    let calls = CALLS.iter().any(|(call, _)| *call == case);
    format!("{case}.{}", if calls { "calls" } else { "example" })
}

/// Writes the routes of all cases with this expression.
fn write(world: &World, expression: &str) -> Result<()> {
    let rules = |matches: &str, to: &str| {
        let matches = matches.replace('$', expression);
        format!("rules:\n- matches: [{{{matches}}}]\n  backendRefs: [{{name: {to}, port: 8080}}]")
    };
    for (case, matches) in CASES {
        let spec = format!("hostnames: [{}]\n{}", host(case), rules(matches, "narrow"));
        world.write(&format!("{case}.yaml"), http_route(case, &spec))?;
    }
    for (case, matches) in CALLS {
        let spec = format!("hostnames: [{}]\n{}", host(case), rules(matches, "narrow-calls"));
        world.write(&format!("{case}.yaml"), grpc_route(case, &spec))?;
    }
    Ok(())
}

/// Writes the broader routes: with the same host, or with a wildcard where a case differs only by host.
fn write_broad(world: &World) -> Result<()> {
    let hosts = |cases: &[(&str, &str)]| -> String {
        let same = cases.iter().filter(|(case, _)| !case.ends_with("by-host"));
        same.map(|(case, _)| host(case)).collect::<Vec<_>>().join(", ")
    };
    let spec =
        |hosts: &str, to: &str| format!("hostnames: [{hosts}]\nrules:\n- backendRefs: [{{name: {to}, port: 8080}}]");
    world.write("broad.yaml", http_route("broad", &spec(&format!("{}, '*.example'", hosts(&CASES)), "broad")))?;
    world.write("broad-calls.yaml", grpc_route("broad-calls", &spec(&hosts(&CALLS), "broad-calls")))
}

/// Returns a request that matches the route of any HTTP case.
fn request(port: u16, case: &str) -> HttpRequest {
    let request = get(port, "/shop/abc?a=abc").host(&host(case));
    request.header("x-a", "abc").header("x-b", "b").header(MARK, case)
}

/// Returns a gRPC call as an HTTP request, for the hammer; the backends record which one receives it.
fn called(port: u16, case: &str) -> HttpRequest {
    let request = get(port, "/shop.Cart/GetAll").host(&host(case)).method(Method::POST).http2();
    request.header("content-type", "application/grpc").header("te", "trailers").header("x-a", "abc").header(MARK, case)
}

/// The expected outcome of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comes {
    /// Its own backend answers.
    Served,
    /// No backend answers.
    Closed,
}

async fn each(port: u16, comes: Comes) -> Result<()> {
    for (case, _) in CASES {
        let request = request(port, case);
        match comes {
            Comes::Served => request.comes_to_reach("narrow").await.map(drop),
            Comes::Closed => request.comes_to("no backend answers", |reply| reply.pod().is_err()).await.map(drop),
        }
        .context(case)?;
    }
    for (case, _) in CALLS {
        let call = call(port, "shop.Cart/GetAll").host(&host(case)).header("x-a", "abc").header(MARK, case);
        match comes {
            Comes::Served => call.comes_to_reach("narrow-calls").await.map(drop),
            Comes::Closed => {
                until("no backend answers", || async {
                    let called = call.make().await?;
                    ensure!(called.pod().is_err(), "{called:?}");
                    Ok(())
                })
                .await
            }
        }
        .context(case)?;
    }
    Ok(())
}

/// Waits until the fallback report is final and shows whether anything is broken.
async fn comes_to_report(holdfast: &Holdfast, broken: bool) -> Result<()> {
    until("it tells what is broken", || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let gateways = report["gateways"].as_array().context("no Gateways")?;
        let is = |state: &str| gateways.iter().any(|gateway| gateway["state"] == state);
        let reported = report["status"] == "triggered" || is("held");
        ensure!(reported == broken && !is("trying") && !is("probing"), "{report}");
        Ok(())
    })
    .await
}

/// If `closed`, invalid routes are closed, and no stand-in version is served.
async fn good_and_bad_edits(
    world: World,
    flags: &[&str],
    expressions: Expressions,
    closed: bool,
    from_the_start: bool,
) -> Result<()> {
    let (_narrow, broad) = (world.backend("narrow").await?, world.backend("broad").await?);
    let calls = |name| world.backend_in(NAMESPACE, name, Some("kubernetes.io/h2c"));
    let (_narrow_calls, broad_calls) = (calls("narrow-calls").await?, calls("broad-calls").await?);
    let port = world.gateway()?;
    write_broad(&world)?;
    let binary = small_binary(&world)?.display().to_string();
    let options = HoldfastOptions::new(&world)?.args(flags).env("ENVOY_BIN", &binary);
    write(&world, if from_the_start { expressions.bad } else { expressions.good })?;
    let holdfast = world.run_with(options).await?;
    get(port, "/other").host("path-by-prefix.example").comes_to_reach("broad").await?;
    each(port, if from_the_start { Comes::Closed } else { Comes::Served }).await?;
    let requests = || CASES.into_iter().map(move |(case, _)| request(port, case));
    let hammers = [Hammer::start(requests().take(3)), Hammer::start_kept_in_turn(requests())];
    let callers = Hammer::start_kept_in_turn(CALLS.into_iter().map(move |(case, _)| called(port, case)));
    for _ in 0..2 {
        write(&world, expressions.good)?;
        each(port, Comes::Served).await?;
        comes_to_report(&holdfast, false).await?;
        write(&world, expressions.bad)?;
        comes_to_report(&holdfast, true).await?;
        if closed {
            each(port, Comes::Closed).await?;
        }
        for hammer in hammers.iter().chain([&callers]) {
            hammer.goes_on(10).await?;
        }
    }
    for edit in 0..HASTY {
        write(&world, if edit % 2 == 0 { expressions.good } else { expressions.bad })?;
        hammers[1].goes_on(3).await?;
    }
    write(&world, expressions.good)?;
    each(port, Comes::Served).await?;
    for hammer in hammers {
        let own = |shot: &Shot| !shot.passed() || matches!(shot, Shot::Answer { pod, .. } if pod == "narrow");
        hammer.stop_expecting(own).await?;
    }
    callers.stop().await;
    for (name, broad) in [("routes", broad), ("calls", broad_calls)] {
        let misrouted = broad.count(|seen| !seen.request.header(MARK).is_empty());
        ensure!(misrouted == 0, "{misrouted} requests reached the backend of the broader {name}");
    }
    Ok(())
}

const ISOLATED: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true"];
const LAST_VALID: [&str; 3] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true"];

async fn invalid_under_no_gate(world: World) -> Result<()> {
    good_and_bad_edits(world, &[], INVALID, true, true).await
}

async fn invalid_and_isolated(world: World) -> Result<()> {
    good_and_bad_edits(world, &ISOLATED, INVALID, true, true).await
}

async fn invalid_with_last_valid_versions(world: World) -> Result<()> {
    good_and_bad_edits(world, &LAST_VALID, INVALID, false, true).await
}

/// The Gateway is held at its previous configuration, which does not have new routes; therefore the story begins with
/// valid routes.
async fn refused_under_no_gate(world: World) -> Result<()> {
    good_and_bad_edits(world, &["--probe", "off"], REFUSED, false, false).await
}

async fn refused_and_isolated(world: World) -> Result<()> {
    good_and_bad_edits(world, &ISOLATED, REFUSED, true, true).await
}

async fn refused_with_last_valid_versions(world: World) -> Result<()> {
    good_and_bad_edits(world, &LAST_VALID, REFUSED, false, false).await
}
