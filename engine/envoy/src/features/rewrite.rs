//! Rewriting of path and host in requests to backends, and of the path in redirects.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#httppathmodifier>

use std::sync::Arc;

use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};

use super::Flaw;
use crate::model::PathMatch;

/// A rewrite; the default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The host that the backend receives.
    pub host: Option<Arc<str>>,
    /// The path that the backend receives.
    pub path: Option<PathRewrite>,
    /// The request header with the host that the backend receives, where the request has the header.
    pub host_from: Option<Arc<str>>,
    /// Whether the backend receives its own name as the host.
    pub auto_host: bool,
}

/// A rewrite of the path. The query is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRewrite {
    /// Replaces the whole path.
    Full(Arc<str>),
    /// Replaces the matched prefix.
    Prefix(Arc<str>),
    /// Replaces the matches of a regular expression (RE2) by a substitution; both are already validated.
    Regex(Arc<str>, Arc<str>),
}

/// The field of Envoy's route that rewrites the path.
#[derive(Clone, Debug, PartialEq)]
pub enum EnvoyPathRewrite {
    /// `prefix_rewrite`.
    Prefix(String),
    /// `regex_rewrite`.
    Regex(RegexMatchAndSubstitute),
}

impl PathRewrite {
    /// Validates the new path; a prefix can only be replaced where every match is a prefix match.
    pub fn check(&self, matched: &[&PathMatch]) -> Result<(), Flaw> {
        match self {
            PathRewrite::Full(path) => {
                holdfast_check::path::full_replacement(path).map_err(|fault| Flaw::new("path.replaceFullPath", fault))
            }
            PathRewrite::Prefix(prefix) => {
                if !matched.iter().all(|path| matches!(path, PathMatch::Prefix(_))) {
                    let message = "ReplacePrefixMatch needs a PathPrefix in every match of the rule";
                    return Err(Flaw::new("path.replacePrefixMatch", message));
                }
                holdfast_check::path::prefix_replacement(prefix)
                    .map_err(|fault| Flaw::new("path.replacePrefixMatch", fault))
            }
            PathRewrite::Regex(..) => Ok(()),
        }
    }

    /// Returns the Envoy configuration for a route that matches `path`.
    pub fn encode(&self, path: &PathMatch) -> EnvoyPathRewrite {
        match (self, path) {
            (PathRewrite::Regex(pattern, substitution), _) => EnvoyPathRewrite::Regex(RegexMatchAndSubstitute {
                pattern: Some(RegexMatcher { regex: pattern.to_string(), ..Default::default() }),
                substitution: substitution.to_string(),
            }),
            (PathRewrite::Full(full), _) => EnvoyPathRewrite::Regex(substitute("^/.*$".into(), full)),
            (PathRewrite::Prefix(new), PathMatch::Prefix(old)) => replace_prefix(old, new),
            (PathRewrite::Prefix(new), _) => EnvoyPathRewrite::Prefix(new.to_string()),
        }
    }
}

/// Replaces whole segments; the slash between prefix and rest is neither lost nor doubled: `/foo/bar` with `/foo`
/// replaced by `/` is `/bar`, with `/` replaced by `/x` it is `/x/foo/bar`.
fn replace_prefix(old: &str, new: &str) -> EnvoyPathRewrite {
    let (old, new) = (old.trim_end_matches('/'), new.trim_end_matches('/'));
    match (old.is_empty(), new.is_empty()) {
        (true, true) => EnvoyPathRewrite::Prefix("/".into()),
        (true, false) => EnvoyPathRewrite::Prefix(format!("{new}/")),
        (false, false) => EnvoyPathRewrite::Prefix(new.to_owned()),
        (false, true) => EnvoyPathRewrite::Regex(substitute(format!("^{}/*", regex_syntax::escape(old)), "/")),
    }
}

fn substitute(pattern: String, replacement: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher { regex: pattern, ..Default::default() }),
        // Envoy would read a backslash as a reference to a group.
        substitution: replacement.replace('\\', "\\\\"),
    }
}
