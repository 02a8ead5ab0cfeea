//! Errors of sled and its files, grouped by the reaction to them.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::StoreError;

/// An error of sled or its files.
#[derive(Debug)]
pub(crate) enum SledError {
    /// The files differ from what was written, or sled panicked over them.
    Corrupt(String),
    /// Another process uses the files.
    InUse,
    /// There is no space left.
    Full(String),
    /// Any other error.
    Other(String),
}

impl From<io::Error> for SledError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::Full(error.to_string())
            }
            ErrorKind::WouldBlock => Self::InUse,
            _ if error.to_string().contains("could not acquire lock") => Self::InUse,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<::sled::Error> for SledError {
    fn from(error: ::sled::Error) -> Self {
        match error {
            ::sled::Error::Io(error) => error.into(),
            error @ ::sled::Error::Corruption { .. } => Self::Corrupt(error.to_string()),
            // sled also takes damage in the file of its settings for another version of itself.
            ::sled::Error::Unsupported(_) => Self::Corrupt("the settings of the store cannot be read".into()),
            error => Self::Other(error.to_string()),
        }
    }
}

impl SledError {
    /// Returns the error for callers.
    pub(super) fn at(self, folder: &std::path::Path) -> StoreError {
        let folder = folder.display();
        match self {
            Self::Full(why) => StoreError::Full(format!("{folder}: {why}")),
            Self::InUse => StoreError::InUse(folder.to_string()),
            Self::Corrupt(why) | Self::Other(why) => StoreError::Unavailable(format!("{folder}: {why}")),
        }
    }
}

/// Calls sled, which may panic over damaged files.
pub(super) fn guarded<T, E: Into<SledError>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, SledError> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason");
            Err(SledError::Corrupt(format!("sled panicked: {text}")))
        }
    }
}
