//! Narrowing: reduction of a match that cannot be served as written.
//!
//! A broken match must not disappear, since a broader route would get its requests. Nor may it catch more than the
//! match as written. A regular expression is therefore reduced to its readable beginning, or to its literal prefix where
//! no more is known, and all other conditions stay. Where nothing is readable, the placeholder comes last.

pub(crate) mod calls;

use std::borrow::Cow;
use std::cmp::Reverse;

use holdfast_api::settings::Settings;
use holdfast_check::re2::{Beginning, Regexes};
use holdfast_envoy::model::placeholder::{Placeholder, UNREADABLE_CALL, UNREADABLE_EXPRESSION};
use holdfast_envoy::model::{Match, NamedMatch, PathMatch, PathRank, ValueMatch};
use serde_json::{Map, Value};

/// A match with its rank. `narrowed` marks the placeholder of a match that cannot be served as written.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) matches: Match,
    pub(crate) rank: PathRank,
    pub(crate) narrowed: bool,
    /// Whether the path as written cannot be read, so that its rank is unknown.
    pub(crate) is_path_lost: bool,
    /// The narrowed path; derived from the path where unset.
    pub(crate) left: Option<(PathMatch, PathRank)>,
}

impl Ranked {
    /// Returns a match for every request of the host, ranked after all other routes, for rules that are unreadable.
    pub(crate) fn last() -> Self {
        Self { matches: Match::any(), rank: PathRank::Last, narrowed: true, is_path_lost: true, left: None }
    }

    /// Returns the facts about the match as written; `None` if it is served as written.
    pub(crate) fn placeholder(&self, is_guarded: bool) -> Option<Placeholder> {
        // Without a readable part of the path, longer paths of other routes come first.
        let is_known = self.matches.path != PathMatch::Prefix("/".into());
        let path = match (self.is_path_lost && is_known, self.matches.grpc) {
            (true, true) => UNREADABLE_CALL,
            (true, false) => UNREADABLE_EXPRESSION,
            (false, _) => self.rank,
        };
        self.narrowed.then_some(Placeholder { path, is_guarded })
    }
}

/// Returns the limits of regular expressions.
pub(crate) fn limits(settings: &Settings) -> holdfast_check::re2::Limits {
    holdfast_check::re2::Limits { program_size: settings.re2_program_size_max }
}

/// Least number of known characters of a path that is informative: every path begins with a slash.
const KNOWN_CHARS_MIN: usize = 2;

/// Narrows a path regex that cannot be read as a whole. The result ranks as a prefix with the number of characters that
/// each matching path certainly begins with, so that every broader prefix comes after it.
pub(crate) fn regex_path(pattern: &str, regexes: &Regexes) -> (PathMatch, PathRank) {
    let literal = literal_path(pattern);
    readable_beginning(pattern, pattern, regexes).map_or(literal, |found| {
        (PathMatch::Regex(format!("{}.*", found.pattern).into()), PathRank::Prefix(Reverse(found.min_chars)))
    })
}

/// Returns the readable beginning of a path regex, if more is known of it than of its literal prefix. `whole`: the regex
/// with the prefix of includes, of which the beginning is returned.
///
/// A group that is open at the end is part of the beginning only if nothing else is known: its content may be
/// incomplete. A literal prefix that no path can have as a whole is not extended.
pub(crate) fn readable_beginning(pattern: &str, whole: &str, regexes: &Regexes) -> Option<Beginning> {
    let literal = holdfast_check::re2::literal_prefix(pattern);
    let is_literal_known = usable(&literal).len() >= KNOWN_CHARS_MIN;
    let beginning = |pattern: &str| match is_literal_known {
        true => regexes.beginning_without_open_groups(pattern),
        false => regexes.beginning(pattern),
    };
    let read = beginning(pattern)?;
    let is_more = match is_literal_known {
        true => read.min_chars > literal.chars().count() && usable(&literal) == literal,
        false => read.min_chars >= KNOWN_CHARS_MIN,
    };
    // Each search counts against the limit of the object.
    is_more.then_some(read).and_then(|read| if pattern == whole { Some(read) } else { beginning(whole) })
}

/// Narrows a path regex to its literal prefix, where the reason of the refusal is unknown.
pub(crate) fn literal_path(pattern: &str) -> (PathMatch, PathRank) {
    path(&holdfast_check::re2::literal_prefix(pattern))
}

/// Ranks a match with an unknown path after all others, but before matches with fewer conditions besides the path.
pub(crate) fn placed(mut ranked: Ranked) -> Ranked {
    let matches = &ranked.matches;
    let has_conditions = matches.method.is_some() || !matches.headers.is_empty() || !matches.query.is_empty();
    if ranked.rank == PathRank::Last && has_conditions {
        ranked.rank = match matches.grpc {
            true => PathRank::Grpc(Reverse(0), Reverse(0)),
            false => PathRank::Prefix(Reverse(0)),
        };
    }
    ranked
}

/// Narrows a path to its longest prefix that requests can have. A slash at its end counts: `/admin/` is narrower than
/// the prefix of segments `/admin`, and comes before it.
pub(crate) fn path(text: &str) -> (PathMatch, PathRank) {
    let Some(prefix) = known_path(text) else { return (PathMatch::Prefix("/".into()), PathRank::Last) };
    (PathMatch::Text(prefix.into()), PathRank::Prefix(Reverse(prefix.chars().count())))
}

/// Returns a path with the slash that every path begins with.
pub(crate) fn absolute(text: &str) -> Cow<'_, str> {
    if text.starts_with('/') { text.into() } else { format!("/{text}").into() }
}

/// Returns the longest prefix of a path that requests can have; `None` if it is no more than a slash.
pub(crate) fn known_path(text: &str) -> Option<&str> {
    Some(usable(text)).filter(|prefix| prefix.len() >= KNOWN_CHARS_MIN)
}

/// Narrows a match that Envoy refuses for an unknown reason: only parts that cannot be the reason stay.
pub(crate) fn narrowed(ranked: &Ranked) -> Ranked {
    let (path, rank) = match (&ranked.matches.path, &ranked.left) {
        (_, Some(left)) => left.clone(),
        (PathMatch::Regex(pattern), None) => literal_path(pattern),
        // Nothing can be wrong with the path, and its rank stays: broader routes with the same path come after it.
        (PathMatch::Exact(text) | PathMatch::Prefix(text) | PathMatch::Text(text), None) if usable(text) == &**text => {
            (ranked.matches.path.clone(), ranked.rank)
        }
        (PathMatch::Exact(text) | PathMatch::Prefix(text) | PathMatch::Text(text), None) => path(text),
    };
    let present = |conditions: &[NamedMatch]| -> Vec<NamedMatch> {
        let usable = conditions.iter().filter(|condition| holdfast_check::header::name(&condition.name).is_ok());
        usable.map(|condition| NamedMatch::new(condition.name.clone(), ValueMatch::Present)).collect()
    };
    let matches = Match {
        path,
        method: ranked.matches.method.clone().filter(|method| holdfast_check::header::name(method).is_ok()),
        headers: present(&ranked.matches.headers),
        query: present(&ranked.matches.query),
        grpc: ranked.matches.grpc,
    };
    let is_path_lost = ranked.is_path_lost || matches.path != ranked.matches.path;
    placed(Ranked { matches, rank, narrowed: true, is_path_lost, left: None })
}

/// Returns the longest prefix of a text that a normalised path can have: up to a query, a fragment, an illegal
/// character or a sequence that normalisation removes.
pub(crate) fn usable(text: &str) -> &str {
    if !text.starts_with('/') {
        return "";
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/".contains(c);
    let end = text.find(|c| !legal(c)).unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default();
    let sequences = ["//", "/./", "/../"].into_iter().filter_map(|sequence| text.find(sequence));
    sequences.min().map_or(text, |at| text.get(..=at).unwrap_or_default())
}

/// Returns the fields of a match that did not decode as a whole, as far as `decodes` accepts them: of a list, the
/// entries that decode. All other fields are left out, so that the placeholder covers their requests.
pub(crate) fn decodable(value: &Value, decodes: impl Fn(&str, &Value) -> bool) -> Value {
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

/// Returns whether a match has set fields other than these: any of them may be meant as its path.
pub(crate) fn has_others(value: &Value, known: &[&str]) -> bool {
    let mut fields = value.as_object().into_iter().flatten();
    fields.any(|(name, field)| !known.contains(&name.as_str()) && !field.is_null())
}

/// Returns a condition on a header or query parameter, reduced to its name if the rest is unreadable.
fn presence(entry: &Value) -> Value {
    let name = entry.get("name").cloned().unwrap_or_default();
    let text = |field: &str| entry.get(field).is_none_or(Value::is_string);
    let is_known = |name: &String| ["name", "type", "value"].contains(&name.as_str());
    let whole = entry.as_object().is_some_and(|fields| fields.keys().all(is_known));
    let known =
        whole && matches!(entry.get("type").and_then(Value::as_str), None | Some("Exact" | "RegularExpression"));
    if text("value") && known && entry.get("value").is_some() {
        return entry.clone();
    }
    serde_json::json!({ "name": name, "type": "RegularExpression", "value": ".*" })
}
