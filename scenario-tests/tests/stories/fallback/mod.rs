//! The fallback: Envoys refuse configuration that translation accepts, and everything else is served.
//!
//! Envoys are started with Envoy's default limit of RE2 program size, 100, where Holdfast expects 10,000: a common
//! regular expression is then accepted by translation and refused by Envoy. Every response contains the version of its
//! route.

mod adversary;
mod attached;
mod backends;
mod beside;
mod claims;
mod crowd;
mod estate;
mod fair;
mod figures;
mod fleet;
mod held;
mod hosts;
mod impostor;
mod kills;
mod laxer;
mod messages;
mod overwritten;
mod parts;
mod pods;
mod probed;
mod protected;
mod refused;
mod replicas;
mod streams;
mod taken;
mod trials;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, until};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    [
        adversary::stories(),
        attached::stories(),
        backends::stories(),
        beside::stories(),
        claims::stories(),
        crowd::stories(),
        fair::stories(),
        figures::stories(),
        fleet::stories(),
        held::stories(),
        hosts::stories(),
        impostor::stories(),
        kills::stories(),
        laxer::stories(),
        messages::stories(),
        overwritten::stories(),
        parts::stories(),
        pods::stories(),
        probed::stories(),
        protected::stories(),
        refused::stories(),
        replicas::stories(),
        streams::stories(),
        taken::stories(),
        trials::stories(),
    ]
    .concat()
}

/// Larger than Envoy's default limit, and smaller than Holdfast's.
const LARGE: &str = "([a-z0-9]{1,40}-[a-z0-9]{1,40})";
/// A text that `LARGE` matches.
const SAMPLE: &str = "a-b";
/// The flags of the fallback with last valid versions.
pub(crate) const BACKFILL: [&str; 3] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true"];
/// The flags of the fallback without last valid versions.
const REPLACE: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true"];

/// The flags of the fallback without replacement of refused routes.
const LEAVE_OUT: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true,InvalidRouteReplacement=false"];

/// Returns a rule for a match of the path; its responses contain the version.
fn rule(kind: &str, path: &str, version: &str) -> String {
    format!(
        "- matches: [{{path: {{type: {kind}, value: '{path}'}}}}]\n  filters:\n  - type: ResponseHeaderModifier\n    \
         responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}\n  backendRefs: [{{name: echo, port: 8080}}]\n"
    )
}

/// Returns a version of a route that every Envoy accepts.
fn good(path: &str, version: &str) -> String {
    format!("rules:\n{}", rule("PathPrefix", path, version))
}

/// Returns a version of a route that translation accepts and a small Envoy refuses.
fn refused(path: &str, version: &str) -> String {
    format!("rules:\n{}", rule("RegularExpression", &format!("{path}/{LARGE}"), version))
}

/// Returns a request that both versions of the route at `path` answer.
fn request(port: u16, path: &str) -> HttpRequest {
    get(port, &format!("{path}/{SAMPLE}"))
}

/// Fails unless the path is served in this version.
async fn serves(port: u16, path: &str, version: &str) -> Result<()> {
    let reply = request(port, path).answers(200).await?;
    let served = reply.header("x-version");
    ensure!(served == version, "{path} is served in version {served} instead of {version}");
    Ok(())
}

/// Waits until the path is served in this version.
async fn comes_to_serve(port: u16, path: &str, version: &str) -> Result<()> {
    until(&format!("{path} is served in version {version}"), || serves(port, path, version)).await
}

/// Returns options without a probe and without managed Envoys.
fn unprobed(world: &World, flags: &[&str]) -> Result<HoldfastOptions> {
    Ok(HoldfastOptions::new(world)?.without_envoy().args(&["--probe", "off"]).args(flags))
}

/// Waits until everything that Envoys have acknowledged and refused so far is on the disk. Answers of an Envoy are
/// ordered: when Holdfast knows that a later version of a route is good, it knows all of them.
pub(crate) async fn stored(world: &World, holdfast: &Holdfast, port: u16) -> Result<()> {
    const ROUTE: &str = "gateway.networking.k8s.io/HTTPRoute:default/stored";
    static VERSIONS: AtomicU64 = AtomicU64::new(1);
    let version = VERSIONS.fetch_add(1, Ordering::Relaxed).to_string();
    world.route("stored", &good("/stored", &version))?;
    comes_to_serve(port, "/stored", &version).await?;
    holdfast.comes_to_store(ROUTE, holdfast.generation(ROUTE).await?).await
}

/// Returns the names of the objects that are reported as broken, with their detectors.
async fn broken(holdfast: &Holdfast) -> Result<BTreeMap<String, String>> {
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let broken = report["brokenObjects"].as_array().context("no list")?;
    Ok(broken.iter().map(|object| (text(object, "name"), text(object, "detectedBy"))).collect())
}

/// Waits until exactly these objects are reported as broken, all with this detector.
async fn comes_to_blame<'a>(
    holdfast: &Holdfast,
    detected_by: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    comes_to_find(holdfast, &names.into_iter().map(|name| (name, detected_by)).collect::<Vec<_>>()).await
}

/// Waits until exactly these objects are reported as broken, each with its detector.
async fn comes_to_find(holdfast: &Holdfast, found: &[(&str, &str)]) -> Result<()> {
    let wanted: BTreeMap<String, String> =
        found.iter().map(|(name, found_by)| ((*name).to_owned(), (*found_by).to_owned())).collect();
    until("the right ones are blamed", || async {
        let blamed = broken(holdfast).await?;
        ensure!(blamed == wanted, "{blamed:?} instead of {wanted:?}");
        Ok(())
    })
    .await
}
