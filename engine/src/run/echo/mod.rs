//! Echo back ends: small HTTP servers on loopback that answer each request with what they received, as JSON.
//!
//! The demo serves them behind Envoy, and the stories of the scenario tests ask them what really arrived: the answer has
//! the fields of the echo server of the Gateway API conformance suite, each server records its requests, and one port
//! speaks HTTP/1.1, HTTP/2 without TLS (h2c) and gRPC. A request can ask for a delay, a status and response headers.
//!
//! This room must not know Gateways, routes or Envoy, and it is not a back end for production: it answers anyone who
//! reaches its port.

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
