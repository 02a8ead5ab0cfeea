//! What of a request is hashed, so that equal ones go to the same endpoint.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::route_action::HashPolicy;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, Cookie, Header, PolicySpecifier, QueryParameter,
};

use crate::encode::seconds;

/// A part of a request that is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// Is nothing after it looked at where it gives a hash?
    pub terminal: bool,
    /// What is hashed.
    pub part: HashedPart,
}

/// What is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashedPart {
    /// A header.
    Header(Arc<str>),
    /// A query parameter.
    Query(Arc<str>),
    /// The client's address.
    Address,
    /// A cookie for the session, which clients are given.
    Cookie(Arc<str>),
}

impl Hashed {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> HashPolicy {
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
