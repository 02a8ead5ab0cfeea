//! Functions of AWS Lambda: a request becomes a signed call of the function, made by a filter of the cluster.
//!
//! The key stands in the cluster, which goes to the Envoys of the Gateways that use it and to nobody else: Envoy takes
//! such keys from no other resource that it is given.
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

/// The filter that makes the call.
const FILTER: &str = "envoy.filters.http.aws_lambda";

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// Where it is called: one host.
    pub hosts: Hosts,
    /// What the host is called.
    pub authority: Arc<str>,
    /// The function's full name.
    pub arn: Arc<str>,
    /// Is the body passed on as it is? Else the function gets the whole request as JSON, and answers so.
    pub as_it_is: bool,
    /// Does nobody wait for it?
    pub asynchronous: bool,
    /// The Secret of the key.
    pub secret: ObjectKey,
    /// The key by which it is called.
    pub key: CallKey,
}

/// A key of AWS, which nobody is shown.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// Its name.
    pub id: Arc<str>,
    /// The key.
    pub secret: Arc<str>,
    /// The token of a key for some time; empty for one that lasts.
    pub token: Arc<str>,
}

/// Without the key.
impl fmt::Debug for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallKey(..)")
    }
}

impl Function {
    /// What is special about HTTP there.
    pub(crate) fn special(&self) -> Special {
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

    /// The name of its host, for TLS.
    pub(crate) fn server_name(&self) -> Option<&Arc<str>> {
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
