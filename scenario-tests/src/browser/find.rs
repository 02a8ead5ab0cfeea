//! Where the browser and the rules of accessibility come from: the machine, else Debian's packages and npm.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use holdfast_cli::data;

use crate::runner::MissingTool;

/// The release of axe-core.
const AXE: &str = "4.10.3";
/// The file of its rules in the package.
const MEMBER: &str = "package/axe.min.js";

/// A browser with its WebDriver.
#[derive(Clone, Debug)]
pub struct BrowserTools {
    /// The browser.
    pub browser: PathBuf,
    /// The WebDriver.
    pub driver: PathBuf,
}

static FOUND: OnceLock<Result<BrowserTools, MissingTool>> = OnceLock::new();

/// Returns the Chromium and the chromedriver on the `PATH`. Under `CI=true` they are installed, as Debian's packages.
///
/// # Errors
/// If there is no browser; the error has the reason and the remedy. It is a failure under `CI=true` if the browser could
/// have been installed.
pub fn find() -> Result<BrowserTools, MissingTool> {
    FOUND.get_or_init(look).clone()
}

fn look() -> Result<BrowserTools, MissingTool> {
    if let Some(tools) = on_path() {
        return Ok(tools);
    }
    let absent = |why: &str| MissingTool {
        why: format!("{why}; install Debian's packages chromium and chromium-driver, or put both on the PATH"),
        fails_in_ci: false,
    };
    if env::var_os("CI").is_none_or(|ci| ci != "true") {
        return Err(absent("no chromium and chromedriver on the PATH"));
    }
    let apt = program("apt-get").ok_or_else(|| absent("no chromium, chromedriver and apt-get on the PATH"))?;
    install(&apt).map_err(|error| MissingTool {
        why: format!("the browser could not be installed: {error:#}"),
        fails_in_ci: true,
    })?;
    on_path().ok_or_else(|| absent("the packages have no chromium and chromedriver"))
}

fn on_path() -> Option<BrowserTools> {
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(program)?;
    Some(BrowserTools { browser, driver: program("chromedriver")? })
}

fn program(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn install(apt: &Path) -> Result<()> {
    for args in [&["update"][..], &["install", "--yes", "--no-install-recommends", "chromium", "chromium-driver"]] {
        let mut command = Command::new(apt);
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        run(command)?;
    }
    Ok(())
}

fn run(mut command: Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns the script of axe-core, which npm fetches once.
///
/// # Errors
/// If it cannot be fetched.
pub fn accessibility_rules() -> Result<String> {
    let cache = data::default_cache().context("neither XDG_CACHE_HOME nor HOME is set")?;
    let file = cache.join(format!("axe-core-{AXE}.js"));
    if let Ok(rules) = fs::read_to_string(&file) {
        return Ok(rules);
    }
    fs::create_dir_all(&cache)?;
    let folder = tempfile::tempdir_in(&cache)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", &format!("axe-core@{AXE}"), "--pack-destination"]);
    npm.arg(folder.path()).current_dir(folder.path()).stdin(Stdio::null());
    run(npm).context("axe-core could not be fetched")?;
    let package = File::open(folder.path().join(format!("axe-core-{AXE}.tgz")))?;
    let mut archive = tar::Archive::new(GzDecoder::new(package));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()?.as_ref() == Path::new(MEMBER) {
            let mut rules = String::new();
            entry.read_to_string(&mut rules)?;
            let draft = folder.path().join("axe.js");
            fs::write(&draft, &rules)?;
            fs::rename(&draft, &file)?;
            return Ok(rules);
        }
    }
    bail!("the package has no {MEMBER}")
}
