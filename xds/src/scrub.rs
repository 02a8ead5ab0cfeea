//! Scrubbing of Envoy's messages about refusals: removal of possible secrets and of useless text.
//!
//! A message can contain the whole refused resource, including a private key. No such text may be used anywhere
//! (status, events, logs, diagnostics) before it is scrubbed.

use crate::limits::REFUSAL_CHARS_MAX;

/// Maximum length of a message that is read, in bytes; Envoy itself truncates it after 4096 characters.
const REFUSAL_READ_BYTES_MAX: usize = 16 << 10;

/// Replacement for removed text.
const REDACTED: &str = "[redacted]";

/// Markers at the start of a dump of a protobuf message; they differ between processes.
const DUMP_MARKERS: [&str; 4] = ["goo.gle/debug", "debugonly", "debugproto", "debugstr"];

/// Markers of the reason, which follows the dump.
const REASON_MARKERS: [&str; 2] = ["Proto constraint validation failed", "Proto field validation failed"];

/// Fields with a value that is never shown. The text after such a field, up to the end, is removed.
const SECRET_FIELDS: [&str; 17] = [
    "private_key",
    "privatekey",
    "private key-",
    "inline_string",
    "inlinestring",
    "inline_bytes",
    "inlinebytes",
    "password",
    "passwd",
    "passphrase",
    "pkcs12",
    "session_ticket_keys",
    "generic_secret",
    "hmac_secret",
    "token_secret",
    "client_secret",
    "authorization",
];

/// Returns the message without dumps, keys and control characters, at most [`REFUSAL_CHARS_MAX`] characters.
///
/// Equal text gives an equal result. The result is for operators: its wording differs between processes.
pub fn scrub(message: &str) -> String {
    let text = without_dump(&message[..message.floor_char_boundary(REFUSAL_READ_BYTES_MAX)]);
    let text = without_pem(&text);
    let text = without_secret_fields(&text);
    cut(&text)
}

/// Keeps only the reason of each `<dump>: Proto constraint validation failed (…)`, and nothing of a truncated dump.
fn without_dump(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    let mut in_dump = false;
    loop {
        let next = DUMP_MARKERS.iter().filter_map(|marker| Some((find(rest, marker)?, marker.len()))).min();
        let part = next.map_or(rest, |(at, _)| &rest[..at]);
        if !in_dump {
            kept.push_str(part);
        } else if let Some(reason) = REASON_MARKERS.iter().filter_map(|marker| part.rfind(marker)).max() {
            kept.push_str(&part[reason..]);
        } else if !kept.ends_with(REDACTED) {
            kept.push_str(REDACTED);
        }
        let Some((at, length)) = next else { return kept };
        rest = &rest[at + length..];
        in_dump = true;
    }
}

/// Removes `-----BEGIN …-----` up to the end of its block, or of the text where the block is truncated.
fn without_pem(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("-----BEGIN") {
        kept.push_str(&rest[..start]);
        kept.push_str(REDACTED);
        let block = &rest[start..];
        rest = block
            .find("-----END")
            .and_then(|end| {
                let after = &block[end + "-----END".len()..];
                after.find("-----").map(|dashes| &after[dashes + "-----".len()..])
            })
            .unwrap_or("");
    }
    kept.push_str(rest);
    kept
}

/// Truncates the text after the first field with a secret.
fn without_secret_fields(text: &str) -> String {
    let first = SECRET_FIELDS.iter().filter_map(|field| Some((value_of(text, field)?, *field))).min();
    match first {
        Some((end, _)) => format!("{} {REDACTED}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the end of the first occurrence of a field with a value, as in `name: …`, `name { …` or `name="…`.
fn value_of(text: &str, field: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = find(&text[from..], field) {
        let end = from + at + field.len();
        let next = text[end..].trim_start_matches(['"', '\'', ' ', '\\', '\n', '\r', '\t']).chars().next();
        if matches!(next, Some(':' | '{' | '=' | '[')) || field.ends_with('-') {
            return Some(end);
        }
        from = end;
    }
    None
}

/// Returns the position of a word in any case. The word is ASCII, so the position is at a character boundary.
fn find(text: &str, word: &str) -> Option<usize> {
    text.as_bytes().windows(word.len()).position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns one line without control characters and runs of spaces, truncated to its maximum length.
fn cut(text: &str) -> String {
    let mut line = String::new();
    let mut length = 0;
    for character in text.chars() {
        let character = if character.is_whitespace() || character.is_control() { ' ' } else { character };
        if character == ' ' && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        if length == REFUSAL_CHARS_MAX - 1 {
            line.push('…');
            break;
        }
        line.push(character);
        length += 1;
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const KEY: &str = "MIIEvQIBADANBgkqCANARY";

    #[test]
    fn ordinary_words_stay_as_they_are() {
        for message in [
            "no argument for repetition operator: *",
            "missing ]: [",
            "Error adding/updating listener(s) l1: error adding listener: 'l1' has duplicate address '0.0.0.0:80'",
            "Failed to load private key from <inline>, Cause: error:0b000074:X.509 certificate routines:KEY_VALUES_MISMATCH",
            "Only unique values for domains are permitted. Duplicate entry of domain h3.example.com in route big",
        ] {
            assert_eq!(scrub(message), message);
        }
    }

    #[test]
    fn of_a_dump_only_the_constraint_is_left() {
        let message = format!(
            "goo.gle/debugonly   name: \"big\" virtual_hosts {{ name: \"vhost-0\" private_key {{ inline_string: \"{KEY}\" }} }}: \
             Proto constraint validation failed (RouteConfigurationValidationError.VirtualHosts[7]: embedded message failed \
             validation | caused by VirtualHostValidationError.Domains: value must contain at least 1 item(s))"
        );
        let scrubbed = scrub(&message);
        assert!(
            scrubbed
                .starts_with("Proto constraint validation failed (RouteConfigurationValidationError.VirtualHosts[7]")
        );
        assert!(!scrubbed.contains(KEY) && !scrubbed.contains("vhost-0"));
    }

    #[test]
    fn a_dump_that_was_cut_off_is_left_out_whole() {
        let message = format!("Error adding/updating listener(s) l1: debugproto  {{ x: \"{KEY}\" …(truncated)");
        assert_eq!(scrub(&message), "Error adding/updating listener(s) l1: [redacted]");
    }

    #[test]
    fn no_form_of_a_private_key_gets_through() {
        for message in [
            format!("bad: -----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY----- after"),
            format!("bad: -----BEGIN RSA PRIVATE KEY-----\\n{KEY}"),
            format!("tls {{ private_key {{ inline_string: \"{KEY}\" }} }}"),
            format!("tls {{ private_key: {{ inline_bytes: \"{KEY}\" }} }}"),
            format!("{{\"privateKey\":{{\"inlineBytes\":\"{KEY}\"}}}}"),
            format!("{{\"inlineString\" : \"{KEY}\"}}"),
            format!("PASSWORD=\"{KEY}\""),
            format!("goo.gle/debugstr   private_key {{ inline_string: \"{KEY}"),
            format!(
                "l1: goo.gle/debug1 a: Proto constraint validation failed (A)\nl2: goo.gle/debug1 b {KEY} (truncated)"
            ),
            format!("x Proto constraint validation failed y goo.gle/debugproto {KEY}"),
        ] {
            let scrubbed = scrub(&message);
            assert!(!scrubbed.contains(KEY), "{scrubbed}");
            assert!(!scrubbed.contains("CANARY"), "{scrubbed}");
        }
    }

    #[test]
    fn text_around_a_block_stays() {
        let message = format!("before -----BEGIN CERTIFICATE-----\n{KEY}\n-----END CERTIFICATE-----\nafter");
        assert_eq!(scrub(&message), "before [redacted] after");
    }

    #[test]
    fn it_is_one_line_of_bounded_length() {
        let scrubbed = scrub(&format!("a\u{1b}[31m\nb\r\n\tc\u{0}{}", "ü".repeat(5000)));
        assert!(scrubbed.starts_with("a [31m b c ü"));
        assert_eq!(scrubbed.chars().count(), REFUSAL_CHARS_MAX);
        assert!(!scrubbed.chars().any(char::is_control));
    }
}
