//! What an earlier run left in the store, and how a line begins with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use holdfast_graph::{Content, Detected, Node, ObjectKey, Origins, Verdict};
use holdfast_store::shards::ScopeOffers;
use holdfast_store::{StoredResource, StoredVerdict};
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};
use prost::Message;

use super::around::Around;
use super::chains;
use super::derive::is_chain;
use super::last_valid::{LastValid, Version as ObjectVersion};
use super::line::Line;
use super::shapes::shape;
use crate::object::Object;
use crate::refusal::{self, Class};

/// All that was stored and could be read.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// By Gateway and build.
    pub(crate) lines: Vec<RestoredLine>,
}

/// What was stored of one Gateway and build.
#[derive(Clone, Debug)]
pub(crate) struct RestoredLine {
    pub(crate) gateway: Arc<str>,
    pub(crate) build: Arc<str>,
    pub(crate) snapshot: Snapshot,
    pub(super) versions: Vec<ObjectVersion>,
    pub(super) verdicts: Vec<(Content, Verdict)>,
    /// What is offered, where another replica leads.
    pub(super) offers: ScopeOffers,
}

impl Restored {
    /// Adds what is stored of one scope. `objects` are the older versions of an object first, each with the time since
    /// which it is known to be good.
    pub fn add(
        &mut self,
        scope: holdfast_store::Scope,
        objects: Vec<(Object, i64)>,
        resources: Vec<StoredResource>,
        verdicts: Vec<StoredVerdict>,
    ) {
        let mut snapshot = Snapshot::default();
        for stored in resources {
            let Some(kind) = ResourceType::from_url(&stored.type_url) else { continue };
            let origins: Origins = stored.origins.into_iter().collect();
            let version = Version::from_bytes(stored.version);
            snapshot.insert(kind, Arc::new(Resource::with_version(stored.name, version, stored.body, origins)));
        }
        let versions = objects.into_iter().map(|(object, since)| ObjectVersion { object: Arc::new(object), since });
        self.lines.push(RestoredLine {
            gateway: scope.gateway,
            build: scope.build,
            snapshot,
            versions: versions.collect(),
            verdicts: verdicts.into_iter().filter_map(verdict).collect(),
            offers: ScopeOffers::default(),
        });
    }
}

impl Restored {
    /// Every object of which a version is stored.
    pub(crate) fn objects(&self) -> BTreeSet<ObjectKey> {
        self.lines.iter().flat_map(|line| &line.versions).map(|version| version.object.key.clone()).collect()
    }

    /// Adds what the leader offers in one scope; what is to be tried, only where that is here.
    pub fn offer(&mut self, scope: &holdfast_store::Scope, offers: ScopeOffers) {
        let known = self.lines.iter_mut().find(|line| line.gateway == scope.gateway && line.build == scope.build);
        match known {
            Some(line) => line.offers = offers,
            None => {
                self.add(scope.clone(), Vec::new(), Vec::new(), Vec::new());
                self.lines.last_mut().into_iter().for_each(|line| line.offers.clone_from(&offers));
            }
        }
    }
}

/// The type of the resource that was refused for a unit; it determines the class of the refusals. What policies and
/// extensions bring into listeners counts as a part of these.
fn refused_type(node: &Node) -> ResourceType {
    const PARTS_OF_ROUTES: [&str; 3] = ["rules[", "routes[", "includes["];
    match &*node.key.kind {
        _ if is_chain(node) => ResourceType::Listener,
        "Secret" => ResourceType::Secret,
        "Service" | "Backend" | "BackendConfigPolicy" | "BackendTLSPolicy" | "ExtensionService" => {
            ResourceType::Cluster
        }
        "HTTPRoute" | "GRPCRoute" => ResourceType::Route,
        _ if PARTS_OF_ROUTES.iter().any(|part| node.section.starts_with(part)) => ResourceType::Route,
        _ => ResourceType::Listener,
    }
}

fn verdict(stored: StoredVerdict) -> Option<(Content, Verdict)> {
    let verdict = Verdict {
        node: Node::section(stored.key, stored.section),
        generation: stored.generation,
        detected: stored.detected_by.parse().ok()?,
        field: stored.field,
        message: stored.message,
        since: stored.since,
        witnesses: stored.witnesses.into_iter().map(Content).collect(),
    };
    Some((Content(stored.content), verdict))
}

impl RestoredLine {
    /// What the Envoys of a line have, of a Gateway that is gone. No more than that: what was good of it, and what was
    /// refused, is gone with it.
    pub(super) fn left_by(line: &Line) -> Self {
        Self {
            gateway: line.name.clone(),
            build: line.build.clone(),
            snapshot: line.hold.acknowledged_snapshot(),
            versions: Vec::new(),
            verdicts: Vec::new(),
            offers: ScopeOffers::default(),
        }
    }

    /// Is it a configuration that requests can be served with?
    ///
    /// A run that ends before its first listener is acknowledged leaves clusters alone: whoever is given these loses the
    /// listeners that it has.
    pub(crate) fn serves(&self) -> bool {
        !self.snapshot.of(ResourceType::Listener).is_empty()
    }

    /// An object was deleted.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.versions.retain(|version| version.object.key != *key);
    }

    /// The newest version of an object.
    pub(crate) fn last_valid(&self, key: &ObjectKey) -> Option<&ObjectVersion> {
        self.versions.iter().rev().find(|version| version.object.key == *key)
    }

    /// Puts everything into a line that has nothing yet. Objects that are gone by now are forgotten.
    pub(crate) fn into_line(self, line: &mut Line, around: &Around<'_>) {
        let serves = self.serves();
        let mut last_valid = LastValid::default();
        let mut gone = BTreeSet::new();
        for version in self.versions {
            let key = &version.object.key;
            if around.objects.get(key).is_some() || around.unusable.contains(key) {
                last_valid.promote(&version.object, version.since);
            } else {
                gone.insert(key.clone());
            }
        }
        line.last_valid = last_valid;
        for key in gone {
            line.record(holdfast_store::Change::Forget(key));
        }
        // A suspicion ends with the run that had it: whoever it was about is tried again.
        let firm = self.verdicts.into_iter().filter(|(_, verdict)| verdict.detected != Detected::Suspected);
        for (content, verdict) in firm {
            if refusal::class(refused_type(&verdict.node), &verdict.message) != Class::Content {
                // Convicted by an older version of Holdfast: it says nothing about the content.
                line.record(holdfast_store::Change::Acquit(line.scope(), content.0));
                continue;
            }
            if line.restore_refused(&content, &verdict) {
                continue;
            }
            line.since.entry(verdict.node.key.clone()).or_insert(verdict.since);
            line.quarantine.convict(content, verdict);
        }
        for kind in ResourceType::ALL {
            for resource in self.snapshot.of(kind).values() {
                line.hold.restore(kind, resource.clone());
            }
        }
        for kind in ResourceType::ALL {
            self.snapshot.of(kind).values().for_each(|resource| line.prove_restored(kind, resource));
        }
        if serves {
            line.everyone = Some(self.snapshot);
        }
    }
}

impl Line {
    /// What was acknowledged in an earlier run, or by Envoys of another replica, is proven.
    pub(super) fn prove_restored(&mut self, kind: ResourceType, resource: &Resource) {
        proven(kind, resource).into_iter().for_each(|content| self.proof.prove(content));
    }
}

/// What is proven by a resource that was acknowledged.
fn proven(kind: ResourceType, resource: &Resource) -> Vec<Content> {
    match kind {
        ResourceType::Route => contents(&resource.body),
        ResourceType::Cluster => vec![shape(&resource.body), Content(*resource.version.as_bytes())],
        ResourceType::Listener => chains::proven(&resource.body),
        ResourceType::Endpoints | ResourceType::Secret => Vec::new(),
    }
}

/// The parts of a route configuration: each route as it stands in it.
fn contents(body: &[u8]) -> Vec<Content> {
    let Ok(configuration) = RouteConfiguration::decode(body) else { return Vec::new() };
    let routes = configuration.virtual_hosts.iter().flat_map(|host| &host.routes);
    routes.map(|route| Content(*Version::of(&route.encode_to_vec()).as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::fallback::lines::Lines;

    #[test]
    fn refusals_are_classified_by_what_was_refused() {
        let class = |kind: &str, section: &str, message: &str| {
            let node = Node::section(ObjectKey::new("g", kind, "shop", "cart"), section);
            refusal::class(refused_type(&node), message)
        };
        // A refusal of a route is about the route's content, with any message or with none.
        for message in ["", "cannot bind 'a': Address already in use", "Only unique names for routes are supported"] {
            assert_eq!(class("HTTPRoute", "rules[0]", message), Class::Content, "{message}");
            assert_eq!(class("GRPCRoute", "", message), Class::Content, "{message}");
            assert_eq!(class("HTTPProxy", "routes[1]", message), Class::Content, "{message}");
            assert_eq!(class("Secret", "", message), Class::Content, "{message}");
        }
        for (kind, section) in [("Gateway", "listeners[0]"), ("Service", ""), ("ListenerPolicy", "")] {
            assert_eq!(class(kind, section, ""), Class::Unknown, "{kind}");
            assert_eq!(class(kind, section, "cannot bind '0.0.0.0:80': Address already in use"), Class::Host, "{kind}");
            assert_eq!(class(kind, section, "no such field"), Class::Content, "{kind}");
        }
    }

    #[test]
    fn a_configuration_without_a_listener_is_given_to_nobody() {
        for (kind, given) in [(ResourceType::Cluster, 0), (ResourceType::Listener, 1)] {
            let mut snapshot = Snapshot::default();
            snapshot.insert(kind, Arc::new(Resource::new("it".to_owned(), Bytes::new(), Origins::default())));
            let (gateway, build) = ("infra/public".into(), "1".into());
            let line = RestoredLine {
                gateway,
                build,
                snapshot,
                versions: Vec::new(),
                verdicts: Vec::new(),
                offers: ScopeOffers::default(),
            };
            let actions = Lines::default().restore(Restored { lines: vec![line] });
            assert_eq!(actions.len(), given, "{kind:?}");
        }
    }
}
