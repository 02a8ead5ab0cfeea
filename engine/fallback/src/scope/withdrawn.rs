//! Deleted Gateways, and the configuration of their remaining Envoys.
//!
//! When a Gateway is deleted, its Envoys are terminated. The listeners of HTTPProxies belong to no Gateway: their
//! Envoys remain when the last root is deleted, and must not continue to serve it. These Envoys are offered an empty
//! configuration.

use std::sync::Arc;

use holdfast_store::Change;
use holdfast_translate::httpproxy::listeners;
use holdfast_xds::{EnvoyId, Offers};

use super::scopes::FallbackScopes;
use crate::persistence::restored::RestoredScope;
use crate::scope::event::Action;

impl FallbackScopes {
    /// Handles the deletion of a Gateway; its Envoys may still be connected.
    pub(super) fn withdraw(&mut self, gateway: Arc<str>, actions: &mut Vec<Action>) {
        for scope in self.gateways.remove(&gateway).unwrap_or_default() {
            if scope.members.is_empty() {
                continue;
            }
            let early = self.early.entry(gateway.clone()).or_default();
            for (node, streams) in scope.members.streams() {
                let build = scope.id.reported_build().clone();
                let id = EnvoyId { fleet: gateway.clone(), node: node.clone(), build };
                early.extend(std::iter::repeat_n((id, true), streams));
            }
            // The Envoys keep their configuration in case the Gateway is created again; Envoys of HTTPProxies do not.
            if *listeners::key().namespaced_name() != *gateway && !scope.id.is_apart() {
                self.left.entry(gateway.clone()).or_default().push(RestoredScope::left_by(&scope));
            }
        }
        self.generations.remove(&gateway);
        self.touched.remove(&gateway);
        self.gone.push(Change::ForgetGateway(gateway.clone()));
        if self.offered.remove(&gateway).is_some() {
            actions.push(Action::Withdraw { gateway });
        }
    }

    /// Offers an empty configuration to Envoys of HTTPProxies, if all objects are known and there are no HTTPProxies.
    pub(super) fn offer_nothing(&mut self, actions: &mut Vec<Action>) {
        let gateway: Arc<str> = listeners::key().namespaced_name().into();
        let is_known = self.gateways.contains_key(&gateway) || self.offered.contains_key(&gateway);
        if self.listed && !is_known && self.early.contains_key(&gateway) {
            self.offered.insert(gateway.clone(), Offers::default());
            *self.generations.entry(gateway.clone()).or_insert(0) += 1;
            actions.push(Action::Publish { gateway, offers: Offers::default() });
        }
    }
}
