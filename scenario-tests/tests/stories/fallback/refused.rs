//! One Envoy, no probe: a route that it refuses, under each setting of the gates.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, stories, until};

use super::{
    BACKFILL, LARGE, LEAVE_OUT, REPLACE, comes_to_blame, comes_to_serve, good, refused, request, rule, serves, stored,
    unprobed,
};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::refused",
        true,
        [
            last_valid_version_is_served_also_after_a_crash,
            without_last_valid_versions_it_is_replaced,
            without_replacement_it_is_left_out,
            without_the_gate_the_whole_gateway_is_held,
            what_is_replaced_stays_so_after_a_crash,
            a_route_that_was_never_valid_is_replaced,
            of_two_edited_rules_the_refused_one_alone_is_mended,
            what_is_edited_again_and_again_recovers,
            state_of_the_world,
        ]
    )
}

/// Two routes, `/cart` and `/other`, in version 1, served by one Envoy with the small limit.
pub(super) async fn two_routes(world: &World, flags: &[&str]) -> Result<(u16, Holdfast, RunningEnvoy)> {
    let port = world.gateway()?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let options = unprobed(world, flags)?;
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy::small("one").start(world, &options).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    Ok((port, holdfast, envoy))
}

async fn last_valid_version_is_served_also_after_a_crash(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = two_routes(&world, &BACKFILL).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);

    world.route("cart", &refused("/cart", "2"))?;
    refuses(&envoy, 1).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    serves(port, "/cart", "1").await?;
    load.goes_on(100).await?;
    stored(&world, &holdfast, port).await?;

    // After a crash the verdict is known: the content is not sent to the Envoy again.
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    world.route("other", &good("/other", "3"))?;
    comes_to_serve(port, "/other", "3").await?;
    serves(port, "/cart", "1").await?;
    refuses_no_more_than(&envoy, 1).await?;
    load.stop_expecting(Shot::is_ok).await?;

    // A deleted route is gone, whatever is stored of it; created again it is served.
    world.delete("route-cart.yaml")?;
    request(port, "/cart").comes_to_answer(404).await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    world.route("other", &good("/other", "4"))?;
    comes_to_serve(port, "/other", "4").await?;
    request(port, "/cart").answers(404).await?;
    world.route("cart", &good("/cart", "5"))?;
    comes_to_serve(port, "/cart", "5").await?;
    refuses_no_more_than(&envoy, 1).await
}

async fn without_last_valid_versions_it_is_replaced(world: World) -> Result<()> {
    let echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &REPLACE).await?;
    world.route("broad", &good("/", "broad"))?;
    comes_to_serve(port, "/somewhere", "broad").await?;
    let others = Hammer::start([request(port, "/other"), request(port, "/somewhere")]);
    world.route("cart", &refused("/cart", "2"))?;
    let reply = request(port, "/cart").comes_to_answer(404).await?;
    ensure!(reply.body.starts_with("Holdfast has invalid configuration"), "{reply:?}");
    let before = echo.count(|seen| seen.request.path.starts_with("/cart"));
    for _ in 0..20 {
        request(port, "/cart").answers(404).await?;
    }
    ensure!(echo.count(|seen| seen.request.path.starts_with("/cart")) == before, "the broader route answered");
    // The direct response that replaces it has the refused regular expression too; then the match is narrowed.
    refuses_no_more_than(&envoy, 2).await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await?;
    world.delete("route-cart.yaml")?;
    comes_to_serve(port, "/cart", "broad").await?;
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn without_replacement_it_is_left_out(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &LEAVE_OUT).await?;
    world.route("broad", &good("/", "broad"))?;
    comes_to_serve(port, "/somewhere", "broad").await?;
    world.route("cart", &refused("/cart", "2"))?;
    comes_to_serve(port, "/cart", "broad").await?;
    serves(port, "/other", "1").await?;
    refuses_no_more_than(&envoy, 1).await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await
}

/// The Gateway is held at its last valid configuration, so valid edits of other routes wait; deletions take effect, and
/// the next edit of the broken route resolves everything.
async fn without_the_gate_the_whole_gateway_is_held(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &[]).await?;
    world.route("goes", &good("/goes", "1"))?;
    comes_to_serve(port, "/goes", "1").await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    world.route("cart", &refused("/cart", "2"))?;
    refuses_something(&envoy).await?;
    world.route("other", &good("/other", "2"))?;
    load.goes_on(100).await?;
    for path in ["/cart", "/other"] {
        serves(port, path, "1").await?;
    }
    world.delete("route-goes.yaml")?;
    request(port, "/goes").comes_to_answer(404).await?;
    for path in ["/cart", "/other"] {
        serves(port, path, "1").await?;
    }
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await?;
    comes_to_serve(port, "/other", "2").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn what_is_replaced_stays_so_after_a_crash(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = two_routes(&world, &REPLACE).await?;
    world.route("cart", &refused("/cart", "2"))?;
    request(port, "/cart").comes_to_answer(404).await?;
    stored(&world, &holdfast, port).await?;
    let before = envoy.refusals().await?;
    let load = Hammer::start([request(port, "/other")]);
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    request(port, "/cart").answers(404).await?;
    refuses_no_more_than(&envoy, before).await?;
    load.stop_expecting(Shot::is_ok).await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await
}

async fn a_route_that_was_never_valid_is_replaced(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &BACKFILL).await?;
    world.route("new", &refused("/new", "1"))?;
    let reply = request(port, "/new").comes_to("it is replaced", |reply| !reply.body.is_empty()).await?;
    ensure!(reply.status.as_u16() == 404 && reply.body.starts_with("Holdfast"), "{reply:?}");
    for path in ["/cart", "/other"] {
        serves(port, path, "1").await?;
    }
    refuses_no_more_than(&envoy, 2).await?;
    world.route("new", &good("/new", "2"))?;
    comes_to_serve(port, "/new", "2").await
}

/// One edit changes two rules, and Envoy refuses one of them: a correction of that rule alone serves both.
async fn of_two_edited_rules_the_refused_one_alone_is_mended(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    for flags in [&BACKFILL[..], &REPLACE] {
        let (port, holdfast, envoy) = two_routes(&world, flags).await?;
        let pair = |second: String| format!("rules:\n{}{second}", rule("PathPrefix", "/first", "2"));
        let before = format!("rules:\n{}{}", rule("PathPrefix", "/first", "1"), rule("PathPrefix", "/second", "1"));
        world.route("pair", &before)?;
        comes_to_serve(port, "/second", "1").await?;
        stored(&world, &holdfast, port).await?;
        // While one rule is tried on the serving Envoy, clients of the other rule are served its last valid version.
        let load = (flags != REPLACE).then(|| Hammer::start([request(port, "/first"), request(port, "/second")]));
        world.route("pair", &pair(rule("RegularExpression", &format!("/second/{LARGE}"), "2")))?;
        comes_to_blame(&holdfast, "nack", ["pair"]).await?;
        if let Some(load) = load {
            load.goes_on(100).await?;
            load.stop_expecting(Shot::is_ok).await?;
        }
        // No request reaches the virtual host of trials.
        get(port, "/first").host("holdfast trial").answers(400).await?;
        if flags == REPLACE {
            comes_to_serve(port, "/first", "2").await?;
            request(port, "/second").answers(404).await?;
        } else {
            serves(port, "/first", "1").await?;
            serves(port, "/second", "1").await?;
        }
        let holdfast = world.run_with(holdfast.kill()?).await?;
        connected(&holdfast, 1).await?;
        world.route("pair", &pair(rule("PathPrefix", "/second", "3")))?;
        comes_to_serve(port, "/first", "2").await?;
        comes_to_serve(port, "/second", "3").await?;
        comes_to_blame(&holdfast, "nack", []).await?;
        world.delete("route-pair.yaml")?;
        drop(envoy);
        holdfast.terminate().await?.expect_code(0)?;
    }
    Ok(())
}

/// Valid and refused versions in turn: the newest valid one is served each time, and refused content is not sent again.
async fn what_is_edited_again_and_again_recovers(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, _holdfast, envoy) = two_routes(&world, &BACKFILL).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    for round in 1..=6 {
        let version = format!("good-{round}");
        world.route("cart", &good("/cart", &version))?;
        comes_to_serve(port, "/cart", &version).await?;
        // The same bytes in each round: refused only once.
        world.route("cart", &refused("/cart", "bad"))?;
        refuses(&envoy, 1).await?;
        world.route("other", &good("/other", &version))?;
        comes_to_serve(port, "/other", &version).await?;
        load.goes_on(20).await?;
        serves(port, "/cart", &version).await?;
        refuses_no_more_than(&envoy, 1).await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn state_of_the_world(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let options = unprobed(&world, &BACKFILL)?;
    let _holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy { sotw: true, ..FleetEnvoy::small("one") }.start(&world, &options).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    world.route("cart", &refused("/cart", "2"))?;
    refuses(&envoy, 1).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    serves(port, "/cart", "1").await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await?;
    refuses_no_more_than(&envoy, 1).await?;
    let never = get(port, "/nowhere").send().await?;
    ensure!(never.status.as_u16() == 404, "{never:?}");
    Ok(())
}

/// Waits until an Envoy has refused something.
pub(super) async fn refuses_something(envoy: &RunningEnvoy) -> Result<()> {
    until("the Envoy has refused it", || async {
        ensure!(envoy.refusals().await? > 0, "it has not");
        Ok(())
    })
    .await
}

async fn refuses(envoy: &RunningEnvoy, times: u64) -> Result<()> {
    until("the Envoy has refused it", || refuses_exactly(envoy, times)).await
}

async fn refuses_exactly(envoy: &RunningEnvoy, times: u64) -> Result<()> {
    let refusals = envoy.refusals().await?;
    ensure!(refusals == times, "{} refused {refusals} times instead of {times}", envoy.node);
    Ok(())
}

async fn refuses_no_more_than(envoy: &RunningEnvoy, times: u64) -> Result<()> {
    let refusals = envoy.refusals().await?;
    ensure!(refusals <= times, "{} refused {refusals} times", envoy.node);
    Ok(())
}
