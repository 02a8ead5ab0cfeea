//! Where an Envoy is: the one that the product finds, or fetches, by itself.

use std::path::PathBuf;
use std::sync::OnceLock;

use holdfast_engine::run::envoy::find;

static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// The Envoy named by `ENVOY_BIN`, else the first on the `PATH`, else the pinned release, fetched once.
///
/// # Errors
/// Why there is none, and what can be done.
pub fn find() -> Result<PathBuf, String> {
    let look = || find::find().map(|found| found.path).map_err(|error| format!("{error:#}"));
    FOUND.get_or_init(look).clone()
}
