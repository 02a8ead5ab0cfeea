//! The filter chain of a connection.

use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier;
use prost::{Message, Name};
use serde::Serialize;

use super::request::ExplainRequest;
use crate::encode::listener::REFUSAL;

/// The transport protocols that Envoy detects.
const TLS: &str = "tls";
const PLAIN: &str = "raw_buffer";

/// A filter chain that was compared with the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainCandidate {
    /// The name of the chain.
    pub name: String,
    /// Why the chain is not used; unset for the chain that is used.
    pub why_not: Option<String>,
}

/// What a filter chain does with a connection.
pub(super) enum ChainEnd {
    /// The connection is closed, for this reason.
    Closed(String),
    /// The connection is forwarded to clusters with weights.
    Stream(Vec<(String, u32)>),
    /// HTTP.
    Http(Box<HttpConnectionManager>),
}

/// Returns the port at which a listener accepts connections.
pub(super) fn port(listener: &Listener) -> Option<u32> {
    let Address::SocketAddress(address) = listener.address.as_ref()?.address.as_ref()? else { return None };
    if address.protocol() == Protocol::Udp {
        return None;
    }
    match address.port_specifier.as_ref()? {
        PortSpecifier::PortValue(port) => Some(*port),
        PortSpecifier::NamedPort(_) => None,
    }
}

/// Returns all chains with reasons, and the chain that is used, or the reason why there is none.
///
/// Envoy compares criteria one after the other and never returns to an earlier one: the most specific server name
/// decides before the transport protocol is compared.
pub(super) fn choose<'l>(
    listener: &'l Listener,
    request: &ExplainRequest,
) -> (Vec<ChainCandidate>, Result<&'l FilterChain, String>) {
    let inspects = listener.listener_filters.iter().any(|filter| filter.name.contains("tls_inspector"));
    let is_tls = request.tls && inspects;
    let server_name = request.server_name.as_deref().filter(|_| is_tls);
    let none = FilterChainMatch::default();
    let wanted = |chain: &'l FilterChain| chain.filter_chain_match.as_ref();
    let ranks: Vec<Result<usize, String>> =
        listener.filter_chains.iter().map(|chain| rank(wanted(chain).unwrap_or(&none), server_name)).collect();
    let best = ranks.iter().flatten().max().copied();
    let transport = if is_tls { TLS } else { PLAIN };
    let with = |protocol: &str| {
        let chains = listener.filter_chains.iter().zip(&ranks);
        let own = |chain| wanted(chain).map_or("", |wanted| wanted.transport_protocol.as_str());
        let fits = |(chain, rank): (&'l FilterChain, &Result<usize, String>)| {
            rank.as_ref().ok() == best.as_ref() && best.is_some() && own(chain) == protocol
        };
        chains.map(fits).position(|fits| fits)
    };
    let chosen = with(transport).or_else(|| with(""));
    let why_not = |index: usize, rank: &Result<usize, String>| match rank {
        _ if chosen == Some(index) => None,
        Err(why) => Some(why.clone()),
        Ok(rank) if Some(*rank) < best => Some("another chain has a more specific server name".into()),
        Ok(_) if is_tls => Some("another chain is for connections with TLS".into()),
        Ok(_) => Some("the chain is for connections with TLS".into()),
    };
    let chains = listener.filter_chains.iter().zip(&ranks).enumerate();
    let candidate = |(index, (chain, rank)): (usize, (&FilterChain, &Result<usize, String>))| ChainCandidate {
        name: chain.name.clone(),
        why_not: why_not(index, rank),
    };
    let candidates = chains.map(candidate).collect();
    let chain = chosen.and_then(|index| listener.filter_chains.get(index)).or(listener.default_filter_chain.as_ref());
    (candidates, chain.ok_or_else(|| "no filter chain of the listener is for this connection".to_owned()))
}

/// Returns how specific the server names of a chain are for a connection: 0 without names, more for a longer wildcard,
/// most for the exact name.
fn rank(wanted: &FilterChainMatch, server_name: Option<&str>) -> Result<usize, String> {
    let other = FilterChainMatch { server_names: Vec::new(), transport_protocol: String::new(), ..wanted.clone() };
    if other != FilterChainMatch::default() {
        return Err("the chain has conditions on addresses or protocols, which are not evaluated".into());
    }
    if wanted.server_names.is_empty() {
        return Ok(0);
    }
    let names = wanted.server_names.join(", ");
    let Some(server_name) = server_name else {
        return Err(format!("the chain is for the server name {names}, and the connection has none"));
    };
    let rank = |name: &String| match name.strip_prefix('*') {
        None => (name.to_ascii_lowercase() == server_name).then_some(usize::MAX),
        Some(suffix) => {
            let is_below = server_name.len() > suffix.len() && server_name.ends_with(&suffix.to_ascii_lowercase());
            is_below.then_some(suffix.len())
        }
    };
    let best = wanted.server_names.iter().filter_map(rank).max();
    best.ok_or_else(|| format!("the server name {server_name} is not {names}"))
}

/// Returns what a chain does with a connection.
pub(super) fn end(chain: &FilterChain, request: &ExplainRequest) -> ChainEnd {
    let config = |filter: &str| {
        let mut configs = chain.filters.iter().filter_map(|filter| match &filter.config_type {
            Some(ConfigType::TypedConfig(config)) => Some(config),
            _ => None,
        });
        configs.find(|config| config.type_url == filter).map(|config| config.value.as_slice())
    };
    if chain.filters.iter().any(|filter| filter.name == REFUSAL) {
        return ChainEnd::Closed("the filter chain closes every connection".into());
    }
    if let Some(proxy) = config(&TcpProxy::type_url()).and_then(|bytes| TcpProxy::decode(bytes).ok()) {
        return stream(proxy);
    }
    let Some(manager) = config(&HttpConnectionManager::type_url()) else {
        return ChainEnd::Closed("the filter chain has no filter that forwards requests".into());
    };
    match (chain.transport_socket.is_some(), request.tls) {
        (true, false) => ChainEnd::Closed("the filter chain requires TLS, and the URL is http".into()),
        (false, true) => ChainEnd::Closed("the filter chain has no TLS, and the URL is https".into()),
        _ => match HttpConnectionManager::decode(manager) {
            Ok(manager) => ChainEnd::Http(Box::new(manager)),
            Err(_) => ChainEnd::Closed("the connection manager of the filter chain cannot be read".into()),
        },
    }
}

fn stream(proxy: TcpProxy) -> ChainEnd {
    ChainEnd::Stream(match proxy.cluster_specifier {
        Some(ClusterSpecifier::Cluster(cluster)) => vec![(cluster, 1)],
        Some(ClusterSpecifier::WeightedClusters(several)) => {
            several.clusters.into_iter().map(|cluster| (cluster.name, cluster.weight)).collect()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use envoy_types::pb::envoy::config::listener::v3::ListenerFilter;

    use super::*;

    fn listener(chains: &[(&str, &[&str], &str)]) -> Listener {
        let chain = |(name, names, protocol): &(&str, &[&str], &str)| FilterChain {
            name: (*name).into(),
            filter_chain_match: Some(FilterChainMatch {
                server_names: names.iter().map(|name| (*name).to_owned()).collect(),
                transport_protocol: (*protocol).into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        Listener {
            filter_chains: chains.iter().map(chain).collect(),
            listener_filters: vec![ListenerFilter { name: "tls_inspector".into(), ..Default::default() }],
            ..Default::default()
        }
    }

    fn chosen(listener: &Listener, url: &str) -> Result<String, Vec<String>> {
        let (candidates, chosen) = choose(listener, &ExplainRequest::read("GET", url, &[]).unwrap());
        let reasons: Vec<String> = candidates.into_iter().filter_map(|candidate| candidate.why_not).collect();
        let all = listener.filter_chains.len();
        assert_eq!(reasons.len(), all - usize::from(chosen.is_ok()), "each chain that is not used has a reason");
        chosen.map(|chain| chain.name.clone()).map_err(|_| reasons)
    }

    #[test]
    fn the_most_specific_server_name_decides() {
        let listener = listener(&[
            ("any", &[], "tls"),
            ("wide", &["*.example"], "tls"),
            ("narrow", &["*.b.example"], "tls"),
            ("exact", &["a.b.example"], "tls"),
        ]);
        let cases = [
            ("https://a.b.example/", "exact"),
            ("https://A.B.example/", "exact"),
            ("https://c.b.example/", "narrow"),
            ("https://x.c.b.example/", "narrow"),
            ("https://b.example/", "wide"),
            ("https://example/", "any"),
            ("https://[::1]/", "any"),
        ];
        for (url, expected) in cases {
            assert_eq!(chosen(&listener, url).as_deref(), Ok(expected), "{url}");
        }
        let reasons = chosen(&listener, "http://a.b.example/").unwrap_err();
        assert_eq!(reasons[0], "the chain is for connections with TLS");
        assert_eq!(reasons[3], "the chain is for the server name a.b.example, and the connection has none");
    }

    #[test]
    fn envoy_does_not_return_to_a_less_specific_server_name() {
        let listener = listener(&[("any", &[], ""), ("other", &["a.example"], "raw_buffer")]);
        assert_eq!(chosen(&listener, "https://b.example/").as_deref(), Ok("any"));
        let reasons = chosen(&listener, "https://a.example/").unwrap_err();
        assert_eq!(reasons[0], "another chain has a more specific server name");
    }

    #[test]
    fn a_chain_and_a_url_agree_about_tls() {
        let manager = HttpConnectionManager::default();
        let filter = crate::encode::listener::filter("http", &manager);
        let chain = FilterChain { filters: vec![filter], ..Default::default() };
        let end = |url| end(&chain, &ExplainRequest::read("GET", url, &[]).unwrap());
        assert!(matches!(end("http://a.example/"), ChainEnd::Http(_)));
        assert!(matches!(end("https://a.example/"), ChainEnd::Closed(why) if why.contains("no TLS")));
    }
}
