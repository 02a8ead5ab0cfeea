//! The archive of a binary: the program, its licence, completion scripts of shells, man pages, and its components.

use std::fs;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::{Shell, generate};
use holdfast_cli::cli::Cli;

use crate::files::Files;
use crate::source::Source;

const PROGRAM: &str = "holdfast";

/// Completion scripts, by the names with which shells find them.
const COMPLETIONS: [(Shell, &str); 3] =
    [(Shell::Bash, "holdfast.bash"), (Shell::Zsh, "_holdfast"), (Shell::Fish, "holdfast.fish")];

/// Returns the files of the archive, in one folder of this name.
pub(crate) fn files(source: &Source, folder: &str, program: &[u8], components: &[u8]) -> Result<Files> {
    let mut files = Files::default();
    files.add_program(&format!("{folder}/{PROGRAM}"), program);
    files.add(&format!("{folder}/LICENSE"), source.read("LICENSE")?);
    files.add(&format!("{folder}/{PROGRAM}.cdx.json"), components);
    for (shell, name) in COMPLETIONS {
        let mut script = Vec::new();
        generate(shell, &mut Cli::command(), PROGRAM, &mut script);
        files.add(&format!("{folder}/completion/{name}"), script);
    }
    let pages = tempfile::tempdir().context("cannot create a temporary folder")?;
    clap_mangen::generate_to(Cli::command(), pages.path()).context("cannot write man pages")?;
    for page in fs::read_dir(pages.path())? {
        let page = page?;
        files.add(&format!("{folder}/man/{}", page.file_name().to_string_lossy()), fs::read(page.path())?);
    }
    Ok(files)
}
