//! Addresses of a Gateway: the addresses of its Service, for clients.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::Value;

/// Maximum number of addresses of one Gateway; the limit of the CRD.
pub const ADDRESSES_MAX: usize = 16;

/// An address in the status of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Address {
    /// `IPAddress` or `Hostname`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The address.
    pub value: String,
}

impl Address {
    /// Returns the address of a text, with its type.
    pub fn of(text: &str) -> Self {
        let kind = if text.parse::<IpAddr>().is_ok() { "IPAddress" } else { "Hostname" };
        Self { kind, value: text.to_owned() }
    }
}

/// Returns the addresses of a Service: those of its load balancer, else its external IPs, else its cluster IPs. A load
/// balancer that is not provisioned yet has no address.
pub fn of_service(service: &Value) -> Vec<Address> {
    let texts = |at: &str| -> Vec<Address> {
        let all = service.pointer(at).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).filter(|text| !text.is_empty() && *text != "None").map(Address::of).collect()
    };
    let kind = service.pointer("/spec/type").and_then(Value::as_str).unwrap_or("ClusterIP");
    let mut addresses = if kind == "LoadBalancer" {
        let entries = service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).into_iter().flatten();
        let text = |entry: &Value, name: &str| entry.get(name).and_then(Value::as_str).map(Address::of);
        entries.filter_map(|entry| text(entry, "ip").or_else(|| text(entry, "hostname"))).collect()
    } else {
        let outside = texts("/spec/externalIPs");
        if outside.is_empty() { texts("/spec/clusterIPs") } else { outside }
    };
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addresses_of(service: &Value) -> Vec<String> {
        of_service(service).into_iter().map(|address| format!("{} {}", address.kind, address.value)).collect()
    }

    #[test]
    fn addresses_are_those_by_which_clients_come() {
        let balanced = json!({
            "spec": { "type": "LoadBalancer", "clusterIPs": ["10.96.0.1"] },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }, { "hostname": "lb.example.com" }] } },
        });
        assert_eq!(addresses_of(&balanced), ["IPAddress 192.0.2.1", "Hostname lb.example.com"]);
        let pending = json!({ "spec": { "type": "LoadBalancer", "clusterIPs": ["10.96.0.1"] }, "status": {} });
        assert_eq!(addresses_of(&pending), Vec::<String>::new());
        let inside = json!({ "spec": { "type": "ClusterIP", "clusterIPs": ["10.96.0.1", "fd00::1"] } });
        assert_eq!(addresses_of(&inside), ["IPAddress 10.96.0.1", "IPAddress fd00::1"]);
        let outside =
            json!({ "spec": { "type": "NodePort", "clusterIPs": ["10.96.0.1"], "externalIPs": ["192.0.2.9"] } });
        assert_eq!(addresses_of(&outside), ["IPAddress 192.0.2.9"]);
    }
}
