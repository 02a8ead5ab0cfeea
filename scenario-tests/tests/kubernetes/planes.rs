//! Data planes: the objects of a Gateway are created and corrected; objects of other owners are not changed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, binary, envoy, manifests, request::get, stories, until};
use hyper::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::pod::{GatewayPod, secured_at};
use super::reporting::in_a_pod;
use super::serving::{answers, backend, gateway, rule};

/// The port of the readiness probe of a Pod.
const READY: u16 = 19_001;
/// Name of the objects of the Gateway `public`.
const NAME: &str = "public-holdfast";

pub(crate) fn stories() -> Vec<Story> {
    let mut stories = stories!(
        "planes",
        false,
        [
            what_is_made_is_kept,
            pods_are_taken_by_the_strictest_profile,
            what_is_not_ours_is_not_touched,
            bad_parameters_leave_what_runs,
            switched_off_nothing_is_made,
            nothing_is_made_for_a_deleted_gateway
        ]
    );
    stories.extend(stories!(
        "planes",
        true,
        [an_envoy_of_the_bootstrap_serves, an_envoy_knows_the_server_by_its_address]
    ));
    stories
}

fn options(world: &World, cluster: &Cluster) -> Result<HoldfastOptions> {
    let options = HoldfastOptions { manifests: Vec::new(), ..HoldfastOptions::new(world)? }.without_envoy();
    let xds = options.xds.clone();
    let kubeconfig = cluster.kubeconfig().display().to_string();
    Ok(options.args(&["--kubeconfig", &kubeconfig, "--provision-xds-address", &xds]))
}

/// Waits until a field of an object has this value.
async fn comes_to_be(cluster: &Cluster, object: &str, field: &str, expected: &str) -> Result<()> {
    until(&format!("{field} of {object} is {expected}"), || async {
        let output = cluster.kubectl_output(&["get", object, "-o", &format!("jsonpath={{{field}}}")]).await?;
        ensure!(output == expected, "it is {output:?}");
        Ok(())
    })
    .await
}

/// Waits until a condition of the Gateway `public` has this status and reason.
async fn gateway_reports(cluster: &Cluster, condition: &str, expected: &str) -> Result<()> {
    let at = |field: &str| format!(".status.conditions[?(@.type==\"{condition}\")].{field}");
    until(&format!("{condition} is {expected}"), || async {
        let path = format!("jsonpath={{{}}} {{{}}}", at("status"), at("reason"));
        let output = cluster.kubectl_output(&["get", "gateway", "public", "-o", &path]).await?;
        ensure!(output == expected, "it is {output:?}");
        Ok(())
    })
    .await
}

fn parameters(text: &str) -> String {
    let text = manifests::indent(text, 4);
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: envoys, namespace: default}}\ndata:\n  parameters.yaml: |\n{text}\n"
    )
}

fn class_with_parameters() -> String {
    "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: holdfast}\nspec:\n  controllerName: \
     holdfast.dev/gateway-controller\n  parametersRef: {group: \"\", kind: ConfigMap, name: envoys, namespace: default}\n"
        .into()
}

async fn what_is_made_is_kept(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let port = gateway(&world, &cluster).await?;
    let _holdfast = world.run_with(options(&world, &cluster)?).await?;
    let deployment = format!("deployment/{NAME}");
    comes_to_be(&cluster, &deployment, ".spec.replicas", "1").await?;
    comes_to_be(&cluster, &format!("service/{NAME}"), ".spec.ports[*].port", &port.to_string()).await?;
    comes_to_be(&cluster, &format!("serviceaccount/{NAME}"), ".automountServiceAccountToken", "false").await?;
    let uid = cluster.kubectl_output(&["get", "gateway", "public", "-o", "jsonpath={.metadata.uid}"]).await?;
    comes_to_be(&cluster, &format!("configmap/{NAME}"), ".metadata.ownerReferences[*].uid", &uid).await?;
    // Nothing is written where nothing differs.
    let version = || cluster.kubectl_output(&["get", "deployment", NAME, "-o", "jsonpath={.metadata.resourceVersion}"]);
    let before = version().await?;
    // Changes of the parameters and of the listeners are applied.
    cluster.apply(parameters("replicas: 3\npodDisruptionBudget: {minAvailable: 1}")).await?;
    cluster.apply(class_with_parameters()).await?;
    comes_to_be(&cluster, &deployment, ".spec.replicas", "3").await?;
    ensure!(version().await? != before, "the version tells of a change");
    comes_to_be(&cluster, &format!("poddisruptionbudget/{NAME}"), ".spec.minAvailable", "1").await?;
    cluster.apply(manifests::gateway("public", &format!("{}\n{}", manifests::http_listener(port), second()))).await?;
    comes_to_be(&cluster, &format!("service/{NAME}"), ".spec.ports[?(@.port==81)].targetPort", "81").await?;
    // Changes and deletions by others are corrected.
    cluster.kubectl_output(&["scale", &deployment, "--replicas=7"]).await?;
    comes_to_be(&cluster, &deployment, ".spec.replicas", "3").await?;
    cluster.kubectl_output(&["delete", "service", NAME]).await?;
    comes_to_be(&cluster, &format!("service/{NAME}"), ".spec.type", "LoadBalancer").await?;
    // Labels that others add stay.
    cluster.kubectl_output(&["label", &deployment, "somebody=else"]).await?;
    // Objects that the parameters no longer request are deleted.
    cluster.apply(parameters("replicas: 2")).await?;
    comes_to_be(&cluster, &deployment, ".spec.replicas", "2").await?;
    until("the budget is gone", || async {
        let output = cluster.kubectl_output(&["get", "poddisruptionbudget", "-o", "name"]).await?;
        ensure!(output.is_empty(), "{output}");
        Ok(())
    })
    .await?;
    comes_to_be(&cluster, &deployment, ".metadata.labels.somebody", "else").await?;
    // When the Gateway changes to the class of another controller, the objects are deleted.
    let another = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: other}\nspec: \
                   {controllerName: example.com/other}\n";
    cluster.apply(another).await?;
    cluster
        .kubectl_output(&[
            "patch",
            "gateway",
            "public",
            "--type=merge",
            "-p",
            r#"{"spec":{"gatewayClassName":"other"}}"#,
        ])
        .await?;
    until("what was made is gone", || async {
        let output = cluster
            .kubectl_output(&["get", "deployment,service", "-o", "name", "-l", "app.kubernetes.io/managed-by"])
            .await?;
        ensure!(output.is_empty(), "{output}");
        Ok(())
    })
    .await
}

fn second() -> String {
    manifests::listener("second", 81, "protocol: HTTP")
}

async fn pods_are_taken_by_the_strictest_profile(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    gateway(&world, &cluster).await?;
    let options = options(&world, &cluster)?.args(&["--provision-drain-image", "holdfast:test"]);
    let _holdfast = world.run_with(options).await?;
    comes_to_be(&cluster, &format!("deployment/{NAME}"), ".spec.replicas", "1").await?;
    let strict = "apiVersion: v1\nkind: Namespace\nmetadata: {name: strict, labels: {pod-security.kubernetes.io/enforce: \
                  restricted}}\n";
    cluster.apply(strict).await?;
    let template = cluster.kubectl_output(&["get", "deployment", NAME, "-o", "jsonpath={.spec.template}"]).await?;
    let mut pod: Value = serde_json::from_str(&template)?;
    let fields = pod.as_object_mut().context("a template")?;
    fields.extend([("apiVersion".to_owned(), "v1".into()), ("kind".to_owned(), "Pod".into())]);
    fields["metadata"] = serde_json::json!({ "name": "envoy", "namespace": "strict" });
    let file = world.folder().join("pod.json");
    fs::write(&file, pod.to_string())?;
    cluster.kubectl_output(&["create", "-f", &file.display().to_string()]).await?;
    // The profile rejects less restricted Pods.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
    pod["metadata"]["name"] = "other".into();
    fs::write(&file, pod.to_string())?;
    let finished = cluster.kubectl(&["create", "-f", &file.display().to_string()]).await?;
    finished.expect_output(&["restricted"]).map(drop)
}

async fn what_is_not_ours_is_not_touched(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let theirs = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {NAME}, namespace: default}}\nspec: {{selector: {{app: theirs}}, \
         ports: [{{port: 7}}]}}\n"
    );
    cluster.apply(theirs).await?;
    gateway(&world, &cluster).await?;
    let _holdfast = world.run_with(options(&world, &cluster)?).await?;
    gateway_reports(&cluster, "Programmed", "False NoResources").await?;
    comes_to_be(&cluster, &format!("service/{NAME}"), ".spec.selector", r#"{"app":"theirs"}"#).await?;
    let made = cluster
        .kubectl_output(&["get", "deployment,serviceaccount", "-o", "name", "-l", "app.kubernetes.io/managed-by"])
        .await?;
    ensure!(made.is_empty(), "{made}");
    // When the foreign object is deleted, all objects are created.
    cluster.kubectl_output(&["delete", "service", NAME]).await?;
    comes_to_be(&cluster, &format!("deployment/{NAME}"), ".spec.replicas", "1").await?;
    gateway_reports(&cluster, "Programmed", "False AddressNotAssigned").await
}

async fn bad_parameters_leave_what_runs(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    gateway(&world, &cluster).await?;
    cluster.apply(parameters("replicas: 2")).await?;
    cluster.apply(class_with_parameters()).await?;
    let _holdfast = world.run_with(options(&world, &cluster)?).await?;
    let deployment = format!("deployment/{NAME}");
    comes_to_be(&cluster, &deployment, ".spec.replicas", "2").await?;
    cluster.apply(parameters("replicas: many")).await?;
    let accepted = ".status.conditions[?(@.type==\"Accepted\")].reason";
    comes_to_be(&cluster, "gatewayclass/holdfast", accepted, "InvalidParameters").await?;
    comes_to_be(&cluster, &deployment, ".spec.replicas", "2").await?;
    cluster.apply(parameters("replicas: 4")).await?;
    comes_to_be(&cluster, "gatewayclass/holdfast", accepted, "Accepted").await?;
    comes_to_be(&cluster, &deployment, ".spec.replicas", "4").await
}

async fn switched_off_nothing_is_made(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    gateway(&world, &cluster).await?;
    let options =
        options(&world, &cluster)?.args(&["--provision=false", "--gateway-addresses", "203.0.113.9,a.example"]);
    let _holdfast = world.run_with(options).await?;
    let addresses = ".status.addresses[*].value";
    comes_to_be(&cluster, "gateway/public", addresses, "203.0.113.9 a.example").await?;
    let made = cluster.kubectl_output(&[
        "get",
        "deployment,service,serviceaccount",
        "-o",
        "name",
        "-l",
        "app.kubernetes.io/managed-by",
    ]);
    let made = made.await?;
    ensure!(made.is_empty(), "{made}");
    Ok(())
}

/// Writes the generated bootstrap, with the path of the admin socket in the folder of the story.
async fn bootstrap(world: &World, cluster: &Cluster) -> Result<(PathBuf, PathBuf)> {
    until("the bootstrap is made", || cluster.kubectl_output(&["get", "configmap", NAME])).await?;
    let text = cluster.kubectl_output(&["get", "configmap", NAME, "-o", r"jsonpath={.data.bootstrap\.json}"]).await?;
    let socket = world.folder().join("admin.sock");
    let (file, text) = (
        world.folder().join("bootstrap.json"),
        text.replace("/run/holdfast/admin.sock", &socket.display().to_string()),
    );
    ensure!(text.contains("admin.sock"), "{text}");
    fs::write(&file, text)?;
    Ok((file, socket))
}

/// Number of deletions of the Gateway together with its objects, as by the garbage collector.
const DELETIONS: usize = 6;

async fn nothing_is_made_for_a_deleted_gateway(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    gateway(&world, &cluster).await?;
    let holdfast = world.run_with(options(&world, &cluster)?).await?;
    let made = ["service", "deployment", "configmap", "serviceaccount"].map(|kind| format!("{kind}/{NAME}"));
    for deletion in 0..DELETIONS {
        comes_to_be(&cluster, &made[1], ".metadata.name", NAME).await?;
        let objects = made.each_ref().map(String::as_str);
        cluster.kubectl_output(&[&["delete", "gateway/public"][..], &objects, &["--wait=false"]].concat()).await?;
        // Longer than all delays except the interval of full reconciliation.
        sleep(Duration::from_millis(2500)).await;
        let kinds = "service,deployment,configmap,serviceaccount";
        let left = cluster
            .kubectl_output(&["get", kinds, "-l", "app.kubernetes.io/managed-by=holdfast", "-o", "name"])
            .await?;
        ensure!(left.is_empty(), "after deletion {deletion} there is again: {left}\n{}", holdfast.output());
        // A Gateway with the same name that is created later is a new one, with its own objects.
        gateway(&world, &cluster).await?;
    }
    comes_to_be(&cluster, &made[0], ".metadata.name", NAME).await
}

async fn an_envoy_knows_the_server_by_its_address(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let options = secured_at(&world, in_a_pod(&world, &cluster).await?, "127.0.0.1").await?;
    let _holdfast = world.run_with(options).await?;
    let status = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#;
    let patch = ["patch", "service", NAME, "--subresource=status", "--type=merge", "-p", status];
    until("the Service is made", || cluster.kubectl_output(&patch)).await?;
    let path = "jsonpath={.status.conditions[?(@.type==\"Programmed\")].message}";
    until("the Gateway says where to look", || async {
        let message = cluster.kubectl_output(&["get", "gateway", "public", "-o", path]).await?;
        ensure!(message.contains(&format!("kubectl logs -n default deployment/{NAME}")), "{message}");
        Ok(())
    })
    .await?;
    let pod = GatewayPod::of(&world, &cluster, "public").await?;
    let _envoy = pod.start(&world)?;
    answers(port, "/one", 200).await?;
    gateway_reports(&cluster, "Programmed", "True Programmed").await
}

async fn an_envoy_of_the_bootstrap_serves(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let _holdfast = world.run_with(options(&world, &cluster)?).await?;
    let (file, socket) = bootstrap(&world, &cluster).await?;
    let program = envoy::find().map_err(anyhow::Error::msg)?;
    let config = file.display().to_string();
    let args = ["--config-path", &config, "--service-node", "pod-1", "--disable-hot-restart", "--concurrency", "1"];
    let _envoy = Process::start(&program, args, &[], &world.log("envoy"))?;
    answers(port, "/one", 200).await?;
    // The Service receives an address.
    gateway_reports(&cluster, "Programmed", "False AddressNotAssigned").await?;
    let status = r#"{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}"#;
    cluster.kubectl_output(&["patch", "service", NAME, "--subresource=status", "--type=merge", "-p", status]).await?;
    comes_to_be(&cluster, "gateway/public", ".status.addresses[*].value", "192.0.2.1").await?;
    gateway_reports(&cluster, "Programmed", "True Programmed").await?;
    // The readiness port serves readiness and statistics, and no other admin page.
    answers(READY, "/ready", 200).await?;
    let figures = get(READY, "/stats/prometheus").send().await?;
    ensure!(figures.status == 200 && figures.body.contains("envoy_server_live"), "{}", figures.status);
    for path in [
        "/config_dump",
        "/stats/prometheus/../../config_dump",
        "/stats/prometheus/",
        "//config_dump",
        "/quitquitquit",
        "/",
    ] {
        let reply = get(READY, path).send().await?;
        ensure!(reply.status == 404, "{path}: {}", reply.status);
    }
    for path in ["/quitquitquit", "/stats/prometheus", "/drain_listeners?graceful"] {
        let reply = get(READY, path).method(Method::POST).send().await?;
        ensure!(reply.status == 404, "{path}: {}", reply.status);
    }
    // The drain container drains the Envoy: requests are still served, and the readiness probe fails.
    let socket = socket.display().to_string();
    let drainer = Process::start(&binary::holdfast()?, ["drain", "--admin-socket", &socket], &[], &world.log("drain"))?;
    until("it waits", || async {
        ensure!(drainer.output().contains("waiting for SIGTERM"), "{}", drainer.output());
        Ok(())
    })
    .await?;
    answers(READY, "/ready", 200).await?;
    drop(drainer);
    answers(READY, "/ready", 503).await?;
    answers(port, "/one", 200).await
}
