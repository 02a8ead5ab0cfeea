//! Simulated nodes and controllers: they run Pods, and assign addresses and endpoints to Services.
//!
//! Each workload has one Pod, whatever number it requests. The whole state is polled.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::echo::{Echo, EchoOptions};
use holdfast_scenario_tests::kubernetes::pod::Image;
use holdfast_scenario_tests::kubernetes::{Cluster, Pod, PodInputs};
use holdfast_scenario_tests::{World, binary, envoy, manifests, request::get};
use serde_json::{Value, json};

/// Pause between two polls.
const REST: Duration = Duration::from_millis(700);
/// The names that Pods can resolve.
const HOSTS: [(&str, &str); 1] = [("holdfast.holdfast.svc", "127.0.0.1")];
/// The address of load balancers.
const BALANCED: &str = "10.244.200.1";

/// The processes of a Pod.
#[derive(Debug)]
enum PodProcesses {
    Containers(Pod),
    Echo(Echo),
}

/// A Pod of a workload.
#[derive(Debug)]
struct WorkloadPod {
    uid: String,
    /// The template of the Pod.
    template: Value,
    running: PodProcesses,
}

impl WorkloadPod {
    /// Fails if the Pod has ended by itself.
    fn goes_on(&mut self) -> Result<()> {
        let PodProcesses::Containers(pod) = &mut self.running else { return Ok(()) };
        match pod.ended()? {
            None => Ok(()),
            Some((container, end)) => bail!("{container} ended: {end}"),
        }
    }
}

/// Nodes and controllers.
#[derive(Debug)]
pub(crate) struct Nodes<'w> {
    world: &'w World,
    cluster: &'w Cluster,
    /// Pods by namespace and name.
    pods: BTreeMap<(String, String), WorkloadPod>,
    /// UIDs of Jobs that have run.
    done: BTreeSet<String>,
    /// Number of application Pods so far.
    echoes: u8,
    /// The endpoints of Services, as last written.
    endpoints: BTreeMap<(String, String), Vec<SocketAddr>>,
}

impl<'w> Nodes<'w> {
    pub(crate) fn new(world: &'w World, cluster: &'w Cluster) -> Self {
        Self { world, cluster, pods: BTreeMap::new(), done: BTreeSet::new(), echoes: 0, endpoints: BTreeMap::new() }
    }

    /// Runs until an operation fails.
    pub(crate) async fn work(&mut self) -> Result<()> {
        loop {
            self.look().await?;
            tokio::time::sleep(REST).await;
        }
    }

    async fn look(&mut self) -> Result<()> {
        let kinds = "jobs.batch,statefulsets.apps,deployments.apps,services,pods";
        let all: Value =
            serde_json::from_str(&self.cluster.kubectl_output(&["get", kinds, "-A", "-o", "json"]).await?)?;
        let objects: Vec<&Value> = all["items"].as_array().into_iter().flatten().collect();
        let of_kind = |kind: &'static str| objects.iter().copied().filter(move |object| object["kind"] == kind);
        let workloads: Vec<&Value> = of_kind("StatefulSet").chain(of_kind("Deployment")).collect();
        let (mut wanted, living): (Vec<_>, Vec<_>) =
            (Vec::new(), of_kind("Pod").map(|pod| text_of(&pod["metadata"]["uid"])).collect());
        // Other workloads need the Secrets that Jobs create.
        for job in of_kind("Job") {
            self.run_once(job).await?;
        }
        for workload in workloads {
            let key = (text_of(&workload["metadata"]["namespace"]), pod_name(workload));
            self.keep(&key, workload, &living).await?;
            self.write_status(&key, workload).await?;
            wanted.push(key);
        }
        for service in of_kind("Service") {
            self.address(service).await?;
            self.endpoints(service).await?;
        }
        let gone: Vec<_> = self.pods.keys().filter(|key| !wanted.contains(key)).cloned().collect();
        for key in gone {
            self.end(&key).await?;
        }
        Ok(())
    }

    /// Keeps the Pod of a workload running, with its current template.
    async fn keep(&mut self, key: &(String, String), workload: &Value, living: &[String]) -> Result<()> {
        let template = &workload["spec"]["template"];
        if let Some(pod) = self.pods.get_mut(key) {
            pod.goes_on().with_context(|| format!("Pod {key:?}"))?;
            if pod.template == *template && living.contains(&pod.uid) {
                return Ok(());
            }
            self.end(key).await?;
        }
        let (namespace, name) = key;
        let mut pod = pod(key, template);
        let claims = workload["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
        for claim in claims.map(|claim| text_of(&claim["metadata"]["name"])) {
            let volume = json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}")}});
            pod["spec"]["volumes"].as_array_mut().context("no volumes")?.push(volume);
        }
        let made = self.create(&pod).await?;
        let running = self.start(&made).await.with_context(|| format!("Pod {namespace}/{name}"))?;
        let pod = WorkloadPod { uid: text_of(&made["metadata"]["uid"]), template: template.clone(), running };
        self.pods.insert(key.clone(), pod);
        Ok(())
    }

    async fn create(&self, pod: &Value) -> Result<Value> {
        let file = self.world.log("pod").with_extension("json");
        fs::write(&file, pod.to_string())?;
        let output = self.cluster.kubectl_output(&["create", "-o", "json", "-f", &file.display().to_string()]).await?;
        Ok(serde_json::from_str(&output)?)
    }

    /// Runs the Pod of a Job, once and to its end.
    async fn run_once(&mut self, job: &Value) -> Result<()> {
        if !self.done.insert(text_of(&job["metadata"]["uid"])) {
            return Ok(());
        }
        let key = (text_of(&job["metadata"]["namespace"]), pod_name(job));
        let made = self.create(&pod(&key, &job["spec"]["template"])).await?;
        let running = self.start(&made).await.with_context(|| format!("Job {key:?}"))?;
        if let PodProcesses::Containers(mut containers) = running {
            let end = loop {
                match containers.ended()? {
                    Some((_, end)) => break end,
                    None => tokio::time::sleep(REST / 10).await,
                }
            };
            ensure!(end.starts_with("exit status: 0;"), "Job {key:?}: {end}");
        }
        self.end(&key).await
    }

    async fn start(&mut self, pod: &Value) -> Result<PodProcesses> {
        if text_of(&pod["spec"]["containers"][0]["image"]).starts_with("traefik/whoami:") {
            return self.echo(pod).await;
        }
        let made = PodInputs { world: self.world, cluster: self.cluster, pod, hosts: &HOSTS, network: None };
        Ok(PodProcesses::Containers(Pod::start(&made, image).await?))
    }

    async fn echo(&mut self, pod: &Value) -> Result<PodProcesses> {
        self.echoes += 1;
        let port = &pod["spec"]["containers"][0]["ports"][0]["containerPort"];
        let port = u16::try_from(port.as_u64().context("no port")?)?;
        let metadata = &pod["metadata"];
        let (namespace, name) = (text_of(&metadata["namespace"]), text_of(&metadata["name"]));
        let address = SocketAddr::from(([10, 244, 1, self.echoes], port));
        let options = EchoOptions { address, ..EchoOptions::new(&namespace, &name, &name) };
        Ok(PodProcesses::Echo(Echo::start(options).await?))
    }

    /// Ends a Pod, if it still exists.
    async fn end(&mut self, key: &(String, String)) -> Result<()> {
        self.pods.remove(key);
        let (namespace, name) = key;
        self.cluster
            .kubectl_output(&["-n", namespace, "delete", "pod", name, "--ignore-not-found", "--now"])
            .await
            .map(drop)
    }

    /// Writes the status of a workload: the number of its Pods.
    async fn write_status(&self, key: &(String, String), workload: &Value) -> Result<()> {
        let ready = match self.pods.get(key).map(|pod| &pod.running) {
            Some(PodProcesses::Echo(_)) => true,
            Some(PodProcesses::Containers(_)) => is_ready(&workload["spec"]["template"]["spec"]["containers"][0]).await,
            None => false,
        };
        let (count, one) = (u8::from(ready), "1");
        let mut status = json!({
            "observedGeneration": workload["metadata"]["generation"],
            "replicas": 1, "updatedReplicas": 1, "readyReplicas": count, "availableReplicas": count,
        });
        if workload["kind"] == "StatefulSet" {
            status["currentRevision"] = json!(one);
            status["updateRevision"] = json!(one);
        }
        let fields = status.as_object().into_iter().flatten();
        let up_to_date =
            fields.clone().all(|(field, value)| workload["status"].get(field).unwrap_or(&json!(0)) == value);
        if up_to_date {
            return Ok(());
        }
        self.patch(workload, &status).await
    }

    async fn address(&self, service: &Value) -> Result<()> {
        if service["spec"]["type"] != "LoadBalancer" || service["status"]["loadBalancer"].get("ingress").is_some() {
            return Ok(());
        }
        self.patch(service, &json!({ "loadBalancer": { "ingress": [{ "ip": BALANCED }] } })).await
    }

    async fn patch(&self, object: &Value, status: &Value) -> Result<()> {
        let metadata = &object["metadata"];
        let name = format!("{}/{}", text_of(&object["kind"]).to_lowercase(), text_of(&metadata["name"]));
        let patch = json!({ "status": status }).to_string();
        let namespace = text_of(&metadata["namespace"]);
        let args = ["-n", &namespace, "patch", &name, "--subresource=status", "--type=merge", "-p", &patch];
        let finished = self.cluster.kubectl(&args).await?;
        // The object may have been deleted.
        if finished.code != Some(0) && !finished.stderr.contains("NotFound") {
            bail!("{}", finished.output());
        }
        Ok(())
    }

    /// Writes the endpoints of an application's Service.
    async fn endpoints(&mut self, service: &Value) -> Result<()> {
        let (namespace, name) = (text_of(&service["metadata"]["namespace"]), text_of(&service["metadata"]["name"]));
        let selector = service["spec"]["selector"].as_object().into_iter().flatten();
        let selected = |pod: &WorkloadPod| {
            let labels = &pod.template["metadata"]["labels"];
            selector.clone().count() > 0 && selector.clone().all(|(label, value)| labels.get(label) == Some(value))
        };
        let of_namespace = self.pods.iter().filter(|((of, _), pod)| *of == namespace && selected(pod));
        let addresses: Vec<SocketAddr> = of_namespace
            .filter_map(
                |(_, pod)| if let PodProcesses::Echo(echo) = &pod.running { Some(echo.address()) } else { None },
            )
            .collect();
        let key = (namespace, name);
        if addresses.is_empty() || self.endpoints.get(&key) == Some(&addresses) {
            return Ok(());
        }
        self.cluster.apply(manifests::slices(&key.0, &key.1, &addresses)).await?;
        self.endpoints.insert(key, addresses);
        Ok(())
    }
}

/// Returns the programs of an image.
fn image(named: &str) -> Result<Box<Image<'static>>> {
    let envoy = envoy::find().map_err(anyhow::Error::msg)?;
    match named.split_once(':').map(|(name, _)| name) {
        Some("holdfast/holdfast-envoy") => Ok(Box::new([("holdfast", binary::holdfast()?), ("envoy", envoy)])),
        Some("envoyproxy/envoy") => Ok(Box::new([("envoy", envoy)])),
        _ => bail!("nobody has the image {named}"),
    }
}

/// Returns whether the readiness probe of a container succeeds.
async fn is_ready(container: &Value) -> bool {
    let probe = &container["readinessProbe"]["httpGet"];
    let named = |port: &Value| {
        let ports = container["ports"].as_array().into_iter().flatten();
        let found = ports.filter(|one| one["name"] == *port).find_map(|one| one["containerPort"].as_u64());
        port.as_u64().or(found).and_then(|port| u16::try_from(port).ok())
    };
    let Some(port) = named(&probe["port"]) else { return false };
    let reply = get(port, probe["path"].as_str().unwrap_or("/")).host("localhost").send().await;
    reply.is_ok_and(|reply| reply.status.is_success())
}

/// Returns the Pod of a template.
fn pod((namespace, name): &(String, String), template: &Value) -> Value {
    let mut pod = template.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(namespace);
    pod
}

fn pod_name(workload: &Value) -> String {
    format!("{}-0", text_of(&workload["metadata"]["name"]))
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
