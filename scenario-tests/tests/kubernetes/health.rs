//! `holdfast status` with an API server that lacks the kinds of Holdfast, that goes away, and that is frozen.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, manifests, request::get, stories, until};

use super::serving::{answers, backend, gateway, options, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("health", true, [a_cluster_without_definitions, an_api_server_that_is_lost, an_api_server_that_is_frozen])
}

/// Maximum time until a frozen API server is reported.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// Waits until `holdfast status` exits with this code and prints all of these texts.
async fn status_comes_to_print(world: &World, holdfast: &Holdfast, code: i32, words: &[&str]) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until(&format!("status ends with {code} and says {words:?}"), || async {
        let finished = world.command(&["status", "--diagnostics", &address]).await?;
        finished.expect_code(code)?.expect_output(words)?;
        let is_well = finished.stdout.contains("Everything is served as desired.");
        ensure!(is_well == (code == 0), "{}", finished.stdout);
        Ok(())
    })
    .await
}

async fn a_cluster_without_definitions(world: World) -> Result<()> {
    let cluster = Cluster::bare(&world).await?;
    let holdfast = world.run_with(options(&world, &cluster)?).await?;
    let words = [
        "1 input that cannot",
        "INPUTS",
        "gateway.networking.k8s.io/HTTPRoute, projectcontour.io/HTTPProxy",
        "nothing can be served",
        "kubectl get crds",
    ];
    status_comes_to_print(&world, &holdfast, 1, &words).await
}

async fn an_api_server_that_is_lost(world: World) -> Result<()> {
    let mut cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let holdfast = world.run_with(options(&world, &cluster)?).await?;
    answers(port, "/one", 200).await?;
    status_comes_to_print(&world, &holdfast, 0, &["Objects come from the API server: read"]).await?;
    cluster.stop_api_server()?;
    let words = [
        "1 input that cannot",
        "INPUTS",
        "the API server",
        "it cannot be reached",
        "its last answer was ",
        "NOT read now",
    ];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    answers(port, "/one", 200).await?;
    cluster.start_api_server().await?;
    status_comes_to_print(&world, &holdfast, 0, &["Objects come from the API server: read"]).await
}

/// A stopped process keeps its connections: no request fails, and watches look idle.
async fn an_api_server_that_is_frozen(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    cluster.apply(manifests::http_route("stays", &rule("/stays"))).await?;
    let holdfast = world.run_with(options(&world, &cluster)?).await?;
    answers(port, "/one", 200).await?;
    answers(port, "/stays", 200).await?;
    status_comes_to_print(&world, &holdfast, 0, &["Objects come from the API server: read"]).await?;
    let load = Hammer::start([get(port, "/stays").host("a.example.com")]);
    let frozen = cluster.freeze_api_server()?;
    let since = Instant::now();
    let words = ["INPUTS", "the API server", "it has not answered within", "its last answer was ", "NOT read now"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    let page = holdfast.diagnostics("/debug/health").await?;
    ensure!(page.to_string().contains("has not answered within"), "{page}");
    ensure!(since.elapsed() < NOTICED_WITHIN, "it took {:?}", since.elapsed());
    load.goes_on(100).await?;
    drop(frozen);
    status_comes_to_print(&world, &holdfast, 0, &["Objects come from the API server: read"]).await?;
    cluster.apply(manifests::http_route("r", &rule("/two"))).await?;
    answers(port, "/two", 200).await?;
    answers(port, "/one", 404).await?;
    load.stop_expecting(Shot::is_ok).await.map(drop)
}
