//! Reports about policies: their statuses, the listeners that they close, and the origins of merged settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, without_field};
use holdfast_api::section;
use holdfast_api::status::{Condition, FALLBACK_CONDITION};
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::served_state::speaking;
use holdfast_fallback::view::FallbackReport;
use holdfast_graph::{Detected, Node, ObjectKey};
use holdfast_translate::claims::ListenerId;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::ListenerPlan;
use holdfast_translate::outcome::policy::{PolicyPlan, Unenforceable};
use holdfast_translate::policy::level::{ClosedListener, LevelPlan};
use serde_json::{Value, json};

use super::ReplacementView;
use super::backends::backend_origins;
use super::delegated::{self, policies_of};
use crate::engine::Engine;
use crate::report::conditions;
use crate::report::events::explained;
use crate::report::survey::field;

/// Maximum number of ancestors in the status of a policy; the limit of the API.
pub(super) const ANCESTORS_MAX: usize = 16;

/// Extent in which a policy is overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OverrideExtent {
    /// No field is overridden.
    Whole,
    /// Some fields are overridden.
    Merged,
    /// All fields are overridden.
    Overridden,
}

/// Returns the condition `Attached` of a policy. `is_closed`: no version of it is enforced; `with_earlier`: the policy is
/// enforced with an earlier version of an object that it reads.
fn attached(plan: &PolicyPlan, extent: OverrideExtent, is_closed: bool, with_earlier: bool) -> Condition {
    match extent {
        _ if is_closed => Condition::new("Attached", false, "Pending", "the policy cannot be enforced"),
        _ if with_earlier => Condition::new("Attached", true, "Attached", "the policy is attached"),
        // Nothing is merged with a desired version that cannot be enforced.
        _ if plan.unenforceable.is_some() => {
            Condition::new("Attached", true, "Attached", "an earlier version of the policy is attached")
        }
        OverrideExtent::Whole => Condition::new("Attached", true, "Attached", "the policy is attached"),
        OverrideExtent::Merged => {
            Condition::new("Attached", true, "Merged", "other policies override some fields of the policy")
        }
        OverrideExtent::Overridden => {
            Condition::new("Attached", false, "Overridden", "other policies override every field of the policy")
        }
    }
}

impl Engine {
    /// Returns the status of a policy.
    pub(super) fn policy_status(&self, report: &FallbackReport, key: &ObjectKey, generation: i64) -> Option<Value> {
        let plan = self.translator.policy(key)?;
        let accepted = match &plan.unenforceable {
            None => Condition::new("Accepted", true, "Valid", enforced(plan)),
            Some(Unenforceable { message, .. }) => {
                let message = format!("the targets of the policy are closed: {message}");
                Condition::new("Accepted", false, "Invalid", message)
            }
        };
        let mut ancestors: Vec<(Value, Vec<Condition>)> = Vec::new();
        for (gateway, extent) in self.ancestors(key) {
            let served_by = self.gateways_of(&gateway);
            let at = |gateway: &ObjectKey| conditions::condition(report, key, &gateway.namespaced_name());
            let fallback = served_by.iter().find_map(at);
            let refused = served_by.iter().find_map(|gateway| self.refused_policy(key, gateway));
            let is_closed = fallback.is_none() && (refused.is_some() || self.is_unenforced(key, &served_by));
            let with_earlier = conditions::enforced_with_earlier(self, report, key)
                .filter(|_| fallback.is_none() && !is_closed && plan.unenforceable.is_some());
            let attached = attached(plan, extent, is_closed, with_earlier.is_some());
            let errors = plan.unenforceable.iter().map(|why| why.message.to_string()).chain(refused);
            let errors = errors.collect::<Vec<_>>().join("; ");
            let conflict = self.translator.levels(&gateway).and_then(|levels| levels.connections.conflicts.get(key));
            let conflict = conflict.filter(|_| plan.unenforceable.is_none());
            let served_with = with_earlier.as_ref().map(|condition| &condition.message);
            let accepted = match (&fallback, is_closed, conflict) {
                (None, false, _) if served_with.is_some() => {
                    let versions = served_with.map_or("", String::as_str);
                    Condition::new("Accepted", false, "Invalid", format!("the policy is {versions}: {errors}"))
                }
                // Only parts without protection are left out.
                (Some(left_out), ..) if left_out.reason == "Excluded" && plan.unenforceable.is_none() => {
                    let message =
                        format!("the policy is enforced, except for the parts that are left out: {}", left_out.message);
                    Condition::new("Accepted", true, "Valid", message)
                }
                (Some(_), ..) => {
                    let message = format!("an earlier version of the policy is enforced: {errors}");
                    Condition::new("Accepted", false, "Invalid", message)
                }
                (None, true, _) => {
                    let message = format!("the targets of the policy are closed: {errors}");
                    Condition::new("Accepted", false, "Invalid", message)
                }
                (None, false, Some(message)) => Condition::new("Accepted", false, "Conflicted", &**message),
                (None, false, None) => accepted.clone(),
            };
            let closed = is_closed.then(|| {
                let message = "requests to the targets of the policy get an error response";
                let message = explained(report, key, message);
                Condition::new(FALLBACK_CONDITION, true, "Replaced", message)
            });
            let conditions =
                [accepted, attached].into_iter().chain(fallback).chain(with_earlier).chain(closed).collect();
            ancestors.push((reference(&gateway, None), conditions));
        }
        // A target without an effective ancestor is the ancestor itself.
        for target in &plan.targets {
            let Some(why) = &target.missing else { continue };
            let conditions = without_target(plan, &accepted, why);
            ancestors.push((reference(&target.key, target.section.as_deref()), conditions));
        }
        let ancestors = ancestors.into_iter().take(ANCESTORS_MAX).map(|(ancestor, conditions)| {
            let conditions = conditions.into_iter().map(|condition| condition.of_generation(generation));
            json!({
                "ancestorRef": ancestor,
                "controllerName": self.settings().controller_name,
                "conditions": conditions.collect::<Vec<_>>(),
            })
        });
        Some(json!({ "ancestors": ancestors.collect::<Vec<_>>() }))
    }

    /// Returns the Gateways that serve an ancestor: the Gateway itself, or the Gateways that a ListenerSet joined.
    fn gateways_of(&self, ancestor: &ObjectKey) -> Vec<ObjectKey> {
        if &*ancestor.kind == kinds::GATEWAY {
            return vec![ancestor.clone()];
        }
        let joined = self.translator.plans().into_iter().filter(|(_, plan)| plan.sets.contains_key(ancestor));
        joined.map(|(gateway, _)| gateway.clone()).collect()
    }

    /// Returns whether some Envoys of these Gateways get no version of a policy that can be enforced.
    fn is_unenforced(&self, key: &ObjectKey, gateways: &[ObjectKey]) -> bool {
        let Some(desired) = self.translator.policy(key) else { return false };
        let scopes = gateways.iter().flat_map(|gateway| speaking(self.scopes.of(&gateway.namespaced_name())));
        let mut served = scopes.map(|scope| scope.derived.overlay.policies.get(key).map_or(desired, |plan| plan));
        let is_unenforced = |plan: &Arc<PolicyPlan>| plan.unenforceable.is_some();
        match served.next() {
            Some(first) => is_unenforced(first) || served.any(is_unenforced),
            None => is_unenforced(desired),
        }
    }

    /// Returns whether some Envoys get no version of a policy that can be enforced.
    pub(super) fn is_unenforced_anywhere(&self, key: &ObjectKey) -> bool {
        self.ancestors(key).keys().any(|ancestor| self.is_unenforced(key, &self.gateways_of(ancestor)))
    }

    /// Returns the reason why Envoys of a Gateway refuse a policy. What one build refuses is no longer suspected, whatever
    /// is known of another build.
    pub(super) fn refused_policy(&self, key: &ObjectKey, gateway: &ObjectKey) -> Option<String> {
        let node = Node::whole(key.clone());
        let scopes = speaking(self.scopes.of(&gateway.namespaced_name()));
        let own = |scope: &FallbackScope| {
            let broken = scope.derived.broken.get(&node)?;
            let detection = match scope.detected_of(broken) {
                Detected::Translation => return None,
                Detected::Suspected => "suspected",
                Detected::Nack | Detected::Probe => "refused by Envoy",
            };
            let (field, message) = (field(&node, broken), scope.message_of(broken));
            let parts = [&*field, detection, without_field(&message, &field)];
            let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
            Some((scope.detected_of(broken) == Detected::Suspected, text))
        };
        // The policy is closed because of an extension that it uses.
        let by_others = |scope: &FallbackScope| {
            let why = scope.derived.overlay.policies.get(key)?.unenforceable.as_ref()?;
            Some((false, why.message.to_string()))
        };
        let (suspected, refused): (BTreeSet<_>, BTreeSet<_>) = scopes
            .filter_map(|scope| own(scope).or_else(|| by_others(scope)))
            .partition(|(is_suspected, _)| *is_suspected);
        let known = if refused.is_empty() { suspected } else { refused };
        let texts: Vec<String> = known.into_iter().map(|(_, text)| text).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Returns the Gateways and ListenerSets at which a policy is effective, and the extent in which it is overridden.
    fn ancestors(&self, key: &ObjectKey) -> BTreeMap<ObjectKey, OverrideExtent> {
        let (routes, gateways) = self.translator.governed_by(key);
        let mut ancestors: BTreeMap<ObjectKey, OverrideExtent> = BTreeMap::new();
        let mut note = |ancestor: &ObjectKey, extent: OverrideExtent| {
            let worst = ancestors.entry(ancestor.clone()).or_insert(extent);
            *worst = (*worst).max(extent);
        };
        let Some(plan) = self.translator.policy(key) else { return ancestors };
        let in_all = |origins: &[&holdfast_translate::precedence::merge::Origins]| {
            origins.iter().map(|origins| override_extent(key, plan, origins)).max().unwrap_or(OverrideExtent::Whole)
        };
        for route in routes {
            let Some(route) = self.translator.route(&route) else { continue };
            let of_rules = route.merged.values().filter(|(keys, _)| keys.contains(key));
            let origins: Vec<_> = of_rules.map(|(_, origins)| origins).collect();
            let extent = in_all(&origins);
            route.parents.iter().for_each(|parent| note(parent.set.as_ref().unwrap_or(&parent.gateway), extent));
        }
        for gateway in gateways {
            let Some(levels) = self.translator.levels(&gateway) else { continue };
            for owner in levels.owners.get(key).into_iter().flatten() {
                let origins = self.origins_at(&gateway, owner, levels, key);
                if !origins.is_empty() {
                    note(owner, in_all(&origins));
                }
            }
        }
        ancestors
    }

    /// Returns the origins of merged settings that a policy of a Gateway, or of a ListenerSet that joined it, takes
    /// part in.
    fn origins_at<'l>(
        &self,
        gateway: &ObjectKey,
        owner: &ObjectKey,
        levels: &'l LevelPlan,
        policy: &ObjectKey,
    ) -> Vec<&'l holdfast_translate::precedence::merge::Origins> {
        let listeners = self.translator.gateway(gateway).into_iter().flat_map(|plan| &plan.listeners);
        let mut seen = BTreeSet::new();
        let mut origins = Vec::new();
        for listener in listeners.filter(|listener| owner == gateway || listener.owner(gateway) == owner) {
            let table = levels.tables.get(&listener.table()).filter(|_| seen.insert(listener.table()));
            let own = levels.listeners.get(&listener.name);
            let all = table.into_iter().chain(own).filter(|level| level.keys.contains(policy));
            origins.extend(all.map(|level| &level.merged.origins));
        }
        origins
    }

    /// Returns the listeners that policies closed as a whole, in order.
    pub(super) fn level_replacements(&self) -> Vec<ReplacementView> {
        let mut views = Vec::new();
        for (gateway, plan) in self.translator.plans() {
            for listener in &plan.listeners {
                let Some(ClosedListener { scope, policy, why }) = self.closed_at(gateway, listener) else { continue };
                views.push(ReplacementView {
                    gateway: gateway.namespaced_name(),
                    object: listener.owner(gateway).clone(),
                    section: section::of_field(&listener.field).to_owned(),
                    scope,
                    cause: why.class,
                    response: (!listener.forwards()).then_some(self.settings().closed_status),
                    message: describe(&policy, &why),
                    policy: Some(policy),
                    lacks_backend: false,
                });
            }
        }
        views
    }

    /// Returns the reason why a listener is closed in its served state: the scope, the policy and the message.
    fn closed_at(&self, gateway: &ObjectKey, listener: &ListenerPlan) -> Option<ClosedListener> {
        let scopes = self.scopes.of(&gateway.namespaced_name());
        let varied = speaking(scopes).find(|scope| !scope.derived.overlay.policies.is_empty());
        let served = varied.and_then(|scope| self.translator.served_levels(&scope.id.fleet));
        served.or_else(|| self.translator.levels(gateway))?.closing(listener)
    }

    /// Returns `Accepted` of a listener that a policy closed.
    pub(super) fn listener_closed(&self, gateway: &ObjectKey, listener: &ListenerPlan) -> Option<Condition> {
        let ClosedListener { policy, why, .. } = self.closed_at(gateway, listener)?;
        Some(Condition::new("Accepted", false, "ListenerReplaced", describe(&policy, &why)))
    }

    /// Returns `Accepted` of a Gateway, or of a ListenerSet that joined it, if policies closed all of its listeners.
    pub(super) fn all_closed(
        &self,
        gateway: &ObjectKey,
        plan: &GatewayPlan,
        set: Option<&ObjectKey>,
    ) -> Option<Condition> {
        let closed: Vec<_> = plan.of(set).filter_map(|listener| self.closed_at(gateway, listener)).collect();
        if closed.is_empty() || closed.len() < plan.of(set).count() {
            return None;
        }
        let reasons: BTreeSet<String> = closed.iter().map(|closed| describe(&closed.policy, &closed.why)).collect();
        let message = reasons.into_iter().collect::<Vec<_>>().join("; ");
        let reason = if set.is_some() { "ListenersNotValid" } else { "GatewayReplaced" };
        Some(Condition::new("Accepted", false, reason, message))
    }

    /// Returns the listeners that policies close, each with a message.
    pub(super) fn closed_listeners(&self) -> BTreeMap<ListenerId, String> {
        let plans = self.translator.plans().into_iter();
        let listeners =
            plans.flat_map(|(gateway, plan)| plan.listeners.iter().map(move |listener| (gateway, listener)));
        let closed = listeners.filter_map(|(gateway, listener)| {
            let ClosedListener { policy, why, .. } = self.closed_at(gateway, listener)?;
            let owner = listener.owner(gateway);
            let (section, kind, name) = (listener.section(), &owner.kind, owner.namespaced_name());
            let message = format!("listener {section} of {kind} {name} is closed: {}", describe(&policy, &why));
            Some((ListenerId { gateway: gateway.clone(), name: listener.name.clone() }, message))
        });
        closed.collect()
    }

    /// Returns the policies that set each field: of routes by rule, of Gateways by route configuration and listener. A
    /// route that a Gateway serves in another version than the desired one has the fields of that version. A rule below
    /// HTTPRoutes that delegate to it has the fields of each way to it.
    pub fn merge_origins(&self) -> Value {
        let names = |origins: &holdfast_translate::precedence::merge::Origins| json!(policies_of(origins));
        let varied = self.varied();
        let routes: Value = self
            .translator
            .routes()
            .into_iter()
            .filter_map(|(key, plan)| {
                let scopes = plan.gateways().into_iter().filter_map(|gateway| varied.get(gateway));
                let mut served = scopes.filter_map(|scope| self.translator.served_route(&scope.id.fleet, key));
                let plan = served.next().map_or(plan, |served| &**served);
                let rules: BTreeMap<String, Value> = match delegated::is_below(plan) {
                    true => delegated::by_way(plan).into_iter().map(|(way, origins)| (way, names(origins))).collect(),
                    false => plan.merged.iter().map(|(rule, (_, all))| (rule.to_string(), names(all))).collect(),
                };
                (!rules.is_empty()).then(|| (key.to_string(), json!(rules)))
            })
            .collect();
        let gateways: Value = self
            .translator
            .plans()
            .keys()
            .filter_map(|key| Some((*key, self.translator.levels(key)?)))
            .map(|(key, levels)| {
                let tables = levels.tables.iter();
                let tables = tables.map(|(table, level)| {
                    (holdfast_envoy::encode::names::route_configuration(table), names(&level.merged.origins))
                });
                let hosts = levels.listeners.iter();
                let hosts = hosts.map(|(name, level)| (section::listener(name), names(&level.merged.origins)));
                (key.to_string(), tables.chain(hosts).collect::<Value>())
            })
            .collect();
        json!({ "routes": routes, "gateways": gateways, "backEnds": backend_origins(self) })
    }
}

/// Returns the message that a policy is enforced, with its ineffective fields.
fn enforced(plan: &PolicyPlan) -> String {
    let ignored = plan.faults.iter().filter(|fault| fault.class == Class::Ignored && fault.reason == "Invalid");
    let ignored: Vec<String> = ignored.map(|fault| format!("{}: {}", fault.field, fault.message)).collect();
    match ignored.is_empty() {
        true => "the policy is enforced".to_owned(),
        false => format!("the policy is enforced, except for the parts that are left out: {}", ignored.join("; ")),
    }
}

/// Returns the conditions at a target that does not exist. A fault of the policy itself has precedence.
fn without_target(plan: &PolicyPlan, accepted: &Condition, why: &str) -> Vec<Condition> {
    let missing = |kind| Condition::new(kind, false, "TargetNotFound", why);
    let accepted = if plan.unenforceable.is_some() { accepted.clone() } else { missing("Accepted") };
    vec![accepted, missing("Attached")]
}

fn describe(policy: &ObjectKey, why: &Unenforceable) -> String {
    format!("{} {}: {}", policy.kind, policy.namespaced_name(), why.message)
}

fn override_extent(
    key: &ObjectKey,
    plan: &PolicyPlan,
    origins: &holdfast_translate::precedence::merge::Origins,
) -> OverrideExtent {
    let fields = plan.fields();
    let won = fields.iter().filter(|field| origins.get(*field).is_some_and(|keys| keys.contains(key))).count();
    match won {
        _ if won == fields.len() => OverrideExtent::Whole,
        0 => OverrideExtent::Overridden,
        _ => OverrideExtent::Merged,
    }
}

pub(super) fn reference(key: &ObjectKey, section: Option<&str>) -> Value {
    let mut value = json!({ "group": key.group, "kind": key.kind, "name": key.name, "namespace": key.namespace });
    if let (Some(section), Some(fields)) = (section, value.as_object_mut()) {
        fields.insert("sectionName".into(), json!(section));
    }
    value
}
