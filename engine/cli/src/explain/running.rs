//! What only a running Holdfast knows about a request: earlier versions that are served instead of desired ones, and the
//! Envoys that have acknowledged what is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::core::endpoint_slice::SERVICE_LABEL;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::gateway::ListenerEntry;
use holdfast_api::apis::{Body, kinds};
use holdfast_api::fault::{Class, Fault, without_field};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_check::certificate::DateFault;
use holdfast_check::time::Moment;
use holdfast_engine::engine::Engine;
use holdfast_engine::health::view::ServedInstead;
use holdfast_engine::health::{Health, HealthFinding};
use holdfast_engine::report::DelegatedRoutes;
use holdfast_engine::report::events::because;
use holdfast_envoy::model::table::Host;
use holdfast_fallback::view::{BackfilledObject, FallbackReport};
use holdfast_graph::{Graph, Node, ObjectKey, Step};
use holdfast_translate::claims::names_route;
use serde::Serialize;

use super::envoys::GatewayEnvoys;
use super::text::short;
use crate::serve::core::{Core, ManifestPositions};

/// The reason of a fault of another object because of which a part is not served.
const BEHIND: &str = "NotServed";

/// The state of a running Holdfast at one moment.
#[derive(Debug)]
pub(crate) struct RunningFacts {
    report: FallbackReport,
    /// The objects that each backfilled object affects.
    affected: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The parts of routes and listeners that depend on each other object which is at fault or served in an earlier
    /// version, such as a policy or a Secret.
    readers: Readers,
    /// The listeners that have each of these Secrets as certificate.
    shown: Readers,
    places: ManifestPositions,
    /// The health after the last change; unset before the first report.
    health: Option<Arc<Health>>,
    /// Objects of files that cannot be read now, each with the reason.
    not_read: BTreeMap<ObjectKey, String>,
    /// Objects with content that cannot be read.
    unreadable: BTreeSet<ObjectKey>,
    /// The served last valid versions, by object and generation.
    versions: BTreeMap<(ObjectKey, i64), Arc<Object>>,
}

/// An earlier version that is served instead of the desired one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServedEarlier {
    /// The object.
    pub(super) object: ObjectKey,
    /// The desired generation; unset if the object cannot be read at all.
    pub(super) desired_generation: Option<i64>,
    /// The served generation.
    pub(super) served_generation: i64,
    /// The time since which the served version is known to be good.
    pub(super) served_since: Moment,
    /// Sections of the desired version that are served nevertheless.
    pub(super) desired_sections: BTreeSet<Arc<str>>,
    /// The objects at fault, each with its message.
    pub(super) because: Vec<String>,
}

/// The object of the route that matches.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MatchedObject {
    /// The object.
    pub(super) object: ObjectKey,
    /// The desired generation.
    pub(super) generation: Option<i64>,
    /// The file and line of its manifest.
    pub(super) place: Option<String>,
}

impl MatchedObject {
    /// Returns an object with its position, if a manifest has it.
    pub(super) fn new(object: &ObjectKey, generation: Option<i64>, places: &ManifestPositions) -> Self {
        let place = places.get(object).map(|place| format!("{}:{}", place.file, place.line));
        Self { object: object.clone(), generation, place }
    }
}

/// An object that is served as it was read last, because its file cannot be read now.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectNotRead {
    /// The object.
    pub(super) object: ObjectKey,
    /// The file, and why it cannot be read.
    pub(super) why: String,
}

impl RunningFacts {
    /// The facts of this moment.
    pub(crate) fn new(core: &Core, health: Option<Arc<Health>>) -> Self {
        let engine = &core.engine;
        let report = engine.fallback();
        let affected = affected(&report, engine);
        let (readers, shown) = readers(&report, health.as_deref(), engine.graph());
        let unreadable = engine.unreadable().map(|(key, ..)| key.clone()).collect();
        let (places, not_read) = (core.places.clone(), core.not_read());
        let versions = engine.served_versions();
        Self { report, affected, readers, shown, places, health, not_read, unreadable, versions }
    }

    /// The last valid versions that a Gateway serves.
    pub(super) fn versions_at(&self, gateway: &str) -> BTreeMap<ObjectKey, Arc<Object>> {
        let steps = self.report.gateway(gateway).into_iter().flat_map(|state| &state.deviations.steps);
        let served = steps.filter(|(_, (step, _))| *step == Step::Backfilled).filter_map(|(node, (_, generation))| {
            let version = self.versions.get(&(node.key.clone(), *generation))?;
            Some((node.key.clone(), version.clone()))
        });
        served.collect()
    }

    /// The Envoys of a Gateway.
    pub(super) fn envoys(&self, gateway: &str) -> Option<GatewayEnvoys> {
        self.report.gateway(gateway).map(GatewayEnvoys::new)
    }

    /// The object of the route that matches.
    pub(super) fn matched(&self, object: &ObjectKey, generation: Option<i64>) -> MatchedObject {
        MatchedObject::new(object, generation, &self.places)
    }

    /// The earlier versions on which the answer of a rule may depend: of the object itself, and of the objects that it
    /// depends on.
    pub(super) fn instead(&self, object: &ObjectKey) -> Vec<ServedEarlier> {
        let concerns = |one: &&BackfilledObject| {
            let affected = self.affected.get(&one.object.key());
            one.object.is(object) || affected.is_some_and(|affected| affected.contains(object))
        };
        self.report.backfilled_objects.iter().filter(concerns).map(|one| self.served(one)).collect()
    }

    /// The earlier versions of the certificates of a filter chain of a Gateway.
    pub(super) fn certificates(&self, gateway: &str, chain: &str, objects: &ObjectSnapshot) -> Vec<ServedEarlier> {
        let concerns = |one: &&BackfilledObject| {
            let key = one.object.key();
            let readers = self.readers.get(&key).filter(|_| *key.kind == *kinds::SECRET);
            let mut chains = readers.into_iter().flatten().filter_map(|reader| listener_of(reader, gateway, objects));
            chains.any(|listener| [listener.clone(), format!("httpproxy/{listener}")].iter().any(|name| *name == chain))
        };
        self.report.backfilled_objects.iter().filter(concerns).map(|one| self.served(one)).collect()
    }

    /// The objects of a Gateway that are at fault or not served as desired, and that could have received the request or
    /// changed its answer: all except routes that do not claim the host. A rule that is left out, or that the last valid
    /// version does not have, leaves its requests to other routes. `namespaces`: those of the object of
    /// the route and of the backends.
    pub(super) fn may_concern(
        &self,
        gateway: &str,
        (host, tls): (&str, bool),
        namespaces: &BTreeSet<&str>,
        objects: &ObjectSnapshot,
    ) -> BTreeSet<ObjectKey> {
        let deviations = self.report.gateway(gateway).map(|state| &state.deviations);
        let steps =
            deviations.into_iter().flat_map(|all| all.broken.iter().chain(all.steps.keys().map(|node| &node.key)));
        let broken = self.report.broken_objects.iter().filter(|broken| broken.gateways.contains(gateway));
        let reported = self.reported(gateway, host).into_iter().chain(self.without_gateway(objects));
        let all = steps.cloned().chain(broken.map(|broken| broken.object.key())).chain(reported);
        let all: BTreeSet<ObjectKey> = all.collect();
        let may_be_meant = |key: &ObjectKey| match self.readers.get(key) {
            // The target that cannot be read is an object of the same namespace.
            _ if has_lost_targets(key, objects) => {
                let own = gateway.split_once('/').map(|(namespace, _)| namespace);
                namespaces.contains(&*key.namespace) || own == Some(&*key.namespace)
            }
            Some(readers) => {
                // A request without TLS does not depend on the certificates of listeners.
                let is_meant =
                    |reader: &&Node| tls || !self.shown.get(key).is_some_and(|shown| shown.contains(*reader));
                let mut meant = readers.iter().filter(is_meant);
                readers.is_empty() || meant.any(|reader| may_read(reader, host, objects))
            }
            None => objects.get(key).is_none_or(|object| may_have_host(object, host, objects)),
        };
        all.into_iter().filter(may_be_meant).collect()
    }

    /// The objects of files that cannot be read now, and on which the answer may depend, each with the reason: routes that
    /// claim the host, the backends of the answer with their endpoints, and every object that is neither.
    pub(super) fn not_read(
        &self,
        host: &str,
        backends: &BTreeSet<&ObjectKey>,
        objects: &ObjectSnapshot,
    ) -> Vec<ObjectNotRead> {
        let is_meant = |key: &ObjectKey| match objects.get(key).map(|object| (&object.body, &object.metadata.labels)) {
            Some((Body::Service(_) | Body::Backend(_), _)) => backends.contains(key),
            Some((Body::EndpointSlice(_), labels)) => {
                let of = labels.get(SERVICE_LABEL);
                backends
                    .iter()
                    .any(|backend| *backend.namespace == *key.namespace && of.is_some_and(|of| **of == *backend.name))
            }
            Some((body, _)) => may_claim(body, host),
            None => true,
        };
        let meant = self.not_read.iter().filter(|(key, _)| is_meant(key));
        meant.map(|(object, why)| ObjectNotRead { object: object.clone(), why: why.clone() }).collect()
    }

    /// The objects of what is reported at a Gateway although the configuration of Envoys is the desired one, and by which
    /// clients of a host may get an error: outages of listeners and of Envoys, and certificates that are not valid now.
    /// What is at single paths is in the configuration.
    fn reported(&self, gateway: &str, host: &str) -> Vec<ObjectKey> {
        let [not_yet_valid, expired, _] = DateFault::REASONS;
        let is_about_dates = move |finding: &&HealthFinding| [not_yet_valid, expired].contains(&&*finding.reason);
        let findings = self
            .health
            .iter()
            .flat_map(move |health| health.outages.iter().chain(health.warnings.iter().filter(is_about_dates)));
        let is_here = |finding: &&HealthFinding| {
            let mut here = finding.served.iter().filter(|served| *served.gateway == *gateway).peekable();
            let is_of_host = here.peek().is_none()
                || here.any(|served| {
                    let mut hosts = served.hosts.iter();
                    served.paths.is_empty() && (served.hosts.is_empty() || hosts.any(|own| may_be(own, host)))
                });
            finding.gateways.contains(gateway) && is_of_host
        };
        let objects = findings.filter(is_here).flat_map(|finding| &finding.objects);
        objects.map(|subject| subject.object.key()).collect()
    }

    /// The faults of other objects because of which a part of an object is not served, such as the client certificate that
    /// its Gateway lacks.
    pub(super) fn faults_behind(&self, (object, section): (&ObjectKey, &str), gateway: &str) -> Vec<Fault> {
        let outages = self.health.iter().flat_map(|health| &health.outages);
        let is_behind = |finding: &&HealthFinding| {
            let is_meant = |served: &ServedInstead| {
                (*served.section == *section || served.section.is_empty()) && *served.gateway == *gateway
            };
            finding.objects.iter().all(|subject| subject.object.key() != *object)
                && finding.served.iter().any(|served| served.object.key() == *object && is_meant(served))
        };
        let faults = outages.filter(is_behind).flat_map(|finding| {
            finding.objects.iter().map(|subject| {
                let message = without_field(&finding.message, &subject.field);
                Fault::new(&subject.object.key(), Class::Referential, &*subject.field, BEHIND, message)
            })
        });
        faults.collect()
    }

    /// Objects of which a fault may concern any Gateway: with hosts that no Gateway serves, such as a route with a misspelt
    /// parent, of which other objects receive the requests; with hosts that are unknown, as nothing of them can be read;
    /// and policies with a target that cannot be read.
    fn without_gateway(&self, objects: &ObjectSnapshot) -> impl Iterator<Item = ObjectKey> {
        let outages = self.health.iter().flat_map(|health| &health.outages);
        let all =
            outages.flat_map(|finding| finding.objects.iter().map(move |subject| (finding, subject.object.key())));
        let may_be_anywhere = |(finding, key): &(&HealthFinding, ObjectKey)| {
            (finding.gateways.is_empty() && has_hosts(&key.kind)) || has_lost_targets(key, objects)
        };
        let unknown = self.unreadable.iter().filter(|key| has_hosts(&key.kind) && objects.get(key).is_none());
        all.filter(may_be_anywhere).map(|(_, key)| key).chain(unknown.cloned())
    }

    fn served(&self, backfilled: &BackfilledObject) -> ServedEarlier {
        let broken = self.report.broken_objects.iter();
        let causing = broken.filter(|broken| backfilled.causing_objects.contains(&broken.object.key().to_string()));
        ServedEarlier {
            object: backfilled.object.key(),
            desired_generation: backfilled.desired_generation,
            served_generation: backfilled.served_generation,
            served_since: backfilled.served_since,
            desired_sections: backfilled.desired_sections.clone(),
            because: causing.map(|broken| format!("{}: {}", short(&broken.object.key()), because(broken))).collect(),
        }
    }
}

/// Returns the objects that each backfilled object affects. The desired version of an HTTPRoute may delegate to other
/// routes than the served one.
fn affected(report: &FallbackReport, engine: &Engine) -> BTreeMap<ObjectKey, BTreeSet<ObjectKey>> {
    let keys: Vec<ObjectKey> = report.backfilled_objects.iter().map(|backfilled| backfilled.object.key()).collect();
    let may_delegate = keys.iter().any(|key| *key.kind == *kinds::HTTP_ROUTE);
    let delegated = if may_delegate { DelegatedRoutes::of(engine) } else { DelegatedRoutes::default() };
    let all = keys.into_iter().map(|key| {
        let reached = engine.graph().affected(&Node::whole(key.clone()));
        let mut affected = delegated.below(&key);
        affected.extend(reached.into_iter().map(|affected| affected.node.key));
        (key, affected)
    });
    all.collect()
}

/// Parts of routes and listeners, by the object that they depend on.
type Readers = BTreeMap<ObjectKey, BTreeSet<Node>>;

/// Returns the parts of routes and listeners that depend on each other object which is at fault or served in an earlier
/// version, and the listeners among them that read a Secret as certificate.
fn readers(report: &FallbackReport, health: Option<&Health>, graph: &Graph) -> (Readers, Readers) {
    let deviations = report.gateways.iter().map(|state| &state.deviations);
    let of_gateways = deviations.flat_map(|all| all.broken.iter().chain(all.steps.keys().map(|node| &node.key)));
    let broken = report.broken_objects.iter().map(|broken| broken.object.key());
    let findings = health.into_iter().flat_map(|health| health.outages.iter().chain(&health.warnings));
    let found = findings.flat_map(|finding| &finding.objects).map(|subject| subject.object.key());
    let all: BTreeSet<ObjectKey> = of_gateways.cloned().chain(broken).chain(found).collect();
    let others: Vec<ObjectKey> = all.into_iter().filter(|key| !has_hosts(&key.kind)).collect();
    let mut direct: BTreeMap<ObjectKey, Vec<Node>> = BTreeMap::new();
    if !others.is_empty() {
        for edge in graph.edges() {
            direct.entry(edge.to.key).or_default().push(edge.from);
        }
    }
    let is_listener = |node: &&Node| matches!(ObjectSection::parse(&node.section), ObjectSection::Listener(_));
    let of_listeners = |key: &ObjectKey| direct.get(key).into_iter().flatten().filter(is_listener).cloned().collect();
    let secrets = others.iter().filter(|key| *key.kind == *kinds::SECRET);
    let shown = secrets.map(|key| (key.clone(), of_listeners(key))).collect();
    let readers = others.iter().map(|key| (key.clone(), with_hosts(key, &direct))).collect();
    (readers, shown)
}

/// Returns the parts of routes and listeners that read an object, or another object that reads it.
fn with_hosts(key: &ObjectKey, direct: &BTreeMap<ObjectKey, Vec<Node>>) -> BTreeSet<Node> {
    let (mut found, mut known, mut next) = (BTreeSet::new(), BTreeSet::from([key]), vec![key]);
    while let Some(key) = next.pop() {
        for reader in direct.get(key).into_iter().flatten() {
            if has_hosts(&reader.key.kind) {
                found.insert(reader.clone());
            } else if known.insert(&reader.key) {
                next.push(&reader.key);
            }
        }
    }
    found
}

/// Returns whether a policy has a target that cannot be read: it may be meant for any route or listener.
fn has_lost_targets(key: &ObjectKey, objects: &ObjectSnapshot) -> bool {
    objects.get(key).is_some_and(|object| object.body.lost_targets())
}

/// Returns whether objects of a kind name the hosts of which they answer the requests.
fn has_hosts(kind: &str) -> bool {
    const OTHERS: [&str; 4] = [kinds::GATEWAY_CLASS, kinds::GATEWAY, kinds::LISTENER_SET, kinds::HTTP_PROXY];
    kinds::ROUTES.contains(&kind) || OTHERS.contains(&kind)
}

/// Returns the name of the listener of a Gateway that a part of an object is: that of a host for an HTTPProxy.
fn listener_of(reader: &Node, gateway: &str, objects: &ObjectSnapshot) -> Option<String> {
    let key = &reader.key;
    if let Body::HttpProxy(proxy) = &objects.get(key)?.body {
        return proxy.virtual_host.as_ref().map(|host| host.fqdn.to_ascii_lowercase());
    }
    match (ObjectSection::parse(&reader.section), &*key.kind) {
        (ObjectSection::Listener(name), kinds::GATEWAY) => (key.namespaced_name() == gateway).then(|| name.to_owned()),
        (ObjectSection::Listener(name), kinds::LISTENER_SET) => Some(format!("{}/{name}", key.namespaced_name())),
        _ => None,
    }
}

/// Returns whether the answer to a request for a host may depend on what a part of an object reads. A listener reads for
/// the hosts that no more specific listener of its object and port has.
fn may_read(reader: &Node, host: &str, objects: &ObjectSnapshot) -> bool {
    let Some(object) = objects.get(&reader.key) else { return true };
    let ObjectSection::Listener(name) = ObjectSection::parse(&reader.section) else {
        return may_claim(&object.body, host);
    };
    let entries = match &object.body {
        Body::Gateway(gateway) => &gateway.listeners,
        Body::ListenerSet(set) => &set.listeners,
        _ => return true,
    };
    let Some(own) = entries.iter().find(|entry| &*entry.name == name).and_then(|entry| entry.written.as_ref()) else {
        return true;
    };
    let hostname = |entry: &ListenerEntry| {
        let written = entry.written.as_ref().filter(|written| written.port == own.port)?;
        let hostname = written.hostname.as_deref().filter(|hostname| !hostname.is_empty()).unwrap_or("*");
        Some((entry.name.clone(), Arc::<str>::from(hostname.to_ascii_lowercase())))
    };
    let covering =
        entries.iter().filter_map(hostname).filter(|(_, hostname)| &**hostname == "*" || may_be(hostname, host));
    let first = covering.min_by_key(|(_, hostname)| {
        let host = Host::new(Some(hostname));
        (host.is_wildcard(), std::cmp::Reverse(hostname.len()))
    });
    first.is_some_and(|(first, _)| &*first == name)
}

/// Returns whether an object may receive requests of a host, or change their answer. A route that names only HTTPRoutes as
/// its parents has the hosts of these.
fn may_have_host(object: &Arc<Object>, host: &str, objects: &ObjectSnapshot) -> bool {
    let (mut known, mut next) = (BTreeSet::from([&object.key]), vec![object]);
    while let Some(object) = next.pop() {
        let parents = object.body.route().map(|route| route.parents()).unwrap_or_default();
        if parents.is_empty() || !parents.iter().all(names_route) {
            if may_claim(&object.body, host) {
                return true;
            }
            continue;
        }
        for parent in parents {
            let namespace = parent.namespace.as_deref().unwrap_or(&object.key.namespace);
            let key = ObjectKey::new(GROUP, kinds::HTTP_ROUTE, namespace, parent.name.clone());
            let Some(above) = objects.get(&key) else { return true };
            if known.insert(&above.key) {
                next.push(above);
            }
        }
    }
    false
}

/// Returns whether an object may receive requests of a host that it names, or change their answer.
fn may_claim(body: &Body, host: &str) -> bool {
    let any = |hostnames: &[Arc<str>]| hostnames.is_empty() || hostnames.iter().any(|hostname| may_be(hostname, host));
    match body {
        Body::HttpProxy(proxy) => {
            let own = proxy.virtual_host.as_ref().and_then(|own| own.written.as_ref());
            own.is_none_or(|own| any(std::slice::from_ref(&own.fqdn)))
        }
        Body::ListenerSet(set) => set.listeners.iter().any(|entry| {
            let hostname = entry.written.as_ref().and_then(|written| written.hostname.as_deref());
            hostname.is_none_or(|hostname| hostname.is_empty() || may_be(hostname, host))
        }),
        body => body.route().is_none_or(|route| any(route.hostnames())),
    }
}

/// Returns whether a hostname may be for a host. A hostname that cannot be used may be for any, except one that only has
/// upper-case letters.
fn may_be(hostname: &str, host: &str) -> bool {
    let hostname = hostname.to_ascii_lowercase();
    let pattern = |text: &str| Host::new(Some(&text.into()));
    holdfast_check::host::hostname(&hostname).is_err()
        || pattern(&hostname).covers(&pattern(&host.to_ascii_lowercase()))
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use holdfast_api::apis::decode::{Decoded, decode};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hostname_that_cannot_be_used_may_be_for_any_host() {
        let is_possible = |hostname| may_be(hostname, "Shop.Example.com");
        assert!(is_possible("shop.example.com") && is_possible("*.example.com") && is_possible("b_!"));
        assert!(is_possible("SHOP.example.com") && !is_possible("Pay.example.com"));
        assert!(!is_possible("pay.example.com") && !is_possible("*.example.org"));
    }

    #[test]
    fn a_route_below_others_has_their_hosts() {
        let route = |name: &str, hostnames: &[&str], parents: &[(&str, &str)]| {
            let parents: Vec<_> = parents.iter().map(|(kind, name)| json!({"kind": kind, "name": name})).collect();
            let document = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"namespace": "shop", "name": name},
                "spec": {"hostnames": hostnames, "parentRefs": parents},
            });
            match decode(document, None) {
                Decoded::Object(object, _) => Arc::new(*object),
                other => panic!("{other:?}"),
            }
        };
        let all = [
            route("top", &["top.test"], &[("Gateway", "public")]),
            route("middle", &[], &[("HTTPRoute", "top")]),
            route("below", &["other.test"], &[("HTTPRoute", "middle"), ("HTTPRoute", "below")]),
            route("lost", &[], &[("HTTPRoute", "top"), ("HTTPRoute", "missing")]),
            route("circle", &[], &[("HTTPRoute", "circle")]),
            route("both", &["both.test"], &[("HTTPRoute", "top"), ("Gateway", "public")]),
            route("nameless", &[], &[]),
        ];
        let mut objects = ObjectSnapshot::default();
        for object in &all {
            objects.insert(object.clone());
        }
        let having = |host| {
            let found = all.iter().filter(|object| may_have_host(object, host, &objects));
            found.map(|object| &*object.key.name).collect::<Vec<_>>()
        };
        assert_eq!(having("top.test"), ["top", "middle", "below", "lost", "nameless"]);
        assert_eq!(having("other.test"), ["lost", "nameless"]);
        assert_eq!(having("both.test"), ["lost", "both", "nameless"]);
    }
}
