//! `holdfast version`: the version, the commit and the compiler of the binary, and the Envoys that it serves.

use std::process::ExitCode;

use holdfast_probe::envoy;

use crate::failure::Failure;
use crate::output;

/// The commit, set when artefacts are made.
const COMMIT: Option<&str> = option_env!("HOLDFAST_COMMIT");
/// The compiler, set when artefacts are made.
const RUSTC: Option<&str> = option_env!("HOLDFAST_RUSTC");

/// Prints the version.
///
/// # Errors
/// Returns an error if it cannot be printed.
pub fn run() -> Result<ExitCode, Failure> {
    output::print(&text(COMMIT, RUSTC))
}

fn text(commit: Option<&str>, rustc: Option<&str>) -> String {
    let unknown = "not recorded, because this binary was not built by `cargo dist`";
    format!(
        "holdfast {}\ncommit: {}\nbuilt with: {}\nEnvoy: {} and later, tested with {}\n",
        env!("CARGO_PKG_VERSION"),
        commit.unwrap_or(unknown),
        rustc.unwrap_or(unknown),
        envoy::OLDEST,
        envoy::RELEASE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_version_alone() {
        let first = concat!("holdfast ", env!("CARGO_PKG_VERSION"));
        let of_release = text(Some("0123abc"), Some("rustc 1.95.0"));
        assert_eq!(of_release.lines().next(), Some(first));
        assert!(of_release.contains("\ncommit: 0123abc\nbuilt with: rustc 1.95.0\n"), "{of_release}");
        assert!(text(None, None).contains("\ncommit: not recorded"));
    }
}
