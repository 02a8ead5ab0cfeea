//! The resources that a client has acknowledged, as long as they differ from those that it should have. A client that is
//! in step costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::Resource;

/// Acknowledged resources of one client and one type that are not the current ones, by name.
#[derive(Debug, Default)]
pub(crate) struct AcceptedResources {
    earlier: BTreeMap<Arc<str>, Arc<Resource>>,
    /// Names of which it is not known what the client has, for example since it refused others of the same response.
    unknown: BTreeSet<Arc<str>>,
}

impl AcceptedResources {
    /// Records that the client has acknowledged this resource, and not the current one.
    pub(crate) fn keep(&mut self, name: Arc<str>, resource: Arc<Resource>) {
        self.unknown.remove(&name);
        self.earlier.insert(name, resource);
    }

    /// Records that the current resource becomes an earlier one, which the client had.
    pub(crate) fn becomes_earlier(&mut self, name: Arc<str>, resource: Arc<Resource>) {
        if !self.unknown.contains(&name) {
            self.keep(name, resource);
        }
    }

    /// Records that it is not known what the client has.
    pub(crate) fn lose(&mut self, name: Arc<str>) {
        self.earlier.remove(&name);
        self.unknown.insert(name);
    }

    /// Records that the client has the current resource, or none.
    pub(crate) fn forget(&mut self, name: &str) {
        self.unknown.remove(name);
        self.earlier.remove(name);
    }

    /// Returns the resource of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.earlier.get(name)
    }
}
