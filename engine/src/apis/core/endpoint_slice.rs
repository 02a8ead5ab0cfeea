//! EndpointSlice: the addresses behind a Service. Addresses are kept as text; translation judges them.
//!
//! <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/>

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort};
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// The label that names a slice's Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Endpoints of one slice that are read; the API server allows 1000.
pub const ENDPOINTS_MAX: usize = 1000;
/// Ports of one slice that are read; the API server allows 20000.
pub const PORTS_MAX: usize = 1000;

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSlice {
    /// Are the addresses names to be looked up (`addressType: FQDN`)? Those are not served.
    pub fqdn: bool,
    /// Addresses that may receive new connections, each with its place in `endpoints`.
    pub addresses: Arc<[(usize, Arc<str>)]>,
    /// Ports, by the name of the Service's port.
    pub ports: Arc<[SlicePort]>,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct SlicePort {
    /// Name of the Service's port; empty for an unnamed one.
    pub name: Arc<str>,
    /// Number on the addresses.
    pub port: u16,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let mut take = |name: &str| document.get_mut(name).map(Value::take).filter(|value| !value.is_null());
    let (endpoints, ports) = (take("endpoints"), take("ports"));
    let fqdn = take("addressType").is_some_and(|kind| kind == "FQDN");
    let endpoints: Vec<Endpoint> = endpoints.map_or(Some(vec![]), |value| found.typed("endpoints", &value))?;
    let ports: Vec<EndpointPort> = ports.map_or(Some(vec![]), |value| found.typed("ports", &value))?;
    if endpoints.len() > ENDPOINTS_MAX || ports.len() > PORTS_MAX {
        found.invalid(
            "endpoints",
            format!("a slice may have at most {ENDPOINTS_MAX} endpoints and {PORTS_MAX} ports; split it"),
        );
        return None;
    }
    // Unset means ready: https://pkg.go.dev/k8s.io/api/discovery/v1#EndpointConditions
    let ready = |endpoint: &Endpoint| endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true);
    let addresses = endpoints
        .iter()
        .enumerate()
        .filter(|(_, endpoint)| ready(endpoint))
        .filter_map(|(index, endpoint)| endpoint.addresses.first().map(|address| (index, address.as_str().into())));
    Some(Body::EndpointSlice(EndpointSlice {
        fqdn,
        addresses: addresses.collect(),
        ports: ports
            .into_iter()
            .filter_map(|port| {
                let number = u16::try_from(port.port?).ok().filter(|number| *number > 0)?;
                Some(SlicePort { name: port.name.unwrap_or_default().into(), port: number })
            })
            .collect(),
    }))
}
