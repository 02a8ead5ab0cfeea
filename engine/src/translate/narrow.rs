//! Narrowing: what is left of a match that cannot stand as written.
//!
//! A broken match must not vanish, or its requests fall to a broader route. Nor may it catch more than it was meant
//! for. So a regular expression becomes its literal prefix, and where nothing can be told the placeholder comes last.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use super::rule::Ranked;
use crate::check;
use crate::model::{Match, NamedMatch, PathMatch, PathRank, ValueMatch};
use crate::settings::Settings;

/// The limits of regular expressions.
pub(super) fn limits(settings: &Settings) -> check::re2::Limits {
    check::re2::Limits { program_size: settings.re2_program_size_max }
}

/// What is left of a path regex.
pub(super) fn regex_path(pattern: &str) -> (PathMatch, PathRank) {
    path(&check::re2::literal_prefix(pattern))
}

/// What is left of a path: its longest beginning that requests can have.
pub(super) fn path(text: &str) -> (PathMatch, PathRank) {
    let prefix = usable(text);
    if prefix.len() < 2 {
        return (PathMatch::Prefix("/".into()), PathRank::Last);
    }
    (PathMatch::Text(prefix.into()), PathRank::Prefix(Reverse(prefix.trim_end_matches('/').chars().count())))
}

/// What is left of a match that Envoy refuses for a reason that nobody knows: only what cannot be at fault.
pub(super) fn narrowed(ranked: &Ranked) -> Ranked {
    let (path, rank) = match (&ranked.matches.path, &ranked.left) {
        (_, Some(left)) => left.clone(),
        (PathMatch::Regex(pattern), None) => regex_path(pattern),
        // Nothing can be wrong with it, and it ranks as it did: broader routes with the same path come after it.
        (PathMatch::Exact(text) | PathMatch::Prefix(text) | PathMatch::Text(text), None) if usable(text) == &**text => {
            (ranked.matches.path.clone(), ranked.rank)
        }
        (PathMatch::Exact(text) | PathMatch::Prefix(text) | PathMatch::Text(text), None) => path(text),
    };
    let present = |conditions: &[NamedMatch]| -> Vec<NamedMatch> {
        let usable = conditions.iter().filter(|condition| check::header::name(&condition.name).is_ok());
        usable.map(|condition| NamedMatch::new(condition.name.clone(), ValueMatch::Present)).collect()
    };
    let matches = Match {
        path,
        method: ranked.matches.method.clone().filter(|method| check::header::name(method).is_ok()),
        headers: present(&ranked.matches.headers),
        query: present(&ranked.matches.query),
        grpc: ranked.matches.grpc,
    };
    Ranked { matches, rank, narrowed: true, left: None }
}

/// The longest beginning of a text that a normalised path can have: up to a query, a fragment, an illegal character or
/// a sequence that normalisation removes.
fn usable(text: &str) -> &str {
    if !text.starts_with('/') {
        return "";
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(c);
    let end = text.find(|c| !legal(c)).unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default();
    let sequences = ["//", "/./", "/../"].into_iter().filter_map(|sequence| text.find(sequence));
    sequences.min().map_or(text, |at| text.get(..=at).unwrap_or_default())
}

/// The fields of a match that did not decode as a whole, each as far as `decodes` says that it does: of lists the
/// entries that do. What cannot be told is left out, so that the placeholder stands for it.
pub(super) fn decodable(value: &Value, decodes: impl Fn(&str, &Value) -> bool) -> Value {
    let mut kept = Map::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        if decodes(name, field) {
            kept.insert(name.clone(), field.clone());
        } else if let Value::Array(entries) = field {
            let entries =
                entries.iter().map(presence).filter(|entry| decodes(name, &Value::Array(vec![entry.clone()])));
            kept.insert(name.clone(), entries.collect());
        }
    }
    Value::Object(kept)
}

/// A condition on a header or parameter with its name only, where the rest cannot be told.
fn presence(entry: &Value) -> Value {
    let name = entry.get("name").cloned().unwrap_or_default();
    let text = |field: &str| entry.get(field).is_none_or(Value::is_string);
    let known = matches!(entry.get("type").and_then(Value::as_str), None | Some("Exact" | "RegularExpression"));
    if text("value") && known && entry.get("value").is_some() {
        return entry.clone();
    }
    serde_json::json!({ "name": name, "type": "RegularExpression", "value": ".*" })
}
