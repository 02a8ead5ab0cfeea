//! Decides: Kubernetes objects in, Envoy configuration out.

pub mod check;
