//! Identity of a scope: the Gateway and the build of its Envoys, and their names in translation and in the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_store::Scope;
use holdfast_translate::fleet::FleetId;

/// The Envoys of a scope apart.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The build of the Envoys.
    pub from: Arc<str>,
    /// The nodes of the Envoys, connected or not: an Envoy that content ended comes back to this scope.
    pub(crate) nodes: BTreeSet<Arc<str>>,
    /// The time since which none of the Envoys is connected, in milliseconds of Unix time.
    pub(crate) empty_since_ms: Option<u64>,
}

impl Apart {
    /// Returns the clause of a message about content that these Envoys refused.
    pub fn clause(&self) -> String {
        let first = self.nodes.first().map_or("", |node| node);
        let (envoy, refuses) = match self.nodes.len() {
            0 | 1 => (format!("Envoy {first}"), "refuses"),
            others => (format!("Envoy {first} and {} more", others - 1), "refuse"),
        };
        format!("only {envoy} {refuses} it; the other Envoys of build {} are served the desired version", self.from)
    }
}

/// The identity of a scope.
#[derive(Clone, Debug)]
pub struct ScopeId {
    /// The Gateway.
    pub gateway: ObjectKey,
    /// The Gateway as `namespace/name`.
    pub name: Arc<str>,
    /// The build of the Envoys; empty until an Envoy has reported it.
    pub build: Arc<str>,
    /// The Envoys of the Gateway in translation.
    pub fleet: FleetId,
    /// Set if the scope is for Envoys that refuse what others of their build accepted; `build` is then the build with a
    /// suffix.
    pub apart: Option<Apart>,
}

impl ScopeId {
    /// Creates the identity of the scope of a Gateway and build.
    pub fn new(gateway: &ObjectKey, build: &Arc<str>, fleet: FleetId) -> Self {
        let name = gateway.namespaced_name().into();
        Self { gateway: gateway.clone(), name, build: build.clone(), fleet, apart: None }
    }

    /// Checks whether the scope is for Envoys that refuse what others of their build accepted.
    pub fn is_apart(&self) -> bool {
        self.apart.is_some()
    }

    /// Returns the build that the Envoys report.
    pub fn reported_build(&self) -> &Arc<str> {
        self.apart.as_ref().map_or(&self.build, |apart| &apart.from)
    }

    /// Checks whether the scope is apart, and for this Envoy.
    pub(crate) fn is_apart_for(&self, node: &str, build: &str) -> bool {
        self.apart.as_ref().is_some_and(|apart| *apart.from == *build && apart.nodes.contains(node))
    }

    /// Returns the key of the scope in the store.
    pub fn stored(&self) -> Scope {
        Scope { gateway: self.name.clone(), build: self.build.clone() }
    }

    /// Returns the variant of the fleet in which trials are translated.
    pub(crate) fn trial_fleet(&self) -> FleetId {
        let label = format!("{}?trial", self.fleet.label).into();
        FleetId { gateway: self.gateway.clone(), label }
    }
}
