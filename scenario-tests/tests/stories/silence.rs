//! Envoys that stop answering while nothing is edited: they are reported, and their Gateway alone; no object is at fault,
//! and the report ends by itself.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, connected};
use holdfast_scenario_tests::holdfast::HoldfastOptions;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, Story, World, manifests, process, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!("silence", true, [the_only_envoy_is_stopped, one_of_two_envoys_is_stopped])
}

const FALLBACK: [&str; 3] = ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback"];

async fn status(world: &World, holdfast: &Holdfast, more: &[&str], code: i32, words: &[&str]) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let args = [&["status", "--diagnostics", &address], more].concat();
    until(&format!("{args:?} ends with {code} and says {words:?}"), || async {
        let finished = world.command(&args).await?;
        finished.expect_code(code)?.expect_output(words)?;
        Ok(())
    })
    .await
}

/// Returns the process id of the managed Envoy of a Gateway.
async fn managed(holdfast: &Holdfast, gateway: &str) -> Result<u32> {
    let page = holdfast.diagnostics("/debug/envoys").await?;
    let mut all = page["managed"].as_array().into_iter().flatten();
    let found = all.find(|envoy| envoy["gateway"] == gateway).and_then(|envoy| envoy["pid"].as_u64());
    found.and_then(|pid| u32::try_from(pid).ok()).with_context(|| format!("no Envoy of {gateway}: {page}"))
}

/// Returns whether any object is at fault, or served in another version.
async fn no_verdict(holdfast: &Holdfast) -> Result<()> {
    let page = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(page["status"] == "not-triggered", "{page}");
    Ok(())
}

/// Waits until this number of Envoys of `default/public` counts as silent.
async fn counted(holdfast: &Holdfast, count: f64) -> Result<()> {
    until("silent Envoys are counted", || async {
        let now = holdfast.metric("holdfast_xds_silent_envoys", &["gateway=\"default/public\""]).await?;
        ensure!(now == count, "{now} instead of {count}");
        Ok(())
    })
    .await
}

/// The Envoy of one Gateway is stopped, and the one of another Gateway is not: the report names the first Gateway, stays
/// after its connection is closed, and ends when the process goes on.
async fn the_only_envoy_is_stopped(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let other = world.port()?;
    world.write("other.yaml", manifests::gateway("other", &manifests::http_listener(other)))?;
    let parents = "- name: public\n- name: other\n";
    let rules = "rules:\n- backendRefs: [{name: echo, port: 8080}]";
    world.write("route.yaml", manifests::route("HTTPRoute", manifests::NAMESPACE, "all", parents, rules))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&FALLBACK)).await?;
    for port in [port, other] {
        get(port, "/").comes_to_reach("echo").await?;
    }
    status(&world, &holdfast, &[], 0, &[]).await?;
    let pid = managed(&holdfast, "default/public").await?;
    process::signal(pid, "STOP");
    let words = [
        "1 outage, 0 degraded",
        "Gateway default/public\n",
        "ago), at default/public\n",
        "does not answer",
        "probably get no response",
        "next     kill -CONT",
    ];
    status(&world, &holdfast, &[], 1, &words).await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let url = format!("http://127.0.0.1:{port}/");
    until("explain does not promise an answer", || async {
        let explained = world.command(&["explain", "--diagnostics", &diagnostics, "GET", &url]).await?;
        explained.expect_code(3)?.expect_output(&["may concern   Gateway default/public"]).map(drop)
    })
    .await?;
    counted(&holdfast, 1.0).await?;
    until("the connection is closed", || async {
        let now = holdfast.metric("holdfast_xds_connected_envoys", &["gateway=\"default/public\""]).await?;
        ensure!(now == 0.0, "it is not");
        Ok(())
    })
    .await?;
    status(&world, &holdfast, &[], 1, &words).await?;
    let only = ["--gateway", "default/other"];
    status(&world, &holdfast, &only, 0, &["Everything at Gateway default/other is served as desired."]).await?;
    get(other, "/").comes_to_reach("echo").await?;
    no_verdict(&holdfast).await?;
    process::signal(pid, "CONT");
    status(&world, &holdfast, &[], 0, &[]).await?;
    counted(&holdfast, 0.0).await?;
    ensure!(managed(&holdfast, "default/public").await? == pid, "the Envoy was replaced");
    get(port, "/").comes_to_reach("echo").await?;
    no_verdict(&holdfast).await
}

/// Of two Envoys that Holdfast does not manage, one is stopped: the Gateway is degraded, also after the connection is
/// closed, until the process goes on.
async fn one_of_two_envoys_is_stopped(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let options = HoldfastOptions::new(&world)?.without_envoy().args(&FALLBACK);
    let holdfast = world.run_with(options.clone()).await?;
    let one = FleetEnvoy::small("one").start(&world, &options).await?;
    let sotw = FleetEnvoy { sotw: true, ..FleetEnvoy::small("two") };
    let two = sotw.start(&world, &options).await?;
    connected(&holdfast, 2).await?;
    get(port, "/").comes_to_reach("echo").await?;
    status(&world, &holdfast, &[], 0, &[]).await?;
    two.freeze();
    let words = ["0 outages, 1 degraded", "Gateway default/public\n", "Envoy two does not answer"];
    status(&world, &holdfast, &[], 1, &words).await?;
    connected(&holdfast, 1).await?;
    status(&world, &holdfast, &[], 1, &words).await?;
    no_verdict(&holdfast).await?;
    two.thaw();
    status(&world, &holdfast, &[], 0, &[]).await?;
    connected(&holdfast, 2).await?;
    no_verdict(&holdfast).await?;
    // An Envoy that is ended is not missed.
    two.terminate().await?;
    connected(&holdfast, 1).await?;
    status(&world, &holdfast, &[], 0, &[]).await?;
    drop(one);
    Ok(())
}
