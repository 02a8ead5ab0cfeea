//! PEM parser with the behaviour of BoringSSL (RFC 7468, with the quirks that decide whether Envoy accepts a Secret).
//!
//! A block must start at the start of a line; text outside of blocks is ignored; spaces inside the base64 text are
//! valid, but an empty line is not (it ends the header of an old-style encrypted block). Every block must be complete,
//! including blocks of other types.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Error of a PEM text. It never contains text of a block: that text may be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PemFault {
    /// A block without its end line.
    #[error("the block that starts on line {line} has no matching END line")]
    NoEnd {
        /// Line number of the BEGIN line, from 1.
        line: usize,
    },
    /// A block with a character that is not base64, or with an incomplete group.
    #[error("the block that starts on line {line} is not valid base64")]
    Base64 {
        /// Line number of the BEGIN line, from 1.
        line: usize,
    },
    /// A block with an empty line inside.
    #[error("the block that starts on line {line} has an empty line or header lines inside; remove them")]
    BlankLine {
        /// Line number of the BEGIN line, from 1.
        line: usize,
    },
}

/// A block.
pub(super) struct Section<'a> {
    /// Label: the text between `-----BEGIN ` and `-----`.
    pub(super) label: &'a str,
    /// Decoded content; empty where `encrypted`.
    pub(super) content: Vec<u8>,
    /// Whether an old-style header marks the content as encrypted.
    pub(super) encrypted: bool,
    /// Line number of the BEGIN line, from 1.
    pub(super) line: usize,
}

/// Returns the blocks of a text in order; the iteration ends after an error.
pub(super) fn sections(text: &[u8]) -> impl Iterator<Item = Result<Section<'_>, PemFault>> {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).enumerate();
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let (index, label) = lines.by_ref().find_map(|(index, line)| Some((index, marker(line, b"-----BEGIN ")?)))?;
        let section = section(label, index + 1, lines.by_ref().map(|(_, line)| line));
        failed = section.is_err();
        Some(section)
    })
}

/// Returns the label of a BEGIN or END line.
fn marker<'a>(line: &'a [u8], start: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(line.strip_prefix(start)?.strip_suffix(b"-----")?).ok()
}

fn section<'a>(label: &'a str, line: usize, lines: impl Iterator<Item = &'a [u8]>) -> Result<Section<'a>, PemFault> {
    let mut header: Option<Vec<u8>> = None;
    let mut body = Vec::new();
    for text in lines {
        if text.starts_with(b"-----END ") {
            if marker(text, b"-----END ") != Some(label) {
                return Err(PemFault::NoEnd { line });
            }
            let header = header.unwrap_or_default();
            if header.starts_with(b"Proc-Type:") {
                return Ok(Section { label, content: Vec::new(), encrypted: true, line });
            }
            if !header.is_empty() {
                return Err(PemFault::BlankLine { line });
            }
            let content = BASE64.decode(&body).map_err(|_| PemFault::Base64 { line })?;
            return Ok(Section { label, content, encrypted: false, line });
        }
        if text.is_empty() && header.is_none() {
            header = Some(std::mem::take(&mut body));
        } else if text.is_empty() {
            return Err(PemFault::BlankLine { line });
        }
        body.extend(text.iter().filter(|byte| !byte.is_ascii_whitespace()));
    }
    Err(PemFault::NoEnd { line })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, Vec<u8>)>, PemFault> {
        sections(text.as_bytes()).map(|section| section.map(|s| (s.label.to_owned(), s.content))).collect()
    }

    #[test]
    fn reads_blocks_and_passes_over_other_text() {
        let text = "hello\n-----BEGIN A-----\r\nAQ\r\n ID\r\n-----END A-----\r\n\n-----BEGIN B-----\nBA==\n-----END B-----\nbye";
        assert_eq!(read(text).unwrap(), [("A".to_owned(), vec![1, 2, 3]), ("B".to_owned(), vec![4])]);
    }

    #[test]
    fn refuses_what_is_cut_or_garbled() {
        let line = 1;
        assert_eq!(read("-----BEGIN A-----\nAQID\n"), Err(PemFault::NoEnd { line }));
        assert_eq!(read("-----BEGIN A-----\nAQID\n-----END B-----\n"), Err(PemFault::NoEnd { line }));
        assert_eq!(read("-----BEGIN A-----\n!!!!\n-----END A-----\n"), Err(PemFault::Base64 { line }));
        assert_eq!(read("-----BEGIN A-----\nAQI\n-----END A-----\n"), Err(PemFault::Base64 { line }));
        assert_eq!(read("-----BEGIN A-----\nAQID\n\nAQID\n-----END A-----\n"), Err(PemFault::BlankLine { line }));
        assert_eq!(read("-----BEGIN A-----\n\nAQID\n-----END A-----\n").unwrap().len(), 1);
        assert_eq!(read("  -----BEGIN A-----\nAQID\n-----END A-----\n").unwrap().len(), 0);
    }

    proptest! {
        #[test]
        fn never_panics(text in "(-----BEGIN [AB]-----\n|-----END [AB]-----\n|[A-D=\n ]{0,9}|\\PC{0,5}){0,8}") {
            let _ = read(&text);
        }
    }
}
