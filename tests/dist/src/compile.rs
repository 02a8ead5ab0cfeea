//! Static binaries of the program, built by cargo.
//!
//! Paths of this machine are replaced in them, and the linker is the one of the toolchain, so that two checkouts on two
//! machines with the same toolchain and C compiler result in the same bytes. The C compiler is needed for the C sources
//! of two dependencies.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::platform::Platform;
use crate::source::Source;

/// What replaces the top folder of the repository in binaries.
const REPOSITORY: &str = "/holdfast";
/// What replaces cargo's folder of dependencies in binaries.
const DEPENDENCIES: &str = "/cargo";

/// Builds the program for a platform and returns its path.
pub(crate) fn build(source: &Source, platform: Platform) -> Result<PathBuf> {
    let triple = platform.triple();
    eprintln!("building holdfast for {triple}");
    let root = source.root.canonicalize().context("cannot find the repository")?;
    let dependencies = cargo_home().context("neither CARGO_HOME nor HOME is set")?;
    let variable = triple.replace('-', "_");
    let mut command = Command::new(cargo());
    command.args(["build", "--release", "--locked", "--bin", "holdfast", "--target", &triple]);
    command.arg("--message-format=json-render-diagnostics");
    let compiler = format!("CC_{variable}");
    if env::var_os(&compiler).is_none() {
        command.env(&compiler, c_compiler(platform)?);
    }
    let maps = [(dependencies.as_path(), DEPENDENCIES), (root.as_path(), REPOSITORY)];
    let of_c = maps.map(|(path, name)| format!("-ffile-prefix-map={}={name}", path.display()));
    command.env(format!("CFLAGS_{variable}"), of_c.join(" "));
    let of_rust = maps.map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display()));
    let flags = ["-Clinker=rust-lld".to_owned()].into_iter().chain(of_rust).collect::<Vec<_>>();
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")).env("CARGO_INCREMENTAL", "0");
    command.env("SOURCE_DATE_EPOCH", source.epoch.to_string());
    command.env("HOLDFAST_RUSTC", rustc_version(&source.root)?);
    if let Some(commit) = &source.commit {
        command.env("HOLDFAST_COMMIT", commit);
    }
    let child = command.current_dir(&source.root).stdin(Stdio::null()).stdout(Stdio::piped());
    let output = child.spawn().and_then(|child| child.wait_with_output()).context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo cannot build holdfast for {triple}; is its standard library installed (rustup target add {triple})?"
    );
    executable(&output.stdout).with_context(|| format!("cargo reports no binary of holdfast for {triple}"))
}

/// Returns the path of the program in cargo's messages.
fn executable(messages: &[u8]) -> Option<PathBuf> {
    let messages = String::from_utf8_lossy(messages);
    let mut paths = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    paths.next_back()
}

/// Returns the first C compiler for a platform on the `PATH`.
fn c_compiler(platform: Platform) -> Result<&'static str> {
    let (known, package) = match platform {
        Platform::Amd64 => (
            ["x86_64-linux-gnu-gcc", "x86_64-linux-musl-gcc", "clang"],
            "gcc-x86-64-linux-gnu with libc6-dev-amd64-cross",
        ),
        Platform::Arm64 => (
            ["aarch64-linux-gnu-gcc", "aarch64-linux-musl-gcc", "clang"],
            "gcc-aarch64-linux-gnu with libc6-dev-arm64-cross",
        ),
    };
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| env::split_paths(&folders).any(|folder: PathBuf| folder.join(name).is_file());
    known.into_iter().find(is_there).with_context(|| {
        format!(
            "there is no C compiler for {}: none of {} is on the PATH; install Debian's package {package}, or set \
             CC_{} to a compiler",
            platform.name(),
            known.join(", "),
            platform.triple().replace('-', "_")
        )
    })
}

/// Returns the cargo that runs this program, else the one on the `PATH`.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns the version of the compiler that the repository selects.
pub(crate) fn rustc_version(root: &Path) -> Result<String> {
    let output = Command::new("rustc").arg("--version").current_dir(root).output().context("cannot run rustc")?;
    ensure!(output.status.success(), "rustc --version fails: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn cargo_home() -> Option<PathBuf> {
    let named = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    Some(home.canonicalize().unwrap_or(home))
}
