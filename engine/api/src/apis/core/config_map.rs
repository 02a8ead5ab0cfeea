//! ConfigMap: texts by name, for objects that refer to a ConfigMap (certificate authorities, public keys). `binaryData`
//! is not read.
//!
//! <https://kubernetes.io/docs/concepts/configuration/configmap/>

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// Size of one ConfigMap, in bytes of names and texts together; the limit of the API server.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Text by name.
    pub data: Arc<BTreeMap<String, Arc<str>>>,
}

#[derive(Deserialize)]
struct RawConfigMap {
    data: Option<BTreeMap<String, Option<Arc<str>>>>,
}

pub(in crate::apis) fn decode(document: Value, found: &mut Found) -> Option<Body> {
    // The error of a typed decoder may quote a text of any length.
    let Ok(raw) = serde_json::from_value::<RawConfigMap>(document) else {
        found.invalid("data", "data must map names to text");
        return None;
    };
    let data: BTreeMap<String, Arc<str>> =
        raw.data.unwrap_or_default().into_iter().map(|(name, text)| (name, text.unwrap_or_default())).collect();
    if data.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>() > DATA_BYTES_MAX {
        found.invalid("data", format!("a ConfigMap may hold at most {DATA_BYTES_MAX} bytes; split it"));
        return None;
    }
    Some(Body::ConfigMap(ConfigMap { data: Arc::new(data) }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::DATA_BYTES_MAX;
    use crate::apis::{Body, Decoded, decode};

    fn decoded(content: serde_json::Value) -> Decoded {
        let mut document = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let fields = content.as_object().cloned().unwrap_or_default();
        document.as_object_mut().into_iter().for_each(|document| document.extend(fields.clone()));
        decode(document, None)
    }

    #[test]
    fn texts_are_kept_by_name_and_nothing_else() {
        let Decoded::Object(object, faults) =
            decoded(json!({"data": {"ca.crt": "text", "empty": null}, "binaryData": {"x": "AAAA"}, "immutable": true}))
        else {
            unreachable!("a ConfigMap")
        };
        let Body::ConfigMap(map) = &object.body else { unreachable!("{object:?}") };
        let kept: Vec<(&str, &str)> = map.data.iter().map(|(name, text)| (&**name, &**text)).collect();
        assert_eq!(kept, [("ca.crt", "text"), ("empty", "")]);
        assert_eq!(faults, []);
    }

    #[test]
    fn invalid_data_is_reported_without_its_content() {
        let wrong = json!({"data": {"a": {"canary": 1}}});
        let long = json!({"data": {"a": "x".repeat(DATA_BYTES_MAX)}});
        for content in [wrong, long] {
            let Decoded::Unusable(_, faults) = decoded(content) else {
                unreachable!("a ConfigMap that cannot be used")
            };
            assert_eq!(faults.iter().map(|fault| &*fault.field).collect::<Vec<_>>(), ["data"]);
            assert!(faults.iter().all(|fault| fault.message.len() < 200 && !fault.message.contains("canary")));
        }
        let longest = json!({"data": {"a": "x".repeat(DATA_BYTES_MAX - 1)}});
        assert!(matches!(decoded(longest), Decoded::Object(..)));
    }
}
