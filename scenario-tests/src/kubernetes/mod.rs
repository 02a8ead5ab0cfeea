//! What the stories of Kubernetes mode stand on: a real kube-apiserver with its etcd, in a network namespace of their own.

pub mod assets;
pub mod cluster;
pub mod container;
pub mod namespace;
pub mod tools;

pub use cluster::Cluster;
pub use container::{Container, Made};
