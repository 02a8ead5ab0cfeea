//! Protection with last valid versions: valid policies apply to a backfilled route, clients cannot set protected
//! headers, and a backend keeps the acknowledged TLS.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::secured::Secured;
use holdfast_scenario_tests::tls::StoryAuthority;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, manifests, stories};

use super::{BACKFILL, comes_to_blame};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::protected",
        true,
        [
            a_valid_policy_stays_on_a_route_that_goes_back,
            a_client_does_not_name_itself,
            a_cipher_that_envoy_does_not_know,
            the_same_with_default_flags,
        ]
    )
}

/// Number of requests that are sent once something is closed.
const AGAIN: usize = 20;

fn policy(world: &World, name: &str, target: &str, spec: &str) -> Result<()> {
    world.write(&format!("policy-{name}.yaml"), policy_text(name, target, spec))
}

/// Returns a TrafficPolicy of a route.
pub(super) fn policy_text(name: &str, target: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {target}}}]\n  {spec}\n"
    )
}

fn rule(path: &str, filters: &str) -> String {
    let name = path.trim_matches(['/', '[']);
    format!(
        "- name: {name}\n  matches: [{{path: {{type: {}, value: '{path}'}}}}]\n  filters: [{filters}]\n  \
         backendRefs: [{{name: echo, port: 8080}}]\n",
        if path.contains('[') { "RegularExpression" } else { "PathPrefix" }
    )
}

/// A policy of timeouts, and one that overwrites a header: both apply to the backfilled version.
async fn a_valid_policy_stays_on_a_route_that_goes_back(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &format!("rules:\n{}", rule("/cart", "")))?;
    policy(&world, "times", "cart", "timeouts: {request: 30s}")?;
    let holds = |by: &str| {
        let set = format!("headerModifiers: {{request: {{set: [{{name: x-user, value: {by}}}]}}}}");
        policy(&world, "guard", "cart", &set)
    };
    holds("one")?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let request = get(port, "/cart").header("x-user", "mallory");
    let named = async |request: &HttpRequest, name: &str| {
        request
            .comes_to(&format!("the backend sees {name}"), |reply| {
                reply.echo().is_ok_and(|echo| echo.header("x-user") == [name])
            })
            .await
    };
    named(&request, "one").await?;
    let hammer = Hammer::start([request.clone()]);
    world.route("cart", &format!("rules:\n{}{}", rule("/cart", ""), rule("/more[", "")))?;
    comes_to_blame(&holdfast, "translation", ["cart"]).await?;
    // An edit of the policy shows that the route is served, in its earlier version, with the current policy.
    holds("two")?;
    named(&request, "two").await?;
    hammer.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}

/// All ways to overwrite a client's header.
async fn a_client_does_not_name_itself(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let plain = |name: &str| world.route(name, &format!("rules:\n{}", rule(&format!("/{name}"), "")));
    let names = ["filter", "modifiers", "transformation"];
    for name in names {
        plain(name)?;
    }
    policy(&world, "modifiers", "modifiers", "timeouts: {request: 30s}")?;
    policy(&world, "transformation", "transformation", "timeouts: {request: 30s}")?;
    let _holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    for name in names {
        get(port, &format!("/{name}")).comes_to_reach("echo").await?;
    }
    // Each overwrites the header, and has one mistake.
    let filter = "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-user, value: checked}], \
                  add: [{name: 'x y', value: mistake}]}}";
    world.route("filter", &format!("rules:\n{}", rule("/filter", filter)))?;
    let set = "{request: {set: [{name: x-user, value: checked}]}}";
    for (name, field) in [("modifiers", "headerModifiers"), ("transformation", "transformation")] {
        policy(&world, name, name, &format!("timeouts: {{request: soon}}\n  {field}: {set}"))?;
    }
    for name in names {
        let request = get(port, &format!("/{name}")).header("x-user", "mallory");
        request.comes_to_answer(404).await.with_context(|| name.to_owned())?;
        for _ in 0..AGAIN {
            request.answers(404).await.with_context(|| format!("{name} is open again"))?;
        }
    }
    Ok(())
}

async fn a_cipher_that_envoy_does_not_know(world: World) -> Result<()> {
    unknown_cipher(world, &BACKFILL).await
}

async fn the_same_with_default_flags(world: World) -> Result<()> {
    unknown_cipher(world, &[]).await
}

/// TLS to a backend was acknowledged; an edit adds a cipher that Envoy refuses: requests continue with the earlier TLS.
async fn unknown_cipher(world: World, flags: &[&str]) -> Result<()> {
    let authority = StoryAuthority::new("backends")?;
    let echo = world.pod("default", "secured", "secured").await?;
    let secured = Secured::start(&authority.client("shop", 1)?, None, echo.address()).await?;
    world.write("secured.yaml", manifests::service("default", "secured", None, &[secured.address]))?;
    let config = |more: &str| {
        let spec = format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\n\
             metadata: {{name: secured, namespace: default}}\n\
             spec: {{targetRefs: [{{group: '', kind: Service, name: secured}}], tls: {{insecureSkipVerify: true, {more}}}}}\n"
        );
        world.write("config.yaml", spec)
    };
    config("sni: shop.test")?;
    let port = world.gateway()?;
    world.route("r", "rules:\n- backendRefs: [{name: secured, port: 8080}]")?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(flags)).await?;
    let request = get(port, "/");
    request.comes_to_reach("secured").await?;
    config("sni: shop.test, parameters: {cipherSuites: [NO-SUCH-CIPHER]}")?;
    holdfast_scenario_tests::until("the policy is found at fault", || async {
        let status = holdfast.diagnostics("/debug/config/fallback").await?.to_string();
        ensure!(status.contains("NO-SUCH-CIPHER") || status.contains("secured"), "{status}");
        Ok(())
    })
    .await?;
    for _ in 0..AGAIN {
        request.reaches("secured").await?;
    }
    config("sni: other.test")?;
    request.comes_to_reach("secured").await?;
    Ok(())
}
