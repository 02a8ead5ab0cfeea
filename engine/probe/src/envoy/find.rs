//! Search for an Envoy binary: `ENVOY_BIN`, else the `PATH`, else the pinned release.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::fetch;

/// The variable that names a binary.
pub const ENVOY_BIN: &str = "ENVOY_BIN";

/// An Envoy binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyBinary {
    /// The path.
    pub path: PathBuf,
    /// The version, as in `1.40.0`.
    pub version: String,
}

/// Finds an Envoy, or downloads the pinned release if there is none, which may take minutes.
///
/// # Errors
/// Returns an error if no Envoy is available; the message describes the remedies.
pub fn find() -> Result<EnvoyBinary> {
    if let Some(named) = env::var_os(ENVOY_BIN).filter(|named| !named.is_empty()) {
        let path = PathBuf::from(&named);
        return check(&path).with_context(|| format!("{ENVOY_BIN}={}", path.display()));
    }
    if let Some(path) = env::var_os("PATH").and_then(|folders| on_path(&folders)) {
        return check(&path);
    }
    let fetched = fetch::pinned().and_then(|path| check(&path));
    fetched.with_context(|| {
        format!(
            "there is no Envoy: {ENVOY_BIN} is not set, none is on the PATH, and release {} cannot be downloaded; set \
             {ENVOY_BIN} to the path of an Envoy ({} or later), or set --envoy none",
            fetch::VERSION,
            super::OLDEST
        )
    })
}

/// Finds an installed Envoy; downloads nothing.
pub fn find_installed() -> Option<EnvoyBinary> {
    let named = env::var_os(ENVOY_BIN).filter(|named| !named.is_empty()).map(PathBuf::from);
    let path = named.or_else(|| env::var_os("PATH").and_then(|folders| on_path(&folders)))?;
    check(&path).ok()
}

fn on_path(folders: &OsStr) -> Option<PathBuf> {
    env::split_paths(folders).map(|folder| folder.join("envoy")).find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Checks that a binary is an Envoy, and reads its version.
fn check(path: &Path) -> Result<EnvoyBinary> {
    let output = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match version(&text) {
        Some(version) => Ok(EnvoyBinary { path: path.to_owned(), version: version.to_owned() }),
        None => bail!("{} is not an Envoy: its --version prints something else", path.display()),
    }
}

/// `1.40.0` of `envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn version(text: &str) -> Option<&str> {
    let version = text.split_once("version: ")?.1.split('/').nth(1)?;
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_version_is_read_from_the_output_of_envoy() {
        assert_eq!(version("\n/x/envoy  version: 9e5580/1.40.0/Clean/RELEASE/BoringSSL\n"), Some("1.40.0"));
        assert_eq!(version("GNU coreutils version 9"), None);
        assert_eq!(version(""), None);
    }
}
