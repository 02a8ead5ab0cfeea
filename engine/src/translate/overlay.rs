//! What differs from the desired objects in what one fleet is served: a plan, as translation can use it.
//!
//! Data only: which object is served in which version, and which units are closed, is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::policy::PolicyPlan;
use crate::object::Object;

/// How a closed unit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Manner {
    /// A direct response at the matches as they are written.
    AsWritten,
    /// A direct response at what is left of the matches when all that can be at fault is taken away.
    Narrowed,
    /// Nothing is left of it.
    LeftOut,
}

/// A unit that is not served as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// How it is answered.
    pub(crate) how: Manner,
    /// Why, in a sentence.
    pub(crate) message: Arc<str>,
}

/// The differences of one fleet from what is desired.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overlay {
    /// Objects that are read in another version.
    pub(crate) objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Objects that are read as if they were not there.
    pub(crate) hidden: BTreeSet<ObjectKey>,
    /// Units (`rules[1]`) that are closed.
    pub(crate) closed: BTreeMap<ObjectKey, BTreeMap<Arc<str>, Closing>>,
    /// What policies say that do not say what they are desired to: an earlier version of them, or nothing, so that what
    /// they are attached to is closed.
    pub(crate) policies: BTreeMap<ObjectKey, Arc<PolicyPlan>>,
}

impl Overlay {
    /// True where everything is served as desired.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.hidden.is_empty() && self.closed.is_empty() && self.policies.is_empty()
    }

    /// Every object that the overlay speaks of.
    pub(crate) fn keys(&self) -> BTreeSet<&ObjectKey> {
        self.objects.keys().chain(&self.hidden).chain(self.closed.keys()).chain(self.policies.keys()).collect()
    }

    /// Is the object read otherwise than it is desired?
    pub(crate) fn alters(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.hidden.contains(key)
    }

    /// Is the object itself served otherwise in the two overlays?
    pub(crate) fn differs_at(&self, other: &Overlay, key: &ObjectKey) -> bool {
        self.objects.get(key) != other.objects.get(key)
            || self.hidden.contains(key) != other.hidden.contains(key)
            || self.closed.get(key) != other.closed.get(key)
            || self.policies.get(key) != other.policies.get(key)
    }
}
