//! Writes the model down as Envoy's messages, one file an xDS type. Encoding cannot fail and decides nothing.
//!
//! Equal input gives equal bytes. Envoy's messages have maps, whose order is not defined when there are several
//! entries: what is encoded here never puts more than one entry into a map of one message.

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
