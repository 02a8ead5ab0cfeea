//! Every kind of object that is read: one folder an API group, one file a kind, listed once in [`KINDS`].
//!
//! Decoding is where broken input becomes faults of its own object: it never fails for a list, never panics, and
//! keeps what can be kept (a route with one rule that does not decode keeps its other rules).

pub mod contour;
pub mod core;
pub mod decode;
pub mod document;
pub mod gateway;
pub mod kgateway;
pub mod meta;
mod misspelt;
pub mod protection;
pub mod protection_table;
pub mod scheme;

pub use decode::{Decoded, decode, decode_defective};
pub use scheme::{Backfill, KINDS, Kind, Scope};

use std::sync::Arc;

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
    HttpRoute(Arc<gateway::route::Route<gateway::http_route::HttpRule>>),
    /// `gateway.networking.k8s.io` GRPCRoute.
    GrpcRoute(Arc<gateway::route::Route<gateway::grpc_route::GrpcRule>>),
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
    /// Core Namespace; its labels stand in the metadata.
    Namespace,
}

impl Body {
    /// Do others hang on it, so that it stays as it was read last where nothing can be read of it?
    pub fn is_anchor(&self) -> bool {
        match self {
            Body::Gateway(_) | Body::GatewayClass(_) | Body::ListenerSet(_) => true,
            Body::HttpProxy(proxy) => proxy.virtual_host.is_some(),
            // What hangs on a policy must not be opened by a slip of the pen.
            _ => self.is_policy(),
        }
    }

    /// Where a target of a policy could not be read: with the targets of the version before as well.
    pub(crate) fn keep_targets(&mut self, before: &Body) {
        match (self, before) {
            (Body::TrafficPolicy(now), Body::TrafficPolicy(before)) => now.keep_targets(before),
            (Body::ListenerPolicy(now), Body::ListenerPolicy(before)) => now.keep_targets(before),
            (Body::BackendConfigPolicy(now), Body::BackendConfigPolicy(before)) => now.keep_targets(before),
            (Body::BackendTlsPolicy(now), Body::BackendTlsPolicy(before)) => now.keep_targets(before),
            _ => {}
        }
    }

    /// Did a policy lose a target that could not be read?
    pub(crate) fn lost_targets(&self) -> bool {
        match self {
            Body::TrafficPolicy(policy) => policy.targets_lost,
            Body::ListenerPolicy(policy) => policy.targets_lost,
            Body::BackendConfigPolicy(policy) => policy.targets_lost,
            Body::BackendTlsPolicy(policy) => policy.targets_lost,
            _ => false,
        }
    }

    /// Is it a policy that is attached to others?
    pub(crate) fn is_policy(&self) -> bool {
        matches!(self, Body::TrafficPolicy(_) | Body::ListenerPolicy(_)) || self.is_policy_of_back_ends()
    }

    /// Is it a policy that is attached to back ends?
    pub(crate) fn is_policy_of_back_ends(&self) -> bool {
        matches!(self, Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_))
    }

    /// Does a rule of a route name an extension that may guard it? Of this index, or any of them.
    pub(crate) fn names_guard(&self, rule: Option<usize>) -> bool {
        match self {
            Body::HttpRoute(route) => route.names_guard(rule),
            Body::GrpcRoute(route) => route.names_guard(rule),
            Body::HttpProxy(proxy) => proxy.names_guard(),
            _ => false,
        }
    }
}
