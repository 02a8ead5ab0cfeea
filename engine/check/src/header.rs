//! Validation of header names and values, methods and query parameters.
//!
//! Names are tokens (RFC 9110 §5.6.2). Envoy accepts far more in a header to add and then answers every request with
//! 503, so these checks apply the grammar of HTTP instead of what Envoy acknowledges.

use std::borrow::Cow;

use super::Excerpt;

/// Longest header or query parameter name, in bytes (as in the Gateway API schema).
pub const NAME_BYTES_MAX: usize = 256;
/// Longest header value, in bytes (as in the Gateway API schema).
pub const HEADER_VALUE_BYTES_MAX: usize = 4096;
/// Longest query parameter value, in bytes (as in the Gateway API schema).
pub const QUERY_VALUE_BYTES_MAX: usize = 1024;
/// Methods of Gateway API.
pub const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Headers that mark the end of a message or apply to one connection only. Changes to them make requests and responses
/// that the peer parses differently (RFC 9110 §7.6.1, RFC 9112 §6).
pub const FRAMING: [&str; 8] =
    ["connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

/// Reason why a header, query parameter or method cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// An empty name.
    #[error("the {what} name is empty")]
    EmptyName {
        /// "header", "query parameter" or "cookie".
        what: &'static str,
    },
    /// A name longer than [`NAME_BYTES_MAX`].
    #[error("{what} name {name} has {bytes} bytes; at most {NAME_BYTES_MAX} are allowed")]
    LongName {
        /// "header", "query parameter" or "cookie".
        what: &'static str,
        /// The name.
        name: Excerpt,
        /// Length of the name.
        bytes: usize,
    },
    /// A character that is not allowed in a token.
    #[error(
        "{what} name {name} contains {character:?}; allowed are letters, digits and any of !#$%&'*+-.^_`|~ (RFC 9110)"
    )]
    NameCharacter {
        /// "header", "query parameter" or "cookie".
        what: &'static str,
        /// The name.
        name: Excerpt,
        /// The first character that is not allowed.
        character: char,
    },
    /// Pseudo headers (`:path`) belong to HTTP/2 and cannot be modified.
    #[error("header {name} is a pseudo header; names that start with ':' cannot be added, set or removed")]
    PseudoHeader {
        /// The name.
        name: Excerpt,
    },
    /// A header that marks the end of a message or applies to one connection only.
    #[error("header {name:?} belongs to the framing of messages and connections; it cannot be added, set or removed")]
    FramingHeader {
        /// The name, in lower case.
        name: &'static str,
    },
    /// Envoy refuses modifications of `Host`.
    #[error("header \"host\" cannot be added, set or removed; use the hostname of a URLRewrite filter instead")]
    HostHeader,
    /// An empty value.
    #[error("the {what} value is empty")]
    EmptyValue {
        /// "header", "query parameter" or "cookie".
        what: &'static str,
    },
    /// A value longer than allowed.
    #[error("the {what} value has {bytes} bytes; at most {limit} are allowed")]
    LongValue {
        /// "header", "query parameter" or "cookie".
        what: &'static str,
        /// Length of the value.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A control character in a value.
    ///
    /// The value itself is left out: it may be a credential.
    #[error("the {what} value contains the control character {character:?} at byte {position}")]
    ValueCharacter {
        /// "header", "query parameter" or "cookie".
        what: &'static str,
        /// The character.
        character: char,
        /// Offset of the character in bytes, from 0.
        position: usize,
    },
    /// A method that Gateway API does not have.
    #[error(
        "method {method} is not known; methods are upper case: GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH"
    )]
    Method {
        /// The method.
        method: Excerpt,
    },
}

/// Checks the name of a header to match and returns it in lower case, as Envoy compares it.
pub fn name(name: &str) -> Result<String, HeaderFault> {
    token("header", name)?;
    Ok(name.to_ascii_lowercase())
}

/// Checks the name of a header to add, set or remove and returns it in lower case.
///
/// Besides invalid names, this function refuses pseudo headers and `host`, as Envoy does (":-prefixed or host headers
/// may not be modified"), and the headers in [`FRAMING`], which Envoy would change.
pub fn modifiable_name(name: &str) -> Result<String, HeaderFault> {
    if name.starts_with(':') {
        return Err(HeaderFault::PseudoHeader { name: Excerpt::new(name) });
    }
    let lower = self::name(name)?;
    if lower == "host" {
        return Err(HeaderFault::HostHeader);
    }
    if let Some(name) = FRAMING.into_iter().find(|name| *name == lower) {
        return Err(HeaderFault::FramingHeader { name });
    }
    Ok(lower)
}

/// Checks the value of a header, to match or to write.
///
/// Control characters except tab are refused: CR, LF and NUL are refused by Envoy, the others by the HTTP/2 codec of
/// the receiver.
pub fn value(value: &str) -> Result<(), HeaderFault> {
    plain_value("header", value, HEADER_VALUE_BYTES_MAX)
}

/// Escapes a value for Envoy format strings: `%` starts a command, `%%` is a literal percent sign.
pub fn escape_percent(value: &str) -> Cow<'_, str> {
    if value.contains('%') { Cow::Owned(value.replace('%', "%%")) } else { Cow::Borrowed(value) }
}

/// Checks the name of a cookie; names are case-sensitive and unchanged.
pub fn cookie_name(name: &str) -> Result<(), HeaderFault> {
    token("cookie", name)
}

/// Checks the name of a query parameter; names are case-sensitive and unchanged.
pub fn query_name(name: &str) -> Result<(), HeaderFault> {
    token("query parameter", name)
}

/// Checks the value of a query parameter to match.
pub fn query_value(value: &str) -> Result<(), HeaderFault> {
    plain_value("query parameter", value, QUERY_VALUE_BYTES_MAX)
}

/// Checks a method; methods are case-sensitive (RFC 9110 §9.1).
pub fn method(method: &str) -> Result<(), HeaderFault> {
    if METHODS.contains(&method) { Ok(()) } else { Err(HeaderFault::Method { method: Excerpt::new(method) }) }
}

fn token(what: &'static str, name: &str) -> Result<(), HeaderFault> {
    if name.is_empty() {
        return Err(HeaderFault::EmptyName { what });
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(HeaderFault::LongName { what, name: Excerpt::new(name), bytes: name.len() });
    }
    match name.chars().find(|character| !is_token_character(*character)) {
        Some(character) => Err(HeaderFault::NameCharacter { what, name: Excerpt::new(name), character }),
        None => Ok(()),
    }
}

/// Returns whether a request or response can have a header of this name, of any length.
pub fn is_possible(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_token_character)
}

fn is_token_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

fn plain_value(what: &'static str, value: &str, limit: usize) -> Result<(), HeaderFault> {
    if value.is_empty() {
        return Err(HeaderFault::EmptyValue { what });
    }
    if value.len() > limit {
        return Err(HeaderFault::LongValue { what, bytes: value.len(), limit });
    }
    let control = value.char_indices().find(|(_, character)| character.is_ascii_control() && *character != '\t');
    match control {
        Some((position, character)) => Err(HeaderFault::ValueCharacter { what, character, position }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_tokens_in_lower_case() {
        assert_eq!(name("X-Request-Id").unwrap(), "x-request-id");
        assert_eq!(name("a!#$%&'*+-.^_`|~9").unwrap(), "a!#$%&'*+-.^_`|~9");
        for bad in ["", "x a", "x:a", "x\na", "x\0", "ü", ":path", "a(b)", "a/b", "a,b", "a;b", "\"a\""] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
        assert!(name(&"a".repeat(256)).is_ok());
        assert!(name(&"a".repeat(257)).is_err());
    }

    #[test]
    fn pseudo_headers_and_host_cannot_be_modified() {
        assert_eq!(modifiable_name("Host").unwrap_err(), HeaderFault::HostHeader);
        assert!(matches!(modifiable_name(":path").unwrap_err(), HeaderFault::PseudoHeader { .. }));
        assert_eq!(modifiable_name("X-Host").unwrap(), "x-host");
        for name in ["Content-Length", "transfer-encoding", "Connection", "TE", "upgrade"] {
            assert!(matches!(modifiable_name(name).unwrap_err(), HeaderFault::FramingHeader { .. }), "{name}");
        }
        assert_eq!(modifiable_name("content-lengths").unwrap(), "content-lengths");
        assert_eq!(name("Host").unwrap(), "host", "matching on host is fine");
    }

    #[test]
    fn values_have_no_control_characters() {
        for good in ["a", "a b", "a\tb", "caf\u{e9}", "100%", "%REQ(x)%"] {
            assert!(value(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a\nb", "a\rb", "a\0", "a\u{7f}", "\u{1b}[0m"] {
            assert!(value(bad).is_err(), "{bad:?}");
        }
        assert!(value(&"a".repeat(4097)).is_err());
        assert!(query_value(&"a".repeat(1025)).is_err());
    }

    #[test]
    fn a_bad_value_is_not_repeated_in_the_error() {
        let fault = value("Bearer secret\n").unwrap_err();
        assert_eq!(fault.to_string(), "the header value contains the control character '\\n' at byte 13");
    }

    #[test]
    fn percent_signs_are_doubled() {
        assert!(matches!(escape_percent("abc"), Cow::Borrowed("abc")));
        assert_eq!(escape_percent("100% %REQ(a)%"), "100%% %%REQ(a)%%");
    }

    #[test]
    fn methods_are_upper_case_and_known() {
        assert!(method("GET").is_ok());
        assert!(method("get").is_err());
        assert!(method("BREW").is_err());
        assert!(method("").is_err());
    }

    proptest! {
        #[test]
        fn escaped_values_have_only_pairs_of_percent_signs(text in "[a%]{0,12}") {
            let escaped = escape_percent(&text);
            prop_assert_eq!(escaped.replace("%%", "%"), text.clone());
            prop_assert_eq!(escaped.len(), text.len() + text.matches('%').count());
        }

        #[test]
        fn checks_never_panic(text in ".*") {
            let _ = (name(&text), modifiable_name(&text), value(&text), query_name(&text), method(&text));
        }
    }
}
