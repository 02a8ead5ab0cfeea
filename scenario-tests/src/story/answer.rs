//! Response of a simulated Envoy to a request: its route configurations are decoded and matched as Envoy does.

use anyhow::{Context, Result, bail};
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier as Data;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, Route, RouteConfiguration, RouteMatch, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::direct_response::v3::Config as NetworkDirectResponse;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::tcp_proxy::ClusterSpecifier as TcpCluster;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use holdfast_xds::ResourceType;
use prost::{Message, Name};

use super::envoy::Envoy;

/// The internal Gateway of HTTPProxies.
const PROXIES: &str = "holdfast/httpproxy";

/// A request: `[METHOD ]host/path[ header=value…][ on=table][ at=node]`; on a listener, a connection with TLS.
#[derive(Clone, Debug)]
pub struct SimulatedRequest {
    method: String,
    host: String,
    path: String,
    headers: Vec<(String, String)>,
    /// The route configuration; that of plain HTTP where unset.
    table: Option<String>,
    /// The node that receives the request; all nodes where unset.
    pub node: Option<String>,
    /// The number that Envoy draws for the request, in percent.
    drawn: u32,
}

impl SimulatedRequest {
    /// Parses a request.
    pub fn parse(text: &str) -> Result<Self> {
        let mut request = Self {
            method: "GET".into(),
            host: String::new(),
            path: String::new(),
            headers: vec![],
            table: None,
            node: None,
            drawn: 0,
        };
        for word in text.split_whitespace() {
            if request.host.is_empty() && word.chars().all(|c| c.is_ascii_uppercase()) {
                request.method = word.into();
            } else if request.host.is_empty() {
                let (host, path) = word.split_once('/').with_context(|| format!("{text}: no path"))?;
                (request.host, request.path) = (host.into(), format!("/{path}"));
            } else {
                match word.split_once('=').with_context(|| format!("{text}: {word} has no ="))? {
                    ("on", table) => request.table = Some(table.into()),
                    ("drawn", percent) => request.drawn = percent.parse()?,
                    ("at", node) => request.node = Some(node.into()),
                    (name, value) => request.headers.push((name.into(), value.into())),
                }
            }
        }
        if request.host.is_empty() {
            bail!("{text}: no host");
        }
        Ok(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        if name == ":method" {
            return Some(&self.method);
        }
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// Returns the response of an Envoy: a backend as `namespace/name`, a status, `redirect`, or `nothing`.
pub fn answer(envoy: &Envoy, request: &SimulatedRequest) -> String {
    let plain = if &*envoy.id.fleet == PROXIES { "http/8080" } else { "http/80" };
    let table = request.table.as_deref().unwrap_or(plain);
    if table.starts_with("listener/") {
        return connection(envoy, table, &request.host);
    }
    let found = envoy.taken.get(&(ResourceType::Route, table.into()));
    let Some(resource) = found else { return "no configuration".into() };
    let Ok(configuration) = RouteConfiguration::decode(&*resource.body) else { return "undecodable".into() };
    let Some(host) = virtual_host(&configuration, &request.host) else { return "nothing".into() };
    let matched = host.routes.iter().find(|route| route.r#match.as_ref().is_some_and(|m| matches(m, request)));
    matched.map_or_else(|| "nothing".into(), |route| response_of(route, envoy))
}

/// Returns what happens to a connection with TLS for a server name, or to a datagram: a backend as `namespace/name`,
/// `refused`, `requests` if HTTP is served, `nothing`, or `missing` for a cluster that is not defined.
fn connection(envoy: &Envoy, listener: &str, server_name: &str) -> String {
    let found = envoy.taken.get(&(ResourceType::Listener, listener.into()));
    let Some(resource) = found else { return "no configuration".into() };
    let Ok(listener) = Listener::decode(&*resource.body) else { return "undecodable".into() };
    if let Some(proxies) = super::datagrams::proxies(&listener) {
        let clusters: Vec<&str> = proxies.iter().flat_map(|(_, clusters)| clusters).map(String::as_str).collect();
        return if clusters.is_empty() { "refused".into() } else { backends(clusters.into_iter(), envoy, "missing") };
    }
    let rank = |chain: &FilterChain| {
        let names = chain.filter_chain_match.as_ref().map(|wanted| &wanted.server_names[..]).unwrap_or_default();
        if names.is_empty() { Some(0) } else { names.iter().filter_map(|name| rank_of(name, server_name)).max() }
    };
    let ranked = listener.filter_chains.iter().filter_map(|chain| Some((rank(chain)?, chain)));
    let Some((_, chain)) = ranked.max_by_key(|(rank, _)| *rank) else { return "nothing".into() };
    if let Some(clusters) = clusters_of_chain(chain) {
        return backends(clusters.iter().map(String::as_str), envoy, "missing");
    }
    let is_refusal = |filter: &Filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(config)) => config.type_url == NetworkDirectResponse::type_url(),
        _ => false,
    };
    if chain.filters.iter().any(is_refusal) { "refused".into() } else { "requests".into() }
}

/// Returns the clusters that a filter chain forwards connections to; `None` if it does not forward connections.
pub(super) fn clusters_of_chain(chain: &FilterChain) -> Option<Vec<String>> {
    let mut configs = chain.filters.iter().filter_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(config)) => Some(config),
        _ => None,
    });
    let proxy = configs.find(|config| config.type_url == TcpProxy::type_url())?;
    Some(match TcpProxy::decode(&*proxy.value).unwrap_or_default().cluster_specifier {
        Some(TcpCluster::Cluster(name)) => vec![name],
        Some(TcpCluster::WeightedClusters(all)) => all.clusters.into_iter().map(|share| share.name).collect(),
        _ => vec![],
    })
}

/// Returns the per-filter configuration that applies to a request, as text: of its route, its virtual host, and the
/// route configuration.
pub fn filters(envoy: &Envoy, request: &SimulatedRequest) -> String {
    let table = request.table.as_deref().unwrap_or("http/80");
    let found = envoy.taken.get(&(ResourceType::Route, table.into()));
    let configuration = found.and_then(|resource| RouteConfiguration::decode(&*resource.body).ok()).unwrap_or_default();
    let host = virtual_host(&configuration, &request.host);
    let mut routes = host.iter().flat_map(|host| &host.routes);
    let route = routes.find(|route| route.r#match.as_ref().is_some_and(|m| matches(m, request)));
    let of_route = route.map(|route| &route.typed_per_filter_config);
    let of_host = host.map(|host| &host.typed_per_filter_config);
    let all = of_route.into_iter().chain(of_host).chain([&configuration.typed_per_filter_config]);
    all.flat_map(|settings| settings.values())
        .map(|config| String::from_utf8_lossy(&config.value).into_owned())
        .collect()
}

fn response_of(route: &Route, envoy: &Envoy) -> String {
    match &route.action {
        Some(Action::DirectResponse(direct)) => direct.status.to_string(),
        Some(Action::Redirect(_)) => "redirect".into(),
        Some(Action::Route(action)) => {
            let clusters: Vec<&str> = match &action.cluster_specifier {
                Some(ClusterSpecifier::Cluster(name)) => vec![name],
                Some(ClusterSpecifier::WeightedClusters(weighted)) => {
                    weighted.clusters.iter().map(|cluster| &*cluster.name).collect()
                }
                _ => vec![],
            };
            backends(clusters.into_iter(), envoy, "500")
        }
        _ => "undefined".into(),
    }
}

/// Returns the backends of clusters; `missing` for a cluster that is not defined.
fn backends<'a>(clusters: impl Iterator<Item = &'a str>, envoy: &Envoy, missing: &str) -> String {
    let describe = |name: &str| match envoy.taken.contains_key(&(ResourceType::Cluster, name.into())) {
        true => {
            let mut parts = name.split('/').skip(1);
            format!("{}/{}", parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
        }
        false => missing.to_owned(),
    };
    clusters.map(describe).collect::<Vec<_>>().join("+")
}

/// Returns the body of a direct response of a route, to check texts that must not be in it.
pub fn body(route: &Route) -> Option<&str> {
    let Some(Action::DirectResponse(direct)) = &route.action else { return None };
    match direct.body.as_ref()?.specifier.as_ref()? {
        Data::InlineString(text) => Some(text),
        _ => None,
    }
}

fn virtual_host<'a>(configuration: &'a RouteConfiguration, host: &str) -> Option<&'a VirtualHost> {
    let ranked = configuration
        .virtual_hosts
        .iter()
        .filter_map(|known| Some((known.domains.iter().filter_map(|domain| rank_of(domain, host)).max()?, known)));
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, known)| known)
}

/// Returns how specific a pattern is for a host; `None` if it does not match.
fn rank_of(pattern: &str, host: &str) -> Option<usize> {
    match pattern.strip_prefix('*') {
        None => (pattern == host).then_some(usize::MAX),
        Some(suffix) => (host.len() > suffix.len() && host.ends_with(suffix)).then_some(suffix.len()),
    }
}

/// The fractions of routes are in millionths.
const MILLION: u32 = 1_000_000;

fn matches(wanted: &RouteMatch, request: &SimulatedRequest) -> bool {
    let path = match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => request.path.starts_with(prefix.as_str()),
        Some(PathSpecifier::Path(path)) => request.path == *path,
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
            request.path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Some(PathSpecifier::SafeRegex(regex)) => whole(&regex.regex, &request.path),
        _ => false,
    };
    let grpc = wanted.grpc.is_none() || request.header("content-type").is_some_and(|kind| kind.contains("grpc"));
    let end = wanted.runtime_fraction.as_ref().and_then(|fraction| fraction.default_value.as_ref());
    let drawn = end.is_none_or(|end| end.numerator > request.drawn * (MILLION / 100));
    let conditions = || wanted.query_parameters.is_empty() && wanted.headers.iter().all(|header| has(header, request));
    path && grpc && drawn && conditions()
}

fn has(wanted: &HeaderMatcher, request: &SimulatedRequest) -> bool {
    let value = request.header(&wanted.name);
    match &wanted.header_match_specifier {
        Some(HeaderMatchSpecifier::PresentMatch(present)) => value.is_some() == *present,
        Some(HeaderMatchSpecifier::StringMatch(matcher)) => value.is_some_and(|value| string(matcher, value)),
        _ => false,
    }
}

fn string(matcher: &StringMatcher, value: &str) -> bool {
    match &matcher.match_pattern {
        Some(MatchPattern::Exact(exact)) => exact == value,
        Some(MatchPattern::SafeRegex(regex)) => whole(&regex.regex, value),
        _ => false,
    }
}

fn whole(pattern: &str, text: &str) -> bool {
    regex::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(text))
}
