//! A cluster with Holdfast, installed by its chart.

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::kubernetes::pod::Image;
use holdfast_scenario_tests::kubernetes::{Cluster, chart, tools};
use holdfast_scenario_tests::{World, binary, envoy, until};
use serde_json::Value;

use super::variant::Variant;

/// The namespace of Holdfast.
pub(super) const NAMESPACE: &str = "holdfast";
/// The name of the Service of the xDS server.
pub(super) const SERVICE: &str = "holdfast";
/// The DNS name of the xDS server.
pub(super) const SERVER: &str = "holdfast.holdfast.svc";
/// The values of the chart.
const VALUES: &str = "xds.tls.source=helm,xds.tokens.issuer=https://kubernetes.default.svc,persistence.enabled=false";

/// Installs the chart.
pub(super) async fn install(world: &World, cluster: &Cluster, variant: Variant) -> Result<()> {
    let (folder, kubeconfig) = (chart::chart().display().to_string(), cluster.kubeconfig().display().to_string());
    let release = ["install", "holdfast", &folder, "--kubeconfig", &kubeconfig];
    let values = format!("{VALUES}{}", variant.values());
    let place = ["--namespace", NAMESPACE, "--create-namespace", "--set", &values];
    let finished = chart::helm(world, &[&release[..], &place[..]].concat()).await?;
    ensure!(finished.code == Some(0), "{}", finished.output());
    Ok(())
}

/// Waits until Holdfast has accepted its class, and returns the features that it claims.
pub(super) async fn features(cluster: &Cluster) -> Result<Vec<String>> {
    until("the GatewayClass is accepted", || async {
        let class = cluster.kubectl_output(&["get", "gatewayclass", "holdfast", "-o", "json"]).await?;
        let class: Value = serde_json::from_str(&class)?;
        let conditions = class["status"]["conditions"].as_array().context("no status")?;
        let is_accepted = |condition: &Value| condition["type"] == "Accepted" && condition["status"] == "True";
        ensure!(conditions.iter().any(is_accepted), "{conditions:?}");
        let features = class["status"]["supportedFeatures"].as_array().context("no features")?;
        Ok(features.iter().filter_map(|feature| feature["name"].as_str()).map(str::to_owned).collect())
    })
    .await
}

/// Returns the programs of an image.
pub(super) fn image(named: &str) -> Result<Box<Image<'static>>> {
    let envoy = envoy::find().map_err(anyhow::Error::msg)?;
    // The name without the registry, its folders and the tag.
    match named.rsplit('/').next().and_then(|name| name.split(':').next()) {
        Some("holdfast-envoy") => Ok(Box::new([("holdfast", binary::holdfast()?), ("envoy", envoy)])),
        Some("envoy") => Ok(Box::new([("envoy", envoy)])),
        Some("echo-basic") => Ok(Box::new([("echo-basic", tools::ECHO.find()?)])),
        Some("coredns") => Ok(Box::new([("coredns", tools::COREDNS.find()?)])),
        _ => bail!("there are no programs for the image {named}"),
    }
}
