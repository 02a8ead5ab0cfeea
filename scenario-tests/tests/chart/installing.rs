//! Installation: a real API server accepts the rendered objects, Helm installs and upgrades the chart, and Holdfast
//! works with the rights of the roles.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use holdfast_kubernetes::rights::{PermissionScope, rights};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{Story, World, binary, stories, until};
use serde_json::{Value, json};

use super::{chart, full, helm, objects, of_kind, only, render, write};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "installing",
        false,
        [
            the_api_server_takes_what_is_rendered,
            pods_pass_the_restricted_level,
            the_key_outlives_upgrades_and_the_release,
            holdfast_uses_what_its_roles_give_and_no_more,
        ]
    )
}

/// CRDs of the Prometheus operator, as far as the chart needs them.
fn monitoring() -> String {
    ["ServiceMonitor", "PrometheusRule"]
        .map(|kind| {
            let one = kind.to_lowercase();
            format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                 metadata: {{name: {one}s.monitoring.coreos.com}}\nspec:\n  group: monitoring.coreos.com\n  scope: Namespaced\n  \
                 names: {{kind: {kind}, plural: {one}s, singular: {one}}}\n  versions:\n  - name: v1\n    served: true\n    \
                 storage: true\n    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n"
            )
        })
        .join("---\n")
}

async fn namespaces(cluster: &Cluster, names: &[&str]) -> Result<()> {
    for name in names {
        cluster.kubectl_output(&["create", "namespace", name]).await?;
    }
    Ok(())
}

async fn the_api_server_takes_what_is_rendered(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    namespaces(&cluster, &["holdfast", "shop", "infra"]).await?;
    cluster.apply(monitoring()).await?;
    for crd in ["servicemonitors", "prometheusrules"] {
        let crd = format!("crd/{crd}.monitoring.coreos.com");
        cluster.kubectl_output(&["wait", "--for=condition=Established", "--timeout=60s", &crd]).await?;
    }
    let full = full();
    for (name, args) in [
        ("default", vec![]),
        ("full", vec!["--values", full.as_str()]),
        ("deployment", vec!["--set", "persistence.enabled=false,storeKey.enabled=false,xds.tls.enabled=false"]),
    ] {
        let file = write(&world, &format!("{name}.yaml"), &render(&world, &args).await?)?;
        let output = cluster
            .kubectl_output(&["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", &file])
            .await
            .with_context(|| format!("{name} values"))?;
        ensure!(output.lines().count() >= 10, "{name}: {output}");
    }
    // The check can fail.
    let wrong = render(&world, &[]).await?.replacen("publishNotReadyAddresses", "publishUnreadyAddresses", 1);
    let file = write(&world, "wrong.yaml", &wrong)?;
    let finished =
        cluster.kubectl(&["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", &file]).await?;
    ensure!(finished.code != Some(0), "an unknown field is taken");
    Ok(())
}

async fn pods_pass_the_restricted_level(world: World) -> Result<()> {
    let cluster = Cluster::bare(&world).await?;
    cluster
        .apply(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: strict\n  labels:\n    \
             pod-security.kubernetes.io/enforce: restricted\n    pod-security.kubernetes.io/enforce-version: latest\n",
        )
        .await?;
    let all = objects(&render(&world, &["--set", "persistence.enabled=false"]).await?)?;
    let mut spec = only(&all, "Deployment")?["spec"]["template"]["spec"].clone();
    let pod = |spec: &Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "strict"}, "spec": spec});
    let file = write(&world, "pod.json", &pod(&spec).to_string())?;
    cluster.kubectl_output(&["create", "--dry-run=server", "-f", &file]).await?;
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let file = write(&world, "loose.json", &pod(&spec).to_string())?;
    let finished = cluster.kubectl(&["create", "--dry-run=server", "-f", &file]).await?;
    ensure!(
        finished.code != Some(0) && finished.stderr.contains("restricted"),
        "a looser Pod is taken: {}",
        finished.output()
    );
    Ok(())
}

async fn the_key_outlives_upgrades_and_the_release(world: World) -> Result<()> {
    let cluster = Cluster::bare(&world).await?;
    let (chart, kubeconfig) = (chart().display().to_string(), cluster.kubeconfig().display().to_string());
    let run = async |args: &[&str]| -> Result<()> {
        let mut all = vec!["--kubeconfig", kubeconfig.as_str(), "--namespace", "holdfast"];
        all.extend(args);
        helm(&world, &all).await?.expect_code(0).map(drop)
    };
    let key = async || {
        cluster
            .kubectl_output(&["-n", "holdfast", "get", "secret", "holdfast-store-key", "-o", "jsonpath={.data}"])
            .await
    };
    let crds = "crds.gatewayApi=true,crds.contour=true,crds.kgateway=true";
    run(&["install", "holdfast", &chart, "--create-namespace", "--set", crds]).await?;
    for object in [
        "gatewayclass/holdfast",
        "crd/httproutes.gateway.networking.k8s.io",
        "crd/httpproxies.projectcontour.io",
        "crd/trafficpolicies.gateway.kgateway.dev",
    ] {
        cluster.kubectl_output(&["get", object]).await?;
    }
    let first = key().await?;
    ensure!(first.contains("store.key"), "{first}");
    run(&["upgrade", "holdfast", &chart, "--set", "replicas=2"]).await?;
    ensure!(
        cluster
            .kubectl_output(&["-n", "holdfast", "get", "statefulset", "holdfast", "-o", "jsonpath={.spec.replicas}"])
            .await?
            == "2"
    );
    ensure!(key().await? == first, "an upgrade makes another key");
    run(&["uninstall", "holdfast"]).await?;
    ensure!(
        cluster.kubectl(&["-n", "holdfast", "get", "statefulset", "holdfast"]).await?.code != Some(0),
        "it is still there"
    );
    run(&["install", "holdfast", &chart, "--set", crds]).await?;
    ensure!(key().await? == first, "the key is lost with the release");
    // Helm keeps several releases in Secrets, so a release must be small.
    let size = cluster
        .kubectl_output(&[
            "-n",
            "holdfast",
            "get",
            "secret",
            "-l",
            "owner=helm,version=1",
            "-o",
            "jsonpath={.items[0].data.release}",
        ])
        .await?;
    ensure!(size.len() < 900_000, "the release has {} bytes", size.len());
    Ok(())
}

/// Objects of each kind with a status, and a broken policy, which causes an Event.
const OBJECTS: &str = include_str!("objects.yaml");
/// Verbs that a story cannot wait for: `list` is used only where the server does not support lists in watches, an Event
/// is patched only when it repeats, and shared state is updated and deleted only with connected Envoys (see the stories
/// of Kubernetes mode).
const NOT_WAITED_FOR: [(&str, &str); 4] =
    [("list", ""), ("patch", "events"), ("update", "secrets"), ("delete", "secrets")];

async fn holdfast_uses_what_its_roles_give_and_no_more(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    namespaces(&cluster, &["holdfast", "shop"]).await?;
    let all = objects(&render(&world, &["--set", "replicas=2"]).await?)?;
    for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        for object in of_kind(&all, kind) {
            cluster.apply(object.to_string()).await?;
        }
    }
    cluster.apply(OBJECTS).await?;
    let token = cluster.kubectl_output(&["-n", "holdfast", "create", "token", "holdfast"]).await?;
    let kubeconfig = cluster.kubeconfig_of(token.trim())?.display().to_string();
    let data = world.data().display().to_string();
    let args = [
        "run",
        "--kubeconfig",
        &kubeconfig,
        "--data-dir",
        &data,
        "--lease-name",
        "holdfast",
        "--lease-namespace",
        "holdfast",
        "--shared-secrets",
        "on",
        "--envoy",
        "none",
        "--probe",
        "off",
        "--diagnostics-listen",
        "none",
        "--metrics-listen",
        "none",
    ];
    let pod = [("POD_NAME", "holdfast-0"), ("POD_NAMESPACE", "holdfast"), ("POD_UID", "1")];
    let pod: Vec<(String, String)> = pod.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let holdfast = Process::start(&binary::holdfast()?, args, &pod, &world.log("holdfast"))?;
    until("every right is used", || async {
        let (used, denied) = used(&cluster.audited()?)?;
        ensure!(denied.is_empty(), "denied: {denied:?}");
        let unused: Vec<_> = required_rights().difference(&used).cloned().collect();
        ensure!(unused.is_empty(), "never used: {unused:?}");
        Ok(())
    })
    .await?;
    let (used, denied) = used(&cluster.audited()?)?;
    ensure!(denied.is_empty(), "denied: {denied:?}");
    ensure!(used.iter().all(|(_, resource, _)| resource != "pods"), "{used:?}");
    let output = holdfast.output();
    if output.contains("no longer permitted to read this kind") || output.contains("forbidden") {
        bail!("{output}");
    }
    Ok(())
}

/// Group, resource and verb.
type Use = (String, String, String);

/// Returns the rights that must be used.
fn required_rights() -> BTreeSet<Use> {
    let mut required = BTreeSet::new();
    for right in rights().into_iter().filter(|right| {
        matches!(
            right.place,
            PermissionScope::Cluster | PermissionScope::Watched | PermissionScope::Own | PermissionScope::Shared
        )
    }) {
        let waited = |verb: &&&str| {
            !NOT_WAITED_FOR
                .iter()
                .any(|(of, resource)| *of == **verb && (resource.is_empty() || *resource == right.resource))
        };
        required.extend(
            right.verbs.iter().filter(waited).map(|verb| (right.group.into(), right.resource.clone(), (*verb).into())),
        );
    }
    required
}

/// Returns the used and the denied rights of an audit log.
fn used(audit: &str) -> Result<(BTreeSet<Use>, BTreeSet<Use>)> {
    let (mut used, mut denied) = (BTreeSet::new(), BTreeSet::new());
    // The last line may be incomplete.
    for entry in audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |at: &str| entry.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let resource = match (text("/objectRef/resource"), text("/objectRef/subresource")) {
            (resource, _) if resource.is_empty() => continue,
            (resource, sub) if sub.is_empty() => resource,
            (resource, sub) => format!("{resource}/{sub}"),
        };
        let one = (text("/objectRef/apiGroup"), resource, text("/verb"));
        match entry["responseStatus"]["code"].as_u64() {
            Some(403) => denied.insert(one),
            _ => used.insert(one),
        };
    }
    Ok((used, denied))
}
