//! What connections may become.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::UpgradeConfig;

/// Upgrades of one listener.
pub const UPGRADES_MAX: usize = 32;

/// Adds those that are not there yet; Envoy takes none twice.
pub(super) fn apply(names: &[Arc<str>], manager: &mut HttpConnectionManager) {
    for name in names {
        if !manager.upgrade_configs.iter().any(|known| known.upgrade_type.eq_ignore_ascii_case(name)) {
            manager.upgrade_configs.push(UpgradeConfig { upgrade_type: name.to_string(), ..Default::default() });
        }
    }
}
