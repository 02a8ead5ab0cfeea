//! A simulated node: it binds Pods to itself, runs their containers, writes their status, serves their logs, and assigns
//! addresses to Services of type `LoadBalancer`.
//!
//! The programs of the containers are real, and each Pod has a network namespace with its address. A deleted Pod ends at
//! once, without hooks and grace periods. A container that ends by itself fails the story: nothing is restarted.

mod balancers;
mod logs;
mod network;
mod status;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::balancers::Balancers;
use self::logs::Logs;
use self::network::PodNetwork;
pub use self::network::{NODE, requestable};
use self::status::{path, text};
use super::pod::Image;
use super::{Api, Cluster, Pod, PodInputs};
use crate::world::World;

/// The name of the node.
const NAME: &str = "node";
/// Pause between two polls.
const REST: Duration = Duration::from_millis(150);
/// Pause before another attempt to start a Pod, for example because a Secret is missing.
const RETRY: Duration = Duration::from_secs(1);

/// Returns the programs of an image.
pub type Images = fn(&str) -> Result<Box<Image<'static>>>;

/// A simulated node.
#[derive(Debug)]
pub struct Node<'w> {
    world: &'w World,
    cluster: &'w Cluster,
    api: Api,
    images: Images,
    /// The namespace of the Pods that use the network of the story, where the API server is.
    in_network_of_story: &'w str,
    hosts: &'w [(&'w str, &'w str)],
    logs: Logs,
    /// Running Pods by their UIDs.
    pods: BTreeMap<String, RunningPod>,
    /// Pods that could not be started: the time of the next attempt, and the reason.
    failed: BTreeMap<String, (Instant, String)>,
    /// Number of Pods so far.
    count: u32,
    balancers: Balancers,
}

/// A Pod with its processes.
#[derive(Debug)]
struct RunningPod {
    /// The Pod, as last read.
    object: Value,
    /// Whether the last written status is `Ready`.
    ready: bool,
    // The processes end before their network.
    containers: Pod,
    network: Option<PodNetwork>,
}

impl<'w> Node<'w> {
    /// Adds a node to a cluster. `hosts` are names for its Pods.
    pub async fn start(
        world: &'w World,
        cluster: &'w Cluster,
        images: Images,
        in_network_of_story: &'w str,
        hosts: &'w [(&'w str, &'w str)],
    ) -> Result<Self> {
        network::set_up(world).await?;
        let (api, logs) = (Api::of(cluster).await?, Logs::serve().await?);
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NAME } });
        api.create("/api/v1/nodes", &node).await?;
        let address = logs.address();
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": address.ip() }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": address.port() } },
            "conditions": [{ "type": "Ready", "status": "True" }],
        }});
        api.patch(&format!("/api/v1/nodes/{NAME}/status"), &status).await?;
        let (pods, failed, balancers) = (BTreeMap::new(), BTreeMap::new(), Balancers::default());
        Ok(Self { world, cluster, api, images, in_network_of_story, hosts, logs, pods, failed, count: 0, balancers })
    }

    /// Runs until an operation fails.
    pub async fn work(&mut self) -> Result<()> {
        loop {
            self.look().await?;
            tokio::time::sleep(REST).await;
        }
    }

    /// The Pods that could not be started yet, with the reasons.
    pub fn waiting(&self) -> Vec<&str> {
        self.failed.values().map(|(_, why)| why.as_str()).collect()
    }

    async fn look(&mut self) -> Result<()> {
        let pods = self.api.list("/api/v1/pods").await?;
        let is_there = |uid: &String| pods.iter().any(|pod| pod["metadata"]["uid"] == **uid);
        let gone: Vec<String> = self.pods.keys().filter(|uid| !is_there(uid)).cloned().collect();
        for uid in gone {
            self.end(&uid).await?;
        }
        self.failed.retain(|uid, _| is_there(uid));
        for pod in pods {
            self.keep(pod).await?;
            self.logs.note()?;
        }
        let services = self.api.list("/api/v1/services").await?;
        self.balancers.assign(self.world, &self.api, &services, &self.pods).await
    }

    /// Brings a Pod one step further.
    async fn keep(&mut self, pod: Value) -> Result<()> {
        let uid = text(&pod["metadata"]["uid"]).to_owned();
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            self.end(&uid).await?;
            let options = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid } });
            return self.api.delete(&path(&pod), &options).await.map(drop);
        }
        if pod["spec"]["nodeName"].is_null() {
            return self.bind(&pod).await;
        }
        if !self.pods.contains_key(&uid) && !self.begin(&uid, &pod).await? {
            return Ok(());
        }
        let Some(running) = self.pods.get_mut(&uid) else { return Ok(()) };
        if let Some(end) = running.containers.ended()? {
            bail!("{} ended: {end}", path(&pod));
        }
        let address = running.network.as_ref().map_or(NODE, |network| network.address);
        running.ready = status::is_ready(&pod, address).await;
        let is_written = pod["status"]["podIP"] == address.to_string()
            && pod["status"]["containerStatuses"][0]["ready"] == running.ready;
        if !is_written {
            let status = status::running(&pod, address, running.ready);
            self.api.patch(&format!("{}/status", path(&pod)), &status).await?;
        }
        running.object = pod;
        Ok(())
    }

    async fn bind(&self, pod: &Value) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": pod["metadata"]["name"] },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NAME },
        });
        self.api.create(&format!("{}/binding", path(pod)), &binding).await.map(drop)
    }

    /// Starts a Pod; returns whether it runs.
    async fn begin(&mut self, uid: &str, pod: &Value) -> Result<bool> {
        if self.failed.get(uid).is_some_and(|(next, _)| Instant::now() < *next) {
            return Ok(false);
        }
        match self.run(pod).await.with_context(|| path(pod)) {
            Ok(running) => {
                let metadata = &pod["metadata"];
                for (container, file) in running.containers.outputs() {
                    self.logs.add(text(&metadata["namespace"]), text(&metadata["name"]), container, file);
                }
                self.failed.remove(uid);
                self.pods.insert(uid.to_owned(), running);
                Ok(true)
            }
            Err(error) => {
                self.failed.insert(uid.to_owned(), (Instant::now() + RETRY, format!("{error:#}")));
                Ok(false)
            }
        }
    }

    async fn run(&mut self, pod: &Value) -> Result<RunningPod> {
        let network = if text(&pod["metadata"]["namespace"]) == self.in_network_of_story {
            None
        } else {
            self.count += 1;
            Some(PodNetwork::start(self.world, self.count).await?)
        };
        let (world, cluster, hosts) = (self.world, self.cluster, self.hosts);
        let made = PodInputs { world, cluster, pod, hosts, network: network.as_ref().map(PodNetwork::id) };
        let containers = Pod::start(&made, self.images).await?;
        Ok(RunningPod { object: pod.clone(), ready: false, containers, network })
    }

    /// Ends the processes of a Pod.
    async fn end(&mut self, uid: &str) -> Result<()> {
        let Some(running) = self.pods.remove(uid) else { return Ok(()) };
        let metadata = &running.object["metadata"];
        self.logs.remove(text(&metadata["namespace"]), text(&metadata["name"]));
        // Waits until the processes have ended.
        Ok(tokio::task::spawn_blocking(move || drop(running)).await?)
    }
}
