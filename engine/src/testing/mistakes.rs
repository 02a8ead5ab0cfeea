//! Mistakes that translation takes and Envoy refuses: what blame is tested with, now that translation knows most of them.
//!
//! A route is spoilt where its answers are to have the header [`HEADER`], a certificate where the text [`KEY`] stands before
//! it, a cluster and a filter chain where [`NAME`] stands in a name. The mistake is part of the content, so that it comes and goes with an edit as those of people do. It is put in while
//! the resource is encoded, after everything was checked.

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

/// The header that an answer is to have where its route is to be spoilt; its value is the mistake's name.
pub const HEADER: &str = "x-holdfast-testing-mistake";
/// The mistakes of one route alone: an expression that is none; a time below zero; a header with a line break, which Envoy
/// checks before it applies anything; a rewrite by an expression that is none; back ends without one.
pub const ALONE: [&str; 5] = ["regex", "duration", "header", "rewrite", "weights"];
/// Two routes of one host that have this are each fine and are refused together: the host's name is there twice, then.
pub const PAIR: &str = "pair";
/// Text before a certificate that gets a key that is not its own.
pub const KEY: &str = "holdfast-testing-mistake: key";

/// In the name of a Service: its cluster is refused where it is spoken to in HTTP/2. In the name of a listener with TLS:
/// its filter chain is refused. Anywhere in a filter that asks somebody: the filter is refused.
pub const NAME: &str = "testing-mistake";

/// How the bytes of a route end that is one of a pair.
const PAIR_END: &str = "holdfast-testing-pair";
const OTHER_KEY: &[u8] = include_bytes!("../check/certificate/fixtures/p521.key");

/// Puts a route's mistake in.
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

/// Puts a host's mistake in: a pair is in it.
pub(crate) fn spoil_host<'a>(host: &mut VirtualHost, routes: impl Iterator<Item = &'a Bytes>) {
    if routes.filter(|route| route.ends_with(PAIR_END.as_bytes())).count() > 1 {
        host.domains.extend_from_within(..);
    }
}

/// The key that a certificate gets: its own, or another one's.
pub(crate) fn spoilt_key(chain: &Bytes, key: &Bytes) -> Bytes {
    if chain.windows(KEY.len()).any(|window| window == KEY.as_bytes()) {
        return Bytes::from_static(OTHER_KEY);
    }
    key.clone()
}

/// Puts a cluster's mistake in: two ways to choose an endpoint that exclude each other.
pub(crate) fn spoil_cluster(cluster: &mut Cluster) {
    if cluster.name.contains(NAME) && cluster.name.contains("/h2c") {
        cluster.lb_policy = LbPolicy::ClusterProvided.into();
    }
}

/// Puts the mistake of a filter in that asks somebody: what is no message.
pub(crate) fn spoil_filter(filter: &mut Any) {
    if filter.value.windows(NAME.len()).any(|window| window == NAME.as_bytes()) {
        filter.value = vec![u8::MAX];
    }
}

/// Puts a filter chain's mistake in: a name of which only a part is open.
pub(crate) fn spoil_chain(chain: &mut FilterChain) {
    let spoilt = chain.name.starts_with("https/") && chain.name.contains(NAME);
    if let Some(matches) = chain.filter_chain_match.as_mut().filter(|_| spoilt) {
        matches.server_names.push("part*.example".into());
    }
}
