//! gRPC: calls matched by service, method and header.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::grpc::call;
use holdfast_scenario_tests::manifests::grpc_route;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, manifests, stories, until};

/// `grpc-status` of a call without a matching rule, and of a call with a missing backend.
const UNIMPLEMENTED: i32 = 12;
const UNAVAILABLE: i32 = 14;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "grpc",
        true,
        [
            services_and_methods,
            headers,
            weights_and_missing_backends,
            over_tls,
            backend_protocols,
            a_typo_with_default_gates,
            a_typo_that_is_isolated,
        ]
    )
}

async fn services_and_methods(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["method", "service", "any-service", "regex"] {
        backends.push(world.backend_in("default", name, Some("kubernetes.io/h2c")).await?);
    }
    let port = world.gateway()?;
    world.write(
        "calls.yaml",
        grpc_route(
            "calls",
            r"rules:
- matches: [{method: {service: shop.Cart}}]
  backendRefs: [{name: service, port: 8080}]
- matches: [{method: {service: shop.Cart, method: Add}}]
  backendRefs: [{name: method, port: 8080}]
- matches: [{method: {method: Ping}}]
  backendRefs: [{name: any-service, port: 8080}]
- matches: [{method: {type: RegularExpression, service: 'stock\.v[0-9]+\..*', method: 'Get.+'}}]
  backendRefs: [{name: regex, port: 8080}]",
        ),
    )?;
    let _holdfast = world.run().await?;
    for (method, pod) in [
        ("shop.Cart/Add", "method"),
        ("shop.Cart/Remove", "service"),
        ("stock.v1.Shelf/Ping", "any-service"),
        ("stock.v2.Shelf/GetAll", "regex"),
    ] {
        call(port, method).comes_to_reach(pod).await?;
    }
    for method in ["shop.Carts/Add", "stock.v1.Shelf/Get", "stock.vx.Shelf/GetAll"] {
        let called = call(port, method).make().await?;
        ensure!(called.status == UNIMPLEMENTED, "{method}: {called:?}");
    }
    // A request that is not a POST of a method does not match.
    get(port, "/").answers(404).await?;
    Ok(())
}

async fn headers(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["one", "two", "both"] {
        backends.push(world.backend_in("default", name, Some("kubernetes.io/h2c")).await?);
    }
    let port = world.gateway()?;
    world.write(
        "calls.yaml",
        grpc_route(
            "calls",
            r"rules:
- matches: [{headers: [{name: version, value: one}]}]
  backendRefs: [{name: one, port: 8080}]
- matches: [{headers: [{name: version, value: 'tw.', type: RegularExpression}]}]
  backendRefs: [{name: two, port: 8080}]
- matches: [{headers: [{name: version, value: two}, {name: color, value: orange}]}]
  filters:
  - type: RequestHeaderModifier
    requestHeaderModifier: {set: [{name: x-set, value: '1'}]}
  backendRefs: [{name: both, port: 8080}]",
        ),
    )?;
    let _holdfast = world.run().await?;
    call(port, "a.B/C").header("version", "one").comes_to_reach("one").await?;
    call(port, "a.B/C").header("version", "two").comes_to_reach("two").await?;
    let both = call(port, "a.B/C").header("version", "two").header("color", "orange").comes_to_reach("both").await?;
    let seen = both.echo.map(|echo| echo.answer).unwrap_or_default();
    ensure!(seen.contains("\"X-Set\":[\"1\"]"), "{seen}");
    ensure!(call(port, "a.B/C").make().await?.status == UNIMPLEMENTED);
    Ok(())
}

async fn weights_and_missing_backends(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["left", "right"] {
        backends.push(world.backend_in("default", name, Some("kubernetes.io/h2c")).await?);
    }
    let port = world.gateway()?;
    world.write(
        "calls.yaml",
        grpc_route(
            "calls",
            r"rules:
- matches: [{method: {service: a.Weighted}}]
  backendRefs:
  - {name: left, port: 8080, weight: 3}
  - {name: right, port: 8080, weight: 1}
- matches: [{method: {service: a.Missing}}]
  backendRefs: [{name: missing, port: 8080}]
- matches: [{method: {service: a.Half}}]
  backendRefs: [{name: missing, port: 8080}, {name: left, port: 8080}]",
        ),
    )?;
    let _holdfast = world.run().await?;
    let (mut left, mut right) = (0, 0);
    let weighted = call(port, "a.Weighted/Do");
    holdfast_scenario_tests::until("the call is answered", || async {
        ensure!(weighted.make().await?.status == 0);
        Ok(())
    })
    .await?;
    for _ in 0..160 {
        match weighted.make().await?.pod()?.as_str() {
            "left" => left += 1,
            _ => right += 1,
        }
    }
    ensure!((85..=150).contains(&left) && right >= 10, "{left} left, {right} right");
    let missing = call(port, "a.Missing/Do").make().await?;
    ensure!(missing.status == UNAVAILABLE, "Gateway API wants UNAVAILABLE: {missing:?}");
    let mut statuses = std::collections::BTreeSet::new();
    for _ in 0..60 {
        statuses.insert(call(port, "a.Half/Do").make().await?.status);
    }
    ensure!(statuses == [0, UNAVAILABLE].into(), "{statuses:?}");
    Ok(())
}

async fn over_tls(world: World) -> Result<()> {
    let _echo = world.backend_in("default", "echo", Some("kubernetes.io/h2c")).await?;
    let certificate = Certificate::of(&["grpc.example"])?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("default", "grpc"))?;
    world.gateway_with(&manifests::https_listener("grpc", port, "grpc.example", &["grpc"]))?;
    world.write("calls.yaml", grpc_route("calls", "rules:\n- backendRefs: [{name: echo, port: 8080}]"))?;
    let _holdfast = world.run().await?;
    call(port, "a.B/C").host("grpc.example").tls(certificate.trust("grpc.example")).comes_to_reach("echo").await?;
    Ok(())
}

/// Backends of a GRPCRoute use HTTP/2, whatever the Service specifies; backends of an HTTPRoute only where the Service
/// specifies it.
async fn backend_protocols(world: World) -> Result<()> {
    let _backends = (
        world.backend_in("default", "silent", None).await?,
        world.backend_in("default", "plain", None).await?,
        world.backend_in("default", "h2c", Some("kubernetes.io/h2c")).await?,
    );
    let port = world.gateway()?;
    world.write(
        "calls.yaml",
        grpc_route("calls", "hostnames: [grpc.example]\nrules:\n- backendRefs: [{name: silent, port: 8080}]"),
    )?;
    world.route(
        "requests",
        r"hostnames: [http.example]
rules:
- matches: [{path: {type: PathPrefix, value: /plain}}]
  backendRefs: [{name: plain, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /h2c}}]
  backendRefs: [{name: h2c, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let plain = get(port, "/plain").host("http.example").comes_to_reach("plain").await?.echo()?;
    ensure!(plain.proto == "HTTP/1.1", "{plain:?}");
    let h2c = get(port, "/h2c").host("http.example").comes_to_reach("h2c").await?.echo()?;
    ensure!(h2c.proto == "HTTP/2.0", "{h2c:?}");
    call(port, "a.B/C").host("grpc.example").comes_to_reach("silent").await?;
    Ok(())
}

/// The header of calls that only the rule with the regular expression matches as written.
const MARK: &str = "x-narrow";

/// A typo in the regular expression of a rule, beside a route of another owner for the whole service: calls of the rule
/// never reach the backend of the other owner, and its own calls go on.
async fn typos(world: World, flags: &[&str]) -> Result<()> {
    let _narrow = world.backend_in("default", "narrow", Some("kubernetes.io/h2c")).await?;
    let broad = world.backend_in("default", "broad", Some("kubernetes.io/h2c")).await?;
    let port = world.gateway()?;
    let write_narrow = |method: &str| {
        let spec = format!(
            "rules:\n- matches: [{{method: {{type: RegularExpression, service: 'shop\\.Cart', method: '{method}'}}}}]\n  \
             backendRefs: [{{name: narrow, port: 8080}}]"
        );
        world.write("narrow.yaml", grpc_route("narrow", &spec))
    };
    let spec = "rules:\n- matches: [{method: {service: shop.Cart}}]\n  backendRefs: [{name: broad, port: 8080}]";
    world.write("broad.yaml", grpc_route("broad", spec))?;
    write_narrow("Get[0-9]+")?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(flags)).await?;
    let narrow_call = || call(port, "shop.Cart/Get5").header(MARK, "1");
    call(port, "shop.Cart/Put").comes_to_reach("broad").await?;
    narrow_call().comes_to_reach("narrow").await?;
    // Before the first call of the rule is answered, only the other route may be served.
    broad.forget();
    for _ in 0..2 {
        write_narrow("Get[0-9+")?;
        until("calls of the broken rule are answered by its placeholder", || async {
            let called = narrow_call().make().await?;
            ensure!(called.status == UNIMPLEMENTED && called.echo.is_none(), "{called:?}");
            Ok(())
        })
        .await?;
        call(port, "shop.Cart/Put").comes_to_reach("broad").await?;
        write_narrow("Get[0-9]+")?;
        narrow_call().comes_to_reach("narrow").await?;
    }
    let reached = broad.count(|seen| !seen.request.header(MARK).is_empty());
    ensure!(reached == 0, "{reached} calls of the rule reached the backend of the other owner");
    Ok(())
}

async fn a_typo_with_default_gates(world: World) -> Result<()> {
    typos(world, &[]).await
}

async fn a_typo_that_is_isolated(world: World) -> Result<()> {
    typos(world, &["--feature-gates", "FallbackConfiguration=true"]).await
}
