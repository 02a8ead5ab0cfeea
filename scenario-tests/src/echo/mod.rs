//! Echo backends: small HTTP servers on loopback that return each request that they receive as JSON.
//!
//! Stories check with them which requests really arrived: the response has the fields of the echo server of the Gateway
//! API conformance suite, each server records its requests, and one port accepts HTTP/1.1, HTTP/2 without TLS (h2c) and
//! gRPC. A request can set a delay, a status and response headers.
//!
//! This module must not depend on Gateways, routes or Envoy.

mod answer;
mod grpc;
mod record;
mod server;
mod wish;

pub use answer::{EchoAnswer, EchoIdentity};
pub use grpc::{GRPC_METHOD_HEADER, GrpcEcho};
pub use record::{RECORDED_DEFAULT, Recorded};
pub use server::{BODY_BYTES_MAX, CONNECTIONS_MAX, Echo, EchoOptions};
pub use wish::{DELAY_HEADER, DELAY_MAX, GRPC_STATUS_HEADER, SET_HEADER_HEADER, STATUS_HEADER};
