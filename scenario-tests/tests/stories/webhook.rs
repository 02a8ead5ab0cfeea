//! The admission webhook without an API server: hostile bodies, and the time of a review beside many routes.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::{SERVICE_PORT, documents, http_route};
use holdfast_scenario_tests::request::{HttpRequest, Reply, request};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use hyper::Method;
use serde_json::{Value, json};

pub(crate) fn stories() -> Vec<Story> {
    stories!("webhook", false, [hostile_bodies_are_answered, many_routes_do_not_slow_a_review])
}

/// Number of measured reviews.
const REVIEWS: usize = 500;

/// A running Holdfast without an Envoy, and a request to its webhook.
async fn webhook(world: &World) -> Result<(Holdfast, HttpRequest)> {
    let certificate = Certificate::of(&["localhost"])?;
    let (crt, key) = (world.folder().join("tls.crt"), world.folder().join("tls.key"));
    fs::write(&crt, &certificate.pem)?;
    fs::write(&key, &certificate.key_pem)?;
    let port = world.port()?;
    let options = HoldfastOptions::new(world)?.without_envoy().args(&[
        "--webhook-listen",
        &format!("127.0.0.1:{port}"),
        "--webhook-tls-cert",
        &crt.display().to_string(),
        "--webhook-tls-key",
        &key.display().to_string(),
    ]);
    let holdfast = world.run_with(options).await?;
    let post = request(port).method(Method::POST).path("/review").host("localhost").tls(certificate.trust("localhost"));
    Ok((holdfast, post))
}

fn rule(path: &Value) -> String {
    format!("rules:\n- matches: [{{path: {path}}}]\n  backendRefs: [{{name: echo, port: {SERVICE_PORT}}}]\n")
}

/// The body of a review of the HTTPRoute `r0` with this path.
fn review(path: &Value) -> Result<String> {
    let mut object: Value = serde_saphyr::from_str(&http_route("r0", &rule(path)))?;
    object["metadata"]["uid"] = json!("other");
    object["metadata"]["generation"] = json!(2);
    let request = json!({ "uid": "1", "operation": "CREATE", "object": object });
    Ok(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request }).to_string())
}

fn warnings(reply: &Reply) -> Result<String> {
    ensure!(reply.status.as_u16() == 200, "{reply:?}");
    let answer: Value = serde_json::from_str(&reply.body)?;
    ensure!(answer["response"]["allowed"] == true && answer["response"]["uid"] == "1", "{answer}");
    Ok(answer["response"]["warnings"].to_string())
}

fn broken() -> Value {
    json!({ "type": "RegularExpression", "value": "/a[" })
}

async fn hostile_bodies_are_answered(world: World) -> Result<()> {
    world.gateway()?;
    let _echo = world.backend("echo").await?;
    let (holdfast, post) = webhook(&world).await?;
    for (body, status) in [
        (String::new(), 400),
        ("{".to_owned(), 400),
        ("[".repeat(100_000), 400),
        ("{}".to_owned(), 400),
        ("x".repeat(9 << 20), 413),
        (review(&broken())?.replace("AdmissionReview", "Review"), 400),
    ] {
        let reply = post.clone().body(body).send().await?;
        ensure!(reply.status.as_u16() == status, "{status}: {reply:?}");
    }
    for other in [post.clone().method(Method::GET), post.clone().path("/debug/health")] {
        let reply = other.send().await?;
        ensure!([404, 405].contains(&reply.status.as_u16()), "{reply:?}");
    }
    until("a broken object is found", async || {
        let found = warnings(&post.clone().body(review(&broken())?).send().await?)?;
        ensure!(found.contains("spec.rules[0].matches[0].path.value"), "{found}");
        Ok(())
    })
    .await?;
    let counted = holdfast.metric("holdfast_webhook_reviews_total", &["result=\"warned\""]).await?;
    let measured = holdfast.metric("holdfast_webhook_review_duration_seconds_count", &[]).await?;
    ensure!(counted >= 1.0 && measured >= counted, "{counted} warnings in {measured} reviews");
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}

async fn many_routes_do_not_slow_a_review(world: World) -> Result<()> {
    world.gateway()?;
    let _echo = world.backend("echo").await?;
    let (many, reviews) = if std::env::var_os("HOLDFAST_FIGURES").is_some() { (10_000, REVIEWS) } else { (400, 20) };
    for part in 0..many / 400 {
        let path = |number: usize| json!({ "value": format!("/{number}") });
        let routes =
            (part * 400..(part + 1) * 400).map(|number| http_route(&format!("r{number}"), &rule(&path(number))));
        world.write(&format!("routes-{part}.yaml"), documents(&routes.collect::<Vec<_>>()))?;
    }
    let (holdfast, post) = webhook(&world).await?;
    let good = post.clone().body(review(&json!({ "value": "/other" }))?);
    let broken = post.clone().body(review(&broken())?);
    until("all routes are read", async || {
        ensure!(warnings(&good.send().await?)? == "null");
        let found = warnings(&broken.send().await?)?;
        ensure!(found.contains("spec.rules[0].matches[0].path.value"), "{found}");
        Ok(())
    })
    .await?;
    let (mut took, mut connection) = (Vec::new(), good.connect().await?);
    for number in 0..reviews {
        let (one, began) = (if number % 2 == 0 { &good } else { &broken }, Instant::now());
        let found = warnings(&one.send_on(&mut connection).await?)?;
        took.push(began.elapsed());
        ensure!((found == "null") == (number % 2 == 0), "{found}");
    }
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or(Duration::MAX);
    if std::env::var_os("HOLDFAST_FIGURES").is_some() {
        println!("{reviews} reviews beside {many} routes: p50 {:?}, p99 {:?}", at(50), at(99));
    }
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}
