//! Stories in YAML: the real engine in this process, with simulated Envoys, a simulated probe and a store in memory.
//! `stories/README.md` describes the language.
//!
//! Nothing here listens, starts a process or reads a clock. After each step messages are exchanged until none is left;
//! a story in which that never happens fails.

pub mod answer;
mod datagrams;
pub mod dice;
pub mod envoy;
pub mod expect;
mod health;
mod honest;
pub mod invariants;
pub mod language;
pub mod never;
mod never_connections;
pub mod never_policies;
mod never_proxies;
mod never_rules;
pub mod oracle;
pub mod random;
pub mod replicas;
pub mod runner;
pub mod short;
pub mod short_policies;
mod short_proxies;
mod shrink;
pub mod stage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Runs the stories in a folder that the command line selects, and the random ones.
pub fn run(folder: &Path) -> ExitCode {
    let arguments = Arguments::from_args();
    let mut files = Vec::new();
    find(folder, &mut files);
    files.sort();
    let trial = |path: PathBuf| {
        let name = path.strip_prefix(folder).unwrap_or(&path).with_extension("");
        let name = name.display().to_string().replace('/', "::");
        Trial::test(name, move || runner::file(&path).map_err(|error| Failed::from(format!("{error:#}"))))
    };
    let mut trials: Vec<Trial> = files.into_iter().map(trial).collect();
    trials.extend(random::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}
