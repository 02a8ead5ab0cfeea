//! The HTTP filters that policies have settings for, in the order in which requests meet them.
//!
//! All of them stand in the chain of every listener of a Gateway from the beginning, switched off where a route, host or
//! route configuration says nothing. So no policy ever needs a change of a listener: connections that are older than
//! such a change would go on without the filter, and Envoy takes settings for a filter that is not there in silence.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::HeaderMutation;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::acl::Acl;
use super::api_key_auth::ApiKeyAuth;
use super::basic_auth::BasicAuth;
use super::buffer::Buffer;
use super::compression::{self, Library};
use super::connection::guard;
use super::cors::Cors;
use super::csrf::Csrf;
use super::deny_response::DenyResponse;
use super::fault_injection::FaultInjection;
use super::header_mutation::HeaderMutations;
use super::local_rate_limit::LocalRateLimit;
use super::metadata::Metadata;
use super::rbac::Conditions;
use super::secret_headers::SecretHeaders;
use super::token_bucket::TokenBucket;
use crate::encode::any;

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// Connections that are guarded by less than is asked for today.
    Connection,
    /// Requests that are delayed or fail on purpose.
    Fault,
    /// Cross-origin requests.
    Cors,
    /// Who may come in, by address.
    Acl,
    /// What those are told who may not.
    DenyResponse,
    /// Names and passwords.
    BasicAuth,
    /// Keys.
    ApiKeyAuth,
    /// Conditions under which requests pass.
    Rbac,
    /// How often requests may come to one Envoy.
    LocalRateLimit,
    /// Headers made from templates.
    Transformation,
    /// Metadata from texts and headers.
    Metadata,
    /// Changes to headers.
    HeaderMutation,
    /// Headers whose values are from Secrets.
    SecretHeaders,
    /// Requests are taken in whole.
    Buffer,
    /// Requests that other sites make.
    Csrf,
    /// Bodies of requests are expanded.
    Decompressor(Library),
    /// Bodies of responses are compressed.
    Compressor(Library),
}

/// Those that requests meet before anybody is asked about them: preflights carry no credentials.
pub(crate) const BEFORE: [Filter; 2] = [Filter::Fault, Filter::Cors];
/// Those that say who may come in. Who sees requests before may choose another route, so that they come after.
pub(crate) const ACCESS: [Filter; 6] =
    [Filter::Acl, Filter::DenyResponse, Filter::BasicAuth, Filter::ApiKeyAuth, Filter::Rbac, Filter::LocalRateLimit];
/// Those that judge or change what requests look like.
pub(crate) const CONTENT: [Filter; 12] = [
    Filter::Transformation,
    Filter::Metadata,
    Filter::HeaderMutation,
    Filter::SecretHeaders,
    Filter::Buffer,
    Filter::Csrf,
    Filter::Decompressor(Library::Gzip),
    Filter::Decompressor(Library::Brotli),
    Filter::Decompressor(Library::Zstd),
    Filter::Compressor(Library::Gzip),
    Filter::Compressor(Library::Brotli),
    Filter::Compressor(Library::Zstd),
];

/// What a filter is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// Nothing: it does not take part.
    Off,
    /// Nothing: it takes part.
    On,
    /// See [`Filter::Connection`]: what chains must say.
    Connection(String),
    /// See [`Filter::Fault`].
    Fault(FaultInjection),
    /// See [`Filter::Acl`].
    Acl(Acl),
    /// See [`Filter::DenyResponse`].
    DenyResponse(DenyResponse),
    /// See [`Filter::Cors`].
    Cors(Cors),
    /// See [`Filter::BasicAuth`].
    BasicAuth(BasicAuth),
    /// See [`Filter::ApiKeyAuth`].
    ApiKeyAuth(ApiKeyAuth),
    /// See [`Filter::Rbac`].
    Rbac(Conditions),
    /// See [`Filter::LocalRateLimit`].
    LocalRateLimit(TokenBucket),
    /// See [`Filter::HeaderMutation`] and [`Filter::Transformation`].
    Headers(HeaderMutations),
    /// See [`Filter::SecretHeaders`].
    SecretHeaders(SecretHeaders),
    /// See [`Filter::Metadata`].
    Metadata(Metadata),
    /// See [`Filter::Buffer`].
    Buffer(Buffer),
    /// See [`Filter::Csrf`].
    Csrf(Csrf),
}

/// What the filters are told at one place.
pub type Filters = BTreeMap<Filter, Arc<Setting>>;

impl Filter {
    /// Its name in the chain, under which routes have settings for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Filter::Connection => "holdfast.dev/connection",
            Filter::Fault => "envoy.filters.http.fault",
            Filter::Acl => "holdfast.dev/acl",
            Filter::DenyResponse => "holdfast.dev/deny-response",
            Filter::Cors => crate::encode::route::CORS_FILTER,
            Filter::BasicAuth => "envoy.filters.http.basic_auth",
            Filter::ApiKeyAuth => "envoy.filters.http.api_key_auth",
            Filter::Rbac => "holdfast.dev/rbac",
            Filter::LocalRateLimit => super::local_rate_limit::FILTER,
            Filter::Transformation => "holdfast.dev/transformation",
            Filter::Metadata => "envoy.filters.http.header_to_metadata",
            Filter::HeaderMutation => "envoy.filters.http.header_mutation",
            Filter::SecretHeaders => holdfast_xds::SECRET_SETTINGS,
            Filter::Buffer => "envoy.filters.http.buffer",
            Filter::Csrf => "envoy.filters.http.csrf",
            Filter::Decompressor(Library::Gzip) => "envoy.filters.http.decompressor",
            Filter::Decompressor(Library::Brotli) => "envoy.filters.http.decompressor.brotli",
            Filter::Decompressor(Library::Zstd) => "envoy.filters.http.decompressor.zstd",
            Filter::Compressor(Library::Gzip) => "envoy.filters.http.compressor",
            Filter::Compressor(Library::Brotli) => "envoy.filters.http.compressor.brotli",
            Filter::Compressor(Library::Zstd) => "envoy.filters.http.compressor.zstd",
        }
    }

    /// Does it decide who may come in, or how much?
    pub(crate) fn guards(self) -> bool {
        match self {
            Filter::Connection
            | Filter::Acl
            | Filter::Cors
            | Filter::BasicAuth
            | Filter::ApiKeyAuth
            | Filter::Rbac
            | Filter::LocalRateLimit
            | Filter::Csrf => true,
            // They may take headers away that must not get through, or put in what others judge by.
            Filter::Transformation
            | Filter::Metadata
            | Filter::HeaderMutation
            | Filter::SecretHeaders
            | Filter::Buffer => true,
            Filter::Fault | Filter::DenyResponse | Filter::Decompressor(_) | Filter::Compressor(_) => false,
        }
    }

    /// Does it protect requests or back ends with this setting?
    pub(crate) fn protects(self, setting: &Setting) -> bool {
        match self {
            Filter::HeaderMutation | Filter::Transformation => match setting {
                Setting::Headers(headers) => headers.request.hides() || headers.response.hides(),
                _ => true,
            },
            // What is switched off puts nothing in.
            Filter::Metadata | Filter::SecretHeaders => *setting != Setting::Off,
            Filter::Fault | Filter::DenyResponse | Filter::Decompressor(_) | Filter::Compressor(_) => false,
            Filter::Connection
            | Filter::Acl
            | Filter::Cors
            | Filter::BasicAuth
            | Filter::ApiKeyAuth
            | Filter::Rbac
            | Filter::LocalRateLimit
            | Filter::Csrf
            | Filter::Buffer => true,
        }
    }

    /// What it is told in the chain, of no effect where a route says nothing.
    pub(crate) fn in_chain(self) -> Any {
        match self {
            Filter::Fault => any(&FaultInjection::in_chain()),
            Filter::Connection | Filter::Acl | Filter::Rbac => any(&Rbac::default()),
            Filter::DenyResponse => any(&DenyResponse::in_chain()),
            Filter::Cors => any(&envoy_types::pb::envoy::extensions::filters::http::cors::v3::Cors::default()),
            Filter::BasicAuth => any(&BasicAuth::in_chain()),
            Filter::ApiKeyAuth => any(&ApiKeyAuth::in_chain()),
            Filter::LocalRateLimit => any(&LocalRateLimit::filter()),
            Filter::Transformation | Filter::HeaderMutation | Filter::SecretHeaders => any(&HeaderMutation::default()),
            Filter::Metadata => any(&Metadata::default().encode()),
            Filter::Buffer => any(&Buffer::in_chain()),
            Filter::Csrf => any(&Csrf::in_chain()),
            Filter::Decompressor(library) => any(&compression::decompressor(library)),
            Filter::Compressor(library) => any(&compression::compressor(library)),
        }
    }
}

impl Setting {
    /// Envoy's form.
    pub(crate) fn encode(&self) -> Any {
        match self {
            Setting::Off => any(&FilterConfig { disabled: true, ..Default::default() }),
            Setting::On => any(&FilterConfig { config: Some(Any::default()), ..Default::default() }),
            Setting::Connection(label) => any(&guard::demand(label)),
            Setting::Fault(fault) => any(&fault.encode()),
            Setting::Acl(acl) => acl.encode(),
            Setting::DenyResponse(response) => any(&response.encode()),
            Setting::Cors(cors) => any(&cors.encode()),
            Setting::BasicAuth(auth) => any(&auth.encode()),
            Setting::ApiKeyAuth(auth) => any(&auth.encode()),
            Setting::Rbac(conditions) => any(&conditions.encode()),
            Setting::LocalRateLimit(bucket) => any(&bucket.encode()),
            Setting::Headers(mutations) => any(&mutations.encode()),
            Setting::SecretHeaders(headers) => any(&headers.encode()),
            Setting::Metadata(metadata) => any(&metadata.encode()),
            Setting::Buffer(buffer) => any(&buffer.encode()),
            Setting::Csrf(csrf) => any(&csrf.encode()),
        }
    }
}

/// Settings with the names of their filters, in order.
pub(crate) fn encoded(filters: &Filters) -> impl Iterator<Item = (&'static str, Any)> {
    filters.iter().map(|(filter, setting)| (filter.name(), setting.encode()))
}

/// What of settings decides who may come in, encoded, by the name of the filter.
pub(crate) type Guarding = BTreeMap<String, Vec<u8>>;

/// See [`Guarding`].
pub(crate) fn guarding(filters: &Filters) -> Guarding {
    let guards = filters.iter().filter(|(filter, _)| filter.guards());
    guards.map(|(filter, setting)| (filter.name().to_owned(), setting.encode().encode_to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_filters_share_a_name_and_the_order_is_that_of_the_chain() {
        let all: Vec<Filter> = [Filter::Connection].into_iter().chain(BEFORE).chain(ACCESS).chain(CONTENT).collect();
        let names: BTreeSet<_> = all.iter().map(|filter| filter.name()).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.is_sorted());
    }
}
