//! Upstream HTTP settings of some backends: filters of the cluster, and the names that certificates must have.

use envoy_types::pb::envoy::config::core::v3::UpstreamHttpProtocolOptions;
use envoy_types::pb::envoy::extensions::filters::http::upstream_codec::v3::UpstreamCodec;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::google::protobuf::Any;

use crate::encode::any;

/// The filter that ends each upstream filter chain.
const LAST: &str = "envoy.filters.http.upstream_codec";

/// The upstream HTTP settings of a backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Special {
    /// Filters that apply once the backend is selected, by name.
    pub filters: Vec<(&'static str, Any)>,
    /// The source of the names in TLS.
    pub names: Option<UpstreamHttpProtocolOptions>,
}

impl Special {
    /// Returns whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.names.is_none()
    }

    /// Returns the filters, and the one that ends the chain.
    pub fn chain(&self) -> Vec<HttpFilter> {
        if self.filters.is_empty() {
            return Vec::new();
        }
        let last = (LAST, any(&UpstreamCodec {}));
        let filter = |(name, config): &(&str, Any)| HttpFilter {
            name: (*name).to_owned(),
            config_type: Some(ConfigType::TypedConfig(config.clone())),
            ..Default::default()
        };
        self.filters.iter().chain([&last]).map(filter).collect()
    }
}
