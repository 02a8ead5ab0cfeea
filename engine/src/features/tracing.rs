//! What is recorded of requests for tracing.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::Tracing as Envoy;
use envoy_types::pb::envoy::r#type::metadata::v3::metadata_key::{PathSegment, path_segment::Segment};
use envoy_types::pb::envoy::r#type::metadata::v3::metadata_kind::{self, Kind};
use envoy_types::pb::envoy::r#type::metadata::v3::{MetadataKey, MetadataKind};
use envoy_types::pb::envoy::r#type::tracing::v3::CustomTag;
use envoy_types::pb::envoy::r#type::tracing::v3::custom_tag::{self, Type};

use super::percent::Percent;

/// Attributes of one policy; the CRD allows as many.
pub const ATTRIBUTES_MAX: usize = 16;
/// Steps of the way to a value in metadata.
pub const PATH_STEPS_MAX: usize = 16;

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracing {
    /// Of requests for which clients ask.
    pub client: Option<Percent>,
    /// Of all others.
    pub random: Option<Percent>,
    /// The most of both.
    pub overall: Option<Percent>,
    /// What is recorded besides: name and where it comes from.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

/// Where an attribute comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// It is this text.
    Literal(Arc<str>),
    /// A header of the request, and what is recorded otherwise.
    Header(Arc<str>, Arc<str>),
    /// A variable of Envoy's environment, and what is recorded otherwise.
    Environment(Arc<str>, Arc<str>),
    /// Metadata.
    Metadata(MetadataValue),
}

/// Metadata that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataValue {
    /// Whose it is.
    pub of: MetadataOf,
    /// The namespace, and then the way to the value; at least one step.
    pub namespace: Arc<str>,
    /// See `namespace`.
    pub path: Vec<Arc<str>>,
    /// What is recorded otherwise.
    pub otherwise: Arc<str>,
}

/// Whose metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataOf {
    /// The request's.
    Request,
    /// The route's.
    Route,
    /// The cluster's.
    Cluster,
    /// The endpoint's.
    Host,
}

impl MetadataOf {
    /// By its name in the CRD.
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

impl MetadataValue {
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

impl Tracing {
    /// Nothing is recorded.
    pub fn off() -> Self {
        let none = Some(Percent::default());
        Self { client: none, random: none, overall: none, attributes: Vec::new() }
    }

    /// Envoy's form.
    pub(crate) fn encode(&self) -> Envoy {
        let share = |share: Option<Percent>| share.map(Percent::encode);
        let tag = |(name, attribute): &(Arc<str>, Attribute)| CustomTag {
            tag: name.to_string(),
            r#type: Some(match attribute {
                Attribute::Literal(value) => Type::Literal(custom_tag::Literal { value: value.to_string() }),
                Attribute::Header(name, default_value) => Type::RequestHeader(custom_tag::Header {
                    name: name.to_string(),
                    default_value: default_value.to_string(),
                }),
                Attribute::Metadata(value) => Type::Metadata(value.encode()),
                Attribute::Environment(name, default_value) => Type::Environment(custom_tag::Environment {
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
