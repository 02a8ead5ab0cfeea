//! The HTTP filters that policies and rules configure, in the order of the chain.
//!
//! All of them are in the chain of every listener of a Gateway from the beginning, disabled where no route, host or
//! route configuration has settings for them. Therefore a policy never changes a listener: connections older than such
//! a change would continue without the filter, and Envoy silently accepts settings for a filter that is not in the
//! chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::HeaderMutation;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::acl::AccessList;
use super::api_key_auth::ApiKeys;
use super::basic_auth::BasicAuthUsers;
use super::buffer::BufferLimit;
use super::compression::{self, Library};
use super::connection::guard;
use super::cors::CorsSettings;
use super::csrf::CsrfSettings;
use super::deny_response::DenyResponse;
use super::fault_injection::FaultInjectionPolicy;
use super::header_mutation::HeaderMutations;
use super::local_rate_limit::LocalLimit;
use super::metadata::MetadataSettings;
use super::rbac::Conditions;
use super::secret_headers::SecretHeaders;
use super::session::{self, PersistentSession};
use super::token_bucket::TokenBucketSettings;
use crate::encode::any;

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// Rejects requests on connections with weaker protection than the current settings require.
    Connection,
    /// Fault injection.
    Fault,
    /// CORS.
    Cors,
    /// Access list by client address.
    Acl,
    /// Response to requests that the access list denies.
    DenyResponse,
    /// Basic authentication.
    BasicAuth,
    /// API key authentication.
    ApiKeyAuth,
    /// Conditions on requests.
    Rbac,
    /// Local rate limiting.
    LocalRateLimit,
    /// Headers from templates.
    Transformation,
    /// Metadata from texts and headers.
    Metadata,
    /// Header changes.
    HeaderMutation,
    /// Headers with values from Secrets.
    SecretHeaders,
    /// Decompression of request bodies.
    Decompressor(Library),
    /// Request buffering, of the decompressed body.
    Buffer,
    /// CSRF protection.
    Csrf,
    /// Compression of response bodies.
    Compressor(Library),
    /// Session persistence.
    Session,
}

/// Filters before authentication and authorization: CORS preflight requests carry no credentials.
pub(crate) const BEFORE: [Filter; 2] = [Filter::Fault, Filter::Cors];
/// Access control filters. They come after the filters that call external services, since a service that receives
/// requests earlier may select another route.
pub(crate) const ACCESS: [Filter; 6] =
    [Filter::Acl, Filter::DenyResponse, Filter::BasicAuth, Filter::ApiKeyAuth, Filter::Rbac, Filter::LocalRateLimit];
/// Filters that check or change the content of requests and responses.
pub(crate) const CONTENT: [Filter; 13] = [
    Filter::Transformation,
    Filter::Metadata,
    Filter::HeaderMutation,
    Filter::SecretHeaders,
    Filter::Decompressor(Library::Gzip),
    Filter::Decompressor(Library::Brotli),
    Filter::Decompressor(Library::Zstd),
    Filter::Buffer,
    Filter::Csrf,
    Filter::Compressor(Library::Gzip),
    Filter::Compressor(Library::Brotli),
    Filter::Compressor(Library::Zstd),
    Filter::Session,
];

/// The setting of a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// Disables the filter.
    Off,
    /// Enables the filter without settings.
    On,
    /// See [`Filter::Connection`]: the label that the filter chain must have.
    Connection(String),
    /// See [`Filter::Fault`].
    Fault(FaultInjectionPolicy),
    /// See [`Filter::Acl`].
    Acl(AccessList),
    /// See [`Filter::DenyResponse`].
    DenyResponse(DenyResponse),
    /// See [`Filter::Cors`].
    Cors(CorsSettings),
    /// See [`Filter::BasicAuth`].
    BasicAuth(BasicAuthUsers),
    /// See [`Filter::ApiKeyAuth`].
    ApiKeyAuth(ApiKeys),
    /// See [`Filter::Rbac`].
    Rbac(Conditions),
    /// See [`Filter::LocalRateLimit`].
    LocalRateLimit(TokenBucketSettings),
    /// See [`Filter::HeaderMutation`] and [`Filter::Transformation`].
    Headers(HeaderMutations),
    /// See [`Filter::SecretHeaders`].
    SecretHeaders(SecretHeaders),
    /// See [`Filter::Metadata`].
    Metadata(MetadataSettings),
    /// See [`Filter::Buffer`].
    Buffer(BufferLimit),
    /// See [`Filter::Csrf`].
    Csrf(CsrfSettings),
}

/// The settings of the filters at one level.
pub type Filters = BTreeMap<Filter, Arc<Setting>>;

impl Filter {
    /// Returns the filter's name in the chain, which is the key of its per-route settings.
    pub fn name(self) -> &'static str {
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
            Filter::Session => session::FILTER,
        }
    }

    /// Returns whether the filter limits access or the rate of requests.
    pub fn guards(self) -> bool {
        match self {
            Filter::Connection
            | Filter::Acl
            | Filter::Cors
            | Filter::BasicAuth
            | Filter::ApiKeyAuth
            | Filter::Rbac
            | Filter::LocalRateLimit
            | Filter::Csrf => true,
            // These filters may remove headers that must not reach a backend, or add input that other filters decide
            // by.
            Filter::Transformation
            | Filter::Metadata
            | Filter::HeaderMutation
            | Filter::SecretHeaders
            | Filter::Buffer => true,
            Filter::Fault
            | Filter::DenyResponse
            | Filter::Decompressor(_)
            | Filter::Compressor(_)
            | Filter::Session => false,
        }
    }

    /// Returns whether the filter with this setting protects requests or backends.
    pub fn protects(self, setting: &Setting) -> bool {
        match self {
            Filter::HeaderMutation | Filter::Transformation => match setting {
                Setting::Headers(headers) => headers.request.hides() || headers.response.hides(),
                _ => true,
            },
            // A disabled filter adds nothing.
            Filter::Metadata | Filter::SecretHeaders => *setting != Setting::Off,
            Filter::Fault
            | Filter::DenyResponse
            | Filter::Decompressor(_)
            | Filter::Compressor(_)
            | Filter::Session => false,
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

    /// Returns the configuration in the chain, which has no effect without per-route settings.
    pub(crate) fn in_chain(self) -> Any {
        match self {
            Filter::Fault => any(&FaultInjectionPolicy::in_chain()),
            Filter::Connection | Filter::Acl | Filter::Rbac => any(&Rbac::default()),
            Filter::DenyResponse => any(&DenyResponse::in_chain()),
            Filter::Cors => any(&envoy_types::pb::envoy::extensions::filters::http::cors::v3::Cors::default()),
            Filter::BasicAuth => any(&BasicAuthUsers::in_chain()),
            Filter::ApiKeyAuth => any(&ApiKeys::in_chain()),
            Filter::LocalRateLimit => any(&LocalLimit::filter()),
            Filter::Transformation | Filter::HeaderMutation | Filter::SecretHeaders => any(&HeaderMutation::default()),
            Filter::Metadata => any(&MetadataSettings::default().encode()),
            Filter::Buffer => any(&BufferLimit::in_chain()),
            Filter::Csrf => any(&CsrfSettings::in_chain()),
            Filter::Decompressor(library) => any(&compression::decompressor(library)),
            Filter::Compressor(library) => any(&compression::compressor(library)),
            Filter::Session => any(&PersistentSession::in_chain()),
        }
    }
}

impl Setting {
    /// Returns the per-route configuration.
    pub fn encode(&self) -> Any {
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

/// Returns the encoded settings with the names of their filters, in order.
pub fn encoded(filters: &Filters) -> impl Iterator<Item = (&'static str, Any)> {
    filters.iter().map(|(filter, setting)| (filter.name(), setting.encode()))
}

/// The encoded settings that limit access, by the name of the filter.
pub type Guarding = BTreeMap<String, Vec<u8>>;

/// Returns the settings of the filters that limit access; see [`Guarding`].
pub fn guarding(filters: &Filters) -> Guarding {
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
