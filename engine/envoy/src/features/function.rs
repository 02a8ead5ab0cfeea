//! AWS Lambda functions: a filter of the cluster turns a request into a signed invocation of the function.
//!
//! The access key is part of the cluster, which only the Envoys of Gateways that use the function receive: Envoy reads
//! such keys from no other resource that it is sent.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/aws_lambda_filter>

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::aws_lambda::v3::config::InvocationMode;
use envoy_types::pb::envoy::extensions::filters::http::aws_lambda::v3::{Config, Credentials};
use holdfast_graph::ObjectKey;

use super::hosts::{Hosts, NamedHost};
use super::upstream_filters::Special;
use crate::encode::any;

/// The filter that invokes the function.
const FILTER: &str = "envoy.filters.http.aws_lambda";

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// The endpoint of the invocation: one host.
    pub hosts: Hosts,
    /// The host name of the endpoint.
    pub authority: Arc<str>,
    /// The function's ARN.
    pub arn: Arc<str>,
    /// Whether the body is the payload; otherwise the payload is the whole request as JSON, and the response is JSON
    /// too.
    pub as_it_is: bool,
    /// Whether the invocation is asynchronous.
    pub asynchronous: bool,
    /// The Secret that contains the access key.
    pub secret: ObjectKey,
    /// The access key of the invocation.
    pub key: CallKey,
}

/// An AWS access key; never part of output.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// The access key ID.
    pub id: Arc<str>,
    /// The secret access key.
    pub secret: Arc<str>,
    /// The session token of a temporary access key; empty for a permanent one.
    pub token: Arc<str>,
}

/// Omits the key.
impl fmt::Debug for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallKey(..)")
    }
}

impl Function {
    /// Returns the cluster's own HTTP settings.
    pub fn special(&self) -> Special {
        let mode = if self.asynchronous { InvocationMode::Asynchronous } else { InvocationMode::Synchronous };
        let config = Config {
            arn: self.arn.to_string(),
            payload_passthrough: self.as_it_is,
            invocation_mode: mode.into(),
            host_rewrite: self.authority.to_string(),
            credentials: Some(Credentials {
                access_key_id: self.key.id.to_string(),
                secret_access_key: self.key.secret.to_string(),
                session_token: self.key.token.to_string(),
            }),
            ..Default::default()
        };
        let mut special = self.hosts.special();
        special.filters.push((FILTER, any(&config)));
        special
    }

    /// Returns the host name of the endpoint, for TLS.
    pub fn server_name(&self) -> Option<&Arc<str>> {
        self.hosts.groups.iter().flatten().find_map(|(host, _)| match host {
            NamedHost::Name(name) => Some(name),
            NamedHost::Address(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_not_shown() {
        let key = CallKey { id: "id".into(), secret: "canary".into(), token: "canary".into() };
        assert_eq!(format!("{key:?}"), "CallKey(..)");
    }
}
