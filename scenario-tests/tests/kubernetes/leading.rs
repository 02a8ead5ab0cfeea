//! Two replicas: one leads, the other takes over when the leader is gone, also during a fallback.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, manifests, stories, until};

use super::reporting::{event, in_a_pod};
use super::serving::{answers, backend, gateway, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("leading", true, [the_leader_is_killed_in_a_fallback, a_leader_that_ends_is_succeeded_at_once])
}

const WITH_A_MISTAKE: &str = "rules:\n- matches: [{path: {type: RegularExpression, value: \"/(\"}}]\n  \
                              backendRefs: [{name: echo, port: 8080}]";

/// Returns options of another replica, without managed Envoys.
fn second(world: &World, first: &HoldfastOptions) -> Result<HoldfastOptions> {
    let own = HoldfastOptions { args: first.args.clone(), manifests: Vec::new(), ..HoldfastOptions::new(world)? };
    let own = HoldfastOptions { data: world.folder().join("second"), ..own };
    std::fs::create_dir_all(&own.data)?;
    Ok(own.without_envoy().env("POD_NAME", "holdfast-1").env("POD_NAMESPACE", "infra"))
}

async fn holder(cluster: &Cluster) -> Result<String> {
    cluster.kubectl_output(&["get", "lease", "-n", "infra", "holdfast", "-o", "jsonpath={.spec.holderIdentity}"]).await
}

async fn comes_to_lead(cluster: &Cluster, pod: &str, holdfast: &Holdfast) -> Result<()> {
    until(&format!("{pod} leads"), || async {
        let holder = holder(cluster).await?;
        ensure!(holder.starts_with(pod), "{holder} does");
        let leads = holdfast.metric("holdfast_leader", &[]).await?;
        ensure!(leads > 0.5, "it does not know it");
        Ok(())
    })
    .await
}

/// Waits until the status of the route `r` is of its newest generation, and has this condition.
pub(super) async fn condition_becomes(cluster: &Cluster, condition: &str, status: &str) -> Result<()> {
    let of = |field: &str| format!("{{.status.parents[0].conditions[?(@.type==\"{condition}\")].{field}}}");
    let path = format!("jsonpath={{.metadata.generation}}/{}/{}", of("observedGeneration"), of("status"));
    until(&format!("{condition} is {status}"), || async {
        let output = cluster.kubectl_output(&["get", "httproute", "r", "-o", &path]).await?;
        let words: Vec<&str> = output.split('/').collect();
        // A missing condition has no generation.
        let is_newest = words.first() == words.get(1) || words.get(1).is_none_or(|of| of.is_empty());
        ensure!(is_newest && words.get(2) == Some(&status), "{output}");
        Ok(())
    })
    .await
}

/// The reporting instances of Events.
const REPORTING_INSTANCES: &str = "jsonpath={.items[*].reportingInstance}";

/// Returns the transition time of the fallback condition of the route `r`.
async fn since(cluster: &Cluster) -> Result<String> {
    let of = "{.status.parents[0].conditions[?(@.type==\"holdfast.dev/Fallback\")].lastTransitionTime}";
    cluster.kubectl_output(&["get", "httproute", "r", "-o", &format!("jsonpath={of}")]).await
}

async fn the_leader_is_killed_in_a_fallback(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    let options = in_a_pod(&world, &cluster).await?;
    let first = world.run_with(options.clone()).await?;
    answers(port, "/one", 200).await?;
    comes_to_lead(&cluster, "holdfast-0", &first).await?;
    let second = world.run_with(second(&world, &options)?).await?;
    second.comes_to_print(&["another replica leads: it writes statuses and Events"]).await?;
    cluster.apply(manifests::http_route("r", WITH_A_MISTAKE)).await?;
    condition_becomes(&cluster, "holdfast.dev/Fallback", "True").await?;
    event(&cluster, "FallbackConfigurationSucceeded", "Pod/holdfast-0", "").await?;
    ensure!(second.metric("holdfast_leader", &[]).await? < 0.5, "both lead");
    let reporters = cluster.kubectl_output(&["get", "events", "-A", "-o", REPORTING_INSTANCES]).await?;
    ensure!(!reporters.contains("holdfast-1"), "who does not lead tells nothing: {reporters}");

    let since = since(&cluster).await?;
    let options = first.kill()?;
    answers(port, "/one", 200).await?;
    comes_to_lead(&cluster, "holdfast-1", &second).await?;
    answers(port, "/one", 200).await?;
    // The status stays as it was, with the original transition time.
    cluster.apply(manifests::http_route("other", &rule("/other"))).await?;
    let path = "jsonpath={.status.parents[0].conditions[?(@.type==\"Accepted\")].status}";
    until("the second tells of another route", || async {
        let output = cluster.kubectl_output(&["get", "httproute", "other", "-o", path]).await?;
        ensure!(output == "True", "{output:?}");
        Ok(())
    })
    .await?;
    condition_becomes(&cluster, "holdfast.dev/Fallback", "True").await?;
    ensure!(self::since(&cluster).await? == since, "the condition began anew");
    ensure!(second.metric("holdfast_nacks_total", &[]).await? < 0.5, "it was tried on an Envoy once more");
    cluster.apply(manifests::http_route("r", &rule("/two"))).await?;
    condition_becomes(&cluster, "Accepted", "True").await?;
    event(&cluster, "Recovered", "HTTPRoute/r", "").await?;
    let recovered = ["get", "events", "-A", "--field-selector", "reason=Recovered", "-o", REPORTING_INSTANCES];
    let reporters = cluster.kubectl_output(&recovered).await?;
    ensure!(reporters.contains("holdfast-1"), "{reporters}");

    // The first replica returns, serves its Envoys, and does not write any status.
    let first = world.run_with(options).await?;
    first.comes_to_print(&["another replica leads: it writes statuses and Events"]).await?;
    answers(port, "/two", 200).await?;
    ensure!(holder(&cluster).await?.starts_with("holdfast-1"), "the lead was taken back");
    Ok(())
}

async fn a_leader_that_ends_is_succeeded_at_once(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _port = gateway(&world, &cluster).await?;
    let options = in_a_pod(&world, &cluster).await?.without_envoy();
    let first = world.run_with(options.clone()).await?;
    comes_to_lead(&cluster, "holdfast-0", &first).await?;
    let second = world.run_with(second(&world, &options)?).await?;
    second.comes_to_print(&["another replica leads: it writes statuses and Events"]).await?;
    let ended = first.terminate().await?;
    ended.expect_code(0)?.expect_output(&["this replica no longer leads"])?;
    comes_to_lead(&cluster, "holdfast-1", &second).await
}
