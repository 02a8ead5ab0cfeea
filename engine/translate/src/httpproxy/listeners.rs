//! Listeners of HTTPProxies: one port without TLS, one port with TLS and a filter chain for each host, and a filter
//! chain for clients without SNI.
//!
//! If a Gateway is configured, these are listeners of the Gateway. Otherwise they are served as a virtual Gateway,
//! which is not an object; any Gateway that uses one of their ports has precedence.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_check::tls::TlsVersion;
use holdfast_envoy::features::server_tls::ServerTls;
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;

use super::host;
use crate::listeners::conflicts;
use crate::outcome::host::{HostClaim, Secure, TlsClaim};

use crate::listeners::owner::{self, Owner};
use crate::outcome::gateway::{GatewayPlan, Infrastructure};
use crate::outcome::listener::{ListenerPlan, ListenerState, Namespaces, Traffic};
use crate::reader::Reader;

/// Namespace of the virtual Gateway for the listeners of HTTPProxies.
pub const NAMESPACE: &str = "holdfast";
/// Name of the virtual Gateway.
pub const NAME: &str = "httpproxy";
/// Name of the listener without TLS; listeners with TLS are named after their hosts.
const HTTP: &str = "http";

/// Returns the key of the virtual Gateway for the listeners of HTTPProxies.
pub fn key() -> ObjectKey {
    ObjectKey::new(GROUP, kinds::GATEWAY, NAMESPACE, NAME)
}

/// Returns the key of the Gateway with the listeners of HTTPProxies.
pub fn gateway(settings: &Settings) -> ObjectKey {
    settings.proxies.gateway.clone().unwrap_or_else(key)
}

/// Returns the plan of the separate listeners; `None` if there is no root.
pub(crate) fn plan(settings: &Settings, reader: &mut Reader<'_>) -> Option<GatewayPlan> {
    if settings.proxies.gateway.is_some() {
        return None;
    }
    let hosts = claims(settings, reader);
    if hosts.is_empty() {
        return None;
    }
    let http = port(false, settings).0;
    let mut listeners = vec![listener(HTTP.into(), false, http, seen_port(false, settings), None)];
    listeners.extend(secure(&hosts));
    listeners.extend(nameless(&hosts));
    for https in [false, true] {
        if let Some(message) = taken(https, settings, reader) {
            let of_port = listeners.iter_mut().filter(|listener| listener.https == https);
            of_port.for_each(|listener| listener.reject_port_in_use(&message));
        }
    }
    Some(GatewayPlan {
        name: key().namespaced_name().into(),
        address: settings.listen_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        balanced: None,
        listeners,
        sets: BTreeMap::new(),
        specifies_allowed_sets: false,
        is_default: false,
        proxies: Vec::new(),
        infrastructure: Infrastructure::default(),
        client: None,
        accepted: Condition::new("Accepted", true, "Accepted", "the listeners of HTTPProxies"),
        faults: Vec::new(),
    })
}

/// Adds HTTPProxies to the listeners of a Gateway.
pub(crate) fn join(plan: &mut GatewayPlan, settings: &Settings, reader: &mut Reader<'_>) {
    for listener in plan.listeners.iter_mut().filter(|listener| !listener.https && !listener.forwards()) {
        listener.proxies = true;
    }
    let hosts = claims(settings, reader);
    plan.proxies = secure(&hosts);
    plan.proxies.extend(nameless(&hosts));
    for proxies in &mut plan.proxies {
        let in_use =
            plan.listeners.iter().find(|listener| listener.is_port_in_use && listener.bound() == proxies.bound());
        if let Some(listener) = in_use {
            proxies.reject_port_in_use(&listener.accepted.message);
        }
    }
}

/// A host with TLS: the host, its listener, and its TLS settings.
type SecureHost<'a> = (&'a Host, &'a Secure, &'a TlsClaim);

fn secure_hosts(hosts: &[Arc<HostClaim>]) -> Vec<SecureHost<'_>> {
    let claim = |claim| {
        let HostClaim { host, seats, tls, .. }: &HostClaim = claim;
        Some((host.as_ref()?, seats.as_ref()?.https.as_ref()?, tls.as_ref()?))
    };
    let mut claims: Vec<_> = hosts.iter().filter_map(|host| claim(host)).collect();
    claims.sort_by_key(|(host, _, _)| *host);
    claims
}

/// Returns the listeners with TLS, one for each host.
fn secure(hosts: &[Arc<HostClaim>]) -> Vec<ListenerPlan> {
    let mut listeners: Vec<ListenerPlan> = Vec::new();
    for (host, seat, tls) in secure_hosts(hosts) {
        // If two roots claim a host, neither is served; one chain is sufficient to refuse it.
        if listeners.last().is_some_and(|last| last.name == seat.name) {
            continue;
        }
        let mut listener = listener(seat.name.clone(), true, seat.port, seat.seen_port, Some(host.domain().into()));
        listener.tls = tls.settings.clone();
        listener.certificates = tls.certificate.iter().cloned().collect();
        listener.certificate_dates = tls.dates_of(&tls.certificate);
        listener.broken_certificates = tls.broken.iter().cloned().collect();
        listener.clients.clone_from(&tls.clients);
        listener.stream = tls.stream.as_ref().and_then(|stream| stream.to.clone());
        listener.to_nameless = seat.nameless.is_some() && tls.is_served_to_nameless();
        if !tls.is_served() {
            listener.reject(
                ListenerState::Closed,
                "Invalid",
                "the TLS settings of the host cannot be served: see the status of its HTTPProxy",
            );
        }
        listeners.push(listener);
    }
    listeners
}

/// Returns the listener for clients without SNI or with an unknown host; `None` if no host is served to them.
fn nameless(hosts: &[Arc<HostClaim>]) -> Option<ListenerPlan> {
    let hosts = secure_hosts(hosts);
    let nameless_hosts = || hosts.iter().filter_map(|(_, seat, tls)| Some((seat.nameless.as_ref()?, seat, tls)));
    let served: Vec<_> = nameless_hosts().map(|(_, _, tls)| tls).filter(|tls| tls.is_served_to_nameless()).collect();
    let broken = nameless_hosts().find_map(|(_, _, tls)| tls.broken_fallback.clone());
    if served.is_empty() && broken.is_none() {
        return None;
    }
    let (name, seat, _) = nameless_hosts().next()?;
    let mut listener = listener(name.clone(), true, seat.port, seat.seen_port, None);
    // A host that requires TLS 1.3 must not be reachable with an older version by clients without SNI.
    let only_13 = served.iter().any(|tls| tls.settings.least == Some(TlsVersion::V13));
    let only_12 = !only_13 && !served.is_empty() && served.iter().all(|tls| tls.settings.most == Some(TlsVersion::V12));
    listener.tls = ServerTls::versions(only_13.then_some(TlsVersion::V13), only_12.then_some(TlsVersion::V12));
    listener.certificates = served.first().and_then(|tls| tls.fallback.clone()).into_iter().collect();
    listener.certificate_dates = served.first().map(|tls| tls.dates_of(&tls.fallback)).unwrap_or_default();
    listener.broken_certificates = broken.into_iter().collect();
    if served.is_empty() {
        listener.reject(
            ListenerState::Closed,
            "Invalid",
            "the fallback certificate for clients without SNI cannot be used",
        );
    }
    Some(listener)
}

/// Returns the claims of the roots; with an overlay, the claims are recomputed, since versions of Secrets may differ.
fn claims(settings: &Settings, reader: &mut Reader<'_>) -> Vec<Arc<HostClaim>> {
    let claims = reader.hosts();
    if reader.over.is_none() {
        return claims.into_values().collect();
    }
    claims.into_keys().filter_map(|root| host::claim(&root, settings, reader).map(Arc::new)).collect()
}

/// Returns a message if a Gateway uses one of the ports. In a cluster, every Gateway has separate Pods.
pub(super) fn taken(https: bool, settings: &Settings, reader: &mut Reader<'_>) -> Option<String> {
    settings.listen_address?;
    let (port, flag) = port(https, settings);
    let mut owner = None;
    for other in reader.gateways() {
        let Body::Gateway(written) = &other.body else { continue };
        if owner.is_none()
            && owner::ports(other, settings).contains(&BoundPort::tcp(port))
            && owner::owner(written, settings, reader) == Owner::Us
        {
            owner = Some(other.key.namespaced_name());
        }
    }
    let Some(gateway) = owner else {
        let address = settings.listen_address?;
        let process = reader.port_taken_by(address, port)?;
        return Some(format!("{}, or set {flag}", conflicts::taken_by(address, port, process)));
    };
    Some(format!("port {port} is taken by Gateway {gateway}, so that HTTPProxies are not served there: set {flag}"))
}

fn port(https: bool, settings: &Settings) -> (u16, &'static str) {
    if https {
        (settings.proxies.https_port, "--httpproxy-https")
    } else {
        (settings.proxies.http_port, "--httpproxy-http")
    }
}

/// Returns the port for clients: in a cluster, this is the port of a Service.
pub(super) fn seen_port(https: bool, settings: &Settings) -> u16 {
    match settings.listen_address {
        Some(_) => port(https, settings).0,
        None if https => 443,
        None => 80,
    }
}

fn listener(name: Arc<str>, https: bool, port: u16, seen_port: u16, hostname: Option<Arc<str>>) -> ListenerPlan {
    ListenerPlan {
        field: String::new(),
        name,
        set: None,
        port,
        seen_port,
        declared_port: port.into(),
        protocol: if https { "HTTPS" } else { "HTTP" }.into(),
        https,
        traffic: Traffic::Requests,
        hostname,
        hostname_fault: None,
        kinds: [kinds::HTTP_PROXY].into(),
        namespaces: Namespaces::None,
        certificates: Vec::new(),
        clients: None,
        stream: None,
        to_nameless: false,
        certificate_dates: BTreeMap::new(),
        certificate_labels: BTreeMap::new(),
        broken_certificates: Vec::new(),
        named_certificates: Vec::new(),
        tls: Default::default(),
        option_faults: Vec::new(),
        proxies: true,
        state: ListenerState::Serving,
        is_port_in_use: false,
        is_unvalidated: false,
        accepted: Condition::new("Accepted", true, "Accepted", "the listener is served"),
        conflicted: Condition::new(
            "Conflicted",
            false,
            "NoConflicts",
            "no other listener claims the same port, protocol and hostname",
        ),
        resolved_refs: Condition::new("ResolvedRefs", true, "ResolvedRefs", "every reference was resolved"),
    }
}
