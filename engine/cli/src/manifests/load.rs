//! Loading of files: bytes and their hash, with a limit of the size; many files at once on all cores.

use std::fs;
use std::io::{self, Read as _};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::entry::{KeptOfManifest, ManifestContents, contents};
use super::files::{ManifestFile, STDIN, Signature};

/// Maximum size of a file that is read, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The content of a file.
#[derive(Debug)]
pub(super) struct LoadedFile {
    pub(super) hash: blake3::Hash,
    content: LoadedContent,
}

#[derive(Debug)]
enum LoadedContent {
    Bytes(Vec<u8>),
    Decoded(ManifestContents),
}

impl LoadedFile {
    fn new(bytes: Vec<u8>) -> Self {
        Self { hash: blake3::hash(&bytes), content: LoadedContent::Bytes(bytes) }
    }

    /// Returns the objects of the file.
    pub(super) fn contents(self, name: &Arc<str>, kept: KeptOfManifest) -> ManifestContents {
        match self.content {
            LoadedContent::Bytes(bytes) => contents(name, &bytes, kept),
            LoadedContent::Decoded(contents) => contents,
        }
    }

    fn decoded(self, name: &Arc<str>, kept: KeptOfManifest) -> Self {
        let hash = self.hash;
        Self { hash, content: LoadedContent::Decoded(self.contents(name, kept)) }
    }
}

/// Loads and decodes all files, on all cores; the results are in the order of the files. Streams are not loaded, since
/// they can be read only once, one after the other.
pub(super) fn load_all(files: &[ManifestFile], kept: KeptOfManifest) -> Vec<Option<io::Result<LoadedFile>>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut loaded = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(index) else { return loaded };
            if !file.is_stream {
                loaded.push((index, load(file).map(|found| found.decoded(&file.name, kept))));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(files.len());
    let mut all: Vec<_> = files.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut note = |loaded: Vec<(usize, io::Result<LoadedFile>)>| {
            for (index, file) in loaded {
                all[index] = Some(file);
            }
        };
        note(work());
        // A file that a thread did not deliver is loaded later.
        others.into_iter().filter_map(|other| other.join().ok()).for_each(note);
    });
    all
}

/// Checks whether a file still has the signature with which it was found.
pub(super) fn is_unchanged(found: &ManifestFile) -> bool {
    fs::metadata(&found.path).is_ok_and(|metadata| Signature::of(&metadata) == found.signature)
}

/// Reads a file.
pub(super) fn load(found: &ManifestFile) -> io::Result<LoadedFile> {
    if found.is_stream {
        let bytes = match *found.path == *Path::new(STDIN) {
            true => read_stream(io::stdin().lock()),
            false => fs::File::open(&found.path).and_then(read_stream),
        }?;
        return Ok(LoadedFile::new(bytes));
    }
    if found.signature.bytes > MANIFEST_BYTES_MAX {
        let message =
            format!("{} bytes exceed the limit of {MANIFEST_BYTES_MAX}; split the file", found.signature.bytes);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut file = open(&found.path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(LoadedFile::new(bytes))
}

/// Reads a stream to its end; its size is not known before.
fn read_stream(stream: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        let message = format!("more bytes than the limit of {MANIFEST_BYTES_MAX}; split the input");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Opens a file without blocking, since it may have become a pipe after it was found.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<fs::File> {
    fs::File::open(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::files::{Readings, Root, find};
    use super::*;

    /// Threads end in any order; each result is at the place of its file. A stream is left for later.
    #[test]
    fn files_are_loaded_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            let kind = if number % 2 == 0 { "Service" } else { "Secret" };
            let text = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: n{number}}}\n");
            fs::write(folder.path().join(format!("{number:02}.yaml")), text).unwrap();
        }
        fs::write(folder.path().join("60.yaml"), [0xff]).unwrap();
        let mut files = find(&[Root { path: folder.path().into() }], Readings::Repeated).files;
        fs::remove_file(folder.path().join("07.yaml")).unwrap();
        files[9].is_stream = true;
        let loaded = load_all(&files, KeptOfManifest::Objects);
        assert_eq!(loaded.len(), files.len());
        for (index, (found, file)) in loaded.into_iter().zip(&files).enumerate() {
            match (index, found) {
                (7, Some(Err(error))) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
                (9, found) => assert!(found.is_none()),
                (_, found) => {
                    let (found, alone) = (found.unwrap().unwrap(), load(file).unwrap());
                    assert_eq!(found.hash, alone.hash);
                    let contents = |loaded: LoadedFile| loaded.contents(&file.name, KeptOfManifest::Objects);
                    let (found, alone) = (contents(found), contents(alone));
                    assert_eq!((&found.entries, &found.problems), (&alone.entries, &alone.problems));
                    assert_eq!(found.entries.len() + found.problems.len(), 1);
                }
            }
        }
    }
}
