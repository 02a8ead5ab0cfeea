//! Long outages of the API server: the served configuration stays, reconnecting clients are authenticated and served,
//! and afterwards everything recovers without intervention; also where the API server has lost its history.

use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::{Echo, EchoOptions};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::{Process, signal};
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, manifests, request::get, stories, until};

use super::leading::condition_becomes;
use super::pod::{GatewayPod, secured};
use super::reporting::{event, in_a_pod};
use super::serving::{answers, backend, gateway, options, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "outage",
        true,
        [minutes_without_an_api_server, a_restart_without_an_api_server, an_expired_watch_is_listed_again]
    )
}

/// Duration of the outage: every watch has ended by then, and waits as long as it can before its next attempt.
const AWAY: Duration = Duration::from_secs(60);
/// Number of objects that do not change.
const MANY: usize = 12;
/// The address of another backend.
const OTHER: [u8; 4] = [10, 244, 0, 2];

const MISTAKEN: &str = "rules:\n- matches: [{path: {type: RegularExpression, value: \"/(\"}}]\n  \
                        backendRefs: [{name: echo, port: 8080}]";

/// Waits until a backend of this name answers.
async fn reaches(port: u16, path: &str, pod: &str) -> Result<()> {
    get(port, path).host("a.example.com").comes_to_reach(pod).await.map(drop)
}

/// Applies a Gateway `other` of the same class with a route, and returns its port.
async fn another_gateway(world: &World, cluster: &Cluster) -> Result<u16> {
    let port = world.port()?;
    cluster.apply(manifests::gateway("other", &manifests::http_listener(port))).await?;
    let all = "rules: [{backendRefs: [{name: echo, port: 8080}]}]";
    cluster.apply(manifests::route("HTTPRoute", "default", "all", "- name: other\n", all)).await?;
    Ok(port)
}

/// State before the API server goes away.
struct BeforeOutage {
    cluster: Cluster,
    holdfast: Holdfast,
    _echo: Echo,
    /// Port of the Gateway `public`, with an Envoy that keeps running; `other` is the port of the Gateway with an Envoy
    /// that is restarted.
    port: u16,
    other: u16,
    _public: Process,
    pod: GatewayPod,
    envoy: Process,
    load: Hammer,
}

impl BeforeOutage {
    async fn begin(world: &World) -> Result<Self> {
        let cluster = Cluster::start(world).await?;
        let echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
        let port = gateway(world, &cluster).await?;
        let other = another_gateway(world, &cluster).await?;
        cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
        cluster.apply(manifests::http_route("stays", &rule("/stays"))).await?;
        let options = secured(world, in_a_pod(world, &cluster).await?).await?;
        let holdfast = world.run_with(options).await?;
        let (public, pod) =
            (GatewayPod::of(world, &cluster, "public").await?, GatewayPod::of(world, &cluster, "other").await?);
        let (public, envoy) = (public.start(world)?, pod.start(world)?);
        answers(port, "/one", 200).await?;
        answers(other, "/", 200).await?;
        event(&cluster, "ConfigurationSucceeded", "Pod/holdfast-0", "").await?;
        let load = Hammer::start([get(port, "/stays").host("a.example.com")]);
        Ok(Self { cluster, holdfast, _echo: echo, port, other, _public: public, pod, envoy, load })
    }
}

async fn minutes_without_an_api_server(world: World) -> Result<()> {
    let BeforeOutage { mut cluster, holdfast, _echo, port, other, _public, pod, envoy, load } =
        BeforeOutage::begin(&world).await?;
    let moved = EchoOptions { address: (OTHER, 0).into(), ..EchoOptions::new("default", "echo", "moved") };
    let moved = Echo::start(moved).await?;
    cluster.stop_api_server()?;
    holdfast.comes_to_print(&["the watch fails"]).await?;
    drop(envoy);
    let envoy = pod.start(&world)?;
    answers(other, "/", 200).await?;
    tokio::time::sleep(AWAY).await;
    load.goes_on(100).await?;
    // An Envoy that connects at the end of the outage is authenticated as well.
    drop(envoy);
    let _envoy = pod.start(&world)?;
    answers(other, "/", 200).await?;
    ensure!(holdfast.metric("holdfast_leader", &[]).await? < 0.5, "it leads by a Lease that nobody renewed");

    cluster.start_api_server().await?;
    cluster.apply(manifests::slices("default", "echo", &[moved.address()])).await?;
    cluster.apply(manifests::http_route("r", MISTAKEN)).await?;
    cluster.apply(manifests::http_route("new", &rule("/new"))).await?;
    answers(port, "/new", 200).await?;
    reaches(other, "/", "moved").await?;
    answers(port, "/one", 200).await?;
    condition_becomes(&cluster, "holdfast.dev/Fallback", "True").await?;
    event(&cluster, "Backfilled", "HTTPRoute/r", "was refused").await?;
    cluster.apply(manifests::http_route("r", &rule("/two"))).await?;
    answers(port, "/two", 200).await?;
    condition_becomes(&cluster, "holdfast.dev/Fallback", "").await?;
    until("nothing is said to be wrong", || nothing_is_wrong(&holdfast)).await?;
    load.stop_expecting(Shot::is_ok).await.map(drop)
}

/// A Holdfast that restarts during the outage has only the objects and token keys that it stored.
async fn a_restart_without_an_api_server(world: World) -> Result<()> {
    let BeforeOutage { mut cluster, holdfast, _echo, port, other, _public, pod, envoy, load } =
        BeforeOutage::begin(&world).await?;
    cluster.stop_api_server()?;
    holdfast.comes_to_print(&["the watch fails"]).await?;
    let options = holdfast.kill()?;
    drop(envoy);
    let holdfast = Holdfast::start(&world, options)?;
    let _envoy = pod.start(&world)?;
    answers(other, "/", 200).await?;
    answers(port, "/one", 200).await?;
    holdfast
        .comes_to_print(&["cannot fetch the keys that verify tokens", "until then the stored configuration is served"])
        .await?;
    let page = holdfast.diagnostics("/debug/config/fallback").await?;
    let is_unverified = |gateway: &serde_json::Value| gateway["state"] == "unverified";
    ensure!(page["gateways"].as_array().is_some_and(|all| all.iter().any(is_unverified)), "{page}");
    cluster.start_api_server().await?;
    cluster.apply(manifests::http_route("r", &rule("/two"))).await?;
    answers(port, "/two", 200).await?;
    answers(port, "/one", 404).await?;
    condition_becomes(&cluster, "Accepted", "True").await?;
    until("nothing is said to be wrong", || nothing_is_wrong(&holdfast)).await?;
    load.stop_expecting(Shot::is_ok).await.map(drop)
}

async fn nothing_is_wrong(holdfast: &Holdfast) -> Result<()> {
    let faults = holdfast.diagnostics("/debug/faults").await?;
    ensure!(faults["problems"].as_array().is_some_and(Vec::is_empty), "{faults}");
    let page = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(page["status"] == "not-triggered", "{page}");
    Ok(())
}

/// The resource version of the watches has expired: in etcd, and in a restarted API server.
async fn an_expired_watch_is_listed_again(world: World) -> Result<()> {
    let mut cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    let named = |n: usize| manifests::http_route(&format!("stays-{n}"), &rule(&format!("/stays/{n}")));
    cluster.apply(manifests::documents(&(0..MANY).map(named).collect::<Vec<_>>())).await?;
    cluster.apply(manifests::http_route("edited", &rule("/before"))).await?;
    cluster.apply(manifests::http_route("deleted", &rule("/deleted"))).await?;
    let holdfast = world.run_with(options(&world, &cluster)?).await?;
    for path in ["/stays/0", "/before", "/deleted"] {
        answers(port, path, 200).await?;
    }
    let all = (0..MANY).map(|n| get(port, &format!("/stays/{n}")).host("a.example.com"));
    let load = Hammer::start_kept_in_turn(all);

    // Holdfast is stopped and receives no event of the next changes.
    cluster.stop_api_server()?;
    holdfast.comes_to_print(&["HTTPRoute: the watch fails", "EndpointSlice: the watch fails"]).await?;
    signal(holdfast.id(), "STOP");
    cluster.start_api_server().await?;
    cluster.apply(manifests::http_route("edited", &rule("/after"))).await?;
    cluster.kubectl_output(&["delete", "httproute", "deleted"]).await?;
    cluster.apply(manifests::http_route("made", &rule("/made"))).await?;
    cluster.stop_api_server()?;
    cluster.forget_history().await?;
    cluster.start_api_server().await?;
    signal(holdfast.id(), "CONT");
    let relisted = "the watch has expired at the API server; Holdfast lists the objects again kind=\"gateway.networking.k8s.io/HTTPRoute\"";
    holdfast.comes_to_print(&[relisted]).await?;
    answers(port, "/after", 200).await?;
    answers(port, "/made", 200).await?;
    answers(port, "/deleted", 404).await?;
    answers(port, "/before", 404).await?;
    until("nothing is said to be wrong", || nothing_is_wrong(&holdfast)).await?;
    load.stop_expecting(Shot::is_ok).await?;
    // The watches continue from the new list.
    cluster.apply(manifests::http_route("edited", &rule("/last"))).await?;
    answers(port, "/last", 200).await
}
