//! The artefacts of a release, for stories: those of `HOLDFAST_DIST`, a folder that `cargo dist` has made with static
//! binaries as users get them, else made here with the debug binary of the stories and the C library of this machine, so
//! that no release is built.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use holdfast_dist::{DistArgs, Platform};

use crate::binary;
use crate::world::World;

/// Returns the folder of the artefacts; those that are made here have an image with this Envoy.
///
/// # Errors
/// Returns an error if they cannot be made on this machine.
pub async fn artefacts(world: &World, envoy: Option<&Path>) -> Result<PathBuf> {
    if let Some(made) = env::var_os("HOLDFAST_DIST") {
        return Ok(fs::canonicalize(made)?);
    }
    let platform = Platform::of_this_machine().context("there are no images for this machine")?.name();
    let (out, holdfast) = (world.folder().join("dist"), without_symbols(world, binary::holdfast()?));
    let mut line: Vec<String> =
        ["dist", "--dynamic", "--source-date-epoch", "1700000000", "--target", platform].map(String::from).into();
    let mut add = |flag: &str, value: String| line.extend([flag.to_owned(), value]);
    add("--binary", format!("{platform}={}", holdfast.display()));
    add("--libraries", format!("{platform}=/"));
    add("--download-url", "https://downloads.example.com/holdfast".into());
    add("--repository", "registry.example.com/team".into());
    add("--out", out.display().to_string());
    if let Some(envoy) = envoy {
        add("--envoy", format!("{platform}={}", envoy.display()));
    }
    let args = DistArgs::try_parse_from(line)?;
    let made = tokio::task::spawn_blocking(move || holdfast_dist::run(&args)).await??;
    ensure!(envoy.is_none() || made.notes.is_empty(), "{:?}", made.notes);
    Ok(out)
}

/// Returns a copy of the program without symbols, which are most of a debug binary, or the program if there is no `strip`.
fn without_symbols(world: &World, program: PathBuf) -> PathBuf {
    let copy = world.folder().join("holdfast");
    let status = Command::new("strip").arg("-o").arg(&copy).arg(&program).status();
    if status.is_ok_and(|status| status.success()) { copy } else { program }
}
