//! Offers: the resources that different Envoys of one fleet should have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::{OFFERED_BUILDS_MAX, OFFERED_NODES_MAX};
use crate::{ResourceType, Snapshot, Version};

/// The resources that the Envoys of a fleet should have: equal for all, except for the listed builds and nodes.
///
/// An entry has all resources, not only the differences. It is best made from `everyone`, or from the previous entry:
/// then the cost depends on the differences only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offers {
    /// For Envoys without an entry below.
    pub everyone: Snapshot,
    /// For the Envoys of a build ([`EnvoyId::build`](crate::EnvoyId::build)); at most [`OFFERED_BUILDS_MAX`].
    pub builds: BTreeMap<Arc<str>, Snapshot>,
    /// For the Envoys with a `node.id`; at most [`OFFERED_NODES_MAX`].
    pub nodes: BTreeMap<Arc<str>, Snapshot>,
    /// Whether the offers are only for Envoys without a configuration. An Envoy with a configuration of another server
    /// reports it, and is sent nothing until something is published for all Envoys.
    pub fresh_only: bool,
    /// Envoys that wait, unless their node has an entry: they are sent nothing until something is published for them.
    pub waiting: Waiting,
    /// Refused contents that are sent to the Envoys with a `node.id` once more; at most [`OFFERED_NODES_MAX`] nodes. An
    /// entry stays unchanged until its content is to be sent another time.
    pub again: BTreeMap<Arc<str>, AgainByName>,
}

/// Contents that are sent once more, by type and name.
pub type AgainByName = BTreeMap<(ResourceType, Arc<str>), Again>;

/// A content that was refused for a reason outside of the content, and is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The refused content; another content of the same name is not affected.
    pub version: Version,
    /// Number that increases each time the content is to be sent.
    pub turn: u64,
}

/// Envoys that wait for their turn. Nodes with an entry never wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Whether the Envoys wait that have a build without an entry.
    pub everyone: bool,
    /// Builds with an entry that wait.
    pub builds: BTreeSet<Arc<str>>,
}

impl Offers {
    /// Returns equal offers for all Envoys.
    pub fn everyone(snapshot: Snapshot) -> Self {
        Self { everyone: snapshot, ..Self::default() }
    }

    /// Returns the resources that an Envoy should have: the offer for its node, else that for its build, else that for
    /// everyone.
    pub fn of(&self, build: &str, node: &str) -> &Snapshot {
        self.nodes.get(node).or_else(|| self.builds.get(build)).unwrap_or(&self.everyone)
    }

    /// Returns whether an Envoy is sent nothing for now.
    pub fn waits(&self, build: &str, node: &str) -> bool {
        let of_build = || {
            if self.builds.contains_key(build) { self.waiting.builds.contains(build) } else { self.waiting.everyone }
        };
        !self.nodes.contains_key(node) && of_build()
    }

    /// Removes the entries beyond the limits, the last in the order of their names; returns their number.
    pub(crate) fn limit(&mut self) -> usize {
        cut(&mut self.again, OFFERED_NODES_MAX);
        cut(&mut self.builds, OFFERED_BUILDS_MAX) + cut(&mut self.nodes, OFFERED_NODES_MAX)
    }
}

fn cut<T>(entries: &mut BTreeMap<Arc<str>, T>, most: usize) -> usize {
    let beyond = entries.len().saturating_sub(most);
    for _ in 0..beyond {
        entries.pop_last();
    }
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_limits_are_left_out_by_name() {
        let name = |n: usize| Arc::from(format!("{n:05}"));
        let mut offers = Offers {
            builds: (0..OFFERED_BUILDS_MAX + 1).map(|n| (name(n), Snapshot::default())).collect(),
            nodes: (0..OFFERED_NODES_MAX + 2).map(|n| (name(n), Snapshot::default())).collect(),
            ..Offers::default()
        };
        assert_eq!(offers.limit(), 3);
        assert_eq!(offers.builds.last_key_value().map(|(name, _)| name.clone()), Some(name(OFFERED_BUILDS_MAX - 1)));
        assert_eq!(offers.nodes.last_key_value().map(|(name, _)| name.clone()), Some(name(OFFERED_NODES_MAX - 1)));
        assert_eq!(offers.limit(), 0);
    }
}
