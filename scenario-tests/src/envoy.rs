//! Where an Envoy is.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();

/// The Envoy named by `ENVOY_BIN`, else the first `envoy` on the `PATH`.
pub fn find() -> Option<PathBuf> {
    FOUND.get_or_init(|| named().or_else(on_path)).clone()
}

fn named() -> Option<PathBuf> {
    env::var_os("ENVOY_BIN").map(PathBuf::from).filter(|path| path.is_file())
}

fn on_path() -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join("envoy")).find(|path| path.is_file())
}
