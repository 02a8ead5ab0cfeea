//! State that an earlier run stored, and its restoration into a scope.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_api::section::{ObjectSection, is_of_host};
use holdfast_envoy::refusal::{self, RefusalClass};
use holdfast_graph::{Content, Detected, Node, ObjectKey, Origins, Verdict};
use holdfast_store::shards::ScopeOffers;
use holdfast_store::{StoredObject, StoredResource, StoredVerdict};
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};

use crate::context::step_inputs::StepInputs;
use crate::evidence::accepted_by::AcceptedBy;
use crate::evidence::last_valid::{LastValid, Version as ObjectVersion};
use crate::persistence::restored_version::RestoredVersion;
use crate::plan::derive::is_chain;
use crate::scope::FallbackScope;

/// All stored state that could be read.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The state by Gateway and build.
    pub scopes: Vec<RestoredScope>,
}

/// The stored state of one Gateway and build.
#[derive(Clone, Debug)]
pub struct RestoredScope {
    /// The Gateway as `namespace/name`.
    pub gateway: Arc<str>,
    /// The build of the Envoys.
    pub build: Arc<str>,
    /// The configuration that the Envoys acknowledged.
    pub snapshot: Snapshot,
    /// In the order of objects, the older versions of an object first.
    pub(crate) versions: Vec<RestoredVersion>,
    pub(crate) verdicts: Vec<(Content, Verdict)>,
    /// The contents that each Envoy accepted itself, if the Envoys stayed connected.
    pub(crate) accepted_by: AcceptedBy,
    /// The offers, if another replica is the leader.
    pub(crate) offers: ScopeOffers,
}

impl Restored {
    /// Adds the stored state of one scope. `objects` are in the order of their keys, the older versions of an object first.
    pub fn add(
        &mut self,
        key: holdfast_store::Scope,
        objects: Vec<StoredObject>,
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
        self.scopes.push(RestoredScope {
            gateway: key.gateway,
            build: key.build,
            snapshot,
            versions: objects.into_iter().map(RestoredVersion::Stored).collect(),
            verdicts: verdicts.into_iter().filter_map(verdict).collect(),
            accepted_by: AcceptedBy::default(),
            offers: ScopeOffers::default(),
        });
    }
}

impl Restored {
    /// Returns every object with a stored version.
    pub fn objects(&self) -> BTreeSet<ObjectKey> {
        self.scopes.iter().flat_map(|scope| &scope.versions).map(|version| version.key().clone()).collect()
    }

    /// Adds the offers of the leader in one scope. A requested trial is included only if its Envoy is connected to this
    /// replica.
    pub fn offer(&mut self, key: &holdfast_store::Scope, offers: ScopeOffers) {
        let known = self.scopes.iter_mut().find(|scope| scope.gateway == key.gateway && scope.build == key.build);
        match known {
            Some(scope) => scope.offers = offers,
            None => {
                self.add(key.clone(), Vec::new(), Vec::new(), Vec::new());
                self.scopes.last_mut().into_iter().for_each(|scope| scope.offers.clone_from(&offers));
            }
        }
    }
}

/// Returns the type of the resource that was refused for a unit; it determines the class of the refusal. Settings and
/// filters that policies and extensions add to listeners count as parts of listeners.
fn refused_type(node: &Node) -> ResourceType {
    use ObjectSection::{Include, ProxyRoute, Rule};
    let section = ObjectSection::parse(&node.section);
    match &*node.key.kind {
        _ if is_chain(node) => ResourceType::Listener,
        kinds::SECRET => ResourceType::Secret,
        kinds::SERVICE
        | kinds::BACKEND
        | kinds::BACKEND_CONFIG_POLICY
        | kinds::BACKEND_TLS_POLICY
        | kinds::EXTENSION_SERVICE => ResourceType::Cluster,
        kind if kinds::ROUTES.contains(&kind) => ResourceType::Route,
        _ if matches!(section, Rule(_) | ProxyRoute(_) | Include(_)) => ResourceType::Route,
        kinds::HTTP_PROXY if is_of_host(&node.section) => ResourceType::Route,
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

/// Adds a version to the last valid ones; older ones come first. A version without its credentials ends those before it:
/// they can protect less.
pub(crate) fn restore_version(version: &RestoredVersion, last_valid: &mut LastValid, inputs: &StepInputs<'_>) {
    if version.is_closed() {
        last_valid.forget(version.key());
    } else if let Some(version) = version.version_among(inputs) {
        last_valid.promote(&version.object, version.since);
    }
}

impl RestoredScope {
    /// Returns the configuration of the Envoys of a scope with a deleted Gateway. Last valid versions and verdicts are
    /// deleted together with the Gateway.
    pub(crate) fn left_by(scope: &FallbackScope) -> Self {
        Self {
            gateway: scope.id.name.clone(),
            build: scope.id.build.clone(),
            snapshot: scope.hold.acknowledged_snapshot(),
            versions: Vec::new(),
            verdicts: Vec::new(),
            accepted_by: scope.evidence.accepted_by.clone(),
            offers: ScopeOffers::default(),
        }
    }

    /// Checks whether the configuration can serve requests.
    ///
    /// A run that ends before its first listener is acknowledged leaves only clusters. An Envoy that is offered these
    /// loses its listeners.
    pub fn serves(&self) -> bool {
        !self.snapshot.of(ResourceType::Listener).is_empty()
    }

    /// Removes the versions of a deleted object.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.versions.retain(|version| version.key() != key);
    }

    /// Returns the newest version of an object.
    pub fn last_valid(&self, key: &ObjectKey) -> Option<ObjectVersion> {
        self.of(key).take_while(|version| !version.is_closed()).find_map(RestoredVersion::version)
    }

    /// Returns an object with credentials that were not stored, in the form that closes its requests, if that is its newest
    /// version: an older one can protect less.
    pub(crate) fn closed(&self, key: &ObjectKey) -> Option<(Arc<Object>, i64)> {
        let newest = self.of(key).next()?;
        Some((newest.closed()?, newest.since()))
    }

    /// Returns the versions of an object, the newest first.
    fn of<'a>(&'a self, key: &'a ObjectKey) -> impl Iterator<Item = &'a RestoredVersion> {
        // They are in the order of objects.
        let start = self.versions.partition_point(|version| version.key() < key);
        let from = self.versions.get(start..).unwrap_or_default();
        let count = from.partition_point(|version| version.key() == key);
        from.iter().take(count).rev()
    }

    /// Restores the state into an empty scope. Deleted objects are removed.
    pub(crate) fn into_scope(self, scope: &mut FallbackScope, inputs: &StepInputs<'_>) {
        let serves = self.serves();
        let mut last_valid = LastValid::default();
        let mut gone = BTreeSet::new();
        for version in self.versions {
            let key = version.key();
            if inputs.objects.get(key).is_some() || inputs.unusable.contains(key) {
                restore_version(&version, &mut last_valid, inputs);
            } else {
                gone.insert(key.clone());
            }
        }
        scope.evidence.last_valid = last_valid;
        scope.evidence.accepted_by = self.accepted_by;
        for key in gone {
            scope.records.record(holdfast_store::Change::Forget(key));
        }
        // A suspicion ends with its run: the suspect is tried again.
        let firm = self.verdicts.into_iter().filter(|(_, verdict)| verdict.detected != Detected::Suspected);
        for (content, verdict) in firm {
            if refusal::class(refused_type(&verdict.node), &verdict.message) != RefusalClass::Content {
                // Convicted by an older version of Holdfast: the refusal proves nothing about the content.
                scope.records.record(holdfast_store::Change::Acquit(scope.id.stored(), content.0));
                continue;
            }
            if scope.restore_refused(&content, &verdict) {
                continue;
            }
            scope.restore_refused_certificate(&content, &verdict);
            scope.verdicts.restore(content, verdict);
        }
        for kind in ResourceType::ALL {
            for resource in self.snapshot.of(kind).values() {
                scope.hold.restore(kind, resource.clone());
            }
        }
        for kind in ResourceType::ALL {
            self.snapshot.of(kind).values().for_each(|resource| scope.evidence.proof.prove_restored(kind, resource));
        }
        if serves {
            scope.configurations.everyone = Some(self.snapshot);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::scope::scopes::FallbackScopes;

    #[test]
    fn refusals_are_classified_by_what_was_refused() {
        let class = |kind: &str, section: &str, message: &str| {
            let node = Node::section(ObjectKey::new("g", kind, "shop", "cart"), section);
            refusal::class(refused_type(&node), message)
        };
        // A refusal of a route is about the content of the route, with any message or without one.
        for message in ["", "cannot bind 'a': Address already in use", "Only unique names for routes are supported"] {
            assert_eq!(class("HTTPRoute", "rules[0]", message), RefusalClass::Content, "{message}");
            assert_eq!(class("GRPCRoute", "", message), RefusalClass::Content, "{message}");
            assert_eq!(class("HTTPProxy", "routes[1]", message), RefusalClass::Content, "{message}");
            assert_eq!(class("Secret", "", message), RefusalClass::Content, "{message}");
        }
        for (kind, section) in [("Gateway", "listeners[0]"), ("Service", ""), ("ListenerPolicy", "")] {
            assert_eq!(class(kind, section, ""), RefusalClass::Unknown, "{kind}");
            assert_eq!(
                class(kind, section, "cannot bind '0.0.0.0:80': Address already in use"),
                RefusalClass::Host,
                "{kind}"
            );
            assert_eq!(class(kind, section, "no such field"), RefusalClass::Content, "{kind}");
        }
    }

    #[test]
    fn a_configuration_without_a_listener_is_not_published() {
        for (kind, given) in [(ResourceType::Cluster, 0), (ResourceType::Listener, 1)] {
            let mut snapshot = Snapshot::default();
            snapshot.insert(kind, Arc::new(Resource::new("it".to_owned(), Bytes::new(), Origins::default())));
            let (gateway, build) = ("infra/public".into(), "1".into());
            let scope = RestoredScope {
                gateway,
                build,
                snapshot,
                versions: Vec::new(),
                verdicts: Vec::new(),
                accepted_by: AcceptedBy::default(),
                offers: ScopeOffers::default(),
            };
            let actions = FallbackScopes::default().restore(Restored { scopes: vec![scope] });
            assert_eq!(actions.len(), given, "{kind:?}");
        }
    }
}
