//! Envelope of every record: product, schema, and the digest that proves that the record is complete.
//!
//! The digest also covers the name, so that a record under another name is not accepted. Large records are cut into
//! chunks, each in an envelope of its own, because sled rewrites neighbours together. The form of the envelope itself
//! never changes, so that a store of a newer version is recognised as such.

use bincode::{Decode, Encode};

use super::error::SledError;
use super::keys;
use crate::record::Digest;

/// The schema that is written, and the newest schema that is read.
pub(super) const SCHEMA: u16 = 1;
/// Maximum size of one value in the tree, in bytes, without the envelope.
pub(super) const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of one record, in bytes: a payload with the overhead of sealing, or a page with the maximum number of
/// objects.
pub(super) const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

const MAGIC: [u8; 4] = *b"HFST";
/// Maximum size of the envelope of a chunk, in bytes, with reserve.
const FRAME_BYTES_MAX: usize = 1024;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EnvelopeKind {
    Root = 1,
    Table = 2,
    Page = 3,
    Content = 4,
    Sealed = 5,
    Chunk = 6,
}

#[derive(Encode, Decode)]
struct Envelope {
    magic: [u8; 4],
    schema: u16,
    kind: u8,
    generation: u64,
    chunks: u32,
    digest: [u8; 32],
    payload: Vec<u8>,
}

impl Envelope {
    fn new(name: &[u8], kind: EnvelopeKind, generation: u64, chunks: u32, payload: Vec<u8>) -> Self {
        let mut envelope =
            Self { magic: MAGIC, schema: SCHEMA, kind: kind as u8, generation, chunks, digest: [0; 32], payload };
        envelope.digest = envelope.seen_digest(name);
        envelope
    }

    fn seen_digest(&self, name: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(&self.schema.to_le_bytes());
        hasher.update(&[self.kind]);
        hasher.update(&self.generation.to_le_bytes());
        hasher.update(&self.chunks.to_le_bytes());
        hasher.update(&self.payload);
        *hasher.finalize().as_bytes()
    }

    fn write(&self) -> Result<Vec<u8>, SledError> {
        encode(self)
    }
}

/// Reason why bytes are not the expected record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnvelopeFlaw {
    /// There is no record.
    Absent,
    /// The bytes were not written by this product.
    Foreign,
    /// The record was written by a newer version, in this schema.
    Newer(u16),
    /// The record differs from what was written.
    Damaged,
    /// The files of sled cannot be read at this position.
    Unreadable,
}

/// Encodes a form.
pub(super) fn encode(form: &impl Encode) -> Result<Vec<u8>, SledError> {
    bincode::encode_to_vec(form, bincode::config::standard())
        .map_err(|error| SledError::Other(format!("a record cannot be encoded: {error}")))
}

/// Decodes a form; no bytes may be left over.
pub(super) fn decode<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let config = bincode::config::standard().with_limit::<RECORD_BYTES_MAX>();
    match bincode::decode_from_slice(bytes, config) {
        Ok((form, consumed)) if consumed == bytes.len() => Some(form),
        _ => None,
    }
}

fn unwrap(name: &[u8], kind: EnvelopeKind, bytes: &[u8]) -> Result<Envelope, EnvelopeFlaw> {
    let config = bincode::config::standard().with_limit::<{ CHUNK_BYTES_MAX + FRAME_BYTES_MAX }>();
    if bytes.get(..MAGIC.len()) != Some(&MAGIC) {
        return Err(EnvelopeFlaw::Foreign);
    }
    let envelope: Envelope = match bincode::decode_from_slice(bytes, config) {
        Ok((envelope, consumed)) if consumed == bytes.len() => envelope,
        _ => return Err(EnvelopeFlaw::Damaged),
    };
    if envelope.digest != envelope.seen_digest(name) {
        return Err(EnvelopeFlaw::Damaged);
    }
    // Only an undamaged record is accepted as newer.
    if envelope.schema > SCHEMA {
        return Err(EnvelopeFlaw::Newer(envelope.schema));
    }
    if envelope.kind != kind as u8 { Err(EnvelopeFlaw::Damaged) } else { Ok(envelope) }
}

/// A name with its value.
pub(super) type TreeEntry = (Vec<u8>, Vec<u8>);

/// Returns the values that are written for a record, with their names.
pub(super) fn wrap(
    name: Vec<u8>,
    kind: EnvelopeKind,
    generation: u64,
    payload: Vec<u8>,
) -> Result<Vec<TreeEntry>, SledError> {
    if payload.len() <= CHUNK_BYTES_MAX {
        let bytes = Envelope::new(&name, kind, generation, 0, payload).write()?;
        return Ok(vec![(name, bytes)]);
    }
    let mut written = Vec::new();
    let mut count = 0;
    for part in payload.chunks(CHUNK_BYTES_MAX) {
        let chunk = keys::chunk(&name, count);
        let bytes = Envelope::new(&chunk, EnvelopeKind::Chunk, generation, 0, part.to_vec()).write()?;
        written.push((chunk, bytes));
        count += 1;
    }
    // The first value has the digest of all parts together.
    let whole = Digest::of(&payload).bytes().to_vec();
    let bytes = Envelope::new(&name, kind, generation, count, whole).write()?;
    written.push((name, bytes));
    Ok(written)
}

/// Returns the schema of a record of one value; `None` if the record is absent or damaged.
pub(super) fn schema<B: AsRef<[u8]>>(name: &[u8], get: &impl Fn(&[u8]) -> Result<Option<B>, SledError>) -> Option<u16> {
    let bytes = get(name).ok()??;
    unwrap(name, EnvelopeKind::Root, bytes.as_ref()).ok().map(|envelope| envelope.schema)
}

/// Reads and verifies a record; returns the payload and the number of chunks.
pub(super) fn read<B: AsRef<[u8]>>(
    name: &[u8],
    kind: EnvelopeKind,
    get: &impl Fn(&[u8]) -> Result<Option<B>, SledError>,
) -> Result<(Vec<u8>, u32), EnvelopeFlaw> {
    let fetch = |name: &[u8], kind| match get(name) {
        Ok(Some(bytes)) => unwrap(name, kind, bytes.as_ref()),
        Ok(None) => Err(EnvelopeFlaw::Absent),
        Err(_) => Err(EnvelopeFlaw::Unreadable),
    };
    let first = fetch(name, kind)?;
    if first.chunks == 0 {
        return Ok((first.payload, 0));
    }
    if first.chunks as usize > RECORD_BYTES_MAX / CHUNK_BYTES_MAX {
        return Err(EnvelopeFlaw::Damaged);
    }
    let mut payload = Vec::new();
    for number in 0..first.chunks {
        let chunk = fetch(&keys::chunk(name, number), EnvelopeKind::Chunk)?;
        payload.extend_from_slice(&chunk.payload);
    }
    if Digest::of(&payload).bytes()[..] == first.payload[..] {
        Ok((payload, first.chunks))
    } else {
        Err(EnvelopeFlaw::Damaged)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a record as another version would write it.
    pub(in super::super) fn of_schema(schema: u16, name: &[u8], kind: EnvelopeKind, payload: &[u8]) -> Vec<u8> {
        let mut envelope = Envelope::new(name, kind, 2, 0, payload.to_vec());
        envelope.schema = schema;
        envelope.digest = envelope.seen_digest(name);
        envelope.write().unwrap_or_default()
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let mut bytes = encode(&vec![1u8, 2, 3]).unwrap_or_default();
        assert_eq!(decode::<Vec<u8>>(&bytes), Some(vec![1, 2, 3]));
        bytes.push(0);
        assert_eq!(decode::<Vec<u8>>(&bytes), None, "nothing may be left over");
        // A length of 2^64 - 1, without data after it.
        assert_eq!(decode::<Vec<u8>>(&[253, 255, 255, 255, 255, 255, 255, 255, 255]), None);
    }
}
