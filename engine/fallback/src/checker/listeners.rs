//! Audit of listeners: no listener may be added, removed or changed, except for stand-in certificates, and none may
//! lose its port or hosts.
//!
//! A TLS listener that is not served keeps its filter chain, which refuses connections. Otherwise a plain or wildcard
//! chain would answer for its hosts.

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState};
use holdfast_translate::overlay::Overlay;

use super::proxies;
use super::today::Today;
use super::{About, Objection};
use crate::plan::world::World;

/// Returns objections to the listeners of a Gateway in the form in which they would be served.
pub(super) fn check(
    desired: &GatewayPlan,
    served: &GatewayPlan,
    overlay: &Overlay,
    world: &World<'_>,
    today: &Today<'_>,
) -> Vec<Objection> {
    let gateway = world.gateway;
    let mut found = Vec::new();
    let mut object = |listener: &ListenerPlan, why: String| {
        let node = match &listener.set {
            Some(set) => Node::section(set.key.clone(), format!("listeners[{}]", set.section)),
            None => Node::section(gateway.clone(), format!("listeners[{}]", listener.name)),
        };
        found.push(Objection::new(node, About::Listener, why));
    };
    let mut pairs = Vec::new();
    let mut left = served.all();
    let mut next = left.next();
    for wanted in desired.all() {
        match next.filter(|listener| listener.name == wanted.name) {
            Some(listener) => {
                pairs.push((wanted, listener));
                next = left.next();
            }
            // Without its certificate, the listener for clients that send no server name is absent.
            None if wanted.is_for_nameless() => {}
            None => break,
        }
    }
    let nameless = desired.all().filter(|listener| listener.is_for_nameless()).count();
    if next.is_some() || pairs.len() + nameless < desired.all().count() {
        let why = "the served listeners would not be the desired listeners";
        return vec![Objection::whole(gateway, About::Listener, why)];
    }
    for (wanted, listener) in pairs {
        let claims = |plan: &ListenerPlan| {
            let ListenerPlan { name, set, port, https, hostname, .. } = plan;
            (name.clone(), set.clone(), *port, *https, hostname.clone())
        };
        if claims(wanted) != claims(listener)
            || wanted.kinds != listener.kinds
            || wanted.namespaces != listener.namespaces
        {
            object(wanted, "the served listener would not be the desired listener".into());
            continue;
        }
        match (wanted.state, listener.state) {
            (ListenerState::Serving | ListenerState::Closed, ListenerState::Out) => {
                object(wanted, "it would not be served, and a broader listener would get its requests".into());
            }
            (ListenerState::Out, ListenerState::Serving | ListenerState::Closed | ListenerState::Refused) => {
                object(wanted, "the desired listener is not served, and this version of it would be served".into());
            }
            (ListenerState::Closed, ListenerState::Serving) => {
                let is_stand_in = |secret: &ObjectKey| overlay.objects.contains_key(secret);
                if !wanted.https || !listener.certificates.iter().any(is_stand_in) {
                    object(wanted, "the desired listener is closed, and this version of it would be served".into());
                }
            }
            (ListenerState::Serving, ListenerState::Closed) if !wanted.https => {
                object(wanted, "it needs no certificate, and would be closed".into());
            }
            _ => {}
        }
        if listener.https && listener.state == ListenerState::Serving {
            if listener.certificates.is_empty() && listener.stream.is_none() {
                object(wanted, "it would serve TLS without a certificate".into());
            }
            let host = listener.hostname.as_deref().filter(|_| listener.proxies);
            if host.is_some_and(|host| listener.clients.is_none() && proxies::verifies_clients(host, world, today)) {
                object(wanted, "it would not request the client certificates that its HTTPProxy requires".into());
            }
            if !listener.proxies && verifies_clients(gateway, today) {
                object(wanted, "it would not request the client certificates that the Gateway requires".into());
            }
        }
        for secret in &listener.certificates {
            if listener.proxies {
                if let Some(why) = proxies::certificate(listener.hostname.as_deref(), secret, world, today) {
                    object(wanted, why);
                } else if !today.exists(secret) {
                    object(wanted, format!("Secret {} is not there", secret.namespaced_name()));
                }
            } else if !refers(listener, gateway, secret, today) {
                object(wanted, format!("it does not name Secret {} today", secret.namespaced_name()));
            } else if !may_use(listener, gateway, secret, today) {
                object(wanted, format!("no ReferenceGrant of today allows Secret {}", secret.namespaced_name()));
            } else if !today.exists(secret) {
                object(wanted, format!("Secret {} is not there", secret.namespaced_name()));
            }
        }
    }
    found
}

/// Checks whether the current Gateway requires client certificates. No served configuration can validate them yet.
fn verifies_clients(gateway: &ObjectKey, today: &Today<'_>) -> bool {
    match today.object(gateway).map(|object| &object.body) {
        Some(Body::Gateway(written)) => written.tls.as_ref().is_some_and(|tls| tls.frontend.is_some()),
        _ => false,
    }
}

/// Checks whether a current grant allows the Gateway or ListenerSet of a listener to use this certificate.
fn may_use(listener: &ListenerPlan, gateway: &ObjectKey, secret: &ObjectKey, today: &Today<'_>) -> bool {
    match &listener.set {
        Some(set) => today.allows(GROUP, kinds::LISTENER_SET, &set.key.namespace, secret),
        None => today.allows(GROUP, kinds::GATEWAY, &gateway.namespace, secret),
    }
}

/// Checks whether the current Gateway or ListenerSet names this certificate at the listener.
fn refers(listener: &ListenerPlan, gateway: &ObjectKey, secret: &ObjectKey, today: &Today<'_>) -> bool {
    let (owner, name) = match &listener.set {
        Some(set) => (&set.key, &set.section),
        None => (gateway, &listener.name),
    };
    let listeners = match today.object(owner).map(|object| &object.body) {
        Some(Body::Gateway(written)) => &written.listeners,
        Some(Body::ListenerSet(written)) => &written.listeners,
        _ => return false,
    };
    let entries = listeners.iter().filter(|entry| entry.name == *name);
    let tls = entries.filter_map(|entry| entry.written.as_ref()?.tls.as_ref());
    tls.flat_map(|tls| tls.certificate_refs.iter().flatten()).any(|reference| {
        reference.kind.as_deref().is_none_or(|kind| kind == kinds::SECRET)
            && reference.group.as_deref().is_none_or(str::is_empty)
            && reference.name == *secret.name
            && reference.namespace.as_deref().unwrap_or(&owner.namespace) == &*secret.namespace
    })
}
