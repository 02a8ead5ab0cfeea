//! Service: the ports that routes refer to. No other field is kept.
//!
//! <https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/>

use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceSpec;
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// Number of ports of one Service that are read.
pub const PORTS_MAX: usize = 1024;

/// A Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Whether the Service has type ExternalName, which is never a backend here.
    pub external_name: bool,
    /// The ports.
    pub ports: Arc<[Port]>,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name; empty for the only port of a Service.
    pub name: Arc<str>,
    /// Port number that routes refer to.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// `appProtocol`, empty where unset.
    pub app_protocol: Arc<str>,
}

impl Service {
    /// Returns the port with this number. Of several, it is the one of this protocol; else the first, so that a fault
    /// can name its protocol.
    pub fn port(&self, number: u16, protocol: &str) -> Option<&Port> {
        let numbered = || self.ports.iter().filter(|port| port.port == number);
        numbered().find(|port| &*port.protocol == protocol).or_else(|| numbered().next())
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let spec: ServiceSpec = found.typed("spec", &spec)?;
    let mut ports = Vec::new();
    for (index, port) in spec.ports.unwrap_or_default().into_iter().enumerate() {
        if index >= PORTS_MAX {
            found.invalid("spec.ports", format!("at most {PORTS_MAX} ports are read"));
            break;
        }
        let Ok(number @ 1..) = u16::try_from(port.port) else {
            found.invalid(format!("spec.ports[{index}].port"), "a port is a number from 1 to 65535");
            continue;
        };
        ports.push(Port {
            name: port.name.unwrap_or_default().into(),
            port: number,
            protocol: port.protocol.unwrap_or_else(|| "TCP".into()).into(),
            app_protocol: port.app_protocol.unwrap_or_default().into(),
        });
    }
    Some(Body::Service(Service { external_name: spec.type_.as_deref() == Some("ExternalName"), ports: ports.into() }))
}
