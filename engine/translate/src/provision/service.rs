//! Service in front of a Gateway's Envoys, with a port for each port of its listeners.

use holdfast_api::apis::kinds;
use holdfast_envoy::model::port::Transport;
use serde_json::{Value, json};

use super::parameters::{Parameters, ServiceType};
use super::{DataPlane, metadata, put, selector, with};

pub(super) fn service(plane: &DataPlane, parameters: &Parameters) -> Value {
    let written = &parameters.service;
    let kind = written.kind.unwrap_or_default();
    let ports = plane.ports.iter().map(|port| {
        let (name, application) = match (port.transport, port.tls) {
            (Transport::Udp, _) => ("udp", None),
            (Transport::Tcp, true) => ("https", Some("https")),
            (Transport::Tcp, false) => ("http", Some("http")),
        };
        let mut written = json!({
            "name": format!("{name}-{}", port.port),
            "port": port.port,
            "targetPort": port.bound,
            "protocol": port.transport.name(),
        });
        put(&mut written, "appProtocol", application);
        written
    });
    let mut spec = json!({
        "type": kind,
        "selector": selector(plane),
        "ports": ports.collect::<Vec<_>>(),
    });
    if kind != ServiceType::ClusterIP {
        put(&mut spec, "externalTrafficPolicy", written.external_traffic_policy);
    }
    if kind == ServiceType::LoadBalancer {
        // Kubernetes calls the field deprecated, because not every load balancer supports it, and has no other.
        put(&mut spec, "loadBalancerIP", plane.address);
        put(&mut spec, "loadBalancerClass", written.load_balancer_class.as_ref());
        let ranges = Some(&written.load_balancer_source_ranges).filter(|ranges| !ranges.is_empty());
        put(&mut spec, "loadBalancerSourceRanges", ranges);
    }
    with(metadata(plane, "v1", kinds::SERVICE, &written.labels, &written.annotations), [("spec", spec)])
}
