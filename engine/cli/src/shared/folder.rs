//! Bucket in a folder of files, for replicas on one host. The replica that holds a lock leads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use holdfast_store::shards::{BLOB_BYTES_MAX, Bucket, Expected, Put, Revision};
use holdfast_store::{Digest, StoreError};

const ENDING: &str = ".blob";
const WRITING: &str = ".lock";
const LEADING: &str = ".leader";

/// A bucket in a folder of files.
#[derive(Clone, Debug)]
pub struct FolderBucket {
    folder: PathBuf,
}

impl FolderBucket {
    /// Opens the bucket in a folder, which is created if it does not exist.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn open(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Takes the lead if no replica has it; this replica leads for as long as the file is open.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn lead(&self) -> io::Result<Option<File>> {
        let file = self.file(LEADING)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.folder.join(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{ENDING}"))
    }

    fn read(&self, name: &str) -> io::Result<Option<(Bytes, Revision)>> {
        let file = match File::open(self.path(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(BLOB_BYTES_MAX as u64).read_to_end(&mut bytes)?;
        let revision = format!("{:?}", Digest::of(&bytes)).into();
        Ok(Some((bytes.into(), revision)))
    }

    fn write(&self, name: &str, bytes: &[u8], expected: &Expected) -> io::Result<Put> {
        let lock = self.file(WRITING)?;
        lock.lock()?;
        let known = self.read(name)?.map(|(_, revision)| revision);
        let fits = match expected {
            Expected::Anything => true,
            Expected::Absent => known.is_none(),
            Expected::At(wanted) => known.as_ref() == Some(wanted),
        };
        if !fits {
            return Ok(Put::Conflict);
        }
        let aside = self.folder.join(format!("{name}.new"));
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, self.path(name))?;
        Ok(Put::Written(format!("{:?}", Digest::of(bytes)).into()))
    }

    fn unavailable(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("{}: {error}", self.folder.display()))
    }
}

impl Bucket for FolderBucket {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        let names = || {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.folder)? {
                let name = entry?.file_name();
                names.extend(name.to_str().and_then(|name| name.strip_suffix(ENDING)).map(str::to_owned));
            }
            Ok(names)
        };
        names().map_err(|error: io::Error| self.unavailable(&error))
    }

    fn get(&self, name: &str) -> Result<Option<(Bytes, Revision)>, StoreError> {
        self.read(name).map_err(|error| self.unavailable(&error))
    }

    fn put(&self, name: &str, bytes: Bytes, expected: &Expected) -> Result<Put, StoreError> {
        self.write(name, &bytes, expected).map_err(|error| self.unavailable(&error))
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.unavailable(&error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_not_expected_is_refused_and_one_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = [(); 2].map(|()| FolderBucket::open(&folder.path().join("shared")).unwrap()).into();
        let put = |bucket: &FolderBucket, text: &'static str, expected: &Expected| {
            bucket.put("manifest", Bytes::from_static(text.as_bytes()), expected).unwrap()
        };
        let Put::Written(first) = put(&one, "1", &Expected::Absent) else { unreachable!() };
        assert_eq!(put(&two, "2", &Expected::Absent), Put::Conflict);
        assert!(matches!(put(&two, "2", &Expected::At(first.clone())), Put::Written(_)));
        assert_eq!(put(&one, "3", &Expected::At(first)), Put::Conflict);
        assert_eq!(&*one.get("manifest").unwrap().unwrap().0, b"2");
        assert_eq!(two.list().unwrap(), ["manifest"]);
        two.delete("manifest").unwrap();
        two.delete("manifest").unwrap();
        assert!(one.get("manifest").unwrap().is_none());
        let held = one.lead().unwrap();
        assert!(held.is_some() && two.lead().unwrap().is_none());
        drop(held);
        assert!(two.lead().unwrap().is_some());
    }
}
