//! Narrowing: what is left of a match that cannot stand as written.
//!
//! A broken match must not vanish, or its requests fall to a broader route. Nor may it catch more than it was meant
//! for. So a regular expression becomes its literal prefix, and where nothing can be told the placeholder comes last.

use std::cmp::Reverse;

use serde_json::Value;

use super::rule::Ranked;
use crate::check;
use crate::model::{Match, PathMatch, PathRank};
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

/// What is left of a match that did not decode.
pub(super) fn raw(value: &Value) -> Ranked {
    let text = value.pointer("/path/value").and_then(Value::as_str);
    let regex = value.pointer("/path/type").and_then(Value::as_str) == Some("RegularExpression");
    let (path, rank) = match text {
        Some(text) if regex => regex_path(text),
        Some(text) => path(text),
        None => return Ranked::last(),
    };
    Ranked { matches: Match { path, ..Match::any() }, rank, narrowed: true }
}
