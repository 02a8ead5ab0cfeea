//! Outliers: Envoys that refuse content that others of their build accept. The problem is local to the Envoy; no object
//! is convicted for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use holdfast_xds::{ResourceType, Snapshot, Version};

use super::scope::FallbackScope;

/// Limit of refused versions of a resource that are remembered for one outlier; beyond the limit, the oldest is
/// forgotten.
const VERSIONS_MAX: usize = 64;

/// The refusals of one outlier, and its earlier configuration.
#[derive(Clone, Debug)]
pub(crate) struct Outlier {
    /// The refused versions by resource, the newest last.
    refused: BTreeMap<(ResourceType, Arc<str>), VecDeque<Version>>,
    /// The configuration that the outlier accepted before.
    pub last: Snapshot,
}

impl Outlier {
    /// Returns all refused versions of all resources.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&(ResourceType, Arc<str>), &Version)> {
        self.refused.iter().flat_map(|(slot, versions)| versions.iter().map(move |version| (slot, version)))
    }

    /// Returns the configuration that the outlier is offered instead of the one for all others; `None` if it is offered
    /// the common one again.
    ///
    /// Routes need the clusters of the same configuration, so an outlier that refused routes keeps its whole earlier
    /// configuration. Any other resource is independent: a listener with a port that is in use on the outlier's machine
    /// must not keep route changes from it.
    pub(crate) fn offered(&self, everyone: &Snapshot) -> Option<Snapshot> {
        // The outlier may try resources that are newer than its refused ones.
        let is_newest = |((kind, name), versions): &(&(ResourceType, Arc<str>), &VecDeque<Version>)| {
            everyone.get(*kind, name).is_some_and(|newest| versions.contains(&newest.version))
        };
        let refused: Vec<_> = self.refused.iter().filter(is_newest).map(|(slot, _)| slot).collect();
        if refused.is_empty() {
            return None;
        }
        if refused.iter().any(|(kind, _)| *kind == ResourceType::Route) && !self.last.is_empty() {
            return Some(self.last.clone());
        }
        let mut offered = everyone.clone();
        for (kind, name) in refused {
            match self.last.get(*kind, name) {
                Some(resource) => offered.insert(*kind, resource.clone()),
                None => offered.remove(*kind, name),
            }
        }
        Some(offered)
    }
}

impl FallbackScope {
    /// Records that an Envoy refused content that others of its build accepted. It keeps its configuration.
    pub(crate) fn note_outlier(
        &mut self,
        node: &Arc<str>,
        slot: (ResourceType, Arc<str>),
        version: Version,
        message: &str,
    ) {
        let last = self.previous.clone();
        self.keeps(node, slot, version, message, &last);
    }

    /// Records that an Envoy keeps its configuration while others have the refused content.
    pub(super) fn keeps(
        &mut self,
        node: &Arc<str>,
        slot: (ResourceType, Arc<str>),
        version: Version,
        message: &str,
        last: &Snapshot,
    ) {
        self.alone.insert(node.clone(), message.to_owned());
        let fresh = || Outlier { refused: BTreeMap::new(), last: last.clone() };
        let outlier = self.outliers.entry(node.clone()).or_insert_with(fresh);
        if outlier.last.get(slot.0, &slot.1).is_some_and(|last| last.version == version) {
            // The Envoy never had this version: there is nothing to go back to.
            outlier.last.remove(slot.0, &slot.1);
        }
        let versions = outlier.refused.entry(slot).or_default();
        versions.retain(|known| *known != version);
        versions.push_back(version);
        if versions.len() > VERSIONS_MAX {
            versions.pop_front();
        }
    }

    /// Checks whether an outlier has an earlier form of each listener and route configuration that it refused.
    pub fn serves_alone(&self, node: &str) -> bool {
        let Some(outlier) = self.outliers.get(node) else { return true };
        let served = |kind: &ResourceType| matches!(kind, ResourceType::Listener | ResourceType::Route);
        let mut refused = outlier.refused.keys().filter(|(kind, _)| served(kind));
        refused.all(|(kind, name)| outlier.last.get(*kind, name).is_some())
    }

    /// Records that an Envoy accepted a resource. If it had refused another version of that resource, it is no longer
    /// an outlier for it.
    pub(crate) fn came_back(&mut self, node: &str, kind: ResourceType, name: &Arc<str>, version: Version) {
        let Some(outlier) = self.outliers.get_mut(node) else { return };
        let everyone = self.everyone.as_ref();
        let newest = |kind: ResourceType, name: &str| everyone.and_then(|everyone| everyone.get(kind, name));
        if newest(kind, name).is_some_and(|newest| newest.version == version) {
            outlier.refused.remove(&(kind, name.clone()));
        }
        outlier.refused.retain(|(kind, name), _| newest(*kind, name).is_some());
        if outlier.refused.is_empty() {
            self.outliers.remove(node);
            self.alone.remove(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_graph::Origins;
    use holdfast_xds::Resource;

    use super::*;

    fn snapshot(resources: &[(ResourceType, &str, &'static str)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (kind, name, body) in resources {
            snapshot.insert(*kind, Arc::new(Resource::new(*name, body.as_bytes(), Origins::default())));
        }
        snapshot
    }

    fn outlier(refused: &[(ResourceType, &str, &'static str)], last: Snapshot) -> Outlier {
        let of = snapshot(refused);
        let version = |(kind, name, _): &(ResourceType, &str, &str)| {
            of.get(*kind, name).map(|resource| ((*kind, resource.name.clone()), VecDeque::from([resource.version])))
        };
        Outlier { refused: refused.iter().filter_map(version).collect(), last }
    }

    #[test]
    fn a_listener_that_is_refused_alone_holds_nothing_else_back() {
        use ResourceType::{Listener, Route};
        let everyone = snapshot(&[(Listener, "taken", "2"), (Listener, "free", "2"), (Route, "r", "2")]);
        let fresh = outlier(&[(Listener, "taken", "2")], Snapshot::default());
        assert_eq!(fresh.offered(&everyone), Some(snapshot(&[(Listener, "free", "2"), (Route, "r", "2")])));
        let known = outlier(&[(Listener, "taken", "2")], snapshot(&[(Listener, "taken", "1"), (Route, "r", "1")]));
        assert_eq!(
            known.offered(&everyone),
            Some(snapshot(&[(Listener, "taken", "1"), (Listener, "free", "2"), (Route, "r", "2")]))
        );
    }

    #[test]
    fn routes_that_are_refused_alone_keep_all_of_their_time_and_an_envoy_that_had_nothing_gets_the_rest() {
        use ResourceType::{Cluster, Route};
        let everyone = snapshot(&[(Cluster, "new", "2"), (Route, "r", "2")]);
        let last = snapshot(&[(Cluster, "old", "1"), (Route, "r", "1")]);
        assert_eq!(outlier(&[(Route, "r", "2")], last.clone()).offered(&everyone), Some(last.clone()));
        let fresh = outlier(&[(Route, "r", "2")], Snapshot::default());
        assert_eq!(fresh.offered(&everyone), Some(snapshot(&[(Cluster, "new", "2")])));
        assert_eq!(outlier(&[(Route, "r", "1")], last).offered(&everyone), None, "what is newer may be tried");
    }
}
