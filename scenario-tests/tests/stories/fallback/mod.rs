//! The fallback: Envoys refuse what translation lets pass, and everything else goes on.
//!
//! Envoys are started with Envoy's own limit of expressions, 100, where Holdfast expects 10,000: an everyday expression is
//! then accepted by translation and refused by Envoy. Every route says in its answers which version of it is served.

mod attached;
mod back_ends;
mod beside;
mod claims;
mod estate;
mod fair;
mod figures;
mod fleet;
mod held;
mod hosts;
mod kills;
mod laxer;
mod overwritten;
mod parts;
mod pods;
mod probed;
mod protected;
mod refused;
mod replicas;
mod taken;
mod trials;
mod words;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::ask::{Ask, get};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, until};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    [
        attached::stories(),
        back_ends::stories(),
        beside::stories(),
        claims::stories(),
        fair::stories(),
        figures::stories(),
        fleet::stories(),
        held::stories(),
        hosts::stories(),
        kills::stories(),
        laxer::stories(),
        overwritten::stories(),
        parts::stories(),
        pods::stories(),
        probed::stories(),
        protected::stories(),
        refused::stories(),
        replicas::stories(),
        taken::stories(),
        trials::stories(),
        words::stories(),
    ]
    .concat()
}

/// Larger than Envoy's own limit, and smaller than Holdfast's.
const LARGE: &str = "([a-z0-9]{1,40}-[a-z0-9]{1,40})";
/// What `LARGE` matches.
const SAMPLE: &str = "a-b";
/// The flags of the fallback with last valid versions.
const BACKFILL: [&str; 3] =
    ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback=true"];
/// The flags of the fallback without them.
const REPLACE: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true"];

/// The flags of the fallback where nothing stands in the place of what is refused.
const LEAVE_OUT: [&str; 2] = ["--feature-gates", "FallbackConfiguration=true,InvalidRouteReplacement=false"];

/// A rule for a match of the path, whose answers carry the version.
fn rule(kind: &str, path: &str, version: &str) -> String {
    format!(
        "- matches: [{{path: {{type: {kind}, value: '{path}'}}}}]\n  filters:\n  - type: ResponseHeaderModifier\n    \
         responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}\n  backendRefs: [{{name: echo, port: 8080}}]\n"
    )
}

/// A version of a route that every Envoy takes.
fn good(path: &str, version: &str) -> String {
    format!("rules:\n{}", rule("PathPrefix", path, version))
}

/// A version of a route that translation takes and a small Envoy refuses.
fn refused(path: &str, version: &str) -> String {
    format!("rules:\n{}", rule("RegularExpression", &format!("{path}/{LARGE}"), version))
}

/// A request that both versions of the route at `path` answer.
fn ask(port: u16, path: &str) -> Ask {
    get(port, &format!("{path}/{SAMPLE}"))
}

/// Answers once with this version.
async fn serves(port: u16, path: &str, version: &str) -> Result<()> {
    let reply = ask(port, path).answers(200).await?;
    let served = reply.header("x-version");
    ensure!(served == version, "{path} is served in version {served} instead of {version}");
    Ok(())
}

/// Comes to answer with this version.
async fn comes_to_serve(port: u16, path: &str, version: &str) -> Result<()> {
    until(&format!("{path} is served in version {version}"), || serves(port, path, version)).await
}

/// Holdfast without a probe and without Envoys of its own.
fn unprobed(world: &World, flags: &[&str]) -> Result<HoldfastOptions> {
    Ok(HoldfastOptions::new(world)?.without_envoy().args(&["--probe", "off"]).args(flags))
}

/// Waits until what was proven so far is on the disk: what is proven later is, and nothing overtakes anything.
async fn stored(world: &World, port: u16) -> Result<()> {
    for version in ["a", "b", "c"] {
        world.route("stored", &good("/stored", version))?;
        comes_to_serve(port, "/stored", version).await?;
    }
    Ok(())
}

/// Names of the objects that are told to be broken, with who found it.
async fn broken(holdfast: &Holdfast) -> Result<BTreeMap<String, String>> {
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    let text = |object: &Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let broken = report["brokenObjects"].as_array().context("no list")?;
    Ok(broken.iter().map(|object| (text(object, "name"), text(object, "detectedBy"))).collect())
}

/// Comes to tell that just these are broken, found so.
async fn comes_to_blame<'a>(
    holdfast: &Holdfast,
    detected_by: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    comes_to_find(holdfast, &names.into_iter().map(|name| (name, detected_by)).collect::<Vec<_>>()).await
}

/// Comes to report that just these are broken, each with what found it.
async fn comes_to_find(holdfast: &Holdfast, found: &[(&str, &str)]) -> Result<()> {
    let wanted: BTreeMap<String, String> =
        found.iter().map(|(name, found_by)| ((*name).to_owned(), (*found_by).to_owned())).collect();
    until("the right ones are blamed", || async {
        let told = broken(holdfast).await?;
        ensure!(told == wanted, "{told:?} instead of {wanted:?}");
        Ok(())
    })
    .await
}
