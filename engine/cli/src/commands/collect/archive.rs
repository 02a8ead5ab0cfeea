//! The archive: files in memory, written at once as a compressed tar file.

use std::fs::File;
use std::io;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, Header};

/// The folder of the files in the archive.
const FOLDER: &str = "holdfast-collect";

/// The files of an archive.
#[derive(Debug, Default)]
pub(super) struct Archive {
    files: Vec<(String, String)>,
    missing: Vec<(String, String)>,
}

impl Archive {
    /// Adds a file.
    pub(super) fn add(&mut self, name: &str, content: &str) {
        self.files.push((name.to_owned(), content.to_owned()));
    }

    /// Records a file that could not be collected, with the reason.
    pub(super) fn missing(&mut self, name: &str, why: &str) {
        self.missing.push((name.to_owned(), why.to_owned()));
    }

    pub(super) fn not_collected(&self) -> impl Iterator<Item = (&str, &str)> {
        self.missing.iter().map(|(name, why)| (&**name, &**why))
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Writes the archive to a new file, which only its owner can read.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).create_new(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut tar = Builder::new(GzEncoder::new(options.open(path)?, Compression::default()));
        let missing: String = self.missing.iter().map(|(name, why)| format!("{name}: {why}\n")).collect();
        let missing = ("not-collected.txt".to_owned(), missing);
        for (name, content) in self.files.iter().chain((!self.missing.is_empty()).then_some(&missing)) {
            let mut header = Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            tar.append_data(&mut header, format!("{FOLDER}/{name}"), content.as_bytes())?;
        }
        tar.into_inner()?.finish()?.sync_all()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn files_are_read_back_and_nothing_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar.gz");
        let mut archive = Archive::default();
        archive.add("health.json", "{}\n");
        archive.missing("metrics.txt", "refused");
        archive.write(&path).unwrap();
        let mut read = tar::Archive::new(GzDecoder::new(File::open(&path).unwrap()));
        let files = read.entries().unwrap().map(|entry| {
            let (mut entry, mut text) = (entry.unwrap(), String::new());
            entry.read_to_string(&mut text).unwrap();
            (entry.path().unwrap().display().to_string(), text)
        });
        let expected = [
            ("holdfast-collect/health.json".to_owned(), "{}\n".to_owned()),
            ("holdfast-collect/not-collected.txt".to_owned(), "metrics.txt: refused\n".to_owned()),
        ];
        assert_eq!(files.collect::<Vec<_>>(), expected);
        assert_eq!(archive.write(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
