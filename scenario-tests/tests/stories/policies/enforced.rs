//! Policies that protect: enforced at every level, closed if they cannot be enforced, and recovered, under continuous
//! unauthorized requests.

use std::io::Write as _;

use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use holdfast_scenario_tests::hammer::{Hammer, Shot};
use holdfast_scenario_tests::request::{HttpRequest, request};
use holdfast_scenario_tests::{Story, World, stories};
use hyper::Method;

use super::guards::{self, ProtectingPolicy};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies",
        true,
        [
            basic_auth,
            api_key,
            acl,
            acl_takes_the_narrowest_range,
            rbac,
            csrf,
            buffer,
            cors,
            local_rate_limit,
            others_at_the_port_go_on,
            a_policy_may_be_deleted_and_made_again,
            compression,
            buffers_count_decompressed_bodies,
            ways,
        ]
    )
}

/// Targets of a policy, and the status where it cannot be enforced.
pub(super) const LEVELS: [(&str, u16); 4] = [
    ("{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: one}", 404),
    ("{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}", 404),
    ("{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: http}", 500),
    ("{group: gateway.networking.k8s.io, kind: Gateway, name: public}", 500),
];
/// The protected route.
pub(super) const ROUTE: &str = "rules:\n- name: one\n  backendRefs: [{name: echo, port: 8080}]";

pub(super) fn policy(name: &str, target: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  targetRefs: [{target}]\n  {spec}\n"
    )
}

pub(super) fn set(world: &World, target: &str, spec: &str) -> Result<()> {
    world.write("policy.yaml", policy("p", target, spec))
}

/// Checks the guard at every level, with every way to break it.
async fn holds(world: &World, guard: &ProtectingPolicy, base: impl Fn(u16) -> HttpRequest) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    if !guard.besides.is_empty() {
        world.write("besides.yaml", guard.besides)?;
    }
    set(world, LEVELS[0].0, guard.spec)?;
    let _holdfast = world.run().await?;
    let (passing, failing) = ((guard.passing)(base(port)), (guard.failing)(base(port)));
    passing.comes_to_reach("echo").await?;
    failing.comes_to_answer(guard.status).await?;
    let hammers = [Hammer::start([failing.clone()]), Hammer::start_kept([failing.clone()])];
    for (target, closed) in LEVELS {
        set(world, target, guard.spec)?;
        passing.comes_to_reach("echo").await?;
        failing.comes_to_answer(guard.status).await?;
        for broken in guard.broken {
            set(world, target, broken)?;
            passing.comes_to_answer(closed).await?;
            failing.comes_to_answer(closed).await?;
            set(world, target, guard.spec)?;
            passing.comes_to_reach("echo").await?;
            failing.comes_to_answer(guard.status).await?;
        }
    }
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    Ok(())
}

async fn basic_auth(world: World) -> Result<()> {
    holds(&world, &guards::basic_auth(), request).await
}

async fn api_key(world: World) -> Result<()> {
    holds(&world, &guards::api_key(), request).await
}

async fn rbac(world: World) -> Result<()> {
    holds(&world, &guards::rbac(), request).await
}

async fn csrf(world: World) -> Result<()> {
    holds(&world, &guards::csrf(), request).await
}

async fn buffer(world: World) -> Result<()> {
    holds(&world, &guards::buffer(), request).await
}

/// All clients have a loopback address here: lists that allow it and lists that deny it.
async fn acl(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let deny = "acl: {defaultAction: allow, rules: [{cidrs: [127.0.0.0/8, \"::1\"], action: deny}]}";
    set(&world, LEVELS[0].0, deny)?;
    let _holdfast = world.run().await?;
    request(port).comes_to_answer(403).await?;
    let hammer = Hammer::start([request(port)]);
    for (target, closed) in LEVELS {
        set(&world, target, deny)?;
        request(port).comes_to_answer(403).await?;
        for broken in guards::acl().broken {
            set(&world, target, broken)?;
            request(port).comes_to_answer(closed).await?;
            set(&world, target, deny)?;
            request(port).comes_to_answer(403).await?;
        }
    }
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    for (target, _) in LEVELS {
        set(&world, target, "acl: {defaultAction: deny, rules: [{cidrs: [127.0.0.1], action: allow}]}")?;
        request(port).comes_to_reach("echo").await?;
        set(&world, target, guards::acl().spec)?;
        request(port).comes_to_answer(403).await?;
    }
    Ok(())
}

async fn acl_takes_the_narrowest_range(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let rows = [
        ("[{cidrs: [127.0.0.0/8], action: deny}, {cidrs: [127.0.0.1], action: allow}]", "deny", true),
        ("[{cidrs: [127.0.0.1], action: allow}, {cidrs: [127.0.0.0/8], action: deny}]", "deny", true),
        ("[{cidrs: [127.0.0.0/8], action: allow}, {cidrs: [127.0.0.0/16], action: deny}]", "allow", false),
        ("[{cidrs: [127.0.0.0/16], action: deny}, {cidrs: [127.0.0.0/24], action: allow}]", "deny", true),
        ("[{cidrs: [10.0.0.0/8], action: deny}]", "allow", true),
        ("[{cidrs: [10.0.0.0/8], action: allow}]", "deny", false),
    ];
    set(&world, LEVELS[0].0, "acl: {defaultAction: deny}")?;
    let _holdfast = world.run().await?;
    for (rules, default, passes) in rows {
        // Starts from the opposite outcome, so that the change is visible.
        let other = if passes { "deny" } else { "allow" };
        set(&world, LEVELS[0].0, &format!("acl: {{defaultAction: {other}}}"))?;
        let (wanted, unwanted) = if passes { (200, 403) } else { (403, 200) };
        request(port).comes_to_answer(unwanted).await?;
        let hammer = Hammer::start([request(port)]);
        set(&world, LEVELS[0].0, &format!("acl: {{defaultAction: {default}, rules: {rules}}}"))?;
        request(port).comes_to_answer(wanted).await?;
        hammer.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 200 | 403, .. })).await?;
    }
    Ok(())
}

/// Envoy answers preflights where the policy applies; where it cannot be enforced, the target is closed.
async fn cors(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let spec = "cors: {allowOrigins: [\"https://a.example\"], allowMethods: [GET]}";
    set(&world, LEVELS[0].0, spec)?;
    let _holdfast = world.run().await?;
    let preflight = |origin: &str| {
        let request = request(port).method(Method::OPTIONS).header("origin", origin);
        request.header("access-control-request-method", "GET")
    };
    for (target, closed) in LEVELS {
        set(&world, target, spec)?;
        preflight("https://a.example")
            .comes_to("a preflight is answered", |reply| {
                reply.header("access-control-allow-origin") == "https://a.example"
            })
            .await?;
        let other = preflight("https://b.example").send().await?;
        ensure!(other.header("access-control-allow-origin").is_empty(), "{other:?}");
        set(&world, target, "cors: {allowOrigins: [b.example]}")?;
        preflight("https://a.example").comes_to_answer(closed).await?;
    }
    Ok(())
}

async fn local_rate_limit(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let spec = "rateLimit: {local: {tokenBucket: {maxTokens: 2, tokensPerFill: 1, fillInterval: 1h}}}";
    set(&world, LEVELS[0].0, spec)?;
    let _holdfast = world.run().await?;
    for (target, closed) in LEVELS {
        set(&world, target, spec)?;
        request(port).comes_to_answer(429).await?;
        set(&world, target, "rateLimit: {local: {tokenBucket: {maxTokens: 0, fillInterval: 1h}}}")?;
        request(port).comes_to_answer(closed).await?;
    }
    Ok(())
}

/// A policy that closes one listener does not affect another listener of the port, or other routes.
async fn others_at_the_port_go_on(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let listener = |name: &str, host: &str| {
        format!(
            "- {{name: {name}, port: {port}, protocol: HTTP, hostname: {host}, \
             allowedRoutes: {{namespaces: {{from: All}}}}}}\n"
        )
    };
    world.gateway_with(&format!("{}{}", listener("one", "one.example"), listener("two", "two.example")))?;
    world.route("r", ROUTE)?;
    world.route("other", "rules:\n- matches: [{path: {value: /other}}]\n  backendRefs: [{name: echo, port: 8080}]")?;
    let _holdfast = world.run().await?;
    let (one, two) = (request(port).host("one.example"), request(port).host("two.example"));
    one.comes_to_reach("echo").await?;
    two.comes_to_reach("echo").await?;
    let hammer = Hammer::start([two.clone()]);
    let others = Hammer::start([two.clone().path("/other")]);
    let broken = guards::basic_auth().broken[1];
    let target = "{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: one}";
    set(&world, target, broken)?;
    one.comes_to_answer(500).await?;
    one.clone().path("/other").answers(500).await?;
    two.reaches("echo").await?;
    set(&world, LEVELS[1].0, broken)?;
    one.comes_to_answer(404).await?;
    one.clone().path("/other").comes_to_reach("echo").await?;
    others.stop_expecting(Shot::is_ok).await?;
    let closed = |shot: &Shot| matches!(shot, Shot::Answer { status: 404, .. });
    hammer.stop_expecting(|shot| shot.is_ok() || closed(shot)).await.map(drop)
}

/// Deployment tools delete and create a policy: the route is not open in between.
async fn a_policy_may_be_deleted_and_made_again(world: World) -> Result<()> {
    let guard = guards::basic_auth();
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    set(&world, LEVELS[1].0, guard.spec)?;
    let _holdfast = world.run().await?;
    let (passing, failing) = ((guard.passing)(request(port)), (guard.failing)(request(port)));
    passing.comes_to_reach("echo").await?;
    let hammer = Hammer::start([failing.clone()]);
    for _ in 0..5 {
        world.delete("policy.yaml")?;
        hammer.goes_on(20).await?;
        set(&world, LEVELS[1].0, guard.spec)?;
        hammer.goes_on(20).await?;
    }
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    world.delete("policy.yaml")?;
    failing.comes_to_reach("echo").await?;
    Ok(())
}

async fn compression(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    set(&world, LEVELS[0].0, "compression: {responseCompression: {libraries: [Gzip]}, requestDecompression: {}}")?;
    let _holdfast = world.run().await?;
    let request = request(port).header("accept-encoding", "gzip");
    for (target, _) in LEVELS {
        set(&world, target, "compression: {responseCompression: {disable: {}}}")?;
        request
            .comes_to("it is not compressed", |reply| {
                reply.status == 200 && reply.header("content-encoding").is_empty()
            })
            .await?;
        set(&world, target, "compression: {responseCompression: {libraries: [Gzip]}, requestDecompression: {}}")?;
        request.comes_to("it is compressed", |reply| reply.header("content-encoding") == "gzip").await?;
    }
    Ok(())
}

fn gzip(body: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body)?;
    Ok(encoder.finish()?)
}

/// Bytes that gzip makes longer.
fn incompressible(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

async fn buffers_count_decompressed_bodies(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    set(&world, LEVELS[0].0, "buffer: {maxRequestSize: 1Ki}\n  compression: {requestDecompression: {}}")?;
    let _holdfast = world.run().await?;
    let request = request(port).method(Method::POST);
    let compressed =
        |body: &[u8]| Ok::<_, anyhow::Error>(request.clone().header("content-encoding", "gzip").body(gzip(body)?));
    request.clone().body(vec![b'a'; 1025]).comes_to_answer(413).await?;
    request.clone().body(vec![b'a'; 1024]).reaches("echo").await?;
    let seen = compressed(&[b'a'; 1000])?.reaches("echo").await?.echo()?;
    ensure!(seen.header("content-encoding").is_empty() && seen.body_bytes == 1000, "{seen:?}");
    for larger in [1025, 100_000] {
        let body = vec![b'a'; larger];
        ensure!(gzip(&body)?.len() < 1024);
        compressed(&body)?.answers(413).await?;
    }
    let body = incompressible(1010);
    ensure!(gzip(&body)?.len() > 1024);
    compressed(&body)?.reaches("echo").await?;
    Ok(())
}

/// Headers, paths, responses and timeouts.
async fn ways(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let named = "extensionRef: {group: gateway.kgateway.dev, kind: DirectResponse, name: tea}";
    world.route(
        "r",
        &format!(
            "rules:\n- name: one\n  matches: [{{path: {{value: /one}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]\n\
             - name: tea\n  matches: [{{path: {{value: /tea}}}}]\n  filters: [{{type: ExtensionRef, {named}}}]"
        ),
    )?;
    world.write(
        "answer.yaml",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: DirectResponse, metadata: {name: tea, namespace: default}, \
         spec: {status: 418, body: short and stout}}",
    )?;
    let edits = "headerModifiers: {request: {set: [{name: x-set, value: \"%REQ(x-from)%!\"}], remove: [x-gone]}}\n  \
                 transformation: {response: {add: [{name: x-told, value: plain}]}}\n  \
                 urlRewrite: {pathRegex: {pattern: \"^/one/(.*)$\", substitution: \"/two/\\\\1\"}}\n  \
                 timeouts: {request: 1s}";
    set(&world, LEVELS[0].0, edits)?;
    world.write("gateway-policy.yaml", policy("q", LEVELS[3].0, "timeouts: {request: 300ms}"))?;
    let _holdfast = world.run().await?;
    let edited = request(port).path("/one/x").header("x-from", "a").header("x-gone", "b");
    let reply = edited.comes_to_reach("echo").await?;
    let seen = reply.echo()?;
    ensure!(seen.header("x-set") == ["a!"] && seen.header("x-gone").is_empty(), "{seen:?}");
    ensure!(reply.header("x-told") == "plain" && seen.path.starts_with("/two/x"), "{reply:?}");
    let tea = request(port).path("/tea").answers(418).await?;
    ensure!(tea.body == "short and stout", "{tea:?}");
    Ok(())
}
