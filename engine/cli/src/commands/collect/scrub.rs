//! Removal of credentials from pages and the log, in addition to what the pages leave out themselves.
//!
//! What is recognized: blocks of PEM, tokens of the form of a JWT, values after the name of an authentication scheme, and
//! values of fields with the name of a credential.

use std::sync::OnceLock;

use holdfast_api::apis::shown::redact;
use regex::{Captures, Regex};
use serde_json::Value;

const REDACTED: &str = "[redacted]";

/// What must never be in a scrubbed text of [`test`].
const CANARY: &str = "hunter2";

/// Texts with the canary in every form that is recognized, as JSON and as lines.
const CANARIES: [&str; 8] = [
    r#"{"headers": [{"name": "authorization", "value": "hunter2"}]}"#,
    r#"{"context": {"x-api-key": "hunter2"}, "password": "hunter2"}"#,
    r#"{"message": "the value Bearer hunter2x9 is not valid"}"#,
    "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n",
    "WARN refused message=\"authorization: Basic aHVudGVyMg== hunter2\" password=hunter2\n",
    "set-cookie: session=hunter2\nX-Api-Key: 'hunter2'\n",
    "token=\"hunter2\" client_secret: hunter2\n",
    "eyJhbGciOiJub25lIn0.hunter2.hunter2\n",
];

/// The patterns of text.
struct Patterns {
    pem: Regex,
    jwt: Regex,
    scheme: Regex,
    /// A header takes the rest of its line.
    header: Regex,
    field: Regex,
}

fn patterns() -> Option<&'static Patterns> {
    static PATTERNS: OnceLock<Option<Patterns>> = OnceLock::new();
    let compiled = || {
        Some(Patterns {
            pem: Regex::new(r"(?s)-----BEGIN [^-]*-----.*?(-----END [^-]*-----|\z)").ok()?,
            jwt: Regex::new(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*").ok()?,
            scheme: Regex::new(r"(?i)\b(bearer|basic|digest|negotiate) +([A-Za-z0-9._~+/=-]{6,})").ok()?,
            header: Regex::new(r#"(?i)\b(authorization|proxy-authorization|cookie|set-cookie)(\s*[:=][ \t]*)[^"\n]+"#)
                .ok()?,
            field: Regex::new(concat!(
                r"(?i)([a-z0-9_.-]*(?:authorization|cookie|token|secret|passw|passphrase|credential|api[_-]?key)",
                r#"[a-z0-9_.-]*)("?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;}]+)"#,
            ))
            .ok()?,
        })
    };
    PATTERNS.get_or_init(compiled).as_ref()
}

/// Returns a page without credentials. A page that should be JSON and is not is treated as text.
pub(super) fn scrubbed(name: &str, body: &[u8]) -> String {
    if name.ends_with(".json")
        && let Ok(mut document) = serde_json::from_slice::<Value>(body)
    {
        redact(&mut document);
        scrub_texts(&mut document);
        return format!("{document:#}\n");
    }
    scrub_text(&String::from_utf8_lossy(body))
}

/// Checks that the canaries disappear.
///
/// # Errors
/// Returns the reason why no archive may be written.
pub(super) fn test() -> Result<(), String> {
    for canary in CANARIES {
        let name = if canary.starts_with('{') { "canary.json" } else { "canary.txt" };
        if scrubbed(name, canary.as_bytes()).contains(CANARY) {
            return Err("the removal of credentials does not pass its test: no archive is written".into());
        }
    }
    Ok(())
}

/// Removes what has the form of a credential from all texts of a document.
fn scrub_texts(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(scrub_texts),
        Value::Array(values) => values.iter_mut().for_each(scrub_texts),
        Value::String(text) => *text = scrub_message(text),
        _ => {}
    }
}

/// Removes what has the form of a credential.
fn scrub_message(text: &str) -> String {
    let Some(patterns) = patterns() else { return REDACTED.to_owned() };
    let text = patterns.pem.replace_all(text, REDACTED);
    let text = patterns.jwt.replace_all(&text, REDACTED);
    let scheme = |found: &Captures<'_>| {
        // "basic authentication" is no credential.
        let is_word = found[2].bytes().all(|byte| byte.is_ascii_lowercase());
        if is_word { found[0].to_owned() } else { format!("{} {REDACTED}", &found[1]) }
    };
    patterns.scheme.replace_all(&text, scheme).into_owned()
}

/// Removes what has the form of a credential, and values after the name of one up to the end of the line.
fn scrub_text(text: &str) -> String {
    let Some(patterns) = patterns() else { return REDACTED.to_owned() };
    let text = scrub_message(text);
    let redacted = |found: &Captures<'_>| format!("{}{}{REDACTED}", &found[1], &found[2]);
    let text = patterns.header.replace_all(&text, redacted);
    patterns.field.replace_all(&text, redacted).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_canary_survives() {
        for canary in CANARIES {
            let name = if canary.starts_with('{') { "canary.json" } else { "canary.txt" };
            let scrubbed = scrubbed(name, canary.as_bytes());
            assert!(!scrubbed.contains(CANARY), "{scrubbed}");
        }
        assert_eq!(test(), Ok(()));
    }

    #[test]
    fn what_is_no_credential_stays() {
        for text in [
            "INFO programmed: shop/public: http HTTP 127.0.0.1:80\n",
            "WARN basic authentication without users object=TrafficPolicy:shop/auth\n",
            "holdfast_gateways{gateway=\"shop/public\",state=\"current\"} 1\n",
        ] {
            assert_eq!(scrubbed("log.txt", text.as_bytes()), text);
        }
        let page = r#"{"object": {"kind": "Secret", "name": "cert"}, "message": "Secret shop/cert does not exist"}"#;
        assert!(scrubbed("a.json", page.as_bytes()).contains("Secret shop/cert does not exist"));
    }
}
