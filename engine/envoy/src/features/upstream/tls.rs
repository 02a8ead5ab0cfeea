//! TLS towards a backend: SNI, validation of the backend's certificate, client certificate.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
use envoy_types::pb::envoy::config::core::v3::{DataSource, TransportSocket, data_source::Specifier};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, SubjectAltNameMatcher, TlsParameters,
    UpstreamTlsContext, tls_parameters::TlsProtocol,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use holdfast_graph::ObjectKey;

use super::ClientIdentity;
use crate::encode::{any, cluster, names};

/// Path of the system's CA certificates in Envoy's images.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// TLS towards a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamTls {
    /// The SNI; none where empty.
    pub sni: Arc<str>,
    /// Whether ALPN offers HTTP/2.
    pub h2: bool,
    /// Validation of the backend's certificate; any certificate is accepted where unset.
    pub validation: Option<CertificateValidation>,
    /// ALPN protocols that override those derived from the protocol.
    pub alpn: Vec<Arc<str>>,
    /// The Secret with the client certificate.
    pub client: Option<ObjectKey>,
    /// Versions and algorithms, where they are not the defaults.
    pub parameters: Option<UpstreamTlsParameters>,
    /// Whether the backend may request renegotiation.
    pub renegotiation: bool,
}

/// Validation of a backend's certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateValidation {
    /// The trusted certification authorities.
    pub trust: Trust,
    /// The accepted names, of which the certificate must contain one; any name is accepted where empty.
    pub names: Vec<SubjectAltName>,
}

/// Trusted certification authorities.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Authorities from objects.
    Bundle {
        /// The objects.
        from: Vec<ObjectKey>,
        /// The authorities, as PEM.
        authorities: Arc<[u8]>,
    },
    /// The authorities of the proxy's operating system.
    System,
}

/// A subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectAltName {
    /// A host name.
    Dns(Arc<str>),
    /// A URI, as in SPIFFE.
    Uri(Arc<str>),
    /// An IP address.
    Address(Arc<str>),
}

/// TLS versions and algorithms.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamTlsParameters {
    /// The minimum and maximum version: 10 to 13, or the default where unset.
    pub versions: (Option<u8>, Option<u8>),
    /// Cipher suites of TLS 1.2 and older.
    pub ciphers: Vec<Arc<str>>,
    /// ECDH curves.
    pub curves: Vec<Arc<str>>,
    /// Signature algorithms.
    pub signatures: Vec<Arc<str>>,
}

impl SubjectAltName {
    fn encode(&self) -> SubjectAltNameMatcher {
        let (kind, name) = match self {
            Self::Dns(name) => (SanType::Dns, name),
            Self::Uri(name) => (SanType::Uri, name),
            Self::Address(name) => (SanType::IpAddress, name),
        };
        SubjectAltNameMatcher {
            san_type: kind.into(),
            matcher: Some(StringMatcher {
                match_pattern: Some(MatchPattern::Exact(name.to_string())),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}

impl CertificateValidation {
    fn encode(&self) -> CertificateValidationContext {
        let authorities = match &self.trust {
            Trust::Bundle { authorities, .. } => Specifier::InlineBytes(authorities.to_vec()),
            Trust::System => Specifier::Filename(SYSTEM_AUTHORITIES.into()),
        };
        CertificateValidationContext {
            trusted_ca: Some(DataSource { specifier: Some(authorities), ..Default::default() }),
            match_typed_subject_alt_names: self.names.iter().map(SubjectAltName::encode).collect(),
            ..Default::default()
        }
    }
}

impl UpstreamTlsParameters {
    fn encode(&self) -> TlsParameters {
        let version = |version: Option<u8>, usual: TlsProtocol| match version {
            Some(10) => TlsProtocol::TlSv10,
            Some(11) => TlsProtocol::TlSv11,
            Some(12) => TlsProtocol::TlSv12,
            Some(13) => TlsProtocol::TlSv13,
            _ => usual,
        };
        let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect();
        TlsParameters {
            tls_minimum_protocol_version: version(self.versions.0, TlsProtocol::TlSv12).into(),
            tls_maximum_protocol_version: version(self.versions.1, TlsProtocol::TlSv13).into(),
            cipher_suites: texts(&self.ciphers),
            ecdh_curves: texts(&self.curves),
            signature_algorithms: texts(&self.signatures),
            ..Default::default()
        }
    }
}

impl UpstreamTls {
    /// Returns the objects that the settings come from.
    pub fn origins(&self) -> impl Iterator<Item = &ObjectKey> {
        let bundle = self.validation.iter().filter_map(|validation| match &validation.trust {
            Trust::Bundle { from, .. } => Some(from),
            Trust::System => None,
        });
        bundle.flatten().chain(&self.client)
    }

    pub(super) fn encode(&self, identity: &ClientIdentity) -> TransportSocket {
        let validation = self.validation.as_ref().map(CertificateValidation::encode);
        let alpn = match self.alpn.is_empty() {
            true if self.h2 => vec!["h2".into()],
            _ => self.alpn.iter().map(ToString::to_string).collect(),
        };
        let client = |key| SdsSecretConfig { name: names::secret(key), sds_config: Some(cluster::ads()) };
        let context = UpstreamTlsContext {
            common_tls_context: Some(CommonTlsContext {
                tls_params: Some(self.parameters.clone().unwrap_or_default().encode()),
                alpn_protocols: alpn,
                validation_context_type: validation.map(ValidationContextType::ValidationContext),
                tls_certificate_sds_secret_configs: identity.presented(self).into_iter().map(client).collect(),
                ..Default::default()
            }),
            sni: self.sni.to_string(),
            allow_renegotiation: self.renegotiation,
            ..Default::default()
        };
        TransportSocket {
            name: "envoy.transport_sockets.tls".into(),
            config_type: Some(SocketConfig::TypedConfig(any(&context))),
        }
    }
}
