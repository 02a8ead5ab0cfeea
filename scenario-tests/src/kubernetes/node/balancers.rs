//! Addresses of Services of type `LoadBalancer`: each has an address of its own, which is routed to the newest ready Pod.
//! A Service can request one certain address; one that requests another gets none.
//!
//! The Pod binds the ports of the Service itself; other ports are not translated.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::Result;
use serde_json::{Value, json};

use super::RunningPod;
use super::network::{balancer, requestable};
use super::status::text;
use crate::kubernetes::Api;
use crate::world::World;

/// A Service with its address.
#[derive(Debug)]
struct Balancer {
    address: Ipv4Addr,
    /// The UID of the Pod that the address is routed to.
    pod: Option<String>,
}

/// All addresses, by the UIDs of the Services.
#[derive(Debug, Default)]
pub(super) struct Balancers {
    assigned: BTreeMap<String, Balancer>,
    /// Number of addresses so far; none is used twice.
    count: u32,
}

impl Balancers {
    /// Assigns addresses to new Services, and routes each address to a Pod.
    pub(super) async fn assign(
        &mut self,
        world: &World,
        api: &Api,
        services: &[Value],
        pods: &BTreeMap<String, RunningPod>,
    ) -> Result<()> {
        let is_there = |uid: &str| services.iter().any(|service| service["metadata"]["uid"] == uid);
        self.assigned.retain(|uid, _| is_there(uid));
        for service in services.iter().filter(|service| service["spec"]["type"] == "LoadBalancer") {
            let uid = text(&service["metadata"]["uid"]);
            let written = &service["status"]["loadBalancer"]["ingress"];
            let requested = service["spec"]["loadBalancerIP"].as_str();
            if requested.is_some_and(|requested| !is_requestable(requested)) {
                self.assigned.remove(uid);
                if !written.is_null() {
                    write(api, service, Value::Null).await?;
                }
                continue;
            }
            self.assign_one(uid, requested)?;
            let Some(balancer) = self.assigned.get_mut(uid) else { continue };
            if written[0]["ip"] != balancer.address.to_string() {
                write(api, service, json!([{ "ip": balancer.address }])).await?;
            }
            let Some((uid, pod)) = newest(service, pods).filter(|(uid, _)| balancer.pod.as_ref() != Some(*uid)) else {
                continue;
            };
            pod.network.balance(world, balancer.address).await?;
            balancer.pod = Some(uid.clone());
        }
        Ok(())
    }

    /// Assigns the requested address to a Service, or the next one.
    fn assign_one(&mut self, uid: &str, requested: Option<&str>) -> Result<()> {
        let address = match (requested, self.assigned.get(uid)) {
            (Some(requested), _) => requested.parse()?,
            (None, Some(assigned)) => assigned.address,
            (None, None) => {
                self.count += 1;
                balancer(self.count - 1)?
            }
        };
        if self.assigned.get(uid).is_none_or(|assigned| assigned.address != address) {
            self.assigned.insert(uid.to_owned(), Balancer { address, pod: None });
        }
        Ok(())
    }
}

fn is_requestable(address: &str) -> bool {
    requestable().is_ok_and(|usable| usable.to_string() == address)
}

/// Writes the addresses of a Service.
async fn write(api: &Api, service: &Value, ingress: Value) -> Result<()> {
    let status = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
    api.patch(&status_path(service), &status).await.map(drop)
}

fn status_path(service: &Value) -> String {
    let metadata = &service["metadata"];
    format!("/api/v1/namespaces/{}/services/{}/status", text(&metadata["namespace"]), text(&metadata["name"]))
}

/// Returns the newest ready Pod that a Service selects.
fn newest<'p>(service: &Value, pods: &'p BTreeMap<String, RunningPod>) -> Option<(&'p String, &'p RunningPod)> {
    let selector = service["spec"]["selector"].as_object()?;
    let is_selected = |pod: &RunningPod| {
        let metadata = &pod.object["metadata"];
        metadata["namespace"] == service["metadata"]["namespace"]
            && selector.iter().all(|(label, value)| metadata["labels"].get(label) == Some(value))
    };
    let ready = pods.iter().filter(|(_, pod)| pod.ready && is_selected(pod));
    ready.max_by_key(|(_, pod)| pod.network.address)
}
