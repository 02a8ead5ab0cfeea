//! A policy of a route, or of another rule of it, while the route is backfilled: the policy applies to the served
//! version.

use anyhow::Result;
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, Story, World, stories};

use super::probed::probed;
use super::protected::policy_text;
use super::{BACKFILL, LARGE, SAMPLE, comes_to_blame, comes_to_find, comes_to_serve, request, rule, serves, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::attached",
        true,
        [
            time_limits_of_the_route,
            time_limits_of_the_route_with_a_probe,
            time_limits_of_another_rule,
            time_limits_of_another_rule_with_a_probe,
            time_limits_with_a_mistake_beside_a_refused_rule,
        ]
    )
}

const PATHS: [&str; 2] = ["/cart", "/more"];
/// A limit that no request of the load exceeds.
const LIMIT: &str = "timeouts: {request: 3s}";

/// Returns the rules `cart`, in a version that Envoy refuses if `is_refused`, and `more`, which is never edited.
fn rules(version: &str, is_refused: bool) -> String {
    let named = |name: &str, rule: String| rule.replacen("- matches", &format!("- name: {name}\n  matches"), 1);
    let cart = if is_refused {
        rule("RegularExpression", &format!("/cart/{LARGE}"), version)
    } else {
        rule("PathPrefix", "/cart", version)
    };
    format!("rules:\n{}{}", named("cart", cart), named("more", rule("PathPrefix", "/more", "1")))
}

/// Returns a request that takes longer than the limit.
fn slow(port: u16) -> HttpRequest {
    get(port, &format!("/more/{SAMPLE}?delay=5s"))
}

async fn both_serve(port: u16) -> Result<()> {
    for path in PATHS {
        serves(port, path, "1").await?;
    }
    Ok(())
}

async fn time_limits_of_the_route(world: World) -> Result<()> {
    time_limits(world, "cart", false).await
}

async fn time_limits_of_the_route_with_a_probe(world: World) -> Result<()> {
    time_limits(world, "cart", true).await
}

async fn time_limits_of_another_rule(world: World) -> Result<()> {
    time_limits(world, "cart, sectionName: more", false).await
}

async fn time_limits_of_another_rule_with_a_probe(world: World) -> Result<()> {
    time_limits(world, "cart, sectionName: more", true).await
}

async fn time_limits(world: World, target: &str, is_probed: bool) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &rules("1", false))?;
    let limit = |spec: &str| world.write("limit.yaml", policy_text("limit", target, spec));
    limit(LIMIT)?;
    let options = if is_probed { probed(&world, &BACKFILL)? } else { unprobed(&world, &BACKFILL)? };
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = if is_probed { None } else { Some(FleetEnvoy::small("one").start(&world, &options).await?) };
    for path in PATHS {
        comes_to_serve(port, path, "1").await?;
    }
    slow(port).comes_to_answer(504).await?;
    let load = Hammer::start(PATHS.map(|path| request(port, path)));
    world.route("cart", &rules("2", true))?;
    comes_to_blame(&holdfast, if is_probed { "probe" } else { "nack" }, ["cart"]).await?;
    both_serve(port).await?;
    slow(port).answers(504).await?;
    // An edit of the policy applies to the backfilled version.
    limit("timeouts: {request: 30s}")?;
    slow(port).comes_to_answer(200).await?;
    both_serve(port).await?;
    world.route("cart", &rules("3", false))?;
    comes_to_serve(port, "/cart", "3").await?;
    serves(port, "/more", "1").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Two causes in one edit: translation finds one, Envoy refuses the other. Both objects are backfilled.
async fn time_limits_with_a_mistake_beside_a_refused_rule(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let write = |limit: &str, rules: &str| {
        world.write("batch.yaml", documents(&[policy_text("limit", "cart", limit), http_route("cart", rules)]))
    };
    write(LIMIT, &rules("1", false))?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    for path in PATHS {
        comes_to_serve(port, path, "1").await?;
    }
    slow(port).comes_to_answer(504).await?;
    let load = Hammer::start(PATHS.map(|path| request(port, path)));
    write("timeouts: {request: soon}", &rules("2", true))?;
    comes_to_find(&holdfast, &[("cart", "nack"), ("limit", "translation")]).await?;
    both_serve(port).await?;
    slow(port).answers(504).await?;
    // One of them is corrected, and then the other.
    write("timeouts: {request: 30s}", &rules("2", true))?;
    slow(port).comes_to_answer(200).await?;
    both_serve(port).await?;
    write("timeouts: {request: 30s}", &rules("3", false))?;
    comes_to_serve(port, "/cart", "3").await?;
    comes_to_blame(&holdfast, "", []).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}
