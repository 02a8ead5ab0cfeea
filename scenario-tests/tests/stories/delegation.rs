//! Delegation between HTTPRoutes: which requests a route below another one receives from a real Envoy, with the policies of
//! both, and that a broken route costs the others nothing.

use anyhow::Result;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, HttpRequest, Reply, Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!("delegation", true, [routes_of_two_teams_below_one])
}

/// Writes the route that is attached to the Gateway, with a rule for each team and one for other requests, and a route
/// beside it.
fn parent(world: &World) -> Result<()> {
    let to = |selection: &str| format!("backendRefs: [{selection}]");
    let named = to("{group: gateway.networking.k8s.io, kind: HTTPRoute, name: red}");
    let labelled = to("{group: delegation.kgateway.dev, kind: label, name: blue, namespace: all}");
    let rules = format!(
        "rules:\n- matches: [{{path: {{value: /red}}}}]\n  {named}\n\
         - matches: [{{path: {{value: /blue}}, headers: [{{name: x-team, value: blue}}]}}]\n  {labelled}\n\
         - backendRefs: [{{name: front, port: 8080}}]\n"
    );
    world.route("all", &rules)?;
    world.route("apart", "rules:\n- matches: [{path: {value: /apart}}]\n  backendRefs: [{name: front, port: 8080}]\n")
}

/// Writes the route of a team: one rule, below the route of the Gateway.
fn team(world: &World, name: &str, matches: &str, backend: &str) -> Result<()> {
    let text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: default, labels: {{delegation.kgateway.dev/label: {name}}}}}\n\
         spec:\n  rules:\n  - matches: [{matches}]\n    backendRefs: [{{name: {backend}, port: 8080}}]\n"
    );
    world.write(&format!("team-{name}.yaml"), text)
}

fn policy(world: &World, name: &str, target: &str, spec: &str) -> Result<()> {
    let text = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {target}}}]\n  {spec}\n"
    );
    world.write(&format!("policy-{name}.yaml"), text)
}

async fn routes_of_two_teams_below_one(world: World) -> Result<()> {
    let _pods = (world.backend("front").await?, world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    parent(&world)?;
    team(&world, "red", "{path: {value: /red/api}}, {path: {value: /elsewhere}}", "one")?;
    let blue = "{path: {value: /blue}, headers: [{name: x-team, value: blue}, {name: x-more, value: \"1\"}]}";
    team(&world, "blue", blue, "two")?;
    let _holdfast = world.run().await?;
    let red = get(port, "/red/api/x");
    let of_team = get(port, "/blue/x").header("x-team", "blue");
    let blue = of_team.clone().header("x-more", "1");
    red.comes_to_reach("one").await?;
    blue.comes_to_reach("two").await?;
    get(port, "/apart").comes_to_reach("front").await?;
    // What a team does not take is not for the broader rule, and a team gets nothing outside of its rule.
    get(port, "/red/other").answers(404).await?;
    of_team.answers(404).await?;
    get(port, "/elsewhere").reaches("front").await?;
    get(port, "/blue/x").reaches("front").await?;

    let apart = Hammer::start([get(port, "/apart")]);
    policies_of_both(&world, &red, [&blue, &get(port, "/front")]).await?;
    let others = Hammer::start([blue, get(port, "/front")]);
    // A broken rule answers at its own match, and a deleted route at that of the rule above.
    team(&world, "red", "{path: {value: /red/api}, headers: [{name: \"a b\", value: x}]}", "one")?;
    red.comes_to("the team's broken rule is no longer served", |reply| reply.echo().is_err()).await?;
    world.delete("team-red.yaml")?;
    red.comes_to_answer(500).await?;
    get(port, "/red").answers(500).await?;
    team(&world, "red", "{path: {value: /red/api}}", "two")?;
    red.comes_to_reach("two").await?;
    others.stop_expecting(Shot::is_ok).await?;
    apart.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Returns whether a request got the response of a route without its current protection, which no backend sent.
fn is_closed(shot: &Shot) -> bool {
    matches!(shot, Shot::Answer { status: 500, pod, .. } if pod.is_empty())
}

/// Policies of the route above and of a team: only the first one closes routes for a moment, and edits cost the others
/// nothing.
async fn policies_of_both(world: &World, red: &HttpRequest, others: [&HttpRequest; 2]) -> Result<()> {
    let set = |value: &str| format!("headerModifiers: {{request: {{set: [{{name: x-from, value: {value}}}]}}}}");
    let has = |reply: &Reply, value: &str| reply.echo().is_ok_and(|echo| format!("{echo:?}").contains(value));
    // A policy above applies to all below. It is the first policy of these routes that protects (backends no longer get
    // the header of a client): they are closed while it is tried, as decision 18 describes, and open with it.
    let all = Hammer::start(others.into_iter().chain([red]).cloned());
    policy(world, "above", "all", &set("above"))?;
    for request in others.into_iter().chain([red]) {
        request.comes_to("the policy above applies", |reply| has(reply, "above")).await?;
    }
    all.stop_expecting(|shot| shot.is_ok() || is_closed(shot)).await?;
    let others = Hammer::start(others.into_iter().cloned());
    policy(world, "above", "all", &set("higher"))?;
    red.comes_to("the edited policy above applies", |reply| has(reply, "higher")).await?;
    // A policy of the team comes first, field by field.
    policy(world, "own", "red", &set("below"))?;
    red.comes_to("the policy of the team comes first", |reply| has(reply, "below")).await?;
    // A policy that cannot be enforced closes the route of the team only.
    policy(world, "own", "red", "extAuth: {extensionRef: {name: nothing}}")?;
    red.comes_to("the team's route is closed", |reply| reply.echo().is_err()).await?;
    world.delete("policy-own.yaml")?;
    red.comes_to_reach("one").await?;
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}
