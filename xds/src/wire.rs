//! Encoding of responses as gRPC messages, without building the messages and without copying large bodies.
//!
//! The bytes before the body of a resource are written once and shared like the body itself. Only the data of a stream,
//! a nonce and a few names, is written for each client.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::Resource;
use crate::response::{Form, Response};

/// Maximum length of a body that is copied into the frame, in bytes: a separate frame costs more.
const COPIED_BODY_BYTES_MAX: usize = 4096;

/// The flag and the length before a gRPC message.
const GRPC_PREFIX: usize = 5;

/// Fields that `DeltaDiscoveryResponse` and `DiscoveryResponse` have in common.
const RESOURCES: u32 = 2;
const TYPE_URL: u32 = 4;
const NONCE: u32 = 5;
/// `DiscoveryResponse.version_info`.
const VERSION_INFO: u32 = 1;
/// `DeltaDiscoveryResponse.removed_resources`.
const REMOVED_RESOURCES: u32 = 6;
/// `Resource.version`, `.resource` and `.name`.
const RESOURCE_VERSION: u32 = 1;
const RESOURCE_BODY: u32 = 2;
const RESOURCE_NAME: u32 = 3;
/// `google.protobuf.Any.type_url` and `.value`.
const ANY_TYPE_URL: u32 = 1;
const ANY_VALUE: u32 = 2;

/// A response as a gRPC message, in consecutive parts.
pub(crate) struct Message {
    /// The parts; large bodies are shared.
    pub(crate) parts: Vec<Bytes>,
    /// Size of all parts, in bytes.
    pub(crate) length: usize,
}

/// Encodes a response. `encodes` counts resources that are encoded for the wire for the first time.
pub(crate) fn write(response: &Response, encodes: &AtomicU64) -> Message {
    let mut parts = MessageParts::default();
    parts.open.put_bytes(0, GRPC_PREFIX);
    match &response.form {
        Form::Delta { removed } => {
            for resource in &response.resources {
                parts.put(resource.head(response.kind, |resource| {
                    encodes.fetch_add(1, Relaxed);
                    delta_head(response.url(), resource)
                }));
                parts.put(resource.body.clone());
            }
            removed.iter().for_each(|name| put_string(&mut parts.open, REMOVED_RESOURCES, name));
        }
        Form::Sotw { version } => {
            put_string(&mut parts.open, VERSION_INFO, version);
            for resource in &response.resources {
                put_sotw_head(&mut parts.open, response.url(), resource);
                parts.put(resource.body.clone());
            }
        }
    }
    put_string(&mut parts.open, TYPE_URL, response.url());
    put_string(&mut parts.open, NONCE, &response.nonce.to_string());
    parts.close()
}

/// Returns all bytes of `DeltaDiscoveryResponse.resources` before the body.
fn delta_head(url: &str, resource: &Resource) -> Bytes {
    let version = resource.wire_version();
    let any = any_length(url, resource);
    let length = string_length(RESOURCE_NAME, resource.name.len())
        + string_length(RESOURCE_VERSION, version.len())
        + string_length(RESOURCE_BODY, any);
    let mut head = BytesMut::new();
    put_length(&mut head, RESOURCES, length);
    put_string(&mut head, RESOURCE_NAME, &resource.name);
    put_string(&mut head, RESOURCE_VERSION, &version);
    put_length(&mut head, RESOURCE_BODY, any);
    put_string(&mut head, ANY_TYPE_URL, url);
    put_length(&mut head, ANY_VALUE, resource.body.len());
    head.freeze()
}

/// Writes all bytes of `DiscoveryResponse.resources` before the body.
fn put_sotw_head(head: &mut BytesMut, url: &str, resource: &Resource) {
    put_length(head, RESOURCES, any_length(url, resource));
    put_string(head, ANY_TYPE_URL, url);
    put_length(head, ANY_VALUE, resource.body.len());
}

fn any_length(url: &str, resource: &Resource) -> usize {
    string_length(ANY_TYPE_URL, url.len()) + string_length(ANY_VALUE, resource.body.len())
}

fn string_length(field: u32, content: usize) -> usize {
    key_len(field) + encoded_len_varint(content as u64) + content
}

fn put_length(out: &mut BytesMut, field: u32, length: usize) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
}

fn put_string(out: &mut BytesMut, field: u32, content: &str) {
    put_length(out, field, content.len());
    out.put_slice(content.as_bytes());
}

/// Collected parts: finished ones, and the one that is being written.
#[derive(Default)]
struct MessageParts {
    done: Vec<BytesMut>,
    shared: Vec<Bytes>,
    open: BytesMut,
}

impl MessageParts {
    fn put(&mut self, bytes: Bytes) {
        if bytes.len() <= COPIED_BODY_BYTES_MAX {
            self.open.put_slice(&bytes);
        } else {
            self.done.push(self.open.split());
            self.shared.push(bytes);
        }
    }

    fn close(mut self) -> Message {
        self.done.push(self.open);
        let length =
            self.done.iter().map(BytesMut::len).sum::<usize>() + self.shared.iter().map(Bytes::len).sum::<usize>();
        // A response is far below 4 GiB: resources are encoded in memory, and their size is limited.
        let message = u32::try_from(length - GRPC_PREFIX).unwrap_or(u32::MAX);
        if let Some(prefix) = self.done.first_mut().and_then(|first| first.get_mut(1..GRPC_PREFIX)) {
            prefix.copy_from_slice(&message.to_be_bytes());
        }
        let mut shared = self.shared.into_iter();
        let mut parts = Vec::new();
        for done in self.done {
            parts.push(done.freeze());
            parts.extend(shared.next());
        }
        Message { parts, length }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};
    use holdfast_graph::Origins;
    use prost::Message as _;

    use super::*;
    use crate::ResourceType;

    fn response(form: Form) -> Response {
        let resources = [("small", 10), ("large", 100_000), ("empty", 0), ("edge", COPIED_BODY_BYTES_MAX)];
        let resources = resources
            .map(|(name, length)| Arc::new(Resource::new(name, vec![length as u8; length], Origins::default())));
        Response { kind: ResourceType::Route, are_hosts: false, nonce: 7, resources: resources.to_vec(), form }
    }

    fn read(response: &Response) -> Vec<u8> {
        let message = write(response, &AtomicU64::new(0));
        let bytes = message.parts.concat();
        assert_eq!(bytes.len(), message.length);
        assert_eq!(bytes[0], 0);
        assert_eq!(u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize, bytes.len() - 5);
        bytes[5..].to_vec()
    }

    #[test]
    fn delta_responses_are_read_as_written() {
        let response = response(Form::Delta { removed: vec![Arc::from("gone"), Arc::from("")] });
        let decoded = DeltaDiscoveryResponse::decode(read(&response).as_slice()).unwrap();
        assert_eq!(decoded.nonce, "7");
        assert_eq!(decoded.type_url, ResourceType::Route.url());
        assert_eq!(decoded.removed_resources, ["gone", ""]);
        assert_eq!(decoded.resources.len(), 4);
        for (decoded, resource) in decoded.resources.iter().zip(&response.resources) {
            assert_eq!(*decoded.name, *resource.name);
            assert_eq!(decoded.version, resource.version.to_string());
            let any = decoded.resource.as_ref().unwrap();
            assert_eq!(any.type_url, ResourceType::Route.url());
            assert_eq!(any.value, resource.body);
        }
    }

    #[test]
    fn state_of_the_world_responses_are_read_as_written() {
        let response = response(Form::Sotw { version: "v".to_owned() });
        let decoded = DiscoveryResponse::decode(read(&response).as_slice()).unwrap();
        assert_eq!((decoded.nonce.as_str(), decoded.version_info.as_str()), ("7", "v"));
        let bodies: Vec<&[u8]> = decoded.resources.iter().map(|any| any.value.as_slice()).collect();
        assert!(bodies.iter().zip(&response.resources).all(|(body, resource)| **body == resource.body));
    }

    #[test]
    fn an_empty_response_is_one_too() {
        let response = Response {
            kind: ResourceType::Cluster,
            are_hosts: false,
            nonce: 1,
            resources: Vec::new(),
            form: Form::Delta { removed: Vec::new() },
        };
        assert_eq!(DeltaDiscoveryResponse::decode(read(&response).as_slice()).unwrap().nonce, "1");
    }

    #[test]
    fn large_bodies_are_shared_and_each_resource_is_encoded_once() {
        let encodes = AtomicU64::new(0);
        let response = response(Form::Delta { removed: Vec::new() });
        for _ in 0..3 {
            let message = write(&response, &encodes);
            let large = &response.resources[1].body;
            assert!(message.parts.iter().any(|part| part.as_ptr() == large.as_ptr()));
        }
        assert_eq!(encodes.into_inner(), 4);
    }
}
