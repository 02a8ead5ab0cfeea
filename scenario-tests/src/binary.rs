//! Path of the `holdfast` binary. The binary belongs to another package, so cargo does not build it for these tests.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Returns the binary named by `HOLDFAST_BIN`, else the one of this build, which is brought up to date once per run.
pub fn holdfast() -> Result<PathBuf> {
    BINARY.get_or_init(|| find().map_err(|error| format!("{error:#}"))).clone().map_err(|error| anyhow!(error))
}

fn find() -> Result<PathBuf> {
    if let Some(named) = env::var_os("HOLDFAST_BIN") {
        return Ok(PathBuf::from(named));
    }
    let profile = profile_folder()?;
    build(&profile)?;
    let binary = profile.join("holdfast").with_extension(env::consts::EXE_EXTENSION);
    if !binary.is_file() {
        bail!("{} is not there after cargo has built it; set HOLDFAST_BIN", binary.display());
    }
    Ok(binary)
}

/// Returns the program of this package that adds [mistakes](crate::mistakes) to what an Envoy receives; cargo builds it
/// with the stories.
pub fn envoy_with_mistakes() -> Result<PathBuf> {
    Ok(profile_folder()?.join("envoy-with-mistakes").with_extension(env::consts::EXE_EXTENSION))
}

/// Returns the profile folder: a test binary is `<target>/<profile>/deps/<name>-<hash>`, another program
/// `<target>/<profile>/<name>`.
fn profile_folder() -> Result<PathBuf> {
    let own = env::current_exe()?;
    let folder = own.parent();
    let profile =
        if folder.is_some_and(|folder| folder.ends_with("deps")) { folder.and_then(Path::parent) } else { folder };
    Ok(profile.context("this binary is not in cargo's target folder")?.to_owned())
}

/// Builds the binary. With this package cargo selects the features of dependencies that the stories are built with, so
/// that only the binary is left to build.
fn build(profile: &Path) -> Result<()> {
    let target = profile.parent().context("this binary is not in cargo's target folder")?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--bins", "-p", "holdfast-cli"]);
    command.args(["-p", env!("CARGO_PKG_NAME"), "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    // Build scripts depend on some variables that cargo sets for tests of this package; with them, they would run
    // again.
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_this_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo cannot build holdfast:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn is_of_this_package(variable: &str) -> bool {
    let beginnings =
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "CARGO_TARGET_TMPDIR"];
    variable == "CARGO" || variable == "OUT_DIR" || beginnings.iter().any(|beginning| variable.starts_with(beginning))
}
