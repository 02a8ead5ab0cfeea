//! The result of a request: backends, a direct response, a redirect, or none of them.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier as DataSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::{ClusterNotFoundResponseCode, ClusterSpecifier};
use envoy_types::pb::envoy::config::route::v3::{DirectResponseAction, Route, RouteAction};
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;
use serde::{Deserialize, Serialize};

use super::matching::ReceivedRequest;
use super::shares::ExplainedShare;
use super::{grpc, redirect};
use crate::encode::names;

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ExplainedAnswer {
    /// The request is forwarded.
    Backends {
        /// The backends, each with its share.
        backends: Vec<ExplainedBackend>,
    },
    /// The connection is forwarded as a byte stream.
    Stream {
        /// The backends, each with its share.
        backends: Vec<ExplainedBackend>,
    },
    /// The answer depends on chance: each share of the requests has its own one.
    Shares {
        /// The shares.
        shares: Vec<ExplainedShare>,
    },
    /// Envoy responds itself.
    Response {
        /// The status.
        status: u16,
        /// The body, if it is published as text; of a gRPC call `grpc-message`.
        body: Option<String>,
        /// `grpc-status`, if the request is a gRPC call: Envoy responds 200 instead of the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grpc_status: Option<u8>,
    },
    /// Envoy redirects the client.
    Redirect {
        /// The status.
        status: u16,
        /// `Location`.
        location: String,
        /// `grpc-status`, if the request is a gRPC call: Envoy responds 200 instead of the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grpc_status: Option<u8>,
    },
    /// Envoy responds 404, since nothing matches.
    NotFound {
        /// The reason.
        why: String,
        /// `grpc-status`, if the request is a gRPC call: Envoy responds 200 instead of the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grpc_status: Option<u8>,
    },
    /// Envoy rejects the request before it is routed.
    Rejected {
        /// The status.
        status: u16,
        /// The reason.
        why: String,
        /// `grpc-status`, if the request is a gRPC call: Envoy responds 200 instead of the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grpc_status: Option<u8>,
    },
    /// There is no connection, or it is closed.
    NoConnection {
        /// The reason.
        why: String,
    },
    /// The result depends on a condition that cannot be evaluated.
    Unknown {
        /// The reason.
        why: String,
    },
}

/// A backend of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedBackend {
    /// The name of the cluster.
    pub cluster: String,
    /// The Service or Backend.
    pub object: Option<ObjectKey>,
    /// The port of the Service.
    pub port: Option<u16>,
    /// The weight.
    pub weight: u32,
    /// The number of endpoints; unset if Envoy finds them itself.
    pub endpoints: Option<usize>,
    /// The status of the share of this backend, if it reaches no endpoint.
    pub error: Option<u16>,
    /// `grpc-status` of that share, if the request is a gRPC call: Envoy responds 200 instead of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_status: Option<u8>,
}

impl ExplainedAnswer {
    pub(super) fn not_found(why: String) -> Self {
        Self::NotFound { why, grpc_status: None }
    }

    /// Returns the answer to a gRPC call: Envoy converts its own responses, redirects too.
    pub(super) fn of_call(mut self) -> Self {
        match &mut self {
            Self::Backends { backends } => {
                backends.iter_mut().for_each(|backend| backend.grpc_status = backend.error.map(grpc::status));
            }
            Self::Response { status, grpc_status, .. }
            | Self::Redirect { status, grpc_status, .. }
            | Self::Rejected { status, grpc_status, .. } => *grpc_status = Some(grpc::status(*status)),
            Self::NotFound { grpc_status, .. } => *grpc_status = Some(grpc::status(404)),
            Self::Shares { shares } => {
                shares.iter_mut().for_each(|share| share.answer = share.answer.clone().of_call())
            }
            Self::Stream { .. } | Self::NoConnection { .. } | Self::Unknown { .. } => {}
        }
        self
    }

    /// Returns whether every request reaches a backend, or gets a response that a route specifies.
    pub fn is_served(&self) -> bool {
        match self {
            Self::Backends { backends } | Self::Stream { backends } => {
                backends.iter().any(|backend| backend.weight > 0)
                    && backends.iter().all(|backend| backend.weight == 0 || backend.error.is_none())
            }
            Self::Shares { shares } => shares.iter().all(|share| match &share.answer {
                // A share without a backend.
                Self::Response { status: 500..=599, .. } => false,
                answer => answer.is_served(),
            }),
            Self::Response { grpc_status, .. } | Self::Redirect { grpc_status, .. } => grpc_status.is_none(),
            Self::NotFound { .. } | Self::Rejected { .. } | Self::NoConnection { .. } | Self::Unknown { .. } => false,
        }
    }
}

/// Returns the answer of a route that matches.
pub(super) fn of_route(route: &Route, request: &ReceivedRequest, resources: &Snapshot) -> ExplainedAnswer {
    match &route.action {
        Some(Action::Route(action)) => forward(action, resources),
        Some(Action::DirectResponse(response)) => direct(response),
        Some(Action::Redirect(action)) => match redirect::location(action, route, request) {
            Ok(location) => ExplainedAnswer::Redirect { status: redirect::status(action), location, grpc_status: None },
            Err(why) => ExplainedAnswer::Unknown { why },
        },
        _ => ExplainedAnswer::Unknown { why: "the kind of the route's action is not evaluated".into() },
    }
}

/// Returns the answer of a chain that forwards connections to clusters with weights.
pub(super) fn stream(clusters: &[(String, u32)], resources: &Snapshot) -> ExplainedAnswer {
    let backends = clusters.iter().map(|(name, weight)| backend(name, *weight, 503, resources)).collect();
    ExplainedAnswer::Stream { backends }
}

fn forward(action: &RouteAction, resources: &Snapshot) -> ExplainedAnswer {
    let missing = match action.cluster_not_found_response_code() {
        ClusterNotFoundResponseCode::ServiceUnavailable => 503,
        ClusterNotFoundResponseCode::NotFound => 404,
        ClusterNotFoundResponseCode::InternalServerError => 500,
    };
    let clusters: Vec<(&str, u32)> = match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => vec![(name, 1)],
        Some(ClusterSpecifier::WeightedClusters(several)) => {
            let weight = |weight: Option<u32>| weight.unwrap_or_default();
            several.clusters.iter().map(|one| (&*one.name, weight(one.weight.map(|weight| weight.value)))).collect()
        }
        _ => return ExplainedAnswer::Unknown { why: "the kind of cluster selection is not evaluated".into() },
    };
    let backends = clusters.into_iter().map(|(name, weight)| backend(name, weight, missing, resources)).collect();
    ExplainedAnswer::Backends { backends }
}

fn backend(name: &str, weight: u32, missing: u16, resources: &Snapshot) -> ExplainedBackend {
    let (object, port) = names::backend(name).map_or((None, None), |(object, port)| (Some(object), port));
    let cluster = resources.get(ResourceType::Cluster, name);
    let cluster = cluster.and_then(|resource| Cluster::decode(&*resource.body).ok());
    let (endpoints, error) = match &cluster {
        None => (Some(0), Some(missing)),
        Some(cluster) => {
            let endpoints = endpoints(cluster, resources);
            (endpoints, (endpoints == Some(0)).then_some(503))
        }
    };
    ExplainedBackend { cluster: name.to_owned(), object, port, weight, endpoints, error, grpc_status: None }
}

/// Returns the number of endpoints of a cluster; `None` if Envoy finds them itself.
fn endpoints(cluster: &Cluster, resources: &Snapshot) -> Option<usize> {
    let count = |all: &ClusterLoadAssignment| all.endpoints.iter().map(|locality| locality.lb_endpoints.len()).sum();
    match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::Type(kind)) if *kind == i32::from(DiscoveryType::Eds) => {
            let service = cluster.eds_cluster_config.as_ref().map_or("", |eds| eds.service_name.as_str());
            let name = if service.is_empty() { &*cluster.name } else { service };
            let resource = resources.get(ResourceType::Endpoints, name);
            let all = resource.and_then(|resource| ClusterLoadAssignment::decode(&*resource.body).ok());
            Some(all.as_ref().map_or(0, count))
        }
        Some(ClusterDiscoveryType::Type(_)) => cluster.load_assignment.as_ref().map(count),
        _ => None,
    }
}

fn direct(response: &DirectResponseAction) -> ExplainedAnswer {
    let body = match response.body.as_ref().and_then(|body| body.specifier.as_ref()) {
        Some(DataSpecifier::InlineString(text)) => Some(text.clone()),
        _ => None,
    };
    let status = u16::try_from(response.status).unwrap_or_default();
    ExplainedAnswer::Response { status, body, grpc_status: None }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use envoy_types::pb::envoy::config::route::v3::WeightedCluster;
    use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
    use envoy_types::pb::google::protobuf::UInt32Value;
    use holdfast_graph::Origins;
    use holdfast_xds::Resource;

    use super::*;
    use crate::encode::{cluster, endpoints};
    use crate::features::upstream::ClientIdentity;
    use crate::model::port::Transport;
    use crate::model::{BackendCluster, BackendProtocol, EndpointSource, ServicePort};

    /// Resources with Services that have so many endpoints each.
    fn resources(services: &[(&str, u8)]) -> Snapshot {
        let mut resources = Snapshot::default();
        for (name, count) in services {
            let service = ServicePort {
                key: ObjectKey::new("", "Service", "shop", *name),
                port: 80,
                transport: Transport::Tcp,
                health: None,
            };
            let addresses = (0..*count).map(|last| (([127, 0, 0, last], 80).into(), None)).collect();
            let body = endpoints::encode(&service, &addresses);
            let resource = Resource::new(names::endpoints(&service), body, Origins::default());
            resources.insert(ResourceType::Endpoints, Arc::new(resource));
            let place = EndpointSource::Service(service);
            let backend = BackendCluster { place, protocol: BackendProtocol::Http1, tuned: None };
            let resource = Resource::new(
                names::cluster(&backend),
                cluster::encode(&backend, &ClientIdentity::Anonymous),
                Origins::default(),
            );
            resources.insert(ResourceType::Cluster, Arc::new(resource));
        }
        resources
    }

    fn forwarded(clusters: &[(&str, u32)], resources: &Snapshot) -> ExplainedAnswer {
        let one = |(name, weight): &(&str, u32)| ClusterWeight {
            name: (*name).into(),
            weight: Some(UInt32Value { value: *weight }),
            ..Default::default()
        };
        let weighted = WeightedCluster { clusters: clusters.iter().map(one).collect(), ..Default::default() };
        let action = RouteAction {
            cluster_specifier: Some(ClusterSpecifier::WeightedClusters(weighted)),
            cluster_not_found_response_code: ClusterNotFoundResponseCode::InternalServerError.into(),
            ..Default::default()
        };
        forward(&action, resources)
    }

    #[test]
    fn backends_have_weights_endpoints_and_errors() {
        let resources = resources(&[("a", 2), ("b", 0)]);
        let (a, b) = ("service/shop/a/80", "service/shop/b/80");
        let answer = forwarded(&[(a, 3), (b, 1), (names::MISSING_BACKEND, 1)], &resources);
        let ExplainedAnswer::Backends { backends } = &answer else { unreachable!("{answer:?}") };
        let shown: Vec<_> = backends.iter().map(|one| (one.weight, one.endpoints, one.error)).collect();
        assert_eq!(shown, [(3, Some(2), None), (1, Some(0), Some(503)), (1, Some(0), Some(500))]);
        assert_eq!(
            (backends[0].object.as_ref().map(ObjectKey::namespaced_name), backends[0].port),
            (Some("shop/a".into()), Some(80))
        );
        assert!(!answer.is_served());
        let ExplainedAnswer::Backends { backends } = answer.clone().of_call() else { unreachable!("{answer:?}") };
        assert_eq!(backends.iter().map(|one| one.grpc_status).collect::<Vec<_>>(), [None, Some(14), Some(2)]);
        assert!(forwarded(&[(a, 1), (b, 0)], &resources).is_served());
        assert!(!forwarded(&[(a, 0)], &resources).is_served());
    }

    #[test]
    fn envoy_converts_its_own_responses_to_calls() {
        let converted = |answer: ExplainedAnswer| {
            let answer = answer.of_call();
            assert!(!answer.is_served(), "{answer:?}");
            match answer {
                ExplainedAnswer::Response { grpc_status, .. }
                | ExplainedAnswer::Redirect { grpc_status, .. }
                | ExplainedAnswer::NotFound { grpc_status, .. } => grpc_status,
                other => unreachable!("{other:?}"),
            }
        };
        let response = ExplainedAnswer::Response { status: 503, body: None, grpc_status: None };
        let redirect = ExplainedAnswer::Redirect { status: 301, location: "/a".into(), grpc_status: None };
        assert_eq!(converted(response), Some(14));
        assert_eq!(converted(redirect), Some(2));
        assert_eq!(converted(ExplainedAnswer::not_found("none".into())), Some(12));
    }
}
