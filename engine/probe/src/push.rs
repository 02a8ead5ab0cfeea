//! Responses to the probe: delta xDS responses with one resource, or with removed names.

use bytes::Bytes;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource};
use envoy_types::pb::google::protobuf::Any;
use holdfast_xds::ResourceType;

/// A response; its answer has the same nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) kind: ResourceType,
    pub(crate) nonce: u64,
    pub(crate) content: PushContent,
}

/// The content of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PushContent {
    /// Resources by name.
    Resources(Vec<(String, Bytes)>),
    /// A removed name.
    Gone(String),
}

/// Generator of nonces; no number is used twice.
#[derive(Debug, Default)]
pub(crate) struct Nonces(u64);

impl Nonces {
    pub(crate) fn resource(&mut self, kind: ResourceType, name: String, body: Bytes) -> Push {
        self.push(kind, PushContent::Resources(vec![(name, body)]))
    }

    pub(crate) fn push(&mut self, kind: ResourceType, content: PushContent) -> Push {
        self.0 += 1;
        Push { kind, nonce: self.0, content }
    }
}

impl From<Push> for DeltaDiscoveryResponse {
    fn from(push: Push) -> Self {
        let version = push.nonce.to_string();
        let resource = |(name, body): (String, Bytes)| Resource {
            name,
            // Each version is new, so that a repeated resource counts as changed.
            version: version.clone(),
            resource: Some(Any { type_url: push.kind.url().to_owned(), value: body.into() }),
            ..Default::default()
        };
        let (resources, removed_resources) = match push.content {
            PushContent::Resources(resources) => (resources.into_iter().map(resource).collect(), Vec::new()),
            PushContent::Gone(name) => (Vec::new(), vec![name]),
        };
        Self {
            resources,
            removed_resources,
            type_url: push.kind.url().to_owned(),
            nonce: version,
            ..Default::default()
        }
    }
}
