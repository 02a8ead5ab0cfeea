//! Secret: bytes by name, never shown.
//!
//! <https://kubernetes.io/docs/concepts/configuration/secret/>

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// A Secret.
#[derive(Clone, PartialEq)]
pub struct Secret {
    /// `type`, for example `kubernetes.io/tls`.
    pub kind: Arc<str>,
    /// Content by key.
    pub data: Arc<BTreeMap<String, Bytes>>,
}

/// Shows the names of the keys, never the content.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("kind", &self.kind).field("keys", &self.data.keys()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSecret {
    #[serde(rename = "type")]
    kind: Option<String>,
    data: Option<BTreeMap<String, Option<String>>>,
    string_data: Option<BTreeMap<String, String>>,
}

pub(in crate::apis) fn decode(document: Value, found: &mut Found) -> Option<Body> {
    // The error of a typed decoder may quote the value, which must not leave a Secret.
    let Ok(raw) = serde_json::from_value::<RawSecret>(document) else {
        found.invalid("data", "data and stringData must map names to text");
        return None;
    };
    let mut data = BTreeMap::new();
    for (name, text) in raw.data.unwrap_or_default() {
        match base64_bytes(&text.unwrap_or_default()) {
            Some(bytes) => {
                data.insert(name, bytes);
            }
            None => found.invalid(format!("data.{name}"), "the value is not base64; plain text goes to stringData"),
        }
    }
    data.extend(raw.string_data.unwrap_or_default().into_iter().map(|(name, text)| (name, Bytes::from(text))));
    Some(Body::Secret(Secret { kind: raw.kind.unwrap_or_else(|| "Opaque".into()).into(), data: Arc::new(data) }))
}

fn base64_bytes(text: &str) -> Option<Bytes> {
    use base64::Engine;
    let compact: String = text.split_ascii_whitespace().collect();
    base64::engine::general_purpose::STANDARD.decode(compact).ok().map(Bytes::from)
}
