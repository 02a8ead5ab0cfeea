//! What the Envoys of a line have acknowledged, by content.

use std::collections::HashSet;

use holdfast_graph::Content;
use holdfast_xds::Version;

use crate::translate::fleet::Composition;

/// Contents that are remembered; beyond it only what is served now stays.
pub(crate) const CONTENTS_MAX: usize = 400_000;

/// Contents that were acknowledged by an Envoy of the fleet, and those that the probe took.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    proven: HashSet<Content>,
    tried: HashSet<Content>,
    /// Routes with policies of which it is noted what they prove beside themselves.
    told: HashSet<Content>,
    /// Resources as a whole that the probe took.
    versions: HashSet<Version>,
    /// Resources as a whole about which the probe could not be asked.
    unjudged: HashSet<Version>,
    /// Clusters that an Envoy of the fleet took, perhaps on trial: it is not sent them again.
    clusters: HashSet<Version>,
}

impl Proof {
    /// Was it acknowledged by an Envoy of the fleet?
    pub(crate) fn is_proven(&self, content: &Content) -> bool {
        self.proven.contains(content)
    }

    /// Was it acknowledged by anybody?
    pub(crate) fn is_known_good(&self, content: &Content) -> bool {
        self.proven.contains(content) || self.tried.contains(content)
    }

    /// Did the probe take this resource as a whole?
    pub(crate) fn was_tried(&self, version: &Version) -> bool {
        self.versions.contains(version)
    }

    /// Was a resource acknowledged in this version?
    pub(crate) fn was_acknowledged(&self, version: &Version) -> bool {
        self.proven.contains(&Content(*version.as_bytes()))
    }

    /// An Envoy of the fleet acknowledged this content.
    pub(crate) fn prove(&mut self, content: Content) {
        self.tried.remove(&content);
        self.proven.insert(content);
    }

    /// Is it asked for the first time what this content proves beside itself?
    pub(crate) fn is_told_anew(&mut self, content: Content) -> bool {
        if self.told.len() >= CONTENTS_MAX {
            self.told.clear();
        }
        self.told.insert(content)
    }

    /// An Envoy of the fleet acknowledged this cluster.
    pub(crate) fn prove_cluster(&mut self, version: Version) {
        if self.clusters.len() >= CONTENTS_MAX {
            self.clusters.clear();
        }
        self.clusters.insert(version);
    }

    /// Was this cluster acknowledged by an Envoy of the fleet?
    pub(crate) fn is_proven_cluster(&self, version: &Version) -> bool {
        self.clusters.contains(version)
    }

    /// The probe took this content.
    pub(crate) fn note_tried(&mut self, content: Content) {
        if !self.proven.contains(&content) {
            self.tried.insert(content);
        }
    }

    /// The probe took this resource as a whole.
    pub(crate) fn note_tried_version(&mut self, version: Version) {
        if self.versions.len() >= CONTENTS_MAX {
            self.versions.clear();
        }
        self.versions.insert(version);
    }

    /// The probe could not be asked about this resource: Envoys that serve have to be, one first.
    pub(crate) fn note_unjudged(&mut self, version: Version) {
        if self.unjudged.len() >= CONTENTS_MAX {
            self.unjudged.clear();
        }
        self.unjudged.insert(version);
    }

    /// Could the probe not be asked about this resource?
    pub(crate) fn is_unjudged(&self, version: &Version) -> bool {
        self.unjudged.contains(version)
    }

    /// There is another probe, or none: whatever could not be asked may be now.
    pub(crate) fn forget_unjudged(&mut self) {
        self.unjudged.clear();
    }

    /// Forgets what is not served any more, where too much is remembered.
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
