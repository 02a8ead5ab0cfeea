//! gRPC side of an echo server: a call of any method of any service returns one message.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// Response header of a gRPC call with the called method, as `package.Service/Method`.
pub const GRPC_METHOD_HEADER: &str = "x-echo-method";
/// Length of the head of a gRPC frame: one byte (compressed or not) and the length of the message in four.
const FRAME_HEAD_BYTES: usize = 5;

/// The message that a gRPC call returns. Its protobuf form is
/// `message GrpcEcho { string method = 1; string answer = 2; bytes request = 3; }`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GrpcEcho {
    /// The called method, as `package.Service/Method`.
    #[prost(string, tag = "1")]
    pub method: String,
    /// The request as the echo server received it: an [`EchoAnswer`](super::EchoAnswer) as JSON.
    #[prost(string, tag = "2")]
    pub answer: String,
    /// The bytes of the first message of the call, without its frame.
    #[prost(bytes = "vec", tag = "3")]
    pub request: Vec<u8>,
}

impl GrpcEcho {
    /// The message in its gRPC frame, not compressed.
    pub(super) fn framed(&self) -> Bytes {
        let message = self.encode_to_vec();
        let mut frame = BytesMut::with_capacity(FRAME_HEAD_BYTES + message.len());
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        frame.put_slice(&message);
        frame.freeze()
    }
}

/// The bytes of the first message of a call; empty if the body is truncated.
pub(super) fn first_message(body: &[u8]) -> &[u8] {
    let Some((head, rest)) = body.split_first_chunk::<FRAME_HEAD_BYTES>() else { return &[] };
    let [_, length @ ..] = head;
    usize::try_from(u32::from_be_bytes(*length)).ok().and_then(|length| rest.get(..length)).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_back() {
        let echo = GrpcEcho { method: "a.B/C".to_owned(), answer: "{}".to_owned(), request: vec![1, 2] };
        assert_eq!(first_message(&echo.framed()), echo.encode_to_vec());
    }

    #[test]
    fn a_cut_frame_has_no_message() {
        assert_eq!(first_message(&[0, 0, 0]), b"");
        assert_eq!(first_message(&[0, 0, 0, 0, 9, 1]), b"");
        assert_eq!(first_message(&[0, 255, 255, 255, 255]), b"");
    }
}
