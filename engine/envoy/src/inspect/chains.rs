//! Filter chains of encoded listeners, and the closing of held ones that must no longer accept connections.
//!
//! A held chain lacks requirements that were added later: a host that was removed or closed, client certificates, an IP
//! access list, a higher version of TLS. The caller decides which chains must be closed.

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{DownstreamTlsContext, TlsParameters};
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use crate::encode::listener::{REFUSAL, refusal};
use crate::encode::names;
use crate::encode::owner::owner;
use crate::features::server_tls::allows_no_more;
use crate::features::{datagrams, stream};

/// A filter chain of a held listener, beside the desired one for the same connections; or the filter of its datagrams.
pub enum HeldChain<'a> {
    /// A filter chain.
    Connections {
        /// The held chain.
        held: &'a FilterChain,
        /// The desired chain.
        desired: Option<&'a FilterChain>,
    },
    /// The filter of a UDP listener.
    Datagrams {
        /// Whether the desired listener forwards the same datagrams for the same owner.
        is_desired: bool,
    },
}

impl HeldChain<'_> {
    /// Checks whether connections of the chain are desired. The routes of a chain without TLS are closed one by one;
    /// connections that are forwarded as bytes have no routes.
    pub fn is_desired(&self) -> bool {
        let (held, desired) = match self {
            Self::Datagrams { is_desired } => return *is_desired,
            Self::Connections { held, desired } => (held, desired),
        };
        let is_stream = is_stream(held);
        let is_same = |desired: &FilterChain| {
            let has_owner = || is_same_owner(held.metadata.as_ref(), desired.metadata.as_ref());
            (is_for_tls(held) || desired.name == held.name) && (!is_stream || has_owner())
        };
        (!is_stream && !is_for_tls(held)) || desired.is_some_and(is_same)
    }

    /// Checks whether the chain accepts clients that the desired one excludes. `meanwhile`: whether the listener is held
    /// only until the desired one was tried. In that case, a chain with an earlier form of a requirement satisfies the
    /// desired form.
    pub fn is_weaker(&self, meanwhile: bool) -> bool {
        match self {
            Self::Connections { held, desired: Some(desired) } => {
                is_for_tls(held) && is_stricter(desired, held, meanwhile)
            }
            Self::Connections { desired: None, .. } | Self::Datagrams { .. } => false,
        }
    }
}

/// Returns the held listener with refusing chains where `must_close`; `None` if there is no such chain.
pub fn close(held: &[u8], desired: Option<&[u8]>, must_close: impl Fn(&HeldChain<'_>) -> bool) -> Option<Bytes> {
    let mut held = Listener::decode(held).ok()?;
    let desired = match desired {
        Some(bytes) => Listener::decode(bytes).ok()?,
        None => Listener::default(),
    };
    let mut any = close_datagrams(&mut held, &desired, &must_close);
    for chain in &mut held.filter_chains {
        let wanted = desired.filter_chains.iter().find(|other| other.filter_chain_match == chain.filter_chain_match);
        if !is_refusal(chain) && must_close(&HeldChain::Connections { held: chain, desired: wanted }) {
            any = true;
            *chain = refusal(names::closed_chain(&chain.name), chain.filter_chain_match.take());
        }
    }
    any.then(|| held.encode_to_vec().into())
}

/// Drops the datagrams of a held listener where `must_close`; returns whether there are any.
fn close_datagrams(held: &mut Listener, desired: &Listener, must_close: &impl Fn(&HeldChain<'_>) -> bool) -> bool {
    let mut any = false;
    // At another address, nothing of the listener is desired.
    let has_owner = held.address == desired.address && is_same_owner(held.metadata.as_ref(), desired.metadata.as_ref());
    for filter in &mut held.listener_filters {
        let forwards = |proxy| !datagrams::is_refusal(&proxy);
        let has_name = || desired.listener_filters.iter().any(|wanted| wanted.name == filter.name);
        let held = HeldChain::Datagrams { is_desired: has_owner && has_name() };
        if datagrams::config(filter).is_some_and(forwards) && must_close(&held) {
            any = true;
            *filter = datagrams::filter(&names::closed_chain(&filter.name), None);
        }
    }
    any
}

/// Checks whether connections or datagrams have the same owner as before. Configuration of an earlier release has no
/// owner.
fn is_same_owner(held: Option<&Metadata>, desired: Option<&Metadata>) -> bool {
    owner(held).is_none_or(|held| owner(desired) == Some(held))
}

/// Checks whether a chain is for TLS. A chain without TLS serves all hosts of its port, and its routes are closed one
/// by one.
fn is_for_tls(chain: &FilterChain) -> bool {
    chain.filter_chain_match.as_ref().is_some_and(|wanted| wanted.transport_protocol == "tls")
}

/// Checks whether a chain forwards connections as bytes.
fn is_stream(chain: &FilterChain) -> bool {
    chain.filters.iter().any(|filter| filter.name == stream::PROXY)
}

fn is_refusal(chain: &FilterChain) -> bool {
    chain.filters.iter().any(|filter| filter.name == REFUSAL)
}

/// Checks whether the wanted chain excludes clients that the held chain accepts.
fn is_stricter(wanted: &FilterChain, held: &FilterChain, meanwhile: bool) -> bool {
    let (clients, of_held) = (clients(wanted), clients(held));
    let (addresses, from_held) = (addresses(wanted), addresses(held));
    is_refusal(wanted)
        || (clients.is_some() && clients != of_held && !(meanwhile && of_held.is_some()))
        || (addresses.is_some() && addresses != from_held && !(meanwhile && from_held.is_some()))
        // Every chain has versions and algorithms in some form.
        || (!meanwhile && !allows_no_more(&parameters(held), &parameters(wanted)))
}

/// Returns whether a chain connects only clients that show a certificate.
pub(crate) fn requires_client_certificate(chain: &FilterChain) -> bool {
    clients(chain).is_some_and(|(is_required, _)| is_required)
}

/// Returns the requirements for client certificates. A requirement that cannot be read equals no requirement.
fn clients(chain: &FilterChain) -> Option<(bool, Option<ValidationContextType>)> {
    let context = tls_context(chain)?;
    let required = context.require_client_certificate.is_some_and(|required| required.value);
    let validation = context.common_tls_context.and_then(|common| common.validation_context_type);
    (required || validation.is_some()).then_some((required, validation))
}

/// Returns the versions and algorithms of a chain; Envoy's defaults where backends terminate TLS.
fn parameters(chain: &FilterChain) -> TlsParameters {
    let common = tls_context(chain).and_then(|context| context.common_tls_context);
    common.and_then(|common| common.tls_params).unwrap_or_default()
}

fn tls_context(chain: &FilterChain) -> Option<DownstreamTlsContext> {
    use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
    let socket = chain.transport_socket.as_ref()?;
    let SocketConfig::TypedConfig(Any { value, .. }) = socket.config_type.as_ref()?;
    DownstreamTlsContext::decode(value.as_slice()).ok()
}

/// Returns the access list by client address.
fn addresses(chain: &FilterChain) -> Option<&ConfigType> {
    let filter = |filter: &&Filter| filter.name == stream::ADDRESSES;
    chain.filters.iter().find(filter)?.config_type.as_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use holdfast_check::tls::TlsVersion;
    use holdfast_graph::ObjectKey;

    use super::*;
    use crate::encode::listener::{Chain, ChainTls, GatewayPort, encode};
    use crate::features::client_certificate::{ClientCertificates, ClientValidationContext};
    use crate::features::ip_filter::{IpFilter, IpRange};
    use crate::features::server_tls::ServerTls;
    use crate::features::stream::Stream;
    use crate::model::port::Transport;
    use crate::model::table::TableName;
    use crate::model::{BackendCluster, BackendProtocol, EndpointSource, ServicePort};

    fn listener(chains: Vec<Chain>) -> Bytes {
        let address = ([127, 0, 0, 1], 8443).into();
        encode(&GatewayPort { address, transport: Transport::Tcp, chains, socket: Arc::default() })
    }

    fn tls(clients: Option<(bool, &'static [u8])>) -> ChainTls {
        let clients = clients.map(|(required, authorities)| {
            let key = |name: &str| ObjectKey::new("", "Secret", "shop", name);
            let trust = ClientValidationContext {
                owner: key("owner"),
                authorities: Some((key("ca"), Bytes::from_static(authorities))),
                besides: Vec::new(),
                revoked: None,
                leaf_only: false,
                unverified: false,
            };
            Arc::new(ClientCertificates { required, trust, forwarded_details: None })
        });
        ChainTls { clients, ..ChainTls::default() }
    }

    fn routes(host: &str, clients: Option<(bool, &'static [u8])>) -> Chain {
        let table = TableName::Listener(host.into());
        let (host, tls) = (Some(host.into()), tls(clients));
        Chain::Https { host, tls, table, proxies: true, filters: Vec::new(), settings: Arc::default() }
    }

    fn with(settings: ServerTls) -> Chain {
        let Chain::Https { host, tls, table, proxies, filters, settings: of_listener } = routes("a.com", None) else {
            return refuses("a.com");
        };
        let tls = ChainTls { settings, ..tls };
        Chain::Https { host, tls, table, proxies, filters, settings: of_listener }
    }

    fn stream(host: &str, from: Option<&str>) -> Chain {
        let service = ServicePort {
            key: ObjectKey::new("", "Service", "shop", "a"),
            port: 80,
            transport: Transport::Tcp,
            health: None,
        };
        let range = |text| IpRange::read(false, text).map(|range| IpFilter { allow: true, ranges: vec![range] });
        let to = Stream {
            backends: vec![(
                Some(BackendCluster {
                    place: EndpointSource::Service(service),
                    protocol: BackendProtocol::Http1,
                    tuned: None,
                }),
                1,
            )],
            ip_filter: from.and_then(range),
            origins: Vec::new(),
        };
        Chain::Stream { host: Some(host.into()), name: host.into(), tls: None, to: Arc::new(to) }
    }

    fn refuses(host: &str) -> Chain {
        Chain::Refuse { host: Some(host.into()), name: host.into() }
    }

    /// Returns the names of the chains that stay as they are held.
    fn kept(held: Vec<Chain>, desired: Vec<Chain>, meanwhile: bool) -> Vec<String> {
        let held = listener(held);
        let must_close = |chain: &HeldChain<'_>| !chain.is_desired() || chain.is_weaker(meanwhile);
        let closed = close(&held, Some(&listener(desired)), must_close).unwrap_or(held);
        let Ok(listener) = Listener::decode(closed) else { return Vec::new() };
        let open = listener.filter_chains.into_iter().filter(|chain| !is_refusal(chain));
        open.map(|chain| chain.name).collect()
    }

    #[test]
    fn a_chain_is_not_held_with_weaker_requirements() {
        let strict = |ca: &'static [u8]| routes("a.com", Some((true, ca)));
        let open = || routes("a.com", None);
        let optional = || routes("a.com", Some((false, b"one")));
        // Whether the chain stays, and whether it stays while the desired listener is tried.
        let all = || -> [(Vec<Chain>, Vec<Chain>, bool, bool); 12] {
            [
                (vec![open()], vec![open()], true, true),
                (vec![open()], vec![strict(b"one")], false, false),
                (vec![optional()], vec![strict(b"one")], false, true),
                (vec![strict(b"one")], vec![strict(b"one")], true, true),
                (vec![strict(b"one")], vec![strict(b"two")], false, true),
                (vec![strict(b"one")], vec![open()], true, true),
                (vec![open()], vec![refuses("a.com")], false, false),
                (vec![open()], vec![], false, false),
                (vec![open()], vec![stream("a.com", None)], true, true),
                (vec![stream("a.com", None)], vec![stream("a.com", Some("10.0.0.0/8"))], false, false),
                (vec![stream("a.com", Some("10.0.0.0/8"))], vec![stream("a.com", Some("10.0.0.0/8"))], true, true),
                (vec![stream("a.com", Some("10.0.0.0/8"))], vec![stream("a.com", None)], true, true),
            ]
        };
        for meanwhile in [false, true] {
            for (row, (mut held, mut desired, stays, stays_meanwhile)) in all().into_iter().enumerate() {
                held.push(routes("other.com", None));
                desired.push(routes("other.com", None));
                let kept = kept(held, desired, meanwhile);
                let stays = if meanwhile { stays_meanwhile } else { stays };
                assert!(kept.contains(&"https/other.com".to_owned()), "{row}: {kept:?}");
                assert_eq!(kept.len(), if stays { 2 } else { 1 }, "{row}, {meanwhile}: {kept:?}");
            }
        }
    }

    #[test]
    fn a_chain_is_not_held_with_versions_or_algorithms_that_are_excluded() {
        let least = |version| ServerTls::versions(Some(version), None);
        let suites = |suites: &[&'static str]| ServerTls { suites: suites.to_vec(), ..ServerTls::default() };
        let curves = |curves: &[&'static str]| ServerTls { curves: curves.to_vec(), ..ServerTls::default() };
        let rows = [
            (ServerTls::default(), ServerTls::default(), true),
            (ServerTls::default(), least(TlsVersion::V13), false),
            (least(TlsVersion::V10), ServerTls::default(), false),
            (least(TlsVersion::V13), ServerTls::default(), true),
            (ServerTls::default(), least(TlsVersion::V12), true),
            (suites(&["AES128-SHA", "AES256-SHA"]), suites(&["AES256-SHA"]), false),
            (suites(&["AES256-SHA"]), suites(&["AES128-SHA", "AES256-SHA"]), true),
            (curves(&["P-256"]), curves(&["P-384"]), false),
        ];
        for (row, (held, desired, stays)) in rows.into_iter().enumerate() {
            let all = |settings: &ServerTls| vec![with(settings.clone()), routes("other.com", None)];
            for meanwhile in [false, true] {
                let kept = kept(all(&held), all(&desired), meanwhile);
                assert!(kept.contains(&"https/other.com".to_owned()), "{row}: {kept:?}");
                // Until the desired chain was tried, its earlier versions and algorithms are used.
                assert_eq!(kept.len(), if stays || meanwhile { 2 } else { 1 }, "{row}, {meanwhile}: {kept:?}");
            }
        }
        let passes = || vec![stream("a.com", None)];
        assert_eq!(kept(passes(), vec![with(ServerTls::default())], false).len(), 1);
        assert_eq!(kept(passes(), vec![with(least(TlsVersion::V13))], false).len(), 0, "the backend terminates TLS");
    }

    #[test]
    fn held_connections_of_another_owner_are_closed() {
        let of = |owner: &str, is_for_all: bool| match stream("a.com", None) {
            Chain::Stream { host, name, tls, to } => {
                let origins = vec![ObjectKey::new("g", "TCPRoute", "shop", owner)];
                let to = Arc::new(Stream { origins, ..(*to).clone() });
                if is_for_all { Chain::StreamAll { name, to } } else { Chain::Stream { host, name, tls, to } }
            }
            other => other,
        };
        let must_close = |chain: &HeldChain<'_>| !chain.is_desired();
        for is_for_all in [false, true] {
            let held = listener(vec![of("older", is_for_all)]);
            assert_eq!(close(&held, Some(&held), must_close), None);
            let closed = close(&held, Some(&listener(vec![of("younger", is_for_all)])), must_close);
            assert!(closed.is_some(), "the older route is gone: {is_for_all}");
        }
    }

    #[test]
    fn held_datagrams_are_forwarded_as_long_as_the_desired_listener_forwards_some() {
        let must_close = |chain: &HeldChain<'_>| !chain.is_desired();
        let of = |chains: Vec<Chain>| {
            let address = ([127, 0, 0, 1], 53).into();
            encode(&GatewayPort { address, transport: Transport::Udp, chains, socket: Arc::default() })
        };
        let forwards = |name: &str| {
            let Chain::Stream { to, .. } = stream(name, None) else { return Vec::new() };
            vec![Chain::Datagrams { name: name.into(), to: Some(to) }]
        };
        let drops = |name: &str| vec![Chain::Datagrams { name: name.into(), to: None }];
        let held = of(forwards("dns/*"));
        assert_eq!(close(&held, Some(&of(forwards("dns/*"))), must_close), None);
        let names = |listener: &Bytes| -> Vec<(String, bool)> {
            let Ok(listener) = Listener::decode(&listener[..]) else { return Vec::new() };
            let filters = listener.listener_filters.iter();
            let drops = |filter| datagrams::config(filter).is_some_and(|proxy| datagrams::is_refusal(&proxy));
            filters.map(|filter| (filter.name.clone(), drops(filter))).collect()
        };
        for desired in [Some(of(drops("dns/*"))), Some(of(forwards("other/*"))), None] {
            let closed = close(&held, desired.as_deref(), must_close);
            assert_eq!(closed.as_ref().map(names), Some(vec![("closed/stream/dns/*".to_owned(), true)]));
        }
        assert_eq!(close(&of(drops("dns/*")), None, must_close), None);
    }

    #[test]
    fn what_is_without_tls_is_left_alone() {
        let plain =
            || Chain::Http { table: TableName::Port(80), proxies: true, filters: Vec::new(), settings: Arc::default() };
        let must_close = |chain: &HeldChain<'_>| !chain.is_desired();
        assert_eq!(close(&listener(vec![plain()]), Some(&listener(vec![])), must_close), None);
        assert_eq!(close(&listener(vec![refuses("a.com")]), Some(&listener(vec![])), must_close), None);
    }
}
