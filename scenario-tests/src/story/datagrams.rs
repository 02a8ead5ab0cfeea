//! Datagrams of a simulated Envoy: the clusters to which a UDP port forwards them.

use envoy_types::pb::envoy::config::listener::v3::listener_filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Listener, ListenerFilter};
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::udp_proxy_config::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3::{Route, UdpProxyConfig};
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::on_match::OnMatch as Found;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherType, OnMatch};
use prost::{Message, Name};

/// Returns the names and clusters of the UDP proxies of a listener; a proxy without clusters drops datagrams. `None` for a
/// listener of connections.
pub(super) fn proxies(listener: &Listener) -> Option<Vec<(&str, Vec<String>)>> {
    let config = |filter: &ListenerFilter| match &filter.config_type {
        Some(ConfigType::TypedConfig(config)) if config.type_url == UdpProxyConfig::type_url() => {
            Some(UdpProxyConfig::decode(&*config.value).unwrap_or_default())
        }
        _ => None,
    };
    let all = listener.listener_filters.iter();
    let proxies: Vec<_> = all.filter_map(|filter| Some((filter.name.as_str(), clusters(&config(filter)?)))).collect();
    (!proxies.is_empty() || listener.udp_listener_config.is_some()).then_some(proxies)
}

fn clusters(proxy: &UdpProxyConfig) -> Vec<String> {
    let Some(RouteSpecifier::Matcher(Matcher { on_no_match, matcher_type })) = &proxy.route_specifier else {
        return Vec::new();
    };
    let list = match matcher_type {
        Some(MatcherType::MatcherList(list)) => &list.matchers[..],
        _ => &[],
    };
    let matches = list.iter().filter_map(|matcher| matcher.on_match.as_ref()).chain(on_no_match.as_deref());
    matches.filter_map(cluster).collect()
}

fn cluster(found: &OnMatch) -> Option<String> {
    let Some(Found::Action(action)) = &found.on_match else { return None };
    Route::decode(&*action.typed_config.as_ref()?.value).ok().map(|route| route.cluster)
}
