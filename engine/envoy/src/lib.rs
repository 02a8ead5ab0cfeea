//! The served configuration as a model, and its encoding as resources of Envoy.
//!
//! The model is Envoy-shaped and free of Envoy's types; `features` and `encode` convert it, and `inspect`
//! reads encoded resources back, and `explain` evaluates a request over them. `bootstrap` has the configuration with which
//! an Envoy connects. Nothing here decides what is served.

pub mod bootstrap;
pub mod encode;
pub mod explain;
pub mod features;
pub mod hold;
pub mod inspect;
pub mod listing;
pub mod model;
pub mod refusal;
pub mod yaml;
