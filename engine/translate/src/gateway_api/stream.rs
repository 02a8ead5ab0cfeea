//! Routes of connections (TCPRoutes and TLSRoutes) and datagrams (UDPRoutes): the hosts that each of them has, and where
//! their connections or datagrams go.
//!
//! A route without a usable destination closes the connections of its own hosts: no broader route or listener gets them.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::gateway::route::{GatewayRoute, RuleEntry};
use holdfast_api::apis::gateway::stream_route::StreamRule;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::Settings;
use holdfast_api::status::Condition;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::stream::Stream;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Node, ObjectKey};

use super::weighted;
use crate::backend_policy::backend::Sent;
use crate::httpproxy::neighbours;
use crate::outcome::claims::{Attachment, Claims, HOSTNAMES, ListenerId, OVERRIDDEN, Parent};
use crate::outcome::gateway::GatewayPlan;
use crate::outcome::listener::Traffic;
use crate::outcome::route::{Replaced, RoutePlan, StreamRoute};
use crate::overlay::ClosedSections;
use crate::reader::Reader;

/// The index of the only rule.
const RULE: usize = 0;

/// The destination of connections, or the reason why they are closed.
type Destination = Result<Arc<Stream>, Box<Replaced>>;

/// Translates the claims and the rule of a route. Units in `closed` are not served as written.
pub(super) fn plan(
    object: &Object,
    route: &GatewayRoute<StreamRule>,
    claims: &Claims,
    closed: &ClosedSections,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> RoutePlan {
    let key = &object.key;
    let mut plan = RoutePlan { faults: claims.faults.clone(), ..RoutePlan::default() };
    for parent in &claims.parents {
        let parent = yielding(object, &route.hostnames, parent, reader, &mut plan.faults);
        let gateway = settings.proxies.gateway.as_ref();
        plan.parents.push(neighbours::give_way(key, &route.hostnames, parent, gateway, reader, &mut plan.faults));
    }
    for index in RULE + 1..route.rules.len() {
        let message = "a route of this kind has one rule; this rule is not served".to_owned();
        plan.faults.push(Fault::new(key, Class::Invalid, at("spec.rules", index), "UnsupportedValue", message));
    }
    let traffic = traffic(&plan.parents, reader);
    let mut to = |wanted: &[Traffic], sent: Sent, reader: &mut Reader<'_>| {
        if !traffic.iter().any(|traffic| wanted.contains(traffic)) {
            return None;
        }
        match destination(object, route, sent, closed, reader, &mut plan) {
            Ok(stream) => Some(stream),
            Err(replaced) => {
                plan.replaced.push(*replaced);
                None
            }
        }
    };
    let plain = to(&[Traffic::Tcp, Traffic::Terminated], Sent::Connections, reader);
    let passthrough = to(&[Traffic::Passthrough], Sent::Encrypted, reader);
    let datagrams = to(&[Traffic::Datagrams], Sent::Datagrams, reader);
    plan.replaced.sort_unstable();
    plan.replaced.dedup_by(|one, other| one.section == other.section);
    plan.faults.sort_unstable();
    plan.faults.dedup();
    plan.stream = Some(Arc::new(StreamRoute { plain, passthrough, datagrams, ..self::closed(object) }));
    plan.wholly_invalid = plan.replaced.iter().any(|replaced| replaced.class == Class::Invalid);
    plan
}

/// Returns a route that closes all connections to its hosts.
pub(super) fn closed(object: &Object) -> StreamRoute {
    let node = Node::section(object.key.clone(), ObjectSection::Rule(RULE).to_string());
    StreamRoute { node, age: object.age(), plain: None, passthrough: None, datagrams: None }
}

/// Returns what a route forwards, in words.
fn what(route: &ObjectKey) -> &'static str {
    if *route.kind == *kinds::UDP_ROUTE { "datagrams" } else { "connections" }
}

/// Returns what happens to connections or datagrams that a route does not forward, in words.
pub(super) fn lost(route: &ObjectKey) -> &'static str {
    if *route.kind == *kinds::UDP_ROUTE { "datagrams are dropped" } else { "connections are closed" }
}

/// Returns what the listeners of a route receive.
fn traffic(parents: &[Parent], reader: &mut Reader<'_>) -> Vec<Traffic> {
    let attachments = parents.iter().flat_map(|parent| &parent.attachments);
    let listeners = attachments.map(|attachment| &attachment.listener);
    let of = |listener: &ListenerId| {
        let plan = reader.outcome::<GatewayPlan>(&listener.gateway)?;
        plan.listeners.iter().find(|known| known.name == listener.name).map(|listener| listener.traffic)
    };
    listeners.filter_map(of).collect()
}

/// Returns where the connections of the route go; the share of a missing backend is closed.
fn destination(
    object: &Object,
    route: &GatewayRoute<StreamRule>,
    sent: Sent,
    closed: &ClosedSections,
    reader: &mut Reader<'_>,
    plan: &mut RoutePlan,
) -> Destination {
    let (key, section) = (&object.key, ObjectSection::Rule(RULE).to_string());
    let field = format!("spec.{section}");
    let replaced = |class: Class, message: String| Replaced {
        object: key.clone(),
        section: section.clone(),
        response: None,
        class,
        message,
        policy: None,
        lacks_backend: false,
    };
    let refused = |class: Class, message: String| Box::new(replaced(class, message));
    if let Some(closing) = closed.get(section.as_str()) {
        return Err(refused(Class::Invalid, closing.message.to_string()));
    }
    let rule = match route.rules.get(RULE) {
        Some(RuleEntry::Decoded(rule)) => rule,
        Some(RuleEntry::Broken { why, .. }) => return Err(refused(Class::Invalid, why.to_string())),
        None => return Err(refused(Class::Invalid, "the route has no rule".to_owned())),
    };
    let backends = rule.backend_refs.as_deref().unwrap_or_default();
    let mut resolved = weighted::resolve(key, &section, backends, (sent, None), reader);
    for (index, _) in backends.iter().enumerate().filter(|(_, backend)| backend.filters.is_some()) {
        let message = format!("{} have no parts that filters could change: remove filters", what(key));
        let field = format!("{}.filters", at("backendRefs", index));
        resolved.flaws.push(Flaw::new(field, message));
    }
    plan.faults.extend(resolved.flaws.iter().map(|flaw| {
        Fault::new(key, Class::Invalid, format!("{field}.{}", flaw.field), "UnsupportedValue", &flaw.message)
    }));
    plan.faults.extend(resolved.faults.iter().cloned());
    if let Some(flaw) = resolved.flaws.first() {
        return Err(refused(Class::Invalid, format!("{field}.{}: {}", flaw.field, flaw.message)));
    }
    let missing = resolved.faults.first().map(|fault| format!("{}: {}", fault.field, fault.message));
    let lacks_backend = resolved.faults.iter().filter(|fault| fault.is_error()).all(Fault::is_missing_backend);
    let without = |message: String| Replaced {
        policy: resolved.policy.clone(),
        lacks_backend,
        ..replaced(Class::Referential, message)
    };
    let shares: Vec<_> = resolved.backends.iter().map(|share| (share.backend.clone(), share.weight)).collect();
    if shares.iter().all(|(backend, _)| backend.is_none()) {
        let message = missing.filter(|_| !shares.is_empty()).unwrap_or_else(|| {
            let why = if backends.is_empty() { "the rule has no backendRefs" } else { "all backendRefs have weight 0" };
            let message = format!("{why}, so that {}", lost(key));
            plan.faults.push(Fault::new(key, Class::Ignored, &field, "NoBackends", &message));
            format!("{field}: {message}")
        });
        return Err(Box::new(without(message)));
    }
    if let Some(message) = missing.filter(|_| shares.iter().any(|(backend, _)| backend.is_none())) {
        plan.replaced.push(without(message));
    }
    plan.backends.extend(shares.iter().filter_map(|(backend, _)| backend.clone()));
    Ok(Arc::new(Stream { backends: shares, ip_filter: None, origins: vec![key.clone()] }))
}

/// Removes the hosts that an older route of the kind has at the same listener. A host that only an earlier version
/// claims yields to every claim of today.
fn yielding(
    object: &Object,
    hostnames: &[Arc<str>],
    parent: &Parent,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Parent {
    let (key, age) = (&object.key, object.age());
    let mut parent = parent.clone();
    let mut lost: BTreeSet<(Host, ObjectKey)> = BTreeSet::new();
    for attachment in &mut parent.attachments {
        let rivals: Vec<_> =
            reader.rivals(&attachment.listener, &key.kind).filter(|(rival, _)| *rival != key).collect();
        let Attachment { hosts, owned, lent, .. } = attachment;
        let winner = |host: &Host| {
            let is_lent = lent.contains(host);
            let wins = |other: &Host, older: bool| match is_lent {
                true => other == host || (*other != Host::any() && other.covers(host)),
                false => older && other == host,
            };
            let found = rivals.iter().find(|(_, rival)| rival.hosts.iter().any(|other| wins(other, rival.age < age)));
            found.map(|(winner, _)| (*winner).clone())
        };
        let gone: Vec<(Host, ObjectKey)> =
            hosts.iter().filter_map(|host| Some((host.clone(), winner(host)?))).collect();
        let is_gone = |host: &Host| gone.iter().any(|(lost, _)| lost == host);
        let of_today: Vec<_> = gone.iter().filter(|(host, _)| !lent.contains(host)).cloned().collect();
        hosts.retain(|host| !is_gone(host));
        owned.retain(|host| !is_gone(host));
        lent.retain(|host| !is_gone(host));
        lost.extend(of_today);
    }
    parent.attachments.retain(|attachment| !attachment.hosts.is_empty());
    let message = |host: &Host, winner: &ObjectKey| {
        if kinds::PORT_ROUTES.contains(&&*winner.kind) {
            let (kind, name, what) = (&winner.kind, winner.namespaced_name(), what(winner));
            return format!("the older {kind} {name} has the {what} of the listener");
        }
        format!("{:?} is the host of the older {} {}", host.domain(), winner.kind, winner.namespaced_name())
    };
    // The specification requires that such routes stay accepted: `holdfast.dev/Conflicted` reports the winner.
    let is_of_port = kinds::PORT_ROUTES.contains(&&*key.kind);
    for (host, winner) in &lost {
        let index = hostnames.iter().position(|hostname| **hostname == *host.domain());
        let of_host = || index.map_or_else(|| HOSTNAMES.to_owned(), |index| at(HOSTNAMES, index));
        let (field, reason) = match is_of_port {
            true => (parent.field(), OVERRIDDEN),
            false if parent.is_default() => (parent.field(), "HostnameConflict"),
            false => (of_host(), "HostnameConflict"),
        };
        faults.push(Fault::new(key, Class::Conflict, field, reason, message(host, winner)));
    }
    if let (Some((host, winner)), true, false) = (lost.first(), parent.attachments.is_empty(), is_of_port) {
        parent.accepted = Condition::new("Accepted", false, "HostnameConflict", message(host, winner));
    }
    parent
}
