//! Extensions that authorize requests: an earlier version is served only if it protects as much as the desired one.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, http_route, service};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, REFUSED};
use holdfast_scenario_tests::services::tokens::TokenMaker;
use holdfast_scenario_tests::{Hammer, Story, World, stories};

use super::protected::policy_text;
use super::trials::{SHORT_KEY, extension};
use super::{BACKFILL, LARGE, SAMPLE, comes_to_blame, comes_to_find, comes_to_serve, good, refused, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::laxer",
        true,
        [
            one_that_let_requests_pass,
            a_policy_with_a_permissive_extension,
            keys_of_before,
            an_extension_with_the_same_checks_goes_back,
            an_extension_with_the_same_checks_beside_a_refused_rule,
        ]
    )
}

/// Number of requests that are sent once something is closed.
const AGAIN: usize = 20;

/// Returns the extension `auth` over HTTP, with its server at this address.
fn auth_extension(address: SocketAddr, http: &str, more: &str) -> String {
    let spec = format!("extAuth: {{httpService: {{backendRef: {{name: auth, port: 8080}}{http}}}{more}}}");
    documents(&[service("default", "auth", None, &[address]), extension("auth", &spec)])
}

async fn comes_to_be_closed(request: &HttpRequest) -> Result<()> {
    request.comes_to("it is closed", |reply| matches!(reply.status.as_u16(), 403 | 404 | 500)).await?;
    for _ in 0..AGAIN {
        let reply = request.send().await?;
        ensure!(matches!(reply.status.as_u16(), 403 | 404 | 500), "open again: {reply:?}");
    }
    Ok(())
}

/// The server does not answer, and the earlier version allows requests in this case; the desired version denies them,
/// and has a mistake.
async fn one_that_let_requests_pass(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    // No server listens at this port.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], world.port()?));
    world.route("cart", &good("/cart", "1"))?;
    world.route("neighbour", &good("/neighbour", "1"))?;
    world.write("policy.yaml", policy_text("guard", "cart", "extAuth: {extensionRef: {name: auth}}"))?;
    let lax = || world.write("auth.yaml", auth_extension(nowhere, "", ", failOpen: true"));
    lax()?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    let request = get(port, &format!("/cart/{SAMPLE}"));
    comes_to_serve(port, "/cart", "1").await?;
    comes_to_serve(port, "/neighbour", "1").await?;
    let neighbour = Hammer::start([get(port, &format!("/neighbour/{SAMPLE}"))]);
    let header = ", authorizationRequest: {headersToAdd: {x-from: '%NOSUCH%'}}";
    for (http, more) in [("", ", failOpen: false, statusOnError: 7"), (header, "")] {
        world.write("auth.yaml", auth_extension(nowhere, http, more))?;
        comes_to_blame(&holdfast, "translation", ["auth"]).await?;
        comes_to_be_closed(&request).await?;
        lax()?;
        comes_to_serve(port, "/cart", "1").await?;
    }
    neighbour.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// The earlier version of the policy refers to an extension that allows requests; the current version refers to a
/// stricter one, and has a mistake.
async fn a_policy_with_a_permissive_extension(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], world.port()?));
    let strict = extension("strict", "extAuth: {httpService: {backendRef: {name: auth, port: 8080}}}");
    world.write("auth.yaml", documents(&[auth_extension(nowhere, "", ", failOpen: true"), strict]))?;
    let policy = |extension: &str, more: &str| {
        let spec = format!("extAuth: {{extensionRef: {{name: {extension}}}}}\n  {more}");
        world.write("policy.yaml", policy_text("guard", "cart", &spec))
    };
    world.route("cart", &good("/cart", "1"))?;
    policy("auth", "")?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to_serve(port, "/cart", "1").await?;
    let request = get(port, &format!("/cart/{SAMPLE}"));
    let refused = format!("urlRewrite: {{pathRegex: {{pattern: '^/cart/{LARGE}', substitution: /served}}}}");
    for (mistake, found_by) in [("timeouts: {request: soon}", "translation"), (&*refused, "nack")] {
        policy("strict", mistake)?;
        comes_to_blame(&holdfast, found_by, ["guard"]).await?;
        comes_to_be_closed(&request).await?;
        policy("auth", "")?;
        comes_to_serve(port, "/cart", "1").await?;
    }
    Ok(())
}

/// Removed keys do not become valid again where Envoy refuses the current ones.
async fn keys_of_before(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let maker = TokenMaker::start("maker").await?;
    let keys = |keys: &str| {
        let spec = format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{keys}'}}}}}}]}}");
        world.write("tokens.yaml", extension("tokens", &spec))
    };
    world.route("cart", &good("/cart", "1"))?;
    world.route("neighbour", &good("/neighbour", "1"))?;
    world.write("policy.yaml", policy_text("guard", "cart", "jwtAuth: {extensionRef: {name: tokens}}"))?;
    keys(&maker.keys()?)?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    let request = get(port, &format!("/cart/{SAMPLE}")).header("authorization", &maker.bearer("shop")?);
    request.comes_to_reach("echo").await?;
    let neighbour = Hammer::start([get(port, &format!("/neighbour/{SAMPLE}"))]);
    keys(SHORT_KEY)?;
    comes_to_blame(&holdfast, "nack", ["tokens"]).await?;
    comes_to_be_closed(&request).await?;
    keys(&maker.keys()?)?;
    request.comes_to_reach("echo").await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Only the timeout of the server was edited, with a mistake: the earlier version authorizes requests in the same way.
async fn an_extension_with_the_same_checks_goes_back(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let server = Authorizer::http().await?;
    world.route("cart", &good("/cart", "1"))?;
    world.write("policy.yaml", policy_text("guard", "cart", "extAuth: {extensionRef: {name: auth}}"))?;
    world.write("auth.yaml", auth_extension(server.address(), ", requestTimeout: 10s", ""))?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    let silent = get(port, &format!("/cart/{SAMPLE}"));
    let authorized = silent.clone().header("authorization", CREDENTIALS);
    authorized.comes_to_reach("echo").await?;
    let (pass, fail) = (Hammer::start([authorized.clone()]), Hammer::start([silent.clone()]));
    for (http, more) in [(", requestTimeout: soon", ""), (", requestTimeout: 8s", ", statusOnError: 7")] {
        world.write("auth.yaml", auth_extension(server.address(), http, more))?;
        comes_to_blame(&holdfast, "translation", ["auth"]).await?;
        let before = server.checks().len();
        authorized.reaches("echo").await?;
        silent.answers(REFUSED).await?;
        ensure!(server.checks().len() > before, "the server was not asked");
    }
    world.write("auth.yaml", auth_extension(server.address(), ", requestTimeout: 8s", ""))?;
    comes_to_blame(&holdfast, "", []).await?;
    authorized.reaches("echo").await?;
    pass.stop_expecting(Shot::is_ok).await?;
    fail.stop_expecting(|shot| !shot.passed()).await?;
    Ok(())
}

/// Two causes in one edit: both objects are backfilled, and requests are still authorized.
async fn an_extension_with_the_same_checks_beside_a_refused_rule(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let server = Authorizer::http().await?;
    let write = |route: &str, timeout: &str| {
        let auth = auth_extension(server.address(), &format!(", requestTimeout: {timeout}"), "");
        let guard = policy_text("guard", "cart", "extAuth: {extensionRef: {name: auth}}");
        world.write("batch.yaml", documents(&[auth, guard, http_route("cart", route)]))
    };
    write(&good("/cart", "1"), "10s")?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    let silent = get(port, &format!("/cart/{SAMPLE}"));
    let authorized = silent.clone().header("authorization", CREDENTIALS);
    let comes_to =
        async |version: &str| authorized.comes_to(version, |reply| reply.header("x-version") == version).await;
    comes_to("1").await?;
    let (pass, fail) = (Hammer::start([authorized.clone()]), Hammer::start([silent.clone()]));
    write(&refused("/cart", "2"), "soon")?;
    comes_to_find(&holdfast, &[("auth", "translation"), ("cart", "nack")]).await?;
    comes_to("1").await?;
    silent.answers(REFUSED).await?;
    write(&good("/cart", "3"), "soon")?;
    comes_to("3").await?;
    write(&good("/cart", "4"), "8s")?;
    comes_to("4").await?;
    comes_to_blame(&holdfast, "", []).await?;
    pass.stop_expecting(Shot::is_ok).await?;
    fail.stop_expecting(|shot| !shot.passed()).await?;
    Ok(())
}
