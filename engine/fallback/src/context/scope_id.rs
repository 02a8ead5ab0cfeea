//! Identity of a scope: the Gateway and the build of its Envoys, and their names in translation and in the store.

use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_store::Scope;
use holdfast_translate::fleet::FleetId;

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
}

impl ScopeId {
    /// Creates the identity of the scope of a Gateway and build.
    pub fn new(gateway: &ObjectKey, build: &Arc<str>, fleet: FleetId) -> Self {
        Self { gateway: gateway.clone(), name: gateway.namespaced_name().into(), build: build.clone(), fleet }
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
