//! The list of kinds: what is read, in which group and versions, and how it is decoded.

use holdfast_graph::ObjectKey;
use serde_json::Value;

use super::decode::Found;
use super::{Body, contour, core, gateway, kgateway};

/// Is a kind namespaced?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Objects stand in namespaces.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// One kind of object.
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Versions that decode, the preferred one first.
    pub versions: &'static [&'static str],
    /// Kind.
    pub kind: &'static str,
    /// Plural name, as RBAC and the API server's paths have it.
    pub plural: &'static str,
    /// Whether it is namespaced.
    pub scope: Scope,
    /// Whether its status is written.
    pub has_status: bool,
    pub(super) decode: fn(Value, &mut Found) -> Option<Body>,
}

/// Every kind, in the order of group and name.
pub const KINDS: &[Kind] = &[
    Kind {
        group: "",
        versions: &["v1"],
        kind: "ConfigMap",
        plural: "configmaps",
        scope: Scope::Namespaced,
        has_status: false,
        decode: core::config_map::decode,
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: "Namespace",
        plural: "namespaces",
        scope: Scope::Cluster,
        has_status: false,
        decode: |_, _| Some(Body::Namespace),
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: "Secret",
        plural: "secrets",
        scope: Scope::Namespaced,
        has_status: false,
        decode: core::secret::decode,
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: "Service",
        plural: "services",
        scope: Scope::Namespaced,
        has_status: false,
        decode: core::service::decode,
    },
    Kind {
        group: "discovery.k8s.io",
        versions: &["v1"],
        kind: "EndpointSlice",
        plural: "endpointslices",
        scope: Scope::Namespaced,
        has_status: false,
        decode: core::endpoint_slice::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "Backend",
        plural: "backends",
        scope: Scope::Namespaced,
        has_status: true,
        decode: kgateway::backend::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "BackendConfigPolicy",
        plural: "backendconfigpolicies",
        scope: Scope::Namespaced,
        has_status: true,
        decode: kgateway::backend_config::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "DirectResponse",
        plural: "directresponses",
        scope: Scope::Namespaced,
        has_status: true,
        decode: kgateway::direct_response::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "GatewayExtension",
        plural: "gatewayextensions",
        scope: Scope::Namespaced,
        has_status: true,
        decode: kgateway::extension::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "ListenerPolicy",
        plural: "listenerpolicies",
        scope: Scope::Namespaced,
        has_status: true,
        decode: kgateway::listener_policy::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "TrafficPolicy",
        plural: "trafficpolicies",
        scope: Scope::Namespaced,
        has_status: true,
        decode: kgateway::traffic_policy::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: "BackendTLSPolicy",
        plural: "backendtlspolicies",
        scope: Scope::Namespaced,
        has_status: true,
        decode: gateway::backend_tls::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "Gateway",
        plural: "gateways",
        scope: Scope::Namespaced,
        has_status: true,
        decode: gateway::gateway::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "GatewayClass",
        plural: "gatewayclasses",
        scope: Scope::Cluster,
        has_status: true,
        decode: gateway::class::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: "GRPCRoute",
        plural: "grpcroutes",
        scope: Scope::Namespaced,
        has_status: true,
        decode: gateway::grpc_route::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "HTTPRoute",
        plural: "httproutes",
        scope: Scope::Namespaced,
        has_status: true,
        decode: gateway::http_route::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: gateway::listener_set::KIND,
        plural: "listenersets",
        scope: Scope::Namespaced,
        has_status: true,
        decode: gateway::listener_set::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "ReferenceGrant",
        plural: "referencegrants",
        scope: Scope::Namespaced,
        has_status: false,
        decode: gateway::grant::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1alpha1"],
        kind: "ExtensionService",
        plural: "extensionservices",
        scope: Scope::Namespaced,
        has_status: true,
        decode: contour::extension_service::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1"],
        kind: "HTTPProxy",
        plural: "httpproxies",
        scope: Scope::Namespaced,
        has_status: true,
        decode: contour::http_proxy::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1"],
        kind: "TLSCertificateDelegation",
        plural: "tlscertificatedelegations",
        scope: Scope::Namespaced,
        has_status: false,
        decode: contour::delegation::decode,
    },
];

/// The kind with this group and name.
pub fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

/// The identity of a namespace.
pub fn namespace_key(name: &str) -> ObjectKey {
    ObjectKey::new("", "Namespace", "", name)
}

/// The identity of a Service.
pub fn service_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new("", "Service", namespace, name)
}

/// The identity of a Secret.
pub fn secret_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new("", "Secret", namespace, name)
}

/// The identity of a ConfigMap.
pub fn config_map_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new("", "ConfigMap", namespace, name)
}

/// The identity of an ExtensionService.
pub fn extension_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(contour::GROUP, "ExtensionService", namespace, name)
}
