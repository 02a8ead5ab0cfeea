//! The served configuration as a model, and its encoding as resources of Envoy.
//!
//! The model is Envoy-shaped and free of Envoy's types; `features` and `encode` convert it. Nothing here names a
//! Kubernetes kind or decides what is served.

pub mod encode;
pub mod features;
pub mod hold;
pub mod model;
pub mod refusal;
