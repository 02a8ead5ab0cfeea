//! Cost of a change: only the resources that it changed are sent, and nothing where it has no effect.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{
    self, documents, gateway, http_listener, http_route, https_listener, route, service,
};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, stories, until};

/// Number of HTTPS listeners of the large Gateway, each with a separate RouteConfiguration, and of routes in each of
/// them.
const LISTENERS: usize = 50;
const ROUTES_EACH: usize = 200;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "changes",
        true,
        [
            one_route_among_ten_thousand,
            without_effect_nothing_is_sent,
            new_backends_are_there_before_they_are_used,
            new_listeners_with_all_that_they_need
        ]
    )
}

/// Number of resources that Holdfast has sent to its Envoys since its start, removals included.
pub(crate) async fn sent(holdfast: &Holdfast) -> Result<f64> {
    holdfast.metric("holdfast_xds_resources_sent_total", &[]).await
}

/// Waits until an Envoy is connected, and until nothing more is sent; returns the number of sent resources.
pub(crate) async fn connected_and_sent(holdfast: &Holdfast) -> Result<f64> {
    until("an Envoy is connected", || async {
        ensure!(holdfast.metric("holdfast_xds_connected_envoys", &[]).await? >= 1.0);
        Ok(())
    })
    .await?;
    settled(holdfast).await
}

/// Returns the number of sent resources, once it has stayed the same in ten consecutive polls.
async fn settled(holdfast: &Holdfast) -> Result<f64> {
    let mut last = (0, sent(holdfast).await?);
    while last.0 < 10 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let now = sent(holdfast).await?;
        last = if now == last.1 { (last.0 + 1, now) } else { (0, now) };
    }
    Ok(last.1)
}

fn host(listener: usize) -> String {
    format!("h{listener}.example")
}

/// Returns one HTTPRoute with one rule, with a path of its own.
fn one_of_many(listener: usize, number: usize, backend: &str, annotation: &str) -> String {
    let spec = format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: /r{number}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    );
    let parent = format!("- {{name: public, sectionName: l{listener}}}");
    let text = route("HTTPRoute", "default", &format!("r{listener}-{number}"), &parent, &spec);
    text.replacen("metadata:", &format!("metadata:\n  annotations: {{note: \"{annotation}\"}}"), 1)
}

async fn one_route_among_ten_thousand(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let names: Vec<String> = (0..LISTENERS).map(host).collect();
    let certificate = Certificate::of(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    world.write("secret.yaml", certificate.secret("default", "all"))?;
    let port = world.port()?;
    let mut listeners = String::new();
    for (listener, name) in names.iter().enumerate() {
        write!(listeners, "{}", https_listener(&format!("l{listener}"), port, name, &["all"]))?;
        let routes: Vec<String> = (0..ROUTES_EACH).map(|number| one_of_many(listener, number, "one", "")).collect();
        world.write(&format!("routes-{listener}.yaml"), documents(&routes))?;
    }
    world.gateway_with(&listeners)?;
    // A route that uses the second backend from the start, so that its cluster exists.
    world.write("own.yaml", one_of_many(7, ROUTES_EACH, "two", ""))?;
    let holdfast = world.run().await?;
    let request = |listener: usize, number: usize| -> HttpRequest {
        get(port, &format!("/r{number}")).host(&host(listener)).tls(certificate.trust(&host(listener)))
    };
    request(7, ROUTES_EACH).comes_to_reach("two").await?;
    request(LISTENERS - 1, ROUTES_EACH - 1).comes_to_reach("one").await?;

    let before = connected_and_sent(&holdfast).await?;
    ensure!(before >= LISTENERS as f64, "{before} resources were sent at first:\n{}", holdfast.metrics().await?);
    world.write("own.yaml", one_of_many(7, ROUTES_EACH, "one", ""))?;
    request(7, ROUTES_EACH).comes_to_reach("one").await?;
    let after = settled(&holdfast).await?;
    // The RouteConfiguration of its listener, and the removal of the cluster that no route uses any more.
    ensure!(after - before <= 3.0, "{} resources were sent for one changed route", after - before);
    ensure!(after > before, "nothing was counted");

    world.write("own.yaml", one_of_many(7, ROUTES_EACH, "one", "another"))?;
    world.write("marker.yaml", one_of_many(8, ROUTES_EACH, "one", ""))?;
    request(8, ROUTES_EACH).comes_to_reach("one").await?;
    let marked = settled(&holdfast).await?;
    ensure!(marked - after == 1.0, "{} resources were sent for one new route and an annotation", marked - after);
    Ok(())
}

/// Annotations, comments, the order of documents, unused objects: none of these changes an Envoy's configuration.
async fn without_effect_nothing_is_sent(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let certificate = Certificate::of(&["h0.example"])?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("default", "all"))?;
    world.gateway_with(&https_listener("l0", port, "h0.example", &["all"]))?;
    let routes = |annotation: &str| vec![one_of_many(0, 0, "one", annotation), one_of_many(0, 1, "one", annotation)];
    world.write("routes.yaml", documents(&routes("")))?;
    let holdfast = world.run().await?;
    let request =
        |number: usize| get(port, &format!("/r{number}")).host("h0.example").tls(certificate.trust("h0.example"));
    request(1).comes_to_reach("one").await?;
    let before = connected_and_sent(&holdfast).await?;
    let mut reversed = routes("changed");
    reversed.reverse();
    let _unused = world.backend("unused").await?;
    world.write("routes.yaml", format!("# a comment\n---\n{}", documents(&reversed)))?;
    // All files are read at once: a log entry about this one means that the others were read.
    world.write("marker.yaml", "kind: [a mark in the log")?;
    holdfast.comes_to_print(&["marker.yaml"]).await?;
    let after = settled(&holdfast).await?;
    ensure!(after == before, "{} resources were sent for a change without effect", after - before);
    request(1).reaches("one").await?;
    Ok(())
}

/// A route and the Service that it moves to arrive in one file, and the old Service is deleted with it: no request may
/// fail, on new connections or kept ones.
async fn new_backends_are_there_before_they_are_used(world: World) -> Result<()> {
    let pods = [world.pod("default", "echo", "blue").await?, world.pod("default", "echo", "green").await?];
    let port = world.gateway()?;
    let file = |round: usize, pod: &Echo| {
        let name = format!("echo-{round}");
        let spec = format!("rules:\n- backendRefs: [{{name: {name}, port: 8080}}]");
        documents(&[service("default", &name, None, &[pod.address()]), http_route("all", &spec)])
    };
    world.write("all.yaml", file(0, &pods[0]))?;
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_reach("blue").await?;
    let load = Hammer::start([get(port, "/"), get(port, "/").http2()]);
    let kept = Hammer::start_kept([get(port, "/"), get(port, "/").http2()]);
    for round in 1..30 {
        let pod = &pods[round % 2];
        world.write("all.yaml", file(round, pod))?;
        get(port, "/").comes_to_reach(&pod.identity().pod).await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    kept.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A listener, its certificate and its route arrive at once, repeatedly, beside a listener in use.
async fn new_listeners_with_all_that_they_need(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (plain, secure) = (world.port()?, world.port()?);
    let all = "rules:\n- backendRefs: [{name: echo, port: 8080}]";
    let certificates: Vec<Certificate> = (0..6).map(|round| Certificate::of(&[&host(round)])).collect::<Result<_>>()?;
    let file = |upto: usize| {
        let mut listeners = http_listener(plain);
        let mut parts = vec![manifests::class(), http_route("all", all)];
        for (round, certificate) in certificates.iter().enumerate().take(upto) {
            let name = format!("secret-{round}");
            parts.push(certificate.secret("default", &name));
            listeners += &https_listener(&format!("l{round}"), secure, &host(round), &[&name]);
        }
        parts.push(gateway("public", &listeners));
        documents(&parts)
    };
    world.write("all.yaml", file(0))?;
    let _holdfast = world.run().await?;
    get(plain, "/").comes_to_reach("echo").await?;
    let secured = |round: usize| get(secure, "/").host(&host(round)).tls(certificates[round].trust(&host(round)));
    let load = Hammer::start([get(plain, "/")]);
    let kept = Hammer::start_kept([get(plain, "/").http2()]);
    let mut first = None;
    for round in 0..certificates.len() {
        world.write("all.yaml", file(round + 1))?;
        secured(round).comes_to_reach("echo").await?;
        // From its first response on, the first listener too must always be available while others arrive.
        first.get_or_insert_with(|| Hammer::start([secured(0)]));
    }
    if let Some(first) = first {
        first.goes_on(20).await?;
        first.stop_expecting(Shot::is_ok).await?;
    }
    world.write("all.yaml", file(2))?;
    until("the others are gone", || async {
        ensure!(secured(5).send().await.is_err());
        Ok(())
    })
    .await?;
    secured(1).reaches("echo").await?;
    load.stop_expecting(Shot::is_ok).await?;
    kept.stop_expecting(Shot::is_ok).await?;
    Ok(())
}
