//! Overlay: the differences between the desired objects and those that one fleet is served. It is a plan in the form
//! that translation uses.
//!
//! An overlay is data only: other modules decide the served version of each object and the closed units.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::object::Object;
use holdfast_graph::ObjectKey;

use crate::outcome::delegation::{RouteSelection, selections};
use crate::outcome::policy::PolicyPlan;

/// How a closed unit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Manner {
    /// A direct response at the matches as written.
    AsWritten,
    /// A direct response at the narrowed matches, without any part that may be the reason of the refusal.
    Narrowed,
    /// The unit is left out.
    LeftOut,
}

/// A unit that is not served as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The manner of the answer.
    pub how: Manner,
    /// The reason, as a sentence.
    pub message: Arc<str>,
}

/// The closed units of one object.
pub type ClosedSections = BTreeMap<Arc<str>, Closing>;

/// Differences between what one fleet is served and the desired objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Objects that are read in another version.
    pub objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Objects that are read as missing.
    pub hidden: BTreeSet<ObjectKey>,
    /// Units (`rules[1]`) that are closed.
    pub closed: BTreeMap<ObjectKey, ClosedSections>,
    /// Plans of policies that differ from the desired ones: those of an earlier version, or empty ones, which close the
    /// targets of the policy.
    pub policies: BTreeMap<ObjectKey, Arc<PolicyPlan>>,
}

impl Overlay {
    /// Returns true if everything is served as desired.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.hidden.is_empty() && self.closed.is_empty() && self.policies.is_empty()
    }

    /// Returns every object that the overlay mentions.
    pub fn keys(&self) -> BTreeSet<&ObjectKey> {
        self.objects.keys().chain(&self.hidden).chain(self.closed.keys()).chain(self.policies.keys()).collect()
    }

    /// Returns whether the object is read in another version, or as missing.
    pub fn alters(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.hidden.contains(key)
    }

    /// Returns whether an HTTPRoute delegates to the routes of a selection, in the version in which it is read.
    pub(crate) fn delegates_to(&self, selection: &RouteSelection) -> bool {
        self.objects.iter().any(|(key, object)| match &object.body {
            Body::HttpRoute(route) => selections(route, &key.namespace).any(|one| one == *selection),
            _ => false,
        })
    }

    /// Returns whether the object is served differently under the two overlays.
    pub(crate) fn differs_at(&self, other: &Overlay, key: &ObjectKey) -> bool {
        self.objects.get(key) != other.objects.get(key)
            || self.hidden.contains(key) != other.hidden.contains(key)
            || self.closed.get(key) != other.closed.get(key)
            || self.policies.get(key) != other.policies.get(key)
    }
}
