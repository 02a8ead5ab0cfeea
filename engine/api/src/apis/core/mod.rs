//! Kinds of the core group and of `discovery.k8s.io`: Services, EndpointSlices, Secrets, ConfigMaps (Namespaces have no
//! body).

pub mod config_map;
pub mod endpoint_slice;
pub mod secret;
pub mod service;
