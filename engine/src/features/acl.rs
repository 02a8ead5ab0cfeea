//! Who may come in, by address: of the ranges that an address is in the narrowest counts.
//!
//! Envoy's filter RBAC with a tree of ranges.

use std::net::IpAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::Action as EnvoyAction;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action as Verdict;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::SourceIpInput;
use envoy_types::pb::google::protobuf::{Any, UInt32Value};
use envoy_types::pb::xds::core::v3::{CidrRange, TypedExtensionConfig};
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_tree::TreeType;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherTree, MatcherType, OnMatch, on_match};
use prost::Message;

use crate::encode::any;

/// Ranges of one list: as many as 256 rules with 16 each.
pub const RANGES_MAX: usize = 4096;

/// The name of what is done about those whom no range names.
const DEFAULT: &str = "default";
/// The type of [`IpMatcher`].
const IP_MATCHER: &str = "type.googleapis.com/xds.type.matcher.v3.IPMatcher";

/// A list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// May those come in whom no range names? They may where nothing is said.
    pub default_allow: Option<bool>,
    /// The ranges, no two of them equal.
    pub entries: Vec<Entry>,
}

/// What happens to a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The rule that it stands in.
    pub name: Arc<str>,
    /// The first address.
    pub address: IpAddr,
    /// How many of its bits count.
    pub length: u8,
    /// May they come in?
    pub allow: bool,
}

impl Acl {
    /// Adds what a list of lower rank says: of equal ranges the first counts. `None` where they contradict each other
    /// in what happens to all others.
    pub fn join(&self, lower: &Acl) -> Option<Acl> {
        if let (Some(own), Some(other)) = (self.default_allow, lower.default_allow)
            && own != other
        {
            return None;
        }
        let mut joined = self.clone();
        joined.default_allow = self.default_allow.or(lower.default_allow);
        for entry in &lower.entries {
            if !joined.entries.iter().any(|own| (own.address, own.length) == (entry.address, entry.length)) {
                joined.entries.push(entry.clone());
            }
        }
        (joined.entries.len() <= RANGES_MAX).then_some(joined)
    }

    /// Envoy's form.
    pub(crate) fn encode(&self) -> RbacPerRoute {
        let range_matchers = self.entries.iter().map(|entry| IpRangeMatcher {
            ranges: vec![CidrRange {
                address_prefix: entry.address.to_string(),
                prefix_len: Some(UInt32Value { value: entry.length.into() }),
            }],
            on_match: Some(verdict(&entry.name, entry.allow)),
            exclusive: true,
        });
        let matcher = IpMatcher { range_matchers: range_matchers.collect() };
        let tree = MatcherTree {
            input: Some(extension("source-ip", any(&SourceIpInput {}))),
            tree_type: Some(TreeType::CustomMatch(extension(
                "ip",
                Any { type_url: IP_MATCHER.into(), value: matcher.encode_to_vec() },
            ))),
        };
        let tree = (!self.entries.is_empty()).then_some(MatcherType::MatcherTree(tree));
        let on_no_match = Some(Box::new(verdict(DEFAULT, self.default_allow.unwrap_or(true))));
        RbacPerRoute {
            rbac: Some(Rbac { matcher: Some(Matcher { on_no_match, matcher_type: tree }), ..Default::default() }),
        }
    }
}

fn verdict(name: &str, allow: bool) -> OnMatch {
    let action = if allow { Verdict::Allow } else { Verdict::Deny };
    let action = EnvoyAction { name: name.into(), action: action.into() };
    OnMatch { on_match: Some(on_match::OnMatch::Action(extension("action", any(&action)))), ..Default::default() }
}

fn extension(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.into(), typed_config: Some(config) }
}

/// `xds.type.matcher.v3.IPMatcher`.
#[derive(Clone, PartialEq, ::prost::Message)]
struct IpMatcher {
    #[prost(message, repeated, tag = "1")]
    range_matchers: Vec<IpRangeMatcher>,
}

/// `xds.type.matcher.v3.IPMatcher.IPRangeMatcher`.
#[derive(Clone, PartialEq, ::prost::Message)]
struct IpRangeMatcher {
    #[prost(message, repeated, tag = "1")]
    ranges: Vec<CidrRange>,
    #[prost(message, optional, tag = "2")]
    on_match: Option<OnMatch>,
    #[prost(bool, tag = "3")]
    exclusive: bool,
}
