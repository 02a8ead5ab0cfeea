//! TLS towards clients: versions, algorithms and ALPN protocols of a listener, and which of two encoded settings allow
//! more clients.

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

/// Envoy's own cipher suites for servers. The suites with CHACHA20 are missing in FIPS builds.
const USUAL_SUITES: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
];

/// Checks whether held settings allow no old version and no algorithm that the desired ones exclude.
///
/// The highest version and ALPN protocols exclude nothing that is weak. Cipher suites have no effect from TLS 1.3 on. An
/// unset list of curves or signature algorithms excludes none.
pub(crate) fn allows_no_more(held: &TlsParameters, desired: &TlsParameters) -> bool {
    let is_old = least(held) < TlsProtocol::TlSv13;
    least(held) >= least(desired)
        && (!is_old || is_part(&suites(held), &suites(desired)))
        && is_part_or_free(&held.ecdh_curves, &desired.ecdh_curves)
        && is_part_or_free(&held.signature_algorithms, &desired.signature_algorithms)
}

/// Returns the lowest version; Envoy's own is 1.2.
fn least(parameters: &TlsParameters) -> TlsProtocol {
    match parameters.tls_minimum_protocol_version() {
        TlsProtocol::TlsAuto => protocol(LEAST),
        version => version,
    }
}

fn suites(parameters: &TlsParameters) -> Vec<&str> {
    match parameters.cipher_suites.is_empty() {
        true => USUAL_SUITES.to_vec(),
        false => parameters.cipher_suites.iter().map(String::as_str).collect(),
    }
}

/// Checks a list of which the defaults depend on the build of Envoy.
fn is_part_or_free(held: &[String], desired: &[String]) -> bool {
    desired.is_empty() || (!held.is_empty() && is_part(held, desired))
}

fn is_part<T: PartialEq>(held: &[T], desired: &[T]) -> bool {
    held.iter().all(|name| desired.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_and_algorithms_that_are_excluded() {
        let unset = ServerTls::default;
        let least = |version| ServerTls::versions(Some(version), None);
        let suites = |suites: &[&'static str]| ServerTls { suites: suites.to_vec(), ..unset() };
        let curves = |curves: &[&'static str]| ServerTls { curves: curves.to_vec(), ..unset() };
        let signatures = |signatures: &[&'static str]| ServerTls { signatures: signatures.to_vec(), ..unset() };
        let rows = [
            (unset(), unset(), true),
            (unset(), least(TlsVersion::V12), true),
            (least(TlsVersion::V11), unset(), false),
            (least(TlsVersion::V12), least(TlsVersion::V13), false),
            (least(TlsVersion::V13), least(TlsVersion::V10), true),
            (unset(), ServerTls::versions(None, Some(TlsVersion::V12)), true),
            (unset(), suites(&USUAL_SUITES), true),
            (unset(), suites(&["ECDHE-RSA-AES128-GCM-SHA256"]), false),
            (suites(&["ECDHE-RSA-AES128-GCM-SHA256"]), unset(), true),
            (suites(&["AES128-SHA"]), unset(), false),
            (suites(&["AES128-SHA"]), suites(&["AES256-SHA", "AES128-SHA"]), true),
            (suites(&["AES128-SHA", "AES256-SHA"]), suites(&["AES256-SHA"]), false),
            (ServerTls { least: Some(TlsVersion::V13), ..suites(&["AES128-SHA"]) }, suites(&["AES256-SHA"]), true),
            (unset(), curves(&["P-256"]), false),
            (curves(&["P-384"]), unset(), true),
            (curves(&["P-384", "P-256"]), curves(&["P-256"]), false),
            (curves(&["P-256"]), curves(&["P-384", "P-256"]), true),
            (signatures(&["rsa_pkcs1_sha1"]), signatures(&["ed25519"]), false),
            (signatures(&["ed25519"]), signatures(&["rsa_pkcs1_sha1", "ed25519"]), true),
        ];
        for (row, (held, desired, expected)) in rows.iter().enumerate() {
            assert_eq!(allows_no_more(&held.encode(), &desired.encode()), *expected, "{row}");
            assert!(allows_no_more(&held.encode(), &held.encode()), "{row}");
        }
        assert!(allows_no_more(&TlsParameters::default(), &unset().encode()));
        assert!(!allows_no_more(&TlsParameters::default(), &least(TlsVersion::V13).encode()));
    }
}
