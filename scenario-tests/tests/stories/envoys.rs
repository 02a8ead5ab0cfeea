//! Unmanaged Envoys with the output of `holdfast bootstrap`: delta and state of the world.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Error, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, envoy, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "envoys",
        true,
        [delta, state_of_the_world, holdfast_starts_after_envoy, both_at_once, managed_over_a_unix_socket]
    )
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
