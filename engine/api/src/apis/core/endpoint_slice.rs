//! EndpointSlice: the addresses of a Service. Addresses are kept as text; translation validates them.
//!
//! <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/>

use std::sync::Arc;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort};
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// The label with the name of the Service of a slice.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Number of endpoints in one slice; the API server allows 1000.
pub const ENDPOINTS_MAX: usize = 1000;
/// Number of ports in one slice; the API server allows 20000.
pub const PORTS_MAX: usize = 1000;

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSlice {
    /// Whether the addresses are DNS names (`addressType: FQDN`), which are not served.
    pub fqdn: bool,
    /// Addresses that may receive new connections, each with its index in `endpoints`.
    pub addresses: Arc<[(usize, Arc<str>)]>,
    /// Ports, by the name of the port of the Service.
    pub ports: Arc<[SlicePort]>,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct SlicePort {
    /// Name of the port of the Service; empty for an unnamed port.
    pub name: Arc<str>,
    /// Port number at the addresses.
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
