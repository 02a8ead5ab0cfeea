//! Virtual hosts one by one (VHDS): what an edit sends, and that nothing else differs from whole route configurations.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};

use crate::changes::{connected_and_sent, sent};
use crate::fallback::BACKFILL;

/// The flag.
const SEPARATE: [&str; 2] = ["--xds-virtual-hosts", "separate"];
/// Hosts of the large route configuration.
const HOSTS: usize = 300;
/// The number of bytes for which an edit of one host is more than enough; the route configuration has more than ten times
/// as many.
const BYTES_OF_A_HOST: f64 = 4000.0;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "virtual_hosts",
        true,
        [
            an_edit_sends_its_host,
            hosts_come_and_go,
            settings_for_all_hosts_arrive_with_them,
            a_restart_sends_what_changed,
            a_refused_host_is_held_back,
        ]
    )
}

/// Returns a route for a host; its responses contain the version.
fn route(name: &str, host: &str, version: &str) -> String {
    http_route(
        name,
        &format!(
            "hostnames: [\"{host}\"]\nrules:\n- filters:\n  - type: ResponseHeaderModifier\n    responseHeaderModifier: \
             {{set: [{{name: x-version, value: '{version}'}}]}}\n  backendRefs: [{{name: echo, port: 8080}}]"
        ),
    )
}

fn request(port: u16, host: &str) -> HttpRequest {
    get(port, "/").host(host)
}

async fn comes_to_serve(port: u16, host: &str, version: &str) -> Result<()> {
    request(port, host).comes_to(version, |reply| reply.header("x-version") == version).await.map(drop)
}

async fn serves(port: u16, host: &str, version: &str) -> Result<()> {
    let reply = request(port, host).answers(200).await?;
    ensure!(reply.header("x-version") == version, "{host} is served in version {}", reply.header("x-version"));
    Ok(())
}

fn options(world: &World) -> Result<HoldfastOptions> {
    Ok(HoldfastOptions::new(world)?.args(&SEPARATE))
}

async fn bytes(holdfast: &Holdfast) -> Result<f64> {
    holdfast.metric("holdfast_xds_sent_bytes_total", &["type=\"RDS\""]).await
}

async fn an_edit_sends_its_host(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let host = |number: usize| format!("h{number}.example");
    let all: Vec<String> = (0..HOSTS).map(|number| route(&format!("r{number}"), &host(number), "1")).collect();
    world.write("all.yaml", documents(&all))?;
    world.write("one.yaml", route("one", "one.example", "1"))?;
    let holdfast = world.run_with(options(&world)?).await?;
    comes_to_serve(port, "one.example", "1").await?;
    comes_to_serve(port, &host(HOSTS - 1), "1").await?;
    connected_and_sent(&holdfast).await?;
    let whole = bytes(&holdfast).await?;
    ensure!(whole > 10.0 * BYTES_OF_A_HOST, "only {whole} bytes for {HOSTS} hosts");

    let load = Hammer::start([request(port, &host(1)), request(port, "one.example").http2()]);
    load.goes_on(20).await?;
    let before = sent(&holdfast).await?;
    world.write("one.yaml", route("one", "one.example", "2"))?;
    comes_to_serve(port, "one.example", "2").await?;
    connected_and_sent(&holdfast).await?;
    let (more, resources) = (bytes(&holdfast).await? - whole, sent(&holdfast).await? - before);
    ensure!(more < BYTES_OF_A_HOST, "{more} bytes for an edit of one host");
    ensure!(resources == 1.0, "{resources} resources for an edit of one host");
    load.goes_on(50).await?;
    load.stop_expecting(Shot::is_ok).await.map(drop)
}

async fn hosts_come_and_go(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.write("stays.yaml", route("stays", "stays.example", "1"))?;
    world.write("goes.yaml", route("goes", "goes.example", "1"))?;
    let _holdfast = world.run_with(options(&world)?).await?;
    for host in ["stays.example", "goes.example"] {
        comes_to_serve(port, host, "1").await?;
    }
    let load = Hammer::start([request(port, "stays.example")]);
    request(port, "other.example").answers(404).await?;
    world.delete("goes.yaml")?;
    request(port, "goes.example").comes_to_answer(404).await?;
    // The wildcard covers hosts that were there before, and not the ones that are there now.
    world.write("any.yaml", route("any", "*.example", "3"))?;
    comes_to_serve(port, "goes.example", "3").await?;
    comes_to_serve(port, "OTHER.example", "3").await?;
    serves(port, "stays.example", "1").await?;
    world.write("goes.yaml", route("goes", "goes.example", "4"))?;
    comes_to_serve(port, "goes.example", "4").await?;
    serves(port, "other.example", "3").await?;
    // A route for all hosts moves to the host that catches them.
    world.write("any.yaml", route("any", "*.example", "5"))?;
    world.write("goes.yaml", http_route("goes", "rules:\n- backendRefs: [{name: echo, port: 8080}]"))?;
    comes_to_serve(port, "goes.example", "5").await?;
    request(port, "anything.test").comes_to_answer(200).await?;
    load.goes_on(50).await?;
    load.stop_expecting(Shot::is_ok).await.map(drop)
}

/// The key that `guard` requires.
const KEYS: &str =
    "apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: default}\nstringData: {client: s3cret}\n";

/// Returns a policy of the Gateway that rejects requests without a key.
fn guard() -> String {
    "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: p, namespace: default}\nspec:\n  \
     targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]\n  apiKeyAuth: {secretRef: {name: keys}}\n"
        .to_owned()
}

async fn settings_for_all_hosts_arrive_with_them(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    for name in ["one", "two"] {
        world.write(&format!("{name}.yaml"), route(name, &format!("{name}.example"), "1"))?;
    }
    world.write("keys.yaml", KEYS)?;
    let holdfast = world.run_with(options(&world)?).await?;
    for host in ["one.example", "two.example"] {
        comes_to_serve(port, host, "1").await?;
    }
    world.write("guard.yaml", guard())?;
    request(port, "one.example").comes_to_answer(401).await?;
    request(port, "two.example").answers(401).await?;
    // While the guard is in force, neither an edit nor a new host is without it.
    let load = Hammer::start([request(port, "one.example"), request(port, "two.example")]);
    world.write("one.yaml", route("one", "one.example", "2"))?;
    world.write("three.yaml", route("three", "three.example", "2"))?;
    let with_key = |host: &str| request(port, host).header("api-key", "s3cret");
    for host in ["one.example", "three.example"] {
        with_key(host).comes_to("version 2", |reply| reply.header("x-version") == "2").await?;
        request(port, host).answers(401).await?;
    }
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected_and_sent(&holdfast).await?;
    world.write("two.yaml", route("two", "two.example", "3"))?;
    with_key("two.example").comes_to("version 3", |reply| reply.header("x-version") == "3").await?;
    load.goes_on(50).await?;
    load.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 401, .. })).await?;

    let load = Hammer::start([with_key("one.example"), with_key("two.example")]);
    world.delete("guard.yaml")?;
    request(port, "one.example").comes_to_answer(200).await?;
    world.write("one.yaml", route("one", "one.example", "4"))?;
    comes_to_serve(port, "one.example", "4").await?;
    load.goes_on(50).await?;
    load.stop_expecting(Shot::is_ok).await.map(drop)
}

async fn a_restart_sends_what_changed(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    for name in ["stays", "edited", "goes"] {
        world.write(&format!("{name}.yaml"), route(name, &format!("{name}.example"), "1"))?;
    }
    let holdfast = world.run_with(options(&world)?).await?;
    for name in ["stays", "edited", "goes"] {
        comes_to_serve(port, &format!("{name}.example"), "1").await?;
    }
    let load = Hammer::start([request(port, "stays.example"), request(port, "edited.example")]);
    load.goes_on(20).await?;
    // Without a change, nothing is sent.
    let holdfast = world.run_with(holdfast.kill()?).await?;
    let none = connected_and_sent(&holdfast).await?;
    // The route configuration without hosts is sent if the Envoy subscribes to hosts later than to route configurations.
    ensure!(none <= 1.0, "{none} resources were sent to an Envoy that had them all");
    let options = holdfast.kill()?;
    world.delete("goes.yaml")?;
    world.write("edited.yaml", route("edited", "edited.example", "2"))?;
    let holdfast = world.run_with(options).await?;
    comes_to_serve(port, "edited.example", "2").await?;
    request(port, "goes.example").comes_to_answer(404).await?;
    serves(port, "stays.example", "1").await?;
    let two = connected_and_sent(&holdfast).await?;
    ensure!((2.0..=3.0).contains(&two), "{two} resources were sent for an edited and a deleted host");
    load.stop_expecting(Shot::is_ok).await.map(drop)
}

/// A pattern that translation accepts, and the Envoy of this story refuses.
fn refused(name: &str, host: &str) -> String {
    http_route(
        name,
        &format!(
            "hostnames: [{host}]\nrules:\n- matches: [{{path: {{type: RegularExpression, value: \
             '/([a-z0-9]{{1,40}}-[a-z0-9]{{1,40}})'}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
        ),
    )
}

async fn a_refused_host_is_held_back(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    for name in ["one", "two", "three"] {
        world.write(&format!("{name}.yaml"), route(name, &format!("{name}.example"), "1"))?;
    }
    let options =
        HoldfastOptions::new(&world)?.without_envoy().args(&["--probe", "off"]).args(&BACKFILL).args(&SEPARATE);
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = holdfast_scenario_tests::fleet::FleetEnvoy::small("small").start(&world, &options).await?;
    for name in ["one", "two", "three"] {
        comes_to_serve(port, &format!("{name}.example"), "1").await?;
    }
    let load = Hammer::start(["one", "two", "three"].map(|name| request(port, &format!("{name}.example"))));
    load.goes_on(20).await?;
    // Two broken hosts, a good edit and a new host at the same time.
    world.write("one.yaml", refused("one", "one.example"))?;
    world.write("three.yaml", refused("three", "three.example"))?;
    world.write("two.yaml", route("two", "two.example", "2"))?;
    world.write("four.yaml", route("four", "four.example", "2"))?;
    comes_to_serve(port, "two.example", "2").await?;
    comes_to_serve(port, "four.example", "2").await?;
    for host in ["one.example", "three.example"] {
        serves(port, host, "1").await?;
    }
    let blamed = || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let text = report["brokenObjects"].to_string();
        ensure!(text.contains("\"one\"") && text.contains("\"three\""), "{text}");
        ensure!(!text.contains("\"two\"") && !text.contains("\"four\""), "{text}");
        Ok(())
    };
    until("both are found", blamed).await?;
    load.goes_on(50).await?;
    load.stop_expecting(Shot::is_ok).await?;
    world.write("one.yaml", route("one", "one.example", "3"))?;
    comes_to_serve(port, "one.example", "3").await?;
    serves(port, "three.example", "1").await?;
    ensure!(envoy.refusals().await? > 0, "the Envoy refused nothing");
    Ok(())
}
