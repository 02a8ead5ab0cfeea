//! Filter chains of TLS listeners: the chain of each listener, and the hosts that the listener would answer for.

use std::sync::Arc;

use holdfast_envoy::encode::listener::{Chain, ChainTls};
use holdfast_envoy::features::chain::ChainFilter;
use holdfast_envoy::features::connection::ListenerSettings;
use holdfast_envoy::model::table::Host;

use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::ListenerPlan;

/// Returns the filter chain of a served listener. `filters` are the filters that its routes require.
pub(crate) fn chain(listener: &ListenerPlan, filters: Vec<ChainFilter>, settings: Arc<ListenerSettings>) -> Chain {
    let host = listener.hostname.clone();
    let tls = (!listener.certificates.is_empty()).then(|| ChainTls {
        certificates: listener.certificates.clone(),
        versions: listener.tls_versions,
        clients: listener.clients.clone().or_else(|| settings.clients().cloned()),
    });
    match (&listener.stream, tls) {
        (Some(to), tls) => Chain::Stream { host, name: listener.name.clone(), tls, to: to.clone() },
        (None, Some(tls)) => {
            Chain::Https { host, tls, table: listener.table(), proxies: listener.proxies, filters, settings }
        }
        (None, None) => Chain::Refuse { host, name: listener.name.clone() },
    }
}

/// Returns the wildcards that match the hosts a listener would answer for.
pub(crate) fn wildcards(listener: &ListenerPlan, plan: &GatewayPlan) -> Vec<Host> {
    let own = |listener: &ListenerPlan| Some(listener.host()).filter(Host::is_wildcard);
    match listener.is_for_nameless() {
        false => own(listener).into_iter().collect(),
        true => plan.all().filter(|listener| listener.to_nameless).filter_map(own).collect(),
    }
}

/// Returns whether a chain already refuses this host. Envoy rejects two chains with equal matches.
pub(crate) fn refuses(chains: &[Chain], host: Option<&Arc<str>>) -> bool {
    chains.iter().any(|chain| matches!(chain, Chain::Refuse { host: refused, .. } if refused.as_ref() == host))
}
