//! Mistakes that translation accepts and Envoy refuses: test data for attribution, since translation detects most other
//! mistakes.
//!
//! A route is spoilt if it sets the response header [`HEADER`]; a certificate if the text [`KEY`] precedes it; a
//! cluster and a filter chain if [`NAME`] is part of a name. The mistake is part of the content, so that an edit adds
//! or removes it, as with mistakes of users. It is added during encoding, after all checks.

use bytes::Bytes;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::LbPolicy;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::config::listener::v3::FilterChain;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, VirtualHost, WeightedCluster};
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatchAndSubstitute, RegexMatcher};
use envoy_types::pb::google::protobuf::{Any, Duration};

use crate::features::headers::HeaderEdits;

/// Response header that marks a route as spoilt; its value is the name of the mistake.
pub const HEADER: &str = "x-holdfast-testing-mistake";
/// Mistakes of one route: an invalid regex; a negative timeout; a header with a line break, which Envoy detects before
/// it applies anything; a rewrite by an invalid regex; weighted clusters without a cluster.
pub const ALONE: [&str; 5] = ["regex", "duration", "header", "rewrite", "weights"];
/// Mistake of a pair: each of two routes of one host is valid, and both together are refused, since the host's name is
/// added twice.
pub const PAIR: &str = "pair";
/// Text before a certificate that gets the key of another certificate.
pub const KEY: &str = "holdfast-testing-mistake: key";

/// In the name of a Service: its cluster is refused with HTTP/2. In the name of a listener with TLS: its filter chain
/// is refused. In a filter that calls an external service: the filter is refused.
pub const NAME: &str = "testing-mistake";

/// End of the bytes of a route that is one of a pair.
const PAIR_END: &str = "holdfast-testing-pair";
const OTHER_KEY: &[u8] = include_bytes!("../../../check/src/certificate/fixtures/p521.key");

/// Adds a route's mistake.
pub(crate) fn spoil_route(route: &mut Route, edits: &HeaderEdits) {
    let Some((_, mistake)) = edits.set.iter().find(|(name, _)| &**name == HEADER) else { return };
    let (Some(matches), Some(Action::Route(action))) = (&mut route.r#match, &mut route.action) else { return };
    let none = RegexMatcher { regex: "/bad[a".into(), ..Default::default() };
    match &**mistake {
        "regex" => matches.path_specifier = Some(PathSpecifier::SafeRegex(none)),
        "duration" => action.timeout = Some(Duration { seconds: -5, nanos: 0 }),
        "rewrite" => {
            let rewrite = RegexMatchAndSubstitute { pattern: Some(none), substitution: "/".into() };
            action.regex_rewrite = Some(rewrite);
        }
        "weights" => action.cluster_specifier = Some(ClusterSpecifier::WeightedClusters(WeightedCluster::default())),
        "header" => {
            let header = HeaderValue { key: "x-a".into(), value: "a\r\nb: c".into(), ..Default::default() };
            route.request_headers_to_add.push(HeaderValueOption { header: Some(header), ..Default::default() });
        }
        PAIR => route.stat_prefix = PAIR_END.into(),
        _ => {}
    }
}

/// Adds a host's mistake if the host contains a pair.
pub(crate) fn spoil_host<'a>(host: &mut VirtualHost, routes: impl Iterator<Item = &'a Bytes>) {
    if routes.filter(|route| route.ends_with(PAIR_END.as_bytes())).count() > 1 {
        host.domains.extend_from_within(..);
    }
}

/// Returns the key for a certificate: its own, or that of another certificate.
pub(crate) fn spoilt_key(chain: &Bytes, key: &Bytes) -> Bytes {
    if chain.windows(KEY.len()).any(|window| window == KEY.as_bytes()) {
        return Bytes::from_static(OTHER_KEY);
    }
    key.clone()
}

/// Adds a cluster's mistake: two settings of load balancing that exclude each other.
pub(crate) fn spoil_cluster(cluster: &mut Cluster) {
    if cluster.name.contains(NAME) && cluster.name.contains("/h2c") {
        cluster.lb_policy = LbPolicy::ClusterProvided.into();
    }
}

/// Adds the mistake of a filter that calls an external service: invalid bytes.
pub(crate) fn spoil_filter(filter: &mut Any) {
    if filter.value.windows(NAME.len()).any(|window| window == NAME.as_bytes()) {
        filter.value = vec![u8::MAX];
    }
}

/// Adds a filter chain's mistake: a server name with a partial wildcard.
pub(crate) fn spoil_chain(chain: &mut FilterChain) {
    let spoilt = chain.name.contains(NAME);
    if let Some(matches) = chain.filter_chain_match.as_mut().filter(|_| spoilt) {
        matches.server_names.push("part*.example".into());
    }
}
