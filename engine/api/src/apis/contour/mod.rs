//! `projectcontour.io`: HTTPProxy, TLSCertificateDelegation and ExtensionService, as in Contour.
//!
//! <https://projectcontour.io/docs/main/config/api/>

pub mod condition;
pub mod delegation;
pub mod extension_service;
pub mod guard;
pub mod http_proxy;
pub mod policy;
pub mod route;
pub mod route_protection;
pub mod virtual_host;

/// The API group.
pub const GROUP: &str = "projectcontour.io";
