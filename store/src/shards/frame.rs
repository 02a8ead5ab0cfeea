//! Frame of all data in a bucket: product, schema, whether it is sealed, and the digest that proves that it is
//! complete. A frame is bound to its name, so that data under another name is not accepted.

use crate::error::StoreError;
use crate::record::Digest;
use crate::sled::seal::Sealer;

/// The schema that is written, and the newest schema that is read.
pub(super) const SCHEMA: u8 = 1;
const MAGIC: [u8; 4] = *b"HFSH";
const DIGEST_BYTES: usize = 32;

/// Reason why data cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFlaw {
    /// There is no data.
    Absent,
    /// The data was written by a newer version.
    Newer,
    /// The data is sealed with another key, or sealed where there is no key, or not sealed where there is one.
    Sealed,
    /// The data differs from what was written.
    Damaged,
}

/// Returns the digest of a payload; keyed where there is a key, since a plain digest would allow an attacker to test
/// guesses.
pub(super) fn digest(sealer: Option<&Sealer>, name: &[u8], payload: &[u8]) -> Digest {
    let bytes = [&(name.len() as u64).to_le_bytes()[..], name, payload].concat();
    sealer.map_or_else(|| Digest::of(&bytes), |sealer| sealer.digest(&bytes))
}

/// Returns the framed payload for a name.
pub(super) fn wrap(sealer: Option<&Sealer>, name: &[u8], payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let sealed = u8::from(sealer.is_some());
    let head = [&MAGIC[..], &[SCHEMA, sealed]].concat();
    let body = match sealer {
        Some(sealer) => sealer.seal(&bound(&head, name), payload).map_err(|_| unsealable())?,
        None => [&plain(&head, name, payload).bytes()[..], payload].concat(),
    };
    Ok([head, body].concat())
}

/// Returns the payload that was framed for a name.
pub(super) fn unwrap(sealer: Option<&Sealer>, name: &[u8], bytes: &[u8]) -> Result<Vec<u8>, FrameFlaw> {
    let (head, body) = bytes.split_at_checked(MAGIC.len() + 2).ok_or(FrameFlaw::Damaged)?;
    let [magic @ .., schema, sealed] = head else { return Err(FrameFlaw::Damaged) };
    if magic != MAGIC {
        return Err(FrameFlaw::Damaged);
    }
    if *schema > SCHEMA {
        return Err(FrameFlaw::Newer);
    }
    match (*sealed, sealer) {
        (1, Some(sealer)) => sealer.unseal(&bound(head, name), body).ok_or(FrameFlaw::Sealed),
        (1, None) | (0, Some(_)) => Err(FrameFlaw::Sealed),
        (0, None) => {
            let (digest, payload) = body.split_at_checked(DIGEST_BYTES).ok_or(FrameFlaw::Damaged)?;
            let whole = plain(head, name, payload).bytes()[..] == *digest;
            whole.then(|| payload.to_vec()).ok_or(FrameFlaw::Damaged)
        }
        _ => Err(FrameFlaw::Damaged),
    }
}

fn bound(head: &[u8], name: &[u8]) -> Vec<u8> {
    [head, name].concat()
}

fn plain(head: &[u8], name: &[u8], payload: &[u8]) -> Digest {
    digest(None, &bound(head, name), payload)
}

fn unsealable() -> StoreError {
    StoreError::Unavailable("a record of the shared store cannot be sealed".into())
}
