//! Paths of conditions, and the join of the paths of includes and routes.

use std::fmt;
use std::sync::Arc;

/// The path of a route after all includes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// The whole path.
    Exact(Arc<str>),
    /// RE2 regex for the whole path.
    Regex(Arc<str>),
    /// Prefix of the path, as a text.
    Prefix(Arc<str>),
}

impl Path {
    /// Returns the text of the path.
    pub fn text(&self) -> &Arc<str> {
        match self {
            Path::Exact(text) | Path::Regex(text) | Path::Prefix(text) => text,
        }
    }
}

/// Format: `path prefix: "/foo"`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Path::Exact(_) => "exact",
            Path::Regex(_) => "regex",
            Path::Prefix(_) => "prefix",
        };
        write!(f, "path {kind}: {:?}", self.text())
    }
}

/// Joins a prefix and a path; both begin with a slash or are empty. The path `/` adds nothing.
///
/// Contour joins the texts, so that `/foo` and `/` become `/foo/` there. A written `/foo/` is kept.
pub fn join(prefix: &str, path: &str) -> String {
    let all = match (prefix, path) {
        ("" | "/", path) => path.to_owned(),
        (prefix, "" | "/") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}{path}"),
    };
    single_slashes(&all)
}

/// Joins a prefix and a regular expression; the prefix is escaped.
pub(crate) fn join_regex(prefix: &str, pattern: &str) -> String {
    format!("{}{pattern}", regex_syntax::escape(prefix.trim_end_matches('/')))
}

/// Returns the prefix, or `/` if neither the route nor its includes set one.
pub(crate) fn or_root(prefix: &str) -> Arc<str> {
    if prefix.is_empty() { "/".into() } else { prefix.into() }
}

fn single_slashes(path: &str) -> String {
    let mut single = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !single.ends_with('/') {
            single.push(character);
        }
    }
    single
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_paths() {
        let rows = [
            ("", "", ""),
            ("", "/", "/"),
            ("", "/foo", "/foo"),
            ("/", "/foo", "/foo"),
            ("/foo", "/", "/foo"),
            ("/foo", "", "/foo"),
            ("/foo/", "/", "/foo/"),
            ("/foo", "/bar", "/foo/bar"),
            ("/foo/", "/bar", "/foo/bar"),
            ("/foo", "/bar/", "/foo/bar/"),
            ("/foo//", "//bar", "/foo/bar"),
        ];
        for (prefix, path, all) in rows {
            assert_eq!(join(prefix, path), all, "{prefix:?} and {path:?}");
        }
    }

    #[test]
    fn a_prefix_before_a_regex_means_itself() {
        assert_eq!(join_regex("/a.b/", "/v[0-9]+"), "/a\\.b/v[0-9]+");
        assert_eq!(join_regex("/", "/x"), "/x");
    }
}
