//! A closed host keeps its claim: no wildcard host answers for it, with TLS or without.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::connect::ClientTls;
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::manifests::{https_listener, listener, route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, Story, World, stories, until};

use super::{BACKFILL, LEAVE_OUT, REPLACE, SAMPLE, good, refused, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::hosts",
        true,
        [
            tls_host_that_loses_its_certificate,
            routes_of_a_tls_host_with_an_unusable_certificate,
            tls_host_with_client_verification,
            plain_host_with_a_replaced_route,
            plain_host_with_a_left_out_route,
        ]
    )
}

/// Writes a route with the name of its listener.
fn at(world: &World, section: &str, spec: &str) -> Result<()> {
    let parent = format!("- {{name: public, sectionName: {section}}}");
    world.write(&format!("{section}.yaml"), route("HTTPRoute", "default", section, &parent, spec))
}

fn narrow_and_wild(port: u16, rest: &str) -> String {
    format!(
        "{}{}{rest}",
        https_listener("narrow", port, "a.shop.example", &["narrow"]),
        https_listener("wild", port, "*.shop.example", &["wild"])
    )
}

/// Returns a request for `a.shop.example` that trusts only the wildcard's certificate, which is valid for that name
/// too.
fn by_the_wildcard(port: u16, wild: &Certificate) -> HttpRequest {
    let trust: ClientTls = wild.trust("a.shop.example");
    get(port, "/x").host("a.shop.example").tls(trust)
}

async fn two_tls_hosts(world: &World, flags: &[&str]) -> Result<(u16, Holdfast, Certificate, Certificate)> {
    let (narrow, wild) = (Certificate::of(&["a.shop.example"])?, Certificate::of(&["*.shop.example"])?);
    let port = world.port()?;
    world.write("narrow-secret.yaml", narrow.secret("default", "narrow"))?;
    world.write("wild-secret.yaml", wild.secret("default", "wild"))?;
    world.gateway_with(&narrow_and_wild(port, ""))?;
    at(world, "narrow", &good("/", "narrow"))?;
    at(world, "wild", &good("/", "wild"))?;
    let options = holdfast_scenario_tests::HoldfastOptions::new(world)?.args(flags);
    let holdfast = world.run_with(options).await?;
    get(port, "/x").host("a.shop.example").tls(narrow.trust("a.shop.example")).comes_to_answer(200).await?;
    get(port, "/x").host("b.shop.example").tls(wild.trust("b.shop.example")).comes_to_answer(200).await?;
    Ok((port, holdfast, narrow, wild))
}

/// Waits until connections for `a.shop.example` fail, while the wildcard is served; the wildcard's certificate must
/// never be presented for that name.
async fn is_refused(port: u16, narrow: &Certificate, wild: &Certificate) -> Result<()> {
    let own = get(port, "/x").host("a.shop.example").tls(narrow.trust("a.shop.example"));
    let others = by_the_wildcard(port, wild);
    let wildcard_answers = until("connections are refused", || async {
        let wildcard_connects = others.connect().await.is_ok();
        ensure!(wildcard_connects || own.connect().await.is_err(), "it is served");
        Ok(wildcard_connects)
    })
    .await?;
    ensure!(!wildcard_answers, "the wildcard's chain answers for the host that is closed");
    for _ in 0..30 {
        ensure!(others.connect().await.is_err(), "the wildcard's chain answers for the host that is closed");
        ensure!(own.connect().await.is_err(), "it is served");
        get(port, "/x").host("b.shop.example").tls(wild.trust("b.shop.example")).answers(200).await?;
        // A connection for the wildcard is not usable for that host either.
        let misdirected = get(port, "/x").host("a.shop.example").tls(wild.trust("b.shop.example")).send().await?;
        ensure!(misdirected.status.as_u16() == 421, "{misdirected:?}");
    }
    Ok(())
}

async fn tls_host_that_loses_its_certificate(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    for flags in [&BACKFILL[..], &REPLACE[..], &[]] {
        let (port, holdfast, narrow, wild) = two_tls_hosts(&world, flags).await?;
        world.delete("narrow-secret.yaml")?;
        is_refused(port, &narrow, &wild).await?;
        world.write("narrow-secret.yaml", narrow.secret("default", "narrow"))?;
        get(port, "/x").host("a.shop.example").tls(narrow.trust("a.shop.example")).comes_to_answer(200).await?;
        holdfast.terminate().await?.expect_code(0)?;
    }
    Ok(())
}

/// A listener with the last valid version of its certificate serves its routes, with the policies that apply to it; the
/// statuses agree.
async fn routes_of_a_tls_host_with_an_unusable_certificate(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let policy = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: ListenerPolicy\nmetadata: {name: edge}\nspec:\n  \
                  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: narrow}]\n  \
                  default: {httpSettings: {earlyRequestHeaderModifier: {remove: [x-user]}}}\n";
    world.write("policy.yaml", policy)?;
    let (port, holdfast, narrow, wild) = two_tls_hosts(&world, &BACKFILL).await?;
    let own = || get(port, "/x").host("a.shop.example").tls(narrow.trust("a.shop.example")).header("x-user", "mallory");
    let is_served = |generation: &'static str| {
        let (own, holdfast) = (own(), &holdfast);
        async move {
            let reply = own.answers(200).await?;
            ensure!(reply.echo()?.header("x-user").is_empty(), "what the policy says does not hold: {reply:?}");
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            let backfilled = report["backfilledObjects"].as_array().map_or(0, Vec::len);
            ensure!(backfilled == usize::from(generation == "last"), "{report}");
            let health = holdfast.diagnostics("/debug/health").await?;
            ensure!(health["outages"].as_array().is_some_and(Vec::is_empty), "{health}");
            ensure!((health["verdict"] == "healthy") == (generation == "today"), "{health}");
            let degraded = health["degraded"].to_string();
            let is_reported = degraded.contains("listeners[0]") && degraded.contains("lastValidOf");
            ensure!(is_reported == (generation == "last"), "{health}");
            let statuses = holdfast.diagnostics("/debug/statuses").await?;
            let listeners = statuses["objects"].as_array().into_iter().flatten();
            let listeners = listeners.filter_map(|object| object["status"]["listeners"].as_array()).flatten();
            let mut narrow = listeners.filter(|listener| listener["name"] == "narrow");
            let conditions = narrow.next().map(|listener| listener["conditions"].clone()).unwrap_or_default();
            let is = |kind: &str| {
                let all = conditions.as_array().into_iter().flatten();
                all.filter(|condition| condition["type"] == kind).map(|condition| condition["status"].clone()).next()
            };
            ensure!(is("Programmed") == Some("True".into()), "{conditions}");
            let resolved = if generation == "last" { "False" } else { "True" };
            ensure!(is("ResolvedRefs") == Some(resolved.into()), "{conditions}");
            Ok(())
        }
    };
    let other = Certificate::of(&["a.shop.example"])?;
    for key in ["garbage", &other.key_pem] {
        let secret = holdfast_scenario_tests::manifests::tls_secret("default", "narrow", &other.pem, "garbage");
        let foreign = holdfast_scenario_tests::manifests::tls_secret("default", "narrow", &narrow.pem, key);
        world.write("narrow-secret.yaml", if key == "garbage" { secret } else { foreign })?;
        until("it is served with the last valid certificate", || is_served("last")).await?;
        for _ in 0..10 {
            is_served("last").await?;
            get(port, "/x").host("b.shop.example").tls(wild.trust("b.shop.example")).answers(200).await?;
        }
        at(&world, "narrow", &good("/", "edited"))?;
        own().comes_to("an edit is served", |reply| reply.header("x-version") == "edited").await?;
        world.write("narrow-secret.yaml", narrow.secret("default", "narrow"))?;
        at(&world, "narrow", &good("/", "narrow"))?;
        until("the certificate of today is served", || is_served("today")).await?;
    }
    Ok(())
}

/// Client certificate validation that is not supported yet: listeners that require it are closed, and no other listener
/// answers for them.
async fn tls_host_with_client_verification(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, narrow, wild) = two_tls_hosts(&world, &BACKFILL).await?;
    let plain = world.port()?;
    let listeners = narrow_and_wild(port, &listener("plain", plain, "protocol: HTTP"));
    at(&world, "plain", &good("/", "plain"))?;
    world.gateway_with(&listeners)?;
    get(plain, "/x").comes_to_answer(200).await?;
    let checked = format!(
        "{}\n  tls:\n    frontend:\n      default:\n        validation:\n          caCertificateRefs:\n          - {{group: '', \
         kind: ConfigMap, name: clients}}\n",
        holdfast_scenario_tests::manifests::gateway("public", &listeners).trim_end()
    );
    let class = holdfast_scenario_tests::manifests::class();
    world.write("gateway.yaml", holdfast_scenario_tests::manifests::documents(&[class, checked]))?;
    let own = get(port, "/x").host("a.shop.example").tls(narrow.trust("a.shop.example"));
    until("connections are refused", || async {
        ensure!(own.connect().await.is_err(), "it is served without a check");
        Ok(())
    })
    .await?;
    for _ in 0..30 {
        ensure!(own.connect().await.is_err(), "it is served without a check");
        ensure!(by_the_wildcard(port, &wild).connect().await.is_err(), "another chain answers for it");
        get(plain, "/x").answers(200).await?;
    }
    Ok(())
}

/// The only route of `a.shop.example` is refused: requests for this host do not go to the wildcard host.
async fn plain_hosts(world: &World, flags: &[&str], body_is_empty: bool) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let host = |name: &str, host: &str| listener(name, port, &format!("protocol: HTTP\nhostname: \"{host}\""));
    world.gateway_with(&format!("{}{}", host("narrow", "a.shop.example"), host("wild", "*.shop.example")))?;
    at(world, "narrow", &good("/", "narrow"))?;
    at(world, "wild", &good("/", "wild"))?;
    let options = unprobed(world, flags)?;
    let _holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(world, &options).await?;
    let (narrow, wild) = (
        get(port, &format!("/x/{SAMPLE}")).host("a.shop.example"),
        get(port, &format!("/x/{SAMPLE}")).host("b.shop.example"),
    );
    for request in [&narrow, &wild] {
        request.comes_to_answer(200).await?;
    }
    at(world, "narrow", &refused("/x", "refused"))?;
    let reply = narrow.comes_to("it is closed", |reply| reply.header("x-version") != "narrow").await?;
    ensure!(reply.status.as_u16() == 404 && reply.body.is_empty() == body_is_empty, "{reply:?}");
    for _ in 0..30 {
        narrow.answers(404).await?;
        get(port, "/elsewhere").host("a.shop.example").answers(404).await?;
        wild.answers(200).await?;
    }
    at(world, "narrow", &good("/", "healed"))?;
    narrow.comes_to("it heals", |reply| reply.header("x-version") == "healed").await?;
    Ok(())
}

async fn plain_host_with_a_replaced_route(world: World) -> Result<()> {
    plain_hosts(&world, &REPLACE, false).await
}

async fn plain_host_with_a_left_out_route(world: World) -> Result<()> {
    plain_hosts(&world, &LEAVE_OUT, true).await
}
