//! External services that Envoy calls while it serves requests: authorization servers, rate limit services, JWKS
//! servers.
//!
//! Each is a cluster, which exists as long as a filter of a chain uses it.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::config::core::v3::{GrpcService, HttpUri};
use holdfast_graph::ObjectKey;

use super::upstream::{Upstream, UpstreamTls};
use crate::encode::{duration, names};
use crate::model::{BackendCluster, BackendProtocol, ServicePort};

/// An external service that Envoy calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remote {
    /// A port of a Service, as in a route.
    Backend(BackendCluster),
    /// Several Service ports under one name.
    Group(Arc<Group>),
    /// An external host, by its name.
    Host(Arc<DnsHost>),
}

/// Service ports that form one cluster; its name does not depend on its members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The object that defines the group; no two groups have the same owner.
    pub owner: ObjectKey,
    /// The ports with their weights, at least one.
    pub services: Vec<(ServicePort, u32)>,
    /// The protocol.
    pub protocol: BackendProtocol,
    /// Further settings of the cluster.
    pub upstream: Upstream,
    /// Circuit breaker limits.
    pub limits: CircuitBreakerLimits,
}

/// Circuit breaker limits of a group; Envoy's defaults where unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CircuitBreakerLimits {
    /// Maximum number of connections.
    pub connections: Option<u32>,
    /// Maximum number of requests that wait for a connection.
    pub pending: Option<u32>,
    /// Maximum number of active requests.
    pub requests: Option<u32>,
    /// Maximum number of active retries.
    pub retries: Option<u32>,
    /// Maximum number of connections to one endpoint.
    pub connections_per_endpoint: Option<u32>,
}

/// A host that Envoy resolves by DNS.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsHost {
    /// The name, or an address.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
    /// The address families in use.
    pub family: Family,
    /// TLS settings, where the host uses TLS.
    pub tls: Option<UpstreamTls>,
    /// Whether the name may resolve to the proxy's own host (loopback).
    pub loopback: bool,
}

/// Address families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv6 where available, else IPv4.
    #[default]
    Auto,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Both families.
    All,
}

impl Group {
    /// Returns the name of the endpoints: that of the only Service, or the group's own.
    pub fn endpoints(&self) -> String {
        match self.services.as_slice() {
            [(only, _)] => names::endpoints(only),
            _ => names::group(&self.owner),
        }
    }
}

impl DnsHost {
    /// Returns a label that distinguishes the host from others with the same name and port.
    pub fn label(&self) -> Option<String> {
        if self.tls.is_none() && self.family == Family::default() {
            return None;
        }
        let upstream = Upstream { tls: self.tls.clone(), ..Upstream::default() };
        let tuned = upstream.tuned().map(|tuned| tuned.label().to_owned()).unwrap_or_default();
        let family = match self.family {
            Family::Auto => "auto",
            Family::V4 => "v4",
            Family::V6 => "v6",
            Family::All => "all",
        };
        Some(format!("{family}{}{tuned}", if tuned.is_empty() { "" } else { "/" }))
    }
}

impl Remote {
    /// Returns the objects that the cluster is made of, without the objects that use it.
    pub fn origins(&self) -> Vec<&ObjectKey> {
        let tls = match self {
            Remote::Backend(backend) => return backend.origins().collect(),
            Remote::Group(group) => group.upstream.tls.as_ref(),
            Remote::Host(host) => host.tls.as_ref(),
        };
        let secret = tls.into_iter().flat_map(UpstreamTls::origins);
        let owner = if let Remote::Group(group) = self { Some(&group.owner) } else { None };
        let services = self.services().into_iter().map(|service| &service.key);
        services.chain(secret).chain(owner).collect()
    }

    /// Returns the TLS settings of connections; `None` where they have no TLS.
    pub fn tls(&self) -> Option<&UpstreamTls> {
        match self {
            Remote::Backend(backend) => backend.tls(),
            Remote::Group(group) => group.upstream.tls.as_ref(),
            Remote::Host(host) => host.tls.as_ref(),
        }
    }

    /// Returns the Secret with a client certificate of its own.
    pub fn client(&self) -> Option<&ObjectKey> {
        self.tls()?.client.as_ref()
    }

    /// Returns whether both are the same destination, regardless of their settings.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Remote::Backend(one), Remote::Backend(other)) => one.place.key() == other.place.key(),
            (Remote::Group(one), Remote::Group(other)) => one.owner == other.owner,
            (Remote::Host(one), Remote::Host(other)) => (&one.host, one.port) == (&other.host, other.port),
            _ => false,
        }
    }

    /// Returns the Service ports that supply its endpoints.
    pub fn services(&self) -> Vec<&ServicePort> {
        match self {
            Remote::Backend(backend) => backend.service().into_iter().collect(),
            Remote::Group(group) => group.services.iter().map(|(service, _)| service).collect(),
            Remote::Host(_) => Vec::new(),
        }
    }

    /// Returns Envoy's gRPC service with the given timeout.
    pub fn grpc(&self, timeout: Option<Duration>) -> GrpcService {
        GrpcService {
            timeout: timeout.map(duration),
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: names::remote(self),
                authority: self.authority(),
                ..Default::default()
            })),
            ..Default::default()
        }
    }

    /// Returns Envoy's HTTP service with the given URI.
    pub fn http(&self, uri: String, timeout: Duration) -> HttpUri {
        HttpUri {
            uri,
            timeout: Some(duration(timeout)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(names::remote(self))),
        }
    }

    /// Returns the authority of requests: the name that the service's certificate must have, else the service's own
    /// name.
    pub fn authority(&self) -> String {
        if let Remote::Host(host) = self {
            return host.host.to_string();
        }
        let named = self.tls().map(|tls| tls.sni.to_string()).filter(|name| !name.is_empty());
        named.unwrap_or_else(|| names::remote(self).replace('/', "."))
    }
}
