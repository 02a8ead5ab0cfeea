//! Queue of names that are due for one client and one type, in the order in which they became due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Resource, Version};

/// The last information that was sent to a client under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LastSent {
    /// Nothing was sent.
    Nothing,
    /// The client was informed that there is no such resource.
    Absent,
    /// A resource was sent.
    Has {
        /// The version; `None` where the client reported a version that is not one of this server.
        version: Option<Version>,
        /// The resource itself, where a state-of-the-world response may have to repeat it.
        resource: Option<Arc<Resource>>,
    },
}

impl LastSent {
    /// Returns whether exactly this version was sent.
    pub(crate) fn is(&self, wanted: Version) -> bool {
        matches!(self, LastSent::Has { version: Some(version), .. } if *version == wanted)
    }

    /// Returns the resource to repeat.
    pub(crate) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            LastSent::Has { resource, .. } => resource.as_ref(),
            LastSent::Nothing | LastSent::Absent => None,
        }
    }
}

/// A name under which a client differs from the resources that it should have.
#[derive(Clone, Debug)]
pub(crate) struct DueResource {
    /// What the client was last sent.
    pub(crate) held: LastSent,
    /// Whether the resource is sent even where it equals what was last sent.
    pub(crate) again: bool,
    /// Maximum number of resources in the response with this one.
    pub(crate) company: usize,
    /// The number of the snapshot since which the name is due.
    pub(crate) since: u64,
}

/// Names that are due, the longest waiting first.
///
/// The order is by age and not by name, so that a name that changes constantly cannot delay another forever.
#[derive(Debug, Default)]
pub(crate) struct DueQueue {
    by_name: BTreeMap<Arc<str>, DueResource>,
    by_age: BTreeSet<(u64, Arc<str>)>,
}

impl DueQueue {
    pub(crate) fn put(&mut self, name: Arc<str>, due: DueResource) {
        let since = due.since;
        if let Some(old) = self.by_name.insert(name.clone(), due) {
            self.by_age.remove(&(old.since, name.clone()));
        }
        self.by_age.insert((since, name));
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<DueResource> {
        let (name, due) = self.by_name.remove_entry(name)?;
        self.by_age.remove(&(due.since, name));
        Some(due)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&DueResource> {
        self.by_name.get(name)
    }

    /// Returns the name that has waited longest.
    pub(crate) fn first(&self) -> Option<(&Arc<str>, &DueResource)> {
        let (_, name) = self.by_age.first()?;
        self.by_name.get_key_value(name)
    }

    /// Returns the name that has waited longest of those that a predicate selects.
    pub(crate) fn first_of(&self, wanted: impl Fn(&str) -> bool) -> Option<(&Arc<str>, &DueResource)> {
        let (_, name) = self.by_age.iter().find(|(_, name)| wanted(name))?;
        self.by_name.get_key_value(name)
    }

    /// Returns the number of the snapshot since which the first name waits.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.by_age.first().map(|(since, _)| *since)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the entries in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &DueResource)> {
        self.by_name.iter()
    }

    /// Removes and returns all entries.
    pub(crate) fn drain(&mut self) -> BTreeMap<Arc<str>, DueResource> {
        self.by_age.clear();
        std::mem::take(&mut self.by_name)
    }
}
