//! Edits of a policy after which a target cannot be read: the targets of the version before stay protected or closed.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::hammer::Hammer;
use holdfast_scenario_tests::manifests::{documents, http_route};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies",
        true,
        [
            unreadable_targets_stay_closed,
            unreadable_targets_stay_closed_without_a_last_valid_version,
            unreadable_targets_stay_closed_without_the_fallback,
        ]
    )
}

/// Lists of targets that do not refer to the route `closed` if they are taken literally. An API server rejects each.
const UNREADABLE: [&str; 19] = [
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: 5}}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: true}}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: other, rev: 5}}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: other, rev: }}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabel: {app: shop}}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: }]",
    "targetSelectors: [{group: GROUP, kind: HTTPRout, matchLabels: {app: shop}}]",
    "targetSelectors: [{grop: GROUP, kind: HTTPRoute, matchLabels: {app: shop}}]",
    "targetRefs: [{group: GROUP, kind: HTTPRoute, name: beside}]\n  targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: 5}}]",
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: shop}, sectionName: ''}]",
    "targetRefs: [{group: GROUP, kind: HTTPRoute, name: closed, sectionName: ''}]",
    "targetRefs: []",
    "targetRef: [{group: GROUP, kind: HTTPRoute, name: closed}]",
    "TargetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: shop}}]",
    "targetRefs: [{group: 5, kind: HTTPRoute, name: closed}]",
    "targetRefs: [{grop: GROUP, kind: HTTPRoute, name: closed}]",
    "targetRefs: [{kind: HTTPRoute, name: closed}]",
    "targetRefs: [{group: GROUP, kind: HTTPRout, name: closed}]",
];
/// Two ways to name the same target.
const READABLE: [&str; 2] = [
    "targetSelectors: [{group: GROUP, kind: HTTPRoute, matchLabels: {app: shop}}]",
    "targetRefs: [{group: GROUP, kind: HTTPRoute, name: closed}]",
];

async fn unreadable_targets_stay_closed(world: World) -> Result<()> {
    stay_closed(world, &BACKFILL).await
}

async fn unreadable_targets_stay_closed_without_a_last_valid_version(world: World) -> Result<()> {
    stay_closed(world, &["--feature-gates", "FallbackConfiguration=true"]).await
}

async fn unreadable_targets_stay_closed_without_the_fallback(world: World) -> Result<()> {
    stay_closed(world, &[]).await
}

/// Writes a policy that denies every request, with a list of targets.
fn write(world: &World, targets: &str) -> Result<()> {
    let targets = targets.replace("GROUP", "gateway.networking.k8s.io");
    world.write(
        "policy.yaml",
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: p, namespace: default}}\n\
             spec:\n  {targets}\n  rbac: {{action: Deny, policy: {{matchExpressions: [\"true\"]}}}}\n"
        ),
    )
}

/// Waits until `status` names the policy, and `explain` reports that the request is not served as desired.
async fn is_reported(world: &World, holdfast: &Holdfast, port: u16) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let url = format!("http://any.example:{port}/closed");
    until("status and explain report the policy", || async {
        let status = world.command(&["status", "--diagnostics", &address]).await?;
        status.expect_code(1)?.expect_output(&["TrafficPolicy", "default/p"])?;
        let explained = world.command(&["explain", "--diagnostics", &address, "GET", &url]).await?;
        explained.expect_code(1).map(drop)
    })
    .await
}

async fn stay_closed(world: World, flags: &[&str]) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    let route = |name: &str| {
        let rule =
            "rules:\n- matches: [{path: {type: PathPrefix, value: /NAME}}]\n  backendRefs: [{name: one, port: 8080}]";
        http_route(name, &rule.replace("NAME", name))
    };
    let labelled = route("closed").replacen("name: closed", "name: closed\n  labels: {app: shop}", 1);
    world.write("routes.yaml", documents(&[labelled, route("beside"), route("open")]))?;
    write(&world, READABLE[0])?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(flags)).await?;
    get(port, "/closed").comes_to_answer(403).await?;
    let closed = Hammer::start([get(port, "/closed")]);
    let open = Hammer::start([get(port, "/open")]);
    for targets in UNREADABLE {
        for before in READABLE {
            write(&world, before)?;
            get(port, "/beside").comes_to_reach("one").await?;
            get(port, "/closed").comes_to_answer(403).await?;
            write(&world, targets)?;
            is_reported(&world, &holdfast, port).await.with_context(|| format!("{before}, then {targets}"))?;
            closed.goes_on(20).await?;
            ensure!(!get(port, "/closed").send().await?.status.is_success(), "{before}, then {targets}: it is open");
        }
    }
    closed.stop_expecting(|shot| !shot.passed()).await?;
    open.stop_expecting(|shot| shot.is_ok()).await?;
    let options = holdfast.options.clone();
    holdfast.terminate().await?;
    let _again = world.run_with(options).await?;
    get(port, "/open").comes_to_reach("one").await?;
    ensure!(!get(port, "/closed").send().await?.status.is_success(), "it is open after a restart");
    Ok(())
}
