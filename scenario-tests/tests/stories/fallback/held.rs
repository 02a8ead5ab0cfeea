//! Without the gate a Gateway is held as a whole, at its last valid configuration: changes that must still take effect.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, connected};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::documents;
use holdfast_scenario_tests::request::{Reply, get};
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::protected::policy_text;
use super::refused::{refuses_something, two_routes};
use super::{BACKFILL, comes_to_serve, good, refused, request, serves, stored};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::held",
        true,
        [
            what_is_deleted_goes_also_after_a_crash,
            what_is_new_waits,
            a_fresh_envoy_is_given_what_is_held,
            what_does_not_protect_closes_nothing,
            the_gate_switched_on_isolates,
            the_gate_switched_off_holds,
        ]
    )
}

async fn what_is_deleted_goes_also_after_a_crash(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = two_routes(&world, &[]).await?;
    for name in ["first", "second"] {
        world.route(name, &good(&format!("/{name}"), "1"))?;
        comes_to_serve(port, &format!("/{name}"), "1").await?;
    }
    stored(&world, &holdfast, port).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    world.delete("route-first.yaml")?;
    request(port, "/first").comes_to_answer(404).await?;
    serves(port, "/cart", "1").await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    world.delete("route-second.yaml")?;
    request(port, "/second").comes_to_answer(404).await?;
    request(port, "/first").answers(404).await?;
    serves(port, "/cart", "1").await?;
    serves(port, "/other", "1").await?;
    load.stop_expecting(Shot::is_ok).await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await
}

/// A new route is not part of the last valid configuration; it is served with the edit that corrects the fault.
async fn what_is_new_waits(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &[]).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    let before = envoy.refusals().await?;
    world.route("new", &good("/new", "1"))?;
    until("it is tried together with what is refused", || async {
        ensure!(envoy.refusals().await? > before, "it is not");
        Ok(())
    })
    .await?;
    for _ in 0..10 {
        get(port, "/new/a-b").answers(404).await?;
        serves(port, "/cart", "1").await?;
    }
    world.delete("route-cart.yaml")?;
    comes_to_serve(port, "/new", "1").await?;
    request(port, "/cart").answers(404).await?;
    serves(port, "/other", "1").await
}

async fn a_fresh_envoy_is_given_what_is_held(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = two_routes(&world, &[]).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    serves(port, "/cart", "1").await?;
    envoy.terminate().await?;
    let options = holdfast.options.clone();
    let fresh = FleetEnvoy::small("two").start(&world, &options).await?;
    comes_to_serve(port, "/cart", "1").await?;
    serves(port, "/other", "1").await?;
    fresh.never_refused().await
}

/// Policies that are edited during the hold: a policy that overwrites a header closes its route; policies that add
/// headers for information, or rewrite paths, close nothing.
async fn what_does_not_protect_closes_nothing(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &[]).await?;
    world.route("safe", &good("/safe", "1"))?;
    let informs = |value: &str| {
        let spec = format!("headerModifiers: {{request: {{add: [{{name: x-info, value: {value}}}]}}}}");
        policy_text("informs", "other", &spec)
    };
    world.write("informs.yaml", informs("one"))?;
    comes_to_serve(port, "/safe", "1").await?;
    let informed = async |value: &str| {
        let sees = |reply: &Reply| reply.echo().is_ok_and(|seen| seen.header("x-info") == [value]);
        request(port, "/other").comes_to("backends are informed", sees).await
    };
    informed("one").await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    let rewrites = "urlRewrite: {pathRegex: {pattern: ^/cart, substitution: /basket}}";
    let hides = "headerModifiers: {request: {set: [{name: x-user, value: checked}]}}";
    let policies = [informs("two"), policy_text("rewrites", "cart", rewrites), policy_text("hides", "safe", hides)];
    world.write("informs.yaml", documents(&policies))?;
    request(port, "/safe").comes_to("it is closed", |reply| !reply.status.is_success()).await?;
    load.goes_on(50).await?;
    for path in ["/cart", "/other"] {
        serves(port, path, "1").await?;
    }
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/safe", "1").await?;
    informed("two").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// After a restart with the gate only the culprit is served in its last valid version.
async fn the_gate_switched_on_isolates(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = two_routes(&world, &[]).await?;
    stored(&world, &holdfast, port).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    world.route("other", &good("/other", "2"))?;
    load.goes_on(50).await?;
    serves(port, "/other", "1").await?;
    let options = holdfast.kill()?.args(&BACKFILL);
    let _holdfast = world.run_with(options).await?;
    comes_to_serve(port, "/other", "2").await?;
    serves(port, "/cart", "1").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// After a restart without the gate, refused content is known, and edits of other routes wait.
async fn the_gate_switched_off_holds(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = two_routes(&world, &BACKFILL).await?;
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    stored(&world, &holdfast, port).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    let mut options = holdfast.kill()?;
    options.args.retain(|arg| !BACKFILL.contains(&arg.as_str()));
    let holdfast = world.run_with(options).await?;
    connected(&holdfast, 1).await?;
    load.goes_on(100).await?;
    serves(port, "/cart", "1").await?;
    serves(port, "/other", "2").await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}
