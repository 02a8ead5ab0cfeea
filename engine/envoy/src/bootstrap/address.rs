//! Addresses of servers: on which a server listens, or to which a client connects.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum length of a unix socket path that every operating system accepts, in bytes.
pub const SOCKET_PATH_BYTES_MAX: usize = 103;

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

/// Parses an IP address with a port.
///
/// # Errors
/// Returns an error if the text has another form; the message has an example.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected ADDRESS:PORT, as in 127.0.0.1:18000 or [::1]:18000".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

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
