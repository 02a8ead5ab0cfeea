//! What is measured, and where: the program, the commit of these sources, the machine.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use holdfast_scenario_tests::binary;

use crate::report::Machine;

/// Returns the path and the version of the measured program, which is built first where that is needed.
pub(crate) fn program() -> Result<String> {
    let path = binary::holdfast()?;
    let output = Command::new(&path).arg("--version").output().with_context(|| format!("run {}", path.display()))?;
    Ok(format!("{} {}", path.display(), String::from_utf8_lossy(&output.stdout).trim()))
}

/// Returns the commit of these sources, if git knows it.
pub(crate) fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changed| !changed.is_empty());
    Some(if changes { format!("{commit} with changes") } else { commit })
}

/// Returns the machine of this process.
pub(crate) fn machine() -> Result<Machine> {
    let cpus = std::thread::available_parallelism()?.get();
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Ok(Machine { cpus, model: model(&text).unwrap_or("of an unknown model").to_owned() })
}

fn model(text: &str) -> Option<&str> {
    text.lines().find_map(|line| Some(line.strip_prefix("model name")?.trim_start().strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_processor_is_found() {
        assert_eq!(
            model("processor\t: 0\nmodel\t\t: 207\nmodel name\t: A Processor @ 2 GHz\n"),
            Some("A Processor @ 2 GHz")
        );
        assert_eq!(model("processor\t: 0\n"), None);
    }
}
