//! Types of flag values: their form, parsing and error messages.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use holdfast_api::apis::decode::NAME_BYTES_MAX;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme;
use holdfast_api::settings::{BACKFILL_UNRESOLVED_REFERENCES, FALLBACK_CONFIGURATION, INVALID_ROUTE_REPLACEMENT};
use holdfast_check::duration;
use holdfast_graph::ObjectKey;

/// Maximum size of a direct response body that Envoy accepts, in bytes.
pub const RESPONSE_BODY_BYTES_MAX: usize = 4096;
/// Maximum length of a unix socket path that every operating system accepts, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;
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

/// The listen address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A loopback address and port of this host.
    Tcp(SocketAddr),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) => socket_path(path).map(ListenAddress::Unix),
            None => {
                let address: SocketAddr = socket_address(text)?;
                if !address.ip().is_loopback() {
                    return Err(format!("{} is not a loopback address", address.ip()));
                }
                Ok(ListenAddress::Tcp(address))
            }
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            ListenAddress::Tcp(address) => address.fmt(f),
        }
    }
}

/// Parses the path of a unix socket.
///
/// # Errors
/// Returns an error if the path is empty or longer than [`SOCKET_PATH_BYTES_MAX`].
pub fn socket_path(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("expected a path after unix:".into());
    }
    if path.len() > SOCKET_PATH_BYTES_MAX {
        return Err(format!(
            "the path of a unix socket may have at most {SOCKET_PATH_BYTES_MAX} bytes; this path has {}",
            path.len()
        ));
    }
    Ok(path.into())
}

pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected ADDRESS:PORT, as in 127.0.0.1:18000 or [::1]:18000".to_owned())
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

/// The address of a server to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// A unix socket.
    Unix(PathBuf),
    /// A host, by name or IP address, and a port.
    Tcp(String, u16),
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return socket_path(path).map(ServerAddress::Unix);
        }
        let wrong = || "expected unix:PATH or HOST:PORT".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let named = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        if host.is_empty() || !(named || host.parse::<std::net::Ipv6Addr>().is_ok()) {
            return Err(wrong());
        }
        Ok(ServerAddress::Tcp(host.to_owned(), port))
    }
}

impl From<ListenAddress> for ServerAddress {
    fn from(listen: ListenAddress) -> Self {
        match listen {
            ListenAddress::Unix(path) => ServerAddress::Unix(path),
            ListenAddress::Tcp(address) => ServerAddress::Tcp(address.ip().to_string(), address.port()),
        }
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

    #[test]
    fn targets_and_listen_addresses_are_distinguished() {
        assert_eq!("[::1]:18000".parse(), Ok(ServerAddress::Tcp("::1".into(), 18000)));
        assert_eq!("holdfast.infra.svc:18000".parse(), Ok(ServerAddress::Tcp("holdfast.infra.svc".into(), 18000)));
        for wrong in ["", "host", "host:0", "host:70000", ":1", "unix:", "a b:1", "http://x:1"] {
            assert!(wrong.parse::<ServerAddress>().is_err(), "{wrong}");
        }
        for wrong in ["0.0.0.0:18000", "localhost:18000", "unix:", "18000"] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
        assert!(format!("unix:/{}", "x".repeat(120)).parse::<ListenAddress>().is_err());
    }
}
