//! Tracing of requests: sampling and attributes.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::Tracing as Envoy;
use envoy_types::pb::envoy::r#type::metadata::v3::metadata_key::{PathSegment, path_segment::Segment};
use envoy_types::pb::envoy::r#type::metadata::v3::metadata_kind::{self, Kind};
use envoy_types::pb::envoy::r#type::metadata::v3::{MetadataKey, MetadataKind};
use envoy_types::pb::envoy::r#type::tracing::v3::CustomTag;
use envoy_types::pb::envoy::r#type::tracing::v3::custom_tag::{self, Type};

use super::percent::Percent;

/// Maximum number of attributes in one policy; equal to the limit in the CRD.
pub const ATTRIBUTES_MAX: usize = 16;
/// Maximum number of steps in a metadata path.
pub const PATH_STEPS_MAX: usize = 16;

/// Tracing settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracingSettings {
    /// The sampled share of requests for which clients request tracing.
    pub client: Option<Percent>,
    /// The sampled share of all other requests.
    pub random: Option<Percent>,
    /// The upper limit of both shares.
    pub overall: Option<Percent>,
    /// Additional attributes: the name and the source.
    pub attributes: Vec<(Arc<str>, AttributeSource)>,
}

/// The source of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeSource {
    /// A fixed text.
    Literal(Arc<str>),
    /// A request header, and the default value.
    Header(Arc<str>, Arc<str>),
    /// An environment variable of Envoy, and the default value.
    Environment(Arc<str>, Arc<str>),
    /// A metadata value.
    Metadata(AttributeMetadata),
}

/// A metadata value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeMetadata {
    /// The source of the metadata.
    pub of: MetadataOf,
    /// The namespace. The path from it to the value has at least one step.
    pub namespace: Arc<str>,
    /// The path to the value; see `namespace`.
    pub path: Vec<Arc<str>>,
    /// The default value.
    pub otherwise: Arc<str>,
}

/// The source of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataOf {
    /// The request.
    Request,
    /// The route.
    Route,
    /// The cluster.
    Cluster,
    /// The endpoint.
    Host,
}

impl MetadataOf {
    /// Parses the name that the CRD uses.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "Request" => Some(Self::Request),
            "Route" => Some(Self::Route),
            "Cluster" => Some(Self::Cluster),
            "Host" => Some(Self::Host),
            _ => None,
        }
    }
}

impl AttributeMetadata {
    fn encode(&self) -> custom_tag::Metadata {
        let kind = match self.of {
            MetadataOf::Request => Kind::Request(metadata_kind::Request {}),
            MetadataOf::Route => Kind::Route(metadata_kind::Route {}),
            MetadataOf::Cluster => Kind::Cluster(metadata_kind::Cluster {}),
            MetadataOf::Host => Kind::Host(metadata_kind::Host {}),
        };
        let step = |step: &Arc<str>| PathSegment { segment: Some(Segment::Key(step.to_string())) };
        custom_tag::Metadata {
            kind: Some(MetadataKind { kind: Some(kind) }),
            metadata_key: Some(MetadataKey {
                key: self.namespace.to_string(),
                path: self.path.iter().map(step).collect(),
            }),
            default_value: self.otherwise.to_string(),
        }
    }
}

impl TracingSettings {
    /// Returns settings that disable tracing.
    pub fn off() -> Self {
        let none = Some(Percent::default());
        Self { client: none, random: none, overall: none, attributes: Vec::new() }
    }

    /// Returns the Envoy configuration.
    pub fn encode(&self) -> Envoy {
        let share = |share: Option<Percent>| share.map(Percent::encode);
        let tag = |(name, attribute): &(Arc<str>, AttributeSource)| CustomTag {
            tag: name.to_string(),
            r#type: Some(match attribute {
                AttributeSource::Literal(value) => Type::Literal(custom_tag::Literal { value: value.to_string() }),
                AttributeSource::Header(name, default_value) => Type::RequestHeader(custom_tag::Header {
                    name: name.to_string(),
                    default_value: default_value.to_string(),
                }),
                AttributeSource::Metadata(value) => Type::Metadata(value.encode()),
                AttributeSource::Environment(name, default_value) => Type::Environment(custom_tag::Environment {
                    name: name.to_string(),
                    default_value: default_value.to_string(),
                }),
            }),
        };
        Envoy {
            client_sampling: share(self.client),
            random_sampling: share(self.random),
            overall_sampling: share(self.overall),
            custom_tags: self.attributes.iter().map(tag).collect(),
            ..Default::default()
        }
    }
}
