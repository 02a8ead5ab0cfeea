//! IP allow and deny lists of HTTPProxy.

use std::collections::HashMap;
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::google::protobuf::UInt32Value;

/// Name of the filter in the filter chain, and key of its per-route settings.
pub const FILTER: &str = "envoy.filters.http.rbac";

/// A list of addresses that are allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpFilter {
    /// Whether only these addresses are allowed; otherwise only these are denied.
    pub allow: bool,
    /// The addresses.
    pub ranges: Vec<IpRange>,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    /// Whether the range applies to the client's address as reported by trusted proxies, not to that of the connection.
    pub remote: bool,
    /// An address of the range.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub length: u8,
}

impl IpRange {
    /// Parses an address or a range of addresses.
    pub fn read(remote: bool, text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
        };
        (length <= most).then_some(Self { remote, address, length })
    }
}

impl IpFilter {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> RbacPerRoute {
        RbacPerRoute { rbac: Some(Rbac { rules: Some(self.rules()), ..Default::default() }) }
    }

    /// Returns the RBAC rules, which apply to requests and to connections.
    pub fn rules(&self) -> Rules {
        let principals = self.ranges.iter().map(|range| {
            let cidr = CidrRange {
                address_prefix: range.address.to_string(),
                prefix_len: Some(UInt32Value { value: range.length.into() }),
            };
            let identifier = if range.remote { Identifier::RemoteIp(cidr) } else { Identifier::DirectRemoteIp(cidr) };
            Principal { identifier: Some(identifier) }
        });
        let policy = Policy {
            permissions: vec![Permission { rule: Some(Rule::Any(true)) }],
            principals: principals.collect(),
            ..Default::default()
        };
        let action = if self.allow { Action::Allow } else { Action::Deny };
        Rules { action: action.into(), policies: HashMap::from([("ip".to_owned(), policy)]), ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let length = |text: &str| IpRange::read(false, text).map(|range| range.length);
        assert_eq!(length("10.0.0.0/8"), Some(8));
        assert_eq!(length("10.0.0.1"), Some(32));
        assert_eq!(length("::1"), Some(128));
        assert_eq!(length("fd00::/64"), Some(64));
        for wrong in
            ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "::/129", "example.com", "10.0.0.1/8/8"]
        {
            assert_eq!(length(wrong), None, "{wrong}");
        }
    }
}
