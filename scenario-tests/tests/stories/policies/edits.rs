//! Valid edits of a policy, one after the other, under continuous requests: each response is by the earlier or the new
//! version. No authorized client is denied, whether a probe or one of several Envoys tries the edit.

use anyhow::Result;
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::request::request;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories};

use super::enforced::{LEVELS, ROUTE, set};

/// Number of edits at each level.
const EDITS: usize = 8;

pub(crate) fn stories() -> Vec<Story> {
    stories!("policies", true, [good_edits_with_a_probe, good_edits_without_a_probe])
}

async fn good_edits_with_a_probe(world: World) -> Result<()> {
    good_edits(world, "on").await
}

async fn good_edits_without_a_probe(world: World) -> Result<()> {
    good_edits(world, "off").await
}

async fn good_edits(world: World, probe: &str) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("r", ROUTE)?;
    let version = |number: usize| {
        format!(
            "rbac: {{policy: {{matchExpressions: [\"request.headers['role'] in ['all', 'v{number}']\"]}}}}\n  \
             basicAuth: {{users: ['alice:{{SHA}}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=', 'bob{number}:{{SHA}}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=']}}"
        )
    };
    set(&world, LEVELS[0].0, &version(0))?;
    let options = HoldfastOptions::new(&world)?.without_envoy().args(&["--probe", probe]);
    let _holdfast = world.run_with(options.clone()).await?;
    // The Envoys share the port.
    let mut envoys = Vec::new();
    for node in ["one", "two"] {
        envoys.push(FleetEnvoy::large(node).start(&world, &options).await?);
    }
    let alice = || request(port).header("authorization", "Basic YWxpY2U6c2VzYW1l");
    let passing = alice().header("role", "all");
    let failing = [alice(), alice().header("role", "guest"), request(port).header("role", "all")];
    passing.comes_to_reach("echo").await?;
    let pass = Hammer::start([passing.clone(), passing.clone()]);
    let kept = Hammer::start_kept([passing.clone()]);
    let fail = Hammer::start(failing);
    let mut number = 0;
    for (target, _) in LEVELS {
        for _ in 0..EDITS {
            number += 1;
            set(&world, target, &version(number))?;
            let newest = alice().header("role", &format!("v{number}"));
            newest.comes_to_reach("echo").await?;
            pass.goes_on(5).await?;
            fail.goes_on(5).await?;
        }
    }
    for hammer in [pass, kept] {
        hammer.stop_expecting(Shot::is_ok).await?;
    }
    fail.stop_expecting(|shot| matches!(shot, Shot::Answer { status: 401 | 403, .. })).await?;
    Ok(())
}
