//! CRDs that are removed and installed again: the protection of routes and the served configuration stay until the kind
//! is available again or the operator confirms the removal.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Hammer, Holdfast, HttpRequest, Story, World, manifests, request::get, stories, until};

use super::reporting::in_a_pod;
use super::serving::{answers, backend, gateway, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("kinds", true, [policies_outlive_their_definition, proxies_outlive_their_definition])
}

/// `alice:secret` and `bob:secret`.
const ALICE: &str = "Basic YWxpY2U6c2VjcmV0";
const BOB: &str = "Basic Ym9iOnNlY3JldA==";
/// The hash of their password.
const HASH: &str = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";

/// Returns a policy that allows only this user on the route `r`.
pub(super) fn guard(user: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: guard, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}}]\n  \
         basicAuth: {{users: ['{user}:{HASH}']}}\n"
    )
}

pub(super) fn request_as(port: u16, user: Option<&str>) -> HttpRequest {
    let request = get(port, "/one").host("a.example.com");
    match user {
        Some("alice") => request.header("authorization", ALICE),
        Some(_) => request.header("authorization", BOB),
        None => request,
    }
}

/// Waits until a request of this user is answered with this status.
pub(super) async fn user_gets(port: u16, user: Option<&str>, status: u16) -> Result<()> {
    request_as(port, user).comes_to_answer(status).await.map(drop)
}

/// Waits until the condition `ObjectsRead` of the GatewayClass has this status and reason.
pub(super) async fn class_reports(cluster: &Cluster, expected: &str) -> Result<()> {
    let of = |field: &str| format!("{{.status.conditions[?(@.type==\"holdfast.dev/ObjectsRead\")].{field}}}");
    let path = format!("jsonpath={} {}", of("status"), of("reason"));
    until(&format!("objects are read: {expected}"), || async {
        let output = cluster.kubectl_output(&["get", "gatewayclass", manifests::CLASS, "-o", &path]).await?;
        ensure!(output == expected, "{output}");
        Ok(())
    })
    .await
}

/// Waits until the metric of problems with a kind has this value for this reason.
pub(super) async fn is_counted(holdfast: &Holdfast, about: &str, reason: &str, count: f64) -> Result<()> {
    let labels = [format!("about=\"{about}\""), format!("reason=\"{reason}\"")];
    until(&format!("{reason} is counted of {about}"), || async {
        let counted = holdfast.metric("holdfast_api_server_troubles", &[&labels[0], &labels[1]]).await?;
        ensure!(counted == count, "{counted}");
        Ok(())
    })
    .await
}

async fn policies_outlive_their_definition(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(guard("alice")).await?;
    cluster.apply(manifests::http_route("r", &rule("/one"))).await?;
    // Credentials are stored only where they can be sealed.
    let key = world.folder().join("store.key");
    std::fs::write(&key, [7; 32])?;
    let options = in_a_pod(&world, &cluster).await?.args(&["--store-key-file", &key.display().to_string()]);
    let holdfast = world.run_with(options).await?;
    user_gets(port, Some("alice"), 200).await?;
    user_gets(port, None, 401).await?;
    class_reports(&cluster, "True Read").await?;
    let (guests, alice) = (Hammer::start([request_as(port, None)]), Hammer::start([request_as(port, Some("alice"))]));

    cluster.kubectl_output(&["delete", "crd", "trafficpolicies.gateway.kgateway.dev"]).await?;
    let gone = "TrafficPolicy: the API server no longer serves this kind; its 1 known objects stay in force";
    holdfast
        .comes_to_print(&["TrafficPolicy: the CustomResourceDefinition of this kind is being deleted", gone])
        .await?;
    class_reports(&cluster, "False Removed").await?;
    is_counted(&holdfast, "gateway.kgateway.dev/TrafficPolicy", "Removed", 1.0).await?;
    // All other changes are processed.
    cluster.apply(manifests::http_route("more", &rule("/more"))).await?;
    answers(port, "/more", 200).await?;
    guests.goes_on(200).await?;

    // A restart does not change this.
    let options = holdfast.kill()?;
    let holdfast = world.run_with(options).await?;
    holdfast.comes_to_print(&[gone]).await?;
    cluster.apply(manifests::http_route("more", &rule("/yet-more"))).await?;
    answers(port, "/yet-more", 200).await?;
    guests.goes_on(200).await?;

    // The CRD is available again, its objects are not yet.
    cluster.install("kgateway").await?;
    holdfast.comes_to_print(&["no longer: gateway.kgateway.dev/TrafficPolicy", "1 of 1 objects are missing"]).await?;
    guests.goes_on(200).await?;
    alice.stop_expecting(Shot::is_ok).await?;
    cluster.apply(guard("bob")).await?;
    user_gets(port, Some("bob"), 200).await?;
    user_gets(port, Some("alice"), 401).await?;
    class_reports(&cluster, "True Read").await?;
    is_counted(&holdfast, "gateway.kgateway.dev/TrafficPolicy", "Removed", 0.0).await?;
    guests.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 401, .. })).await?;
    // A deletion takes effect again.
    cluster.kubectl_output(&["delete", "trafficpolicy", "guard"]).await?;
    user_gets(port, None, 200).await
}

fn proxy(path: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: p, namespace: default}}\n\
         spec:\n  virtualhost: {{fqdn: a.example.com}}\n  \
         routes: [{{conditions: [{{prefix: {path}}}], services: [{{name: echo, port: 8080}}]}}]\n"
    )
}

async fn proxies_outlive_their_definition(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    cluster.apply(manifests::class()).await?;
    cluster.apply(proxy("/one")).await?;
    let (port, tls) = (world.port()?, world.port()?.to_string());
    let options = in_a_pod(&world, &cluster).await?;
    let options = options.args(&["--httpproxy-http", &port.to_string(), "--httpproxy-https", &tls]);
    let holdfast = world.run_with(options).await?;
    answers(port, "/one", 200).await?;
    let load = Hammer::start([get(port, "/one").host("a.example.com")]);
    let gone = "HTTPProxy: the API server no longer serves this kind; its 1 known objects stay in force";

    cluster.kubectl_output(&["delete", "crd", "httpproxies.projectcontour.io"]).await?;
    holdfast.comes_to_print(&[gone]).await?;
    load.goes_on(200).await?;
    cluster.install("contour").await?;
    cluster.apply(proxy("/")).await?;
    answers(port, "/two", 200).await?;
    load.stop_expecting(Shot::is_ok).await?;

    // This time the removal is intended, and the operator confirms it with a flag.
    cluster.kubectl_output(&["delete", "crd", "httpproxies.projectcontour.io"]).await?;
    until("it is held", || async {
        ensure!(holdfast.output().matches(gone).count() >= 2);
        Ok(())
    })
    .await?;
    answers(port, "/one", 200).await?;
    let options = holdfast.kill()?;
    let holdfast = world.run_with(options.args(&["--mass-delete-guard", "off"])).await?;
    let served = "nothing is served for it";
    until(served, || async {
        let answer = get(port, "/one").host("a.example.com").send().await;
        ensure!(answer.as_ref().map_or(true, |reply| reply.status == 404), "{answer:?}");
        Ok(())
    })
    .await?;
    ensure!(!holdfast.output().contains("known objects stay in force"), "{}", holdfast.output());
    Ok(())
}
