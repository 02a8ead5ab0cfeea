//! Narrowing of gRPC matches that cannot be served as written: service and method are each kept as far as they are
//! readable, so that the placeholder comes before routes with fewer conditions.

use std::cmp::Reverse;

use holdfast_check::re2::Regexes;
use holdfast_envoy::model::{PathMatch, PathRank};

/// The pattern of any segment of a path.
const ANY: &str = "[^/]+";
/// The pattern of the rest of a segment.
const REST: &str = "[^/]*";

/// A service or a method.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The text as written; unset where the match has no such condition.
    pub(crate) text: Option<&'a str>,
    /// Whether the text is usable as written.
    pub(crate) usable: bool,
}

impl Part<'_> {
    /// Returns a regular expression for the segment, and the number of characters that it specifies.
    fn segment(self, regex: bool, legal: fn(char) -> bool, regexes: &Regexes) -> (String, usize) {
        let Some(text) = self.text else { return (ANY.into(), 0) };
        match (self.usable, regex) {
            (true, true) => (format!("(?:{text})"), text.chars().count()),
            (true, false) => (escaped(text), text.chars().count()),
            (false, _) => {
                let literal = self.beginning(regex, legal);
                let read = match (regex, literal.is_empty()) {
                    (false, _) => None,
                    (true, true) => regexes.beginning(text),
                    (true, false) => regexes.beginning_without_open_groups(text),
                };
                match read.filter(|read| read.min_chars > literal.chars().count()) {
                    Some(read) => (format!("{}{REST}", read.pattern), read.min_chars),
                    None if literal.is_empty() => (ANY.into(), 0),
                    None => (format!("{}{REST}", escaped(&literal)), literal.len()),
                }
            }
        }
    }

    /// Returns the characters that the text certainly begins with.
    fn beginning(self, regex: bool, legal: fn(char) -> bool) -> String {
        let text = self.text.unwrap_or_default();
        let text = if regex { holdfast_check::re2::literal_prefix(text) } else { text.to_owned() };
        text.chars().take_while(|c| legal(*c)).collect()
    }
}

/// Narrows a service and a method of which at least one is unusable.
pub(crate) fn left(service: Part<'_>, method: Part<'_>, regex: bool, regexes: &Regexes) -> (PathMatch, PathRank) {
    let (first, of_service) = service.segment(regex, in_service, regexes);
    let (second, of_method) = method.segment(regex, in_method, regexes);
    if of_service == 0 && of_method == 0 {
        return (PathMatch::Prefix("/".into()), PathRank::Last);
    }
    let pattern = format!("/{first}/{second}");
    if regexes.check(&pattern).is_ok() {
        return (PathMatch::Regex(pattern.into()), PathRank::Grpc(Reverse(of_service), Reverse(of_method)));
    }
    nothing_but_text(service, method, regex)
}

/// Narrows a service and a method without regular expressions as far as possible, where it is unknown which part is
/// unusable.
pub(crate) fn nothing_but_text(service: Part<'_>, method: Part<'_>, regex: bool) -> (PathMatch, PathRank) {
    let (service, method) = (service.beginning(regex, in_service), method.beginning(regex, in_method));
    if !service.is_empty() {
        let rank = PathRank::Grpc(Reverse(service.len()), Reverse(0));
        return (PathMatch::Text(format!("/{service}").into()), rank);
    }
    if !method.is_empty() {
        let rank = PathRank::Grpc(Reverse(0), Reverse(method.len()));
        return (PathMatch::Regex(format!("/{ANY}/{method}[^/]*").into()), rank);
    }
    (PathMatch::Prefix("/".into()), PathRank::Last)
}

/// Returns whether the name of a service may contain the character.
pub(crate) fn in_service(c: char) -> bool {
    in_method(c) || c == '.'
}

/// Returns whether the name of a method may contain the character.
pub(crate) fn in_method(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns legal text as an escaped regular expression.
fn escaped(text: &str) -> String {
    text.replace('.', "\\.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowed_path(service: Option<(&str, bool)>, method: Option<(&str, bool)>, regex: bool) -> (String, PathRank) {
        let service = Part { text: service.map(|(text, _)| text), usable: service.is_none_or(|(_, usable)| usable) };
        let method = Part { text: method.map(|(text, _)| text), usable: method.is_none_or(|(_, usable)| usable) };
        let (path, rank) = left(service, method, regex, &Regexes::of_object(holdfast_check::re2::Limits::default()));
        let text = match path {
            PathMatch::Exact(text) | PathMatch::Prefix(text) | PathMatch::Text(text) | PathMatch::Regex(text) => text,
        };
        (text.to_string(), rank)
    }

    fn grpc(service: usize, method: usize) -> PathRank {
        PathRank::Grpc(Reverse(service), Reverse(method))
    }

    #[test]
    fn the_known_part_of_a_call_stays() {
        let cases = [
            (Some(("shop\\.C[a-z", false)), Some(("Get", true)), "/shop\\.C[^/]*/(?:Get)", grpc(6, 3)),
            (Some(("shop\\..+", true)), Some(("Get[", false)), "/(?:shop\\..+)/Get[^/]*", grpc(8, 3)),
            (Some(("shop\\..+", true)), Some(("[", false)), "/(?:shop\\..+)/[^/]+", grpc(8, 0)),
            (Some(("[", false)), Some(("Get.+", true)), "/[^/]+/(?:Get.+)", grpc(0, 5)),
            (None, Some(("Get[", false)), "/[^/]+/Get[^/]*", grpc(0, 3)),
            (Some(("[", false)), Some(("(", false)), "/", PathRank::Last),
            (Some(("a|b[", false)), None, "/(?:a|b)[^/]*/[^/]+", grpc(1, 0)),
            (Some(("a?|b[", false)), None, "/", PathRank::Last),
            (Some(("(shop|cart)\\.[", false)), None, "/(?:(shop|cart)\\.)[^/]*/[^/]+", grpc(5, 0)),
        ];
        for (service, method, path, rank) in cases {
            assert_eq!(narrowed_path(service, method, true), (path.to_owned(), rank), "{service:?} {method:?}");
        }
        assert_eq!(narrowed_path(Some(("shop.C t", false)), Some(("Get", true)), false).0, "/shop\\.C[^/]*/Get");
        assert_eq!(narrowed_path(Some(("shop.Cart", true)), Some(("Ge-t", false)), false).0, "/shop\\.Cart/Ge[^/]*");
    }

    #[test]
    fn without_expressions_there_is_the_beginning_of_the_service() {
        let part = |text| Part { text: Some(text), usable: false };
        let text = |service, method| nothing_but_text(part(service), part(method), true);
        assert_eq!(text("shop\\.C[a-z]+", "Get"), (PathMatch::Text("/shop.C".into()), grpc(6, 0)));
        assert_eq!(text("[a-z]+", "Get.+"), (PathMatch::Regex("/[^/]+/Get[^/]*".into()), grpc(0, 3)));
        assert_eq!(text("[a-z]+", "[A-Z]"), (PathMatch::Prefix("/".into()), PathRank::Last));
    }
}
