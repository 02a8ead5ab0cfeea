//! Listeners of the host of a root: the separate listeners of HTTPProxies, or the listeners of a Gateway.
//!
//! If routes of Gateway API claim the host too, the API with the oldest claiming object owns the host. The other object
//! reports a conflict and does not serve the host: a host is served from one API only.

use std::sync::Arc;

use holdfast_api::fault::Class;
use holdfast_api::object::Age;
use holdfast_api::settings::Settings;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;

use super::listeners;
use crate::listeners::namespaces;
use crate::outcome::finding::Finding;
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::host::TlsClaim;
use crate::outcome::host::{Seats, Secure};
use crate::outcome::listener::{ListenerPlan, ListenerState};
use crate::reader::Reader;

/// Prefix of the names of generated listeners of HTTPProxies at a Gateway; no other listener can have such a name.
const PREFIX: &str = "httpproxy/";

/// Result of the search.
pub(super) struct Seated {
    pub(super) seats: Seats,
    pub(super) findings: Vec<Finding>,
    /// Additional findings.
    pub(super) additional: Vec<Finding>,
    /// Whether `findings` close the host.
    pub(super) closes: bool,
}

/// Finds the listeners of a root's host; `ages` are the ages of all roots that claim the host.
pub(super) fn find(
    key: &ObjectKey,
    host: &Host,
    tls: Option<&TlsClaim>,
    ages: &[Age],
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Seated {
    let (nameless, tls) = (tls.is_some_and(|tls| tls.fallback.is_some()), tls.is_some());
    let Some(gateway) = &settings.proxies.gateway else { return own(key, host, tls, settings, reader) };
    let mut seated = Seated {
        seats: Seats { gateway: gateway.clone(), http: None, https: None },
        findings: Vec::new(),
        additional: Vec::new(),
        closes: false,
    };
    let mut report = |no: NoListener| {
        seated.closes |= !no.is_port_in_use;
        let found = Finding::error(key, "spec.virtualhost", "ListenerError", "ErrorIdentifyingListener", no.message);
        seated.findings.push(found.of_class(no.class).caused_by(no.cause));
    };
    let Some(plan) = reader.outcome::<GatewayPlan>(gateway) else {
        report(NoListener::new(
            Class::Referential,
            format!("Gateway {} does not exist, or is not served", gateway.namespaced_name()),
        ));
        return seated;
    };
    let mut found = |https: bool| {
        let listener = listener(key, host, https, gateway, plan, settings, reader).map_err(&mut report).ok()?;
        // The other protocol of the host is served.
        if listener.is_port_in_use {
            report(not_served(listener, host, gateway, plan));
        }
        Some(listener)
    };
    let http = found(false);
    let https = if tls { found(true) } else { None };
    seated.seats.http = http.map(|listener| listener.port);
    seated.seats.https = https.map(|listener| Secure {
        name: format!("{PREFIX}{}", host.domain()).into(),
        port: listener.port,
        seen_port: listener.seen_port,
        nameless: rest(plan, listener.port).is_none().then(|| format!("{PREFIX}*").into()),
    });
    if let Some(secure) = seated.seats.https.as_ref().filter(|secure| nameless && secure.nameless.is_none())
        && let Some(owner) = rest(plan, secure.port)
    {
        let message = format!(
            "listener {} of Gateway {} serves the clients without SNI: the fallback certificate has no effect",
            owner.name, plan.name
        );
        let field = "spec.virtualhost.tls.enableFallbackCertificate";
        let found = Finding::error(key, field, "ListenerError", "ErrorIdentifyingListener", message);
        seated.additional.push(found.of_class(Class::Conflict));
    }
    give_way(key, host, ages, plan, &mut seated, reader);
    seated
}

/// Returns the separate listeners of HTTPProxies.
fn own(key: &ObjectKey, host: &Host, tls: bool, settings: &Settings, reader: &mut Reader<'_>) -> Seated {
    let mut findings = Vec::new();
    for https in [false, true] {
        if (!https || tls)
            && let Some(taken) = listeners::taken(https, settings, reader)
        {
            let kind = "ListenerError";
            let found = Finding::error(key, "spec.virtualhost", kind, "ErrorIdentifyingListener", taken);
            findings.push(found.of_class(Class::Conflict));
        }
    }
    let https = tls.then(|| Secure {
        name: host.domain().into(),
        port: settings.proxies.https_port,
        seen_port: listeners::seen_port(true, settings),
        nameless: Some("*".into()),
    });
    let seats = Seats { gateway: listeners::key(), http: Some(settings.proxies.http_port), https };
    Seated { seats, findings, additional: Vec::new(), closes: false }
}

/// Returns the listener of a Gateway that serves all hosts of a port without a listener of their own.
fn rest(plan: &GatewayPlan, port: u16) -> Option<&ListenerPlan> {
    let mut listeners = plan.listeners.iter().filter(|listener| listener.https && listener.port == port);
    listeners.find(|listener| listener.hostname.is_none() && listener.state != ListenerState::Out)
}

/// Why a host has no listener.
struct NoListener {
    class: Class,
    message: String,
    /// The object with the fault of the listener; unset if the HTTPProxy itself must be edited.
    cause: Option<ObjectKey>,
    /// Whether the only reason is that another process or Gateway uses the port.
    is_port_in_use: bool,
}

impl NoListener {
    fn new(class: Class, message: String) -> Self {
        Self { class, message, cause: None, is_port_in_use: false }
    }
}

/// Returns the listener that a host belongs to. As in Contour, each protocol has one port.
fn listener<'a>(
    key: &ObjectKey,
    host: &Host,
    https: bool,
    gateway: &ObjectKey,
    plan: &'a GatewayPlan,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Result<&'a ListenerPlan, NoListener> {
    let protocol = if https { "HTTPS" } else { "HTTP" };
    // Listeners of ListenerSets are not considered here; only their hosts are unavailable.
    let takes_part = |l: &&ListenerPlan| l.state != ListenerState::Out || l.is_port_in_use;
    let serves = |l: &&ListenerPlan| l.https == https && !l.forwards() && takes_part(l);
    // A listener at a port in use is meant only if there is no other one.
    let are_all_in_use = plan.own().filter(serves).all(|l| l.is_port_in_use);
    let all = || plan.own().filter(serves).filter(|l| l.is_port_in_use == are_all_in_use);
    let Some(first) = all().next() else {
        let is_meant = |l: &&ListenerPlan| l.https == https && !l.forwards() && l.host().covers(host);
        let out = plan.own().find(is_meant);
        return Err(out.map_or_else(
            || NoListener::new(Class::Referential, format!("no {protocol} listener configured")),
            |listener| not_served(listener, host, gateway, plan),
        ));
    };
    if all().any(|listener| listener.port != first.port) {
        return Err(NoListener::new(Class::Conflict, format!("more than one {protocol} listener configured")));
    }
    let name = &plan.name;
    let domain = host.domain();
    let at_port = plan.listeners.iter().filter(|l| l.bound() == first.bound()).filter(takes_part);
    let nearest = at_port.filter(|l| l.https == https && l.host().covers(host));
    let Some(nearest) = nearest.min_by_key(|l| l.host().specificity()) else {
        let message = format!("no {protocol} listener configured for {domain:?}: none of Gateway {name} has this host");
        return Err(NoListener::new(Class::Referential, message));
    };
    let listener = &nearest.name;
    if nearest.set.is_some() {
        let message = format!("the host {domain:?} belongs to a listener that a ListenerSet adds to Gateway {name}");
        return Err(NoListener::new(Class::Conflict, message));
    }
    if nearest.forwards() {
        let message = format!("the host {domain:?} belongs to listener {listener} of Gateway {name}, of protocol TLS");
        return Err(NoListener::new(Class::Conflict, message));
    }
    // The HTTPProxy has a certificate of its own. If the port is in use, the other protocol is served.
    let is_usable = nearest.lacks_only_certificates() || lacks_only_port(nearest);
    if nearest.state != ListenerState::Serving && !is_usable {
        return Err(not_served(nearest, host, gateway, plan));
    }
    if !namespaces::allows_route(nearest, gateway, key, settings, reader) {
        let message = format!(
            "listener {listener} of Gateway {name} does not allow routes of namespace {}: see allowedRoutes.namespaces",
            key.namespace
        );
        return Err(NoListener::new(Class::Referential, message));
    }
    // Two filter chains of one port must not match the same host.
    if https && nearest.host() == *host {
        let message = format!(
            "listener {listener} of Gateway {name} serves only host {domain:?}, with its own certificate, and cannot \
             serve an HTTPProxy for this host"
        );
        return Err(NoListener::new(Class::Conflict, message));
    }
    Ok(nearest)
}

/// Returns whether the only fault of a listener is that another process or Gateway uses its port.
fn lacks_only_port(listener: &ListenerPlan) -> bool {
    listener.is_port_in_use && !listener.is_unvalidated && listener.conflicted.status != "True"
}

/// Describes a listener that is not served because of a fault of its Gateway.
fn not_served(listener: &ListenerPlan, host: &Host, gateway: &ObjectKey, plan: &GatewayPlan) -> NoListener {
    let (section, name, domain) = (listener.section(), &plan.name, host.domain());
    let why = &listener.accepted.message;
    let message = format!("listener {section} of Gateway {name}, which has the host {domain:?}, is not served: {why}");
    let (cause, is_port_in_use) = (Some(gateway.clone()), lacks_only_port(listener));
    NoListener { cause, is_port_in_use, ..NoListener::new(Class::Referential, message) }
}

/// Leaves a host to older routes of Gateway API.
fn give_way(
    key: &ObjectKey,
    host: &Host,
    ages: &[Age],
    plan: &GatewayPlan,
    seated: &mut Seated,
    reader: &mut Reader<'_>,
) {
    let port = |name: &Arc<str>| plan.listeners.iter().find(|listener| listener.name == *name).map(|l| l.port);
    let Seats { http, https, .. } = &seated.seats;
    let secure = https.as_ref().map(|https| https.port);
    // The filter chain of a wildcard host receives the connections of all hosts below it, including hosts with a
    // virtual host in another filter chain.
    let rivals = reader.claimants(host, secure.is_some());
    let rivals = rivals.filter_map(|(route, claimant)| {
        let meets = |seat: Option<u16>| seat.is_some() && claimant.listeners.iter().any(|name| port(name) == seat);
        let plain = meets(*http) && claimant.host == *host;
        (plain || meets(secure)).then_some((&claimant.age, route, plain))
    });
    let rivals: Vec<_> = rivals.collect();
    let Some((age, winner, _)) = rivals.iter().min() else { return };
    // If the ages are equal, the route owns the host.
    if ages.iter().any(|own| own < *age) {
        return;
    }
    let message = format!(
        "fqdn {:?} is taken at Gateway {} by the older {} {}",
        host.domain(),
        plan.name,
        winner.kind,
        winner.namespaced_name()
    );
    let plain = rivals.iter().any(|(_, _, plain)| *plain);
    // If no route serves the host on the plain port, the host stays there, closed, so that no wildcard host answers
    // instead.
    if plain {
        seated.seats.http = None;
    }
    seated.seats.https = None;
    seated.closes = true;
    let found = Finding::error(key, "spec.virtualhost.fqdn", "VirtualHostError", "HostnameConflict", message);
    seated.findings.push(found.of_class(Class::Conflict));
}
