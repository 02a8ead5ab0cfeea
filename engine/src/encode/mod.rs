//! Writes the model down as Envoy's messages, one file an xDS type. Encoding cannot fail and decides nothing.
//!
//! Equal input gives equal bytes. Envoy's messages have maps, whose order is not defined when there are several
//! entries: what is encoded here never puts more than one entry into a map of one message.

pub(crate) mod chain_parts;
pub(crate) mod cluster;
pub(crate) mod endpoints;
pub(crate) mod listener;
pub(crate) mod names;
pub(crate) mod route;
pub(crate) mod route_configuration;
pub(crate) mod secret;
pub(crate) mod slots;

use envoy_types::pb::google::protobuf::{Any, Duration as ProtoDuration};
use prost::{Message, Name};

/// A message as an `Any`.
pub(crate) fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// One entry of a map of a message, whose value is field 2. Several are written one after the other, in order.
pub(crate) fn entry(field: u32, key: &str, value: impl FnOnce(&mut Vec<u8>), bytes: &mut Vec<u8>) {
    let mut entry = Vec::new();
    prost::encoding::string::encode(1, &key.to_owned(), &mut entry);
    value(&mut entry);
    prost::encoding::bytes::encode(field, &entry, bytes);
}

/// Settings of a filter for a route or host.
pub(crate) fn per_filter(field: u32, name: &str, config: &Any, bytes: &mut Vec<u8>) {
    entry(field, name, |bytes| prost::encoding::message::encode(2, config, bytes), bytes);
}

/// A duration as protobuf has it. Durations were checked when they were read; what is too long is cut.
pub(crate) fn duration(duration: std::time::Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A duration in whole seconds.
pub(crate) fn seconds(seconds: i64) -> ProtoDuration {
    ProtoDuration { seconds, nanos: 0 }
}
