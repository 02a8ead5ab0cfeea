//! `gateway.kgateway.dev`: TrafficPolicy, GatewayExtension, Backend, DirectResponse, ListenerPolicy and
//! BackendConfigPolicy, as in kgateway.
//!
//! <https://kgateway.dev/docs/envoy/main/reference/api/>

pub mod access;
pub mod backend;
pub mod backend_balance;
pub mod backend_config;
pub mod backend_http;
mod backend_protection;
pub mod direct_response;
pub mod extension;
pub mod headers;
pub mod http_settings;
pub mod keepalive;
pub mod listener_policy;
mod listener_protection;
pub mod log_filter;
pub mod policy;
pub mod records;
pub mod targets;
pub mod tracer;
pub mod traffic;
pub mod traffic_policy;
mod traffic_protection;

/// The API group.
pub const GROUP: &str = "gateway.kgateway.dev";
