//! What Envoy itself asks while it serves requests: authorization servers, rate limit services, keys of tokens.
//!
//! Each is a cluster, there as long as a filter of a chain asks it.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::config::core::v3::{GrpcService, HttpUri};
use holdfast_graph::ObjectKey;

use super::upstream::{Upstream, UpstreamTls};
use crate::encode::{duration, names};
use crate::model::{Backend, Protocol, ServicePort};

/// Somebody whom Envoy asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remote {
    /// A port of a Service, as routes go to.
    Backend(Backend),
    /// Several of them under one name.
    Group(Arc<Group>),
    /// A host outside, by its name.
    Host(Arc<DnsHost>),
}

/// Ports of Services that are one cluster, whatever it consists of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The object that says so: no two groups have the same.
    pub owner: ObjectKey,
    /// The ports with their shares, at least one.
    pub services: Vec<(ServicePort, u32)>,
    /// What they are spoken to in.
    pub protocol: Protocol,
    /// What else there is to say about them.
    pub upstream: Upstream,
    /// How much may be under way.
    pub limits: Limits,
}

/// How much may be under way to a group; what is usual where unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limits {
    /// Connections.
    pub connections: Option<u32>,
    /// Requests that wait for a connection.
    pub pending: Option<u32>,
    /// Requests.
    pub requests: Option<u32>,
    /// Requests that are tried again.
    pub retries: Option<u32>,
    /// Connections to one endpoint.
    pub connections_per_endpoint: Option<u32>,
}

/// A host that is looked up by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsHost {
    /// Its name, or an address.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
    /// Which of its addresses are used.
    pub family: Family,
    /// TLS, where it is spoken.
    pub tls: Option<UpstreamTls>,
    /// May it be the proxy's own host?
    pub loopback: bool,
}

/// Families of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv6 where there is any, else IPv4.
    #[default]
    Auto,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Both.
    All,
}

impl Group {
    /// What its endpoints are called: those of its one Service, or its own.
    pub(crate) fn endpoints(&self) -> String {
        match self.services.as_slice() {
            [(only, _)] => names::endpoints(only),
            _ => names::group(&self.owner),
        }
    }
}

impl DnsHost {
    /// What tells it from others of the same name and port.
    pub(crate) fn label(&self) -> Option<String> {
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
    /// The objects that its cluster is made of, beside those who ask it.
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

    /// Is it the same one, whatever is said of it?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Remote::Backend(one), Remote::Backend(other)) => one.place.key() == other.place.key(),
            (Remote::Group(one), Remote::Group(other)) => one.owner == other.owner,
            (Remote::Host(one), Remote::Host(other)) => (&one.host, one.port) == (&other.host, other.port),
            _ => false,
        }
    }

    /// The ports of Services whose endpoints it needs.
    pub fn services(&self) -> Vec<&ServicePort> {
        match self {
            Remote::Backend(backend) => backend.service().into_iter().collect(),
            Remote::Group(group) => group.services.iter().map(|(service, _)| service).collect(),
            Remote::Host(_) => Vec::new(),
        }
    }

    /// As a gRPC service, with the time that an answer may take.
    pub(crate) fn grpc(&self, timeout: Option<Duration>) -> GrpcService {
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

    /// As an HTTP service at this address.
    pub(crate) fn http(&self, uri: String, timeout: Duration) -> HttpUri {
        HttpUri {
            uri,
            timeout: Some(duration(timeout)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(names::remote(self))),
        }
    }

    /// The host that is asked for: the name that its certificate must have, else its own.
    pub(crate) fn authority(&self) -> String {
        let tls = match self {
            Remote::Backend(backend) => backend.tuned.as_ref().and_then(|tuned| tuned.upstream.tls.as_ref()),
            Remote::Group(group) => group.upstream.tls.as_ref(),
            Remote::Host(host) => return host.host.to_string(),
        };
        let named = tls.map(|tls| tls.sni.to_string()).filter(|name| !name.is_empty());
        named.unwrap_or_else(|| names::remote(self).replace('/', "."))
    }
}
