//! Audit of listeners: no listener may be added, removed or changed, except for stand-in certificates, and none may
//! lose its port or hosts.
//!
//! A TLS listener that is not served keeps its filter chain, which refuses connections. Otherwise a plain or wildcard
//! chain would answer for its hosts.

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_api::section;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState, Traffic};
use holdfast_translate::overlay::Overlay;

use super::clients;
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
    let Some(pairs) = pairs(desired, served) else {
        let why = "the served listeners would not be the desired listeners";
        return vec![Objection::whole(gateway, About::Listener, why)];
    };
    let mut found = Vec::new();
    let identity = clients::wrong_identity(served, gateway, today);
    found.extend(identity.map(|why| Objection::whole(gateway, About::Listener, why)));
    for (wanted, listener) in pairs {
        let mut object = |why: String| found.push(Objection::new(unit(wanted, gateway), About::Listener, why));
        if !has_same_claims(wanted, listener) {
            object("the served listener would not be the desired listener".into());
            continue;
        }
        if let Some(why) = wrong_state(wanted, listener, overlay) {
            object(why.into());
        }
        if listener.https && listener.state == ListenerState::Serving {
            lacking_verification(listener, world, today).into_iter().for_each(|why| object(why.into()));
        }
        let secrets = listener.certificates.iter();
        secrets.filter_map(|secret| wrong_certificate(listener, secret, world, today)).for_each(&mut object);
    }
    found
}

/// Returns the node of a listener: a section of its Gateway, or of its ListenerSet.
fn unit(listener: &ListenerPlan, gateway: &ObjectKey) -> Node {
    match &listener.set {
        Some(set) => Node::section(set.key.clone(), section::listener(&set.section)),
        None => Node::section(gateway.clone(), section::listener(&listener.name)),
    }
}

/// Returns the desired listeners with their served forms; `None` if these are not the same listeners.
fn pairs<'a>(desired: &'a GatewayPlan, served: &'a GatewayPlan) -> Option<Vec<(&'a ListenerPlan, &'a ListenerPlan)>> {
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
    (next.is_none() && pairs.len() + nameless >= desired.all().count()).then_some(pairs)
}

/// Checks whether a served listener has the port, the host and the permitted routes of the desired one.
fn has_same_claims(wanted: &ListenerPlan, listener: &ListenerPlan) -> bool {
    let claims = |plan: &ListenerPlan| {
        let ListenerPlan { name, set, port, https, traffic, hostname, .. } = plan;
        (name.clone(), set.clone(), *port, *https, *traffic, hostname.clone())
    };
    claims(wanted) == claims(listener) && wanted.kinds == listener.kinds && wanted.namespaces == listener.namespaces
}

/// Returns the reason why a listener may not have its served state instead of the desired one.
fn wrong_state(wanted: &ListenerPlan, listener: &ListenerPlan, overlay: &Overlay) -> Option<&'static str> {
    match (wanted.state, listener.state) {
        (ListenerState::Serving | ListenerState::Closed, ListenerState::Out) => {
            Some("it would not be served, and a broader listener would get its requests")
        }
        (ListenerState::Out, ListenerState::Serving | ListenerState::Closed | ListenerState::Refused) => {
            Some("the desired listener is not served, and this version of it would be served")
        }
        (ListenerState::Closed, ListenerState::Serving) => {
            let is_stand_in = |secret: &ObjectKey| overlay.objects.contains_key(secret);
            let has_stand_in = wanted.https && listener.certificates.iter().any(is_stand_in);
            (!has_stand_in).then_some("the desired listener is closed, and this version of it would be served")
        }
        (ListenerState::Serving, ListenerState::Closed) if !wanted.https => {
            Some("it needs no certificate, and would be closed")
        }
        _ => None,
    }
}

/// Returns what a serving TLS listener lacks: a certificate, or the verification of client certificates.
fn lacking_verification(listener: &ListenerPlan, world: &World<'_>, today: &Today<'_>) -> Vec<&'static str> {
    let mut lacking = Vec::new();
    let is_terminated = listener.stream.is_none() && listener.traffic != Traffic::Passthrough;
    if is_terminated && listener.certificates.is_empty() {
        lacking.push("it would serve TLS without a certificate");
    }
    let host = listener.hostname.as_deref().filter(|_| listener.proxies);
    if host.is_some_and(|host| listener.clients.is_none() && proxies::verifies_clients(host, world, today)) {
        lacking.push("it would not request the client certificates that its HTTPProxy requires");
    }
    if !listener.proxies && listener.traffic != Traffic::Passthrough {
        lacking.extend(clients::wrong_validation(listener, world.gateway, today));
    }
    lacking
}

/// Returns the reason why a listener may not use a certificate now.
fn wrong_certificate(
    listener: &ListenerPlan,
    secret: &ObjectKey,
    world: &World<'_>,
    today: &Today<'_>,
) -> Option<String> {
    let (gateway, name) = (world.gateway, secret.namespaced_name());
    let forbidden = if listener.proxies {
        proxies::certificate(listener.hostname.as_deref(), secret, world, today)
    } else if !refers(listener, gateway, secret, today) {
        Some(format!("it does not name Secret {name} today"))
    } else if !may_use(listener, gateway, secret, today) {
        Some(format!("no ReferenceGrant of today allows Secret {name}"))
    } else {
        None
    };
    forbidden.or_else(|| (!today.exists(secret)).then(|| format!("Secret {name} is not there")))
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
