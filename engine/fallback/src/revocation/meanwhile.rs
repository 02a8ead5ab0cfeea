//! Exceptions while new content is tried: Envoys continue to serve their configuration, as they do during a slow push.
//!
//! Until an Envoy has the new configuration, it enforces the policies that were attached before. This is true of every
//! push, and stays true while the probe or one Envoy tries new content, for as long as a push may take. The edit of a
//! policy therefore closes nothing during its trial. A route without a guard of that kind, or without that policy, is
//! closed nevertheless. Every route is closed as soon as the new content was refused or has had its time: from then on
//! only the current policies count.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::object::Object;
use holdfast_envoy::features::filters::{self, Guarding};
use holdfast_envoy::inspect::guards::in_force;
use holdfast_envoy::model::Action;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::fleet::GatewayGuards;
use holdfast_translate::route::{Rendered, RoutePlan};
use holdfast_xds::ResourceType;

use super::{Held, Revocation};
use crate::rollout::configurations::Trying;

/// Returns the configuration of all Envoys while the successor of a resource is tried; `None` if nothing is tried,
/// or if the successor was refused or has had its time.
pub(super) fn trying<'a>(revocation: &Revocation<'a, '_>, kind: ResourceType, name: &str) -> Option<&'a Trying> {
    let trying = revocation.configurations.trying.as_ref()?;
    let inputs = revocation.inputs;
    let is_late = revocation.configurations.is_late(inputs.settings.fallback.ack_timeout_ms, inputs.now_ms);
    let wanted = revocation.hold.desired(kind, name);
    let refused = wanted.is_some_and(|wanted| revocation.hold.refusal_of(kind, &wanted.name, wanted.version).is_some());
    let fails = is_late || refused || revocation.is_held;
    (!fails).then_some(trying)
}

/// Checks whether a route continues to be served with other versions of its current policies.
pub(super) fn goes_on(
    revocation: &Revocation<'_, '_>,
    held: &Held<'_>,
    (object, plan): (&Object, &RoutePlan),
    today: &GatewayGuards,
) -> bool {
    let Some(form) = held.meanwhile.and_then(|trying| trying.forms.get(held.route.configuration)) else {
        return false;
    };
    if today.closed || plan.policies.iter().any(|policy| is_broken(revocation, policy)) {
        return false;
    }
    let of_its_name = |rendered: &&Arc<Rendered>| *rendered.route.name == *held.route.name();
    let mut wanted: Vec<&Arc<Rendered>> = held.current(plan, &revocation.id.gateway).into_iter().collect();
    if wanted.is_empty() {
        // For a route that was removed, its policy settings are unknown: the settings of all other routes together
        // are required.
        wanted = plan.routes.iter().collect();
    }
    let hosts = form.composition.get(&Host::new(Some(&held.route.domain.into())));
    let before = hosts.into_iter().flat_map(|parts| parts.iter().map(|(_, rendered)| rendered)).find(of_its_name);
    let Some(before) = before.filter(|_| !wanted.is_empty()) else { return false };
    let level_then = today.place.iter().flat_map(|(table, listener)| {
        let own = listener.as_ref().and_then(|listener| form.levels.listeners.get(listener));
        own.into_iter().chain(form.levels.tables.get(table))
    });
    let settings_then = before.policy_settings().iter().chain(level_then.flat_map(|level| &level.policy_settings));
    let then: BTreeSet<&ObjectKey> = settings_then.map(|setting| setting.policy()).collect();
    let kinds_then = held.route.guards_in_force();
    wanted.iter().all(|rendered| {
        let route = &rendered.route;
        // The policy or filter that guards the route may be the reason of the response.
        let is_guarded = || !plan.policies.is_empty() || object.body.names_guard(Some(route.precedence.rule));
        if matches!(route.action, Action::Respond(_)) && is_guarded() {
            return false;
        }
        let guards = route.guards.under(&today.levels).guarding();
        let own: Guarding = filters::guarding(&route.filters).into_iter().chain(guards).collect();
        let now = rendered.policy_settings().iter().chain(&today.policy_settings);
        in_force([own, today.host.clone(), today.configuration.clone()]).is_subset(&kinds_then)
            && now.map(|setting| setting.policy()).all(|policy| {
                let guards = revocation.inputs.translator.policy(policy).is_none_or(|plan| plan.guards());
                !guards || (then.contains(policy) && !is_broken(revocation, policy))
            })
    })
}

/// Checks whether a policy, or an object that it was read from, is known to be broken.
fn is_broken(revocation: &Revocation<'_, '_>, policy: &ObjectKey) -> bool {
    let from = revocation.inputs.translator.policy(policy).map(|plan| plan.secrets.as_slice()).unwrap_or_default();
    // A part of a policy that is left out protects nothing.
    let is_left_out =
        |node: &Node| !node.section.is_empty() && revocation.inputs.translator.policy(&node.key).is_some();
    let nodes = revocation.derived.broken.keys().filter(|node| !is_left_out(node));
    let broken = |key: &ObjectKey| nodes.clone().any(|node| node.key == *key);
    broken(policy) || from.iter().any(broken)
}

/// Checks that nothing of an HTTPProxy is broken, so that its earlier guards stay in force during the trial.
pub(super) fn proxy_goes_on(revocation: &Revocation<'_, '_>, owner: &ObjectKey, held: &Held<'_>) -> bool {
    let mut all = revocation.inputs.translator.roots_of(owner).chain([owner]);
    held.meanwhile.is_some() && !all.any(|key| is_broken(revocation, key))
}
