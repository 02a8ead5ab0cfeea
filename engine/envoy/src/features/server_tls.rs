//! TLS towards clients: versions, algorithms and ALPN protocols of a listener.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{TlsParameters, tls_parameters::TlsProtocol};
use holdfast_check::tls::TlsVersion;

/// The lowest version where none is set, as in Envoy.
pub const LEAST: TlsVersion = TlsVersion::V12;

/// TLS settings towards clients; Envoy's defaults where empty or unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTls {
    /// The lowest version; 1.2 where unset.
    pub least: Option<TlsVersion>,
    /// The highest version; 1.3 where unset.
    pub most: Option<TlsVersion>,
    /// Cipher suites up to TLS 1.2.
    pub suites: Vec<&'static str>,
    /// Curves.
    pub curves: Vec<&'static str>,
    /// Signature algorithms.
    pub signatures: Vec<&'static str>,
    /// ALPN protocols; those of the listener's protocol where unset, none where empty.
    pub alpn: Option<Vec<Arc<str>>>,
}

impl ServerTls {
    /// Returns settings of versions alone.
    pub fn versions(least: Option<TlsVersion>, most: Option<TlsVersion>) -> Self {
        Self { least, most, ..Self::default() }
    }

    /// Returns the ALPN protocols, with the usual ones of the listener's protocol.
    pub(crate) fn protocols(&self, usual: &[&str]) -> Vec<String> {
        match &self.alpn {
            Some(alpn) => alpn.iter().map(ToString::to_string).collect(),
            None => usual.iter().map(ToString::to_string).collect(),
        }
    }

    pub(crate) fn encode(&self) -> TlsParameters {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        TlsParameters {
            tls_minimum_protocol_version: protocol(self.least.unwrap_or(LEAST)).into(),
            tls_maximum_protocol_version: self.most.map_or(TlsProtocol::TlsAuto, protocol).into(),
            cipher_suites: texts(&self.suites),
            ecdh_curves: texts(&self.curves),
            signature_algorithms: texts(&self.signatures),
            ..Default::default()
        }
    }
}

fn protocol(version: TlsVersion) -> TlsProtocol {
    match version {
        TlsVersion::V10 => TlsProtocol::TlSv10,
        TlsVersion::V11 => TlsProtocol::TlSv11,
        TlsVersion::V12 => TlsProtocol::TlSv12,
        TlsVersion::V13 => TlsProtocol::TlSv13,
    }
}
