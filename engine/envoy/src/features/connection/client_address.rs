//! Detection of the client's address: the address of the connection, or the one that proxies in front report.

use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::{CidrRange, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::http::original_ip_detection::xff::v3::{XffConfig, XffTrustedCidrs};
use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};

use crate::encode::any;

/// Maximum number of ranges of trusted proxies.
pub const TRUSTED_MAX: usize = 1024;
/// Maximum number of trusted hops; a header hardly contains more.
pub const HOPS_MAX: u32 = 256;

/// How the client's address is detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// Whether the address of the connection is used; otherwise it is read from `x-forwarded-for`.
    pub remote: bool,
    /// Number of trusted proxies in front.
    pub hops: u32,
    /// Ranges of trusted proxies: address and prefix length.
    pub trusted: Vec<(IpAddr, u8)>,
    /// Whether appending the address to `x-forwarded-for` is skipped. Where unset, the address is appended only if the
    /// address of the connection is used.
    pub skip_append: Option<bool>,
}

impl ClientAddress {
    pub(super) fn apply(&self, manager: &mut HttpConnectionManager) {
        manager.use_remote_address = Some(BoolValue { value: self.remote });
        if self.remote {
            manager.xff_num_trusted_hops = self.hops;
            manager.skip_xff_append = self.skip_append.unwrap_or(false);
            return;
        }
        let range = |(address, length): &(IpAddr, u8)| CidrRange {
            address_prefix: address.to_string(),
            prefix_len: Some(UInt32Value { value: u32::from(*length) }),
        };
        let cidrs: Vec<CidrRange> = self.trusted.iter().map(range).collect();
        let config = XffConfig {
            xff_num_trusted_hops: self.hops,
            xff_trusted_cidrs: (!cidrs.is_empty()).then_some(XffTrustedCidrs { cidrs }),
            skip_xff_append: self.skip_append.map(|value| BoolValue { value }),
        };
        manager.original_ip_detection_extensions = vec![TypedExtensionConfig {
            name: "envoy.http.original_ip_detection.xff".into(),
            typed_config: Some(any(&config)),
        }];
    }
}
