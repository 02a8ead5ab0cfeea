//! What is recorded of requests for tracing.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::Tracing as Envoy;
use envoy_types::pb::envoy::r#type::tracing::v3::CustomTag;
use envoy_types::pb::envoy::r#type::tracing::v3::custom_tag::{self, Type};

use super::percent::Percent;

/// Attributes of one policy; the CRD allows as many.
pub const ATTRIBUTES_MAX: usize = 16;

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
