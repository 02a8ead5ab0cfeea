//! Request buffering: the whole request is buffered before it is forwarded; a larger one is rejected.

use envoy_types::pb::envoy::extensions::filters::http::buffer::v3::buffer_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::buffer::v3::{Buffer as Envoy, BufferPerRoute};
use envoy_types::pb::google::protobuf::UInt32Value;

/// The maximum size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimit {
    /// Size in bytes; at least one.
    pub bytes: u32,
}

impl BufferLimit {
    /// Parses a Kubernetes quantity: a number with an optional unit, as in `64Ki`.
    pub fn read(text: &str) -> Option<Self> {
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at_checked(split)?;
        let factor: u64 = match unit {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            _ => return None,
        };
        let number: u64 = number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())??;
        let bytes = u32::try_from(number.checked_mul(factor)?).ok()?;
        (bytes > 0).then_some(Self { bytes })
    }

    /// Returns the per-route configuration.
    pub fn encode(&self) -> BufferPerRoute {
        BufferPerRoute { r#override: Some(Override::Buffer(envoy(self.bytes))) }
    }

    /// Returns the configuration of the filter in the chain, with the largest limit.
    pub(crate) fn in_chain() -> Envoy {
        envoy(u32::MAX)
    }
}

fn envoy(bytes: u32) -> Envoy {
    Envoy { max_request_bytes: Some(UInt32Value { value: bytes }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let bytes = |text: &str| BufferLimit::read(text).map(|buffer| buffer.bytes);
        assert_eq!(bytes("1024"), Some(1024));
        assert_eq!(bytes("64Ki"), Some(65_536));
        assert_eq!(bytes("1M"), Some(1_000_000));
        for wrong in ["", "0", "-1", "4Gi", "1m", "Ki", "1.5Mi", "1KiB", "9999999999999999999Gi"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
