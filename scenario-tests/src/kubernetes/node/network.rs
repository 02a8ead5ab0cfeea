//! Network of the Pods: a network namespace for each, with an interface at the bridge of the node.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::Process;
use crate::wait::until;
use crate::world::World;

/// The address of the node at the bridge, for Pods.
pub const NODE: Ipv4Addr = Ipv4Addr::new(10, 245, 0, 1);
/// The first address of Pods is one above.
const PODS: Ipv4Addr = Ipv4Addr::new(10, 245, 1, 0);
/// The first address of load balancers is one above. Routes lead to the Pods, so the range is not local.
const BALANCERS: Ipv4Addr = Ipv4Addr::new(10, 246, 0, 0);
/// Addresses of each range.
const ADDRESSES: u32 = 60_000;

/// Creates the bridge.
const SET_UP: &str = "ip link add name pods type bridge; ip addr add $1/16 dev pods; ip link set pods up";
/// Connects the network namespace of process `$2` to the bridge, with the address `$3` and the node `$4` as router.
const CONNECT: &str = "ip link add name $1 type veth peer name eth0 netns $2
ip link set $1 master pods up
nsenter --net=/proc/$2/ns/net -- sh -euc '
ip link set lo up; ip addr add $1/16 dev eth0; ip link set eth0 up; ip route add default via $2' connect $3 $4";
/// Routes the address `$1` of a load balancer to a Pod with the process `$2` and the address `$3`.
const BALANCE: &str = "nsenter --net=/proc/$2/ns/net -- ip addr replace $1/32 dev lo; ip route replace $1/32 via $3";

/// The network of a Pod. Dropping it ends the network namespace, when the Pod's processes have ended.
#[derive(Debug)]
pub(super) struct PodNetwork {
    pub(super) address: Ipv4Addr,
    /// The process that holds the namespace.
    sleeper: Process,
}

impl PodNetwork {
    /// Creates the network of the Pod with this number.
    pub(super) async fn start(world: &World, number: u32) -> Result<Self> {
        let address = numbered(PODS, number)?;
        let arguments = ["--net", "--", "sleep", "infinity"];
        let sleeper = Process::start(Path::new("unshare"), arguments, &[], &world.log("network"))?;
        let network = Self { address, sleeper };
        let own = fs::read_link("/proc/self/ns/net")?;
        until("the network namespace exists", || async {
            ensure!(fs::read_link(format!("/proc/{}/ns/net", network.id()))? != own);
            Ok(())
        })
        .await?;
        let (interface, id) = (format!("pod{number}"), network.id().to_string());
        shell(world, CONNECT, &[&interface, &id, &address.to_string(), &NODE.to_string()]).await?;
        Ok(network)
    }

    /// The id of a process in the network namespace.
    pub(super) fn id(&self) -> u32 {
        self.sleeper.id()
    }

    /// Routes the address of a load balancer to this Pod.
    pub(super) async fn balance(&self, world: &World, address: Ipv4Addr) -> Result<()> {
        shell(world, BALANCE, &[&address.to_string(), &self.id().to_string(), &self.address.to_string()]).await
    }
}

/// Creates the bridge of the node.
pub(super) async fn set_up(world: &World) -> Result<()> {
    shell(world, SET_UP, &[&NODE.to_string()]).await
}

/// The address of the load balancer with this number.
pub(super) fn balancer(number: u32) -> Result<Ipv4Addr> {
    numbered(BALANCERS, number)
}

/// The address that a Service can request of its load balancer: the last one, which is not assigned otherwise.
pub fn requestable() -> Result<Ipv4Addr> {
    balancer(ADDRESSES - 1)
}

fn numbered(first: Ipv4Addr, number: u32) -> Result<Ipv4Addr> {
    ensure!(number < ADDRESSES, "the addresses are used up");
    let address = first.to_bits().checked_add(number).and_then(|bits| bits.checked_add(1));
    address.map(Ipv4Addr::from_bits).context("the addresses are used up")
}

async fn shell(world: &World, script: &str, arguments: &[&str]) -> Result<()> {
    let all = [&["-euc", script, "network"], arguments].concat();
    let finished = Process::start(Path::new("sh"), all, &[], &world.log("ip"))?.finish().await?;
    finished.expect_code(0).map(drop)
}
