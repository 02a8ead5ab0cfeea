//! Who may come in, by address: of the ranges that an address is in the narrowest counts.
//!
//! Served by Envoy's filter RBAC. What those are told who may not come in is [`super::deny_response`].

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

/// Ranges of one list: as many as 256 rules with 16 each.
pub const RANGES_MAX: usize = 4096;

/// The name of the one policy.
const POLICY: &str = "acl";

/// A list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// May those come in whom no range names? They may where nothing is said.
    pub default_allow: Option<bool>,
    /// The ranges, no two of them equal.
    pub entries: Vec<Entry>,
    /// What those are told who may not come in.
    pub response: Option<DenyResponse>,
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
    /// in what happens to all others, or in what those are told who may not come in.
    pub fn join(&self, lower: &Acl) -> Option<Acl> {
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

    /// Envoy's form: those may come in who are in a range that lets them in, and in no narrower one that does not.
    pub(crate) fn encode(&self) -> Packed {
        let (allowed, denied): (Vec<&Entry>, Vec<&Entry>) = self.entries.iter().partition(|entry| entry.allow);
        let mut principals: Vec<Principal> = allowed
            .iter()
            .map(|entry| {
                let narrower = denied.iter().filter(|other| entry.covers(other));
                and_not(Some(entry.principal()), narrower.map(|other| other.principal()).collect())
            })
            .collect();
        if self.default_allow.unwrap_or(true) {
            // Those that a range lets in are among the others.
            principals.push(and_not(None, self.entries.iter().map(Entry::principal).collect()));
        }
        // Where there is no policy nobody may come in.
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
        // Of a map with several entries the order is not defined: messages that follow each other are read as one.
        self.naming().for_each(|rules| {
            let naming = Rbac { shadow_rules: Some(rules), ..Default::default() };
            packed.value.extend(RbacPerRoute { rbac: Some(naming) }.encode_to_vec());
        });
        packed
    }

    /// What tells by which rule somebody may not come in, where that is asked for: it decides nothing.
    fn naming(&self) -> impl Iterator<Item = Rules> {
        let asked = self.response.as_ref().is_some_and(|response| response.named_by.is_some());
        let mut by_name: BTreeMap<&str, Vec<Principal>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| asked && !entry.allow) {
            let others = self.entries.iter().filter(|other| other.allow || other.name != entry.name);
            let narrower = others.filter(|other| entry.covers(other)).map(Entry::principal).collect();
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

impl Entry {
    /// Is the other range a narrower one within this?
    fn covers(&self, other: &Entry) -> bool {
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

/// Those who are this, or anybody, and none of the others.
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

    fn entry(address: &str, length: u8, allow: bool) -> Entry {
        let address = address.parse().unwrap_or(IpAddr::from([0, 0, 0, 0]));
        Entry { name: "r".into(), address, length, allow }
    }

    fn named(name: &str, address: &str, length: u8) -> Entry {
        Entry { name: name.into(), ..entry(address, length, false) }
    }

    fn rbac(acl: &Acl) -> Rbac {
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
    fn a_list_that_lets_nobody_in_has_no_policy() {
        let rules = |acl: &Acl| rbac(acl).rules.map(|rules| rules.policies.len());
        let nobody = |entries| Acl { default_allow: Some(false), entries, ..Acl::default() };
        assert_eq!(rules(&nobody(vec![])), Some(0));
        assert_eq!(rules(&nobody(vec![entry("10.0.0.0", 8, false)])), Some(0));
        assert_eq!(rules(&Acl::default()), Some(1));
    }

    #[test]
    fn an_answer_changes_nothing_of_what_is_enforced() {
        let entries = vec![entry("10.0.0.0", 8, false), entry("10.1.0.0", 16, true), named("late", "10.1.2.0", 24)];
        let plain = Acl { default_allow: Some(true), entries, response: None };
        let response =
            |named_by: Option<&str>| DenyResponse { status: 429, headers: vec![], named_by: named_by.map(Arc::from) };
        let with = |named_by| Acl { response: Some(response(named_by)), ..plain.clone() };
        for acl in [with(None), with(Some("x-rule"))] {
            assert_eq!(rbac(&acl).rules, rbac(&plain).rules);
        }
        let names = |acl: &Acl| {
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
        let with = |status: Option<u16>| Acl { response: status.map(of), ..Acl::default() };
        let joined = |first: Option<u16>, next: Option<u16>| with(first).join(&with(next)).map(|acl| acl.response);
        assert_eq!(joined(Some(404), Some(429)), None);
        assert_eq!(joined(Some(404), Some(404)), Some(Some(of(404))));
        assert_eq!(joined(Some(404), None), Some(Some(of(404))));
        assert_eq!(joined(None, Some(429)), Some(Some(of(429))));
        assert_eq!(joined(None, None), Some(None));
    }
}
