//! Headers with values from Secrets. Messages contain no part of a value.

use std::sync::Arc;

use holdfast_api::apis::kgateway::access::SecretKeyRef;
use holdfast_envoy::features::headers::HeaderEdits;
use holdfast_envoy::features::secret_headers::ENTRIES_MAX;

use super::reading::Reading;

/// Reads a reference in an entry of `set` or `add`. Name and key default to each other; without both, each entry of the
/// Secret is a header.
pub(super) fn read(
    edits: &mut HeaderEdits,
    list: &str,
    field: &str,
    name: Option<&Arc<str>>,
    reference: &SecretKeyRef,
    reading: &mut Reading<'_, '_>,
) {
    let below = format!("{field}.secretRef");
    let Some(secret) = reading.secret(&below, reference.namespace.as_deref(), &reference.name) else { return };
    let key = reference.key.as_ref().or(name);
    let entries: Vec<(&str, &[u8])> = match key {
        Some(key) => match secret.data.get(&**key) {
            Some(content) => vec![(name.unwrap_or(key), content)],
            None => {
                let message = format!("Secret {} has no entry {key}", reference.name);
                return reading.missing(below, "SecretEntryNotFound", message);
            }
        },
        None if secret.data.is_empty() => {
            let message = format!("Secret {} has no entry", reference.name);
            return reading.missing(below, "SecretEntryNotFound", message);
        }
        None => secret.data.iter().map(|(key, content)| (key.as_str(), &**content)).collect(),
    };
    if entries.len() > ENTRIES_MAX {
        return reading.invalid(below, format!("the Secret must have at most {ENTRIES_MAX} entries"));
    }
    for (name, content) in entries {
        let header: Arc<str> = match holdfast_check::header::modifiable_name(name) {
            Ok(header) => header.into(),
            Err(fault) => {
                reading.invalid(&below, format!("entry {name}: {fault}"));
                continue;
            }
        };
        let value = std::str::from_utf8(content).ok().filter(|value| holdfast_check::header::value(value).is_ok());
        let Some(value) = value else {
            let message = format!("entry {name}: the value of a header must be one line of text, without a line break");
            reading.invalid(&below, message);
            continue;
        };
        let list = if list == "set" { &mut edits.set } else { &mut edits.add };
        list.push((header, value.into()));
    }
}
