//! Filters of single backends: the share of each backend is served with the filters of this backend, and with no others.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::manifests::service;
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, REFUSED, USER, USER_HEADER};
use holdfast_scenario_tests::{Story, World, stories, until};

/// With this number of requests and the bounds below, a fair distribution fails less than once in a million runs.
const REQUESTS: u32 = 400;

pub(crate) fn stories() -> Vec<Story> {
    stories!("shares", true, [redirects_and_rewrites, authorization, copies])
}

/// Sends the request many times, and returns how often each outcome occurred, by its name.
async fn outcomes(request: &HttpRequest, of: impl Fn(&Reply) -> Result<String>) -> Result<BTreeMap<String, u32>> {
    let mut connection = request.connect().await?;
    let mut outcomes = BTreeMap::new();
    for _ in 0..REQUESTS {
        let reply = request.send_on(&mut connection).await?;
        *outcomes.entry(of(&reply)?).or_default() += 1;
    }
    Ok(outcomes)
}

fn between(outcomes: &BTreeMap<String, u32>, name: &str, least: u32, most: u32) -> Result<()> {
    let count = outcomes.get(name).copied().unwrap_or(0);
    ensure!((least..=most).contains(&count), "{name} has {count} of {REQUESTS}, not {least} to {most}: {outcomes:?}");
    Ok(())
}

async fn redirects_and_rewrites(world: World) -> Result<()> {
    let _backends = (world.backend("left").await?, world.backend("right").await?, world.backend("never").await?);
    let port = world.gateway()?;
    world.route(
        "shares",
        r"rules:
- matches: [{path: {value: /shop}}]
  filters:
  - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-rule, value: 'yes'}]}}
  backendRefs:
  - {name: left, port: 8080, weight: 2}
  - name: right
    port: 8080
    weight: 1
    filters:
    - {type: URLRewrite, urlRewrite: {hostname: right.test, path: {type: ReplacePrefixMatch, replacePrefixMatch: /own}}}
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-side, value: right}]}}
  - name: never
    port: 8080
    weight: 1
    filters:
    - {type: RequestRedirect, requestRedirect: {hostname: elsewhere.test, statusCode: 301}}
    - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-own, value: 'yes'}]}}",
    )?;
    let _holdfast = world.run().await?;
    let request = get(port, "/shop/cart").host("shop.test");
    request.comes_to_reach("left").await?;
    let outcome = |reply: &Reply| {
        ensure!(reply.header("x-rule") == "yes", "the filter of the rule applies to each share: {reply:?}");
        if reply.status.as_u16() == 301 {
            let to = format!("http://elsewhere.test:{port}/shop/cart");
            ensure!(reply.header("location") == to && reply.header("x-own") == "yes", "{reply:?}");
            return Ok("redirect".to_owned());
        }
        let (pod, echo) = (reply.pod()?, reply.echo()?);
        let seen = (&*echo.host, &*echo.path, echo.header("x-side").join(","));
        let expected = match &*pod {
            "left" => ("shop.test", "/shop/cart", String::new()),
            "right" => ("right.test", "/own/cart", "right".to_owned()),
            other => anyhow::bail!("{other} got a request, although its share is redirected"),
        };
        ensure!(seen == expected && reply.header("x-own").is_empty(), "{pod}: {echo:?}, {reply:?}");
        Ok(pod)
    };
    let outcomes = outcomes(&request, outcome).await?;
    between(&outcomes, "left", 140, 260)?;
    between(&outcomes, "right", 55, 155)?;
    between(&outcomes, "redirect", 55, 155)
}

async fn authorization(world: World) -> Result<()> {
    let _backends = (world.backend("open").await?, world.backend("closed").await?);
    let auth = Authorizer::grpc().await?;
    let port = world.gateway()?;
    world.write("auth.yaml", service("default", "auth", None, &[auth.address()]))?;
    world.route(
        "shares",
        r"rules:
- backendRefs:
  - {name: open, port: 8080}
  - name: closed
    port: 8080
    filters:
    - {type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: auth, port: 8080}, grpc: {}}}",
    )?;
    let _holdfast = world.run().await?;
    let request = get(port, "/");
    request.comes_to_reach("open").await?;
    let without = |reply: &Reply| match reply.pod() {
        Ok(pod) => {
            ensure!(pod == "open", "{pod} got a request that nobody authorized: {reply:?}");
            Ok(pod)
        }
        Err(_) => Ok(reply.status.as_u16().to_string()),
    };
    let refused = outcomes(&request, without).await?;
    between(&refused, "open", 140, 260)?;
    between(&refused, &REFUSED.to_string(), 140, 260)?;
    let with = |reply: &Reply| {
        let (pod, echo) = (reply.pod().context("each request is authorized")?, reply.echo()?);
        ensure!((echo.header(USER_HEADER) == [USER]) == (pod == "closed"), "{pod}: {reply:?}");
        Ok(pod)
    };
    let allowed = outcomes(&request.header("authorization", CREDENTIALS), with).await?;
    between(&allowed, "open", 140, 260)?;
    between(&allowed, "closed", 140, 260)
}

async fn copies(world: World) -> Result<()> {
    let _backends = (world.backend("first").await?, world.backend("second").await?);
    let (all, half) = (world.backend("all").await?, world.backend("half").await?);
    let port = world.gateway()?;
    world.route(
        "shares",
        r"rules:
- backendRefs:
  - name: first
    port: 8080
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: all, port: 8080}}}]
  - name: second
    port: 8080
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: half, port: 8080}, percent: 50}}]",
    )?;
    let _holdfast = world.run().await?;
    let request = get(port, "/");
    request.comes_to_reach("first").await?;
    until("the copies of the first requests have arrived", || async {
        ensure!(all.received() > 0, "the mirror received nothing");
        Ok(())
    })
    .await?;
    let (all_before, half_before) = (all.received(), half.received());
    let outcomes = outcomes(&request, Reply::pod).await?;
    between(&outcomes, "first", 140, 260)?;
    let firsts = u64::from(outcomes.get("first").copied().unwrap_or(0));
    let copies = || half.received().saturating_sub(half_before);
    until("each request of the first share, and about half of the second share, are copied", || async {
        ensure!(all.received() >= all_before + firsts, "{} copies of {firsts}", all.received() - all_before);
        ensure!(copies() >= 55, "{} copies of the second share", copies());
        Ok(())
    })
    .await?;
    ensure!(copies() <= 150, "{} copies of the second share", copies());
    Ok(())
}
