//! The two encodings in which Envoy runs RE2: Latin-1 in most places, UTF-8 in CEL.

use std::borrow::Cow;

use super::unicode;

/// How RE2 reads the characters of pattern and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Encoding {
    /// A byte is a character, and case is ignored for ASCII letters only.
    Latin1,
    /// A character has one to four bytes.
    Utf8,
}

impl Encoding {
    /// Returns the largest character.
    pub(super) fn rune_max(self) -> u32 {
        match self {
            Self::Latin1 => 0xff,
            Self::Utf8 => 0x10_ffff,
        }
    }

    /// Returns the pattern with one `char` for each character that RE2 reads.
    pub(super) fn read(self, pattern: &str) -> Cow<'_, str> {
        match self {
            Self::Latin1 => pattern.bytes().map(char::from).collect::<String>().into(),
            Self::Utf8 => pattern.into(),
        }
    }

    /// Returns a part of a pattern as it was written.
    pub(super) fn written(self, part: &str) -> Cow<'_, str> {
        match self {
            Self::Latin1 => {
                let bytes: Vec<u8> = part.chars().filter_map(|character| u8::try_from(character).ok()).collect();
                String::from_utf8_lossy(&bytes).into_owned().into()
            }
            Self::Utf8 => part.into(),
        }
    }

    /// Returns all cases of a character, including itself; empty for a character without cases.
    pub(super) fn cases(self, rune: u32) -> &'static [u32] {
        let cases = unicode::cases(rune);
        match self {
            Self::Utf8 => cases,
            // The cases of an ASCII letter begin with those in ASCII.
            Self::Latin1 if rune < 0x80 => cases.get(..2).unwrap_or_default(),
            Self::Latin1 => &[],
        }
    }
}
