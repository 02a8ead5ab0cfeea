//! The walls of clusters in which Envoy looks hosts up: filters that look at the address that was chosen for a request,
//! each time that one is, before any of the request is sent.
//!
//! Hosts by names have [`chosen`], which holds for every request: those of clients, questions of filters, and copies.
//! Where requests choose the host there is [`filter`], which holds for requests of clients only, and no others go there.
//! Health checks meet no filter at all, which is why they are refused where hosts are looked up
//! ([`super::hosts::Hosts::fits`]).

mod chosen;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use envoy_types::pb::envoy::config::cluster::v3 as envoy;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, DnsLookupFamily};
use envoy_types::pb::envoy::config::core::v3::{CidrRange, TypedExtensionConfig};
use envoy_types::pb::envoy::config::rbac::v3::permission::{Rule, Set};
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::rbac::matchers::upstream_ip_port::v3::UpstreamIpPortMatcher;
use envoy_types::pb::google::protobuf::{Any, BoolValue, UInt32Value};

use super::upstream_filters::Special;
use crate::check::ranges::{self, Range};
use crate::encode::any;

/// The filter that looks at what was chosen.
const FILTER: &str = "envoy.filters.http.upstream_rbac";

/// How Envoy looks up the hosts of a cluster.
const LOOKED_UP: ClusterDiscoveryType = ClusterDiscoveryType::Type(DiscoveryType::StrictDns as i32);

/// Makes Envoy look up the hosts of a cluster, which must have the settings of [`special`]. No other cluster but that of
/// a forward proxy looks names up. Each address is a host of its own, so that the one that was looked at is the one
/// that is connected to.
pub(crate) fn look_up(cluster: &mut envoy::Cluster, family: DnsLookupFamily) {
    cluster.cluster_discovery_type = Some(LOOKED_UP);
    cluster.dns_lookup_family = family.into();
    // A name that does not resolve must not keep other clusters waiting.
    cluster.wait_for_warm_on_init = Some(BoolValue { value: false });
}

/// Does Envoy look up the hosts of a cluster?
pub(super) fn is_looked_up(cluster: &envoy::Cluster) -> bool {
    cluster.cluster_discovery_type == Some(LOOKED_UP)
}

/// The HTTP settings of a cluster with hosts that Envoy looks up.
pub(crate) fn special(allow_loopback: bool) -> Special {
    Special { filters: vec![chosen::filter(allow_loopback)], names: None }
}

/// The filter for requests of clients, by its name. Loopback passes where operators allow it.
pub(crate) fn filter(allow_loopback: bool) -> (&'static str, Any) {
    (FILTER, any(&rules(allow_loopback)))
}

/// Only what has an address, and none of those that are refused.
fn rules(allow_loopback: bool) -> Rbac {
    let anywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    let known = anywhere.map(|network| chosen(&Range { network, bits: 0 }));
    let refused = any_of(ranges::refused(allow_loopback).iter().map(chosen).collect());
    let not_refused = rule(Rule::NotRule(Box::new(refused)));
    let allowed = rule(Rule::AndRules(Set { rules: vec![any_of(known.into()), not_refused] }));
    let policy = Policy {
        permissions: vec![allowed],
        principals: vec![Principal { identifier: Some(Identifier::Any(true)) }],
        ..Default::default()
    };
    Rbac {
        rules: Some(Rules {
            action: Action::Allow.into(),
            policies: [("allowed".to_owned(), policy)].into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn rule(rule: Rule) -> Permission {
    Permission { rule: Some(rule) }
}

fn any_of(rules: Vec<Permission>) -> Permission {
    rule(Rule::OrRules(Set { rules }))
}

/// An address that was chosen, in a range.
fn chosen(range: &Range) -> Permission {
    let matcher = UpstreamIpPortMatcher {
        upstream_ip: Some(CidrRange {
            address_prefix: range.network.to_string(),
            prefix_len: Some(UInt32Value { value: range.bits.into() }),
        }),
        ..Default::default()
    };
    rule(Rule::Matcher(TypedExtensionConfig {
        name: "envoy.rbac.matchers.upstream_ip_port".into(),
        typed_config: Some(any(&matcher)),
    }))
}
