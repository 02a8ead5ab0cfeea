//! State that replicas share through Secrets: the leader is killed during a refusal, the other replica serves the same,
//! and a new replica starts with this state. Secrets with unexpected content are not trusted.
//!
//! Envoys share the Gateway's port: the kernel selects one of them for each connection.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use holdfast_kubernetes::rights::{PermissionScope, rights};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::process;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, manifests, request::get, stories, until};
use serde_json::Value;

use super::serving::{backend, gateway};

pub(crate) fn stories() -> Vec<Story> {
    stories!("sharing", true, [the_leader_is_killed_and_nothing_changes, what_others_put_there_is_not_believed])
}

/// Number of connections after which each of three Envoys has had at least one, except once in a million cases.
const CONNECTIONS: usize = 40;
/// A regular expression that Envoy refuses with its default limit, and a matching text.
const LARGE: &str = "[a-z]{100}[0-9]{100}";
const SECRETS: [&str; 4] = ["secrets", "-n", "infra", "--selector=holdfast.dev/shared-store=holdfast"];

fn sample() -> String {
    format!("{}{}", "a".repeat(100), "1".repeat(100))
}

fn version(kind: &str, path: &str, version: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: {kind}, value: '{path}'}}}}]\n  filters:\n  - type: ResponseHeaderModifier\n    \
         responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}\n  backendRefs: [{{name: echo, port: 8080}}]\n"
    )
}

fn good(name: &str, number: &str) -> String {
    manifests::http_route(name, &version("PathPrefix", &format!("/{name}"), number))
}

fn refused(name: &str, number: &str) -> String {
    manifests::http_route(name, &version("RegularExpression", &format!("/{name}/{LARGE}"), number))
}

async fn everywhere(port: u16, name: &str, number: &str) -> Result<()> {
    until(&format!("{name} is served in version {number} by every Envoy"), || async {
        for _ in 0..CONNECTIONS {
            let reply = get(port, &format!("/{name}/{}", sample())).host("a.example.com").answers(200).await?;
            ensure!(reply.header("x-version") == number, "it is version {}", reply.header("x-version"));
        }
        Ok(())
    })
    .await
}

/// Returns the configuration of an Envoy: versions and contents of all resources.
async fn all(envoy: &RunningEnvoy) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (resource, field) in [
        ("dynamic_route_configs", "route_config"),
        ("dynamic_active_clusters", "cluster"),
        ("dynamic_listeners", "active_state"),
    ] {
        let dump = envoy.dump(resource).await?;
        let configs = dump["configs"].as_array().with_context(|| format!("no {resource}"))?;
        let of = |config: &Value| {
            let mut config = if field == "active_state" { config[field].clone() } else { config.clone() };
            // The time of the update differs between Envoys.
            config.as_object_mut().map(|fields| fields.remove("last_updated"));
            config
        };
        all.extend(configs.iter().map(of));
    }
    Ok(all)
}

async fn the_same(one: &RunningEnvoy, other: &RunningEnvoy) -> Result<Vec<Value>> {
    until(&format!("{} and {} have the same", one.node, other.node), || async {
        let (one, other) = (all(one).await?, all(other).await?);
        ensure!(one.len() > 2 && one == other, "{one:?}\n{other:?}");
        Ok(one)
    })
    .await
}

/// Creates a ServiceAccount with all rights, because the audit log records requests of ServiceAccounts only; and the
/// store key.
async fn setting(world: &World, cluster: &Cluster) -> Result<HoldfastOptions> {
    cluster.kubectl_output(&["create", "namespace", "infra"]).await?;
    cluster.kubectl_output(&["-n", "infra", "create", "serviceaccount", "holdfast"]).await?;
    let bound = ["create", "clusterrolebinding", "holdfast", "--clusterrole=cluster-admin"];
    cluster.kubectl_output(&[&bound[..], &["--serviceaccount=infra:holdfast"]].concat()).await?;
    let token = cluster.kubectl_output(&["-n", "infra", "create", "token", "holdfast"]).await?;
    let kubeconfig = cluster.kubeconfig_of(token.trim())?.display().to_string();
    let key = world.folder().join("store.key");
    fs::write(&key, "ab".repeat(32))?;
    let options = HoldfastOptions { manifests: Vec::new(), ..HoldfastOptions::new(world)? }.without_envoy();
    Ok(options.args(&["--kubeconfig", &kubeconfig, "--lease-namespace", "infra", "--probe", "off"]).args(&[
        "--shared-secrets=on",
        "--provision=false",
        "--feature-gates=FallbackConfiguration=true",
        "--use-last-valid-config-for-fallback",
        "--store-key-file",
        &key.display().to_string(),
    ]))
}

/// Returns options of one replica, with a separate data folder.
fn replica(world: &World, setting: &HoldfastOptions, name: &str) -> Result<HoldfastOptions> {
    let fresh = HoldfastOptions::new(world)?;
    let data = world.folder().join(name);
    fs::create_dir_all(&data)?;
    let options = HoldfastOptions { manifests: Vec::new(), data, args: setting.args.clone(), ..fresh };
    Ok(options.without_envoy().env("POD_NAME", name))
}

async fn comes_to_lead(holdfast: &Holdfast) -> Result<()> {
    until("it leads", || async {
        ensure!(holdfast.metric("holdfast_leader", &[]).await? > 0.5, "it does not");
        Ok(())
    })
    .await?;
    holdfast.comes_to_print(&["Leader"]).await
}

async fn comes_to_blame(holdfast: &Holdfast, name: &str) -> Result<()> {
    until(&format!("{name} is blamed"), || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let broken = report["brokenObjects"].as_array().context("no list")?;
        let blamed: Vec<_> = broken.iter().map(|one| (one["name"].as_str(), one["detectedBy"].as_str())).collect();
        ensure!(blamed == [(Some(name), Some("nack"))], "{blamed:?}");
        Ok(())
    })
    .await
}

/// Waits until the status of a route is of its newest generation, and has this fallback condition.
async fn status_reports(cluster: &Cluster, route: &str, fallback: &str) -> Result<()> {
    let of = |kind: &str, field: &str| format!("{{.status.parents[0].conditions[?(@.type==\"{kind}\")].{field}}}");
    let (observed, status) = (of("Accepted", "observedGeneration"), of("holdfast.dev/Fallback", "status"));
    let path = format!("jsonpath={{.metadata.generation}}/{observed}/{status}");
    until(&format!("the status of {route} says {fallback:?}"), || async {
        let output = cluster.kubectl_output(&["get", "httproute", route, "-o", &path]).await?;
        let words: Vec<&str> = output.split('/').collect();
        ensure!(words.first() == words.get(1) && words.get(2) == Some(&fallback), "{output}");
        Ok(())
    })
    .await
}

/// Checks that nothing was refused, according to Envoy and to Holdfast.
async fn never_refused(holdfast: &Holdfast, envoy: &RunningEnvoy) -> Result<()> {
    refused_at_most(holdfast, envoy, 0).await
}

/// Waits until an Envoy of another replica has refused what the leader's Envoy refused, since two refusals convict;
/// returns the number of its refusals.
async fn comes_to_refuse(envoy: &RunningEnvoy) -> Result<u32> {
    until("the second Envoy was asked", || async {
        ensure!(envoy.refusals().await? > 0, "no refusal yet");
        Ok(())
    })
    .await?;
    // An edit before the leader has the answer makes a different configuration, which is tried again.
    let refusals = u32::try_from(envoy.refusals().await?)?;
    // A slow machine has several such edits.
    ensure!(refusals <= 5, "it refused {refusals} times before the verdict");
    Ok(refusals)
}

async fn refused_at_most(holdfast: &Holdfast, envoy: &RunningEnvoy, most: u32) -> Result<()> {
    let refusals = envoy.refusals().await?;
    ensure!(refusals <= u64::from(most), "it refused {refusals} times instead of {most}");
    let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(nacks <= f64::from(most), "{nacks} refusals");
    Ok(())
}

/// Verbs on Secrets in the namespace `infra`, of Holdfast's ServiceAccount.
fn used(audit: &str) -> BTreeSet<String> {
    let entries = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_secrets = entries.filter(|entry| entry["objectRef"]["resource"] == "secrets");
    let of_infra = of_secrets.filter(|entry| entry["objectRef"]["namespace"] == "infra");
    of_infra.filter_map(|entry| entry["verb"].as_str().map(str::to_owned)).collect()
}

async fn the_leader_is_killed_and_nothing_changes(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(good("cart", "1")).await?;
    cluster.apply(good("other", "1")).await?;
    let setting = setting(&world, &cluster).await?;
    let (leads, follows) = (replica(&world, &setting, "one")?, replica(&world, &setting, "two")?);
    let one = world.run_with(leads.clone()).await?;
    comes_to_lead(&one).await?;
    let two = world.run_with(follows.clone()).await?;
    let first = FleetEnvoy::small("first").start(&world, &leads).await?;
    let second = FleetEnvoy::small("second").start(&world, &follows).await?;
    everywhere(port, "cart", "1").await?;

    cluster.apply(refused("cart", "2")).await?;
    comes_to_blame(&one, "cart").await?;
    comes_to_blame(&two, "cart").await?;
    comes_to_refuse(&second).await?;
    cluster.apply(good("other", "2")).await?;
    everywhere(port, "other", "2").await?;
    everywhere(port, "cart", "1").await?;
    ensure!(first.refusals().await? > 0, "nobody has refused anything");
    let refusals = comes_to_refuse(&second).await?;
    let before = the_same(&first, &second).await?;
    status_reports(&cluster, "cart", "True").await?;

    one.kill()?;
    first.kill()?;
    comes_to_lead(&two).await?;
    cluster.apply(good("third", "1")).await?;
    everywhere(port, "third", "1").await?;
    cluster.kubectl_output(&["delete", "httproute", "third"]).await?;
    until("all is as it was", || async {
        let now = all(&second).await?;
        ensure!(now == before, "{now:?}\n{before:?}");
        Ok(())
    })
    .await?;
    everywhere(port, "cart", "1").await?;
    refused_at_most(&two, &second, refusals).await?;

    // A replica without a store starts in the fallback.
    let third = replica(&world, &setting, "three")?;
    let three = world.run_with(third.clone()).await?;
    let fresh = FleetEnvoy::small("third").start(&world, &third).await?;
    comes_to_blame(&three, "cart").await?;
    ensure!(the_same(&fresh, &second).await? == before, "it is not what was served before");
    everywhere(port, "cart", "1").await?;
    never_refused(&three, &fresh).await?;
    for metric in ["last_read_timestamp_seconds", "size_bytes", "generation"] {
        ensure!(three.metric(&format!("holdfast_shared_store_{metric}"), &[]).await? > 0.0, "{metric}");
    }
    ensure!(two.metric("holdfast_shared_store_last_write_timestamp_seconds", &[]).await? > 0.0);
    ensure!(three.metric("holdfast_shared_store_last_write_timestamp_seconds", &[]).await? == 0.0, "it follows");

    status_reports(&cluster, "cart", "True").await?;
    cluster.apply(good("cart", "3")).await?;
    everywhere(port, "cart", "3").await?;
    status_reports(&cluster, "cart", "").await?;
    refused_at_most(&two, &second, refusals).await?;
    never_refused(&three, &fresh).await?;
    let granted = rights().into_iter().find(|right| right.place == PermissionScope::Shared).context("no right")?;
    let granted: BTreeSet<String> = granted.verbs.iter().map(|verb| (*verb).to_owned()).collect();
    let used = used(&cluster.audited()?);
    ensure!(used == granted, "{used:?} is done, and {granted:?} may be");
    Ok(())
}

/// Replaces a blob by other content.
async fn put(cluster: &Cluster, name: &str, kind: &str, bytes: usize) -> Result<()> {
    cluster.kubectl_output(&["-n", "infra", "delete", "secret", name]).await?;
    let blob = "QUFB".repeat(bytes / 3);
    cluster
        .apply(format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: infra, labels: {{holdfast.dev/shared-store: \
             holdfast}}}}\ntype: {kind}\ndata: {{blob: {blob}}}\n"
        ))
        .await
}

/// Names of the Secrets of shards.
async fn leaves(cluster: &Cluster) -> Result<BTreeSet<String>> {
    until("there is something that is shared", || async {
        let names = cluster.kubectl_output(&[&["get"][..], &SECRETS, &["-o", "name"]].concat()).await?;
        let names = names.lines().filter_map(|name| name.strip_prefix("secret/"));
        let found: BTreeSet<String> = names.filter(|name| name.contains("-shared-s-")).map(str::to_owned).collect();
        ensure!(!found.is_empty(), "nothing");
        Ok(found)
    })
    .await
}

async fn what_others_put_there_is_not_believed(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(good("cart", "1")).await?;
    let setting = setting(&world, &cluster).await?;
    let options = replica(&world, &setting, "one")?;
    let one = world.run_with(options.clone()).await?;
    comes_to_lead(&one).await?;
    let envoy = FleetEnvoy::small("first").start(&world, &options).await?;
    everywhere(port, "cart", "1").await?;
    cluster.apply(refused("cart", "2")).await?;
    comes_to_blame(&one, "cart").await?;

    // The leader writes removed Secrets again.
    let removed = leaves(&cluster).await?;
    cluster.kubectl_output(&[&["delete"][..], &SECRETS].concat()).await?;
    one.comes_to_print(&["an object of the shared store was deleted"]).await?;
    ensure!(leaves(&cluster).await?.is_disjoint(&removed), "it is the old one");

    // A Secret that is damaged, of another type or too large is reported and ignored; the rest is served.
    for (number, (kind, bytes)) in
        [("holdfast.dev/shared-store", 300), ("Opaque", 300), ("holdfast.dev/shared-store", 600 * 1024)]
            .iter()
            .enumerate()
    {
        let name = format!("two-{number}");
        // The leader would correct it at once, so its process is stopped.
        process::signal(one.id(), "STOP");
        for leaf in leaves(&cluster).await? {
            put(&cluster, &leaf, kind, *bytes).await?;
        }
        let two = replica(&world, &setting, &name)?;
        let holdfast = Holdfast::start(&world, two.clone())?;
        let outcome = holdfast.comes_to_print(&["cannot be read completely"]).await;
        process::signal(one.id(), "CONT");
        outcome?;
        let follower = FleetEnvoy::small(&name).start(&world, &two).await?;
        until("it is connected", || async {
            ensure!(holdfast.metric("holdfast_xds_connected_envoys", &[]).await? > 0.5, "it is not");
            Ok(())
        })
        .await?;
        follower.never_refused().await?;
        follower.kill()?;
        holdfast.kill()?;
        // The next generation replaces it.
        cluster.apply(good("other", &number.to_string())).await?;
        everywhere(port, "other", &number.to_string()).await?;
        everywhere(port, "cart", "1").await?;
    }

    // The leader writes an unreadable manifest again from its own state.
    put(&cluster, "holdfast-shared-manifest", "Opaque", 300).await?;
    cluster.apply(good("other", "last")).await?;
    everywhere(port, "other", "last").await?;
    until("the list is made anew", || async {
        let kind = cluster.kubectl_output(&[
            "-n",
            "infra",
            "get",
            "secret",
            "holdfast-shared-manifest",
            "-o",
            "jsonpath={.type}",
        ]);
        let kind = kind.await?;
        ensure!(kind == "holdfast.dev/shared-store", "it is {kind}");
        Ok(())
    })
    .await?;
    let two = replica(&world, &setting, "two")?;
    let holdfast = world.run_with(two.clone()).await?;
    comes_to_blame(&holdfast, "cart").await?;
    let follower = FleetEnvoy::small("second").start(&world, &two).await?;
    the_same(&envoy, &follower).await?;
    never_refused(&holdfast, &follower).await
}
