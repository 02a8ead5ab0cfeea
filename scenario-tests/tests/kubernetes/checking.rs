//! `holdfast check --kubeconfig`: the objects of an API server are listed, and manifests are applied to them in memory.

use std::fs;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::Finished;
use holdfast_scenario_tests::{Story, World, manifests, stories, until};
use serde_json::Value;

use super::reporting::in_a_pod;
use super::serving::{answers, backend, gateway, rule};

pub(crate) fn stories() -> Vec<Story> {
    let plain = stories!(
        "checking",
        false,
        [a_cluster_is_checked_with_and_without_manifests, what_may_not_be_listed_is_an_error]
    );
    let with_envoy = stories!("checking", true, [an_edit_of_a_cluster_is_checked_against_its_store]);
    [plain, with_envoy].concat()
}

const BROKEN: &str =
    "rules:\n- matches: [{path: {type: RegularExpression, value: '/a['}}]\n  backendRefs: [{name: echo, port: 8080}]";
const SERVICE: &str =
    "{apiVersion: v1, kind: Service, metadata: {name: echo, namespace: default}, spec: {ports: [{port: 8080}]}}";

/// Applies a Gateway and a Service.
async fn sample(cluster: &Cluster) -> Result<()> {
    let gateway = manifests::gateway("public", &manifests::http_listener(80));
    cluster.apply(manifests::documents(&[manifests::class(), gateway, SERVICE.to_owned()])).await
}

async fn check(world: &World, cluster: &Cluster, more: &[&str]) -> Result<Finished> {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    world.command(&[&["check", "--kubeconfig", &kubeconfig], more].concat()).await
}

async fn a_cluster_is_checked_with_and_without_manifests(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    sample(&cluster).await?;
    cluster.apply(manifests::http_route("good", &rule("/good"))).await?;
    let before = cluster.kubectl_output(&["get", "httproutes,gateways,services", "-A", "-o", "yaml"]).await?;
    check(&world, &cluster, &[]).await?.expect_code(0)?.expect_output(&["cluster of ", "no findings", "1 route"])?;

    // An edit of an object that the cluster has, and a new object.
    let proposal = world.folder().join("proposal");
    fs::create_dir(&proposal)?;
    fs::write(proposal.join("edit.yaml"), manifests::http_route("good", BROKEN))?;
    fs::write(proposal.join("new.yaml"), manifests::http_route("new", &rule("/new")))?;
    let folder = proposal.display().to_string();
    let finished = check(&world, &cluster, &[&folder]).await?;
    finished.expect_code(1)?.expect_output(&[
        "edit.yaml:",
        "HTTPRoute:default/good: spec.rules[0].matches[0].path",
        "2 files, 12 objects: 1 finding",
    ])?;
    let page: Value = serde_json::from_str(&check(&world, &cluster, &["-o", "json", &folder]).await?.stdout)?;
    ensure!(
        page.pointer("/cluster/absent").is_some_and(|absent| absent.as_array().is_some_and(Vec::is_empty)),
        "{page}"
    );
    let after = cluster.kubectl_output(&["get", "httproutes,gateways,services", "-A", "-o", "yaml"]).await?;
    ensure!(before == after, "a check writes to the cluster");

    // A finding about an object of the cluster has no file, and files can repair it.
    cluster.apply(manifests::http_route("broken", BROKEN)).await?;
    let finished = check(&world, &cluster, &["-q"]).await?;
    let expected = "error: gateway.networking.k8s.io/HTTPRoute:default/broken: spec.rules[0].matches[0].path";
    ensure!(finished.expect_code(1)?.stdout.starts_with(expected), "{}", finished.output());
    let repair = world.folder().join("repair.yaml");
    fs::write(&repair, manifests::http_route("broken", &rule("/broken")))?;
    check(&world, &cluster, &[&repair.display().to_string()]).await?.expect_code(0)?;

    cluster.kubectl_output(&["delete", "crd", "trafficpolicies.gateway.kgateway.dev"]).await?;
    check(&world, &cluster, &[])
        .await?
        .expect_code(1)?
        .expect_output(&["gateway.kgateway.dev/TrafficPolicy: the API server does not serve this kind; passed over"])?;
    check(&world, &cluster, &["--context", "nowhere"]).await?.expect_code(2)?.expect_output(&["nowhere"])?;
    Ok(())
}

async fn what_may_not_be_listed_is_an_error(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    sample(&cluster).await?;
    cluster.kubectl_output(&["create", "serviceaccount", "reader"]).await?;
    let token = cluster.kubectl_output(&["create", "token", "reader"]).await?;
    let kubeconfig = cluster.kubeconfig_of(token.trim())?.display().to_string();
    let finished = world.command(&["check", "--kubeconfig", &kubeconfig]).await?;
    finished.expect_code(3)?.expect_output(&["may not list ", "forbidden"])?;
    Ok(())
}

async fn an_edit_of_a_cluster_is_checked_against_its_store(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("good", &rule("/good"))).await?;
    let holdfast = world.run_with(in_a_pod(&world, &cluster).await?).await?;
    answers(port, "/good", 200).await?;
    let edit = world.folder().join("edit.yaml");
    fs::write(&edit, manifests::http_route("good", BROKEN))?;
    let (data, edit) = (world.data().display().to_string(), edit.display().to_string());
    let gates = ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback"];
    // The object of the file has the UID of the object in the cluster, so that its stored version is served.
    until("the route is stored", async || {
        let against = ["--against", &data, &edit];
        let finished = check(&world, &cluster, &[&against[..], &gates].concat()).await?;
        finished.expect_code(1)?.expect_output(&[
            "HTTPRoute:default/good: broken on Gateway default/public",
            "HTTPRoute:default/good: backfilled with generation 1 instead of 2",
        ])?;
        ensure!(!finished.output().contains("would be deleted"), "{}", finished.output());
        Ok(())
    })
    .await?;
    answers(port, "/good", 200).await?;
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}
