//! List of the kinds that Holdfast reads: their group, versions and decoder.

use holdfast_graph::ObjectKey;
use serde_json::Value;

use super::decode::Found;
use super::{Body, contour, core, gateway, kgateway, kinds};

/// Scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// Objects belong to namespaces.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// Whether an earlier version of an object may be served where the desired version cannot be served, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// An earlier version may be served, as far as it protects as much.
    Yes(&'static str),
    /// No earlier version is ever served.
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
    /// Plural name, as in RBAC and in paths of the API server.
    pub plural: &'static str,
    /// Whether the kind is namespaced.
    pub scope: ResourceScope,
    /// Whether Holdfast writes the status.
    pub has_status: bool,
    /// Whether an earlier version may be served.
    pub backfill: Backfill,
    pub(super) decode: fn(Value, &mut Found) -> Option<Body>,
}

impl Kind {
    /// Returns whether an unknown field in the metadata of a manifest is an error. Labels of other kinds guard nothing.
    pub(super) fn refuses_unknown_metadata(&self) -> bool {
        [gateway::GROUP, contour::GROUP, kgateway::GROUP].contains(&self.group) || self.kind == kinds::NAMESPACE
    }

    /// Returns whether an unknown field in a manifest is an error of the part of the object that has it. Policies, kinds
    /// of kgateway and ReferenceGrants treat unknown fields themselves, and kinds of Kubernetes are only read in part.
    pub(super) fn refuses_unknown_fields(&self) -> bool {
        let is_ours = [gateway::GROUP, contour::GROUP].contains(&self.group);
        is_ours && !self.protects() && self.kind != kinds::REFERENCE_GRANT
    }

    /// Returns whether the kind is a policy that restricts access to other objects or decides how backends are reached.
    pub(super) fn protects(&self) -> bool {
        matches!(
            self.kind,
            kinds::BACKEND_CONFIG_POLICY | kinds::BACKEND_TLS_POLICY | kinds::LISTENER_POLICY | kinds::TRAFFIC_POLICY
        )
    }
}

/// Every kind, ordered by group and name.
pub const KINDS: &[Kind] = &[
    Kind {
        group: "",
        versions: &["v1"],
        kind: kinds::CONFIG_MAP,
        plural: "configmaps",
        scope: ResourceScope::Namespaced,
        has_status: false,
        backfill: Backfill::No(
            "it contains certificate authorities, token keys and parameters: removed entries must not be trusted again",
        ),
        decode: core::config_map::decode,
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: kinds::NAMESPACE,
        plural: "namespaces",
        scope: ResourceScope::Cluster,
        has_status: false,
        backfill: Backfill::No(
            "its labels decide which routes a listener accepts: such grants are always those of today",
        ),
        decode: |_, _| Some(Body::Namespace),
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: kinds::SECRET,
        plural: "secrets",
        scope: ResourceScope::Namespaced,
        has_status: false,
        backfill: Backfill::Yes(
            "a certificate of a listener, or the client certificate of a Gateway, with its key, until it expires; everything \
             else in it is the desired one",
        ),
        decode: core::secret::decode,
    },
    Kind {
        group: "",
        versions: &["v1"],
        kind: kinds::SERVICE,
        plural: "services",
        scope: ResourceScope::Namespaced,
        has_status: false,
        backfill: Backfill::Yes("ports and protocols; endpoints are always those of today"),
        decode: core::service::decode,
    },
    Kind {
        group: "discovery.k8s.io",
        versions: &["v1"],
        kind: kinds::ENDPOINT_SLICE,
        plural: "endpointslices",
        scope: ResourceScope::Namespaced,
        has_status: false,
        backfill: Backfill::No("endpoints are never held or backfilled"),
        decode: core::endpoint_slice::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::BACKEND,
        plural: "backends",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "where requests go; credentials, and what a request may choose, are not wider than today",
        ),
        decode: kgateway::backend::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::BACKEND_CONFIG_POLICY,
        plural: "backendconfigpolicies",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "how backends are reached, by TLS that is as strict as today; targets are those of today",
        ),
        decode: kgateway::backend_config::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::DIRECT_RESPONSE,
        plural: "directresponses",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("a response; one that refuses requests today is not backfilled by one that does not"),
        decode: kgateway::direct_response::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::GATEWAY_EXTENSION,
        plural: "gatewayextensions",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "only its time limits, retries and names of statistics: an earlier service, or an earlier request to it, may be less strict",
        ),
        decode: kgateway::extension::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::LISTENER_POLICY,
        plural: "listenerpolicies",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("settings that neither identify nor authorize clients; targets are the desired ones"),
        decode: kgateway::listener_policy::decode,
    },
    Kind {
        group: kgateway::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::TRAFFIC_POLICY,
        plural: "trafficpolicies",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "settings that do not protect; access lists equal the desired ones, unless the owner trusts earlier lists; targets are the desired ones",
        ),
        decode: kgateway::traffic_policy::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: kinds::BACKEND_TLS_POLICY,
        plural: "backendtlspolicies",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes(
            "only `options`: every other field decides which backends are trusted, and is the desired one or closes the backend",
        ),
        decode: gateway::backend_tls::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: kinds::GATEWAY,
        plural: "gateways",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::No(
            "the routes of all teams are attached to it; instead, its listeners use single hostnames, TLS options \
             and certificates of earlier versions",
        ),
        decode: gateway::gateway::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: kinds::GATEWAY_CLASS,
        plural: "gatewayclasses",
        scope: ResourceScope::Cluster,
        has_status: true,
        backfill: Backfill::No("Gateways are attached to it"),
        decode: gateway::class::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: kinds::GRPC_ROUTE,
        plural: "grpcroutes",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rules; parents and hostnames are those of today"),
        decode: gateway::grpc_route::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: kinds::HTTP_ROUTE,
        plural: "httproutes",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rules; parents and hostnames are those of today"),
        decode: gateway::http_route::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1"],
        kind: kinds::LISTENER_SET,
        plural: "listenersets",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::No(
            "the routes of other teams are attached to it; instead, its listeners use single hostnames, TLS \
             options and certificates of earlier versions",
        ),
        decode: gateway::listener_set::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1beta1"],
        kind: kinds::REFERENCE_GRANT,
        plural: "referencegrants",
        scope: ResourceScope::Namespaced,
        has_status: false,
        backfill: Backfill::No("grants are always those of today"),
        decode: gateway::grant::decode,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1alpha2"],
        kind: kinds::TCP_ROUTE,
        plural: "tcproutes",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rule; parents are those of today"),
        decode: gateway::stream_route::decode_port,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1alpha3", "v1alpha2"],
        kind: kinds::TLS_ROUTE,
        plural: "tlsroutes",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rule; parents and hostnames are those of today"),
        decode: gateway::stream_route::decode_tls,
    },
    Kind {
        group: gateway::GROUP,
        versions: &["v1", "v1alpha2"],
        kind: kinds::UDP_ROUTE,
        plural: "udproutes",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its rule; parents are those of today"),
        decode: gateway::stream_route::decode_port,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1alpha1"],
        kind: kinds::EXTENSION_SERVICE,
        plural: "extensionservices",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::No("it protects HTTPProxies: the desired version protects a host, or the host is closed"),
        decode: contour::extension_service::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1"],
        kind: kinds::HTTP_PROXY,
        plural: "httpproxies",
        scope: ResourceScope::Namespaced,
        has_status: true,
        backfill: Backfill::Yes("its routes; host, TLS, guards of the host and includes are those of today"),
        decode: contour::http_proxy::decode,
    },
    Kind {
        group: contour::GROUP,
        versions: &["v1"],
        kind: kinds::TLS_CERTIFICATE_DELEGATION,
        plural: "tlscertificatedelegations",
        scope: ResourceScope::Namespaced,
        has_status: false,
        backfill: Backfill::No("grants are always those of today"),
        decode: contour::delegation::decode,
    },
];

/// Returns the kind with this group and name.
pub fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

/// Returns the identity of a namespace.
pub fn namespace_key(name: &str) -> ObjectKey {
    ObjectKey::new("", "Namespace", "", name)
}

/// Returns the identity of a Service.
pub fn service_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new("", "Service", namespace, name)
}

/// Returns the identity of a Secret.
pub fn secret_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new("", "Secret", namespace, name)
}

/// Returns the identity of a ConfigMap.
pub fn config_map_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new("", "ConfigMap", namespace, name)
}

/// Returns the identity of an ExtensionService.
pub fn extension_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(contour::GROUP, "ExtensionService", namespace, name)
}
