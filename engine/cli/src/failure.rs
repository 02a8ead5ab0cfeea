//! Failures of commands, with their exit codes.

use std::process::ExitCode;

use holdfast_kubernetes::client::ClientError;
use holdfast_kubernetes::listing::ListError;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The requested state cannot be determined.
    #[error("{0}")]
    Undetermined(String),
    /// The command failed while running.
    #[error("{0:#}")]
    Runtime(#[from] anyhow::Error),
}

impl Failure {
    /// An error in the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// The exit code: 2 for usage, 3 if the state cannot be determined, 1 otherwise.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Undetermined(_) => ExitCode::from(3),
            Self::Runtime(_) => ExitCode::from(1),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        Self::Undetermined(error.to_string())
    }
}
