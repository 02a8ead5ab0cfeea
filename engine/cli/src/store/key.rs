//! Key with which Secrets are sealed in the store.

use std::io::Read;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use clap::Args;
use holdfast_store::Key;

use crate::failure::Failure;
use crate::headings;

/// Maximum number of bytes of a key file that are read; the longest form is 64 digits and a line break.
const KEY_FILE_BYTES_MAX: u64 = 1024;
const KEY_BYTES: usize = 32;

/// The flag of the key file.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreKeyArgs {
    /// File with the key that seals Secrets in the store: 32 bytes, raw, in base64 or in hexadecimal. Without it
    /// Secrets are never written to the disk
    #[arg(help_heading = headings::STORE)]
    #[arg(long, env = "CONTROLLER_STORE_KEY_FILE", value_name = "PATH")]
    pub store_key_file: Option<PathBuf>,
}

impl StoreKeyArgs {
    /// The key, if a file is named.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or contains no key. The error never contains its content.
    pub fn load(&self) -> Result<Option<Key>, Failure> {
        let Some(path) = &self.store_key_file else { return Ok(None) };
        let wrong = |why: String| Failure::usage(format!("--store-key-file {}: {why}", path.display()));
        let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
        let mut bytes = Vec::new();
        file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
        let key = parse(&bytes);
        key.map(Some).ok_or_else(|| wrong("expected 32 bytes, raw, in base64 or in hexadecimal".into()))
    }
}

fn parse(bytes: &[u8]) -> Option<Key> {
    let whole = |bytes: &[u8]| <[u8; KEY_BYTES]>::try_from(bytes).ok().map(Key::new);
    if let Some(key) = whole(bytes) {
        return Some(key);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    if text.len() == 2 * KEY_BYTES {
        return whole(&hexadecimal(text)?);
    }
    let decoded = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    whole(&decoded)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? * 16 + digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_in_three_forms() {
        let key = Some(Key::new(std::array::from_fn(|n| u8::try_from(n * 7).unwrap())));
        let raw: Vec<u8> = (0..32u8).map(|n| n * 7).collect();
        let hexadecimal: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(parse(&raw), key);
        assert_eq!(parse(format!("{hexadecimal}\n").as_bytes()), key);
        assert_eq!(parse(hexadecimal.to_uppercase().as_bytes()), key);
        assert_eq!(parse(format!("{}\n", STANDARD.encode(&raw)).as_bytes()), key);
        assert_eq!(parse(STANDARD_NO_PAD.encode(&raw).as_bytes()), key);
        for wrong in ["", "secret", &hexadecimal[1..], &format!("{}g", &hexadecimal[1..]), &STANDARD.encode([1; 31])] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_file_that_is_no_key_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let load = || StoreKeyArgs { store_key_file: Some(path.clone()) }.load();
        assert!(load().unwrap_err().to_string().contains("--store-key-file"));
        std::fs::write(&path, "hunter2").unwrap();
        let error = load().unwrap_err().to_string();
        assert!(error.contains("--store-key-file") && !error.contains("hunter2"), "{error}");
        assert_eq!(StoreKeyArgs::default().load().unwrap(), None);
    }
}
