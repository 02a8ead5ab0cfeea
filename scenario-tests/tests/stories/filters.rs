//! Header modifiers, CORS, mirrors, timeouts and retries: filters and settings that do not change the path.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::request::{Reply, get, request};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, manifests, stories, until};
use hyper::Method;

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "filters",
        true,
        [
            request_headers,
            response_headers,
            percent_signs_arrive_as_written,
            headers_of_one_backend,
            cross_origin,
            cross_origin_wildcards,
            one_mirror,
            several_mirrors,
            mirror_of_a_percentage,
            time_outs,
            retries,
            retries_stay_as_they_were_valid,
        ]
    )
}

async fn request_headers(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route(
        "headers",
        r"rules:
- filters:
  - type: RequestHeaderModifier
    requestHeaderModifier:
      set: [{name: X-Set, value: set}, {name: x-new, value: new}]
      add: [{name: X-Add, value: added}]
      remove: [x-gone, X-Gone-Too]
  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let plain = request(port).comes_to_reach("echo").await?.echo()?;
    ensure!(plain.header("x-set") == ["set"] && plain.header("x-add") == ["added"], "{plain:?}");
    let sent =
        request(port).header("x-set", "old").header("x-add", "own").header("x-gone", "1").header("x-gone-too", "1");
    let seen = sent.header("x-stays", "1").reaches("echo").await?.echo()?;
    ensure!(seen.header("x-set") == ["set"] && seen.header("x-new") == ["new"], "{seen:?}");
    // Added values may arrive as one header or as one header per value.
    ensure!(seen.header("x-add").join(",") == "own,added", "{seen:?}");
    ensure!(seen.header("x-gone").is_empty() && seen.header("x-gone-too").is_empty(), "{seen:?}");
    ensure!(seen.header("x-stays") == ["1"], "{seen:?}");
    Ok(())
}

async fn response_headers(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route(
        "headers",
        r"rules:
- filters:
  - type: ResponseHeaderModifier
    responseHeaderModifier:
      set: [{name: X-Set, value: set}]
      add: [{name: X-Add, value: added}]
      remove: [X-Gone]
  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let sent = request(port).header("x-echo-set-header", "x-set: old, x-add: own, x-gone: 1, x-stays: 1");
    let reply = sent.comes_to_reach("echo").await?;
    ensure!(reply.header_values("x-set") == ["set"], "{reply:?}");
    ensure!(reply.header_values("x-add").join(",") == "own,added", "{reply:?}");
    ensure!(reply.header("x-gone").is_empty() && reply.header("x-stays") == "1", "{reply:?}");
    Ok(())
}

/// Envoy interprets percent signs in header values as commands; values of users must not be interpreted.
async fn percent_signs_arrive_as_written(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route(
        "headers",
        r"rules:
- filters:
  - type: RequestHeaderModifier
    requestHeaderModifier:
      set:
      - {name: x-share, value: '100%'}
      - {name: x-command, value: '%REQ(host)% %DOWNSTREAM_REMOTE_ADDRESS% %%'}
      - {name: x-encoded, value: 'a%20b%'}
  - type: ResponseHeaderModifier
    responseHeaderModifier:
      set: [{name: x-share, value: '%START_TIME% 5%'}]
  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let reply = request(port).comes_to_reach("echo").await?;
    ensure!(reply.header("x-share") == "%START_TIME% 5%", "{reply:?}");
    let seen = reply.echo()?;
    ensure!(seen.header("x-share") == ["100%"], "{seen:?}");
    ensure!(seen.header("x-command") == ["%REQ(host)% %DOWNSTREAM_REMOTE_ADDRESS% %%"], "{seen:?}");
    ensure!(seen.header("x-encoded") == ["a%20b%"], "{seen:?}");
    Ok(())
}

async fn headers_of_one_backend(world: World) -> Result<()> {
    let _backends = (world.backend("left").await?, world.backend("right").await?);
    let port = world.gateway()?;
    world.route(
        "headers",
        r"rules:
- backendRefs:
  - name: left
    port: 8080
    weight: 1
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-side, value: left}]}
    - type: ResponseHeaderModifier
      responseHeaderModifier: {set: [{name: x-told, value: left}]}
  - name: right
    port: 8080
    weight: 1
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-side, value: right}], remove: [x-gone]}",
    )?;
    let _holdfast = world.run().await?;
    let request = request(port).header("x-side", "own").header("x-gone", "1");
    request.comes_to_answer(200).await?;
    let (mut left, mut right) = (0, 0);
    for _ in 0..80 {
        let reply = request.answers(200).await?;
        let seen = reply.echo()?;
        let is_left = seen.identity.pod == "left";
        ensure!(seen.header("x-side") == [seen.identity.pod.clone()], "{seen:?}");
        ensure!(seen.header("x-gone").is_empty() != is_left, "{seen:?}");
        ensure!((reply.header("x-told") == "left") == is_left, "{reply:?}");
        if is_left { left += 1 } else { right += 1 }
    }
    ensure!(left > 10 && right > 10, "{left} left, {right} right");
    Ok(())
}

async fn cross_origin(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route(
        "cors",
        r#"rules:
- matches: [{path: {type: PathPrefix, value: /cors}}]
  filters:
  - type: CORS
    cors:
      allowOrigins: ["https://www.foo.com", "https://*.bar.com"]
      allowMethods: [GET, OPTIONS]
      allowHeaders: [x-header-1, x-header-2]
      exposeHeaders: [x-header-3, x-header-4]
      allowCredentials: true
      maxAge: 3600
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /plain}}]
  backendRefs: [{name: echo, port: 8080}]"#,
    )?;
    let _holdfast = world.run().await?;
    let preflight = |origin: &str| {
        let request = get(port, "/cors").method(Method::OPTIONS).header("origin", origin);
        request.header("access-control-request-method", "GET").header("access-control-request-headers", "x-header-1")
    };
    let allowed = |reply: &Reply| reply.header("access-control-allow-origin");
    for origin in ["https://www.foo.com", "https://a.b.bar.com"] {
        let reply = preflight(origin)
            .comes_to("is allowed", |reply| reply.status.is_success() && allowed(reply) == origin)
            .await?;
        ensure!(reply.echo().is_err(), "the preflight reached the backend: {reply:?}");
        ensure!(reply.header("access-control-allow-credentials") == "true", "{reply:?}");
        ensure!(reply.header("access-control-max-age") == "3600", "{reply:?}");
        let listed = |name: &str| reply.header(name).replace(' ', "").to_ascii_lowercase();
        ensure!(listed("access-control-allow-methods") == "get,options", "{reply:?}");
        ensure!(listed("access-control-allow-headers") == "x-header-1,x-header-2", "{reply:?}");
    }
    for origin in ["https://foobar.com", "http://www.foo.com", "https://www.foo.com.evil.example"] {
        let reply = preflight(origin).send().await?;
        ensure!(allowed(&reply).is_empty(), "{origin} is allowed: {reply:?}");
    }
    let simple = get(port, "/cors").header("origin", "https://www.foo.com").reaches("echo").await?;
    ensure!(allowed(&simple) == "https://www.foo.com", "{simple:?}");
    let exposed = simple.header("access-control-expose-headers").replace(' ', "");
    ensure!(exposed == "x-header-3,x-header-4", "{simple:?}");
    let plain = get(port, "/plain").header("origin", "https://www.foo.com").reaches("echo").await?;
    ensure!(allowed(&plain).is_empty(), "{plain:?}");
    Ok(())
}

/// With credentials the response must not contain a wildcard, which browsers take literally, but the requested values.
async fn cross_origin_wildcards(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let rule = |path: &str, credentials: bool| {
        format!(
            r#"- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]
  filters:
  - type: CORS
    cors: {{allowOrigins: ["*"], allowMethods: ["*"], allowHeaders: ["*"], allowCredentials: {credentials}}}
  backendRefs: [{{name: echo, port: 8080}}]
"#
        )
    };
    world.route("cors", &format!("rules:\n{}{}", rule("/with", true), rule("/without", false)))?;
    let _holdfast = world.run().await?;
    let preflight = |path: &str| {
        let request = get(port, path).method(Method::OPTIONS).header("origin", "https://www.foo.com");
        request.header("access-control-request-method", "PUT")
    };
    let allowed = |reply: &Reply, what: &str| reply.header(&format!("access-control-allow-{what}")).replace(' ', "");
    for (path, credentials) in [("/with", "true"), ("/without", "")] {
        get(port, path).comes_to_reach("echo").await?;
        let reply = preflight(path).header("access-control-request-headers", "x-a, x-b").send().await?;
        ensure!(reply.status.is_success() && reply.echo().is_err(), "{reply:?}");
        ensure!(reply.header("access-control-allow-credentials") == credentials, "{reply:?}");
        ensure!(reply.header("access-control-max-age") == "5", "{reply:?}");
        let echoed = [allowed(&reply, "origin"), allowed(&reply, "methods"), allowed(&reply, "headers")];
        let requested = ["https://www.foo.com", "PUT", "x-a,x-b"];
        for (echoed, requested) in echoed.iter().zip(requested) {
            ensure!(
                echoed == requested || (credentials.is_empty() && echoed == "*"),
                "{echoed:?} for {requested:?}: {reply:?}"
            );
        }
    }
    let without_headers = preflight("/with").send().await?;
    ensure!(allowed(&without_headers, "headers").is_empty(), "{without_headers:?}");
    let simple = get(port, "/with").header("origin", "https://a.example").reaches("echo").await?;
    ensure!(allowed(&simple, "origin") == "https://a.example", "{simple:?}");
    Ok(())
}

async fn one_mirror(world: World) -> Result<()> {
    let _main = world.backend("main").await?;
    let mirror = world.backend("mirror").await?;
    let port = world.gateway()?;
    world.route(
        "mirrored",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /mirrored}}]
  filters:
  - type: RequestHeaderModifier
    requestHeaderModifier: {set: [{name: x-set, value: '1'}]}
  - type: RequestMirror
    requestMirror: {backendRef: {name: mirror, port: 8080}}
  backendRefs: [{name: main, port: 8080}]
- backendRefs: [{name: main, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    get(port, "/mirrored/warm").comes_to_reach("main").await?;
    get(port, "/mirrored/once?a=b").method(Method::POST).body("text").reaches("main").await?;
    until("the mirror received the request", || async {
        let copies = mirror.count(|copy| copy.request.path == "/mirrored/once?a=b" && copy.request.method == "POST");
        ensure!(copies == 1, "{copies} copies");
        Ok(())
    })
    .await?;
    get(port, "/alone").reaches("main").await?;
    get(port, "/mirrored/after").reaches("main").await?;
    until("the mirror received the last request", || async {
        ensure!(mirror.count(|copy| copy.request.path == "/mirrored/after") == 1);
        Ok(())
    })
    .await?;
    ensure!(mirror.count(|copy| copy.request.path == "/alone") == 0, "a request of another rule was mirrored");
    Ok(())
}

async fn several_mirrors(world: World) -> Result<()> {
    let _main = world.backend("main").await?;
    let mirrors = [world.backend("mirror-1").await?, world.backend("mirror-2").await?];
    let port = world.gateway()?;
    world.route(
        "mirrored",
        r"rules:
- filters:
  - type: RequestMirror
    requestMirror: {backendRef: {name: mirror-1, port: 8080}}
  - type: RequestMirror
    requestMirror: {backendRef: {name: mirror-2, port: 8080}}
  backendRefs: [{name: main, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    get(port, "/warm").comes_to_reach("main").await?;
    get(port, "/both").reaches("main").await?;
    for mirror in &mirrors {
        until("each mirror received the request", || async {
            ensure!(mirror.count(|copy| copy.request.path == "/both") == 1, "{:?}", mirror.identity());
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn mirror_of_a_percentage(world: World) -> Result<()> {
    let _main = world.backend("main").await?;
    let mirrors = [world.backend("fifth").await?, world.backend("half").await?];
    let port = world.gateway()?;
    world.route(
        "mirrored",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /fifth}}]
  filters:
  - type: RequestMirror
    requestMirror: {backendRef: {name: fifth, port: 8080}, percent: 20}
  backendRefs: [{name: main, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /half}}]
  filters:
  - type: RequestMirror
    requestMirror: {backendRef: {name: half, port: 8080}, fraction: {numerator: 1, denominator: 2}}
  backendRefs: [{name: main, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    for (mirror, path, least, most) in [(&mirrors[0], "/fifth", 30, 140), (&mirrors[1], "/half", 130, 270)] {
        let request = get(port, path);
        request.comes_to_reach("main").await?;
        let before = mirror.received();
        let mut connection = request.connect().await?;
        for _ in 0..400 {
            request.send_on(&mut connection).await?.from_pod("main")?;
        }
        until("a share of the requests was mirrored", || async {
            let copies = mirror.received() - before;
            ensure!((least..=most).contains(&copies), "{copies} copies of 400, not {least} to {most}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn time_outs(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route(
        "time-outs",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /request}}]
  timeouts: {request: 500ms}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /backend}}]
  timeouts: {request: 20s, backendRequest: 500ms}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /never}}]
  timeouts: {request: 0s}
  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    for path in ["/request", "/backend", "/never"] {
        get(port, path).comes_to_reach("echo").await?;
    }
    get(port, "/request?delay=10s").answers(504).await?;
    get(port, "/backend?delay=10s").answers(504).await?;
    get(port, "/never?delay=1s").reaches("echo").await?;
    Ok(())
}

/// Returns the number of requests that the backend receives for one request to a path.
async fn tries(echo: &Echo, port: u16, path: &str, status: u16) -> Result<u64> {
    let before = echo.received();
    let answer = if path.contains("delay") { 504 } else { status };
    get(port, path).header("x-echo-status", &status.to_string()).answers(answer).await?;
    Ok(echo.received() - before)
}

async fn retries(world: World) -> Result<()> {
    let echo = world.backend("echo").await?;
    let half = world.pod(manifests::NAMESPACE, "half", "half").await?;
    let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, world.port()?));
    world.write("half.yaml", manifests::service(manifests::NAMESPACE, "half", None, &[closed, half.address()]))?;
    let port = world.gateway()?;
    world.route(
        "retries",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /codes}}]
  retry: {codes: [503], attempts: 2, backoff: 10ms}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /unset}}]
  retry: {codes: [503], backoff: 10ms}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /slow}}]
  retry: {attempts: 2, backoff: 10ms}
  timeouts: {request: 60s, backendRequest: 300ms}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /half}}]
  retry: {attempts: 5, backoff: 10ms}
  backendRefs: [{name: half, port: 8080}]
- backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    for path in ["/codes", "/unset", "/slow", "/"] {
        get(port, path).comes_to_reach("echo").await?;
    }
    let expected = [
        ("/codes", 503, 3),
        ("/codes", 500, 1),
        ("/unset", 503, 2),
        ("/slow?delay=20s", 200, 3),
        ("/slow", 503, 1),
        ("/", 503, 1),
    ];
    for (path, status, count) in expected {
        let found = tries(&echo, port, path, status).await?;
        ensure!(found == count, "{path} with {status}: the backend received {found} requests instead of {count}");
    }
    get(port, "/half").comes_to_reach("half").await?;
    for _ in 0..40 {
        get(port, "/half").reaches("half").await?;
    }
    Ok(())
}

async fn retries_stay_as_they_were_valid(world: World) -> Result<()> {
    let echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let retry = |retry: &str| {
        world.route("retries", &format!("rules: [{{retry: {retry}, backendRefs: [{{name: echo, port: 8080}}]}}]"))
    };
    retry("{codes: [503], attempts: 2, backoff: 10ms}")?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    get(port, "/").comes_to_reach("echo").await?;
    ensure!(tries(&echo, port, "/", 503).await? == 3, "requests are not retried");
    retry("{codes: [200], attempts: 2, backoff: 10ms}")?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("the fault is reported", || async {
        let status = world.command(&["status", "--diagnostics", &diagnostics]).await?.stdout;
        ensure!(status.contains("spec.rules[0].retry.codes[0]: 200 is not between 400 and 599"), "{status}");
        Ok(())
    })
    .await?;
    ensure!(tries(&echo, port, "/", 503).await? == 3, "requests are not retried as before");
    retry("{codes: [503], attempts: 1, backoff: 10ms}")?;
    until("the correction is served", || async {
        let found = tries(&echo, port, "/", 503).await?;
        ensure!(found == 2, "the backend received {found} requests");
        Ok(())
    })
    .await
}
