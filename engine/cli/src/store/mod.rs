//! Last valid store in the program: its key, the thread that writes it, and a copy of it that can be read meanwhile.
//!
//! The decisions about what is stored, and how it is used, are made elsewhere.

pub mod copy;
pub mod key;
pub mod not_opened;
pub mod past;
pub mod persist;

use std::path::Path;
use std::sync::Arc;

use super::failure::Failure;

/// The folder of the store in the data folder.
pub const FOLDER: &str = "store";

/// The failure of a command about a store that does not exist.
pub(crate) fn absent(flag: &str, folder: &Path) -> Failure {
    Failure::usage(format!("{flag}: there is no store at {}", folder.display()))
}

/// The identity of stores in folders, which distinguishes them from foreign stores.
pub fn identity() -> Arc<str> {
    format!("standalone {}", holdfast_api::settings::CONTROLLER_NAME).into()
}
