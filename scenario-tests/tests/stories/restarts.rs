//! Restarts of Holdfast and of Envoy, by signal and by crash. Traffic continues wherever an Envoy remains.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, process, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "restarts",
        true,
        [
            killed_and_started_again_sends_nothing,
            changed_while_it_was_dead,
            a_terminated_holdfast_ends_its_envoys,
            a_second_signal_ends_it_at_once,
            dead_envoy_is_started_again,
            deleted_gateway_ends_its_envoy,
            files_that_do_not_parse_at_the_start,
        ]
    )
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

fn only_envoy(holdfast: &Holdfast) -> Result<u32> {
    let envoys = holdfast.envoys();
    ensure!(envoys.len() == 1, "Envoys: {envoys:?}");
    envoys.first().copied().context("no Envoy")
}

/// Envoy continues without Holdfast, the next Holdfast adopts it, and sends no resource.
async fn killed_and_started_again_sends_nothing(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let envoy = only_envoy(&holdfast)?;
    ensure!(super::changes::sent(&holdfast).await? > 0.0, "nothing is counted");
    let load = Hammer::start([get(port, "/"), get(port, "/").http2()]);
    load.goes_on(20).await?;
    let options = holdfast.kill()?;
    load.goes_on(100).await?;
    let holdfast = world.run_with(options).await?;
    let sent = super::changes::connected_and_sent(&holdfast).await?;
    load.goes_on(100).await?;
    ensure!(only_envoy(&holdfast)? == envoy, "the Envoy was not adopted");
    ensure!(sent == 0.0, "{sent} resources were sent to an Envoy that had them all");
    // The adoption is complete: a change reaches the Envoy.
    world.route("more", &prefix("/more", "nobody"))?;
    get(port, "/more").comes_to_answer(500).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn changed_while_it_was_dead(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route("stays", &prefix("/stays", "one"))?;
    world.route("goes", &prefix("/goes", "one"))?;
    let holdfast = world.run().await?;
    for path in ["/stays", "/goes"] {
        get(port, path).comes_to_reach("one").await?;
    }
    let load = Hammer::start([get(port, "/stays")]);
    let options = holdfast.kill()?;
    world.delete("route-goes.yaml")?;
    world.route("comes", &prefix("/comes", "two"))?;
    get(port, "/goes").reaches("one").await?;
    let _holdfast = world.run_with(options).await?;
    get(port, "/comes").comes_to_reach("two").await?;
    get(port, "/goes").comes_to_answer(404).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn a_terminated_holdfast_ends_its_envoys(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let envoy = only_envoy(&holdfast)?;
    holdfast.terminate().await?.expect_code(0)?;
    ensure!(!process::runs(envoy), "Envoy {envoy} still runs");
    ensure!(process::naming(world.folder()).is_empty(), "processes are left");
    ensure!(get(port, "/").send().await.is_err(), "the Gateway still answers");
    // A start with the same folder restores everything.
    let _holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    Ok(())
}

/// An Envoy that does not end delays the end of Holdfast, but not after a second signal.
async fn a_second_signal_ends_it_at_once(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let envoy = only_envoy(&holdfast)?;
    process::signal(envoy, "STOP");
    process::signal(holdfast.id(), "TERM");
    holdfast.comes_to_print(&["ending", "SIGTERM"]).await?;
    holdfast.terminate().await?.expect_code(0)?;
    ensure!(process::runs(envoy), "Holdfast waited until Envoy {envoy} was killed");
    process::signal(envoy, "KILL");
    Ok(())
}

async fn dead_envoy_is_started_again(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    for _ in 0..2 {
        let envoy = only_envoy(&holdfast)?;
        process::signal(envoy, "KILL");
        until("the killed Envoy is gone", || async move {
            ensure!(!process::runs(envoy));
            Ok(())
        })
        .await?;
        get(port, "/").comes_to_reach("echo").await?;
        ensure!(only_envoy(&holdfast)? != envoy);
    }
    Ok(())
}

async fn deleted_gateway_ends_its_envoy(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let text = std::fs::read_to_string(world.manifests().join("gateway.yaml"))?;
    world.delete("gateway.yaml")?;
    until("the Envoy of the deleted Gateway has ended", || async {
        ensure!(holdfast.envoys().is_empty(), "{:?}", holdfast.envoys());
        Ok(())
    })
    .await?;
    world.write("gateway.yaml", text)?;
    get(port, "/").comes_to_reach("echo").await?;
    Ok(())
}

/// All files are damaged while Holdfast is off: everything is served as before until the files are valid again.
async fn files_that_do_not_parse_at_the_start(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    world.route("more", &prefix("/more", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/more").comes_to_reach("echo").await?;
    holdfast.comes_to_print(&["programmed"]).await?;
    let options = holdfast.options.clone();
    holdfast.terminate().await?.expect_code(0)?;
    let stored = world.command(&["store", "inspect", "--data-dir", &world.data().to_string_lossy()]).await?;
    stored.expect_output(&["HTTPRoute:default/more", "GatewayClass:"])?;
    let mut written = Vec::new();
    for entry in std::fs::read_dir(world.manifests())? {
        let entry = entry?;
        written.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
        std::fs::write(entry.path(), "spec: [1\n")?;
    }
    let holdfast = world.run_with(options).await?;
    get(port, "/more").comes_to_reach("echo").await?;
    holdfast
        .comes_to_print(&["gateway.yaml", "the version of the object that an earlier run stored stays in use"])
        .await?;
    // No client gets an error, and none is reported.
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("status reports no outage", || async {
        let status = world.command(&["status", "--diagnostics", &diagnostics]).await?;
        status.expect_code(1)?.expect_output(&["NOT everything is served as desired: 0 outages, 0 degraded, "])?;
        Ok(())
    })
    .await?;
    let url = format!("http://127.0.0.1:{port}/more");
    let explained = world.command(&["explain", "--diagnostics", &diagnostics, "GET", &url]).await?;
    let words = [
        "forwarded to Service default/echo",
        "not read      HTTPRoute default/more: ",
        "not read      Service default/echo: ",
    ];
    explained.expect_code(3)?.expect_output(&words)?;
    // A file that is deleted now deletes its objects.
    world.delete("route-more.yaml")?;
    for (name, text) in written.iter().filter(|(name, _)| name != "route-more.yaml") {
        get(port, "/").answers(200).await?;
        world.write(name, text)?;
    }
    world.route("gone", &prefix("/gone", "nobody"))?;
    get(port, "/gone").comes_to_answer(500).await?;
    get(port, "/").answers(200).await?;
    Ok(())
}
