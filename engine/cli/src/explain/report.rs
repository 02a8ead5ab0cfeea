//! The way of a request, with the Gateway that receives it and the reason of a replacement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::route::{RouteRule as _, RuleEntry};
use holdfast_api::fault::Fault;
use holdfast_api::section::ObjectSection;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::engine::{Action, Engine};
use holdfast_engine::report::{DelegatedRoutes, GatewayView, ListenerView, ReplacementView};
use holdfast_envoy::explain::answer::ExplainedAnswer;
use holdfast_envoy::explain::request::ExplainRequest;
use holdfast_envoy::explain::{Explanation, RouteCandidate, explain};
use holdfast_envoy::model::port::BoundPort;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::delegation::RouteSelection;
use holdfast_translate::query::chain_units::UnservedListener;
use holdfast_xds::Snapshot;
use serde::{Deserialize, Serialize};

use super::envoys::GatewayEnvoys;
use super::policies::{MergedPolicies, PolicyField, ServedPolicies, TakingRoute};
use super::running::{MatchedObject, ObjectNotRead, RunningFacts, ServedEarlier};
use crate::failure::Failure;
use crate::serve::core::ManifestPositions;

/// The scope of a replacement of a single rule.
const RULE: &str = "rule";

/// The inputs of an explanation, of one moment: an explanation takes time, and the engine goes on meanwhile.
#[derive(Debug)]
pub(crate) struct ExplainFacts {
    gateways: Vec<GatewayView>,
    /// The published resources, by Gateway.
    published: BTreeMap<Arc<str>, Snapshot>,
    replacements: Vec<ReplacementView>,
    objects: ObjectSnapshot,
    policies: MergedPolicies,
    /// The listeners that serve no request, by Gateway.
    unserved_listeners: BTreeMap<String, Vec<UnservedListener>>,
    /// The units of filter chains that forward connections, by Gateway and chain name.
    streams: BTreeMap<String, BTreeMap<String, Node>>,
    /// The manifests that were translated; unset of a running Holdfast.
    manifests: Option<ExplainedManifests>,
    /// Unset without a running Holdfast.
    running: Option<RunningFacts>,
}

/// The manifests of an explanation.
#[derive(Debug)]
pub(crate) struct ExplainedManifests {
    /// The positions of their objects.
    pub(crate) places: ManifestPositions,
    /// The command that checks them.
    pub(crate) check: String,
}

impl ExplainFacts {
    /// The facts of manifests that were translated once.
    pub(crate) fn of_manifests(engine: &Engine, actions: &[Action], manifests: ExplainedManifests) -> Self {
        let published = actions.iter().filter_map(|action| match action {
            Action::Publish { gateway, offers } => Some((gateway.clone(), offers.everyone.clone())),
            _ => None,
        });
        Self { manifests: Some(manifests), ..Self::new(engine, published.collect(), None) }
    }

    /// The facts of a running Holdfast.
    pub(crate) fn of_running(engine: &Engine, published: BTreeMap<Arc<str>, Snapshot>, running: RunningFacts) -> Self {
        Self::new(engine, published, Some(running))
    }

    fn new(engine: &Engine, published: BTreeMap<Arc<str>, Snapshot>, running: Option<RunningFacts>) -> Self {
        let (gateways, replacements) = (engine.gateways(), engine.replacements());
        let policies = MergedPolicies::new(engine.merge_origins(), DelegatedRoutes::of(engine));
        let unserved_listeners = engine.unserved_listeners();
        let (objects, streams) = (engine.objects().clone(), engine.streams());
        Self {
            gateways,
            published,
            replacements,
            objects,
            policies,
            unserved_listeners,
            streams,
            manifests: None,
            running,
        }
    }
}

/// The contents of the output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExplainReport {
    /// Method.
    pub(crate) method: String,
    /// URL.
    pub(crate) url: String,
    /// `namespace/name` of the Gateway that receives the request, if there is one.
    pub(crate) gateway: Option<Arc<str>>,
    /// The way of the request.
    #[serde(flatten)]
    pub(crate) way: Explanation,
    /// The fields that policies set for the route that matches.
    pub(crate) policies: Vec<PolicyField>,
    /// The replacement that the answer is, or that a part of the requests gets.
    pub(crate) replacement: Option<ReplacementView>,
    /// The HTTPRoutes to which the rule that matches delegates, if none of them takes the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) delegates_to: Vec<String>,
    /// The faults because of which there is no connection, or no route at this Gateway while another one has the port as
    /// well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) closed_by: Vec<Fault>,
    /// The object of the route that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matched: Option<MatchedObject>,
    /// Earlier versions on which the answer may depend; only of a running Holdfast.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) instead: Vec<ServedEarlier>,
    /// Objects that are at fault or not served as desired, and that may concern the request; only of a running Holdfast.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) may_concern: BTreeSet<ObjectKey>,
    /// Objects of files that cannot be read now, and on which the answer may depend, each with the reason; only of a
    /// running Holdfast.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_read: Vec<ObjectNotRead>,
    /// The Envoys of the Gateway; only of a running Holdfast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) envoys: Option<GatewayEnvoys>,
    /// Whether the request is served as desired.
    pub(crate) outcome: RequestOutcome,
    /// The command that checks the manifests; unset of a running Holdfast.
    #[serde(skip)]
    pub(crate) check: Option<String>,
}

/// Whether a request is served as desired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RequestOutcome {
    /// It reaches a backend, or gets a redirect or response that a route specifies.
    Served,
    /// It gets an error, a replacement or an earlier version, or no connection.
    NotServed,
    /// A condition cannot be evaluated, not every Envoy has acknowledged what is published, or an object that is not served
    /// as desired may concern the request, or an object on which the answer may depend cannot be read.
    Unknown,
}

impl ExplainReport {
    /// Explains a request at the Gateway with a listener at its port, or at the wanted one.
    ///
    /// # Errors
    /// Returns an error if no Gateway has the wanted name, or several have a listener at the port.
    pub(crate) fn new(
        facts: &ExplainFacts,
        mut request: ExplainRequest,
        url: &str,
        wanted: Option<&str>,
    ) -> Result<Self, Failure> {
        let gateway = select(&facts.gateways, request.port, wanted)?;
        if let Some(gateway) = gateway {
            let listeners = gateway.listeners.iter();
            let mut ports = listeners.filter(|listener| listener.declared_port == i32::from(request.port));
            // Low ports may be shifted.
            request.port = ports.next().map_or(request.port, |listener| listener.port);
        }
        let name = gateway.map(|gateway| gateway.name.clone());
        let published = name.as_ref().and_then(|name| facts.published.get(name));
        let way = explain(published.unwrap_or(&Snapshot::default()), &request);
        let route = way.routes.last().filter(|route| route.why_not.is_none());
        let of_chain = || name.as_ref().and_then(|name| forwards(facts, name, &way));
        let object = route.and_then(|route| route.object.as_ref()).or_else(of_chain);
        let section = route.and_then(|route| section(&facts.objects, route));
        let replacement = name.as_ref().and_then(|name| replacement(facts, name, &way, section.as_deref()));
        let mut closed_by = name.as_ref().map(|name| closed_by(facts, name, &way, &request)).unwrap_or_default();
        if let (Some(name), None, None) = (&name, wanted, object) {
            closed_by.extend(unserved_elsewhere(facts, name, &request));
        }
        if let (Some((object, name)), None) = (object.zip(name.as_ref()), &replacement) {
            closed_by.extend(closed_above(facts, &way, (object, section.as_deref().unwrap_or_default()), name));
        }
        let taking = taking(object.zip(section.as_deref()), route, &way, request.port);
        let policies = taking.zip(gateway).map(|(route, gateway)| policies(facts, &route, gateway)).unwrap_or_default();
        let running = facts.running.as_ref();
        let matched = object.and_then(|object| matched(facts, object));
        let instead = running
            .map(|running| instead(running, object, name.as_deref().zip(chain_of(&way)), &facts.objects))
            .unwrap_or_default();
        let backends = backends(&way.answer);
        let used: BTreeSet<&str> = backends.iter().copied().chain(object).map(|key| &*key.namespace).collect();
        // Without a virtual host, the connection is all that matters.
        let host = way.virtual_host.as_ref().map_or(request.chain_host(), |chosen| &*chosen.host);
        let concerning = running.zip(name.as_ref());
        let mut may_concern = concerning
            .map(|(running, name)| running.may_concern(name, (host, request.tls), &used, &facts.objects))
            .unwrap_or_default();
        may_concern.retain(|object| !instead.iter().any(|one| decides(one, object)));
        let not_read = running.map(|running| running.not_read(host, &backends, &facts.objects)).unwrap_or_default();
        let envoys = running.zip(name.as_ref()).and_then(|(running, name)| running.envoys(name));
        let all_have_it = running.is_none() || envoys.as_ref().is_some_and(GatewayEnvoys::all_have_it);
        let is_uncertain = !all_have_it || !may_concern.is_empty() || !not_read.is_empty();
        let is_replaced = replacement.is_some() || instead.iter().any(|one| one.desired_sections.is_empty());
        let rule =
            object.zip(section.as_deref()).filter(|(key, _)| is_of_delegation(key, &way, &replacement, &instead));
        let delegates_to = rule.map(|rule| delegates_to(&facts.objects, rule)).unwrap_or_default();
        let outcome = outcome(&way.answer, object.is_some(), is_replaced || !delegates_to.is_empty(), is_uncertain);
        let (method, url) = (request.method, url.to_owned());
        Ok(Self {
            method,
            url,
            gateway: name,
            way,
            policies,
            replacement,
            delegates_to,
            closed_by,
            matched,
            instead,
            may_concern,
            not_read,
            envoys,
            outcome,
            check: facts.manifests.as_ref().map(|manifests| manifests.check.clone()),
        })
    }
}

/// Returns the outcome of a request. `is_replaced`: its object is not served as desired; `is_uncertain`: the answer may be
/// another one at some Envoy, or because of another object.
fn outcome(answer: &ExplainedAnswer, has_object: bool, is_replaced: bool, is_uncertain: bool) -> RequestOutcome {
    match answer {
        ExplainedAnswer::Unknown { .. } => RequestOutcome::Unknown,
        // Of no object: such as 421 for a host that the connection is not for.
        ExplainedAnswer::Response { .. } if !has_object => RequestOutcome::NotServed,
        answer if !answer.is_served() || is_replaced => RequestOutcome::NotServed,
        _ if is_uncertain => RequestOutcome::Unknown,
        _ => RequestOutcome::Served,
    }
}

/// Returns the faults of other objects because of which a part of an object is not served.
fn closed_above(facts: &ExplainFacts, way: &Explanation, part: (&ObjectKey, &str), gateway: &str) -> Vec<Fault> {
    let running = facts.running.as_ref().filter(|_| !way.answer.is_served());
    running.map(|running| running.faults_behind(part, gateway)).unwrap_or_default()
}

/// Returns the route that takes a request, by the rule and the way of the request.
fn taking<'a>(
    rule: Option<(&'a ObjectKey, &'a str)>,
    route: Option<&'a RouteCandidate>,
    way: &'a Explanation,
    port: u16,
) -> Option<TakingRoute<'a>> {
    rule.map(|(object, section)| TakingRoute {
        object,
        section,
        name: route.map(|route| &*route.name).unwrap_or_default(),
        table: way.route_configuration.as_deref().unwrap_or_default(),
        domain: way.virtual_host.as_ref().map(|host| &*host.domain).unwrap_or_default(),
        port,
    })
}

/// Returns the fields that policies set for the route of a request.
fn policies(facts: &ExplainFacts, route: &TakingRoute<'_>, gateway: &GatewayView) -> Vec<PolicyField> {
    let earlier = facts.running.as_ref().map(|running| running.versions_at(&gateway.name)).unwrap_or_default();
    facts.policies.of(route, gateway, &ServedPolicies { objects: &facts.objects, earlier })
}

/// Returns whether an earlier version of an object is all that is served of it. A version with sections of the desired
/// one may answer with these.
fn decides(one: &ServedEarlier, object: &ObjectKey) -> bool {
    one.object == *object && one.desired_sections.is_empty()
}

/// Returns the object of the route that matches, with its generation in a running Holdfast.
fn matched(facts: &ExplainFacts, object: &ObjectKey) -> Option<MatchedObject> {
    let generation = facts.objects.get(object).map(|object| object.metadata.generation);
    match (&facts.running, &facts.manifests) {
        (Some(running), _) => Some(running.matched(object, generation)),
        (None, Some(manifests)) => Some(MatchedObject::new(object, None, &manifests.places)),
        (None, None) => None,
    }
}

/// Returns the name of the listener with TLS of the filter chain that is used.
fn chain_of(way: &Explanation) -> Option<&str> {
    let chosen = way.chains.iter().find(|chain| chain.why_not.is_none())?;
    chosen.name.strip_prefix("https/")
}

/// Returns the backends of an answer.
fn backends(answer: &ExplainedAnswer) -> BTreeSet<&ObjectKey> {
    let backends = match answer {
        ExplainedAnswer::Backends { backends } | ExplainedAnswer::Stream { backends } => backends.as_slice(),
        ExplainedAnswer::Shares { shares } => {
            return shares.iter().flat_map(|share| self::backends(&share.answer)).collect();
        }
        _ => &[],
    };
    backends.iter().filter_map(|backend| backend.object.as_ref()).collect()
}

/// Returns the earlier versions on which the answer to a request may depend: those of the object of the route and of what
/// it depends on, and of the certificate of the connection.
fn instead(
    running: &RunningFacts,
    object: Option<&ObjectKey>,
    chain: Option<(&str, &str)>,
    objects: &ObjectSnapshot,
) -> Vec<ServedEarlier> {
    let mut all = object.map(|object| running.instead(object)).unwrap_or_default();
    if let Some((gateway, chain)) = chain {
        let known: BTreeSet<ObjectKey> = all.iter().map(|one| one.object.clone()).collect();
        let certificates = running.certificates(gateway, chain, objects).into_iter();
        all.extend(certificates.filter(|one| !known.contains(&one.object)));
    }
    all
}

/// Returns the Gateway that receives requests of a port: the wanted one, or the only one with such a listener. A
/// listener that is not served counts only if no other has the port.
fn select<'g>(
    gateways: &'g [GatewayView],
    port: u16,
    wanted: Option<&str>,
) -> Result<Option<&'g GatewayView>, Failure> {
    if let Some(wanted) = wanted {
        let found = gateways.iter().find(|gateway| &*gateway.name == wanted);
        let missing = || Failure::usage(format!("--gateway {wanted}: there is no such Gateway"));
        return found.map(Some).ok_or_else(missing);
    }
    let with_port = |is_served: bool| {
        let fits = move |listener: &ListenerView| {
            listener.declared_port == i32::from(port) && (listener.serving || !is_served)
        };
        let found = gateways.iter().filter(move |gateway| gateway.listeners.iter().any(fits));
        found.collect::<Vec<&GatewayView>>()
    };
    let served = with_port(true);
    let found = if served.is_empty() { with_port(false) } else { served };
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        several => {
            let names: Vec<&str> = several.iter().map(|gateway| &*gateway.name).collect();
            let names = names.join(", ");
            Err(Failure::usage(format!(
                "several Gateways have a listener at port {port}, select one with --gateway: {names}"
            )))
        }
    }
}

/// Returns the faults because of which there is no connection: of the listener with the filter chain that refuses it, or
/// of all listeners that take no part and have the port and the host.
fn closed_by(facts: &ExplainFacts, gateway: &str, way: &Explanation, request: &ExplainRequest) -> Vec<Fault> {
    if !matches!(way.answer, ExplainedAnswer::NoConnection { .. }) {
        return Vec::new();
    }
    let chosen = way.chains.iter().find(|chain| chain.why_not.is_none());
    let closed = facts.unserved_listeners.get(gateway).into_iter().flatten();
    let closed = closed.filter(|listener| match chosen {
        Some(chain) => listener.chain == chain.name,
        None => may_be_meant(listener, request),
    });
    closed.flat_map(|listener| listener.faults.iter().cloned()).collect()
}

/// Returns the object with the filter chain that forwards the connection.
fn forwards<'f>(facts: &'f ExplainFacts, gateway: &str, way: &Explanation) -> Option<&'f ObjectKey> {
    let chosen = way.chains.iter().find(|chain| chain.why_not.is_none())?;
    let is_forwarded = matches!(way.answer, ExplainedAnswer::Stream { .. });
    let units = facts.streams.get(gateway).filter(|_| is_forwarded)?;
    units.get(&chosen.name).map(|unit| &unit.key)
}

/// Returns the faults of listeners of other Gateways for which a request without a route may be meant: of two Gateways
/// with a listener at one port, the older one is served.
fn unserved_elsewhere(facts: &ExplainFacts, gateway: &str, request: &ExplainRequest) -> Vec<Fault> {
    let elsewhere = facts.unserved_listeners.iter().filter(|(other, _)| **other != *gateway);
    let meant = elsewhere.flat_map(|(_, listeners)| listeners).filter(|listener| may_be_meant(listener, request));
    meant.flat_map(|listener| listener.faults.iter().cloned()).collect()
}

/// Returns whether a request may be meant for a listener that serves none.
fn may_be_meant(listener: &UnservedListener, request: &ExplainRequest) -> bool {
    let host = Host::new(Some(&request.chain_host().to_ascii_lowercase().into()));
    listener.port == BoundPort::tcp(request.port) && (request.tls || !listener.tls) && listener.host.covers(&host)
}

/// Returns the replacement that the route of the request is, or that a part of its requests gets.
fn replacement(
    facts: &ExplainFacts,
    gateway: &str,
    way: &Explanation,
    section: Option<&str>,
) -> Option<ReplacementView> {
    let route = way.routes.last().filter(|route| route.why_not.is_none())?;
    let may_be = may_be_replaced(&way.answer);
    let all = || facts.replacements.iter().filter(|view| may_be && view.gateway == gateway);
    let is_own =
        |view: &&ReplacementView| Some(&view.object) == route.object.as_ref() && Some(&*view.section) == section;
    let is_wider = |view: &&ReplacementView| {
        let is_include = matches!(ObjectSection::parse(&view.section), ObjectSection::Include(_));
        view.scope != RULE && !is_include && route.object.as_ref().is_none_or(|object| *object == view.object)
    };
    all().find(is_own).or_else(|| all().find(is_wider)).cloned()
}

/// Returns whether an answer may be that of a rule that delegates: a response, of no replacement for another reason than a
/// reference without a route.
fn is_of_delegation(
    object: &ObjectKey,
    way: &Explanation,
    replacement: &Option<ReplacementView>,
    instead: &[ServedEarlier],
) -> bool {
    matches!(way.answer, ExplainedAnswer::Response { .. })
        && !instead.iter().any(|one| one.object == *object)
        && replacement.as_ref().is_none_or(|replacement| replacement.lacks_backend)
}

/// Returns the HTTPRoutes to which a rule delegates, in words.
fn delegates_to(objects: &ObjectSnapshot, (key, section): (&ObjectKey, &str)) -> Vec<String> {
    let ObjectSection::Rule(index) = ObjectSection::parse(section) else { return Vec::new() };
    let Some(Body::HttpRoute(route)) = objects.get(key).map(|object| &object.body) else { return Vec::new() };
    let Some(RuleEntry::Decoded(rule)) = route.rules.get(index) else { return Vec::new() };
    let selections = rule.backends().iter().filter_map(|reference| RouteSelection::of(reference, &key.namespace));
    selections.map(|selection| selection.words()).collect()
}

/// Returns whether an answer may be that of a replacement, for all requests or for a share of them.
fn may_be_replaced(answer: &ExplainedAnswer) -> bool {
    match answer {
        ExplainedAnswer::Response { .. } => true,
        ExplainedAnswer::Backends { backends } => backends.iter().any(|backend| backend.error.is_some()),
        ExplainedAnswer::Shares { shares } => shares.iter().any(|share| may_be_replaced(&share.answer)),
        _ => false,
    }
}

/// Returns the section of the rule of a route: of a rule with a name, by its index in the object.
fn section(objects: &ObjectSnapshot, route: &RouteCandidate) -> Option<String> {
    Some(rule_section(objects, route.object.as_ref()?, route.rule.as_ref()?))
}

/// Returns the section of a rule that is given by its name, or by its section already.
pub(crate) fn rule_section(objects: &ObjectSnapshot, object: &ObjectKey, rule: &str) -> String {
    let names = objects.get(object).and_then(|object| object.body.route()).map(|route| route.rule_names());
    let named = names.into_iter().flatten().position(|name| name == Some(rule));
    named.map_or_else(|| rule.to_owned(), |index| ObjectSection::Rule(index).to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_several_gateways_needs_a_gateway() {
        let gateway = |name: &str, serving| {
            let listener = ListenerView {
                name: "http".into(),
                address: [127, 0, 0, 1].into(),
                port: 80,
                declared_port: 80,
                protocol: "HTTP".into(),
                hostname: None,
                serving,
                attached_routes: 0,
            };
            GatewayView { name: name.into(), programmed: false, listeners: vec![listener] }
        };
        let selected = |gateways: &[GatewayView], port, wanted| {
            select(gateways, port, wanted).map(|found| found.map(|gateway| gateway.name.to_string()))
        };
        let both = [gateway("a/a", true), gateway("b/b", true)];
        let error = selected(&both, 80, None).unwrap_err();
        assert!(matches!(&error, Failure::Usage(why) if why.ends_with("--gateway: a/a, b/b")), "{error}");
        assert_eq!(selected(&both, 80, Some("b/b")).unwrap().as_deref(), Some("b/b"));
        assert!(matches!(selected(&both, 80, Some("c/c")), Err(Failure::Usage(_))));
        assert_eq!(selected(&both, 81, None).unwrap(), None);
        let one_served = [gateway("a/a", false), gateway("b/b", true)];
        assert_eq!(selected(&one_served, 80, None).unwrap().as_deref(), Some("b/b"));
        assert_eq!(selected(&one_served[..1], 80, None).unwrap().as_deref(), Some("a/a"));
    }
}
