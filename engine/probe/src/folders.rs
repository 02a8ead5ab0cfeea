//! Folders of this user: below the home folder, and without access by others.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// `$XDG_CACHE_HOME/holdfast`, else `~/.cache/holdfast`.
pub fn default_cache() -> Option<PathBuf> {
    below_home("XDG_CACHE_HOME", ".cache")
}

/// The folder `holdfast` in the folder that a variable names, else in a folder below `$HOME`; `None` if neither variable
/// is set.
pub fn below_home(variable: &str, otherwise: &str) -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set(variable).or_else(|| set("HOME").map(|home| home.join(otherwise)))?;
    Some(base.join("holdfast"))
}

/// Creates a folder that only this user can read, with the folders above it.
///
/// # Errors
/// Returns an error if the file system does not allow it.
pub fn create_private(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
