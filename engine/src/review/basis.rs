//! What the running engine knows and a review needs: cheap to take, so that the deciding thread is not disturbed.

use std::collections::BTreeSet;

use holdfast_api::apis::{contour, kinds};
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_fallback::persistence::excerpt::excerpt;
use holdfast_fallback::restored::Restored;
use holdfast_graph::{Graph, ObjectKey};
use holdfast_translate::httpproxy::listeners;

use super::related::targets;
use super::{NotReviewed, READERS_MAX, RELATED_OBJECTS_MAX, Reviewed};
use crate::engine::Engine;

/// Kinds of backends that policies target.
const BACKENDS: [&str; 2] = [kinds::SERVICE, kinds::BACKEND];

/// The state from which one object is reviewed.
#[derive(Clone, Debug)]
pub struct ReviewBasis {
    pub(super) settings: Settings,
    pub(super) now_ms: u64,
    /// All objects.
    pub(super) objects: ObjectSnapshot,
    /// The objects that the stored version of the object depends on, and the first ones that use it.
    pub(super) related: BTreeSet<ObjectKey>,
    /// Last valid versions and refusals of these objects.
    pub(super) restored: Restored,
}

/// Returns the state from which an object can be reviewed. The engine is not changed, and no object is translated.
///
/// # Errors
/// Returns an error if the object depends on too many others.
pub fn basis(engine: &Engine, reviewed: &Reviewed) -> Result<ReviewBasis, NotReviewed> {
    let key = &reviewed.key;
    let mut related = users(engine.graph(), key)?;
    // The routes to a backend that a policy targets for the first time do not read the policy yet.
    for target in targets(&reviewed.event).iter().filter(|target| BACKENDS.contains(&&*target.kind)) {
        related.extend(engine.graph().readers_of(target, READERS_MAX).into_iter().cloned());
    }
    if *key.group == *contour::GROUP {
        related.insert(listeners::gateway(engine.settings()));
    }
    add_dependencies(engine.graph(), &mut related)?;
    Ok(ReviewBasis {
        settings: engine.settings().clone(),
        now_ms: engine.now_ms(),
        objects: engine.objects().clone(),
        restored: excerpt(engine.scopes.iter(), &related),
        related,
    })
}

/// Returns the object itself and the objects that use it, the users of a policy among them also if the object is used by
/// the policy. An HTTPProxy is served as a part of every tree that includes it, so that all proxies above it are needed.
/// The users of a Gateway do not decide how the Gateway is served.
fn users(graph: &Graph, key: &ObjectKey) -> Result<BTreeSet<ObjectKey>, NotReviewed> {
    let mut found = BTreeSet::from([key.clone()]);
    let is_proxy = |key: &ObjectKey| *key.kind == *kinds::HTTP_PROXY;
    let is_policy = |key: &ObjectKey| *key.kind == *kinds::TRAFFIC_POLICY;
    if [kinds::GATEWAY, kinds::GATEWAY_CLASS].contains(&&*key.kind) {
        return Ok(found);
    }
    let mut queue = vec![key.clone()];
    while let Some(next) = queue.pop() {
        let most = if is_proxy(&next) { RELATED_OBJECTS_MAX } else { READERS_MAX };
        for reader in graph.readers_of(&next, most) {
            let is_user = next == *key || is_proxy(reader) || is_policy(&next);
            if is_user && found.insert(reader.clone()) && (is_proxy(reader) || is_policy(reader)) {
                queue.push(reader.clone());
            }
        }
        if found.len() > RELATED_OBJECTS_MAX {
            return Err(NotReviewed::TooManyRelated);
        }
    }
    Ok(found)
}

/// Adds everything that the objects read, directly or through others.
fn add_dependencies(graph: &Graph, related: &mut BTreeSet<ObjectKey>) -> Result<(), NotReviewed> {
    let mut queue: Vec<ObjectKey> = related.iter().cloned().collect();
    while let Some(next) = queue.pop() {
        for edge in graph.read_by(&next) {
            if related.insert(edge.to.key.clone()) {
                queue.push(edge.to.key.clone());
            }
        }
        if related.len() > RELATED_OBJECTS_MAX {
            return Err(NotReviewed::TooManyRelated);
        }
    }
    Ok(())
}
