//! Every kind of object that Holdfast reads: one folder for each API group, one file for each kind, one list of all in
//! [`KINDS`].
//!
//! Decoding turns broken input into faults of the same object. Decoding never fails for a list of objects, never
//! panics, and keeps the valid parts (a route with one rule that does not decode keeps its other rules).

pub mod closed_document;
pub mod contour;
pub mod core;
pub mod decode;
pub mod document;
pub mod gateway;
pub mod kgateway;
pub mod kinds;
mod lack;
pub mod meta;
pub mod misspelt;
pub mod protection;
pub mod protection_table;
pub mod scheme;
pub mod shown;
pub mod typed;
pub mod unserved;

use std::sync::Arc;

use gateway::route::RouteView;
use kgateway::targets::Targets;

pub use decode::{Decoded, decode, decode_defective};
pub use scheme::{Backfill, KINDS, Kind, ResourceScope};

/// The typed, trimmed content of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// `gateway.networking.k8s.io` GatewayClass.
    GatewayClass(gateway::class::GatewayClass),
    /// `gateway.networking.k8s.io` Gateway.
    Gateway(Arc<gateway::gateway::Gateway>),
    /// `gateway.networking.k8s.io` ListenerSet.
    ListenerSet(Arc<gateway::listener_set::ListenerSet>),
    /// `gateway.networking.k8s.io` HTTPRoute.
    HttpRoute(Arc<gateway::route::GatewayRoute<gateway::http_route::HttpRule>>),
    /// `gateway.networking.k8s.io` GRPCRoute.
    GrpcRoute(Arc<gateway::route::GatewayRoute<gateway::grpc_route::GrpcRule>>),
    /// `gateway.networking.k8s.io` TCPRoute, TLSRoute and UDPRoute.
    StreamRoute(Arc<gateway::route::GatewayRoute<gateway::stream_route::StreamRule>>),
    /// `gateway.networking.k8s.io` BackendTLSPolicy.
    BackendTlsPolicy(Arc<gateway::backend_tls::BackendTlsPolicy>),
    /// `gateway.networking.k8s.io` ReferenceGrant.
    ReferenceGrant(gateway::grant::ReferenceGrant),
    /// `projectcontour.io` HTTPProxy.
    HttpProxy(Arc<contour::http_proxy::HttpProxy>),
    /// `projectcontour.io` TLSCertificateDelegation.
    CertificateDelegation(Arc<contour::delegation::Delegation>),
    /// `projectcontour.io` ExtensionService.
    ExtensionService(Arc<contour::extension_service::ExtensionService>),
    /// `gateway.kgateway.dev` TrafficPolicy.
    TrafficPolicy(Arc<kgateway::traffic_policy::TrafficPolicy>),
    /// `gateway.kgateway.dev` GatewayExtension.
    GatewayExtension(Arc<kgateway::extension::GatewayExtension>),
    /// `gateway.kgateway.dev` Backend.
    Backend(Arc<kgateway::backend::Backend>),
    /// `gateway.kgateway.dev` DirectResponse.
    DirectResponse(Arc<kgateway::direct_response::DirectResponse>),
    /// `gateway.kgateway.dev` ListenerPolicy.
    ListenerPolicy(Arc<kgateway::listener_policy::ListenerPolicy>),
    /// `gateway.kgateway.dev` BackendConfigPolicy.
    BackendConfigPolicy(Arc<kgateway::backend_config::BackendConfigPolicy>),
    /// Core Service.
    Service(core::service::Service),
    /// `discovery.k8s.io` EndpointSlice.
    EndpointSlice(core::endpoint_slice::EndpointSlice),
    /// Core Secret.
    Secret(core::secret::Secret),
    /// Core ConfigMap.
    ConfigMap(core::config_map::ConfigMap),
    /// Core Namespace; the metadata has its labels.
    Namespace,
}

impl Body {
    /// Returns whether other objects depend on this object, so that the last readable version is kept where nothing of
    /// the current one can be read.
    pub fn is_anchor(&self) -> bool {
        match self {
            Body::Gateway(_) | Body::GatewayClass(_) | Body::ListenerSet(_) => true,
            Body::HttpProxy(proxy) => proxy.virtual_host.is_some(),
            // An error in a policy must not open its targets.
            _ => self.is_policy(),
        }
    }

    /// Returns a route of Gateway API with the same hosts and matches, and without any rule that can be served: the
    /// stand-in where nothing of the current version can be read, so that no other route gets the requests. Returns
    /// `None` for other kinds. `why` is the error, in a sentence.
    pub fn closed(&self, why: &Arc<str>) -> Option<Body> {
        match self {
            Body::HttpRoute(route) => Some(Body::HttpRoute(Arc::new(route.closed(why)))),
            Body::GrpcRoute(route) => Some(Body::GrpcRoute(Arc::new(route.closed(why)))),
            Body::StreamRoute(route) => Some(Body::StreamRoute(Arc::new(route.closed(why)))),
            _ => None,
        }
    }

    /// Adds the targets of the previous version to a policy with a target that could not be read.
    pub fn keep_targets(&mut self, before: &Body) {
        match (self, before) {
            (Body::TrafficPolicy(now), Body::TrafficPolicy(before)) => now.keep_targets(before),
            (Body::ListenerPolicy(now), Body::ListenerPolicy(before)) => now.keep_targets(before),
            (Body::BackendConfigPolicy(now), Body::BackendConfigPolicy(before)) => now.keep_targets(before),
            (Body::BackendTlsPolicy(now), Body::BackendTlsPolicy(before)) => now.keep_targets(before),
            _ => {}
        }
    }

    /// Returns why the host of a root HTTPProxy is unknown, where its name is no name of a host: the requests of the
    /// intended host must not go to other objects. The first text is the field.
    pub fn lost_host(&self) -> Option<(&'static str, String)> {
        let Body::HttpProxy(proxy) = self else { return None };
        Some(("spec.virtualhost.fqdn", proxy.host_fault()?))
    }

    /// Adds the matches of the previous version to a rule, route or include with matches that cannot be read: other
    /// rules must not get its requests.
    pub fn keep_matches(&mut self, before: &Body) {
        match (self, before) {
            (Body::HttpRoute(now), Body::HttpRoute(before)) => Arc::make_mut(now).keep_matches(before),
            (Body::GrpcRoute(now), Body::GrpcRoute(before)) => Arc::make_mut(now).keep_matches(before),
            (Body::HttpProxy(now), Body::HttpProxy(before)) => Arc::make_mut(now).keep_conditions(before),
            _ => {}
        }
    }

    /// Returns whether the matches of a rule, route or include cannot be read.
    pub fn lost_matches(&self) -> bool {
        match self {
            Body::HttpRoute(route) => route.lost_matches(),
            Body::GrpcRoute(route) => route.lost_matches(),
            Body::HttpProxy(proxy) => proxy.lost_conditions(),
            _ => false,
        }
    }

    /// Keeps the default scope of the previous version of a Gateway of which the scope cannot be read: routes of others
    /// are attached by it.
    pub fn keep_scope(&mut self, before: &Body) {
        if let (Body::Gateway(now), Body::Gateway(before)) = (self, before)
            && now.is_scope_lost
        {
            Arc::make_mut(now).is_default = before.is_default;
        }
    }

    /// Returns whether the default scope of a Gateway cannot be read.
    pub fn lost_scope(&self) -> bool {
        matches!(self, Body::Gateway(gateway) if gateway.is_scope_lost)
    }

    /// Returns whether a policy has lost a target that could not be read.
    pub fn lost_targets(&self) -> bool {
        match self {
            Body::TrafficPolicy(policy) => policy.targets_lost,
            Body::ListenerPolicy(policy) => policy.targets_lost,
            Body::BackendConfigPolicy(policy) => policy.targets_lost,
            Body::BackendTlsPolicy(policy) => policy.targets_lost,
            _ => false,
        }
    }

    /// Returns whether the object is a policy that is attached to other objects.
    pub fn is_policy(&self) -> bool {
        matches!(self, Body::TrafficPolicy(_) | Body::ListenerPolicy(_)) || self.is_policy_of_backends()
    }

    /// Returns whether the object is a policy that is attached to backends.
    pub(crate) fn is_policy_of_backends(&self) -> bool {
        matches!(self, Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_))
    }

    /// Returns whether the rule with this index, or any rule where `None`, names an extension that may guard it.
    pub fn names_guard(&self, rule: Option<usize>) -> bool {
        match self {
            Body::HttpProxy(proxy) => proxy.names_guard(),
            _ => self.route().is_some_and(|route| route.names_guard(rule)),
        }
    }

    /// Returns the targets, if the object is a policy.
    pub fn targets(&self) -> Option<&Targets> {
        match self {
            Body::TrafficPolicy(policy) => Some(&policy.targets),
            Body::ListenerPolicy(policy) => Some(&policy.targets),
            Body::BackendConfigPolicy(policy) => Some(&policy.targets),
            Body::BackendTlsPolicy(policy) => Some(&policy.targets),
            _ => None,
        }
    }

    /// Returns the route, if the object is a route of Gateway API, of any kind.
    pub fn route(&self) -> Option<&dyn RouteView> {
        match self {
            Body::HttpRoute(route) => Some(&**route),
            Body::GrpcRoute(route) => Some(&**route),
            Body::StreamRoute(route) => Some(&**route),
            _ => None,
        }
    }
}
