//! Claims that only a last valid version makes, a hostname or a path: all current claims take precedence over them.
//! TLS options of a listener, which never allow more than the current ones.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{listener, route};
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories, until};

use super::{BACKFILL, SAMPLE, comes_to_blame, comes_to_serve, good, request, rule, serves};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::claims",
        true,
        [hostname_of_a_route, hostname_of_a_listener, path_that_was_given_up, tls_options_of_a_listener]
    )
}

/// Writes a route for one host.
fn at(world: &World, name: &str, host: &str, spec: &str) -> Result<()> {
    let spec = format!("hostnames: ['{host}']\n{spec}");
    world.write(&format!("{name}.yaml"), route("HTTPRoute", "default", name, "- {name: public}", &spec))
}

async fn hostname_of_a_route(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    world.gateway_with(&listener("all", port, "protocol: HTTP"))?;
    at(&world, "cart", "cart.example", &good("/cart", "one"))?;
    let options = HoldfastOptions::new(&world)?.args(&BACKFILL);
    let holdfast = world.run_with(options.clone()).await?;
    let cart = request(port, "/cart").host("cart.example");
    let comes_to = |version: &'static str| cart.comes_to(version, move |reply| reply.header("x-version") == version);
    comes_to("one").await?;

    at(&world, "cart", "cart_!", &good("/cart", "two"))?;
    comes_to_blame(&holdfast, "translation", ["cart"]).await?;
    for _ in 0..30 {
        let reply = cart.answers(200).await?;
        ensure!(reply.header("x-version") == "one", "{reply:?}");
    }
    // The current claim of another route takes precedence, and the other paths of the host stay.
    at(&world, "other", "cart.example", &good(&format!("/cart/{SAMPLE}"), "other"))?;
    comes_to("other").await?;
    let reply = get(port, "/cart/elsewhere").host("cart.example").answers(200).await?;
    ensure!(reply.header("x-version") == "one", "{reply:?}");
    world.delete("other.yaml")?;
    comes_to("one").await?;

    holdfast.terminate().await?.expect_code(0)?;
    let holdfast = world.run_with(options).await?;
    comes_to("one").await?;
    comes_to_blame(&holdfast, "translation", ["cart"]).await?;
    at(&world, "cart", "cart.example", &good("/cart", "two"))?;
    comes_to("two").await?;
    comes_to_blame(&holdfast, "translation", []).await?;
    at(&world, "cart", "cart_!", &good("/cart", "three"))?;
    comes_to_blame(&holdfast, "translation", ["cart"]).await?;
    // The current wildcard claim of another route takes precedence over a hostname that only the last valid version
    // claims.
    at(&world, "wild", "*.example", &good("/", "wild"))?;
    comes_to("wild").await?;
    world.delete("cart.yaml")?;
    get(port, "/cart/elsewhere")
        .host("cart.example")
        .comes_to("wild", |reply| reply.header("x-version") == "wild")
        .await?;
    Ok(())
}

/// A path that the desired version does not claim any more: the last valid version serves it until another route, even
/// a newer one, claims it. The desired version keeps the paths that it still claims.
async fn path_that_was_given_up(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let rules = |path: &str, version: &str| {
        format!("rules:\n{}{}", rule("PathPrefix", path, version), rule("PathPrefix", "/kept", version))
    };
    let both = |version: &str| rules("/given", version);
    world.route("cart", &both("one"))?;
    let options = HoldfastOptions::new(&world)?.args(&BACKFILL);
    let holdfast = world.run_with(options.clone()).await?;
    comes_to_serve(port, "/given", "one").await?;
    let kept = Hammer::start([request(port, "/kept")]);
    let mistake = rules("/moved", "two").replacen("name: x-version", "name: 'x version'", 1);
    world.route("cart", &mistake)?;
    comes_to_blame(&holdfast, "translation", ["cart"]).await?;
    serves(port, "/given", "one").await?;
    serves(port, "/kept", "one").await?;
    world.route("young", &both("young"))?;
    comes_to_serve(port, "/given", "young").await?;
    serves(port, "/kept", "one").await?;
    // A broader current claim takes precedence too, also after a restart.
    world.route("young", &good("/", "broad"))?;
    comes_to_serve(port, "/given", "broad").await?;
    serves(port, "/kept", "one").await?;
    kept.stop_expecting(Shot::is_ok).await?;
    holdfast.terminate().await?.expect_code(0)?;
    let _holdfast = world.run_with(options).await?;
    comes_to_serve(port, "/given", "broad").await?;
    serves(port, "/kept", "one").await?;
    world.delete("route-young.yaml")?;
    comes_to_serve(port, "/given", "one").await?;
    world.route("cart", &both("three"))?;
    comes_to_serve(port, "/given", "three").await?;
    Ok(())
}

async fn hostname_of_a_listener(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let host = |name: &str, host: &str| listener(name, port, &format!("protocol: HTTP\nhostname: \"{host}\""));
    let narrow = |name: &str| format!("{}{}", host("narrow", name), host("wild", "*.example"));
    world.gateway_with(&narrow("a.example"))?;
    let own = |section: &str, version: &str| {
        let parent = format!("- {{name: public, sectionName: {section}}}");
        world.write(&format!("{section}.yaml"), route("HTTPRoute", "default", section, &parent, &good("/", version)))
    };
    own("narrow", "narrow")?;
    own("wild", "wild")?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let a = request(port, "").host("a.example");
    let comes_to = |version: &'static str| a.comes_to(version, move |reply| reply.header("x-version") == version);
    comes_to("narrow").await?;

    world.gateway_with(&narrow("a_.example"))?;
    comes_to_blame(&holdfast, "translation", ["public"]).await?;
    // The routes of the listener are the current ones.
    own("narrow", "newer")?;
    comes_to("newer").await?;
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(report["backfilledObjects"][0]["section"] == "listeners[narrow]", "{report}");
    let health = holdfast.diagnostics("/debug/health").await?;
    ensure!(health["outages"].as_array().is_some_and(Vec::is_empty), "{health}");
    ensure!(health["degraded"][0]["served"][0]["section"] == "listeners[0]", "{health}");

    world.gateway_with(&format!("{}{}", narrow("a_.example"), host("new", "a.example")))?;
    own("new", "new")?;
    comes_to("new").await?;
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    let left_out = &report["excludedObjects"][0];
    ensure!(left_out["section"] == "listeners[narrow]" && left_out["scope"] == "listener", "{report}");
    ensure!(report["backfilledObjects"].as_array().is_some_and(Vec::is_empty), "{report}");

    world.gateway_with(&narrow("a.example"))?;
    comes_to("newer").await?;
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(report["status"] == "not-triggered", "{report}");
    Ok(())
}

/// Writes a Gateway with one HTTPS listener and its lowest version of TLS.
fn with_least(world: &World, port: u16, least: &str) -> Result<()> {
    let options = format!("options: {{kgateway.dev/min-tls-version: \"{least}\"}}");
    let tls = format!("protocol: HTTPS\nhostname: one.example\ntls: {{certificateRefs: [{{name: one}}], {options}}}\n");
    world.gateway_with(&listener("one", port, &tls))
}

/// A client of TLS 1.2 is refused where 1.3 is required, also while the required version cannot be read.
async fn tls_options_of_a_listener(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let certificate = Certificate::of(&["one.example"])?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("default", "one"))?;
    with_least(&world, port, "1.2")?;
    at(&world, "cart", "one.example", &good("/cart", "one"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let trust = certificate.trust("one.example");
    let cart = request(port, "/cart").host("one.example").tls(trust.clone());
    let old = request(port, "/cart").host("one.example").tls(trust.only_12());
    let is_served = |reply: &Reply| reply.header("x-version") == "one";
    let refused = async |request: &HttpRequest| {
        ensure!(request.connect().await.is_err(), "a client is served");
        anyhow::Ok(())
    };
    cart.comes_to("the route", is_served).await?;
    old.comes_to("the route", is_served).await?;
    with_least(&world, port, "1.3")?;
    until("clients of TLS 1.2 are refused", || refused(&old)).await?;
    cart.comes_to("the route", is_served).await?;
    // The value of the last valid version is in force, which no value is stricter than.
    with_least(&world, port, "TLSv1.3")?;
    comes_to_blame(&holdfast, "translation", ["public"]).await?;
    refused(&old).await?;
    cart.answers(200).await?;
    with_least(&world, port, "1.2")?;
    old.comes_to("the route", is_served).await?;
    // What was meant may be 1.3, which the last valid version did not require.
    with_least(&world, port, "TLSv1.3")?;
    until("connections are refused", || refused(&cart)).await?;
    refused(&old).await
}
