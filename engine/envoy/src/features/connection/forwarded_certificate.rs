//! Forwarding of client certificate details to backends, in `x-forwarded-client-cert` (XFCC).

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    ForwardClientCertDetails, SetCurrentClientCertDetails,
};
use envoy_types::pb::google::protobuf::BoolValue;

use crate::features::client_certificate::ForwardedDetails;

/// Handling of the XFCC header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedCertificate {
    /// Handling of the header of the request.
    pub mode: Mode,
    /// Details that Envoy writes into the header.
    pub details: Option<ForwardedDetails>,
}

/// Handling of the XFCC header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The header is removed.
    Sanitize,
    /// The header is kept where clients present certificates.
    ForwardOnly,
    /// Details are appended to the header.
    AppendForward,
    /// The header is replaced.
    SanitizeSet,
    /// The header is always kept.
    AlwaysForwardOnly,
}

impl Mode {
    /// Parses the mode's name.
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

    /// Returns whether Envoy writes details into the header.
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
        manager.set_current_client_cert_details = self.details.map(|details| SetCurrentClientCertDetails {
            subject: Some(BoolValue { value: details.subject }),
            cert: details.cert,
            chain: details.chain,
            dns: details.dns,
            uri: details.uri,
            ..Default::default()
        });
    }
}
