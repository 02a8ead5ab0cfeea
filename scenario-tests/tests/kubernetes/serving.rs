//! Objects of an API server are served, and broken ones are contained.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::{Echo, EchoOptions};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, manifests, request::get, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!("serving", true, [objects_are_served, a_broken_route_is_contained])
}

/// Returns options of Holdfast with a cluster's objects and a managed Envoy for each Gateway.
pub(super) fn options(world: &World, cluster: &Cluster) -> Result<HoldfastOptions> {
    let options = HoldfastOptions { manifests: Vec::new(), ..HoldfastOptions::new(world)? };
    Ok(options.args(&["--kubeconfig", &cluster.kubeconfig().display().to_string()]))
}

/// Starts a backend with an address that a Pod could have, and applies a Service of its name.
pub(super) async fn backend(cluster: &Cluster, name: &str, address: [u8; 4]) -> Result<Echo> {
    let echo = EchoOptions { address: SocketAddr::from((address, 0)), ..EchoOptions::new("default", name, name) };
    let echo = Echo::start(echo).await?;
    cluster.apply(manifests::service("default", name, None, &[echo.address()])).await?;
    Ok(echo)
}

/// Applies the class and the Gateway `public` with one plain listener; returns its port.
pub(super) async fn gateway(world: &World, cluster: &Cluster) -> Result<u16> {
    let port = world.port()?;
    cluster
        .apply(manifests::documents(&[
            manifests::class(),
            manifests::gateway("public", &manifests::http_listener(port)),
        ]))
        .await?;
    Ok(port)
}

pub(super) fn rule(path: &str) -> String {
    format!("rules:\n- matches: [{{path: {{value: {path}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]")
}

pub(super) async fn answers(port: u16, path: &str, status: u16) -> Result<()> {
    until(&format!("{path} answers {status}"), || async {
        let reply = get(port, path).host("a.example.com").send().await?;
        ensure!(reply.status == status, "{}: {}", reply.status, reply.body);
        Ok(())
    })
    .await
}

async fn objects_are_served(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let _holdfast = world.run_with(options(&world, &cluster)?).await?;
    answers(port, "/one", 200).await?;
    answers(port, "/two", 404).await?;
    cluster.apply(manifests::http_route("r", &rule("/two"))).await?;
    answers(port, "/two", 200).await?;
    answers(port, "/one", 404).await?;
    cluster.kubectl_output(&["delete", "httproute", "r"]).await?;
    answers(port, "/two", 404).await
}

async fn a_broken_route_is_contained(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("good", &rule("/good"))).await?;
    cluster.apply(manifests::http_route("bad", &rule("/bad"))).await?;
    let options = options(&world, &cluster)?.args(&[
        "--feature-gates",
        "FallbackConfiguration=true",
        "--use-last-valid-config-for-fallback",
    ]);
    let holdfast = world.run_with(options).await?;
    answers(port, "/good", 200).await?;
    answers(port, "/bad", 200).await?;
    // The API server accepts a regular expression that Envoy cannot compile.
    let broken = "rules:\n- matches: [{path: {type: RegularExpression, value: \"/bad/(\"}}]\n  \
                  backendRefs: [{name: echo, port: 8080}]";
    cluster.apply(manifests::http_route("bad", broken)).await?;
    holdfast.comes_to_print(&["FallbackConfigurationSucceeded"]).await?;
    answers(port, "/bad", 200).await?;
    cluster.apply(manifests::http_route("good", &rule("/better"))).await?;
    answers(port, "/better", 200).await?;
    cluster.apply(manifests::http_route("bad", &rule("/mended"))).await?;
    answers(port, "/mended", 200).await?;
    answers(port, "/bad", 404).await
}
