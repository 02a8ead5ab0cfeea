//! Requests of operators to a running Holdfast: the level of its log, and SIGHUP.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::process::signal;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, manifests, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!("operating", false, [another_log_level, a_hangup])
}

const TRANSLATED: &str = "translated";

/// Writes changed manifests until the log has more lines about translations, or all of several edits without one.
async fn edits_are_logged(world: &World, holdfast: &Holdfast, wanted: bool) -> Result<()> {
    let lines = || holdfast.output().matches(TRANSLATED).count();
    let before = lines();
    let objects = async || {
        let page = holdfast.diagnostics("/debug/config/successful").await?;
        anyhow::Ok(page["objects"].as_array().map_or(0, Vec::len))
    };
    for _ in 0..3 {
        let known = objects().await?;
        let name = format!("class-{known}");
        world.write(&format!("{name}.yaml"), manifests::class().replace(manifests::CLASS, &name))?;
        until("the edit is read", async || {
            ensure!(objects().await? > known, "still {known} objects");
            Ok(())
        })
        .await?;
    }
    ensure!((lines() > before) == wanted, "{} lines before, {} lines after", before, lines());
    Ok(())
}

/// `holdfast log-level` shows the level, sets another one for a time, and ends it.
async fn another_log_level(world: World) -> Result<()> {
    world.gateway()?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.without_envoy()).await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let level = async |args: &[&str], code: i32, words: &[&str]| -> Result<()> {
        let finished = world.command(&[&["log-level", "--diagnostics", &diagnostics], args].concat()).await?;
        finished.expect_code(code)?.expect_output(words)?;
        Ok(())
    };
    level(&[], 0, &["info\n"]).await?;
    edits_are_logged(&world, &holdfast, false).await?;
    level(&["debug", "--for", "1h"], 0, &["debug for 3", " s, then info"]).await?;
    edits_are_logged(&world, &holdfast, true).await?;
    level(&["-o", "json"], 0, &["\"level\": \"debug\"", "\"startedWith\": \"info\""]).await?;
    level(&["--reset"], 0, &["info\n"]).await?;
    edits_are_logged(&world, &holdfast, false).await?;
    level(&["holdfast_engine=debug", "--for", "1s"], 0, &["holdfast_engine=debug for "]).await?;
    until("the level of the start applies again", || level(&[], 0, &["info\n"])).await?;
    level(&["loud"], 2, &["expected one of off, error, warn"]).await?;
    level(&["debug", "--for", "2d"], 2, &["--for"]).await?;
    let nowhere = ["log-level", "--diagnostics", "127.0.0.1:1"];
    world
        .command(&nowhere)
        .await?
        .expect_code(3)?
        .expect_output(&["cannot read http://127.0.0.1:1/debug/log-level"])?;
    holdfast.comes_to_print(&["the level of the log changes", "the level of the log is that of the start again"]).await
}

/// SIGHUP reads the manifests again, and names what it does not change.
async fn a_hangup(world: World) -> Result<()> {
    world.gateway()?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.without_envoy()).await?;
    signal(holdfast.id(), "HUP");
    let words = ["reads the manifests again; certificates", "apply after a restart", "were read again as requested"];
    holdfast.comes_to_print(&words).await?;
    holdfast.diagnostics("/debug/health").await.map(drop)
}
