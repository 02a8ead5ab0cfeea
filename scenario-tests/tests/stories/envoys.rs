//! Unmanaged Envoys with the output of `holdfast bootstrap`: delta and state of the world.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Error, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::process::{Process, signal};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, envoy, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "envoys",
        true,
        [
            delta,
            state_of_the_world,
            holdfast_starts_after_envoy,
            both_at_once,
            managed_over_a_unix_socket,
            listed_with_their_state
        ]
    )
}

/// `holdfast envoys` has no Envoy, then one in step, one that refused something, and at last one that does not answer.
async fn listed_with_their_state(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    world.route("one", &prefix("/one", "one"))?;
    let options = HoldfastOptions::new(&world)?.without_envoy();
    let holdfast = world.run_with(options.clone()).await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let list = async |args: &[&str], code: i32, words: &[&str]| -> Result<()> {
        let finished = world.command(&[&["envoys", "--diagnostics", &diagnostics], args].concat()).await?;
        finished.expect_code(code)?.expect_output(words)?;
        Ok(())
    };
    list(&[], 1, &["No Envoy is connected."]).await?;
    let envoy = start(&world, &options, true).await?;
    get(port, "/one").comes_to_reach("one").await?;
    until("it is in step", || list(&[], 0, &["default/public", "sotw", "in step, last acknowledged"])).await?;
    list(&["--gateway", "default/public", "-o", "json"], 0, &["\"behindSince\": null", "\"isProven\": false"]).await?;
    list(&["--gateway", "default/other"], 2, &["there is no Gateway default/other; Gateways: default/public"]).await?;
    let page = holdfast.diagnostics("/debug/envoys").await?;
    let node = page["connected"][0]["node"].as_str().context("no node")?.to_owned();
    let config = async |args: &[&str], code: i32, words: &[&str]| -> Result<()> {
        let finished = world.command(&[&["config", "--diagnostics", &diagnostics], args].concat()).await?;
        finished.expect_code(code)?.expect_output(words)?;
        Ok(())
    };
    let acknowledged = format!("{node} has acknowledged it");
    let words = [
        "virtual host",
        "path /one or below: rules[0]: to service/default/one/8080  [HTTPRoute default/one]",
        &acknowledged,
    ];
    config(&["routes", "--envoy", &node], 0, &words).await?;
    config(&["routes", "--host", "any.test"], 0, &words[..2]).await?;
    config(&["listeners"], 0, &["plain, any server name: HTTP, routes http/", "Gateway default/public]"]).await?;
    config(
        &["clusters", "--gateway", "default/public"],
        0,
        &["default/public  service/default/one/8080", "EDS, plain"],
    )
    .await?;
    config(&["endpoints", "-o", "json"], 0, &["\"action\": \"127.0.0.1:"]).await?;
    config(&["routes", "--envoy", "nobody"], 2, &["no Envoy nobody is connected"]).await?;
    config(&["routes", "--gateway", "default/other"], 2, &["Gateways: default/public"]).await?;
    config(&["clusters", "--host", "any.test"], 2, &["host selects routes only"]).await?;
    // The Envoy stops: first it does not answer an edit, then nothing comes from it.
    signal(envoy.id(), "STOP");
    world.route("two", &prefix("/two", "one"))?;
    until("it is behind", || list(&[], 1, &["behind for", "RDS", "sent and not acknowledged"])).await?;
    let finished = world.command(&["config", "--diagnostics", &diagnostics, "routes", "--envoy", &node]).await?;
    finished.expect_code(0)?.expect_output(&["has acknowledged it; version ", "was sent and is not acknowledged"])?;
    ensure!(finished.stdout.contains("/one") && !finished.stdout.contains("/two"), "{}", finished.stdout);
    until("it does not answer", || list(&[], 1, &["does not answer for"])).await?;
    signal(envoy.id(), "CONT");
    get(port, "/two").comes_to_reach("one").await?;
    until("it is in step again", || list(&[], 0, &["in step"])).await
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

/// Starts an Envoy for `default/public` with a printed bootstrap.
async fn start(world: &World, options: &HoldfastOptions, sotw: bool) -> Result<Process> {
    let mode = if sotw { "sotw" } else { "delta" };
    let args =
        ["bootstrap", "--gateway", "default/public", "--xds", &options.xds, "--admin", "none", "--xds-mode", mode];
    let printed = world.command(&args).await?;
    let file = world.folder().join(format!("{mode}.yaml"));
    fs::write(&file, &printed.expect_code(0)?.stdout)?;
    let binary = envoy::find().map_err(Error::msg)?;
    let file = file.display().to_string();
    let args = ["-c", &file, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"];
    Process::start(&binary, args, &[], &world.log("envoy"))
}

async fn served(world: World, sotw: bool) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route("one", &prefix("/one", "one"))?;
    let options = HoldfastOptions::new(&world)?.without_envoy();
    let _holdfast = world.run_with(options.clone()).await?;
    let _envoy = start(&world, &options, sotw).await?;
    get(port, "/one").comes_to_reach("one").await?;
    let load = Hammer::start([get(port, "/one")]);
    for _ in 0..3 {
        world.route("two", &prefix("/two", "two"))?;
        get(port, "/two").comes_to_reach("two").await?;
        world.delete("route-two.yaml")?;
        get(port, "/two").comes_to_answer(404).await?;
    }
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn delta(world: World) -> Result<()> {
    served(world, false).await
}

async fn state_of_the_world(world: World) -> Result<()> {
    served(world, true).await
}

async fn holdfast_starts_after_envoy(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    world.route("one", &prefix("/one", "one"))?;
    let options = HoldfastOptions::new(&world)?.without_envoy();
    let _envoy = start(&world, &options, false).await?;
    let _holdfast = world.run_with(options).await?;
    get(port, "/one").comes_to_reach("one").await?;
    Ok(())
}

/// Two Envoys of one Gateway use different protocols and have the same configuration; one of them may leave.
async fn both_at_once(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route("one", &prefix("/one", "one"))?;
    let options = HoldfastOptions::new(&world)?.without_envoy();
    let holdfast = world.run_with(options.clone()).await?;
    let delta = start(&world, &options, false).await?;
    let _sotw = start(&world, &options, true).await?;
    connected(&holdfast, 2.0).await?;
    get(port, "/one").comes_to_reach("one").await?;
    delta.terminate().await?;
    connected(&holdfast, 1.0).await?;
    world.route("two", &prefix("/two", "two"))?;
    get(port, "/two").comes_to_reach("two").await?;
    Ok(())
}

async fn connected(holdfast: &Holdfast, count: f64) -> Result<()> {
    until("the Envoys are counted", || async {
        let now = holdfast.metric("holdfast_xds_connected_envoys", &[]).await?;
        ensure!(now == count, "{now} instead of {count}");
        Ok(())
    })
    .await
}

async fn managed_over_a_unix_socket(world: World) -> Result<()> {
    let _one = world.backend("one").await?;
    let port = world.gateway()?;
    world.route("one", &prefix("/one", "one"))?;
    let socket = world.folder().join("xds.sock");
    let options = HoldfastOptions { xds: format!("unix:{}", socket.display()), ..HoldfastOptions::new(&world)? };
    let _holdfast = world.run_with(options).await?;
    get(port, "/one").comes_to_reach("one").await?;
    let mode = fs::metadata(&socket)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "the socket has mode {mode:o}");
    Ok(())
}
