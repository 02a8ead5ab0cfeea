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

/// May an earlier version of an object be served where the desired one cannot? With the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// It may, as far as it protects as much.
    Yes(&'static str),
    /// It never does.
    No(&'static str),
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
    /// Whether an earlier version may be served.
    pub backfill: Backfill,
    pub(super) decode: fn(Value, &mut Found) -> Option<Body>,
}

impl Kind {
    /// Does it say of other objects who may come in, or how they are spoken to?
    pub(super) fn protects(&self) -> bool {
        matches!(self.kind, "BackendConfigPolicy" | "BackendTLSPolicy" | "ListenerPolicy" | "TrafficPolicy")
    }
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
        backfill: Backfill::No(
            "it holds authorities, keys of tokens and parameters: what it no longer lists must not be trusted",
        ),
        decode: core::config_map::decode,
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: "Namespace",
        plural: "namespaces",
        scope: Scope::Cluster,
        has_status: false,
        backfill: Backfill::No(
            "its labels decide which routes a listener accepts: such grants are always those of today",
        ),
        decode: |_, _| Some(Body::Namespace),
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: "Secret",
        plural: "secrets",
        scope: Scope::Namespaced,
        has_status: false,
        backfill: Backfill::Yes(
            "the server certificate with its key, until it expires; everything else in it is the desired one",
        ),
        decode: core::secret::decode,
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: "Service",
        plural: "services",
        scope: Scope::Namespaced,
        has_status: false,
        backfill: Backfill::Yes("ports and protocols; endpoints are always those of today"),
        decode: core::service::decode,
    },
    Kind {
        group: "discovery.k8s.io",
        versions: &["v1"],
        kind: "EndpointSlice",
        plural: "endpointslices",
        scope: Scope::Namespaced,
        has_status: false,
        backfill: Backfill::No("endpoints are never held or backfilled"),
        decode: core::endpoint_slice::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "Backend",
        plural: "backends",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "where requests go; credentials, and what a request may choose, are not wider than today",
        ),
        decode: kgateway::backend::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "BackendConfigPolicy",
        plural: "backendconfigpolicies",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "how back ends are reached, by TLS that is as strict as today; targets are those of today",
        ),
        decode: kgateway::backend_config::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "DirectResponse",
        plural: "directresponses",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("an answer; one that refuses requests today is not backfilled by one that does not"),
        decode: kgateway::direct_response::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "GatewayExtension",
        plural: "gatewayextensions",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "only its time limits, retries and names of statistics: an earlier service, or an earlier way to ask it, may be laxer",
        ),
        decode: kgateway::extension::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "ListenerPolicy",
        plural: "listenerpolicies",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "what does not decide who the client is and what it may do; targets are those of today",
        ),
        decode: kgateway::listener_policy::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: "TrafficPolicy",
        plural: "trafficpolicies",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "what does not protect; lists of those who may enter are equal to those of today, unless its owner trusts earlier ones; targets are those of today",
        ),
        decode: kgateway::traffic_policy::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: "BackendTLSPolicy",
        plural: "backendtlspolicies",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "nothing but `options`, which has no effect: all else is whom to trust, and is the desired one or closes the back end",
        ),
        decode: gateway::backend_tls::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "Gateway",
        plural: "gateways",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::No(
            "the routes of all teams are attached to it; its listeners borrow single hostnames and certificates instead",
        ),
        decode: gateway::gateway::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "GatewayClass",
        plural: "gatewayclasses",
        scope: Scope::Cluster,
        has_status: true,
        backfill: Backfill::No("Gateways are attached to it"),
        decode: gateway::class::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: "GRPCRoute",
        plural: "grpcroutes",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rules; parents and hostnames are those of today"),
        decode: gateway::grpc_route::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "HTTPRoute",
        plural: "httproutes",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rules; parents and hostnames are those of today"),
        decode: gateway::http_route::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: gateway::listener_set::KIND,
        plural: "listenersets",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::No(
            "the routes of other teams are attached to it; its listeners borrow single hostnames and certificates instead",
        ),
        decode: gateway::listener_set::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: "ReferenceGrant",
        plural: "referencegrants",
        scope: Scope::Namespaced,
        has_status: false,
        backfill: Backfill::No("grants are always those of today"),
        decode: gateway::grant::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1alpha1"],
        kind: "ExtensionService",
        plural: "extensionservices",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::No(
            "HTTPProxies are guarded by it: what guards a host is the desired version, or the host is closed",
        ),
        decode: contour::extension_service::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1"],
        kind: "HTTPProxy",
        plural: "httpproxies",
        scope: Scope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its routes; host, TLS, guards of the host and includes are those of today"),
        decode: contour::http_proxy::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1"],
        kind: "TLSCertificateDelegation",
        plural: "tlscertificatedelegations",
        scope: Scope::Namespaced,
        has_status: false,
        backfill: Backfill::No("grants are always those of today"),
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
