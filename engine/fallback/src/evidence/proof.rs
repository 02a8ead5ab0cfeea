//! Contents that the Envoys of a scope have acknowledged.

use std::collections::HashSet;

use holdfast_graph::Content;
use holdfast_translate::fleet::Composition;
use holdfast_xds::{Resource, ResourceType, Version};

use super::acknowledged::proven;

/// Limit of contents that are remembered; beyond the limit only served contents are kept.
pub(crate) const CONTENTS_MAX: usize = 400_000;

/// Contents that an Envoy of the fleet acknowledged, and contents that the probe accepted.
#[derive(Debug, Default)]
pub struct Proof {
    proven: HashSet<Content>,
    tried: HashSet<Content>,
    /// Routes with policies for which the additionally proven contents are recorded.
    recorded: HashSet<Content>,
    /// Resources that the probe accepted as a whole.
    versions: HashSet<Version>,
    /// Resources that the probe could not judge as a whole.
    unjudged: HashSet<Version>,
    /// Clusters that an Envoy of the fleet accepted, perhaps on trial: it is not sent them again.
    clusters: HashSet<Version>,
}

impl Proof {
    /// Checks whether an Envoy of the fleet acknowledged this content.
    pub(crate) fn is_proven(&self, content: &Content) -> bool {
        self.proven.contains(content)
    }

    /// Checks whether an Envoy of the fleet or the probe accepted this content.
    pub(crate) fn is_known_good(&self, content: &Content) -> bool {
        self.proven.contains(content) || self.tried.contains(content)
    }

    /// Checks whether the probe accepted this resource as a whole.
    pub(crate) fn was_tried(&self, version: &Version) -> bool {
        self.versions.contains(version)
    }

    /// Checks whether a resource was acknowledged in this version.
    pub(crate) fn was_acknowledged(&self, version: &Version) -> bool {
        self.proven.contains(&Content(*version.as_bytes()))
    }

    /// Records that an Envoy of the fleet acknowledged this content.
    pub fn prove(&mut self, content: Content) {
        self.tried.remove(&content);
        self.proven.insert(content);
    }

    /// Records content that was acknowledged in an earlier run, or by Envoys of another replica, as proven.
    pub(crate) fn prove_restored(&mut self, kind: ResourceType, resource: &Resource) {
        proven(kind, resource).into_iter().for_each(|content| self.prove(content));
    }

    /// Checks whether this is the first call for this content, so that its additionally proven contents are to be
    /// recorded.
    pub(crate) fn is_first_time(&mut self, content: Content) -> bool {
        if self.recorded.len() >= CONTENTS_MAX {
            self.recorded.clear();
        }
        self.recorded.insert(content)
    }

    /// Records that an Envoy of the fleet acknowledged this cluster.
    pub(crate) fn prove_cluster(&mut self, version: Version) {
        if self.clusters.len() >= CONTENTS_MAX {
            self.clusters.clear();
        }
        self.clusters.insert(version);
    }

    /// Adds the clusters that Envoys of another scope of the same build acknowledged.
    pub(crate) fn prove_clusters_of(&mut self, other: &Self) {
        other.clusters.iter().for_each(|version| self.prove_cluster(*version));
    }

    /// Checks whether an Envoy of the fleet acknowledged this cluster.
    pub(crate) fn is_proven_cluster(&self, version: &Version) -> bool {
        self.clusters.contains(version)
    }

    /// Records that the probe accepted this content.
    pub(crate) fn note_tried(&mut self, content: Content) {
        if !self.proven.contains(&content) {
            self.tried.insert(content);
        }
    }

    /// Records that the probe accepted this resource as a whole.
    pub(crate) fn note_tried_version(&mut self, version: Version) {
        if self.versions.len() >= CONTENTS_MAX {
            self.versions.clear();
        }
        self.versions.insert(version);
    }

    /// Records that the probe could not judge this resource: serving Envoys have to try it, one of them first.
    pub(crate) fn note_unjudged(&mut self, version: Version) {
        if self.unjudged.len() >= CONTENTS_MAX {
            self.unjudged.clear();
        }
        self.unjudged.insert(version);
    }

    /// Checks whether the probe could not judge this resource.
    pub(crate) fn is_unjudged(&self, version: &Version) -> bool {
        self.unjudged.contains(version)
    }

    /// Clears the record of resources that the probe could not judge, after the probe changed.
    pub(crate) fn forget_unjudged(&mut self) {
        self.unjudged.clear();
    }

    /// Removes contents that are no longer served, if the limit is exceeded.
    pub(crate) fn shrink<'a>(&mut self, served: impl Iterator<Item = &'a Composition>) {
        if self.proven.len() + self.tried.len() <= CONTENTS_MAX {
            return;
        }
        let served: HashSet<Content> = served
            .flat_map(|composition| composition.values())
            .flat_map(|parts| parts.iter().map(|(c, _)| *c))
            .collect();
        self.proven.retain(|content| served.contains(content));
        self.tried.retain(|content| served.contains(content));
    }
}
