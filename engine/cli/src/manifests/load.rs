//! Loading of a file: its bytes and their hash, with a limit of its size.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use super::files::{ManifestFile, STDIN, Signature};

/// Maximum size of a file that is read, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Checks whether a file still has the signature with which it was found.
pub(super) fn is_unchanged(found: &ManifestFile) -> bool {
    fs::metadata(&found.path).is_ok_and(|metadata| Signature::of(&metadata) == found.signature)
}

/// Reads a file.
pub(super) fn load(found: &ManifestFile) -> io::Result<(Vec<u8>, blake3::Hash)> {
    if found.is_stream {
        let bytes = match *found.path == *Path::new(STDIN) {
            true => read_stream(io::stdin().lock()),
            false => fs::File::open(&found.path).and_then(read_stream),
        }?;
        let hash = blake3::hash(&bytes);
        return Ok((bytes, hash));
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
    let hash = blake3::hash(&bytes);
    Ok((bytes, hash))
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
