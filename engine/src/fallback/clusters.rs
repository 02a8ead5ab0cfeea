//! Who can be at fault for a refused cluster: of the objects that it is made of those that changed.
//!
//! The bytes of a cluster do not tell who said what. So it is asked what the cluster is where one of these objects is of
//! today and the others are as they were last valid. Names in messages are not asked.
//!
//! A route is at fault with the parts of it that use the cluster, whose bytes name it with everything that makes it
//! another. Any other object is at fault with its share in the cluster: that content is refused wherever the object makes
//! just this cluster, and an edit of anything in the cluster releases it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::{ResourceType, Version};

use super::around::Around;
use super::hybrid::hybrid;
use super::line::Line;
use super::readmission::Subject;
use super::shapes::shape;
use crate::encode::{self, names};
use crate::features::remote::Remote;
use crate::object::Object;
use crate::translate::overlay::Overlay;

/// What an object has to do with a cluster, as a content that can be refused.
pub(crate) fn share(cluster: Version, key: &ObjectKey) -> Content {
    let text = format!("share in {cluster} of {key}");
    Content(*Version::of(text.as_bytes()).as_bytes())
}

/// Does one of those under suspicion make a cluster as it did, with what is desired or with what stands in?
pub(super) fn is_made(gateway: &ObjectKey, subject: &Subject, over: &Overlay, around: &Around<'_>) -> bool {
    let (key, translator) = (&subject.node.key, &around.translator);
    let under = || translator.clusters_through_under(gateway, key, over, around.objects);
    let is_own = |(cluster, _): &(Version, Node)| subject.contents.contains_key(&share(*cluster, key));
    translator.clusters_through(gateway, key).iter().any(is_own) || under().iter().any(is_own)
}

/// What is known of a cluster before it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It is taken, or there is none.
    Good,
    /// It is refused.
    Refused,
    /// It has to be tried: these are the clusters.
    Nothing(Vec<Bytes>),
}

impl Line {
    /// Who can be at fault for a cluster of the line's fleet. A route comes after what it uses.
    pub(super) fn cluster_suspects(&self, name: &str, around: &Around<'_>) -> Vec<Subject> {
        let Some((remote, parts)) = around.translator.users(&self.fleet, name) else { return Vec::new() };
        let version = Version::of(&encode::cluster::remote(&remote));
        let mut routes: BTreeMap<ObjectKey, BTreeMap<Content, Node>> = BTreeMap::new();
        // What was acknowledged is innocent: the name of a cluster need not say all that is in it.
        for (content, node) in parts.into_iter().filter(|(content, _)| !self.proof.is_proven(content)) {
            routes.entry(node.key.clone()).or_default().insert(content, node);
        }
        let changed =
            |key: &ObjectKey| !self.derived.overlay.objects.contains_key(key) && self.has_changed(key, around);
        let (edited, others): (Vec<_>, Vec<_>) = routes.into_iter().partition(|(key, _)| changed(key));
        let subject = |(key, contents)| Subject { node: Node::whole(key), contents };
        // What is new as well cannot be told apart from the route that is.
        let told_apart = |key: &&ObjectKey| edited.is_empty() || self.newest_valid(key, around).is_some();
        let origins = remote.origins().into_iter().filter(|key| changed(key)).filter(told_apart);
        let mut suspects: Vec<Subject> = origins
            .map(|key| {
                let node = Node::whole(key.clone());
                Subject { node: node.clone(), contents: BTreeMap::from([(share(version, key), node)]) }
            })
            .collect();
        suspects.extend(edited.into_iter().map(subject));
        if suspects.is_empty() {
            // Nobody changed, and yet it is another: whoever uses it answers for it.
            suspects.extend(others.into_iter().map(subject));
        }
        suspects
    }

    /// What is known of a cluster as it is where only some of those who changed are of today.
    pub(super) fn known_with(&self, name: &str, today: &[Subject], all: &[Subject], around: &Around<'_>) -> Known {
        let Some((remote, parts)) = around.translator.users(&self.fleet, name) else { return Known::Good };
        let mut overlay = self.derived.overlay.clone();
        for key in all.iter().filter(|subject| !today.contains(subject)).map(|subject| &subject.node.key) {
            let desired = around.objects.get(key).map(|object| &**object);
            match self.newest_valid(key, around) {
                Some(last) => drop(overlay.objects.insert(key.clone(), hybrid(desired, last))),
                None => drop(overlay.hidden.insert(key.clone())),
            }
        }
        let units: BTreeSet<Node> = parts.into_iter().map(|(_, node)| node).collect();
        let routes: BTreeSet<&ObjectKey> = units.iter().map(|node| &node.key).collect();
        let mut unknown = BTreeMap::new();
        for key in routes.into_iter().filter(|key| !overlay.hidden.contains(*key)) {
            let Some(plan) = around.translator.try_route(key, &overlay, around.objects) else { continue };
            let own = plan.routes.iter().filter(|rendered| units.contains(&rendered.node()));
            let made: BTreeSet<Remote> = own.flat_map(|rendered| rendered.route.uses()).collect();
            for made in made.into_iter().filter(|made| made.is_same(&remote)) {
                let (name, body): (Arc<str>, _) = (names::remote(&made).into(), encode::cluster::remote(&made));
                let version = Version::of(&body);
                if self.hold.refusal_of(ResourceType::Cluster, &name, version).is_some() {
                    return Known::Refused;
                }
                if !self.is_good_cluster(&name, version, &body) {
                    unknown.insert(name, body);
                }
            }
        }
        if unknown.is_empty() { Known::Good } else { Known::Nothing(unknown.into_values().collect()) }
    }

    /// Has an Envoy of the build, or the probe, taken this cluster or one that is alike?
    pub(super) fn is_good_cluster(&self, name: &Arc<str>, version: Version, body: &[u8]) -> bool {
        self.hold.was_acknowledged(ResourceType::Cluster, name, version)
            || self.proof.was_tried(&version)
            || self.proof.is_known_good(&shape(body))
    }

    /// Is the version of today another than the last valid one, or is there none?
    fn has_changed(&self, key: &ObjectKey, around: &Around<'_>) -> bool {
        let Some(desired) = around.objects.get(key) else { return false };
        self.newest_valid(key, around)
            .is_none_or(|last| last.body != desired.body || last.metadata.annotations != desired.metadata.annotations)
    }

    fn newest_valid<'a>(&'a self, key: &ObjectKey, around: &'a Around<'_>) -> Option<&'a Arc<Object>> {
        let uid = &*around.objects.get(key)?.metadata.uid;
        self.last_valid.of(key, Some(uid)).next().map(|version| &version.object)
    }
}
