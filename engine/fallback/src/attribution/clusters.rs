//! Suspects of a refused cluster: the objects that it is made of and that changed.
//!
//! The bytes of a cluster do not show which object contributed what. The cluster is therefore computed with one of
//! these objects in its desired version and the others in their last valid versions. Names in messages are not used.
//!
//! A route is suspected for its parts that use the cluster: the bytes of these parts contain the name of the cluster,
//! which identifies its settings. Any other object is suspected for its share in the cluster. That content is refused
//! wherever the object makes exactly this cluster, and any edit that changes the cluster releases it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::object::Object;
use holdfast_envoy::encode::{self, names};
use holdfast_envoy::features::remote::Remote;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_translate::overlay::Overlay;
use holdfast_xds::{ResourceType, Version};

use super::suspect_inputs::SuspectInputs;
use crate::context::step_inputs::StepInputs;
use crate::eligibility::hybrid::hybrid;
use crate::evidence::shares::share;
use crate::evidence::subject::Subject;

/// Checks whether a suspect still makes one of its suspected clusters, with the desired objects or with stand-ins.
pub(super) fn is_made(gateway: &ObjectKey, subject: &Subject, over: &Overlay, inputs: &StepInputs<'_>) -> bool {
    let (key, translator) = (&subject.node.key, &inputs.translator);
    let under = || translator.clusters_through_under(gateway, key, over, inputs.objects);
    let is_own = |(cluster, _): &(Version, Node)| subject.contents.contains_key(&share(*cluster, key));
    translator.clusters_through(gateway, key).iter().any(is_own) || under().iter().any(is_own)
}

/// The state of knowledge about a cluster before a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The cluster is accepted, or there is none.
    Good,
    /// The cluster is refused.
    Refused,
    /// A trial is needed; contains the clusters.
    Nothing(Vec<Bytes>),
}

/// Returns the suspects of a cluster of the scope's fleet. Objects that a route uses come before the route.
pub(super) fn cluster_suspects(state: &SuspectInputs<'_>, name: &str, inputs: &StepInputs<'_>) -> Vec<Subject> {
    let Some((remote, parts)) = inputs.translator.users(&state.id.fleet, name) else { return Vec::new() };
    let version = Version::of(&encode::cluster::remote(&remote, inputs.translator.served_identity(&state.id.fleet)));
    let mut routes: BTreeMap<ObjectKey, BTreeMap<Content, Node>> = BTreeMap::new();
    // Acknowledged parts are not suspected: the name of a cluster need not depend on all of its content.
    for (content, node) in parts.into_iter().filter(|(content, _)| !state.evidence.proof.is_proven(content)) {
        routes.entry(node.key.clone()).or_default().insert(content, node);
    }
    let changed = |key: &ObjectKey| !state.derived.overlay.objects.contains_key(key) && has_changed(state, key, inputs);
    let (edited, others): (Vec<_>, Vec<_>) = routes.into_iter().partition(|(key, _)| changed(key));
    let subject = |(key, contents)| Subject { node: Node::whole(key), contents };
    // An object that is new as well cannot be separated from a new route.
    let is_separable = |key: &&ObjectKey| edited.is_empty() || newest_valid(state, key, inputs).is_some();
    let origins = remote.origins().into_iter().filter(|key| changed(key)).filter(is_separable);
    let mut suspects: Vec<Subject> = origins
        .map(|key| {
            let node = Node::whole(key.clone());
            Subject { node: node.clone(), contents: BTreeMap::from([(share(version, key), node)]) }
        })
        .collect();
    suspects.extend(edited.into_iter().map(subject));
    if suspects.is_empty() {
        // No object changed, and yet the cluster did: every route that uses it is suspected.
        suspects.extend(others.into_iter().map(subject));
    }
    suspects
}

/// Returns what is known of a cluster in the form in which only some of the changed objects are in their desired
/// version.
pub(super) fn known_with(
    state: &SuspectInputs<'_>,
    name: &str,
    today: &[Subject],
    all: &[Subject],
    inputs: &StepInputs<'_>,
) -> Known {
    let Some((remote, parts)) = inputs.translator.users(&state.id.fleet, name) else { return Known::Good };
    let mut overlay = state.derived.overlay.clone();
    for key in all.iter().filter(|subject| !today.contains(subject)).map(|subject| &subject.node.key) {
        let desired = inputs.objects.get(key).map(|object| &**object);
        match newest_valid(state, key, inputs) {
            Some(last) => drop(overlay.objects.insert(key.clone(), hybrid(desired, last))),
            None => drop(overlay.hidden.insert(key.clone())),
        }
    }
    let units: BTreeSet<Node> = parts.into_iter().map(|(_, node)| node).collect();
    let routes: BTreeSet<&ObjectKey> = units.iter().map(|node| &node.key).collect();
    let identity = inputs.translator.served_identity(&state.id.fleet);
    let mut unknown = BTreeMap::new();
    for key in routes.into_iter().filter(|key| !overlay.hidden.contains(*key)) {
        let Some(plan) = inputs.translator.try_route(key, &overlay, inputs.objects) else { continue };
        let own = plan.routes.iter().filter(|rendered| units.contains(&rendered.node()));
        let made: BTreeSet<Remote> = own.flat_map(|rendered| rendered.route.uses()).collect();
        for made in made.into_iter().filter(|made| made.is_same(&remote)) {
            let (name, body): (Arc<str>, _) = (names::remote(&made).into(), encode::cluster::remote(&made, identity));
            let version = Version::of(&body);
            if state.hold.refusal_of(ResourceType::Cluster, &name, version).is_some() {
                return Known::Refused;
            }
            if !state.evidence.is_good_cluster(state.hold, &name, version, &body) {
                unknown.insert(name, body);
            }
        }
    }
    if unknown.is_empty() { Known::Good } else { Known::Nothing(unknown.into_values().collect()) }
}

/// Checks whether the desired version differs from the last valid one, or whether there is no last valid version.
fn has_changed(state: &SuspectInputs<'_>, key: &ObjectKey, inputs: &StepInputs<'_>) -> bool {
    let Some(desired) = inputs.objects.get(key) else { return false };
    newest_valid(state, key, inputs)
        .is_none_or(|last| last.body != desired.body || last.metadata.annotations != desired.metadata.annotations)
}

fn newest_valid<'a>(state: &SuspectInputs<'a>, key: &ObjectKey, inputs: &'a StepInputs<'_>) -> Option<&'a Arc<Object>> {
    let uid = &*inputs.objects.get(key)?.metadata.uid;
    state.evidence.last_valid.of(key, Some(uid)).next().map(|version| &version.object)
}
