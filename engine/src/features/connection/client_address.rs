//! Who the client is: whoever connects, or whom proxies in front name.

use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::{CidrRange, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::http::original_ip_detection::xff::v3::{XffConfig, XffTrustedCidrs};
use envoy_types::pb::google::protobuf::{BoolValue, UInt32Value};

use crate::encode::any;

/// Ranges of proxies that are trusted.
pub const TRUSTED_MAX: usize = 1024;
/// Most proxies in front that are trusted; a header names hardly more.
pub const HOPS_MAX: u32 = 256;

/// Who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// Whoever connects; else it is read from `x-forwarded-for`.
    pub remote: bool,
    /// How many proxies in front are trusted.
    pub hops: u32,
    /// Which are, by address and length of the range.
    pub trusted: Vec<(IpAddr, u8)>,
    /// Is the address left out of `x-forwarded-for`? Where nothing is said it is added if the client is who connects.
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
