//! What back ends are told of the certificates of clients, in `x-forwarded-client-cert`.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertDetails, SetCurrentClientCertDetails,
};
use envoy_types::pb::google::protobuf::BoolValue;

use crate::features::client_certificate::Told;

/// What becomes of the header, and what is written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedCertificate {
    /// What becomes of it.
    pub mode: Mode,
    /// What is written into it.
    pub told: Option<Told>,
}

/// What becomes of the header that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is taken away.
    Sanitize,
    /// It stays, where clients show certificates.
    ForwardOnly,
    /// It is added to.
    AppendForward,
    /// It is replaced.
    SanitizeSet,
    /// It stays, whoever sends it.
    AlwaysForwardOnly,
}

impl Mode {
    /// By its name.
    pub fn read(name: &str) -> Option<Self> {
        Some(match name {
            "Sanitize" => Self::Sanitize,
            "ForwardOnly" => Self::ForwardOnly,
            "AppendForward" => Self::AppendForward,
            "SanitizeSet" => Self::SanitizeSet,
            "AlwaysForwardOnly" => Self::AlwaysForwardOnly,
            _ => return None,
        })
    }

    /// Is something written into the header?
    pub fn writes(self) -> bool {
        matches!(self, Self::AppendForward | Self::SanitizeSet)
    }
}

impl ForwardedCertificate {
    pub(super) fn apply(self, manager: &mut HttpConnectionManager) {
        let mode = match self.mode {
            Mode::Sanitize => ForwardClientCertDetails::Sanitize,
            Mode::ForwardOnly => ForwardClientCertDetails::ForwardOnly,
            Mode::AppendForward => ForwardClientCertDetails::AppendForward,
            Mode::SanitizeSet => ForwardClientCertDetails::SanitizeSet,
            Mode::AlwaysForwardOnly => ForwardClientCertDetails::AlwaysForwardOnly,
        };
        manager.forward_client_cert_details = mode.into();
        manager.set_current_client_cert_details = self.told.map(|told| SetCurrentClientCertDetails {
            subject: Some(BoolValue { value: told.subject }),
            cert: told.cert,
            chain: told.chain,
            dns: told.dns,
            uri: told.uri,
            ..Default::default()
        });
    }
}
