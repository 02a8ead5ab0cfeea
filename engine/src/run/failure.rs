//! How a command ends.

use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// What it was asked cannot be found out.
    #[error("{0}")]
    CannotTell(String),
    /// It failed while running.
    #[error("{0:#}")]
    Runtime(#[from] anyhow::Error),
}

impl Failure {
    /// What is wrong with the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// The exit code: 2 for usage, 3 where nothing can be found out, 1 for the rest.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::CannotTell(_) => ExitCode::from(3),
            Self::Runtime(_) => ExitCode::from(1),
        }
    }
}
