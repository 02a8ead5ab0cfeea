//! Access lists by client address: model, merging, Envoy form. The narrowest range that contains an address decides.
//!
//! Envoy's RBAC filter enforces them. [`super::deny_response`] has the response to denied requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::{Identifier, Set};
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::google::protobuf::{Any as Packed, UInt32Value};
use prost::Message;

use super::deny_response::{DenyResponse, PREFIX};
use crate::encode::any;

/// Maximum number of ranges in one list: 256 rules with 16 ranges each.
pub const RANGES_MAX: usize = 4096;

/// Name of the only RBAC policy.
const POLICY: &str = "acl";

/// An access list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    /// Whether addresses outside all ranges are allowed; allowed where unset.
    pub default_allow: Option<bool>,
    /// The ranges, without duplicates.
    pub entries: Vec<AccessListEntry>,
    /// The response to denied requests.
    pub response: Option<DenyResponse>,
}

/// A range of addresses, and whether it is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessListEntry {
    /// Name of the rule that contains the range.
    pub name: Arc<str>,
    /// The first address.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub length: u8,
    /// Whether requests from the range are allowed.
    pub allow: bool,
}

impl AccessList {
    /// Merges a list of lower precedence: of equal ranges the first counts. Returns `None` where the default actions or
    /// the responses to denied requests contradict each other, or where the result exceeds [`RANGES_MAX`].
    pub fn join(&self, lower: &AccessList) -> Option<AccessList> {
        if let (Some(own), Some(other)) = (self.default_allow, lower.default_allow)
            && own != other
        {
            return None;
        }
        if let (Some(own), Some(other)) = (&self.response, &lower.response)
            && own != other
        {
            return None;
        }
        let mut joined = self.clone();
        joined.response = self.response.clone().or_else(|| lower.response.clone());
        joined.default_allow = self.default_allow.or(lower.default_allow);
        for entry in &lower.entries {
            if !joined.entries.iter().any(|own| (own.address, own.length) == (entry.address, entry.length)) {
                joined.entries.push(entry.clone());
            }
        }
        (joined.entries.len() <= RANGES_MAX).then_some(joined)
    }

    /// Returns the Envoy configuration: an address is allowed if an allowed range contains it and no narrower denied
    /// range does.
    pub fn encode(&self) -> Packed {
        let (allowed, denied): (Vec<&AccessListEntry>, Vec<&AccessListEntry>) =
            self.entries.iter().partition(|entry| entry.allow);
        let mut principals: Vec<Principal> = allowed
            .iter()
            .map(|entry| {
                let narrower = denied.iter().filter(|other| entry.covers(other));
                and_not(Some(entry.principal()), narrower.map(|other| other.principal()).collect())
            })
            .collect();
        if self.default_allow.unwrap_or(true) {
            // Addresses in allowed ranges already have principals of their own.
            principals.push(and_not(None, self.entries.iter().map(AccessListEntry::principal).collect()));
        }
        // An RBAC filter of action ALLOW without policies denies every request.
        let policies = (!principals.is_empty()).then(|| (POLICY.to_owned(), policy(principals))).into_iter().collect();
        let enforced = Rules { action: Action::Allow.into(), policies, ..Default::default() };
        let prefix = || self.response.as_ref().map(|_| PREFIX.to_owned()).unwrap_or_default();
        let mut packed = any(&RbacPerRoute {
            rbac: Some(Rbac {
                rules: Some(enforced),
                rules_stat_prefix: prefix(),
                shadow_rules_stat_prefix: prefix(),
                ..Default::default()
            }),
        });
        // The order of a map with several entries is not defined, so the entries are appended as separate messages,
        // which decoders merge into one.
        self.naming().for_each(|rules| {
            let naming = Rbac { shadow_rules: Some(rules), ..Default::default() };
            packed.value.extend(RbacPerRoute { rbac: Some(naming) }.encode_to_vec());
        });
        packed
    }

    /// Returns shadow rules that report the name of the rule that denies a request, where the response includes it.
    /// These rules enforce nothing.
    fn naming(&self) -> impl Iterator<Item = Rules> {
        let is_named = self.response.as_ref().is_some_and(|response| response.named_by.is_some());
        let mut by_name: BTreeMap<&str, Vec<Principal>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| is_named && !entry.allow) {
            let others = self.entries.iter().filter(|other| other.allow || other.name != entry.name);
            let narrower = others.filter(|other| entry.covers(other)).map(AccessListEntry::principal).collect();
            by_name.entry(&entry.name).or_default().push(and_not(Some(entry.principal()), narrower));
        }
        by_name.into_iter().map(|(name, principals)| Rules {
            action: Action::Deny.into(),
            policies: [(name.to_owned(), policy(principals))].into(),
            ..Default::default()
        })
    }
}

fn policy(principals: Vec<Principal>) -> Policy {
    Policy { permissions: vec![Permission { rule: Some(Rule::Any(true)) }], principals, ..Default::default() }
}

impl AccessListEntry {
    /// Returns whether the other range is a narrower one within this range.
    fn covers(&self, other: &AccessListEntry) -> bool {
        let inside = match (self.address, other.address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u32::from(own) ^ u32::from(other)).checked_shr(32u32.saturating_sub(self.length.into())).unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (u128::from(own) ^ u128::from(other))
                    .checked_shr(128u32.saturating_sub(self.length.into()))
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        };
        inside && other.length > self.length
    }

    fn principal(&self) -> Principal {
        let range = CidrRange {
            address_prefix: self.address.to_string(),
            prefix_len: Some(UInt32Value { value: self.length.into() }),
        };
        Principal { identifier: Some(Identifier::RemoteIp(range)) }
    }
}

/// Matches the given principal (any where `None`), except the others.
fn and_not(this: Option<Principal>, others: Vec<Principal>) -> Principal {
    let of = |identifier: Identifier| Principal { identifier: Some(identifier) };
    let others = (!others.is_empty()).then(|| of(Identifier::OrIds(Set { ids: others })));
    let others = others.map(|others| of(Identifier::NotId(Box::new(others))));
    match (this, others) {
        (Some(this), Some(others)) => of(Identifier::AndIds(Set { ids: vec![this, others] })),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => of(Identifier::Any(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: &str, length: u8, allow: bool) -> AccessListEntry {
        let address = address.parse().unwrap_or(IpAddr::from([0, 0, 0, 0]));
        AccessListEntry { name: "r".into(), address, length, allow }
    }

    fn named(name: &str, address: &str, length: u8) -> AccessListEntry {
        AccessListEntry { name: name.into(), ..entry(address, length, false) }
    }

    fn rbac(acl: &AccessList) -> Rbac {
        let read = RbacPerRoute::decode(acl.encode().value.as_slice()).unwrap_or_default();
        read.rbac.unwrap_or_default()
    }

    #[test]
    fn narrower_ranges_are_within_wider_ones_of_the_same_family() {
        let wide = entry("10.0.0.0", 8, true);
        assert!(wide.covers(&entry("10.1.0.0", 16, true)));
        assert!(!wide.covers(&entry("11.1.0.0", 16, true)));
        assert!(!wide.covers(&wide));
        assert!(!entry("10.1.0.0", 16, true).covers(&wide));
        assert!(entry("0.0.0.0", 0, true).covers(&wide));
        assert!(!entry("::", 0, true).covers(&wide));
        assert!(entry("fd00::", 8, true).covers(&entry("fd00::1", 128, true)));
    }

    #[test]
    fn a_list_that_allows_no_client_has_no_policy() {
        let rules = |acl: &AccessList| rbac(acl).rules.map(|rules| rules.policies.len());
        let deny_all = |entries| AccessList { default_allow: Some(false), entries, ..AccessList::default() };
        assert_eq!(rules(&deny_all(vec![])), Some(0));
        assert_eq!(rules(&deny_all(vec![entry("10.0.0.0", 8, false)])), Some(0));
        assert_eq!(rules(&AccessList::default()), Some(1));
    }

    #[test]
    fn an_answer_changes_nothing_of_what_is_enforced() {
        let entries = vec![entry("10.0.0.0", 8, false), entry("10.1.0.0", 16, true), named("late", "10.1.2.0", 24)];
        let plain = AccessList { default_allow: Some(true), entries, response: None };
        let response =
            |named_by: Option<&str>| DenyResponse { status: 429, headers: vec![], named_by: named_by.map(Arc::from) };
        let with = |named_by| AccessList { response: Some(response(named_by)), ..plain.clone() };
        for acl in [with(None), with(Some("x-rule"))] {
            assert_eq!(rbac(&acl).rules, rbac(&plain).rules);
        }
        let names = |acl: &AccessList| {
            rbac(acl).shadow_rules.map(|rules| {
                let mut names: Vec<String> = rules.policies.into_keys().collect();
                names.sort();
                names
            })
        };
        assert_eq!(names(&plain), None);
        assert_eq!(names(&with(None)), None);
        assert_eq!(names(&with(Some("x-rule"))), Some(vec!["late".to_owned(), "r".to_owned()]));
    }

    #[test]
    fn lists_that_answer_otherwise_are_not_joined() {
        let of = |status| DenyResponse { status, headers: vec![], named_by: None };
        let with = |status: Option<u16>| AccessList { response: status.map(of), ..AccessList::default() };
        let joined = |first: Option<u16>, next: Option<u16>| with(first).join(&with(next)).map(|acl| acl.response);
        assert_eq!(joined(Some(404), Some(429)), None);
        assert_eq!(joined(Some(404), Some(404)), Some(Some(of(404))));
        assert_eq!(joined(Some(404), None), Some(Some(of(404))));
        assert_eq!(joined(None, Some(429)), Some(Some(of(429))));
        assert_eq!(joined(None, None), Some(None));
    }
}
