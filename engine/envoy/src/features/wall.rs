//! Address filters of clusters with hosts that Envoy resolves by DNS. They check the address that was selected for a
//! request, each time one is selected, before any of the request is sent.
//!
//! Clusters of hosts by name have [`chosen`], which applies to every request: requests of clients, calls of filters,
//! and mirrored requests. Forward proxies have [`filter`], which applies to requests of clients only; no others go
//! there. Health checks pass no filter at all, so they are refused where hosts are resolved by DNS
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
use holdfast_check::ranges::{self, Range};

use super::upstream_filters::Special;
use crate::encode::any;

/// The filter that checks the selected address.
const FILTER: &str = "envoy.filters.http.upstream_rbac";

/// The discovery type of a cluster with hosts that Envoy resolves by DNS.
const LOOKED_UP: ClusterDiscoveryType = ClusterDiscoveryType::Type(DiscoveryType::StrictDns as i32);

/// Sets up DNS resolution of the cluster's hosts; the cluster must have the settings of [`special`]. Except for
/// clusters of a forward proxy, no other cluster resolves names. Each address is a host of its own, so that Envoy
/// connects to the address that was checked.
pub fn look_up(cluster: &mut envoy::Cluster, family: DnsLookupFamily) {
    cluster.cluster_discovery_type = Some(LOOKED_UP);
    cluster.dns_lookup_family = family.into();
    // A name that does not resolve must not delay other clusters.
    cluster.wait_for_warm_on_init = Some(BoolValue { value: false });
}

/// Returns whether Envoy resolves the hosts of the cluster by DNS.
pub(super) fn is_looked_up(cluster: &envoy::Cluster) -> bool {
    cluster.cluster_discovery_type == Some(LOOKED_UP)
}

/// Returns the upstream HTTP settings of a cluster with hosts that Envoy resolves by DNS.
pub fn special(allow_loopback: bool) -> Special {
    Special { filters: vec![chosen::filter(allow_loopback)], names: None }
}

/// Returns the filter for requests of clients, with its name. It allows loopback where operators allow that.
pub fn filter(allow_loopback: bool) -> (&'static str, Any) {
    (FILTER, any(&rules(allow_loopback)))
}

/// Returns rules that allow a request only if its address is known and not refused.
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

/// Matches a selected address in the range.
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
