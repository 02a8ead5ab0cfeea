//! Envoy format strings: commands that are allowed between percent signs.
//!
//! Envoy refuses a whole RouteConfiguration because of one unknown command. The allowed commands are those that every
//! supported Envoy knows, and that reveal nothing about the Envoy process.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#command-operators>

use serde_json::Value;

use super::meter::{Meter, OutOfSteps};
use super::number::{self, NumberFault};
use super::{Excerpt, header};

/// Deepest nesting of a format in JSON. A level needs three nested messages, and decoders accept 100 nested messages.
pub const DEPTH_MAX: usize = 16;

/// Commands without arguments.
const COMMANDS: [&str; 40] = [
    "BYTES_RECEIVED",
    "BYTES_SENT",
    "CONNECTION_ID",
    "CONNECTION_TERMINATION_DETAILS",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_LOCAL_SUBJECT",
    "DOWNSTREAM_LOCAL_URI_SAN",
    "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CERT_V_END",
    "DOWNSTREAM_PEER_CERT_V_START",
    "DOWNSTREAM_PEER_FINGERPRINT_1",
    "DOWNSTREAM_PEER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_PEER_SERIAL",
    "DOWNSTREAM_PEER_SUBJECT",
    "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_REMOTE_PORT",
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION",
    "DURATION",
    "FILTER_CHAIN_NAME",
    "HOSTNAME",
    "LOCAL_REPLY_BODY",
    "PROTOCOL",
    "REQUESTED_SERVER_NAME",
    "RESPONSE_CODE",
    "RESPONSE_CODE_DETAILS",
    "RESPONSE_FLAGS",
    "ROUTE_NAME",
    "START_TIME",
    "STREAM_ID",
    "UPSTREAM_CLUSTER",
    "UPSTREAM_REMOTE_ADDRESS",
];
/// Maximum number of digits of the maximum length in a command.
const LENGTH_DIGITS_MAX: usize = 5;

/// Reason why a format cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FormatFault {
    /// A command between percent signs that Envoy does not know.
    #[error("%{command}% is not a command that Envoy substitutes; write %% for a percent sign")]
    Command {
        /// The command, shortened.
        command: String,
    },
    /// Neither a text nor a JSON object, or both, or an empty one.
    #[error("exactly one of text and json must be set, and not be empty")]
    Form,
    /// The format is too large.
    #[error("{0}")]
    Large(NumberFault),
    /// The format is nested too deeply.
    #[error("json is nested deeper than {DEPTH_MAX} steps")]
    Deep,
    /// The content type is not a valid header value.
    #[error("{0} is not a valid content type")]
    ContentType(Excerpt),
    /// The check takes too many steps.
    #[error("{0}")]
    Costly(#[from] OutOfSteps),
}

/// Checks a format.
pub fn check(text: &str) -> Result<(), FormatFault> {
    counted(text).0
}

/// Checks a format, and returns the number of steps: at most [`STEPS_PER_BYTE_MAX`](super::meter::STEPS_PER_BYTE_MAX)
/// for each byte.
pub fn counted(text: &str) -> (Result<(), FormatFault>, usize) {
    let meter = Meter::linear(text);
    (judge(text, &meter), meter.spent())
}

fn judge(text: &str, meter: &Meter) -> Result<(), FormatFault> {
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('%') {
        meter.spend(plain.len() + 1)?;
        if let Some(tail) = after.strip_prefix('%') {
            rest = tail;
            continue;
        }
        let split = after.split_once('%');
        // A command is scanned for its length, for its argument and for each part of the argument.
        meter.spend(4 * split.map_or(after, |(command, _)| command).len())?;
        match split {
            Some((command, tail)) if is_command(command) => rest = tail,
            Some((command, _)) => return Err(FormatFault::unknown(command)),
            None => return Err(FormatFault::unknown(after)),
        }
    }
    Ok(())
}

impl FormatFault {
    /// Returns the fault for an unknown command.
    pub(super) fn unknown(command: &str) -> Self {
        Self::Command { command: command.chars().take(64).filter(|c| !c.is_control()).collect() }
    }
}

/// Returns whether Envoy knows the command.
fn is_command(command: &str) -> bool {
    let (command, length) = match command.rsplit_once("):") {
        Some((command, digits)) => (format!("{command})"), Some(digits)),
        None => (command.to_owned(), None),
    };
    let is_length = |digits: &str| {
        (1..=LENGTH_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
    };
    let metadata = command.strip_prefix("DYNAMIC_METADATA(").and_then(|rest| rest.strip_suffix(')'));
    if let Some(path) = metadata {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let is_step = |step: &str| !step.is_empty() && step.chars().all(legal);
        return path.split(':').all(is_step) && length.is_none_or(is_length);
    }
    let argument = ["REQ(", "RESP("].iter().find_map(|prefix| command.strip_prefix(prefix)?.strip_suffix(')'));
    match argument {
        Some(argument) => {
            let (first, second) = argument.split_once('?').map_or((argument, None), |(a, b)| (a, Some(b)));
            is_header(first) && second.is_none_or(is_header) && length.is_none_or(is_length)
        }
        None => length.is_none() && COMMANDS.contains(&command.as_str()),
    }
}

/// Returns the name of the header where the format is one request header and nothing else.
pub fn single_header(text: &str) -> Option<&str> {
    let name = text.strip_prefix("%REQ(")?.strip_suffix(")%")?;
    is_header(name).then_some(name)
}

fn is_header(name: &str) -> bool {
    let name = name.strip_prefix(':').unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Checks the format of a body.
pub fn body(text: Option<&str>, json: Option<&Value>, content_type: Option<&str>) -> Result<(), FormatFault> {
    if let Some(content_type) = content_type.filter(|content_type| header::value(content_type).is_err()) {
        return Err(FormatFault::ContentType(Excerpt::new(content_type)));
    }
    match (text, json) {
        (Some(text), None) if !text.is_empty() => {
            number::body(text.as_bytes()).map_err(FormatFault::Large)?;
            check(text)
        }
        (None, Some(json @ Value::Object(_))) => {
            every_text(json, DEPTH_MAX)?;
            number::body(json.to_string().as_bytes()).map_err(FormatFault::Large)
        }
        _ => Err(FormatFault::Form),
    }
}

/// Checks every text in a value, except keys.
fn every_text(value: &Value, depth: usize) -> Result<(), FormatFault> {
    let below = depth.checked_sub(1).ok_or(FormatFault::Deep)?;
    match value {
        Value::String(text) => check(text),
        Value::Array(values) => values.iter().try_for_each(|value| every_text(value, below)),
        Value::Object(fields) => fields.values().try_for_each(|value| every_text(value, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_commands_of_envoy_are_allowed_between_percent_signs() {
        let fine = [
            "plain",
            "100%%",
            "%REQ(x-a)%",
            "a %HOSTNAME% %% b",
            "%%%PROTOCOL%%%",
            "%REQ(:path)%",
            "%REQ(x-a?:authority):20%",
            "%RESP(server)% %RESPONSE_CODE%",
            "%DYNAMIC_METADATA(a.b:c)%",
        ];
        for text in fine {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let wrong = [
            ("100%", ""),
            ("%REQ(x", "REQ(x"),
            ("%NOBODY%", "NOBODY"),
            ("%%%", ""),
            ("%REQ(a?)%", "REQ(a?)"),
            ("%REQ(a b)%", "REQ(a b)"),
            ("%REQ(a):x%", "REQ(a):x"),
            ("%HOSTNAME():3%", "HOSTNAME():3"),
            ("%ENVIRONMENT(HOME)%", "ENVIRONMENT(HOME)"),
            ("%DYNAMIC_METADATA(a::c)%", "DYNAMIC_METADATA(a::c)"),
        ];
        for (text, command) in wrong {
            assert_eq!(check(text), Err(FormatFault::Command { command: command.into() }), "{text}");
        }
        assert_eq!(single_header("%REQ(x-a)%"), Some("x-a"));
        assert_eq!(single_header("%REQ(x-a)% "), None);
        assert_eq!(single_header("%REQ(x-a?b)%"), None);
    }

    #[test]
    fn steps_grow_with_the_text_and_not_faster() {
        let pieces = ["a", "%%", "%HOSTNAME%", "%REQ(a?b):5%", "%DYNAMIC_METADATA(a:b:c)%", "%REQ(a", "):", "?", ":"];
        for piece in pieces {
            for begin in ["", "%", "%REQ(", "%DYNAMIC_METADATA("] {
                let steps = |times: usize| counted(&format!("{begin}{}", piece.repeat(times))).1;
                assert!(steps(2000) <= 2 * steps(1000) + 100, "{begin}{piece}");
            }
        }
    }

    #[test]
    fn bodies_have_one_form_and_limits() {
        let of_json = |json: &Value| body(None, Some(json), None);
        assert_eq!(body(Some("a"), None, Some("text/html")), Ok(()));
        assert_eq!(of_json(&json!({"a": ["%REQ(a)%", 1, null]})), Ok(()));
        assert!(matches!(of_json(&json!({"a": ["%NO%"]})), Err(FormatFault::Command { .. })));
        let mut deep = json!("a");
        for _ in 1..DEPTH_MAX {
            deep = json!([deep]);
        }
        assert_eq!(of_json(&json!({ "a": deep })), Err(FormatFault::Deep));
        assert_eq!(of_json(&json!({ "a": deep[0] })), Ok(()));
        assert!(matches!(of_json(&json!({"a": "x".repeat(4096)})), Err(FormatFault::Large(_))));
        assert!(matches!(body(Some("a"), None, Some("a\nb")), Err(FormatFault::ContentType(_))));
        for (text, json) in [(None, None), (Some(""), None), (Some("a"), Some(json!({}))), (None, Some(json!([])))] {
            assert_eq!(body(text, json.as_ref(), None), Err(FormatFault::Form));
        }
    }
}
