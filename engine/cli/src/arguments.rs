//! Types of flag values: their form, parsing and error messages.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use holdfast_api::apis::decode::NAME_BYTES_MAX;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_api::settings::{BACKFILL_UNRESOLVED_REFERENCES, FALLBACK_CONFIGURATION, INVALID_ROUTE_REPLACEMENT};
use holdfast_check::duration;
pub use holdfast_envoy::bootstrap::address::{ListenAddress, ServerAddress, socket_address, socket_path};
use holdfast_graph::ObjectKey;

/// Maximum size of a direct response body that Envoy accepts, in bytes.
pub const RESPONSE_BODY_BYTES_MAX: usize = 4096;
/// Bounds of the probe timeout.
const PROBE_TIMEOUT_MIN: Duration = Duration::from_millis(100);
const PROBE_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// A known feature gate.
struct Gate {
    name: &'static str,
    default: bool,
}

const GATES: &[Gate] = &[
    Gate { name: BACKFILL_UNRESOLVED_REFERENCES, default: false },
    Gate { name: FALLBACK_CONFIGURATION, default: false },
    Gate { name: INVALID_ROUTE_REPLACEMENT, default: true },
];

/// All feature gates with their defaults.
pub fn gates() -> impl Iterator<Item = (&'static str, bool)> {
    GATES.iter().map(|gate| (gate.name, gate.default))
}

/// The setting of a feature gate, `GATE=BOOL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateSetting {
    name: &'static str,
    on: bool,
}

impl FromStr for GateSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected GATE=BOOL, as in InvalidRouteReplacement=false")?;
        let Some(gate) = GATES.iter().find(|gate| gate.name == name) else {
            let known: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
            return Err(format!("unknown feature gate {name:?}; the feature gates are {}", known.join(", ")));
        };
        let on = match value {
            "true" => true,
            "false" => false,
            _ => return Err(format!("{name} must be true or false, not {value:?}")),
        };
        Ok(Self { name: gate.name, on })
    }
}

/// Returns whether a feature gate is on: its last setting, or its default.
pub fn gate(settings: &[GateSetting], name: &str) -> bool {
    let set = settings.iter().rev().find(|setting| setting.name == name).map(|setting| setting.on);
    set.unwrap_or_else(|| GATES.iter().any(|gate| gate.name == name && gate.default))
}

/// A value, or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switchable<T>(pub Option<T>);

impl FromStr for Switchable<SocketAddr> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self(None)) } else { socket_address(text).map(|address| Self(Some(address))) }
    }
}

impl FromStr for Switchable<ListenAddress> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|listen| Self(Some(listen))) }
    }
}

/// `namespace/name` of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayName(pub String);

impl GatewayName {
    /// The object key of the Gateway.
    pub fn key(&self) -> ObjectKey {
        let (namespace, name) = self.0.split_once('/').unwrap_or_default();
        ObjectKey::new(GROUP, kinds::GATEWAY, namespace, name)
    }
}

impl FromStr for GatewayName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = namespaced(text).map(|_| Self(text.to_owned()));
        named.ok_or_else(|| "expected the Gateway as NAMESPACE/NAME".into())
    }
}

/// `namespace/name` of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName(ObjectKey);

impl SecretName {
    /// The object key of the Secret.
    pub fn key(&self) -> ObjectKey {
        self.0.clone()
    }
}

impl FromStr for SecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = namespaced(text).map(|(namespace, name)| Self(scheme::secret_key(namespace, name)));
        named.ok_or_else(|| "expected the Secret as NAMESPACE/NAME".into())
    }
}

/// Parses a name that is a DNS label.
pub(crate) fn label(text: &str) -> Result<String, String> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(legal) {
        return Err("the name may contain only lower-case letters, digits and '-'".into());
    }
    Ok(text.to_owned())
}

/// Splits `namespace/name` and checks both parts.
fn namespaced(text: &str) -> Option<(&str, &str)> {
    let good = |part: &str| {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        !part.is_empty() && part.len() <= NAME_BYTES_MAX && part.bytes().all(legal)
    };
    text.split_once('/').filter(|(namespace, name)| good(namespace) && good(name))
}

/// Parses a response body of a size that Envoy accepts.
pub(super) fn response_body(text: &str) -> Result<String, String> {
    if text.len() > RESPONSE_BODY_BYTES_MAX {
        return Err(format!("the body may have at most {RESPONSE_BODY_BYTES_MAX} bytes; this body has {}", text.len()));
    }
    Ok(text.to_owned())
}

/// Parses the timeout of the probe.
pub(super) fn probe_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration::duration(text).map_err(|fault| fault.to_string())?;
    if (PROBE_TIMEOUT_MIN..=PROBE_TIMEOUT_MAX).contains(&timeout) {
        return Ok(timeout);
    }
    Err(format!("the timeout must be from {PROBE_TIMEOUT_MIN:?} to {PROBE_TIMEOUT_MAX:?}"))
}

/// Parses a maximum age, which must be longer than zero.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let age = duration::duration(text).map_err(|fault| fault.to_string())?;
    if age.is_zero() { Err("the age must be greater than zero".into()) } else { Ok(age) }
}

/// Parses a log level or log directives.
pub(super) fn log_level(text: &str) -> Result<String, String> {
    let is_level = |text: &str| matches!(text, "off" | "error" | "warn" | "info" | "debug" | "trace");
    let directive = |text: &str| {
        text.split_once('=').map_or(is_level(text), |(target, level)| !target.is_empty() && is_level(level))
    };
    if text.split(',').all(directive) {
        return Ok(text.to_owned());
    }
    Err("expected one of off, error, warn, info, debug, trace, or directives such as info,holdfast_xds=debug".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_defaults_and_the_last_setting_counts() {
        assert!(gate(&[], INVALID_ROUTE_REPLACEMENT));
        assert!(!gate(&[], FALLBACK_CONFIGURATION));
        let settings: Vec<GateSetting> = ["InvalidRouteReplacement=false", "InvalidRouteReplacement=true"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        assert!(gate(&settings, INVALID_ROUTE_REPLACEMENT));
        assert!(!gate(&settings[..1], INVALID_ROUTE_REPLACEMENT));
    }
}
