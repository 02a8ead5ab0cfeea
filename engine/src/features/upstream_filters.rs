//! What is special about HTTP towards some back ends: filters of the cluster, and whom certificates must prove.

use envoy_types::pb::envoy::config::core::v3::UpstreamHttpProtocolOptions;
use envoy_types::pb::envoy::extensions::filters::http::upstream_codec::v3::UpstreamCodec;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::google::protobuf::Any;

use crate::encode::any;

/// The filter that ends each such chain.
const LAST: &str = "envoy.filters.http.upstream_codec";

/// What is special about HTTP towards a back end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Special {
    /// Filters that requests meet once it is known where they go, by their names.
    pub(crate) filters: Vec<(&'static str, Any)>,
    /// Where the names in TLS come from.
    pub(crate) names: Option<UpstreamHttpProtocolOptions>,
}

impl Special {
    /// Is there nothing special?
    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.names.is_none()
    }

    /// The filters, and the one that ends the chain.
    pub(crate) fn chain(&self) -> Vec<HttpFilter> {
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
