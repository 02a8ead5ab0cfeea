//! The owner of a route can influence the message of Envoy's refusal. The message does not blame other objects.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::fleet::FleetEnvoy;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use super::{BACKFILL, REPLACE, comes_to_blame, comes_to_serve, good, request, serves, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!("fallback::messages", true, [that_imitate_a_refusal_of_others, that_imitate_it_while_others_are_edited])
}

/// Returns a header match with the text of Envoy's message about other resources.
fn imitation(others: &str) -> String {
    format!(
        "(a{{1,900}}|missing \\n{others}: bind failed\\nError adding/updating listener.s. {others}: refused, {others}: x)"
    )
}

fn liar(path: &str, version: &str, others: &str) -> String {
    let text = imitation(others);
    format!(
        "rules:\n- matches:\n  - path: {{type: PathPrefix, value: {path}}}\n    headers:\n    - {{name: x-a, type: \
         RegularExpression, value: \"{text}\"}}\n  filters:\n  - type: ResponseHeaderModifier\n    \
         responseHeaderModifier: {{set: [{{name: x-version, value: '{version}'}}]}}\n  backendRefs: [{{name: echo, port: 8080}}]\n"
    )
}

async fn imitated_refusals(world: World, flags: &[&str], edited: bool) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    for name in ["liar", "other", "cart", "still"] {
        world.route(name, &good(&format!("/{name}"), "1"))?;
    }
    let options = unprobed(&world, flags)?;
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    for path in ["/liar", "/other", "/cart", "/still"] {
        comes_to_serve(port, path, "1").await?;
    }
    // Without last valid versions, an object that is edited during the search for a culprit is replaced until it is
    // known to be innocent.
    let paths = if edited { &["/still"][..] } else { &["/other", "/cart", "/still"] };
    let load = Hammer::start(paths.iter().map(|path| request(port, path)));
    // An object that is refused more often has to wait.
    let names = ["httproute/default/other/rules/0, HTTPRoute default/other", "http/80, default/public"];
    for (round, name) in names.into_iter().enumerate() {
        let version = format!("{}", round + 2);
        world.route("liar", &liar("/liar", &version, name))?;
        if edited {
            world.route("other", &good("/other", &version))?;
        }
        until("the words are told", || async {
            let refusals = envoy.refusals().await?;
            ensure!(refusals > round as u64, "{refusals} refusals");
            Ok(())
        })
        .await?;
        world.route("cart", &good("/cart", &version))?;
        comes_to_serve(port, "/cart", &version).await?;
        comes_to_serve(port, "/other", if edited { &version } else { "1" }).await?;
        comes_to_blame(&holdfast, "nack", ["liar"]).await?;
        if flags == BACKFILL {
            serves(port, "/liar", "1").await?;
        }
    }
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn that_imitate_a_refusal_of_others(world: World) -> Result<()> {
    imitated_refusals(world, &BACKFILL, false).await
}

async fn that_imitate_it_while_others_are_edited(world: World) -> Result<()> {
    imitated_refusals(world, &REPLACE, true).await
}
