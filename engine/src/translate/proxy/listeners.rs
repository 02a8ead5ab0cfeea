//! The listeners of HTTPProxies: one port without TLS, one with TLS and a filter chain for each host,
//! and one for clients that name none.
//!
//! They are served like a Gateway of this name, which nobody writes. Any Gateway that wants one of the ports has it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::host::{self, HostClaim};
use crate::apis::Body;
use crate::apis::contour::GROUP;
use crate::encode::listener::TlsVersions;
use crate::settings::Settings;
use crate::status::Condition;
use crate::translate::gateway::{self, GatewayPlan, Owner};
use crate::translate::listener::{ListenerPlan, Namespaces, Standing};
use crate::translate::reader::Reader;

/// The namespace of the Gateway that stands for the listeners of HTTPProxies.
pub(crate) const NAMESPACE: &str = "holdfast";
/// Its name.
pub(crate) const NAME: &str = "httpproxy";
/// The name of the listener without TLS; those with TLS are named after their hosts.
const HTTP: &str = "http";

/// The name of the listener for clients that name no host; no host is called so.
pub(super) const NAMELESS: &str = "*";

/// The Gateway that stands for the listeners of HTTPProxies.
pub(crate) fn key() -> ObjectKey {
    ObjectKey::new(GROUP, "Gateway", NAMESPACE, NAME)
}

/// What is served; nothing where there is no root.
pub(in crate::translate) fn plan(settings: &Settings, reader: &mut Reader<'_>) -> Option<GatewayPlan> {
    let hosts = claims(settings, reader);
    if hosts.is_empty() {
        return None;
    }
    let mut listeners = vec![listener(HTTP.into(), false, None, settings)];
    listeners.extend(secure(&hosts, settings));
    listeners.extend(nameless(&hosts, settings));
    for https in [false, true] {
        if let Some(message) = taken(https, settings, reader) {
            let of_port = listeners.iter_mut().filter(|listener| listener.https == https);
            of_port.for_each(|listener| listener.reject(Standing::Out, "PortUnavailable", &message));
        }
    }
    Some(GatewayPlan {
        name: key().namespaced_name().into(),
        address: settings.listen_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        listeners,
        accepted: Condition::new("Accepted", true, "Accepted", "the listeners of HTTPProxies"),
        faults: Vec::new(),
    })
}

/// The listeners with TLS, one for each host.
fn secure(hosts: &[Arc<HostClaim>], settings: &Settings) -> Vec<ListenerPlan> {
    let mut claims: Vec<_> =
        hosts.iter().filter_map(|claim| Some((claim.host.as_ref()?, claim.tls.as_ref()?))).collect();
    claims.sort_by_key(|(host, _)| *host);
    let mut listeners: Vec<ListenerPlan> = Vec::new();
    for (host, tls) in claims {
        let name: Arc<str> = host.domain().into();
        // Of two that claim a host none is served; one chain is enough to refuse it.
        if listeners.last().is_some_and(|last| last.name == name) {
            continue;
        }
        let mut listener = listener(name.clone(), true, Some(name), settings);
        listener.tls_versions = tls.versions;
        listener.certificates = tls.certificate.iter().cloned().collect();
        listener.broken_certificates = tls.broken.iter().cloned().collect();
        listener.clients.clone_from(&tls.clients);
        listener.stream = tls.stream.as_ref().and_then(|stream| stream.to.clone());
        listener.to_nameless = tls.is_served_to_nameless();
        if !tls.is_served() {
            listener.reject(Standing::Closed, "Invalid", "the host has no TLS that can be served: see its HTTPProxy");
        }
        listeners.push(listener);
    }
    listeners
}

/// The listener for clients that name no host, or one that nobody has; nothing where no host is served to them.
fn nameless(hosts: &[Arc<HostClaim>], settings: &Settings) -> Option<ListenerPlan> {
    let claims = || hosts.iter().filter_map(|claim| claim.tls.as_ref());
    let served: Vec<_> = claims().filter(|tls| tls.is_served_to_nameless()).collect();
    let broken = claims().find_map(|tls| tls.broken_fallback.clone());
    if served.is_empty() && broken.is_none() {
        return None;
    }
    let mut listener = listener(NAMELESS.into(), true, None, settings);
    // Whoever asks for 1.3 at least is not to be had with less by not being named.
    let only_13 = served.iter().any(|tls| tls.versions.only_13);
    let only_12 = !only_13 && !served.is_empty() && served.iter().all(|tls| tls.versions.only_12);
    listener.tls_versions = TlsVersions { only_13, only_12 };
    listener.certificates = served.first().and_then(|tls| tls.fallback.clone()).into_iter().collect();
    listener.broken_certificates = broken.into_iter().collect();
    if served.is_empty() {
        listener.reject(Standing::Closed, "Invalid", "the certificate for clients that name no host cannot be used");
    }
    Some(listener)
}

/// What the roots claim; where Secrets are read in another version, as they claim it then.
fn claims(settings: &Settings, reader: &mut Reader<'_>) -> Vec<Arc<HostClaim>> {
    let claims = reader.hosts();
    if reader.over.is_none() {
        return claims.into_values().collect();
    }
    claims.into_keys().filter_map(|root| host::claim(&root, settings, reader).map(Arc::new)).collect()
}

/// Has a Gateway one of the ports? In a cluster every Gateway has pods of its own.
pub(super) fn taken(https: bool, settings: &Settings, reader: &mut Reader<'_>) -> Option<String> {
    settings.listen_address?;
    let (port, flag) = port(https, settings);
    let mut owner = None;
    for other in reader.gateways() {
        let Body::Gateway(written) = &other.body else { continue };
        if owner.is_none()
            && gateway::ports(other, settings).contains(&port)
            && gateway::owner(written, settings, reader) == Owner::Us
        {
            owner = Some(other.key.namespaced_name());
        }
    }
    let gateway = owner?;
    Some(format!("port {port} is taken by Gateway {gateway}, so that HTTPProxies are not served there: set {flag}"))
}

fn port(https: bool, settings: &Settings) -> (u16, &'static str) {
    if https {
        (settings.proxies.https_port, "--httpproxy-https")
    } else {
        (settings.proxies.http_port, "--httpproxy-http")
    }
}

/// The port as clients know it: in a cluster a Service stands before it.
pub(super) fn seen_port(https: bool, settings: &Settings) -> u16 {
    match settings.listen_address {
        Some(_) => port(https, settings).0,
        None if https => 443,
        None => 80,
    }
}

fn listener(name: Arc<str>, https: bool, hostname: Option<Arc<str>>, settings: &Settings) -> ListenerPlan {
    let (port, _) = port(https, settings);
    ListenerPlan {
        field: String::new(),
        name,
        port,
        seen_port: seen_port(https, settings),
        declared_port: port.into(),
        https,
        hostname,
        kinds: ["HTTPProxy"].into(),
        namespaces: Namespaces::None,
        certificates: Vec::new(),
        clients: None,
        stream: None,
        to_nameless: false,
        broken_certificates: Vec::new(),
        tls_versions: Default::default(),
        proxies: true,
        standing: Standing::Serving,
        accepted: Condition::new("Accepted", true, "Accepted", "the listener is served"),
        conflicted: Condition::new("Conflicted", false, "NoConflicts", "no other listener claims the same"),
        resolved_refs: Condition::new("ResolvedRefs", true, "ResolvedRefs", "every reference was resolved"),
    }
}
