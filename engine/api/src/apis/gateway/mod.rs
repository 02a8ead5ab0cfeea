//! Kinds of `gateway.networking.k8s.io`.

pub mod backend_tls;
mod backend_tls_protection;
pub mod class;
pub(in crate::apis) mod default_scope;
pub mod filter;
pub mod frontend;
#[allow(clippy::module_inception, reason = "the file is named after its kind, like its neighbours")]
pub mod gateway;
pub mod grant;
pub mod grpc_route;
pub mod http_route;
pub mod listener_set;
pub mod references;
pub mod route;
mod rule_protection;
pub mod session;
pub mod stream_route;
pub mod tls_options;

/// The API group.
pub const GROUP: &str = "gateway.networking.k8s.io";
