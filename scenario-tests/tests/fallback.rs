//! Stories of the fallback: see `stories/README.md`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    holdfast_scenario_tests::story::run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("stories"))
}
