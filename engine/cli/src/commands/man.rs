//! `holdfast man`: man pages of the program and of each command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;
use crate::printable::plain;

/// `holdfast man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder of the pages, which is created if it does not exist; pages in it are replaced
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Writes the pages.
///
/// # Errors
/// Returns an error if a page cannot be written.
pub fn run(args: &ManArgs) -> Result<ExitCode, Failure> {
    write(&args.folder).with_context(|| format!("cannot write man pages to {}", args.folder.display()))?;
    let first = args.folder.join("holdfast.1").display().to_string();
    output::print(&format!("man pages are written; read the first one with: man {}\n", plain(&first)))
}

fn write(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_all_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("share/man1");
        write(&pages).unwrap();
        let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
        let (cli, mut flags) = (Cli::command(), 0);
        for command in cli.get_subcommands() {
            let name = command.get_name();
            let text = page(&format!("holdfast-{name}.1"));
            for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(clap::Arg::get_long) {
                let written = format!("\\-\\-{}", flag.replace('-', "\\-"));
                assert!(text.contains(&written), "{name}: {written}\n{text}");
                flags += 1;
            }
            assert!(page("holdfast.1").contains(&name.replace('-', "\\-")), "{name}");
        }
        assert!(flags > 50 && page("holdfast-store-verify.1").contains("data\\-dir"), "{flags}");
        write(&pages).unwrap();
    }
}
