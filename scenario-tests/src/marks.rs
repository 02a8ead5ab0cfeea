//! Secret texts that must not appear anywhere, neither as they are nor in base64.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Minimum length in bytes: shorter texts match by chance.
const BYTES_MIN: usize = 16;

/// Secret texts that must not appear anywhere.
#[derive(Clone, Debug)]
pub struct SecretTexts(Vec<String>);

impl SecretTexts {
    /// Returns the marks of these texts: as they are, and in base64 at each of the three alignments.
    pub fn new(texts: &[&str]) -> Self {
        let encoded = texts.iter().flat_map(|text| {
            (0..3).filter_map(|skipped| {
                let rest = text.as_bytes().get(skipped..)?;
                let whole = rest.get(..rest.len() / 3 * 3)?;
                Some(STANDARD_NO_PAD.encode(whole))
            })
        });
        let all = texts.iter().map(|text| (*text).to_owned()).chain(encoded);
        Self(all.filter(|mark| mark.len() >= BYTES_MIN).collect())
    }

    /// Checks a text.
    ///
    /// # Errors
    /// If the text contains a mark.
    pub fn are_not_in(&self, what: &str, text: &str) -> Result<()> {
        let found = self.0.iter().find(|mark| text.contains(mark.as_str()));
        ensure!(found.is_none(), "{what} holds the secret {found:?}");
        Ok(())
    }

    /// Checks all files below a folder, and returns their number.
    ///
    /// # Errors
    /// If a file contains a mark, or cannot be read.
    pub fn are_in_no_file(&self, folder: &Path) -> Result<usize> {
        let mut files = 0;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                files += self.are_in_no_file(&path)?;
            } else if path.is_file() {
                let bytes = fs::read(&path)?;
                self.are_not_in(&path.display().to_string(), &String::from_utf8_lossy(&bytes))?;
                files += 1;
            }
        }
        Ok(files)
    }
}
