//! Filter chains of TLS listeners: the chain of each listener, and the hosts that the listener would answer for.

use std::sync::Arc;

use holdfast_envoy::encode::listener::{Chain, ChainTls};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::connection::ListenerSettings;
use holdfast_envoy::model::table::Host;

use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::{ListenerPlan, Traffic};
use crate::outcome::route::StreamRoute;

/// Returns the filter chain of a served listener. `filters` are the filters that its routes require.
pub(crate) fn chain(listener: &ListenerPlan, filters: Vec<ChainFilter>, settings: Arc<ListenerSettings>) -> Chain {
    let host = listener.hostname.clone();
    let tls = tls(listener, &settings);
    match (&listener.stream, tls) {
        (Some(to), tls) => Chain::Stream { host, name: listener.name.clone(), tls, to: to.clone() },
        (None, Some(tls)) => {
            Chain::Https { host, tls, table: listener.table(), proxies: listener.proxies, filters, settings }
        }
        (None, None) => Chain::Refuse { host, name: listener.name.clone() },
    }
}

/// Returns the TLS settings of a listener; `None` where it does not terminate TLS.
fn tls(listener: &ListenerPlan, settings: &ListenerSettings) -> Option<ChainTls> {
    (!listener.certificates.is_empty()).then(|| ChainTls {
        certificates: listener.certificates.clone(),
        settings: listener.tls.clone(),
        clients: listener.clients.clone().or_else(|| settings.clients().cloned()),
    })
}

/// Returns the filter chain of one host of a listener that forwards connections.
pub(crate) fn stream(listener: &ListenerPlan, host: &Host, route: &StreamRoute, settings: &ListenerSettings) -> Chain {
    let name = names::server(&listener.name, host).into();
    match route.to(listener.traffic) {
        to if listener.traffic == Traffic::Datagrams => Chain::Datagrams { name, to: to.cloned() },
        to if listener.traffic == Traffic::Tcp => match to {
            Some(to) => Chain::StreamAll { name, to: to.clone() },
            None => Chain::RefuseAll { name },
        },
        Some(to) => Chain::Stream { host: pattern(host), name, tls: tls(listener, settings), to: to.clone() },
        None => Chain::Refuse { host: pattern(host), name },
    }
}

/// Returns the only chain of a port without TLS that forwards nothing.
pub(crate) fn refuse_all(listener: &ListenerPlan) -> Chain {
    let name = listener.name.clone();
    match listener.traffic {
        Traffic::Datagrams => Chain::Datagrams { name, to: None },
        _ => Chain::RefuseAll { name },
    }
}

/// Returns the hostname of a filter chain; unset for all hosts.
fn pattern(host: &Host) -> Option<Arc<str>> {
    (*host != Host::any()).then(|| host.domain().into())
}

/// Returns whether a chain for TLS has this host already.
pub(crate) fn has_host(chains: &[Chain], host: &Host) -> bool {
    chains.iter().any(|chain| match chain {
        Chain::Https { host: own, .. } | Chain::Stream { host: own, .. } | Chain::Refuse { host: own, .. } => {
            Host::new(own.as_ref()) == *host
        }
        Chain::Http { .. } | Chain::StreamAll { .. } | Chain::RefuseAll { .. } | Chain::Datagrams { .. } => false,
    })
}

/// Returns the wildcards that match the hosts a listener would answer for.
pub(crate) fn wildcards(listener: &ListenerPlan, plan: &GatewayPlan) -> Vec<Host> {
    let own = |listener: &ListenerPlan| Some(listener.host()).filter(Host::is_wildcard);
    match listener.is_for_nameless() {
        false => own(listener).into_iter().collect(),
        true => plan.all().filter(|listener| listener.to_nameless).filter_map(own).collect(),
    }
}
