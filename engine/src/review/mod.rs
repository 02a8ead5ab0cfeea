//! Review of one object before it is stored: its own faults, and what would be served instead of it.
//!
//! A second engine translates the object together with the objects that it depends on, and nothing else. It starts with
//! the last valid versions and refusals of these objects, as after a restart, so that its plan is the one that the
//! running engine would derive. The running engine only answers which objects these are ([`basis`]); it is never
//! changed, and the work that depends on the content of the object is done elsewhere.
//!
//! The result is about the object under review. Faults of other objects, and faults that follow from them, are left
//! out, and so are conflicts with objects that it does not depend on.

mod basis;
mod owner;
mod related;
mod served;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use holdfast_api::apis::decode::{Decoded, decode};
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_fallback::event::Event;
use holdfast_graph::{Detected, ObjectKey};
use serde_json::Value;

pub use self::basis::{ReviewBasis, basis};
pub use self::owner::ReviewOwner;
pub use self::served::{EffectKind, ReviewEffect};
use crate::engine::Engine;

/// Maximum number of objects that one review translates, without grants and classes.
pub const RELATED_OBJECTS_MAX: usize = 1_000;
/// Maximum number of objects that use the object under review and are translated with it: they show what clients would
/// get.
pub const READERS_MAX: usize = 32;

/// The result of a review.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Review {
    /// Whether Holdfast is responsible for the object.
    pub owner: ReviewOwner,
    /// The faults of the object that do not follow from faults of other objects, in order. A fault of the content of a
    /// Secret, ConfigMap or Service that the object uses has the class of a reference: another owner repairs it.
    pub faults: Vec<Fault>,
    /// Why Envoys refused this content earlier, if they did.
    pub refused: Option<Arc<str>>,
    /// What would be served instead of the object or because of it; empty if it would be served as written.
    pub served: Vec<ReviewEffect>,
}

/// The reason why an object is not reviewed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReviewed {
    /// The object depends on too many others.
    #[error("it depends on more than {RELATED_OBJECTS_MAX} objects")]
    TooManyRelated,
    /// The document is not an object of a kind that Holdfast reads.
    #[error("{0}")]
    Unknown(String),
}

/// An object to be reviewed.
#[derive(Clone, Debug)]
pub struct Reviewed {
    key: ObjectKey,
    event: Event,
}

impl Reviewed {
    /// Reads the document of an object of an API server.
    ///
    /// # Errors
    /// Returns an error if Holdfast does not read the kind, or the object has no name.
    pub fn read(document: Value) -> Result<Self, NotReviewed> {
        match decode(document, None) {
            Decoded::Object(object, faults) => {
                Ok(Self { key: object.key.clone(), event: Event::Applied(object, faults) })
            }
            Decoded::Unusable(key, faults) => Ok(Self { key: key.clone(), event: Event::Unusable(key, faults) }),
            Decoded::Foreign(why) | Decoded::Nameless(why) => Err(NotReviewed::Unknown(why)),
            Decoded::Unserved(fault) => Err(NotReviewed::Unknown(fault.message)),
        }
    }

    /// Returns the identity of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }
}

/// Reviews an object from the basis that was made for it.
///
/// # Errors
/// Returns an error if the object depends on too many others.
pub fn review(basis: ReviewBasis, reviewed: &Reviewed) -> Result<Review, NotReviewed> {
    let events = related::related(&basis, reviewed)?;
    let objects = basis.objects.clone();
    let engine = translated(&basis, events.clone());
    let key = &reviewed.key;
    let fallback = engine.fallback();
    let by_envoy = |detected| matches!(detected, Detected::Probe | Detected::Nack);
    let mut broken = fallback.broken_objects.iter();
    let refused = broken.find(|broken| broken.object.is(key) && by_envoy(broken.detected_by));
    let mut faults = own_faults(&engine, key, &objects);
    for kinds in CONTENT_OF_OTHERS {
        if faults.iter().any(|fault| fault.class == Class::Invalid) {
            let events = events.iter().filter(|event| !is_of_kinds(event, kinds)).cloned();
            let without = translated(&basis, events.collect());
            yield_to_owners(&mut faults, &own_faults(&without, key, without.objects()));
        }
    }
    Ok(Review {
        owner: owner::owner(&engine, key),
        faults,
        refused: refused.map(|broken| broken.message.as_str().into()),
        served: served::served(&engine, &fallback, key),
    })
}

/// Returns an engine that starts with the records of the basis and has translated the events.
fn translated(basis: &ReviewBasis, events: Vec<Event>) -> Engine {
    let mut engine = Engine::new(basis.settings.clone());
    engine.handle(vec![Event::Clock(basis.now_ms), Event::Restored(Box::new(basis.restored.clone()))]);
    engine.handle(events);
    engine
}

/// Returns the faults of an object that its owner can repair, in order. A fault that follows from a missing object is one
/// of them, since the missing object has no fault of its own that its owner could read.
fn own_faults(engine: &Engine, key: &ObjectKey, objects: &ObjectSnapshot) -> Vec<Fault> {
    let is_there = |key: &ObjectKey| objects.get(key).is_some() || objects.is_unreadable(key);
    let is_own = |fault: &Fault| fault.object == *key && fault.cause.as_ref().is_none_or(|cause| !is_there(cause));
    let own = |fault: Fault| match fault.cause {
        Some(_) if fault.class == Class::Invalid => Fault { class: Class::Referential, ..fault },
        _ => fault,
    };
    engine.faults().into_iter().filter(is_own).map(own).collect()
}

/// Kinds of Kubernetes with content that others own, in the groups that are left out together: without the Service, the
/// Secrets of its connections are not read. Such objects have no status, and their faults are reported at the objects that
/// use them.
const CONTENT_OF_OTHERS: [&[&str]; 2] = [&[kinds::SECRET, kinds::CONFIG_MAP], &[kinds::SERVICE]];

fn is_of_kinds(event: &Event, kinds: &[&str]) -> bool {
    match event {
        Event::Applied(object, _) => kinds.contains(&&*object.key.kind),
        Event::Unusable(key, _) => kinds.contains(&&*key.kind),
        _ => false,
    }
}

/// Gives a fault the class of a reference, if its field has another fault where the content of others does not exist, such
/// as a missing Secret: then that content is at fault, and the owner of the reviewed object cannot repair it.
fn yield_to_owners(faults: &mut [Fault], without: &[Fault]) {
    for fault in faults.iter_mut().filter(|fault| fault.class == Class::Invalid) {
        let mut instead = without.iter().filter(|other| other.field == fault.field && other.is_error()).peekable();
        if instead.peek().is_some() && instead.all(|other| other.message != fault.message) {
            fault.class = Class::Referential;
        }
    }
}
