//! Reports for users: statuses of all objects, served Gateways, replacements.
//!
//! Reports are computed on request, from the results of translation and the answers of Envoys.

mod backends;
pub(crate) mod below;
pub mod certificates;
mod client_certificate;
pub mod conditions;
mod data_planes;
mod delegated;
pub mod events;
mod extensions;
mod health;
pub mod inspection;
mod missing;
mod objects_read;
mod policies;
mod sets;
pub(crate) mod statuses;
pub mod survey;
mod unreadable;
mod unserved;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

pub use delegated::{DelegatedRoutes, PoliciesByField, RoutePosition};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::status::{Condition, ObjectStatus, StatusMap};
use holdfast_envoy::encode::names;
use holdfast_envoy::hold::{Hold, ResourceState};
use holdfast_envoy::model::table::{Host, TableName};
use holdfast_fallback::members::Outlier;
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::ObjectKey;
use holdfast_translate::claims::ListenerId;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::{ListenerPlan, ListenerState};
use holdfast_translate::route::Replaced;
use holdfast_xds::ResourceType;
pub use missing::missing_backends;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::report::survey::scope;

/// A served Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatewayView {
    /// `namespace/name`.
    pub name: Arc<str>,
    /// The Envoys of the Gateway have acknowledged all of its configuration.
    pub programmed: bool,
    /// Listeners of the Gateway.
    pub listeners: Vec<ListenerView>,
}

/// A served listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerView {
    /// Name of the listener.
    pub name: Arc<str>,
    /// Address that the listener binds.
    pub address: IpAddr,
    /// Port that the listener binds.
    pub port: u16,
    /// Port in the object; it differs if low ports are shifted.
    #[serde(rename = "declaredPort")]
    pub declared_port: i32,
    /// Protocol in the object; `HTTP` and `HTTPS` are served.
    pub protocol: Arc<str>,
    /// Hostname of the listener; all hosts if unset.
    pub hostname: Option<Arc<str>>,
    /// The listener is served.
    pub serving: bool,
    /// Number of attached routes, and of root HTTPProxies with a host of the listener.
    #[serde(rename = "attachedRoutes")]
    pub attached_routes: i32,
}

/// A replacement of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ReplacementView {
    /// `namespace/name` of the Gateway.
    pub gateway: String,
    /// The route object, or the Gateway.
    pub object: ObjectKey,
    /// The rule, as in `rules[1]`; or the listener, as in `listeners[http]`.
    pub section: String,
    /// Scope of the replacement: `rule`, `virtualHost` or `routeConfiguration`.
    pub scope: &'static str,
    /// `invalid` or `referential`.
    pub cause: Class,
    /// Response status; unset if the rule was left out.
    pub response: Option<u16>,
    /// The reason, a sentence.
    pub message: String,
    /// The policy that cannot be enforced, if it is the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ObjectKey>,
    /// Whether the reason is that a backend is missing or may not be used, or that the part has none.
    #[serde(skip)]
    pub lacks_backend: bool,
}

/// The hosts of root HTTPProxies, by Gateway and route table.
type ProxyHosts<'a> = BTreeMap<(&'a ObjectKey, &'a TableName), Vec<&'a Host>>;

/// Reports of one state of the engine, from which other reports are made: each of them looks at all objects.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// All faults, in order.
    pub faults: Vec<Fault>,
    /// All served replacements of rules, in order.
    pub replacements: Vec<ReplacementView>,
    /// Everything that is not served as desired.
    pub fallback: FallbackReport,
}

impl Engine {
    /// Returns the reports of the present state.
    pub fn reports(&self) -> Reports {
        let replacements = self.replacements();
        Reports { faults: self.faults(), fallback: self.fallback_with(&replacements), replacements }
    }

    /// Returns the status of every object that has one, in order.
    pub fn statuses(&self) -> Vec<ObjectStatus> {
        statuses::all(self)
    }

    /// Returns the status of every object that has one. The first call computes all of them, and later ones those that may
    /// have changed.
    pub fn collect_statuses(&mut self) -> StatusMap {
        statuses::kept::collect(self)
    }

    /// Returns the names (`namespace/name`) of the managed Gateways, in order.
    pub fn gateway_names(&self) -> impl Iterator<Item = Arc<str>> {
        self.translator.plans().into_values().map(|plan| plan.name.clone())
    }

    /// Returns the managed Gateways, in order.
    pub fn gateways(&self) -> Vec<GatewayView> {
        let attached = self.translator.attached();
        let proxies = self.translator.proxy_hosts();
        let plans = self.translator.plans().into_iter();
        plans.map(|(key, plan)| self.gateway_view(key, plan, attached, &proxies)).collect()
    }

    fn gateway_view(
        &self,
        key: &ObjectKey,
        plan: &GatewayPlan,
        attached: &BTreeMap<ListenerId, i32>,
        proxies: &ProxyHosts<'_>,
    ) -> GatewayView {
        let seen = self.seen(key, plan);
        let listeners = plan.listeners.iter().map(|listener| ListenerView {
            name: listener.name.clone(),
            address: plan.address,
            port: listener.port,
            declared_port: listener.declared_port,
            protocol: listener.protocol.clone(),
            hostname: listener.hostname.clone(),
            serving: listener.state == ListenerState::Serving || seen.serves_earlier_certificate(listener),
            attached_routes: attached_at(attached, key, listener) + proxies_at(proxies, key, listener),
        });
        GatewayView {
            name: plan.name.clone(),
            programmed: programmed(plan, &seen).status == "True",
            listeners: listeners.collect(),
        }
    }

    /// Returns the served replacements of rules, in order.
    pub fn replacements(&self) -> Vec<ReplacementView> {
        let mut views = Vec::new();
        let varied = self.varied();
        let fleets = varied.values().map(|scope| scope.id.fleet.clone()).collect();
        for (key, plan) in self.translator.reported_routes(&fleets) {
            for gateway in plan.gateways() {
                let at = varied.get(gateway);
                let served = at.and_then(|scope| self.translator.served_route(&scope.id.fleet, key));
                views.extend(served.map_or(plan, |served| served).replaced.iter().map(|replaced| ReplacementView {
                    gateway: gateway.namespaced_name(),
                    object: replaced.object.clone(),
                    section: replaced.section.clone(),
                    scope: scope(&replaced.section).name(),
                    cause: cause(self, replaced, at.copied()),
                    response: replaced.response,
                    message: replaced.message.clone(),
                    policy: replaced.policy.clone(),
                    lacks_backend: replaced.lacks_backend,
                }));
            }
        }
        views.extend(self.level_replacements());
        views.sort_unstable();
        views
    }

    /// Returns the scopes of Gateways with an overlay, one for each Gateway.
    pub(crate) fn varied(&self) -> BTreeMap<&ObjectKey, &FallbackScope> {
        let varied = |scopes| speaking(scopes).find(|scope| !scope.derived.overlay.is_empty());
        self.scopes.gateways().into_values().filter_map(varied).map(|scope| (&scope.id.gateway, scope)).collect()
    }

    /// Returns the state of a Gateway's Envoys.
    fn seen(&self, key: &ObjectKey, plan: &GatewayPlan) -> FleetState<'_> {
        let scopes = || speaking(self.scopes.of(&plan.name));
        let refused = scopes().flat_map(|scope| self.translator.refused_listeners(key, &scope.derived.overlay));
        FleetState {
            holds: scopes().map(|scope| &scope.hold).collect(),
            refused: refused.collect(),
            served: scopes().filter_map(|scope| self.translator.served_gateway(&scope.id.fleet)).collect(),
            held: held_envoys(scopes().flat_map(|scope| scope.held_envoys())),
        }
    }
}

/// Returns the class of the cause of a replacement: a policy that Envoys refuse, or that is invalid itself, is not a
/// matter of references.
fn cause(engine: &Engine, replaced: &Replaced, at: Option<&FallbackScope>) -> Class {
    let Some(policy) = &replaced.policy else { return replaced.class };
    let is_hidden = at.is_some_and(|scope| scope.derived.overlay.hidden.contains(policy));
    if is_hidden || backends::is_invalid(engine, policy) { Class::Invalid } else { replaced.class }
}

fn attached_at(attached: &BTreeMap<ListenerId, i32>, gateway: &ObjectKey, listener: &ListenerPlan) -> i32 {
    let id = ListenerId { gateway: gateway.clone(), name: listener.name.clone() };
    attached.get(&id).copied().unwrap_or(0)
}

/// Returns the number of root HTTPProxies with a host of a listener.
fn proxies_at(proxies: &ProxyHosts<'_>, gateway: &ObjectKey, listener: &ListenerPlan) -> i32 {
    let table = listener.table();
    let all = Host::new(listener.hostname.as_ref());
    let hosts = proxies.get(&(gateway, &table)).into_iter().flatten();
    i32::try_from(hosts.filter(|host| all.covers(host)).count()).unwrap_or(i32::MAX)
}

/// State of a Gateway's Envoys, of each build that has any.
struct FleetState<'a> {
    /// Acknowledged and refused resources.
    holds: Vec<&'a Hold>,
    /// Messages about listeners that are closed because Envoy refuses them, by name.
    refused: BTreeMap<Arc<str>, Arc<str>>,
    /// The Gateway as it is served to the Envoys.
    served: Vec<&'a GatewayPlan>,
    /// A clause about Envoys that keep their previous configuration; empty if there is none.
    held: String,
}

impl FleetState<'_> {
    /// Returns Envoy's message if it refused the certificate authorities of a listener's clients.
    fn refused_validation(&self, listener: &ListenerPlan) -> Option<String> {
        let name = listener.clients.as_ref()?.trust.name();
        self.holds.iter().find_map(|hold| match hold.state(ResourceType::Secret, &name) {
            Some(ResourceState::Refused(message)) => Some(message.to_string()),
            _ => None,
        })
    }

    /// Returns the message about a listener that is closed for some Envoys, since they refuse its certificate.
    fn closed_for_envoys(&self, listener: &ListenerPlan) -> Option<String> {
        let is_closed = |served: &ListenerPlan| served.name == listener.name && served.state != ListenerState::Serving;
        self.served.iter().flat_map(|plan| &plan.listeners).find(|served| is_closed(served))?;
        let secrets: BTreeSet<String> = listener.certificates.iter().map(names::secret).collect();
        let mut refusals = self.holds.iter().flat_map(|hold| hold.refused());
        let own = refusals.find(|refusal| refusal.kind == ResourceType::Secret && secrets.contains(&*refusal.resource));
        let why = own.map_or("see the condition holdfast.dev/Fallback of the Gateway", |refusal| &refusal.message);
        Some(format!("Envoy refused the certificate of the listener, and connections to it are refused: {why}"))
    }

    /// Checks whether every Envoy is served a listener with an earlier version of its certificate: one that is closed in
    /// its desired state, or of which the desired certificate is not valid now.
    fn serves_earlier_certificate(&self, listener: &ListenerPlan) -> bool {
        let is_valid = |served: &ListenerPlan, key: &ObjectKey| {
            served.certificate_dates.get(key).is_some_and(|dates| dates.outside().is_none())
        };
        let is_earlier = |served: &ListenerPlan| match listener.state {
            ListenerState::Closed => served.state == ListenerState::Serving,
            ListenerState::Serving => {
                served.state == ListenerState::Serving
                    && listener.outdated_certificates().any(|(key, _)| is_valid(served, key))
            }
            ListenerState::Refused | ListenerState::Out => false,
        };
        let serves = |plan: &&GatewayPlan| {
            plan.listeners.iter().any(|served| served.name == listener.name && is_earlier(served))
        };
        !self.served.is_empty() && self.served.iter().all(serves)
    }
}

/// Returns the clause about Envoys that refuse what others of their build accepted.
fn held_envoys<'a>(mut held: impl Iterator<Item = (&'a Arc<str>, &'a Outlier)>) -> String {
    let Some((node, outlier)) = held.next() else { return String::new() };
    let others = match held.count() {
        0 => String::new(),
        others => format!(" (and {others} more)"),
    };
    let message = outlier.message();
    format!("; Envoy {node}{others} refuses its new configuration, and keeps its previous configuration: {message}")
}

/// Returns `Programmed` of a listener: true only after an ACK of its configuration.
fn listener_programmed(listener: &ListenerPlan, seen: &FleetState<'_>) -> Condition {
    if let Some(message) = seen.refused.get(&listener.name) {
        let message = format!("Envoy refused the listener, and connections to it are refused: {message}");
        return Condition::new("Programmed", false, "Invalid", message);
    }
    let is_earlier = seen.serves_earlier_certificate(listener);
    if listener.state != ListenerState::Serving && !is_earlier {
        // Gateway API's conformance suite expects the reason of the conflict here for an entry of a ListenerSet only.
        let conflict = Some(&listener.conflicted).filter(|known| listener.set.is_some() && known.status == "True");
        let reason = conflict.map_or("Invalid", |conflict| &conflict.reason);
        return Condition::new("Programmed", false, reason, "the listener is not served: see its other conditions");
    }
    if listener.state == ListenerState::Serving
        && let Some(message) = seen.closed_for_envoys(listener)
    {
        return Condition::new("Programmed", false, "Invalid", message);
    }
    let routes = (ResourceType::Route, names::route_configuration(&listener.table()));
    let mut parts = vec![(ResourceType::Listener, names::listener(listener.bound()))];
    parts.extend((!listener.forwards()).then_some(routes));
    if let Some(message) = seen.refused_validation(listener) {
        let message = format!("Envoy refused the certificate authorities of clients: {message}");
        return Condition::new("Programmed", false, "Invalid", message);
    }
    let mut pending = seen.holds.is_empty();
    for (hold, (kind, name)) in seen.holds.iter().flat_map(|hold| parts.iter().map(move |part| (hold, part))) {
        match hold.state(*kind, name) {
            Some(ResourceState::Refused(message)) => {
                let message = format!("Envoy refused {} {name}: {message}", kind.short_name());
                return Condition::new("Programmed", false, "Invalid", message);
            }
            Some(ResourceState::Unavailable(message)) => {
                let message = format!("Envoys have not applied {} {name}: {message}", kind.short_name());
                return Condition::new("Programmed", false, "Pending", message);
            }
            Some(ResourceState::Acknowledged) => {}
            Some(ResourceState::Pending) | None => pending = true,
        }
    }
    if pending {
        Condition::unknown("Programmed", "Pending", "no Envoy has acknowledged the listener yet")
    } else if is_earlier {
        let message = "acknowledged by Envoy with the last valid version of the certificate, since the current \
                       certificate cannot be used: see ResolvedRefs";
        Condition::new("Programmed", true, "Programmed", format!("{message}{}", seen.held))
    } else {
        Condition::new("Programmed", true, "Programmed", format!("acknowledged by Envoy{}", seen.held))
    }
}

fn programmed(plan: &GatewayPlan, seen: &FleetState<'_>) -> Condition {
    programmed_of(plan.own(), seen)
}

/// Returns `Programmed` of the object that defines these listeners.
fn programmed_of<'a>(listeners: impl Iterator<Item = &'a ListenerPlan>, seen: &FleetState<'_>) -> Condition {
    let conditions: Vec<Condition> = listeners.map(|listener| listener_programmed(listener, seen)).collect();
    let any = |status: &str| conditions.iter().any(|condition| condition.status == status);
    if any("Unknown") {
        Condition::unknown("Programmed", "Pending", "Envoy has not acknowledged every listener yet")
    } else if any("True") {
        let message = format!("Envoy has acknowledged the served configuration{}", seen.held);
        Condition::new("Programmed", true, "Programmed", message)
    } else {
        let message = conditions.first().map_or("there is no listener", |condition| &condition.message);
        Condition::new("Programmed", false, "Invalid", message)
    }
}

impl Engine {
    fn gateway_status(
        &self,
        key: &ObjectKey,
        plan: &GatewayPlan,
        attached: &BTreeMap<ListenerId, i32>,
        fallback: Option<Condition>,
        generation: i64,
    ) -> Value {
        let listeners = self.listener_statuses(key, plan, None, attached, generation);
        let accepted = self.all_closed(key, plan, None).unwrap_or_else(|| plan.accepted.clone());
        let programmed = self.provisioned_or(key, plan, programmed(plan, &self.seen(key, plan)));
        let resolved = client_certificate::resolved_refs(self, plan);
        let conditions = [accepted, programmed].into_iter().chain(resolved);
        let conditions = conditions.chain(insecure_validation(plan)).chain(default_scope(plan)).chain(fallback);
        let mut status = json!({
            "addresses": self.addresses(key, plan),
            "conditions": conditions.map(|condition| condition.of_generation(generation)).collect::<Vec<_>>(),
            "listeners": listeners,
        });
        if let Some(fields) = status.as_object_mut()
            && (plan.specifies_allowed_sets || !plan.sets.is_empty())
        {
            fields.insert("attachedListenerSets".into(), json!(self.attached_sets(key, plan)));
        }
        status
    }
}

/// Returns the condition of a default Gateway.
///
/// <https://gateway-api.sigs.k8s.io/geps/gep-3793>
fn default_scope(plan: &GatewayPlan) -> Option<Condition> {
    let message = "the Gateway has default scope All: routes that use default Gateways attach to it";
    plan.is_default.then(|| Condition::new("DefaultGateway", true, "DefaultGateway", message))
}

/// Returns the condition of a Gateway with a listener that accepts clients without a valid certificate.
///
/// <https://gateway-api.sigs.k8s.io/reference/spec/#frontendvalidationmodetype>
fn insecure_validation(plan: &GatewayPlan) -> Option<Condition> {
    let accepts_all =
        |listener: &&ListenerPlan| listener.clients.as_ref().is_some_and(|clients| clients.trust.unverified);
    let names: Vec<&str> = plan.listeners.iter().filter(accepts_all).map(|listener| &*listener.name).collect();
    let message =
        format!("clients without a valid certificate are accepted (AllowInsecureFallback): {}", names.join(", "));
    (!names.is_empty()).then(|| Condition::new("InsecureFrontendValidationMode", true, "ConfigurationChanged", message))
}
