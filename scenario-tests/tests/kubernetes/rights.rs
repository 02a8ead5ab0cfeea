//! RBAC rights: Holdfast works with the rights of the chart's roles; a missing right is reported by name, everything
//! else continues, and known objects of a kind stay.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::kubernetes::{Cluster, chart};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, manifests, stories, until};
use serde_json::Value;

use super::kinds::{class_reports, guard, is_counted, request_as, user_gets};
use super::leading::condition_becomes;
use super::reporting::event;
use super::serving::{answers, backend, gateway, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("rights", true, [missing_write_permissions_are_named, what_may_not_be_read_stays])
}

/// The ClusterRole that allows to read all namespaces.
const ROLE: &str = "holdfast-holdfast";

/// Applies the RBAC objects of the chart; returns the ClusterRole and options of a Holdfast with these rights only.
async fn with_rights_of_the_chart(world: &World, cluster: &Cluster) -> Result<(Value, HoldfastOptions)> {
    let all = chart::objects(&chart::render(world, &[]).await?)?;
    cluster.kubectl_output(&["create", "namespace", "holdfast"]).await?;
    for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
        for object in chart::of_kind(&all, kind) {
            cluster.apply(object.to_string()).await?;
        }
    }
    let roles = chart::of_kind(&all, "ClusterRole");
    let role = roles.into_iter().find(|role| role["metadata"]["name"] == ROLE).context("no role")?.clone();
    let token = cluster.kubectl_output(&["-n", "holdfast", "create", "token", "holdfast"]).await?;
    let kubeconfig: PathBuf = cluster.kubeconfig_of(token.trim())?;
    let key = world.folder().join("store.key");
    std::fs::write(&key, [7; 32])?;
    let options = HoldfastOptions { manifests: Vec::new(), ..HoldfastOptions::new(world)? };
    let options = options.args(&[
        "--kubeconfig",
        &kubeconfig.display().to_string(),
        "--lease-namespace",
        "holdfast",
        "--feature-gates",
        "FallbackConfiguration=true",
        "--use-last-valid-config-for-fallback",
        "--store-key-file",
        &key.display().to_string(),
    ]);
    let options = options.env("POD_NAME", "holdfast-0").env("POD_NAMESPACE", "holdfast").env("POD_UID", "1");
    Ok((role, options))
}

/// Returns the role without these resources.
fn without(role: &Value, resources: &[&str]) -> Result<Value> {
    let mut less = role.clone();
    let mut taken = 0;
    for rule in less["rules"].as_array_mut().context("no rules")? {
        if let Some(all) = rule["resources"].as_array_mut() {
            let before = all.len();
            all.retain(|resource| !resource.as_str().is_some_and(|name| resources.contains(&name)));
            taken += before - all.len();
        }
    }
    ensure!(taken >= resources.len(), "the role does not name all of {resources:?}");
    let is_empty = |rule: &Value| rule["resources"].as_array().is_some_and(Vec::is_empty);
    less["rules"].as_array_mut().context("no rules")?.retain(|rule| !is_empty(rule));
    Ok(less)
}

async fn replace(world: &World, cluster: &Cluster, role: &Value) -> Result<()> {
    let file = world.folder().join("role.json");
    std::fs::write(&file, role.to_string())?;
    cluster.kubectl_output(&["replace", "-f", &file.display().to_string()]).await.map(drop)
}

/// Waits until a page of diagnostics contains this problem.
async fn is_shown(holdfast: &Holdfast, words: &str) -> Result<()> {
    until(&format!("diagnostics say {words:?}"), || async {
        let problems = &holdfast.diagnostics("/debug/faults").await?["problems"];
        ensure!(problems.to_string().contains(words), "{problems}");
        Ok(())
    })
    .await
}

async fn missing_write_permissions_are_named(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    let (role, options) = with_rights_of_the_chart(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let holdfast = world.run_with(options).await?;
    answers(port, "/one", 200).await?;
    condition_becomes(&cluster, "Accepted", "True").await?;
    event(&cluster, "ConfigurationSucceeded", "Pod/holdfast-0", "").await?;
    class_reports(&cluster, "True Read").await?;

    replace(&world, &cluster, &without(&role, &["httproutes/status", "events"])?).await?;
    let broken = "rules:\n- matches: [{path: {type: RegularExpression, value: \"/(\"}}]\n  \
                  backendRefs: [{name: echo, port: 8080}]";
    cluster.apply(manifests::http_route("r", broken)).await?;
    let status = "httproutes/status in default: the permission to get httproutes/status of the API group \
                  gateway.networking.k8s.io is missing";
    let events =
        "events in default: the permission to create and patch events of the API group events.k8s.io is missing";
    holdfast.comes_to_print(&[status, events]).await?;
    is_shown(&holdfast, "the permission to get httproutes/status").await?;
    is_counted(&holdfast, "httproutes/status", "Denied", 1.0).await?;
    class_reports(&cluster, "False Denied").await?;
    // Other statuses are written, and the served configuration is not affected.
    answers(port, "/one", 200).await?;
    let another = world.port()?;
    cluster.apply(manifests::gateway("other", &manifests::http_listener(another))).await?;
    until("another Gateway is told", || async {
        let path = "jsonpath={.status.conditions[?(@.type==\"Accepted\")].status}";
        let output = cluster.kubectl_output(&["get", "gateway", "other", "-o", path]).await?;
        ensure!(output == "True", "{output:?}");
        Ok(())
    })
    .await?;
    // The write is tried repeatedly, and reported once.
    for _ in 0..2 {
        let tries = denied(&cluster)?;
        until("it is tried again", || async {
            ensure!(denied(&cluster)? > tries);
            Ok(())
        })
        .await?;
    }
    let output = holdfast.output();
    ensure!(output.matches(status).count() == 1 && output.matches("forbidden").count() == 0, "{output}");

    replace(&world, &cluster, &role).await?;
    condition_becomes(&cluster, "holdfast.dev/Fallback", "True").await?;
    holdfast.comes_to_print(&["no longer: httproutes/status in default"]).await?;
    is_counted(&holdfast, "httproutes/status", "Denied", 0.0).await?;
    cluster.apply(manifests::http_route("r", &rule("/two"))).await?;
    event(&cluster, "Recovered", "HTTPRoute/r", "").await?;
    class_reports(&cluster, "True Read").await
}

/// Number of denied writes of a route's status.
fn denied(cluster: &Cluster) -> Result<usize> {
    let audit = cluster.audited()?;
    let entries = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_denied = |entry: &Value| {
        entry["objectRef"]["resource"] == "httproutes"
            && entry["objectRef"]["subresource"] == "status"
            && entry["responseStatus"]["code"] == 403
    };
    Ok(entries.filter(is_denied).count())
}

async fn what_may_not_be_read_stays(world: World) -> Result<()> {
    let mut cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    let (role, options) = with_rights_of_the_chart(&world, &cluster).await?;
    cluster.apply(guard("alice")).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let holdfast = world.run_with(options).await?;
    user_gets(port, Some("alice"), 200).await?;
    user_gets(port, None, 401).await?;
    let guests = Hammer::start([request_as(port, None)]);

    // An open watch stays open until it ends.
    replace(&world, &cluster, &without(&role, &["trafficpolicies"])?).await?;
    cluster.stop_api_server()?;
    cluster.start_api_server().await?;
    holdfast
        .comes_to_print(&[
            "gateway.kgateway.dev/TrafficPolicy: Holdfast is no longer permitted to read this kind; its 1 \
                         known objects",
        ])
        .await?;
    is_shown(&holdfast, "gateway.kgateway.dev/TrafficPolicy").await?;
    is_counted(&holdfast, "gateway.kgateway.dev/TrafficPolicy", "Denied", 1.0).await?;
    class_reports(&cluster, "False Denied").await?;
    cluster.apply(guard("bob")).await?;
    cluster.apply(manifests::http_route("more", &rule("/more"))).await?;
    answers(port, "/more", 200).await?;
    user_gets(port, Some("alice"), 200).await?;
    guests.goes_on(100).await?;

    // After a restart Holdfast serves the stored configuration and does not decide anything.
    let options = holdfast.kill()?;
    let mut holdfast = Holdfast::start(&world, options)?;
    let awaited = "gateway.kgateway.dev/TrafficPolicy: not listed yet";
    holdfast.comes_to_print(&[awaited, "until then the stored configuration is served"]).await?;
    user_gets(port, Some("alice"), 200).await?;
    guests.goes_on(100).await?;

    guests.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 401, .. })).await?;
    // Until Envoys have acknowledged a changed access list, no client is allowed.
    let guests = Hammer::start([request_as(port, None)]);
    replace(&world, &cluster, &role).await?;
    holdfast.comes_to_be_ready().await?;
    user_gets(port, Some("bob"), 200).await?;
    user_gets(port, Some("alice"), 401).await?;
    class_reports(&cluster, "True Read").await?;
    guests.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 401 | 500, .. })).await.map(drop)
}
