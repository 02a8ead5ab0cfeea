//! Detection of credentials outside of Secrets: headers that carry a credential, by name and by value.
//!
//! Users write API keys and `Authorization` headers directly into routes and policies. Such values are left out of
//! diagnostics, and are sealed or not written to the disk, like the content of a Secret.

use std::sync::OnceLock;

use regex::bytes::Regex;

/// Words without which an encoded resource has no credential: words of header names, the types of Envoy's filters and
/// transport sockets with keys, and PEM. A match alone is no proof.
const HINTS: &str = "(?i-u)authorization|cookie|token|secret|passw|passphrase|credential|signature|jwt|api[^a-z0-9]?key|\
                     access[^a-z0-9]key|private[^a-z0-9]key|auth[^a-z0-9]key|bearer |basic |basic_auth|digest |\
                     negotiate |aws|eyJ|TlsContext|tls_certificate";

/// Words of a header name that mark its value as a credential.
const WORDS: [&str; 12] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "apikey",
    "signature",
    "jwt",
];

/// Pairs of consecutive words that mark a credential.
const PAIRS: [(&str, &str); 4] = [("api", "key"), ("access", "key"), ("private", "key"), ("auth", "key")];

/// Prefixes of values of common authentication schemes, in lower case (RFC 9110 §11.4 and the registry of
/// authentication schemes).
const SCHEMES: [&str; 6] = ["bearer ", "basic ", "digest ", "negotiate ", "aws4-hmac-sha256 ", "token "];

/// Returns whether a header of this name carries a credential.
pub fn is_credential_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let pair = |pair: &[&str]| matches!(pair, [one, other] if PAIRS.contains(&(*one, *other)));
    words.iter().any(|word| WORDS.contains(word) || *word == "cookie2") || words.windows(2).any(pair)
}

/// Returns whether this is the value of a credential, whatever the name of the header is.
pub fn is_credential_value(value: &str) -> bool {
    let value = value.trim_start();
    let beginning = value.get(..value.floor_char_boundary(20)).unwrap_or_default().to_ascii_lowercase();
    SCHEMES.iter().any(|scheme| beginning.starts_with(scheme)) || is_jwt(value)
}

/// Returns whether an encoded resource may have a credential. The cost is linear in its size; most resources need no
/// further check.
pub(crate) fn may_hold(body: &[u8]) -> bool {
    static HINTED: OnceLock<Option<Regex>> = OnceLock::new();
    HINTED.get_or_init(|| Regex::new(HINTS).ok()).as_ref().is_none_or(|hints| hints.is_match(body))
}

/// Returns whether this header has a credential. A value that Envoy computes for each request (`%REQ(x)%`) is none.
pub fn is_credential(name: &str, value: &str) -> bool {
    let is_made = value.len() > 1 && value.starts_with('%') && value.ends_with('%') && !value.contains(' ');
    !value.is_empty() && !is_made && (is_credential_header(name) || is_credential_value(value))
}

/// Returns whether the value has three parts of base64url, the first of which is a JSON object (RFC 7519 §3).
fn is_jwt(value: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    let mut parts = value.trim_end().split('.');
    value.starts_with("eyJ")
        && parts.by_ref().take(3).filter(|part| is_part(part)).count() == 3
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_a_hint() {
        let pairs = PAIRS.iter().map(|(one, other)| format!("{one}-{other}"));
        let words = WORDS.iter().chain(&SCHEMES).map(|word| (*word).to_owned());
        for word in words.chain(pairs).chain(["eyJhbGciOiJub25lIn0".to_owned()]) {
            assert!(may_hold(format!("\x0a\x10{}\x12", word.to_uppercase()).as_bytes()), "{word}");
        }
        assert!(!may_hold(b"x-request-id: 7"));
    }

    #[test]
    fn names_that_carry_credentials() {
        let carrying = [
            "Authorization",
            "proxy-authorization",
            "Cookie",
            "set-cookie",
            "x-api-key",
            "X-Api-Key-Id",
            "apikey",
            "x-auth-token",
            "X-Amz-Security-Token",
            "x_client_secret",
            "x-access-key",
            "x-goog-iap-jwt-assertion",
        ];
        for name in carrying {
            assert!(is_credential_header(name), "{name}");
        }
        for name in
            ["x-request-id", "accept", "x-monkey", "cache-key", "authority", ":authority", "x-cookies-allowed-by"]
        {
            assert!(!is_credential_header(name), "{name}");
        }
    }

    #[test]
    fn values_that_are_credentials() {
        for value in
            ["Bearer abc", "basic dXNlcjpwYXNz", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln", "AWS4-HMAC-SHA256 C=x"]
        {
            assert!(is_credential("x-upstream", value), "{value}");
        }
        for value in ["", "%REQ(authorization)%", "basically", "eyJ", "eyJhbGciOiJub25lIn0.two", "no-store"] {
            assert!(!is_credential("x-upstream", value), "{value}");
        }
        assert!(is_credential("authorization", "anything"));
        assert!(is_credential("authorization", "Bearer %REQ(x)% fixed"));
        assert!(!is_credential("authorization", "%REQ(x-token)%"));
    }
}
