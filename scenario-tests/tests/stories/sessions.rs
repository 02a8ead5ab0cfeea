//! Session persistence of rules: a cookie or header keeps a client at its endpoint, and nothing else changes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::grpc::call;
use holdfast_scenario_tests::manifests::{grpc_route, service};
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};

use crate::fallback::BACKFILL;

/// Requests that miss one of three endpoints by chance with a probability below one in 10^9.
const MANY: usize = 60;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "sessions",
        true,
        [
            a_cookie_keeps_a_client_at_its_endpoint,
            a_header_keeps_a_client_at_its_endpoint,
            sessions_of_calls,
            another_endpoint_answers_when_one_is_gone,
            a_session_selects_no_other_backend,
            a_session_ends_after_its_time,
            weights_come_before_sessions,
            a_broken_session_stays_as_it_was_valid,
        ]
    )
}

/// Starts three endpoints of the Service `echo`.
async fn endpoints(world: &World) -> Result<Vec<Echo>> {
    let mut pods = Vec::new();
    for name in ["pod-1", "pod-2", "pod-3"] {
        pods.push(world.pod("default", "echo", name).await?);
    }
    serve(world, &pods)?;
    Ok(pods)
}

/// Writes the Service `echo` with these endpoints.
fn serve<'a>(world: &World, pods: impl IntoIterator<Item = &'a Echo>) -> Result<()> {
    let addresses: Vec<_> = pods.into_iter().map(Echo::address).collect();
    world.write("service.yaml", service("default", "echo", None, &addresses))
}

/// Sends many requests and returns the endpoints that answered. No answer may begin a session.
async fn continued(request: &HttpRequest) -> Result<BTreeSet<String>> {
    let mut seen = BTreeSet::new();
    for _ in 0..MANY {
        let reply = request.send().await?;
        ensure!(reply.header("set-cookie").is_empty() && reply.header("x-shop").is_empty(), "{reply:?}");
        seen.insert(reply.pod()?);
    }
    Ok(seen)
}

/// Sends many requests and returns the endpoints that answered.
async fn seen(request: &HttpRequest) -> Result<BTreeSet<String>> {
    let mut seen = BTreeSet::new();
    for _ in 0..MANY {
        seen.insert(request.send().await?.pod()?);
    }
    Ok(seen)
}

/// Returns the name and value of the cookie that an answer sets.
fn cookie(reply: &Reply) -> Result<String> {
    let written = reply.header("set-cookie");
    let (pair, _) = written.split_once(';').with_context(|| format!("no cookie: {reply:?}"))?;
    Ok(pair.to_owned())
}

async fn a_cookie_keeps_a_client_at_its_endpoint(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let port = world.gateway()?;
    world.route(
        "sessions",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /shop}}]
  sessionPersistence: {sessionName: shop}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /unnamed}}]
  sessionPersistence: {}
  backendRefs: [{name: echo, port: 8080}]
- matches: [{path: {type: PathPrefix, value: /permanent}}]
  sessionPersistence: {sessionName: shop, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}
  backendRefs: [{name: echo, port: 8080}]
- backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let first = get(port, "/shop/cart").comes_to_answer(200).await?;
    let own = cookie(&first)?;
    let written = first.header("set-cookie");
    ensure!(written == format!("{own}; Path=/shop; SameSite=Strict; HttpOnly"), "{written}");
    ensure!(own.starts_with("shop="), "{own}");
    let with_it = get(port, "/shop/cart?page=2").header("cookie", &format!("other=1; {own}"));
    ensure!(continued(&with_it).await? == [first.pod()?].into(), "the session left its endpoint");
    ensure!(seen(&get(port, "/shop")).await?.len() == 3, "requests without the cookie do not spread");

    // Rules do not share sessions unless they use the same name.
    let second = get(port, "/unnamed").comes_to_answer(200).await?;
    let unnamed = cookie(&second)?;
    ensure!(unnamed.starts_with("session-"), "{unnamed}");
    ensure!(seen(&get(port, "/unnamed").header("cookie", &own)).await?.len() == 3, "the session of another rule");
    let both = get(port, "/unnamed").header("cookie", &format!("{own}; {unnamed}"));
    ensure!(continued(&both).await? == [second.pod()?].into(), "the session left its endpoint");

    let permanent = get(port, "/permanent").comes_to_answer(200).await?;
    let written = permanent.header("set-cookie");
    ensure!(written.contains("; Max-Age=3600; Path=/permanent;"), "{written}");
    let with_it = get(port, "/permanent").header("cookie", &cookie(&permanent)?);
    ensure!(continued(&with_it).await? == [permanent.pod()?].into(), "the session left its endpoint");

    ensure!(continued(&get(port, "/").header("cookie", &own)).await?.len() == 3, "a rule without sessions");
    Ok(())
}

async fn a_header_keeps_a_client_at_its_endpoint(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let port = world.gateway()?;
    world.route(
        "sessions",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /shop}}]
  sessionPersistence: {sessionName: X-Shop, type: Header}
  backendRefs: [{name: echo, port: 8080}]
- backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let first = get(port, "/shop").comes_to_answer(200).await?;
    let own = first.header("x-shop");
    ensure!(!own.is_empty() && first.header("set-cookie").is_empty(), "{first:?}");
    let with_it = get(port, "/shop").header("x-shop", &own);
    ensure!(continued(&with_it).await? == [first.pod()?].into(), "the session left its endpoint");
    ensure!(seen(&get(port, "/shop")).await?.len() == 3, "requests without the header do not spread");
    ensure!(continued(&get(port, "/").header("x-shop", &own)).await?.len() == 3, "a rule without sessions");
    Ok(())
}

async fn sessions_of_calls(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let port = world.gateway()?;
    let spec = r"rules:
- matches: [{method: {service: shop.Cart}}]
  sessionPersistence: {sessionName: x-shop, type: Header}
  backendRefs: [{name: echo, port: 8080}]
- backendRefs: [{name: echo, port: 8080}]";
    world.write("calls.yaml", grpc_route("calls", spec))?;
    let _holdfast = world.run().await?;
    let without = call(port, "shop.Cart/Add");
    let first = until("a call is answered", || async {
        let called = without.make().await?;
        called.pod()?;
        Ok(called)
    })
    .await?;
    let own = first.headers.get("x-shop").with_context(|| format!("no session: {first:?}"))?.to_str()?;
    let (mut with_it, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..MANY {
        with_it.insert(call(port, "shop.Cart/Add").header("x-shop", own).make().await?.pod()?);
        elsewhere.insert(call(port, "shop.Stock/Count").header("x-shop", own).make().await?.pod()?);
    }
    ensure!(with_it == [first.pod()?].into(), "{with_it:?}");
    ensure!(elsewhere.len() == 3, "a rule without sessions: {elsewhere:?}");
    Ok(())
}

async fn another_endpoint_answers_when_one_is_gone(world: World) -> Result<()> {
    let pods = endpoints(&world).await?;
    let port = world.gateway()?;
    world.route("sessions", "rules: [{sessionPersistence: {}, backendRefs: [{name: echo, port: 8080}]}]")?;
    let _holdfast = world.run().await?;
    let first = get(port, "/").comes_to_answer(200).await?;
    let pinned = first.pod()?;
    let with_it = get(port, "/").header("cookie", &cookie(&first)?);
    ensure!(continued(&with_it).await? == [pinned.clone()].into(), "the session left its endpoint");
    let names = ["pod-1", "pod-2", "pod-3"];
    let others = pods.iter().zip(names).filter(|(_, name)| *name != pinned).map(|(pod, _)| pod);
    serve(&world, others)?;
    let next = until("another endpoint answers", || async {
        let reply = with_it.send().await?;
        ensure!(reply.pod()? != pinned);
        Ok(reply)
    })
    .await?;
    let renewed = get(port, "/").header("cookie", &cookie(&next)?);
    ensure!(continued(&renewed).await? == [next.pod()?].into(), "the renewed session left its endpoint");
    // Every answer to the old session is that of an endpoint which exists.
    ensure!(!seen(&with_it).await?.contains(&pinned), "the endpoint that is gone answers");
    Ok(())
}

async fn a_session_selects_no_other_backend(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let other = world.backend("other").await?;
    let port = world.gateway()?;
    world.route(
        "sessions",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /other}}]
  sessionPersistence: {sessionName: x-shop, type: Header}
  backendRefs: [{name: other, port: 8080}]
- sessionPersistence: {sessionName: x-shop, type: Header}
  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let foreign = get(port, "/other").comes_to_reach("other").await?.header("x-shop");
    ensure!(!foreign.is_empty(), "no session");
    let before = other.received();
    get(port, "/").comes_to_answer(200).await?;
    let with_it = get(port, "/").header("x-shop", &foreign);
    let answered = seen(&with_it).await?;
    ensure!(!answered.contains("other") && other.received() == before, "{answered:?}");
    Ok(())
}

async fn a_session_ends_after_its_time(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let port = world.gateway()?;
    world.route(
        "sessions",
        r"rules:
- matches: [{path: {type: PathPrefix, value: /short}}]
  sessionPersistence: {sessionName: shop, absoluteTimeout: 2s, cookieConfig: {lifetimeType: Permanent}}
  backendRefs: [{name: echo, port: 8080}]
- sessionPersistence: {sessionName: shop}
  backendRefs: [{name: echo, port: 8080}]",
    )?;
    let _holdfast = world.run().await?;
    let long = get(port, "/").comes_to_answer(200).await?;
    let short = get(port, "/short").comes_to_answer(200).await?;
    let with_it = get(port, "/short").header("cookie", &cookie(&short)?);
    // The client sends the old cookie, and its endpoint is still there.
    with_it.comes_to("begin another session", |reply| !reply.header("set-cookie").is_empty()).await?;
    let with_it = get(port, "/").header("cookie", &cookie(&long)?);
    ensure!(continued(&with_it).await? == [long.pod()?].into(), "a session without a time ended");
    Ok(())
}

async fn weights_come_before_sessions(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let _other = world.backend("other").await?;
    let port = world.gateway()?;
    world.route(
        "sessions",
        r"rules:
- sessionPersistence: {sessionName: x-shop, type: Header}
  backendRefs: [{name: echo, port: 8080}, {name: other, port: 8080}]",
    )?;
    let holdfast = world.run().await?;
    let first =
        get(port, "/").comes_to("be answered by echo", |reply| reply.pod().is_ok_and(|pod| pod != "other")).await?;
    let answered = seen(&get(port, "/").header("x-shop", &first.header("x-shop"))).await?;
    // Of the backend with the session only the endpoint of the session answers.
    ensure!(answered == ["other".to_owned(), first.pod()?].into(), "{answered:?}");
    let faults = holdfast.diagnostics("/debug/faults").await?.to_string();
    ensure!(faults.contains("Envoy selects one of the 2 backends of the rule by weight"), "{faults}");
    Ok(())
}

async fn a_broken_session_stays_as_it_was_valid(world: World) -> Result<()> {
    let _pods = endpoints(&world).await?;
    let _other = world.backend("other").await?;
    let port = world.gateway()?;
    let write = |session: &str, header: &str| {
        world.route(
            "sessions",
            &format!(
                r"rules:
- matches: [{{path: {{type: PathPrefix, value: /healthy}}}}]
  filters: [{{type: ResponseHeaderModifier, responseHeaderModifier: {{set: [{{name: x-edit, value: {header}}}]}}}}]
  backendRefs: [{{name: other, port: 8080}}]
- sessionPersistence: {session}
  backendRefs: [{{name: echo, port: 8080}}]"
            ),
        )
    };
    write("{sessionName: shop}", "one")?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let first = get(port, "/").comes_to_answer(200).await?;
    let with_it = get(port, "/").header("cookie", &cookie(&first)?);
    write("{sessionName: shop, cookieConfig: {lifetimeType: Permanent}}", "two")?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("the fault is reported", || async {
        let status = world.command(&["status", "--diagnostics", &diagnostics]).await?.stdout;
        let fault = "spec.rules[1].sessionPersistence.absoluteTimeout: must be set";
        ensure!(status.contains(fault), "{status}");
        Ok(())
    })
    .await?;
    ensure!(continued(&with_it).await? == [first.pod()?].into(), "the last valid session is not served");
    get(port, "/healthy").reaches("other").await?;
    write("{sessionName: shop, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}", "three")?;
    get(port, "/")
        .comes_to("be served as corrected", |reply| reply.header("set-cookie").contains("Max-Age=3600"))
        .await?;
    get(port, "/healthy").comes_to("be served as edited", |reply| reply.header("x-edit") == "three").await?;
    Ok(())
}
