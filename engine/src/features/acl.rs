//! Who may come in, by address: of the ranges that an address is in the narrowest counts.
//!
//! Served by Envoy's filter RBAC.

use std::net::IpAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::{Identifier, Set};
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::google::protobuf::UInt32Value;

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

    /// Envoy's form: those may come in who are in a range that lets them in, and in no narrower one that does not.
    pub(crate) fn encode(&self) -> RbacPerRoute {
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
        let policy =
            Policy { permissions: vec![Permission { rule: Some(Rule::Any(true)) }], principals, ..Default::default() };
        // Where there is no policy nobody may come in.
        let policies = (!policy.principals.is_empty()).then(|| (POLICY.to_owned(), policy)).into_iter().collect();
        RbacPerRoute {
            rbac: Some(Rbac {
                rules: Some(Rules { action: Action::Allow.into(), policies, ..Default::default() }),
                ..Default::default()
            }),
        }
    }
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
        let rules = |acl: &Acl| acl.encode().rbac.and_then(|rbac| rbac.rules).map(|rules| rules.policies.len());
        assert_eq!(rules(&Acl { default_allow: Some(false), entries: vec![] }), Some(0));
        assert_eq!(rules(&Acl { default_allow: Some(false), entries: vec![entry("10.0.0.0", 8, false)] }), Some(0));
        assert_eq!(rules(&Acl::default()), Some(1));
    }
}
