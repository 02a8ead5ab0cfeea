//! SHA-256 of bytes.

use ring::digest::{SHA256, digest};

/// Returns the hash in lower-case hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
