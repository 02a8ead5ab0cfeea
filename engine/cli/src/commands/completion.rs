//! `holdfast completion`: the script that completes command lines in a shell.

use std::process::ExitCode;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

/// The name under which the program is called.
const PROGRAM: &str = "holdfast";

/// `holdfast completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: CompletionShell,
}

/// A shell for which there is a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionShell {
    /// For bash 4.4 and later
    Bash,
    /// For zsh
    Zsh,
    /// For fish
    Fish,
}

/// Prints the script.
///
/// # Errors
/// Returns an error if the script cannot be printed.
pub fn run(args: &CompletionArgs) -> Result<ExitCode, Failure> {
    output::print(&String::from_utf8_lossy(&script(args.shell)))
}

fn script(shell: CompletionShell) -> Vec<u8> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    script
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::process::{Command, Output};

    use super::*;

    /// The output of a shell; `None`, with a line about it, if it is not installed. CI has bash.
    fn output(shell: &str, arguments: &[&str]) -> Option<Output> {
        match Command::new(shell).args(arguments).output() {
            Ok(output) => Some(output),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                assert!(shell != "bash" || std::env::var_os("CI").is_none(), "bash is missing");
                eprintln!("SKIPPED: there is no {shell} to read the script for {shell}");
                None
            }
            Err(error) => panic!("{shell}: {error}"),
        }
    }

    #[test]
    fn the_shells_accept_their_scripts() {
        let folder = tempfile::tempdir().unwrap();
        for (shell, flag, of) in [
            ("bash", "-n", CompletionShell::Bash),
            ("zsh", "-n", CompletionShell::Zsh),
            ("fish", "--no-execute", CompletionShell::Fish),
        ] {
            let file = folder.path().join(shell);
            fs::write(&file, script(of)).unwrap();
            let Some(output) = output(shell, &[flag, file.to_str().unwrap()]) else { continue };
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
        }
    }

    #[test]
    fn bash_completes_commands_flags_and_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        fs::write(&file, script(CompletionShell::Bash)).unwrap();
        for (line, expected) in [
            ("holdfast che", "check"),
            ("holdfast run --manif", "--manifests"),
            ("holdfast check --output sa", "sarif"),
            ("holdfast store ver", "verify"),
            ("holdfast completion z", "zsh"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let [.., before, last] = words.as_slice() else { panic!("{line}") };
            let complete = format!(
                "source {}; COMP_WORDS=({line}); COMP_CWORD={}; _holdfast holdfast {last} {before}; echo \"${{COMPREPLY[@]}}\"",
                file.display(),
                words.len() - 1
            );
            let Some(output) = output("bash", &["-c", &complete]) else { return };
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{line}: {output:?}");
        }
    }
}
