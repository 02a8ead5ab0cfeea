//! Environment of the stories of Kubernetes mode: a real kube-apiserver with its etcd, in a separate network namespace.

mod api;
pub mod assets;
pub mod chart;
pub mod cluster;
mod controllers;
mod etcd;
pub mod namespace;
pub mod node;
pub mod pod;
mod prepared;
pub mod tools;

pub use api::Api;
pub use cluster::Cluster;
pub use controllers::start as start_controllers;
pub use pod::{Pod, PodInputs};
