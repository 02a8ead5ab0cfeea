//! The controller that is responsible for an object under review.
//!
//! An object belongs to Holdfast if it is a route, a Gateway or an HTTPProxy with a status of Holdfast, or if it is used
//! by one. The status of a policy alone proves nothing: another controller may serve the same kind.

use std::collections::BTreeSet;

use holdfast_api::apis::kinds;
use holdfast_graph::ObjectKey;

use super::related::targets_of;
use super::{READERS_MAX, RELATED_OBJECTS_MAX};
use crate::engine::Engine;

/// The controller that is responsible for an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewOwner {
    /// Holdfast: it reports a status of the object, or of an object that uses it.
    Ours,
    /// It is not known yet: a Gateway or a target does not exist, or nothing uses the object.
    #[default]
    Unknown,
    /// Another controller, since the object is attached to nothing of Holdfast.
    Other,
}

pub(super) fn owner(engine: &Engine, key: &ObjectKey) -> ReviewOwner {
    let ours: BTreeSet<ObjectKey> = engine.statuses().into_iter().map(|status| status.object).collect();
    let anchors = anchors(engine, key);
    if anchors.iter().any(|anchor| ours.contains(anchor)) {
        return ReviewOwner::Ours;
    }
    let is_complete = || engine.graph().read_by(key).iter().all(|edge| engine.is_there(&edge.to.key));
    let is_foreign = anchors.iter().any(|anchor| engine.is_there(anchor)) && is_complete();
    if is_foreign { ReviewOwner::Other } else { ReviewOwner::Unknown }
}

/// Returns the objects that are attached to Gateways and use an object, directly or through policies and backends; the
/// object itself if it is one.
fn anchors(engine: &Engine, key: &ObjectKey) -> BTreeSet<ObjectKey> {
    let (mut found, mut known, mut queue) = (BTreeSet::new(), BTreeSet::from([key.clone()]), vec![key.clone()]);
    while let Some(next) = queue.pop() {
        if is_anchor(&next.kind) {
            found.insert(next);
            continue;
        }
        let readers = engine.graph().readers_of(&next, READERS_MAX).into_iter().cloned();
        let targets = engine.objects().get(&next).map(|object| targets_of(object)).unwrap_or_default();
        for user in readers.chain(targets) {
            if known.len() < RELATED_OBJECTS_MAX && known.insert(user.clone()) {
                queue.push(user);
            }
        }
    }
    found
}

fn is_anchor(kind: &str) -> bool {
    const OTHERS: [&str; 4] = [kinds::GATEWAY_CLASS, kinds::GATEWAY, kinds::LISTENER_SET, kinds::HTTP_PROXY];
    kinds::ROUTES.contains(&kind) || OTHERS.contains(&kind)
}
