//! HTTP features, one file for each: model, validation, merging and Envoy form.
//!
//! The files of `apis` and `translate` convert to these models. A new feature is one file here and its conversion in
//! each API that offers it.

pub mod acl;
pub mod api_key_auth;
pub mod basic_auth;
pub mod body_format;
pub mod buffer;
pub mod call_options;
pub mod chain;
pub mod client_certificate;
pub mod compression;
pub mod connection;
pub mod cookies;
pub mod cors;
pub mod csrf;
pub mod datagrams;
pub mod deny_response;
pub mod ext_auth;
pub mod ext_proc;
pub mod fault_injection;
pub mod filter_state;
pub mod filters;
pub mod forward_proxy;
pub mod function;
pub mod guards;
pub mod hash;
pub mod header_mutation;
pub mod headers;
pub mod hosts;
pub mod internal_redirect;
pub mod ip_filter;
pub mod jwt;
pub mod local_rate_limit;
pub mod metadata;
pub mod mirror;
pub mod oauth2;
pub mod percent;
pub mod rate_limit;
pub mod rbac;
pub mod redirect;
pub mod remote;
pub mod retry;
pub mod rewrite;
pub mod secret_headers;
pub mod server_tls;
pub mod session;
pub mod share;
pub mod stream;
pub mod timeout;
pub mod token_bucket;
pub mod tracing;
pub mod upstream;
pub(crate) mod upstream_filters;
pub mod wall;

/// An error in a feature's settings: the field (relative to the feature's own field) and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Field below the feature's own field, as in `set[0].name`; empty for the feature itself.
    pub field: String,
    /// A sentence for the owner of the object.
    pub message: String,
}

impl Flaw {
    /// Creates a flaw of the given field.
    pub fn new(field: impl Into<String>, message: impl ToString) -> Self {
        Self { field: field.into(), message: message.to_string() }
    }
}
