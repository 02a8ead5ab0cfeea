//! Listeners that differ from their desired state: closed listeners, and listeners that are served with the last valid
//! version of a certificate or of another object.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::section::{self, ObjectSection};
use holdfast_check::time::Moment;
use holdfast_envoy::model::table::Host;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::{BackfilledObject, FallbackReport};
use holdfast_graph::ObjectKey;
use holdfast_translate::claims::{Attachment, ListenerId};
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState};

use crate::engine::Engine;
use crate::health::facts::Effect;
use crate::health::view::{Gets, Severity};

/// Envoy's response status for a request to a host without a route.
const NO_ROUTE: u16 = 404;

/// Adds the effects on clients of each listener that differs from its desired state. The state that is served to
/// the Envoys of every build counts.
pub(super) fn listener_effects(engine: &Engine, report: &FallbackReport, effects: &mut Vec<Effect>) {
    let backfilled = report.backfilled_objects.iter().filter(|known| known.section.is_empty());
    let backfilled: BTreeMap<ObjectKey, &BackfilledObject> =
        backfilled.map(|known| (known.object.key(), known)).collect();
    // A step of the fallback for the listener itself is a sufficient report.
    let known =
        effects.iter().filter(|effect| matches!(ObjectSection::parse(&effect.section), ObjectSection::Listener(_)));
    let known: BTreeSet<(ObjectKey, Arc<str>, Arc<str>)> =
        known.map(|effect| (effect.object.key(), effect.gateway.clone(), effect.section.clone())).collect();
    let roots = LazyCell::new(|| roots(engine));
    let mut unserved = Unserved::new();
    for (key, plan) in engine.translator.plans() {
        let served: Vec<&GatewayPlan> = speaking(engine.scopes.of(&plan.name))
            .filter_map(|scope| engine.translator.served_gateway(&scope.id.fleet))
            .collect();
        for listener in plan.all().filter(|listener| !is_reported_apart(engine, key, listener)) {
            let serving = |plan: &&GatewayPlan| {
                let mut listeners = plan.all();
                listeners.any(|one| one.name == listener.name && one.state == ListenerState::Serving)
            };
            let is_closed = listener.state != ListenerState::Serving;
            let without = match served.is_empty() {
                true => is_closed.then_some(plan),
                false => served.iter().find(|plan| !serving(plan)).copied(),
            };
            let lost = without.map(|plan| closed(listener, plan));
            let all_hosts = || listener.hostname.iter().cloned().collect();
            let of_all = |gets: Gets| ListenerEffect { gets, hosts: all_hosts(), secret: None };
            let gets: Vec<ListenerEffect> = if let Some(lost) = &lost {
                if is_closed { vec![of_all(lost.clone())] } else { Vec::new() }
            } else {
                let earlier = earlier_certificates(listener, &served, &backfilled);
                let mut earlier: Vec<ListenerEffect> = earlier.into_iter().map(of_all).collect();
                earlier.extend(untrusted(listener, &served));
                if earlier.is_empty() && is_closed { vec![of_all(Gets::AsBefore)] } else { earlier }
            };
            let empty = Roots::new();
            let roots = if listener.proxies && !gets.is_empty() { &*roots } else { &empty };
            let writers = writers(key, listener, roots);
            if !listener.is_generated() {
                let behind = || behind_step(effects, listener.owner(key), &plan.name, &field(listener));
                let losses = losses(listener, &gets, &writers, lost.map(|lost| (lost, behind())));
                if !losses.is_empty() {
                    unserved.insert(ListenerId { gateway: key.clone(), name: listener.name.clone() }, losses);
                }
            }
            for (object, section) in writers {
                let is_known = known.contains(&(object.clone(), plan.name.clone(), section.clone()));
                let reported = gets.iter().filter(|one| !is_known || one.gets != Gets::AsBefore);
                effects.extend(reported.map(|one| Effect {
                    gateway: plan.name.clone(),
                    gets: one.gets.clone(),
                    hosts: one.hosts.clone(),
                    causes: one.secret.iter().cloned().collect(),
                    message: match one.is_outage() {
                        true => format!("listener {} is not served", listener.section()),
                        false => String::new(),
                    },
                    ..Effect::left_out(&engine.identity(&object, None), &section)
                }));
            }
        }
    }
    effects.extend(routes_below(engine, &unserved));
}

/// Returns whether a listener is a host of an HTTPProxy with routes at a port in use: that is reported apart.
fn is_reported_apart(engine: &Engine, gateway: &ObjectKey, listener: &ListenerPlan) -> bool {
    let table = listener.table();
    let has_routes = || {
        let mut places = engine.translator.routes().into_values().flat_map(|plan| &plan.places);
        places.any(|(at, of, _)| at == gateway && *of == table)
    };
    listener.is_port_in_use && listener.proxies && listener.https && has_routes()
}

/// Objects at fault, each with the part at fault.
type PartsAtFault = Vec<(ObjectKey, Arc<str>)>;

/// Returns what clients get of a listener that is not served, or not at some hosts. `of_step` is the effect of a step of
/// the fallback, with the objects at fault; it applies where the listener has no other effect.
fn losses(
    listener: &ListenerPlan,
    gets: &[ListenerEffect],
    writers: &[(ObjectKey, Arc<str>)],
    of_step: Option<(Gets, PartsAtFault)>,
) -> Vec<LostListener> {
    let has_place = listener.has_place();
    let of = |lost: &ListenerEffect| LostListener {
        gets: lost.gets.clone(),
        writers: match &lost.secret {
            Some(secret) => vec![(secret.clone(), "".into())],
            None => writers.to_vec(),
        },
        has_place,
        hosts: lost.hosts.iter().map(|host| Host::new(Some(host))).collect(),
    };
    let of_step = of_step.filter(|_| gets.is_empty());
    let of_step = of_step.map(|(gets, writers)| LostListener { gets, writers, has_place, hosts: Vec::new() });
    gets.iter().filter(|gets| gets.is_outage()).map(of).chain(of_step).collect()
}

/// Returns the objects because of which a step of the fallback closes a listener, each with the part at fault.
fn behind_step(effects: &[Effect], owner: &ObjectKey, gateway: &str, section: &str) -> PartsAtFault {
    let of_step = effects
        .iter()
        .filter(|effect| *effect.section == *section && *effect.gateway == *gateway && effect.object.key() == *owner);
    let parts =
        of_step.flat_map(|effect| effect.causes.iter().map(|cause| (cause.clone(), effect.causing_section.clone())));
    parts.collect()
}

/// What clients get of a listener.
struct ListenerEffect {
    gets: Gets,
    /// The hosts with the effect; empty for all hosts.
    hosts: BTreeSet<Arc<str>>,
    /// The certificate that is the cause.
    secret: Option<ObjectKey>,
}

impl ListenerEffect {
    fn is_outage(&self) -> bool {
        self.gets.severity() == Severity::Outage
    }
}

/// Listeners that are not served, each with what clients get.
type Unserved = BTreeMap<ListenerId, Vec<LostListener>>;

/// What clients get of a listener, or of some of its hosts, that is not served.
struct LostListener {
    /// What clients get.
    gets: Gets,
    /// The objects at fault, each with the part at fault.
    writers: PartsAtFault,
    /// Whether it keeps its port and hostname.
    has_place: bool,
    /// The hosts that are not served; empty for all hosts.
    hosts: Vec<Host>,
}

impl LostListener {
    /// Returns the hosts of a route that are not served.
    fn hosts_of(&self, attachment: &Attachment) -> BTreeSet<Arc<str>> {
        // A more specific listener of the port answers, or refuses, the requests to the other hosts.
        let all = if self.has_place { &attachment.owned } else { &attachment.hosts };
        let lost = all.iter().flat_map(|host| match self.hosts.is_empty() {
            true => vec![host.clone()],
            false => self.hosts.iter().filter_map(|lost| lost.intersection(host)).collect(),
        });
        lost.map(|host| host.domain().into()).collect()
    }
}

/// Returns the effects on routes below these listeners: on a whole parent of which no listener is served, else on the
/// route at each of these listeners.
fn routes_below(engine: &Engine, unserved: &Unserved) -> Vec<Effect> {
    let mut effects = Vec::new();
    if unserved.is_empty() {
        return effects;
    }
    for (key, plan) in engine.translator.routes() {
        // A listener serves the hosts that no more specific listener of the port owns.
        let is_unserved =
            |attachment: &Attachment| unserved.contains_key(&attachment.listener) || attachment.owned.is_empty();
        let is_lost = plan.parents.iter().flat_map(|parent| &parent.attachments).all(is_unserved);
        for parent in &plan.parents {
            let is_closed = parent.attachments.iter().all(is_unserved);
            let section = if is_lost || !is_closed { String::new() } else { parent.section() };
            for attachment in &parent.attachments {
                for lost in unserved.get(&attachment.listener).into_iter().flatten() {
                    let hosts = lost.hosts_of(attachment);
                    if hosts.is_empty() {
                        continue;
                    }
                    effects.extend(lost.writers.iter().map(|(writer, causing_section)| Effect {
                        gateway: parent.gateway.namespaced_name().into(),
                        listener: (!is_closed).then(|| attachment.listener.name.clone()),
                        gets: lost.gets.clone(),
                        hosts: hosts.clone(),
                        causes: BTreeSet::from([writer.clone()]),
                        causing_section: causing_section.clone(),
                        message: if is_closed {
                            format!("no listener of {} is served", parent.gateway.namespaced_name())
                        } else {
                            format!("listener {} is not served", attachment.listener.name)
                        },
                        ..Effect::left_out(&engine.identity(key, None), &section)
                    }));
                }
            }
        }
    }
    effects
}

/// Returns the roots of HTTPProxies by their hosts in lower case; the empty name has the roots with the fallback
/// certificate for clients without SNI.
pub(in crate::report) fn roots(engine: &Engine) -> Roots {
    let mut roots = Roots::new();
    for object in engine.objects().iter() {
        let Body::HttpProxy(proxy) = &object.body else { continue };
        let Some(host) = &proxy.virtual_host else { continue };
        roots.entry(host.fqdn.to_ascii_lowercase()).or_default().insert(object.key.clone());
        let tls = host.written.as_ref().and_then(|written| written.tls.as_ref());
        if tls.is_some_and(|tls| tls.enable_fallback_certificate == Some(true)) {
            roots.entry(String::new()).or_default().insert(object.key.clone());
        }
    }
    roots
}

/// See [`Engine::roots`].
pub(in crate::report) type Roots = BTreeMap<String, BTreeSet<ObjectKey>>;

/// Returns the effect of a listener that is not served. The port may be served for other listeners: requests to a closed
/// host of a plain listener get 404 there, and another listener may answer those to a host without a place.
pub(in crate::report) fn closed(listener: &ListenerPlan, served: &GatewayPlan) -> Gets {
    if listener.is_port_in_use {
        return Gets::PortInUse;
    }
    let others = served.all().filter(|one| one.name != listener.name && one.bound() == listener.bound());
    let mut at_port = others.filter(|one| one.has_own_table() == listener.has_own_table());
    let state = served.all().find(|one| one.name == listener.name).map_or(listener.state, |one| one.state);
    // The winner of a conflict, or a listener with a wildcard, answers the clients of the host.
    let is_answering = |one: &ListenerPlan| one.state == ListenerState::Serving && one.host().covers(&listener.host());
    if state == ListenerState::Out && at_port.clone().any(is_answering) {
        return Gets::AnotherListener;
    }
    let is_open = |one: &ListenerPlan| !matches!(one.state, ListenerState::Out | ListenerState::Refused);
    if listener.has_own_table() || !at_port.any(is_open) { Gets::Refused } else { Gets::Status { status: NO_ROUTE } }
}

/// Returns the effects of the certificates of a listener that every plan serves in their last valid versions.
fn earlier_certificates(
    listener: &ListenerPlan,
    served: &[&GatewayPlan],
    backfilled: &BTreeMap<ObjectKey, &BackfilledObject>,
) -> Vec<Gets> {
    let outdated = listener.outdated_certificates().map(|(key, _)| key);
    let broken = listener.broken_certificates.iter().map(|(key, _)| key).chain(outdated);
    let shows = |plan: &&GatewayPlan, key: &ObjectKey| {
        let mut listeners = plan.all().filter(|one| one.name == listener.name);
        listeners.any(|one| one.certificates.contains(key))
    };
    let shown = broken.filter(|key| served.iter().all(|plan| shows(plan, key)));
    let expiry = |key: &ObjectKey| {
        let all = served.iter().flat_map(|plan| plan.all());
        all.filter_map(|one| Some(Moment(one.certificate_dates.get(key)?.validity.not_after))).min()
    };
    shown.filter_map(|key| Some(earlier(backfilled.get(key)?, expiry(key)))).collect()
}

/// Returns the effects of the certificates outside of their validity that clients get of a listener in a plan.
fn untrusted(listener: &ListenerPlan, served: &[&GatewayPlan]) -> Vec<ListenerEffect> {
    let mut effects: BTreeMap<(Gets, ObjectKey), BTreeSet<Arc<str>>> = BTreeMap::new();
    for one in served.iter().flat_map(|plan| plan.all()).filter(|one| one.name == listener.name) {
        let shown = one.shown_certificates();
        for (secret, at) in one.outdated_certificates().filter_map(|(secret, _)| Some((secret, shown.get(secret)?))) {
            for (gets, at) in [(Gets::Untrusted, &at.hosts), (Gets::UntrustedWithoutEcdsa, &at.without_ecdsa)] {
                let hosts = at.iter().map(|host| host.domain().into());
                effects.entry((gets, secret.clone())).or_default().extend(hosts);
            }
        }
    }
    effects.retain(|_, hosts| !hosts.is_empty());
    let of = |((gets, secret), hosts)| {
        // With one certificate, all clients of the listener get it.
        let hosts = if listener.certificates.len() > 1 { hosts } else { listener.hostname.iter().cloned().collect() };
        ListenerEffect { gets, hosts, secret: Some(secret) }
    };
    effects.into_iter().map(of).collect()
}

/// Returns the effect of the last valid version of a certificate, with its expiry.
fn earlier(known: &BackfilledObject, expires: Option<Moment>) -> Gets {
    let BackfilledObject { object, served_generation, served_since, .. } = known;
    Gets::LastValidOf { of: object.clone(), generation: *served_generation, since: *served_since, expires }
}

/// Returns the objects that define a listener, each with its section. A TLS host of HTTPProxies is defined in its
/// roots.
pub(in crate::report) fn writers(
    gateway: &ObjectKey,
    listener: &ListenerPlan,
    roots: &Roots,
) -> Vec<(ObjectKey, Arc<str>)> {
    let host = listener.hostname.as_deref().unwrap_or_default().to_ascii_lowercase();
    match roots.get(&host).filter(|_| listener.proxies && listener.https) {
        Some(roots) => roots.iter().map(|root| (root.clone(), section::HOST.into())).collect(),
        None => vec![(listener.owner(gateway).clone(), field(listener))],
    }
}

/// Returns the section of a listener in its object, as in `listeners[1]`.
pub(super) fn field(listener: &ListenerPlan) -> Arc<str> {
    section::of_field(&listener.field).into()
}
