//! The object that owns a filter chain with connections, or a listener with datagrams, as metadata of it. Neither has
//! routes with names, and the name of a chain stays the same when another object takes it over.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::Metadata;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use crate::features::stream::Stream;

/// The namespace of the metadata.
const NAMESPACE: &str = "holdfast.dev";
/// The field with the object.
const OWNER: &str = "owner";

/// Returns the metadata with the owner of connections or datagrams.
pub(super) fn metadata(to: &Stream) -> Option<Metadata> {
    let owner = to.origins.first()?.to_string();
    let value = Value { kind: Some(Kind::StringValue(owner)) };
    // One entry in each map: the order of several would not be fixed.
    let fields = Struct { fields: HashMap::from([(OWNER.to_owned(), value)]) };
    Some(Metadata { filter_metadata: HashMap::from([(NAMESPACE.to_owned(), fields)]), ..Default::default() })
}

/// Returns the owner; `None` where the metadata has none.
pub(crate) fn owner(metadata: Option<&Metadata>) -> Option<&str> {
    match &metadata?.filter_metadata.get(NAMESPACE)?.fields.get(OWNER)?.kind {
        Some(Kind::StringValue(owner)) => Some(owner),
        _ => None,
    }
}
