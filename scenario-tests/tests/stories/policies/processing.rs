//! External processing services: called, with headers set, denying; unavailable, missing, broken, refused by Envoy, and
//! recovered.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::manifests::{documents, service};
use holdfast_scenario_tests::request::request;
use holdfast_scenario_tests::services::processing::{ELSEWHERE, MARK, PASS, ProcessingServer, REFUSAL};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, HttpRequest, Story, World, stories};

use super::enforced::{LEVELS, ROUTE, policy};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::processing",
        true,
        [shown_and_refused, away, closed_and_healed, only_envoy_refuses, the_route_stays]
    )
}

const POLICY: &str = "extProc: {extensionRef: {name: seen}}";

/// Returns the extension `seen`, with the Service `seen` as its server.
fn extension(rest: &str) -> String {
    format!(
        "{{apiVersion: gateway.kgateway.dev/v1alpha1, kind: GatewayExtension, metadata: {{name: seen, namespace: default}}, \
         spec: {{extProc: {{grpcService: {{backendRef: {{name: seen, port: 8080}}}}, messageTimeout: 5s, {rest}}}}}}}"
    )
}

fn write(world: &World, server: &ProcessingServer, rest: &str) -> Result<()> {
    world.write("seen.yaml", documents(&[service("default", "seen", None, &[server.address()]), extension(rest)]))
}

/// Starts a backend and a processing service, and writes a Gateway with a route; the policy is at one level.
async fn begin(world: &World, level: usize, rules: &str) -> Result<(Echo, ProcessingServer, u16)> {
    let echo = world.backend("echo").await?;
    let server = ProcessingServer::start().await?;
    let port = world.gateway()?;
    world.route("r", rules)?;
    write(world, &server, "failOpen: false")?;
    world.write("policy.yaml", policy("p", LEVELS[level].0, POLICY))?;
    Ok((echo, server, port))
}

fn with_pass(request: HttpRequest) -> HttpRequest {
    request.header("x-word", PASS)
}

async fn shown_and_refused(world: World) -> Result<()> {
    let (_echo, server, port) = begin(&world, 1, ROUTE).await?;
    let _holdfast = world.run().await?;
    let reply = with_pass(request(port)).path("/a").comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header(MARK) == ["yes"], "the backend does not see what it did: {reply:?}");
    ensure!(reply.header(MARK) == "yes", "the client does not see what it did: {reply:?}");
    ensure!(request(port).answers(403).await?.body == REFUSAL, "its refusal is not passed on");
    ensure!(server.seen().contains(&"request headers /a".to_owned()), "{:?}", server.seen());
    ensure!(!server.seen().iter().any(|seen| seen.starts_with("request body")), "it was shown a body");

    // The processing mode of a policy overrides the default.
    let modes =
        "extProc: {extensionRef: {name: seen}, processingMode: {requestBodyMode: BUFFERED, responseHeaderMode: SKIP}}";
    world.write("policy.yaml", policy("p", LEVELS[1].0, modes))?;
    let posted = with_pass(request(port)).method(hyper::Method::POST).body("one two");
    let reply = posted.comes_to("responses are not shown", |reply| reply.header(MARK).is_empty()).await?;
    reply.from_pod("echo")?;
    ensure!(server.seen().contains(&"request body one two".to_owned()), "{:?}", server.seen());

    // A rule disables it, although the route has it.
    let none = policy("none", LEVELS[0].0, "extProc: {disable: {}}");
    world.write("none.yaml", none)?;
    request(port).comes_to_reach("echo").await?;
    world.delete("none.yaml")?;
    request(port).comes_to_answer(403).await.map(drop)
}

async fn away(world: World) -> Result<()> {
    let (_echo, server, port) = begin(&world, 1, ROUTE).await?;
    let _holdfast = world.run().await?;
    with_pass(request(port)).comes_to_reach("echo").await?;
    let hammer = Hammer::start([request(port)]);
    let address = server.address();
    drop(server);
    let refused = with_pass(request(port)).comes_to("nobody passes", |reply| reply.status.is_server_error()).await?;
    ensure!(refused.pod().is_err(), "it passed: {refused:?}");
    hammer.goes_on(20).await?;
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    // With `failOpen`, requests pass without processing.
    let gone = documents(&[service("default", "seen", None, &[address]), extension("failOpen: true")]);
    world.write("seen.yaml", gone)?;
    let reply = request(port).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header(MARK).is_empty(), "somebody saw it: {reply:?}");
    // The service is available again, and required.
    let server = ProcessingServer::start().await?;
    write(&world, &server, "failOpen: false")?;
    with_pass(request(port)).comes_to("it is seen again", |reply| reply.header(MARK) == "yes").await?;
    request(port).comes_to_answer(403).await.map(drop)
}

/// Specs that cannot be served, that cannot be parsed, and with an unknown value.
const BROKEN: [&str; 3] = [
    "failOpen: false, routeCacheAction: Clear",
    "failOpen: perhaps",
    "failOpen: false, processingMode: {requestHeaderMode: SOMETIMES}",
];

async fn closed_and_healed(world: World) -> Result<()> {
    let (_echo, server, port) = begin(&world, 0, ROUTE).await?;
    let holdfast = world.run().await?;
    with_pass(request(port)).comes_to_reach("echo").await?;
    let hammers = [Hammer::start([request(port)]), Hammer::start_kept([request(port)])];
    for (target, _) in LEVELS {
        world.write("policy.yaml", policy("p", target, POLICY))?;
        with_pass(request(port)).comes_to_reach("echo").await?;
        request(port).comes_to_answer(403).await?;
        for broken in BROKEN {
            write(&world, &server, broken)?;
            with_pass(request(port)).comes_to("nobody passes", |reply| reply.pod().is_err()).await?;
            write(&world, &server, "failOpen: false")?;
            with_pass(request(port)).comes_to_reach("echo").await?;
        }
        world.delete("seen.yaml")?;
        with_pass(request(port)).comes_to("nobody passes", |reply| reply.pod().is_err()).await?;
        write(&world, &server, "failOpen: false")?;
        with_pass(request(port)).comes_to_reach("echo").await?;
    }
    // No denied request passes after a kill and a restart.
    let options = holdfast.kill()?;
    let _holdfast = world.run_with(options).await?;
    request(port).comes_to_answer(403).await?;
    with_pass(request(port)).comes_to_reach("echo").await?;
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    Ok(())
}

/// A filter configuration that Envoy refuses: the rule that uses it is closed, and nothing else.
async fn only_envoy_refuses(world: World) -> Result<()> {
    let rules = format!(
        "{ROUTE}\n- name: two\n  matches: [{{path: {{value: /two}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
    );
    let (_echo, server, port) = begin(&world, 0, &rules).await?;
    let options = HoldfastOptions::new(&world)?.args(&["--feature-gates", "FallbackConfiguration=true"]);
    let _holdfast = world.run_with(options).await?;
    with_pass(request(port)).comes_to_reach("echo").await?;
    let hammer = Hammer::start([request(port)]);
    for _ in 0..3 {
        write(&world, &server, "failOpen: false, requestAttributes: [\"request.(\"]")?;
        with_pass(request(port)).comes_to("nobody passes", |reply| reply.pod().is_err()).await?;
        request(port).path("/two").comes_to_reach("echo").await?;
        write(&world, &server, "failOpen: false, requestAttributes: [\"request.path\"]")?;
        with_pass(request(port)).comes_to_reach("echo").await?;
    }
    hammer.stop_expecting(|shot| !shot.is_ok()).await.map(drop)
}

/// A different route could have other policies, and the request has already passed their filters.
async fn the_route_stays(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let _secret = world.backend("secret").await?;
    let server = ProcessingServer::start().await?;
    let port = world.gateway()?;
    let routes = "rules:
- name: one
  backendRefs: [{name: echo, port: 8080}]
- name: guarded
  matches: [{headers: [{name: x-guarded, value: \"yes\"}]}]
  backendRefs: [{name: secret, port: 8080}]";
    world.route("r", routes)?;
    write(&world, &server, "failOpen: false, routeCacheAction: FromResponse")?;
    let users = "basicAuth: {users: [\"alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=\"]}";
    let guarded = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: guarded}";
    world.write("policy.yaml", documents(&[policy("p", LEVELS[0].0, POLICY), policy("g", guarded, users)]))?;
    let _holdfast = world.run().await?;
    request(port).header("x-guarded", "yes").comes_to_answer(401).await?;
    let sent = with_pass(request(port)).header(ELSEWHERE, "x-guarded").comes_to_reach("echo").await?;
    ensure!(sent.echo()?.header("x-guarded") == ["yes"], "it was not asked to go elsewhere: {sent:?}");
    Ok(())
}
