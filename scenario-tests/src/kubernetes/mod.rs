//! Environment of the stories of Kubernetes mode: a real kube-apiserver with its etcd, in a separate network namespace.

pub mod assets;
pub mod chart;
pub mod cluster;
mod etcd;
pub mod namespace;
pub mod pod;
mod prepared;
pub mod tools;

pub use cluster::Cluster;
pub use pod::{Pod, PodInputs};
