//! What the stories of Kubernetes mode stand on: a real kube-apiserver with its etcd, in a network namespace of their own.

pub mod assets;
pub mod chart;
pub mod cluster;
pub mod container;
mod etcd;
pub mod namespace;
pub mod tools;

pub use cluster::Cluster;
pub use container::{Container, Made};
