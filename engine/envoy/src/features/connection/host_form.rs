//! Normalization of a request's host before route selection.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::StripPortMode;

/// The part of the host that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostForm {
    /// The port, if it is the listener's port.
    MatchingPort,
    /// Any port.
    AnyPort,
    /// The trailing dot, if true.
    TrailingDot(bool),
}

impl HostForm {
    pub(super) fn apply(self, manager: &mut HttpConnectionManager) {
        match self {
            HostForm::MatchingPort => manager.strip_matching_host_port = true,
            HostForm::AnyPort => manager.strip_port_mode = Some(StripPortMode::StripAnyHostPort(true)),
            HostForm::TrailingDot(left_out) => manager.strip_trailing_host_dot = left_out,
        }
    }
}
