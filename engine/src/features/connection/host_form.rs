//! What becomes of the host that a request names, before a route is looked for.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::StripPortMode;

/// What is left out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostForm {
    /// The port, where it is that of the listener.
    MatchingPort,
    /// Any port.
    AnyPort,
    /// The dot at its end, or not.
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
