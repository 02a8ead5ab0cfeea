//! The envelope around every record: whose it is, of which schema, and the digest that shows that it is whole.
//!
//! The digest is over the name too, so that a record that turns up under another name is not taken for that one. Large
//! records are cut into chunks, each in an envelope of its own: sled rewrites neighbours together. The form of the
//! envelope itself never changes, so that a store of a newer version is known for what it is.

use bincode::{Decode, Encode};

use super::keys;
use super::trouble::Trouble;
use crate::record::Digest;

/// The schema that is written, and the newest that is read.
pub(super) const SCHEMA: u16 = 1;
/// Bytes of one value in the tree, the envelope apart.
pub(super) const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one record: a payload with what sealing adds, or a page of as many objects as there may be.
pub(super) const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

const MAGIC: [u8; 4] = *b"HFST";
/// Bytes of the envelope around a chunk, with room.
const FRAME_BYTES_MAX: usize = 1024;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
    fn new(name: &[u8], kind: Kind, generation: u64, chunks: u32, payload: Vec<u8>) -> Self {
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

    fn write(&self) -> Result<Vec<u8>, Trouble> {
        encode(self)
    }
}

/// Why bytes are not the record that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// There is none.
    Absent,
    /// Not something that this product wrote.
    Foreign,
    /// Written by a newer version, in this schema.
    Newer(u16),
    /// Not what was written.
    Damaged,
    /// The files below cannot be read there.
    Unreadable,
}

/// Bytes of a form of ours.
pub(super) fn encode(form: &impl Encode) -> Result<Vec<u8>, Trouble> {
    bincode::encode_to_vec(form, bincode::config::standard())
        .map_err(|error| Trouble::Other(format!("a record cannot be encoded: {error}")))
}

/// A form of ours from its bytes, of which none may be left over.
pub(super) fn decode<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
    let config = bincode::config::standard().with_limit::<RECORD_BYTES_MAX>();
    match bincode::decode_from_slice(bytes, config) {
        Ok((form, consumed)) if consumed == bytes.len() => Some(form),
        _ => None,
    }
}

fn unwrap(name: &[u8], kind: Kind, bytes: &[u8]) -> Result<Envelope, Flaw> {
    let config = bincode::config::standard().with_limit::<{ CHUNK_BYTES_MAX + FRAME_BYTES_MAX }>();
    if bytes.get(..MAGIC.len()) != Some(&MAGIC) {
        return Err(Flaw::Foreign);
    }
    let envelope: Envelope = match bincode::decode_from_slice(bytes, config) {
        Ok((envelope, consumed)) if consumed == bytes.len() => envelope,
        _ => return Err(Flaw::Damaged),
    };
    if envelope.digest != envelope.seen_digest(name) {
        return Err(Flaw::Damaged);
    }
    // Only a sound record is believed to be newer.
    if envelope.schema > SCHEMA {
        return Err(Flaw::Newer(envelope.schema));
    }
    if envelope.kind != kind as u8 { Err(Flaw::Damaged) } else { Ok(envelope) }
}

/// A name and what stands under it.
pub(super) type Value = (Vec<u8>, Vec<u8>);

/// A record as the values that are written for it, with their names.
pub(super) fn wrap(name: Vec<u8>, kind: Kind, generation: u64, payload: Vec<u8>) -> Result<Vec<Value>, Trouble> {
    if payload.len() <= CHUNK_BYTES_MAX {
        let bytes = Envelope::new(&name, kind, generation, 0, payload).write()?;
        return Ok(vec![(name, bytes)]);
    }
    let mut written = Vec::new();
    let mut count = 0;
    for part in payload.chunks(CHUNK_BYTES_MAX) {
        let chunk = keys::chunk(&name, count);
        let bytes = Envelope::new(&chunk, Kind::Chunk, generation, 0, part.to_vec()).write()?;
        written.push((chunk, bytes));
        count += 1;
    }
    // The first part says what all of them are together.
    let whole = Digest::of(&payload).bytes().to_vec();
    let bytes = Envelope::new(&name, kind, generation, count, whole).write()?;
    written.push((name, bytes));
    Ok(written)
}

/// The payload of a record, read and verified; and how many chunks it has.
pub(super) fn read<B: AsRef<[u8]>>(
    name: &[u8],
    kind: Kind,
    get: &impl Fn(&[u8]) -> Result<Option<B>, Trouble>,
) -> Result<(Vec<u8>, u32), Flaw> {
    let fetch = |name: &[u8], kind| match get(name) {
        Ok(Some(bytes)) => unwrap(name, kind, bytes.as_ref()),
        Ok(None) => Err(Flaw::Absent),
        Err(_) => Err(Flaw::Unreadable),
    };
    let first = fetch(name, kind)?;
    if first.chunks == 0 {
        return Ok((first.payload, 0));
    }
    if first.chunks as usize > RECORD_BYTES_MAX / CHUNK_BYTES_MAX {
        return Err(Flaw::Damaged);
    }
    let mut payload = Vec::new();
    for number in 0..first.chunks {
        let chunk = fetch(&keys::chunk(name, number), Kind::Chunk)?;
        payload.extend_from_slice(&chunk.payload);
    }
    if Digest::of(&payload).bytes()[..] == first.payload[..] { Ok((payload, first.chunks)) } else { Err(Flaw::Damaged) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record as another version would write it.
    pub(in super::super) fn of_schema(schema: u16, name: &[u8], kind: Kind, payload: &[u8]) -> Vec<u8> {
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
        // A length of 2^64 - 1, and nothing behind it.
        assert_eq!(decode::<Vec<u8>>(&[253, 255, 255, 255, 255, 255, 255, 255, 255]), None);
    }
}
