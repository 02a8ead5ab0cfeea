//! What has changed since the last valid configuration, while a Gateway is held as a whole.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::model::BackendCluster;
use holdfast_graph::{Content, Node, ObjectKey, World as _};
use holdfast_translate::outcome::policy::PolicyPlan;
use holdfast_translate::route::{Rendered, RoutePlan};

use super::derive::{Broken, HELD, suspected};
use super::policies::{self, LeftOut};
use super::world::World;

/// Returns, while everything is held, the units with parts that no Envoy has acknowledged.
pub(super) fn changed(held: &BTreeSet<ObjectKey>, left_out: &mut LeftOut, world: &World<'_>) -> BTreeMap<Node, Broken> {
    let mut broken = BTreeMap::new();
    for key in held {
        if let Some(plan) = world.translator.policy(key).filter(|plan| !is_closed_only(key, plan, world)) {
            broken.extend(policies::changed(key, plan, HELD, left_out, world));
        }
        let Some(plan) = world.translator.route(key) else { continue };
        let unproven = unproven_parts(key, plan, world);
        let streams = world.translator.streams_of(world.gateway, plan).into_iter();
        let streams = streams.filter(|(content, _)| !world.proof.is_proven(content));
        let added = plan.additions.iter().map(|setting| (setting.content(), setting.node()));
        let added = added.filter(|(content, _)| !world.proof.is_proven(content));
        let nodes: BTreeSet<Node> = unproven.into_iter().chain(streams).chain(added).map(|(_, node)| node).collect();
        if nodes.is_empty() {
            continue;
        }
        // An unchanged route is new because of an object that it uses.
        let origins = plan.backends.iter().flat_map(BackendCluster::origins);
        let others: BTreeSet<Node> =
            origins.filter(|key| world.differs_from_last_valid(key)).cloned().map(Node::whole).collect();
        let itself = others.is_empty() || world.has_no_or_another_last_valid(key);
        for node in others.into_iter().chain(nodes.into_iter().filter(|_| itself)) {
            broken.insert(node.clone(), suspected(&node, HELD));
        }
    }
    broken
}

/// Returns the parts of a route that no Envoy has acknowledged. A part that is closed or opened again only by the client
/// certificate of the Gateway is no change of the route.
fn unproven_parts(key: &ObjectKey, plan: &RoutePlan, world: &World<'_>) -> Vec<(Content, Node)> {
    let is_new = |part: &Rendered, context: ListenerContext| {
        !(world.proof.is_proven(&part.encoded(context).1) || world.is_new_by_policies(part, context))
    };
    let new_with =
        |identity: &ClientIdentity| world.translator.parts_with_identity(world.gateway, plan, identity, is_new);
    let identity = world.translator.identity(world.gateway);
    let mut parts = new_with(identity);
    let other = match identity {
        ClientIdentity::Unavailable => ClientIdentity::Anonymous,
        // The last valid version is open again; the contents of an earlier run are not known.
        ClientIdentity::Certificate(_) if !world.has_no_or_another_last_valid(key) => ClientIdentity::Unavailable,
        _ => return parts,
    };
    if !parts.is_empty() {
        let new: BTreeSet<Node> = new_with(&other).into_iter().map(|(_, node)| node).collect();
        parts.retain(|(_, node)| new.contains(node));
    }
    parts
}

/// Checks whether the settings of a policy are new only because what it guards is, or was, closed by a missing client
/// certificate.
fn is_closed_only(key: &ObjectKey, plan: &PolicyPlan, world: &World<'_>) -> bool {
    let is_unchanged = || {
        let read = plan.edges.iter().map(|edge| &edge.to.key);
        read.chain([key]).all(|object| !world.has_no_or_another_last_valid(object))
    };
    plan.lacks_service(&ClientIdentity::Unavailable)
        && match world.translator.identity(world.gateway) {
            ClientIdentity::Unavailable => true,
            ClientIdentity::Certificate(_) => is_unchanged(),
            ClientIdentity::Anonymous => false,
        }
}
