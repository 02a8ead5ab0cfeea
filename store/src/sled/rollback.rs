//! A copy of the store in the schema of the version before an upgrade, so that a rollback keeps the last valid versions.
//!
//! A version with a new schema copies the store beside it, as `store.schema-N`, before it writes. A version that finds
//! a newer store sets that store aside, and uses the copy in its own schema. The copy has the state at the upgrade:
//! objects that have changed since then have other UIDs, generations or contents, so it is no more trusted than the
//! store of a Holdfast that was stopped for that time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::envelope::{self, SCHEMA};
use super::error::{SledError, guarded};
use super::folder::{StoreFiles, beside, bytes_on_disk, create_private, remove, room, sync_parent};
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

/// Marks the copy in the current schema as the next store, before the newer store is set aside. If the process ends
/// between these steps, the next start finishes them. Returns whether there is a copy.
pub(super) fn prepare(folder: &Path) -> Result<bool, SledError> {
    let (copy, next) = (copy_of(folder, SCHEMA), next(folder));
    if next.exists() {
        return Ok(true);
    }
    if !copy.exists() {
        return Ok(false);
    }
    fs::rename(&copy, &next)?;
    sync_parent(folder)?;
    Ok(true)
}

/// Moves a copy that is marked as the next store to the place of the store, if that is free.
pub(super) fn restore(folder: &Path, notices: &mut Vec<String>) -> Result<(), SledError> {
    let next = next(folder);
    if folder.exists() || !next.exists() {
        return Ok(());
    }
    fs::rename(&next, folder)?;
    sync_parent(folder)?;
    notices.push(format!("{}: the copy that the upgrade to a newer version has left is used again", folder.display()));
    Ok(())
}

/// The copy that is the next store.
fn next(folder: &Path) -> PathBuf {
    beside(folder, "next")
}

/// The earliest schema of the roots.
fn schema(tree: &::sled::Tree) -> Option<u16> {
    let get = |name: &[u8]| guarded(|| tree.get(name));
    keys::roots().iter().filter_map(|name| envelope::schema(name, &get)).min()
}

fn copy_of(folder: &Path, schema: u16) -> PathBuf {
    beside(folder, &format!("schema-{schema}"))
}

/// Copies the folder, and replaces an earlier copy when the new one is complete.
fn keep(folder: &Path, copy: &Path) -> Result<(), SledError> {
    let draft = beside(copy, "part");
    if draft.exists() {
        remove(&draft)?;
    }
    room(folder, bytes_on_disk(folder))?;
    copy_folder(folder, &draft)?;
    if copy.exists() {
        remove(copy)?;
    }
    fs::rename(&draft, copy)?;
    sync_parent(folder)
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
            fs::copy(entry.path(), &to)?;
            File::open(&to)?.sync_all()?;
        }
    }
    Ok(File::open(to)?.sync_all()?)
}
