//! A copy of the store in the schema of the version before an upgrade, so that a rollback keeps the last valid versions.
//!
//! A version with a new schema copies the store beside it, as `store.schema-N`, before it writes. A version that finds
//! a newer store sets that store aside, and uses the copy in its own schema. The copy has the state at the upgrade:
//! objects that have changed since then have other UIDs, generations or contents, so it is no more trusted than the
//! store of a Holdfast that was stopped for that time.

use std::fs;
use std::path::{Path, PathBuf};

use super::envelope::{self, SCHEMA};
use super::error::{SledError, guarded};
use super::folder::{StoreFiles, bytes_on_disk, create_private, remove, room};
use super::keys;

/// Opens the files of a store to write in the current schema. If they are in an earlier schema, they are copied before.
pub(super) fn upgraded(folder: &Path, files: StoreFiles, notices: &mut Vec<String>) -> Result<StoreFiles, SledError> {
    let Some(earlier) = schema(files.tree()).filter(|schema| *schema < SCHEMA) else { return Ok(files) };
    // The files are at rest only while sled is closed.
    files.close();
    let copy = copy_of(folder, earlier);
    match keep(folder, &copy) {
        Ok(()) => notices.push(format!(
            "{}: it was written by an earlier version of Holdfast (schema {earlier}); a copy for a rollback to that \
             version is {}",
            folder.display(),
            copy.display()
        )),
        Err(error) => notices.push(format!(
            "{}: it was written by an earlier version of Holdfast (schema {earlier}), and cannot be copied to {} \
             ({}): after a rollback there would be no last valid versions",
            folder.display(),
            copy.display(),
            error.at(&copy)
        )),
    }
    StoreFiles::open(folder)
}

/// Moves the copy in the current schema to the place of the store, which must be free. Returns the former path of the
/// copy, or `None` if there is none.
pub(super) fn restore(folder: &Path) -> Result<Option<PathBuf>, SledError> {
    let copy = copy_of(folder, SCHEMA);
    if !copy.exists() {
        return Ok(None);
    }
    fs::rename(&copy, folder)?;
    Ok(Some(copy))
}

/// The earliest schema of the roots.
fn schema(tree: &::sled::Tree) -> Option<u16> {
    let get = |name: &[u8]| guarded(|| tree.get(name));
    keys::roots().iter().filter_map(|name| envelope::schema(name, &get)).min()
}

fn copy_of(folder: &Path, schema: u16) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(format!(".schema-{schema}"));
    name.into()
}

/// Copies the folder, and replaces an earlier copy when the new one is complete.
fn keep(folder: &Path, copy: &Path) -> Result<(), SledError> {
    let mut draft = copy.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    if draft.exists() {
        remove(&draft)?;
    }
    room(folder, bytes_on_disk(folder))?;
    copy_folder(folder, &draft)?;
    if copy.exists() {
        remove(copy)?;
    }
    Ok(fs::rename(&draft, copy)?)
}

/// Copies a folder with the permissions of its files.
fn copy_folder(from: &Path, to: &Path) -> Result<(), SledError> {
    create_private(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
