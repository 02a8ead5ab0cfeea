//! What different Envoys of one fleet should have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::{OFFERED_BUILDS_MAX, OFFERED_NODES_MAX};
use crate::{ResourceType, Snapshot, Version};

/// What the Envoys of a fleet should have: all of them the same, but for builds and nodes that are named.
///
/// An entry holds all resources, not only those that differ. It is best made from `everyone`, or from what the entry
/// was before: then only what differs costs anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offers {
    /// For who is not named below.
    pub everyone: Snapshot,
    /// For Envoys of a build ([`EnvoyId::build`](crate::EnvoyId::build)); at most [`OFFERED_BUILDS_MAX`].
    pub builds: BTreeMap<Arc<str>, Snapshot>,
    /// For the Envoys with a `node.id`; at most [`OFFERED_NODES_MAX`].
    pub nodes: BTreeMap<Arc<str>, Snapshot>,
    /// Only for Envoys that have nothing yet. One that comes with what another server gave it says so, and is sent
    /// nothing at all until something is published that is for all.
    pub fresh_only: bool,
    /// Who is not named by its node waits: it is sent nothing until something is published that is for it.
    pub waiting: Waiting,
    /// Refused contents that the Envoys with a `node.id` are sent once more; at most [`OFFERED_NODES_MAX`] nodes. An
    /// entry stays as it is until its content is to be sent another time.
    pub again: BTreeMap<Arc<str>, AgainByName>,
}

/// What is sent once more, by type and name.
pub type AgainByName = BTreeMap<(ResourceType, Arc<str>), Again>;

/// A content that was refused for a reason that is not in it, and is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The refused content; another one of the same name is not concerned.
    pub version: Version,
    /// Rises with every time that the content is to be sent.
    pub turn: u64,
}

/// Whose turn has not come yet. Nodes that are named never wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Do those wait whose build is not named?
    pub everyone: bool,
    /// Builds that are named, and wait.
    pub builds: BTreeSet<Arc<str>>,
}

impl Offers {
    /// The same for all.
    pub fn everyone(snapshot: Snapshot) -> Self {
        Self { everyone: snapshot, ..Self::default() }
    }

    /// What an Envoy should have: what its node is offered, else what its build is, else what everyone is.
    pub fn of(&self, build: &str, node: &str) -> &Snapshot {
        self.nodes.get(node).or_else(|| self.builds.get(build)).unwrap_or(&self.everyone)
    }

    /// Is an Envoy sent nothing at all for now?
    pub fn waits(&self, build: &str, node: &str) -> bool {
        let of_build = || {
            if self.builds.contains_key(build) { self.waiting.builds.contains(build) } else { self.waiting.everyone }
        };
        !self.nodes.contains_key(node) && of_build()
    }

    /// Leaves out the entries beyond the limits, the last in the order of their names; says how many these are.
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
