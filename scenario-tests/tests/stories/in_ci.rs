//! `holdfast check` in GitHub Actions and pre-commit: the files of this repository are run as those tools run them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::{Story, World, binary, manifests, stories};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!("in_ci", false, [the_action_checks_manifests, the_hook_checks_manifests])
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn yaml(path: &str) -> Result<Value> {
    Ok(serde_saphyr::from_str(&std::fs::read_to_string(top().join(path))?)?)
}

/// Writes a Gateway, and a route with this path.
fn sample(world: &World, path: &str) -> Result<()> {
    world.gateway()?;
    world.write("echo.yaml", manifests::service("default", "echo", None, &[([127, 0, 0, 1], 8080).into()]))?;
    world.route("r", &format!("rules:\n- matches: [{{path: {path}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"))
}

/// Runs the steps of the action with these inputs, as a runner does: an input replaces its expression in `env`.
async fn action(world: &World, inputs: &[(&str, String)]) -> Result<Finished> {
    let action = yaml(".github/actions/holdfast-check/action.yml")?;
    let steps = action["runs"]["steps"].as_array().context("no steps")?;
    ensure!(action["runs"]["using"] == "composite" && steps.len() == 1 && steps[0]["shell"] == "bash", "{action}");
    let mut env = Vec::new();
    for (name, value) in steps[0]["env"].as_object().context("no env")? {
        let expression = value.as_str().context("no text")?;
        let input = expression.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}"));
        let input = input.with_context(|| expression.to_owned())?;
        let default = action["inputs"][input]["default"].as_str().context("no default")?.to_owned();
        let given = inputs.iter().find(|(known, _)| *known == input).map(|(_, value)| value.clone());
        env.push((name.clone(), given.unwrap_or(default)));
    }
    let run = steps[0]["run"].as_str().context("no script")?;
    ensure!(!run.contains("${{"), "an input is part of the script");
    Process::start(Path::new("/bin/bash"), ["-c", run], &env, &world.log("action"))?.finish().await
}

async fn the_action_checks_manifests(world: World) -> Result<()> {
    sample(&world, "{value: /good}")?;
    let holdfast = ("holdfast", binary::holdfast()?.display().to_string());
    let paths = ("paths", format!("{}\n", world.manifests().display()));
    let sarif = world.folder().join("report.sarif");
    let inputs = [holdfast, paths, ("sarif", sarif.display().to_string())];
    action(&world, &inputs).await?.expect_code(0)?.expect_output(&["no findings"])?;
    sample(&world, "{type: RegularExpression, value: '/a['}")?;
    action(&world, &inputs).await?.expect_code(1)?.expect_output(&["spec.rules[0].matches[0].path"])?;
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&sarif)?)?;
    ensure!(report["version"] == "2.1.0" && !report["runs"][0]["results"][0].is_null(), "{report}");
    let [holdfast, ..] = inputs;
    let missing = action(&world, &[holdfast, ("paths", "/does/not/exist; true".to_owned())]).await?;
    missing.expect_code(2)?.expect_output(&["/does/not/exist; true"])?;
    Ok(())
}

async fn the_hook_checks_manifests(world: World) -> Result<()> {
    let hook = &yaml(".pre-commit-hooks.yaml")?[0];
    ensure!(hook["id"] == "holdfast-check" && hook["pass_filenames"] == false && hook["args"][0] == ".", "{hook}");
    let entry = hook["entry"].as_str().and_then(|entry| entry.strip_prefix("holdfast ")).context("another program")?;
    let folder = world.manifests().display().to_string();
    let args: Vec<&str> = entry.split(' ').chain([folder.as_str()]).collect();
    sample(&world, "{value: /good}")?;
    let finished = world.command(&args).await?;
    ensure!(finished.expect_code(0)?.output().is_empty(), "{}", finished.output());
    sample(&world, "{type: RegularExpression, value: '/a['}")?;
    world.command(&args).await?.expect_code(1)?.expect_output(&["spec.rules[0].matches[0].path"])?;
    Ok(())
}
