//! Path of the Envoy binary, found or fetched as by the product.

use std::path::PathBuf;
use std::sync::OnceLock;

use holdfast_probe::envoy::find;

static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Returns the Envoy named by `ENVOY_BIN`, else the first on the `PATH`, else the pinned release, which is fetched
/// once.
///
/// # Errors
/// If no Envoy is available; the message has the reason and the remedy.
pub fn find() -> Result<PathBuf, String> {
    let look = || find::find().map(|found| found.path).map_err(|error| format!("{error:#}"));
    FOUND.get_or_init(look).clone()
}
