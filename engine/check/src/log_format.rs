//! Envoy format strings in logs and local replies: the known commands, and the arguments that each command allows.
//!
//! The tables are those of Envoy 1.40. Only Envoy can check the content of an argument.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#command-operators>

use serde_json::Value;

use super::format::{DEPTH_MAX, FormatFault};
use super::meter::{Meter, OutOfSteps};

/// Commands without an argument.
const ALONE: [&str; 125] = [
    "ACCESS_LOG_TYPE",
    "BYTES_RECEIVED",
    "BYTES_RETRANSMITTED",
    "BYTES_SENT",
    "CONNECTION_ID",
    "CONNECTION_TERMINATION_DETAILS",
    "CUSTOM_FLAGS",
    "DOWNSTREAM_CX_RTT",
    "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
    "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
    "DOWNSTREAM_DETECTED_CLOSE_TYPE",
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS",
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_ENDPOINT_ID",
    "DOWNSTREAM_DIRECT_LOCAL_PORT",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
    "DOWNSTREAM_DIRECT_REMOTE_PORT",
    "DOWNSTREAM_HANDSHAKE_DURATION",
    "DOWNSTREAM_HEADER_BYTES_RECEIVED",
    "DOWNSTREAM_HEADER_BYTES_SENT",
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID",
    "DOWNSTREAM_LOCAL_CLOSE_REASON",
    "DOWNSTREAM_LOCAL_DNS_SAN",
    "DOWNSTREAM_LOCAL_EMAIL_SAN",
    "DOWNSTREAM_LOCAL_IP_SAN",
    "DOWNSTREAM_LOCAL_OTHERNAME_SAN",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_LOCAL_SUBJECT",
    "DOWNSTREAM_LOCAL_URI_SAN",
    "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1",
    "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256",
    "DOWNSTREAM_PEER_CHAIN_SERIALS",
    "DOWNSTREAM_PEER_DNS_SAN",
    "DOWNSTREAM_PEER_EMAIL_SAN",
    "DOWNSTREAM_PEER_FINGERPRINT_1",
    "DOWNSTREAM_PEER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_IP_SAN",
    "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_PEER_ISSUER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_ISSUER_SERIAL",
    "DOWNSTREAM_PEER_OTHERNAME_SAN",
    "DOWNSTREAM_PEER_SERIAL",
    "DOWNSTREAM_PEER_SUBJECT",
    "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_PORT",
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_GROUP",
    "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION",
    "DOWNSTREAM_TRANSPORT_FAILURE_REASON",
    "DOWNSTREAM_WIRE_BYTES_RECEIVED",
    "DOWNSTREAM_WIRE_BYTES_SENT",
    "DURATION",
    "FILTER_CHAIN_NAME",
    "GRPC_STATUS_NUMBER",
    "HOSTNAME",
    "LISTENER_NAME",
    "LOCAL_REPLY_BODY",
    "PACKETS_RETRANSMITTED",
    "PROTOCOL",
    "REQUEST_DURATION",
    "REQUEST_HEADERS_BYTES",
    "REQUEST_TX_DURATION",
    "RESPONSE_CODE",
    "RESPONSE_DURATION",
    "RESPONSE_FLAGS",
    "RESPONSE_FLAGS_LONG",
    "RESPONSE_HEADERS_BYTES",
    "RESPONSE_TRAILERS_BYTES",
    "RESPONSE_TX_DURATION",
    "ROUNDTRIP_DURATION",
    "ROUTE_NAME",
    "ROUTE_RESOLUTION_COUNT",
    "ROUTE_RESOLUTION_TIME_US",
    "SPAN_ID",
    "STREAM_ID",
    "TLS_JA3_FINGERPRINT",
    "TLS_JA4_FINGERPRINT",
    "TRACE_ID",
    "UNIQUE_ID",
    "UPSTREAM_CLUSTER",
    "UPSTREAM_CLUSTER_RAW",
    "UPSTREAM_CONNECTION_ID",
    "UPSTREAM_CONNECTION_IDS_ATTEMPTED",
    "UPSTREAM_CONNECTION_POOL_READY_DURATION",
    "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
    "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
    "UPSTREAM_DETECTED_CLOSE_TYPE",
    "UPSTREAM_HEADER_BYTES_RECEIVED",
    "UPSTREAM_HEADER_BYTES_SENT",
    "UPSTREAM_HOST",
    "UPSTREAM_HOSTS_ATTEMPTED",
    "UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT",
    "UPSTREAM_HOST_NAME",
    "UPSTREAM_HOST_NAMES_ATTEMPTED",
    "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT",
    "UPSTREAM_HOST_NAME_WITHOUT_PORT",
    "UPSTREAM_LOCAL_ADDRESS",
    "UPSTREAM_LOCAL_CLOSE_REASON",
    "UPSTREAM_LOCAL_DNS_SAN",
    "UPSTREAM_LOCAL_IP_SAN",
    "UPSTREAM_LOCAL_PORT",
    "UPSTREAM_LOCAL_URI_SAN",
    "UPSTREAM_PEER_CERT",
    "UPSTREAM_PEER_DNS_SAN",
    "UPSTREAM_PEER_IP_SAN",
    "UPSTREAM_PEER_ISSUER",
    "UPSTREAM_PEER_SUBJECT",
    "UPSTREAM_PEER_URI_SAN",
    "UPSTREAM_PROTOCOL",
    "UPSTREAM_REMOTE_ADDRESS",
    "UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID",
    "UPSTREAM_REMOTE_PORT",
    "UPSTREAM_REQUEST_ATTEMPT_COUNT",
    "UPSTREAM_SERVER_NAME",
    "UPSTREAM_TLS_CIPHER",
    "UPSTREAM_TLS_GROUP",
    "UPSTREAM_TLS_SESSION_ID",
    "UPSTREAM_TLS_VERSION",
    "UPSTREAM_TRANSPORT_FAILURE_REASON",
    "UPSTREAM_WIRE_BYTES_RECEIVED",
    "UPSTREAM_WIRE_BYTES_SENT",
    "VIRTUAL_CLUSTER_NAME",
];
/// Commands with an optional argument.
const MAY_HAVE_ARGUMENT: [&str; 17] = [
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_PEER_CERT_V_END",
    "DOWNSTREAM_PEER_CERT_V_START",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "EMIT_TIME",
    "EMIT_TIME_LOCAL",
    "GRPC_STATUS",
    "REQUESTED_SERVER_NAME",
    "RESPONSE_CODE_DETAILS",
    "START_TIME",
    "START_TIME_LOCAL",
    "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "UPSTREAM_PEER_CERT_V_END",
    "UPSTREAM_PEER_CERT_V_START",
    "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
];
/// Commands with an argument.
const WITH_ARGUMENT: [&str; 4] = ["CLUSTER_METADATA", "COALESCE", "COMMON_DURATION", "UPSTREAM_METADATA"];
/// Commands with an argument and an optional maximum length.
const WITH_LENGTH: [&str; 14] = [
    "CEL",
    "DYNAMIC_METADATA",
    "FILTER_STATE",
    "METADATA",
    "QUERY_PARAM",
    "REQ",
    "REQUEST_HEADER",
    "REQ_WITHOUT_QUERY",
    "RESP",
    "RESPONSE_HEADER",
    "RESPONSE_TRAILER",
    "STREAM_INFO_REQ",
    "TRAILER",
    "UPSTREAM_FILTER_STATE",
];
/// Commands with an argument, a length, both or neither.
const FREE: [&str; 2] = ["PATH", "QUERY_PARAMS"];

/// Checks the text of a format.
pub fn check(text: &str) -> Result<(), FormatFault> {
    counted(text).0
}

/// Checks the text of a format, and returns the number of steps: at most
/// [`STEPS_PER_BYTE_MAX`](super::meter::STEPS_PER_BYTE_MAX) for each byte.
pub fn counted(text: &str) -> (Result<(), FormatFault>, usize) {
    let meter = Meter::linear(text);
    (judge(text, &meter), meter.spent())
}

fn judge(text: &str, meter: &Meter) -> Result<(), FormatFault> {
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('%') {
        meter.spend(plain.len() + 1)?;
        rest = match after.strip_prefix('%') {
            Some(rest) => rest,
            None => command(after, meter)?
                .ok_or_else(|| FormatFault::unknown(after.split_once('%').map_or(after, |(command, _)| command)))?,
        };
    }
    Ok(())
}

/// Checks every text in a value, except keys.
pub fn every_text(value: &Value) -> Result<(), FormatFault> {
    fn step(value: &Value, depth: usize) -> Result<(), FormatFault> {
        let below = depth.checked_sub(1).ok_or(FormatFault::Deep)?;
        match value {
            Value::String(text) => check(text),
            Value::Array(values) => values.iter().try_for_each(|value| step(value, below)),
            Value::Object(fields) => fields.values().try_for_each(|value| step(value, below)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
    step(value, DEPTH_MAX)
}

/// Parses the command at the beginning of a text and returns the text after it, or `None` where there is no valid
/// command.
fn command<'t>(text: &'t str, meter: &Meter) -> Result<Option<&'t str>, OutOfSteps> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let (name, after) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    meter.spend(name.len() + 1)?;
    let found = match after.strip_prefix('(') {
        None => end(after, meter)?.map(|(length, rest)| ("", length, rest)),
        Some(inner) => argument(inner, meter)?,
    };
    let Some((argument, length, rest)) = found else { return Ok(None) };
    let is_one_of = |lists: &[&[&str]]| lists.iter().any(|list| list.contains(&name));
    let fits = match (argument.is_empty(), length) {
        (true, false) => is_one_of(&[&ALONE, &MAY_HAVE_ARGUMENT, &FREE]),
        (false, false) => is_one_of(&[&MAY_HAVE_ARGUMENT, &WITH_ARGUMENT, &WITH_LENGTH, &FREE]),
        (true, true) => is_one_of(&[&FREE]),
        (false, true) => is_one_of(&[&WITH_LENGTH, &FREE]),
    };
    Ok(fits.then_some(rest))
}

/// Parses an argument, up to the first closing bracket after which the command can end, and the result of [`end`]
/// there.
fn argument<'t>(inner: &'t str, meter: &Meter) -> Result<Option<(&'t str, bool, &'t str)>, OutOfSteps> {
    let mut read = 0;
    for (at, _) in inner.match_indices(')') {
        meter.spend(at - read + 1)?;
        read = at;
        if let Some((argument, after)) = inner.get(..at).zip(inner.get(at + 1..))
            && let Some((length, rest)) = end(after, meter)?
        {
            return Ok(Some((argument, length, rest)));
        }
    }
    meter.spend(inner.len() - read)?;
    Ok(None)
}

/// Parses the end of a command, `%` or `:20%`. Returns whether there is a length, and the text after the command.
fn end<'t>(text: &'t str, meter: &Meter) -> Result<Option<(bool, &'t str)>, OutOfSteps> {
    if let Some(rest) = text.strip_prefix('%') {
        return Ok(Some((false, rest)));
    }
    let Some(digits) = text.strip_prefix(':') else { return Ok(None) };
    let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    meter.spend(count + 1)?;
    let rest = digits.get(count..).filter(|_| count > 0).and_then(|rest| rest.strip_prefix('%'));
    Ok(rest.map(|rest| (true, rest)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_grow_with_the_text_and_not_faster() {
        for piece in ["a", "%%", "%PROTOCOL%", "%REQ(a):5%", "A", ")", "):1", "):", "(", "%"] {
            for begin in ["", "%", "%REQ(", "%REQ(a):"] {
                let steps = |times: usize| counted(&format!("{begin}{}", piece.repeat(times))).1;
                assert!(steps(2000) <= 2 * steps(1000) + 100, "{begin}{piece}");
            }
        }
    }

    #[test]
    fn commands_of_envoy_are_known() {
        let fine = [
            "plain %% 100%%",
            "[%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH):200%\"",
            "%PROTOCOL% %PROTOCOL()% %RESPONSE_FLAGS_LONG%",
            "%CEL(request.headers['x'].size())%",
            "%COALESCE({\"operators\":[\"PROTOCOL\"]})%",
            "%FILTER_STATE(x:PLAIN):3% %METADATA(DYNAMIC:a:b)% %PATH% %PATH(NQ:PATH):5%",
        ];
        for text in fine {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let wrong = [
            "%NOSUCH%",
            "100%",
            "%PROTOCOL",
            "%PROTOCOL:5%",
            "%PROTOCOL(x)%",
            "%REQ%",
            "%REQ()%",
            "%REQ(a",
            "%REQ(a)",
            "%REQ(a):%",
            "%protocol%",
            "% %",
            "%START_TIME(x):3%",
            "%ENVIRONMENT(HOME)%",
            "%REQ(\u{e9}",
        ];
        for text in wrong {
            assert!(check(text).is_err(), "{text}");
        }
        assert_eq!(every_text(&json!({"a": ["%PROTOCOL%", 1, null]})), Ok(()));
        assert!(every_text(&json!({"a": [{"b": "%NOSUCH%"}]})).is_err());
    }
}
