//! Upgrades of connections.

use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::UpgradeConfig;

/// Maximum number of upgrades of one listener.
pub const UPGRADES_MAX: usize = 32;

/// Adds the upgrades that are not present yet; Envoy refuses duplicates.
pub(super) fn apply(names: &[Arc<str>], manager: &mut HttpConnectionManager) {
    for name in names {
        if !manager.upgrade_configs.iter().any(|known| known.upgrade_type.eq_ignore_ascii_case(name)) {
            manager.upgrade_configs.push(UpgradeConfig { upgrade_type: name.to_string(), ..Default::default() });
        }
    }
}
