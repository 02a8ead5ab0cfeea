//! A simulated node: it binds Pods to itself, runs their containers, writes their status, serves their logs, and assigns
//! addresses to Services of type `LoadBalancer`.
//!
//! The programs of the containers are real, and each Pod has a network namespace with its address. A deleted Pod ends at
//! once, without hooks and grace periods. A container that ends by itself fails the story; one that a story has sent a
//! signal to is started again.

mod balancers;
mod logs;
mod network;
mod services;
mod signals;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use self::balancers::Balancers;
use self::logs::Logs;
use self::network::PodNetwork;
pub use self::network::{NODE, requestable};
use self::services::ServicePort;
pub use self::signals::Signals;
use self::status::{path, text};
use super::pod::Image;
use super::{Api, Cluster, Pod, PodInputs};
use crate::process::signal;
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
    hosts: &'w [(&'w str, &'w str)],
    /// The ports of Services at the address of the node.
    services: Vec<ServicePort>,
    logs: Logs,
    signals: Signals,
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
    /// The containers that the story has sent a signal to, and that have not ended since.
    signalled: BTreeSet<String>,
    // The processes end before their network.
    containers: Pod,
    network: PodNetwork,
}

impl<'w> Node<'w> {
    /// Adds a node to a cluster. `hosts` are names for its Pods; `services` are the namespaces and names of
    /// Services: the node has their ports at its own address, as it has that of the API server.
    pub async fn start(
        world: &'w World,
        cluster: &'w Cluster,
        images: Images,
        hosts: &'w [(&'w str, &'w str)],
        services: &[(&str, &str)],
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
        let mut ports = vec![ServicePort::of_api_server(cluster.port()).await?];
        for (namespace, name) in services {
            ports.extend(ServicePort::of_service(&api, namespace, name).await?);
        }
        Ok(Self {
            world,
            cluster,
            api,
            images,
            hosts,
            services: ports,
            logs,
            signals: Signals::default(),
            pods: BTreeMap::new(),
            failed: BTreeMap::new(),
            count: 0,
            balancers: Balancers::default(),
        })
    }

    /// Signals to containers of this node; the node delivers them while it works.
    pub fn signals(&self) -> Signals {
        self.signals.clone()
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
        for (pod, container, signal) in self.signals.take() {
            self.send(&pod, &container, signal)?;
        }
        for port in &self.services {
            port.follow(&self.api).await?;
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
        self.restart(&uid).await?;
        let Some(running) = self.pods.get_mut(&uid) else { return Ok(()) };
        let address = running.network.address;
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
        self.count += 1;
        let network = PodNetwork::start(self.world, self.count).await?;
        let (world, cluster, hosts) = (self.world, self.cluster, self.hosts);
        let made = PodInputs { world, cluster, pod, hosts, network: Some(network.id()) };
        let containers = Pod::start(&made, self.images).await?;
        Ok(RunningPod { object: pod.clone(), ready: false, containers, network, signalled: BTreeSet::new() })
    }

    /// Sends a signal to a container of a Pod, which may end therefore.
    fn send(&mut self, pod: &str, container: &str, name: &str) -> Result<()> {
        let of_name = |running: &&mut RunningPod| text(&running.object["metadata"]["name"]) == pod;
        let running = self.pods.values_mut().find(of_name).with_context(|| format!("no Pod {pod}"))?;
        let id = running.containers.id(container).with_context(|| format!("{pod} has no container {container}"))?;
        running.signalled.insert(container.to_owned());
        signal(id, name);
        Ok(())
    }

    /// Starts the containers of a Pod again that have ended because of a signal of the story.
    async fn restart(&mut self, uid: &str) -> Result<()> {
        let Some(running) = self.pods.get_mut(uid) else { return Ok(()) };
        while let Some((container, end)) = running.containers.ended()? {
            if !running.signalled.remove(&container) {
                bail!("{container} of {} ended: {end}", path(&running.object));
            }
            let (world, cluster, hosts) = (self.world, self.cluster, self.hosts);
            let network = Some(running.network.id());
            let made = PodInputs { world, cluster, pod: &running.object, hosts, network };
            running.containers.restart(&made, &container, self.images).await?;
        }
        Ok(())
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
