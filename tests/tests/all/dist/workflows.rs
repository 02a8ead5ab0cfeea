//! Workflows and scripts of continuous integration: valid YAML, commands that exist, and the versions of the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use holdfast_dist::DistArgs;
use holdfast_probe::envoy;
use regex::Regex;
use serde_json::Value;

use crate::chart;

/// Commands of workflows that are no part of the repository, and come with the runner or an earlier step.
const TOOLS: [&str; 6] = ["apt-get", "cargo", "git", "rustup", "sudo apt-get", "cosign"];
/// What `cargo` runs in workflows beside the aliases of the repository.
const CARGO: [&str; 1] = ["install"];

fn top(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(top(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn workflows() -> Vec<(String, String)> {
    let folder = fs::read_dir(top(".github/workflows")).unwrap();
    let mut names: Vec<String> = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["checks.yml", "release.yml", "tests.yml"]);
    names
        .into_iter()
        .map(|name| (text(&format!(".github/workflows/{name}")), name))
        .map(|(text, name)| (name, text))
        .collect()
}

/// Returns the steps of all jobs of a workflow.
fn steps(name: &str, text: &str) -> Vec<Value> {
    let workflow: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let jobs = workflow["jobs"].as_object().unwrap_or_else(|| panic!("{name} has no jobs"));
    assert!(workflow["permissions"].is_object(), "{name} has all permissions");
    let of_jobs = jobs.values().map(|job| {
        assert!(job["timeout-minutes"].is_number() && job["runs-on"].is_string(), "{name}: {job}");
        job["steps"].as_array().unwrap()
    });
    of_jobs.flatten().cloned().collect()
}

/// Checks that a command of a workflow exists; returns the reason if it does not.
fn fault(command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let first = words[0];
    if first.starts_with(".ci/") {
        return script_fault(&words);
    }
    if first == "cargo" {
        let aliases: Value = toml_aliases();
        let known = aliases.get(words[1]).is_some() || CARGO.contains(&words[1]);
        return (!known).then(|| format!("cargo has no command {}", words[1]));
    }
    let is_tool = TOOLS.iter().any(|tool| command.starts_with(&format!("{tool} ")));
    (!is_tool).then(|| format!("{first} is no known tool"))
}

/// Returns the aliases of `.cargo/config.toml` by their name.
fn toml_aliases() -> Value {
    let alias = Regex::new(r#"(?m)^([a-z]+) = "(.*)"$"#).unwrap();
    let text = text(".cargo/config.toml");
    alias.captures_iter(&text).map(|found| (found[1].to_owned(), Value::from(&found[2]))).collect()
}

fn script_fault(words: &[&str]) -> Option<String> {
    let path = top(words[0]);
    if !path.is_file() {
        return Some(format!("there is no {}", words[0]));
    }
    match words[0] {
        ".ci/run" => {
            let script = text(".ci/run");
            let step = words.get(1).copied().unwrap_or("all");
            (!script.contains(&format!("\n    {step}) "))).then(|| format!(".ci/run has no step {step}"))
        }
        // Its arguments go to `cargo dist`.
        ".ci/dist" => DistArgs::try_parse_from(words).err().map(|error| error.to_string()),
        _ => None,
    }
}

#[test]
fn workflows_run_commands_that_exist() {
    let mut scripts = BTreeSet::new();
    for (name, text) in workflows() {
        for step in steps(&name, &text) {
            if let Some(action) = step["uses"].as_str() {
                assert!(action.contains('@'), "{name}: {action} has no version");
                continue;
            }
            let command = step["run"].as_str().unwrap_or_else(|| panic!("{name}: a step runs nothing: {step}"));
            for line in command.lines() {
                let fault = fault(line);
                assert!(fault.is_none(), "{name}: {line}: {}", fault.unwrap_or_default());
                scripts.insert(line.split(' ').take(2).collect::<Vec<_>>().join(" "));
            }
        }
    }
    for script in [".ci/run checks", ".ci/run tests", ".ci/dist --tag", ".ci/publish"] {
        assert!(scripts.contains(script), "no workflow runs {script}: {scripts:?}");
    }
    for wrong in [".ci/walk", ".ci/run everything", ".ci/dist --tagg v1", "cargo fly", "curl x"] {
        assert!(fault(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn scripts_are_programs_and_name_no_registry() {
    for name in ["run", "dist", "publish", "deny"] {
        let path = format!(".ci/{name}");
        let script = text(&path);
        assert!(script.starts_with("#!/usr/bin/env bash\n"), "{path}");
        assert!(script.contains("\nset -euo pipefail\n"), "{path} goes on after a failure");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_ne!(top(&path).metadata().unwrap().permissions().mode() & 0o111, 0, "{path} cannot be run");
        }
        let syntax = std::process::Command::new("bash").arg("-n").arg(top(&path)).output().unwrap();
        assert!(syntax.status.success(), "{path}: {syntax:?}");
    }
    let texts = workflows().into_iter().map(|(_, text)| text).chain([text(".ci/dist"), text(".ci/publish")]);
    let registry = Regex::new(r"\b(ghcr|docker|quay|gcr|pkg\.dev)\.(io|com)\b").unwrap();
    for text in texts {
        assert!(!registry.is_match(&text), "{:?}", registry.find(&text));
    }
}

/// Variables and secrets of the workflows and of the scripts that they call are documented.
#[test]
fn variables_of_the_release_are_documented() {
    let page = text("docs/operating/artefacts.md");
    let named = Regex::new(r"\$\{\{ (?:secrets|vars)\.([A-Z_]+) \}\}").unwrap();
    let (_, release) = workflows().into_iter().find(|(name, _)| name == "release.yml").unwrap();
    let names: BTreeSet<String> = named.captures_iter(&release).map(|found| found[1].to_owned()).collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/operating/artefacts.md");
    }
    let required = Regex::new(r#"(?m)^: "\$\{([A-Z_]+):?\?"#).unwrap();
    for found in required.captures_iter(&text(".ci/publish")) {
        let is_set = release.contains(&format!("{}: ${{{{ ", &found[1])) || found[1].starts_with("GITHUB_");
        assert!(is_set, "release.yml does not set {}, which .ci/publish needs", &found[1]);
    }
}

#[test]
fn envoy_and_chart_have_the_versions_of_the_repository() {
    let (script, source) = (text(".ci/dist"), text("engine/probe/src/envoy/fetch.rs"));
    assert!(script.contains(&format!("\nENVOY={}\n", envoy::RELEASE)), "another Envoy");
    let hash = Regex::new(r"=([0-9a-f]{64})\n").unwrap();
    let hashes: Vec<String> = hash.captures_iter(&script).map(|found| found[1].to_owned()).collect();
    assert_eq!(hashes.len(), 2);
    for hash in hashes {
        assert!(source.contains(&format!("\"{hash}\"")), "{hash} is not in fetch.rs");
    }
    assert_eq!(chart::yaml("Chart.yaml")["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart::yaml("Chart.yaml")["version"], env!("CARGO_PKG_VERSION"));
}
