//! Hash policies: the parts of a request that are hashed, so that equal requests go to the same endpoint.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::route_action::HashPolicy;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, Cookie, Header, PolicySpecifier, QueryParameter,
};

use crate::encode::seconds;

/// One entry of a hash policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// Whether later entries are skipped once this one has produced a hash.
    pub terminal: bool,
    /// The hashed part of the request.
    pub part: HashedPart,
}

/// The hashed part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashedPart {
    /// A header.
    Header(Arc<str>),
    /// A query parameter.
    Query(Arc<str>),
    /// The client's address.
    Address,
    /// A session cookie, which Envoy sets.
    Cookie(Arc<str>),
}

impl Hashed {
    /// Returns the Envoy configuration.
    pub fn encode(&self) -> HashPolicy {
        let part = match &self.part {
            HashedPart::Header(name) => {
                PolicySpecifier::Header(Header { header_name: name.to_string(), ..Default::default() })
            }
            HashedPart::Query(name) => PolicySpecifier::QueryParameter(QueryParameter { name: name.to_string() }),
            HashedPart::Address => PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
            HashedPart::Cookie(name) => PolicySpecifier::Cookie(Cookie {
                name: name.to_string(),
                ttl: Some(seconds(0)),
                path: "/".into(),
                ..Default::default()
            }),
        };
        HashPolicy { terminal: self.terminal, policy_specifier: Some(part) }
    }
}
