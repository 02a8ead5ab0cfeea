//! What one client is due to be told of one type, in the order in which it came up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Resource, Version};

/// What a client was last sent under a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// It was told nothing.
    Nothing,
    /// It was told that there is no such resource.
    Absent,
    /// It was sent a resource.
    Has {
        /// Which; nothing where the client named a version that isn't one of ours.
        version: Option<Version>,
        /// The resource itself, where a state-of-the-world response may have to repeat it.
        resource: Option<Arc<Resource>>,
    },
}

impl Held {
    /// Was it sent exactly this version?
    pub(crate) fn is(&self, wanted: Version) -> bool {
        matches!(self, Held::Has { version: Some(version), .. } if *version == wanted)
    }

    /// The resource to repeat.
    pub(crate) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Held::Has { resource, .. } => resource.as_ref(),
            Held::Nothing | Held::Absent => None,
        }
    }
}

/// A name under which a client has something else than it should have.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    /// What it was last sent.
    pub(crate) held: Held,
    /// To be sent even where it is the same as what was last sent.
    pub(crate) again: bool,
    /// With how many resources at most it may travel in one response.
    pub(crate) company: usize,
    /// The number of the snapshot since when it is due.
    pub(crate) since: u64,
}

/// Names that are due, the longest waiting first.
///
/// By age and not by name, so that one that changes all the time cannot keep another waiting for ever.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    by_name: BTreeMap<Arc<str>, Due>,
    by_age: BTreeSet<(u64, Arc<str>)>,
}

impl Queue {
    pub(crate) fn put(&mut self, name: Arc<str>, due: Due) {
        let since = due.since;
        if let Some(old) = self.by_name.insert(name.clone(), due) {
            self.by_age.remove(&(old.since, name.clone()));
        }
        self.by_age.insert((since, name));
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Due> {
        let (name, due) = self.by_name.remove_entry(name)?;
        self.by_age.remove(&(due.since, name));
        Some(due)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Due> {
        self.by_name.get(name)
    }

    /// The one that waits longest.
    pub(crate) fn first(&self) -> Option<(&Arc<str>, &Due)> {
        let (_, name) = self.by_age.first()?;
        self.by_name.get_key_value(name)
    }

    /// The number of the snapshot since when the first one waits.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.by_age.first().map(|(since, _)| *since)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// In the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Due)> {
        self.by_name.iter()
    }

    /// Empties it.
    pub(crate) fn drain(&mut self) -> BTreeMap<Arc<str>, Due> {
        self.by_age.clear();
        std::mem::take(&mut self.by_name)
    }
}
