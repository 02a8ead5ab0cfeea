//! UDP proxying: datagrams that Envoy forwards without inspection.
//!
//! The UDP proxy has no clusters with weights. A backend has a range of the hashes of client ports as its share: the
//! first matcher with a fraction that includes the hash selects the cluster. Without a matcher that decides, a datagram
//! is dropped.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/listeners/udp_filters/udp_proxy>

use envoy_types::pb::envoy::config::core::v3::{RuntimeFractionalPercent, UdpSocketConfig};
use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{ListenerFilter, UdpListenerConfig};
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::{Route, UdpProxyConfig};
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::SourcePortInput;
use envoy_types::pb::envoy::extensions::matching::input_matchers::runtime_fraction::v3::RuntimeFraction;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;
use envoy_types::pb::google::protobuf::UInt64Value;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate::Matcher as ValueMatcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{MatchType, SinglePredicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use prost::{Message, Name};

use super::stream::Stream;
use crate::encode::{any, names};

/// Bytes of one datagram, from a client or from a backend. Envoy drops longer datagrams; its default is 1,500.
pub const DATAGRAM_BYTES_MAX: u64 = 9000;

/// Sessions at the backends of one cluster. Each uses a port of the Envoy's host, of which there are 28,000 by default.
/// Envoy's default of 1,024 would be reached by 17 new clients in each second, since a session ends after a minute.
pub const SESSIONS_MAX: u32 = 16_384;

/// Hashes of which a backend has a range.
const SHARES: u64 = 1_000_000;

/// Returns the listener filter that forwards datagrams, or drops them where `to` is unset.
pub(crate) fn filter(name: &str, to: Option<&Stream>) -> ListenerFilter {
    let matcher = to.map(|to| by_shares(&shares(to))).unwrap_or_default();
    let proxy = UdpProxyConfig {
        stat_prefix: name.replace('/', "_"),
        upstream_socket_config: Some(socket()),
        route_specifier: Some(RouteSpecifier::Matcher(matcher)),
        ..Default::default()
    };
    encoded(name.to_owned(), &proxy)
}

/// Returns the settings of a listener that receives datagrams.
pub(crate) fn listener_config() -> UdpListenerConfig {
    UdpListenerConfig { downstream_socket_config: Some(socket()), ..Default::default() }
}

/// Returns the configuration of a listener filter that forwards or drops datagrams; `None` for other filters.
pub(crate) fn config(filter: &ListenerFilter) -> Option<UdpProxyConfig> {
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else { return None };
    let is_proxy = config.type_url == UdpProxyConfig::type_url();
    is_proxy.then(|| UdpProxyConfig::decode(&*config.value).ok())?
}

/// Returns whether a filter drops all datagrams.
pub(crate) fn is_refusal(proxy: &UdpProxyConfig) -> bool {
    proxy.route_specifier == Some(RouteSpecifier::Matcher(Matcher::default()))
}

/// Returns a listener filter with this configuration. Envoy finds the filter by the type of its configuration, so that
/// the name is free.
pub(crate) fn encoded(name: String, proxy: &UdpProxyConfig) -> ListenerFilter {
    ListenerFilter { name, config_type: Some(ConfigType::TypedConfig(any(proxy))), ..Default::default() }
}

fn socket() -> UdpSocketConfig {
    UdpSocketConfig { max_rx_datagram_size: Some(UInt64Value { value: DATAGRAM_BYTES_MAX }), ..Default::default() }
}

/// Returns the clusters, each with the end of its range of hashes. Datagrams to the cluster of missing backends are
/// dropped, since it is never defined.
fn shares(to: &Stream) -> Vec<(String, u64)> {
    let total: u64 = to.backends.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut sum: u64 = 0;
    let share = |(backend, weight): &(Option<_>, u32)| {
        sum = sum.saturating_add(u64::from(*weight));
        let end = sum.saturating_mul(SHARES).checked_div(total).unwrap_or(SHARES);
        (backend.as_ref().map_or_else(|| names::MISSING_BACKEND.to_owned(), names::cluster), end)
    };
    to.backends.iter().map(share).collect()
}

/// Returns a matcher that selects each cluster for its range. The last one has all other hashes.
fn by_shares(shares: &[(String, u64)]) -> Matcher {
    let Some(((last, _), earlier)) = shares.split_last() else { return Matcher::default() };
    let matchers: Vec<FieldMatcher> = earlier
        .iter()
        .map(|(cluster, end)| FieldMatcher { predicate: Some(is_below(*end)), on_match: Some(route(cluster)) })
        .collect();
    let matcher_type = (!matchers.is_empty()).then_some(MatcherType::MatcherList(MatcherList { matchers }));
    Matcher { on_no_match: Some(Box::new(route(last))), matcher_type }
}

fn route(cluster: &str) -> OnMatch {
    let route = extension("route", &Route { cluster: cluster.to_owned() });
    OnMatch { on_match: Some(on_match::OnMatch::Action(route)), ..Default::default() }
}

/// Returns whether the hash of the client's port is below a number.
fn is_below(end: u64) -> Predicate {
    let fraction = FractionalPercent {
        numerator: u32::try_from(end).unwrap_or(u32::MAX),
        denominator: DenominatorType::Million.into(),
    };
    let fraction = RuntimeFractionalPercent { default_value: Some(fraction), ..Default::default() };
    let fraction = RuntimeFraction { runtime_fraction: Some(fraction), seed: 0 };
    Predicate {
        match_type: Some(MatchType::SinglePredicate(SinglePredicate {
            input: Some(extension("client_port", &SourcePortInput {})),
            matcher: Some(ValueMatcher::CustomMatch(extension("share", &fraction))),
        })),
    }
}

fn extension<M: Message + Name>(name: &str, config: &M) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(any(config)) }
}
