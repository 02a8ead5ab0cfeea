//! A header that a client sets, and a version that Envoy refuses: if the desired version overwrites the header, no
//! earlier version is served that would pass it to backends.

use anyhow::{Context, Result};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, http_route};
use holdfast_scenario_tests::request::{HttpRequest, Reply, get};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories};

use super::protected::policy_text;
use super::{BACKFILL, LARGE, SAMPLE, comes_to_blame, comes_to_serve, good, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback::overwritten", true, [by_routes_and_policies, by_a_policy_beside_a_refused_rule, by_a_proxy])
}

/// Number of requests that are sent once something is closed.
const AGAIN: usize = 20;
const SET: &str = "set: [{name: x-user, value: checked}]";

/// Adds the header with which a client claims a user name.
fn mallory(request: HttpRequest) -> HttpRequest {
    request.header("x-user", "mallory")
}

/// Waits until backends receive this user name.
async fn comes_to_see(request: &HttpRequest, user: &str) -> Result<()> {
    let sees = |reply: &Reply| reply.echo().is_ok_and(|seen| seen.header("x-user") == [user]);
    request.comes_to(&format!("backends see {user}"), sees).await.map(drop)
}

/// Returns a route with one rule for its name, and further fields of that rule.
fn route(name: &str, is_refused: bool, more: &str) -> String {
    let (kind, path) =
        if is_refused { ("RegularExpression", format!("/{name}/{LARGE}")) } else { ("PathPrefix", format!("/{name}")) };
    format!(
        "rules:\n- matches: [{{path: {{type: {kind}, value: '{path}'}}}}]\n  {more}\n  \
         backendRefs: [{{name: echo, port: 8080}}]\n"
    )
}

fn path(name: &str) -> String {
    format!("/{name}/{SAMPLE}")
}

/// Starts Holdfast and one small Envoy.
async fn served(world: &World, options: &HoldfastOptions) -> Result<(Holdfast, RunningEnvoy)> {
    let holdfast = world.run_with(options.clone()).await?;
    Ok((holdfast, FleetEnvoy::small("one").start(world, options).await?))
}

/// Waits until the route is closed, and checks that it stays closed.
async fn comes_to_be_closed(request: &HttpRequest) -> Result<()> {
    request.comes_to_answer(404).await?;
    for _ in 0..AGAIN {
        request.answers(404).await.context("open again")?;
    }
    Ok(())
}

/// Filters of a rule, and fields of a policy.
async fn by_routes_and_policies(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let filters = |what: &str| format!("filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{{what}}}}}]");
    let policies = ["headerModifiers", "transformation"];
    world.route("neighbour", &good("/neighbour", "1"))?;
    for name in ["filter", "added"].into_iter().chain(policies) {
        world.route(&name.to_lowercase(), &route(name, false, ""))?;
    }
    for name in policies {
        world.write(
            &format!("policy-{name}.yaml"),
            policy_text(&name.to_lowercase(), &name.to_lowercase(), "timeouts: {request: 30s}"),
        )?;
    }
    let (_holdfast, _envoy) = served(&world, &unprobed(&world, &BACKFILL)?).await?;
    for name in ["filter", "added"].into_iter().chain(policies) {
        comes_to_see(&mallory(get(port, &path(name))), "mallory").await?;
    }
    let load = Hammer::start([get(port, &path("added")), get(port, &format!("/neighbour/{SAMPLE}"))]);

    // A header that is only added does not protect: this route is backfilled. It is first, which shows that backfill is
    // tried.
    world.route("added", &route("added", true, &filters("add: [{name: x-info, value: new}]")))?;
    world.route("filter", &route("filter", true, &filters(SET)))?;
    comes_to_be_closed(&mallory(get(port, &path("filter")))).await.context("filter")?;
    for name in policies {
        let refused = format!(
            "{name}: {{request: {{{SET}}}}}\n  \
             urlRewrite: {{pathRegex: {{pattern: '^/{name}/{LARGE}', substitution: /served}}}}"
        );
        world
            .write(&format!("policy-{name}.yaml"), policy_text(&name.to_lowercase(), &name.to_lowercase(), &refused))?;
        comes_to_be_closed(&mallory(get(port, &path(name)))).await.with_context(|| name.to_owned())?;
    }
    // With the mistakes corrected, the header is overwritten.
    world.route("filter", &route("filter", false, &filters(SET)))?;
    for name in policies {
        let spec = format!("{name}: {{request: {{{SET}}}}}");
        world.write(&format!("policy-{name}.yaml"), policy_text(&name.to_lowercase(), &name.to_lowercase(), &spec))?;
    }
    for name in ["filter"].into_iter().chain(policies) {
        comes_to_see(&mallory(get(port, &path(name))), "checked").await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Two objects in one edit: a valid new policy overwrites the header, and the rule is refused. The route is backfilled
/// with that policy, but not if the policy has a mistake too.
async fn by_a_policy_beside_a_refused_rule(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let write = |is_refused: bool, policy: &str| {
        let policy = if policy.is_empty() { String::new() } else { policy_text("guard", "cart", policy) };
        let route = http_route("cart", &route("cart", is_refused, ""));
        world.write("batch.yaml", documents(&[route, policy]))
    };
    world.route("neighbour", &good("/neighbour", "1"))?;
    write(false, "")?;
    let (_holdfast, _envoy) = served(&world, &unprobed(&world, &BACKFILL)?).await?;
    let request = mallory(get(port, &path("cart")));
    comes_to_see(&request, "mallory").await?;
    comes_to_serve(port, "/neighbour", "1").await?;
    let neighbour = Hammer::start([get(port, &format!("/neighbour/{SAMPLE}"))]);
    let set = format!("headerModifiers: {{request: {{{SET}}}}}");
    write(true, &set)?;
    comes_to_see(&request, "checked").await?;
    write(true, "")?;
    comes_to_see(&request, "mallory").await?;
    write(true, &format!("{set}\n  timeouts: {{request: soon}}"))?;
    comes_to_be_closed(&request).await?;
    write(false, &set)?;
    comes_to_see(&request, "checked").await?;
    neighbour.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Header policies of an HTTPProxy, of a route and of its Services.
async fn by_a_proxy(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (http, https) = (world.port()?, world.port()?);
    let (first, second) = (http.to_string(), https.to_string());
    let ports = ["--httpproxy-http", &first, "--httpproxy-https", &second];
    let options = unprobed(&world, &BACKFILL)?.args(&ports);
    let set = |name: &str, is_refused: bool, service: &str, route: &str| {
        let condition = if is_refused { format!("regex: '/cart/{LARGE}'") } else { "prefix: /cart".to_owned() };
        let spec = format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: default}}\n\
             spec:\n  virtualhost: {{fqdn: {name}.example}}\n  routes:\n  - conditions: [{{{condition}}}]\n    \
             services: [{{name: echo, port: 8080{service}}}]\n{route}"
        );
        world.write(&format!("{name}.yaml"), spec)
    };
    for name in ["route", "service"] {
        set(name, false, "", "")?;
    }
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy { gateway: "holdfast/httpproxy", ..FleetEnvoy::small("one") };
    let _envoy = envoy.start(&world, &options).await?;
    let own = format!("    requestHeadersPolicy: {{{SET}}}\n");
    let of_service = format!(", requestHeadersPolicy: {{{SET}}}");
    for (name, service, route) in [("route", "", &*own), ("service", &*of_service, "")] {
        let request = mallory(get(http, &path("cart")).host(&format!("{name}.example")));
        comes_to_see(&request, "mallory").await?;
        // Without the header the route is backfilled, so the refusal has been processed.
        set(name, true, "", "")?;
        comes_to_blame(&holdfast, "nack", [name]).await?;
        request.answers(200).await?;
        set(name, true, service, route)?;
        comes_to_be_closed(&request).await?;
        set(name, false, service, route)?;
        comes_to_see(&request, "checked").await?;
    }
    Ok(())
}
