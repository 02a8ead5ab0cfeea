//! kube-controller-manager with the controllers that a conformance test needs: what they create, simulated nodes run.

use anyhow::Result;

use super::{Cluster, tools};
use crate::process::Process;
use crate::world::World;

/// The controllers. Others need nodes, volumes or a cloud.
const CONTROLLERS: [&str; 6] = [
    "deployment-controller",
    "replicaset-controller",
    "endpointslice-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
];

/// Starts the controllers of a cluster.
pub fn start(world: &World, cluster: &Cluster) -> Result<Process> {
    let arguments = [
        format!("--kubeconfig={}", cluster.kubeconfig().display()),
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--leader-elect=false".to_owned(),
        // No port for metrics.
        "--secure-port=0".to_owned(),
    ];
    Process::start(&tools::CONTROLLERS.find()?, arguments, &[], &world.log("kube-controller-manager"))
}
