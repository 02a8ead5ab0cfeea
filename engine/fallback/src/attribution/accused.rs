//! Suspects of a refused route configuration, where policies take part in it.
//!
//! A policy is suspected for its settings, field by field; a route is suspected for its content without policies. An
//! edit of a policy therefore accuses the policy and not the routes below it. Where both are new, trials separate them:
//! on the probe, or on an Envoy of the fleet in a virtual host that no request reaches. A route configuration that is
//! not served yet has no such host: there the routes are suspected for both, because no route may be served without its
//! policies.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_api::section::{self, ObjectSection};
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::outcome::addition::Addition;
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::outcome::setting::PolicySetting;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::Rendered;
use holdfast_xds::{ResourceType, Snapshot, Version};

use super::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::evidence::subject::Subject;
use crate::evidence::suspects::{self, StandIns, Suspect, Suspects, only_stand_ins, without_stand_ins};

/// The suspects of a refused route configuration.
pub(super) struct Accused {
    /// Policies, each with those of its settings that no Envoy has accepted, and parts of HTTPProxies that add something
    /// to routes.
    pub(crate) policies: Vec<Subject>,
    /// The additions of HTTPProxies among them.
    pub(crate) additions: BTreeMap<Content, Arc<Addition>>,
    /// Parts of routes.
    pub(crate) parts: Suspects,
    /// The part of the listeners in the bytes of the suspects.
    pub(crate) context: ListenerContext,
}

/// Returns the desired version of a policy, or its stand-in version.
pub(crate) fn plan<'a>(key: &ObjectKey, over: &'a Overlay, inputs: &'a StepInputs<'_>) -> Option<&'a Arc<PolicyPlan>> {
    over.policies.get(key).or_else(|| inputs.translator.policy(key))
}

/// Checks whether the desired version or the stand-in version of a policy has a setting for which the policy is
/// suspected.
pub(super) fn has_suspected_setting(subject: &Subject, over: &Overlay, inputs: &StepInputs<'_>) -> bool {
    let key = &subject.node.key;
    let plans = over.policies.get(key).into_iter().chain(inputs.translator.policy(key));
    plans.flat_map(|plan| plan.contents()).any(|(_, content)| subject.contents.contains_key(&content))
}

/// Returns the suspects of a version of a route configuration. `apart`: whether new settings of policies are suspects
/// beside a route that is new as well. They are where each suspect can be tried alone.
pub(super) fn accused(state: &SuspectInputs<'_>, name: &str, version: &Version, apart: bool) -> Option<Accused> {
    let (parts, context) = state.evidence.suspects(name, version)?;
    let mut policies: BTreeMap<Node, BTreeSet<Content>> = BTreeMap::new();
    let mut additions = BTreeMap::new();
    let mut note = |setting: &PolicySetting| {
        policies.entry(setting.node()).or_default().insert(setting.content());
        additions.extend(setting.addition().map(|addition| (setting.content(), addition.clone())));
    };
    let form = state.evidence.forms.of(name, version)?;
    form.policy_settings.iter().filter(|setting| is_unproven(state, setting)).for_each(&mut note);
    let parts = parts.into_iter().map(|(node, mut parts)| {
        parts.retain(|_, suspect: &mut Suspect| {
            let rendered = &suspect.rendered;
            if !has_unproven_settings(state, rendered) {
                return true;
            }
            let innocent = state.evidence.proof.is_known_good(&rendered.bare_content(context));
            if innocent || apart {
                rendered.policy_settings().iter().filter(|setting| is_unproven(state, setting)).for_each(&mut note);
            }
            !innocent
        });
        (node, parts)
    });
    let parts: Suspects = parts.filter(|(_, parts)| !parts.is_empty()).collect();
    let subject = |(node, contents): (Node, BTreeSet<Content>)| Subject {
        contents: contents.into_iter().map(|content| (content, node.clone())).collect(),
        node,
    };
    Some(Accused { policies: policies.into_iter().map(subject).collect(), additions, parts, context })
}

/// Checks whether a subject is the part of an HTTPProxy that adds something to routes.
fn is_addition(subject: &Subject) -> bool {
    let section = &subject.node.section;
    let is_include = matches!(ObjectSection::parse(section), ObjectSection::Include(_));
    is_proxy(&subject.node.key) && (is_include || section::is_of_host(section))
}

/// Returns the suspects in the groups that are served or closed together. Stand-in versions are omitted as long as
/// other suspects remain.
pub(super) fn accused_subjects(
    state: &SuspectInputs<'_>,
    name: &str,
    version: &Version,
    by_object: bool,
    inputs: &StepInputs<'_>,
) -> Vec<Subject> {
    let is_served = |everyone: &Snapshot| everyone.get(ResourceType::Route, name).is_some();
    let apart = state.configurations.everyone.as_ref().is_some_and(is_served);
    let Some(Accused { policies, parts, .. }) = accused(state, name, version, apart) else { return Vec::new() };
    let backfilled = stand_ins(state, parts.keys().map(|node| &node.key), inputs);
    let policies = with_policies_of_stand_ins(state, policies, &parts, &backfilled);
    let (lent, policies): (Vec<_>, Vec<_>) =
        policies.into_iter().partition(|policy| is_stand_in(state, policy, inputs));
    let parts = without_stand_ins(parts, &backfilled);
    let mut subjects = match only_stand_ins(&parts, &backfilled) && !policies.is_empty() {
        true => Vec::new(),
        false => super::blame::subjects(parts, by_object),
    };
    if subjects.is_empty() && policies.is_empty() {
        return lent;
    }
    subjects.extend(policies);
    subjects
}

/// Adds the policies with settings that no Envoy has accepted to routes that are not suspected themselves: versions that
/// were acknowledged before, and direct responses.
fn with_policies_of_stand_ins(
    state: &SuspectInputs<'_>,
    policies: Vec<Subject>,
    parts: &Suspects,
    backfilled: &StandIns,
) -> Vec<Subject> {
    let mut all: BTreeMap<Node, BTreeMap<Content, Node>> = BTreeMap::new();
    for Subject { node, contents } in policies {
        all.entry(node).or_default().extend(contents);
    }
    let parts = parts.iter().flat_map(|(node, parts)| parts.iter().map(move |(content, part)| (node, content, part)));
    let stand_ins = parts.filter(|(node, content, part)| suspects::is_stand_in(node, content, part, backfilled));
    let settings = stand_ins.flat_map(|(_, _, part)| part.rendered.policy_settings().iter());
    for setting in settings.filter(|setting| is_unproven(state, setting)) {
        all.entry(setting.node()).or_default().insert(setting.content(), setting.node());
    }
    all.into_iter().map(|(node, contents)| Subject { node, contents }).collect()
}

/// Returns the contents of those objects that are backfilled.
fn stand_ins<'a>(
    state: &SuspectInputs<'_>,
    keys: impl Iterator<Item = &'a ObjectKey>,
    inputs: &StepInputs<'_>,
) -> StandIns {
    let keys: BTreeSet<&ObjectKey> = keys.collect();
    let mut stand_ins = StandIns::new();
    for overlay in overlays(state, inputs) {
        for key in keys.iter().filter(|key| overlay.objects.contains_key(**key)) {
            let made = inputs.translator.contents_under(&state.id.fleet, key, overlay, inputs.objects);
            let contents = made.into_iter().map(|(content, _)| content);
            stand_ins.entry((*key).clone()).or_default().extend(contents);
        }
    }
    stand_ins
}

/// Returns the overlays of the configurations in which a refused resource may be: the published one and the one on
/// trial. An object that is closed in the first can be backfilled in the second.
fn overlays<'a>(state: &SuspectInputs<'a>, inputs: &'a StepInputs<'_>) -> impl Iterator<Item = &'a Overlay> {
    let is_on_trial = state.trials.current.is_some();
    let on_trial = is_on_trial.then(|| inputs.translator.overlay(&state.id.trial_fleet())).flatten();
    std::iter::once(&state.derived.overlay).chain(on_trial)
}

/// Checks whether a policy is backfilled in a version with all settings for which it is suspected.
fn is_stand_in(state: &SuspectInputs<'_>, policy: &Subject, inputs: &StepInputs<'_>) -> bool {
    let key = &policy.node.key;
    let is_set = |plan: &Arc<PolicyPlan>| {
        let settings: HashSet<Content> = plan.contents().map(|(_, content)| content).collect();
        policy.contents.keys().all(|content| settings.contains(content))
    };
    overlays(state, inputs)
        .any(|overlay| overlay.objects.contains_key(key) && overlay.policies.get(key).is_some_and(is_set))
}

/// Returns the contents in a version of a route configuration that no Envoy has accepted: parts of routes, and
/// settings of policies.
pub(super) fn unproven_in(state: &SuspectInputs<'_>, name: &str, version: &Version) -> HashSet<Content> {
    let Some(Accused { policies, parts, .. }) = accused(state, name, version, true) else { return HashSet::new() };
    let policies = policies.into_iter().flat_map(|policy| policy.contents.into_keys());
    policies.chain(parts.into_values().flat_map(BTreeMap::into_keys)).collect()
}

/// Returns the objects with contents in a version of a route configuration that no Envoy has accepted and that are not
/// the desired ones.
pub(super) fn unproven_stand_ins(
    state: &SuspectInputs<'_>,
    name: &str,
    version: &Version,
    inputs: &StepInputs<'_>,
) -> BTreeSet<ObjectKey> {
    let Some(Accused { policies, parts, .. }) = accused(state, name, version, true) else { return BTreeSet::new() };
    let desired_parts = |key: &ObjectKey| {
        let plan = inputs.translator.route(key);
        plan.map(|plan| inputs.translator.contents_under_any_levels(&state.id.fleet, plan)).unwrap_or_default()
    };
    let is_served_instead = |(node, parts): &(Node, BTreeMap<Content, Suspect>)| {
        let desired = desired_parts(&node.key);
        parts.keys().any(|content| !desired.iter().any(|(other, _)| other == content))
    };
    let routes = parts.into_iter().filter(is_served_instead).map(|(node, _)| node.key);
    let is_desired = |policy: &Subject| {
        let plan = inputs.translator.policy(&policy.node.key);
        let desired: HashSet<Content> =
            plan.iter().flat_map(|plan| plan.contents()).map(|(_, content)| content).collect();
        policy.contents.keys().all(|content| desired.contains(content))
    };
    routes.chain(policies.into_iter().filter(|policy| !is_desired(policy)).map(|policy| policy.node.key)).collect()
}

fn is_unproven(state: &SuspectInputs<'_>, setting: &PolicySetting) -> bool {
    !state.evidence.proof.is_known_good(&setting.content())
}

/// Checks whether a policy applies a setting to the route that no Envoy has accepted.
pub(super) fn has_unproven_settings(state: &SuspectInputs<'_>, rendered: &Rendered) -> bool {
    rendered.policy_settings().iter().any(|setting| is_unproven(state, setting))
}

/// Returns a part in the form in which it is tried alone: without the settings of policies if no Envoy has accepted
/// them, because these are tried separately.
pub(super) fn part_alone(state: &SuspectInputs<'_>, rendered: &Arc<Rendered>) -> Arc<Rendered> {
    match has_unproven_settings(state, rendered) {
        true => Arc::new(rendered.without_policies()),
        false => rendered.clone(),
    }
}

/// Returns the names of the policies that may have contributed to a refusal for which routes are suspected.
pub(super) fn unproven_policies(state: &SuspectInputs<'_>, name: &str, version: &Version) -> Option<String> {
    let (parts, _) = state.evidence.suspects(name, version)?;
    let all_settings =
        parts.values().flat_map(|parts| parts.values()).flat_map(|part| part.rendered.policy_settings().iter());
    let policies: BTreeSet<String> = all_settings
        .filter(|setting| is_unproven(state, setting))
        .map(|setting| setting.policy().to_string())
        .collect();
    let names = policies.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then_some(names)
}

/// Returns the message of a refusal with the names of the policies that may have contributed to it, if only routes
/// are suspected: the settings of a policy cannot be tried separately from a route that is new as well.
pub(super) fn with_policies(
    state: &SuspectInputs<'_>,
    message: &str,
    kind: ResourceType,
    name: &str,
    version: Version,
    subjects: &[Subject],
    inputs: &StepInputs<'_>,
) -> String {
    let is_policy = |subject: &Subject| inputs.translator.policy(&subject.node.key).is_some() || is_addition(subject);
    if kind != ResourceType::Route || subjects.iter().any(is_policy) {
        return message.to_owned();
    }
    match unproven_policies(state, name, &version) {
        Some(policies) => format!("{message} (together with {policies}, which is new as well)"),
        None => message.to_owned(),
    }
}
