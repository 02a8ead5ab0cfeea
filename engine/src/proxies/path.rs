//! Paths of conditions, and how those of includes and routes are put together.

use std::fmt;
use std::sync::Arc;

/// The path of a route after all includes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Path {
    /// The whole path.
    Exact(Arc<str>),
    /// RE2 on the whole path.
    Regex(Arc<str>),
    /// Paths that begin with this text.
    Prefix(Arc<str>),
}

impl Path {
    /// The text of it.
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Path::Exact(text) | Path::Regex(text) | Path::Prefix(text) => text,
        }
    }
}

/// `path prefix: "/foo"`.
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

/// A path below a prefix; both begin with a slash or are empty. A path that is only a slash adds nothing.
///
/// Contour joins the texts, so that `/foo` and `/` are `/foo/` there. `/foo/` that somebody wrote stays what it is.
pub(crate) fn join(prefix: &str, path: &str) -> String {
    let all = match (prefix, path) {
        ("" | "/", path) => path.to_owned(),
        (prefix, "" | "/") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}{path}"),
    };
    single_slashes(&all)
}

/// A regular expression below a prefix, of which every character means itself.
pub(crate) fn join_regex(prefix: &str, pattern: &str) -> String {
    format!("{}{pattern}", regex_syntax::escape(prefix.trim_end_matches('/')))
}

/// The prefix that a route has where neither it nor its includes name one.
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
