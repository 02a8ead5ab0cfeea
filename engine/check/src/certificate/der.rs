//! Minimal DER parser (X.690), to extract the public key from a private key.
//!
//! The parser only borrows slices and has no error texts, so that no part of a key can leak.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
/// Context-specific, constructed, number 0.
pub(super) const CONTEXT_0: u8 = 0xa0;
/// Context-specific, constructed, number 1.
pub(super) const CONTEXT_1: u8 = 0xa1;

/// A sequence of elements.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether no element is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the content of the next element, which must have this tag.
    pub(super) fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        if *found != tag {
            return None;
        }
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                (digits.iter().fold(0usize, |length, digit| (length << 8) | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }

    /// Returns a reader for the content of the next element, which must have this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.next(tag).map(Reader)
    }

    /// Returns the next INTEGER without leading zeros; negative numbers are refused.
    pub(super) fn unsigned(&mut self) -> Option<&'a [u8]> {
        let bytes = self.next(INTEGER)?;
        if bytes.first()? & 0x80 != 0 { None } else { Some(without_leading_zeros(bytes)) }
    }
}

/// Encodes one element.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length @ 0..=0x7f) => bytes.push(length),
        _ => {
            let digits = content.len().to_be_bytes();
            let digits = without_leading_zeros(&digits);
            // There are at most eight digits, so the sum stays below 0x89.
            bytes.push(0x80 + digits.len() as u8);
            bytes.extend_from_slice(digits);
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

pub(super) fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn elements_are_read_as_they_were_written(content in prop::collection::vec(any::<u8>(), 0..700)) {
            let bytes = element(OCTET_STRING, &content);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.next(OCTET_STRING).unwrap(), &content);
            prop_assert!(reader.next(OCTET_STRING).is_none());
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for tag in [INTEGER, SEQUENCE, OCTET_STRING] {
                let mut reader = Reader::new(&bytes);
                while let Some(inner) = reader.enter(tag) { reader = inner; let _ = inner.clone().unsigned(); }
            }
        }
    }
}
