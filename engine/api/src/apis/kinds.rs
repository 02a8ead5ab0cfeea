//! Names of the kinds that Holdfast reads, as manifests and object references write them.

/// `ConfigMap` of Kubernetes.
pub const CONFIG_MAP: &str = "ConfigMap";
/// `EndpointSlice` of Kubernetes.
pub const ENDPOINT_SLICE: &str = "EndpointSlice";
/// `Namespace` of Kubernetes.
pub const NAMESPACE: &str = "Namespace";
/// `Secret` of Kubernetes.
pub const SECRET: &str = "Secret";
/// `Service` of Kubernetes.
pub const SERVICE: &str = "Service";
/// `BackendTLSPolicy` of Gateway API.
pub const BACKEND_TLS_POLICY: &str = "BackendTLSPolicy";
/// `GRPCRoute` of Gateway API.
pub const GRPC_ROUTE: &str = "GRPCRoute";
/// `Gateway` of Gateway API.
pub const GATEWAY: &str = "Gateway";
/// `GatewayClass` of Gateway API.
pub const GATEWAY_CLASS: &str = "GatewayClass";
/// `HTTPRoute` of Gateway API.
pub const HTTP_ROUTE: &str = "HTTPRoute";
/// `ListenerSet` of Gateway API.
pub const LISTENER_SET: &str = "ListenerSet";
/// `ReferenceGrant` of Gateway API.
pub const REFERENCE_GRANT: &str = "ReferenceGrant";
/// `TCPRoute` of Gateway API.
pub const TCP_ROUTE: &str = "TCPRoute";
/// `TLSRoute` of Gateway API.
pub const TLS_ROUTE: &str = "TLSRoute";
/// `UDPRoute` of Gateway API.
pub const UDP_ROUTE: &str = "UDPRoute";
/// Kinds of routes of Gateway API.
pub const ROUTES: [&str; 5] = [GRPC_ROUTE, HTTP_ROUTE, TCP_ROUTE, TLS_ROUTE, UDP_ROUTE];
/// Kinds of routes of connections and datagrams.
pub const STREAM_ROUTES: [&str; 3] = [TCP_ROUTE, TLS_ROUTE, UDP_ROUTE];
/// Kinds of routes of which one has everything that a listener receives: no hostname distinguishes them.
pub const PORT_ROUTES: [&str; 2] = [TCP_ROUTE, UDP_ROUTE];
/// `ExtensionService` of Contour.
pub const EXTENSION_SERVICE: &str = "ExtensionService";
/// `HTTPProxy` of Contour.
pub const HTTP_PROXY: &str = "HTTPProxy";
/// `TLSCertificateDelegation` of Contour.
pub const TLS_CERTIFICATE_DELEGATION: &str = "TLSCertificateDelegation";
/// `Backend` of kgateway.
pub const BACKEND: &str = "Backend";
/// `BackendConfigPolicy` of kgateway.
pub const BACKEND_CONFIG_POLICY: &str = "BackendConfigPolicy";
/// `DirectResponse` of kgateway.
pub const DIRECT_RESPONSE: &str = "DirectResponse";
/// `GatewayExtension` of kgateway.
pub const GATEWAY_EXTENSION: &str = "GatewayExtension";
/// `ListenerPolicy` of kgateway.
pub const LISTENER_POLICY: &str = "ListenerPolicy";
/// `TrafficPolicy` of kgateway.
pub const TRAFFIC_POLICY: &str = "TrafficPolicy";
