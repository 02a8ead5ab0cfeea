//! Header policies: literal values with a limited set of variables.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::contour::policy::HeadersPolicy;
use holdfast_envoy::features::headers::{ENTRIES_MAX, HeaderEdits};

/// Variables that Envoy substitutes.
const VARIABLES: [&str; 24] = [
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
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION",
    "HOSTNAME",
    "PROTOCOL",
    "RESPONSE_CODE_DETAILS",
    "RESPONSE_FLAGS",
    "UPSTREAM_REMOTE_ADDRESS",
];

/// Variables that translation substitutes: name and value.
pub(super) type Known<'a> = [(&'a str, String)];

/// Settings of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edits {
    /// Changes to headers.
    pub(super) edits: HeaderEdits,
    /// Host header for the backend.
    pub(super) host: Option<Arc<str>>,
    /// Request header that is copied to the host header for the backend.
    pub(super) host_from: Option<Arc<str>>,
}

/// The values of the host header that a policy may set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HostValues {
    /// None.
    Refused,
    /// A literal one.
    Literal,
    /// A literal one, or the value of another header of the request.
    LiteralOrHeader,
}

/// Reads a policy.
pub(super) fn read(policy: Option<&HeadersPolicy>, hosts: HostValues, known: &Known<'_>) -> Result<Edits, String> {
    let mut all = Edits::default();
    let Some(policy) = policy else { return Ok(all) };
    let (set, remove) = (policy.set.as_deref().unwrap_or_default(), policy.remove.as_deref().unwrap_or_default());
    if set.len() > ENTRIES_MAX * 4 || remove.len() > ENTRIES_MAX * 4 {
        return Err(format!("more than {} headers", ENTRIES_MAX * 4));
    }
    let mut names = BTreeSet::new();
    for entry in set {
        let (name, value) = (entry.name.to_ascii_lowercase(), &*entry.value);
        let shown = canonical(&entry.name);
        if !names.insert(name.clone()) {
            return Err(format!("duplicate header addition: {shown:?}"));
        }
        holdfast_check::header::value(value).map_err(|fault| format!("invalid set header {shown:?}: {fault}"))?;
        if name == "host" {
            if hosts == HostValues::LiteralOrHeader
                && let Some(source) = entry.host_source()
            {
                all.host_from = Some(source.to_ascii_lowercase().into());
                continue;
            }
            let literal = !value.is_empty() && formatted(value, known)?.is_none();
            if hosts == HostValues::Refused || !literal {
                return Err(format!("rewriting {shown:?} header is not supported"));
            }
            all.host = Some(value.into());
            continue;
        }
        let name = holdfast_check::header::modifiable_name(&name)
            .map_err(|fault| format!("invalid set header {shown:?}: {fault}"))?;
        match formatted(value, known)? {
            None => all.edits.set.push((name.into(), value.into())),
            Some(format) => all.edits.set_formatted.push((name.into(), format.into())),
        }
    }
    let mut names = BTreeSet::new();
    for entry in remove {
        let shown = canonical(entry);
        let name = holdfast_check::header::modifiable_name(entry)
            .map_err(|fault| format!("invalid remove header {shown:?}: {fault}"))?;
        if !names.insert(name.clone()) {
            return Err(format!("duplicate header removal: {shown:?}"));
        }
        all.edits.remove.push(name.into());
    }
    Ok(all)
}

/// Formats `x-forwarded-for` as `X-Forwarded-For`.
fn canonical(name: &str) -> String {
    let capital = |part: &str| {
        let mut characters = part.chars();
        let first: String = characters.next().map(|c| c.to_ascii_uppercase()).into_iter().collect();
        first + &characters.as_str().to_ascii_lowercase()
    };
    name.split('-').map(capital).collect::<Vec<_>>().join("-")
}

/// Returns the value as an Envoy format if it contains a variable; all other percent signs are literal.
fn formatted(value: &str, known: &Known<'_>) -> Result<Option<String>, String> {
    holdfast_check::template::percents(value, |variable| filled(variable, known)).map_err(|fault| fault.to_string())
}

fn filled(variable: &str, known: &Known<'_>) -> Option<String> {
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == variable) {
        return Some(value.replace('%', "%%"));
    }
    is_command(variable).then(|| format!("%{variable}%"))
}

/// Checks whether Envoy substitutes this variable between percent signs.
fn is_command(variable: &str) -> bool {
    let header = variable.strip_prefix("REQ(").and_then(|rest| rest.strip_suffix(')'));
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    VARIABLES.contains(&variable) || header.is_some_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_other_percent_signs_kept() {
        let known = [("CONTOUR_NAMESPACE", "shop".to_owned())];
        let rows = [
            ("plain", None),
            ("100%", None),
            ("%WHO_KNOWS%", None),
            ("a %HOSTNAME% b", Some("a %HOSTNAME% b")),
            ("100% %PROTOCOL%", Some("100%% %PROTOCOL%")),
            ("%REQ(x-a)%", Some("%REQ(x-a)%")),
            ("%REQ(x-a?b)%", None),
            ("%CONTOUR_NAMESPACE%", Some("shop")),
            ("%%HOSTNAME%%", Some("%%%HOSTNAME%%%")),
        ];
        for (value, format) in rows {
            assert_eq!(formatted(value, &known), Ok(format.map(str::to_owned)), "{value}");
        }
    }

    #[test]
    fn names_are_shown_as_contour_shows_them() {
        assert_eq!(canonical("x-forwarded-FOR"), "X-Forwarded-For");
    }
}
