//! Encoding of the model as Envoy's messages, one file for each xDS type. Encoding cannot fail and makes no decisions.
//!
//! Equal input results in equal bytes. Envoy's messages have maps, and the order of several entries is not defined:
//! this module never puts more than one entry into a map of one message.

pub mod cluster;
pub mod endpoints;
pub mod listener;
pub mod names;
pub(crate) mod owner;
pub mod route;
pub mod route_configuration;
pub mod secret;
pub mod slots;

use envoy_types::pb::google::protobuf::{Any, Duration as ProtoDuration};
use prost::{Message, Name};

/// Returns a message as an `Any`.
pub fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// Appends an entry of a map with the value in field 2. Several entries are appended in order.
pub fn entry(field: u32, key: &str, value: impl FnOnce(&mut Vec<u8>), bytes: &mut Vec<u8>) {
    let mut entry = Vec::new();
    prost::encoding::string::encode(1, &key.to_owned(), &mut entry);
    value(&mut entry);
    prost::encoding::bytes::encode(field, &entry, bytes);
}

/// Appends the settings of a filter for a route or host.
pub(crate) fn per_filter(field: u32, name: &str, config: &Any, bytes: &mut Vec<u8>) {
    entry(field, name, |bytes| prost::encoding::message::encode(2, config, bytes), bytes);
}

/// Returns a protobuf duration. Durations are validated when they are read; longer ones are truncated.
pub fn duration(duration: std::time::Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// Returns a duration of whole seconds.
pub fn seconds(seconds: i64) -> ProtoDuration {
    ProtoDuration { seconds, nanos: 0 }
}
