//! What a change costs: only the resources that it changed are sent, and nothing where it changed nothing.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::ask::{Ask, get};
use holdfast_scenario_tests::manifests::{documents, https_listener, route};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, Story, World, stories, until};

/// HTTPS listeners of the large Gateway, each a RouteConfiguration of its own, and routes in each of them.
const LISTENERS: usize = 50;
const ROUTES_EACH: usize = 200;

pub(crate) fn stories() -> Vec<Story> {
    stories!("changes", true, [one_route_among_ten_thousand, without_effect_nothing_is_sent])
}

/// How many resources Holdfast has sent to its Envoys since it was started, and told to be gone.
pub(crate) async fn sent(holdfast: &Holdfast) -> Result<f64> {
    holdfast.metric("holdfast_xds_resources_sent_total", &[]).await
}

/// Waits until an Envoy is connected, and until nothing more is being sent; says how much was.
pub(crate) async fn connected_and_sent(holdfast: &Holdfast) -> Result<f64> {
    until("an Envoy is connected", || async {
        ensure!(holdfast.metric("holdfast_xds_connected_envoys", &[]).await? >= 1.0);
        Ok(())
    })
    .await?;
    settled(holdfast).await
}

/// The number of resources sent, once it has stayed the same for ten questions in a row.
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

/// One HTTPRoute with one rule of its own path, in a file with the other routes of its host.
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
    // A route that uses the second back end from the start, so that its cluster is there.
    world.write("own.yaml", one_of_many(7, ROUTES_EACH, "two", ""))?;
    let holdfast = world.run().await?;
    let ask = |listener: usize, number: usize| -> Ask {
        get(port, &format!("/r{number}")).host(&host(listener)).tls(certificate.trust(&host(listener)))
    };
    ask(7, ROUTES_EACH).comes_to_reach("two").await?;
    ask(LISTENERS - 1, ROUTES_EACH - 1).comes_to_reach("one").await?;

    let before = connected_and_sent(&holdfast).await?;
    ensure!(before >= LISTENERS as f64, "{before} resources were sent at first:\n{}", holdfast.metrics().await?);
    world.write("own.yaml", one_of_many(7, ROUTES_EACH, "one", ""))?;
    ask(7, ROUTES_EACH).comes_to_reach("one").await?;
    let after = settled(&holdfast).await?;
    // The RouteConfiguration of its listener, and the cluster that nobody uses any more is taken away.
    ensure!(after - before <= 3.0, "{} resources were sent for one changed route", after - before);
    ensure!(after > before, "nothing was counted");

    world.write("own.yaml", one_of_many(7, ROUTES_EACH, "one", "another"))?;
    world.write("marker.yaml", one_of_many(8, ROUTES_EACH, "one", ""))?;
    ask(8, ROUTES_EACH).comes_to_reach("one").await?;
    let marked = settled(&holdfast).await?;
    ensure!(marked - after == 1.0, "{} resources were sent for one new route and an annotation", marked - after);
    Ok(())
}

/// Annotations, comments, the order of documents, unused objects: nothing of it concerns an Envoy.
async fn without_effect_nothing_is_sent(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let certificate = Certificate::of(&["h0.example"])?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("default", "all"))?;
    world.gateway_with(&https_listener("l0", port, "h0.example", &["all"]))?;
    let routes = |annotation: &str| vec![one_of_many(0, 0, "one", annotation), one_of_many(0, 1, "one", annotation)];
    world.write("routes.yaml", documents(&routes("")))?;
    let holdfast = world.run().await?;
    let ask = |number: usize| get(port, &format!("/r{number}")).host("h0.example").tls(certificate.trust("h0.example"));
    ask(1).comes_to_reach("one").await?;
    let before = connected_and_sent(&holdfast).await?;
    let mut reversed = routes("changed");
    reversed.reverse();
    let _unused = world.backend("unused").await?;
    world.write("routes.yaml", format!("# a comment\n---\n{}", documents(&reversed)))?;
    // Files are read all at once, so that whoever has seen this one has seen the others.
    world.write("marker.yaml", "kind: [a mark in the log")?;
    holdfast.comes_to_say(&["marker.yaml"]).await?;
    let after = settled(&holdfast).await?;
    ensure!(after == before, "{} resources were sent for a change without effect", after - before);
    ask(1).reaches("one").await?;
    Ok(())
}
