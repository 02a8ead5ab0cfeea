//! Random HTTPS listeners and connections: listeners of several hostnames at one port, some without their certificate,
//! and connections with a server name that may differ from the host of the request.

use anyhow::Result;
use holdfast_scenario_tests::manifests::{http_listener, https_listener};
use holdfast_scenario_tests::request::HttpRequest;
use holdfast_scenario_tests::story::dice::Dice;
use holdfast_scenario_tests::tls::Certificate;

use super::random::{MARKER, REQUEST_HOSTS, pick};

/// The Secret with the certificate, and a Secret that does not exist.
const SECRETS: [&str; 5] = ["all", "all", "all", "all", "lost"];
const HOSTS: [&str; 6] = ["a.example", "*.example", "*.b.example", "c.b.example", "b.example", ""];
/// The names of the listeners of the Gateway; `tls-0` has the first hostname.
pub(super) const SECTIONS: [&str; 7] = ["http", "tls-0", "tls-1", "tls-2", "tls-3", "tls-4", "tls-5"];

/// The ports of a Gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) secure: u16,
}

/// What a client decides before it sends a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RandomConnection {
    pub(super) port: u16,
    pub(super) tls: bool,
    /// The host of the URL, which is sent as the server name; none for an address.
    server_name: Option<String>,
    pub(super) http2: bool,
}

impl RandomConnection {
    /// A connection without TLS.
    pub(super) fn plain(port: u16) -> Self {
        Self { port, tls: false, server_name: None, http2: false }
    }

    /// Half of the connections have TLS, and of these most have the host of the request as their server name. A few are
    /// to the port of the other kind.
    pub(super) fn new(dice: &mut Dice, ports: Ports, host: &str) -> Self {
        let tls = dice.one_in(2);
        let port = if tls != dice.one_in(50) { ports.secure } else { ports.plain };
        if !tls {
            return Self::plain(port);
        }
        let server_name = match dice.below(12) {
            0 => None,
            1 | 2 => Some(pick(dice, &REQUEST_HOSTS).to_owned()),
            _ => Some(host.to_owned()),
        };
        Self { port, tls, server_name, http2: dice.one_in(2) }
    }

    /// Returns the URL of a path.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{path}", self.server_name.as_deref().unwrap_or("127.0.0.1"), self.port)
    }

    /// Returns a request as it is sent on such a connection.
    pub(super) fn on(&self, request: HttpRequest, certificate: &Certificate) -> HttpRequest {
        let request = if self.http2 { request.http2() } else { request };
        match (&self.server_name, self.tls) {
            (_, false) => request,
            (Some(name), true) => request.tls(certificate.trust(name)),
            (None, true) => request.tls(certificate.trust(MARKER).nameless()),
        }
    }
}

/// Returns a certificate for all server names.
pub(super) fn certificate() -> Result<Certificate> {
    let below = format!("*.{MARKER}");
    let names: Vec<&str> = REQUEST_HOSTS.iter().map(|host| host.trim_end_matches('.')).collect();
    Certificate::of(&[&names[..], &[MARKER, &below]].concat())
}

/// Returns the host by which a configuration shows that it is served over TLS.
pub(super) fn marker(number: u64) -> String {
    format!("c{number}.{MARKER}")
}

/// Returns the listeners of the Gateway: a plain one, the marker, and some of the HTTPS ones.
pub(super) fn listeners(dice: &mut Dice, number: u64, ports: Ports) -> String {
    let mut all = vec![http_listener(ports.plain), https_listener("marker", ports.secure, &marker(number), &["all"])];
    for (name, host) in SECTIONS[1..].iter().zip(HOSTS) {
        let secret = pick(dice, &SECRETS);
        if !dice.one_in(6) {
            all.push(https_listener(name, ports.secure, host, &[secret]));
        }
    }
    all.concat()
}
