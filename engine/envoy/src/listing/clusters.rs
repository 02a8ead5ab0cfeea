//! Clusters, endpoints and secrets: an entry for each resource.

use std::net::IpAddr;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::secret;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{Secret, TlsCertificate};
use holdfast_check::certificate::summaries;
use holdfast_xds::Resource;
use prost::Message;

use super::{ListedEntry, origins};

/// Maximum number of addresses that are shown of one resource; the others are counted.
const ADDRESSES_MAX: usize = 50;

pub(super) fn clusters(resource: &Resource) -> Vec<ListedEntry> {
    let Ok(cluster) = Cluster::decode(&*resource.body) else { return ListedEntry::undecodable(resource) };
    let discovery = match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::Type(kind)) => {
            DiscoveryType::try_from(*kind).map_or("", |kind| kind.as_str_name()).to_owned()
        }
        Some(ClusterDiscoveryType::ClusterType(custom)) => custom.name.clone(),
        None => "STATIC".to_owned(),
    };
    let protocol = match cluster.transport_socket_matches.is_empty() && cluster.transport_socket.is_none() {
        true => "plain",
        false => "TLS",
    };
    let known = cluster.load_assignment.as_ref().map(|known| format!(", {}", addresses(known))).unwrap_or_default();
    let entry = ListedEntry::new(resource, "", format!("{discovery}, {protocol}{known}"));
    vec![entry.owned_by(origins(&resource.origins))]
}

pub(super) fn endpoints(resource: &Resource) -> Vec<ListedEntry> {
    let Ok(assignment) = ClusterLoadAssignment::decode(&*resource.body) else {
        return ListedEntry::undecodable(resource);
    };
    vec![ListedEntry::new(resource, "", addresses(&assignment)).owned_by(origins(&resource.origins))]
}

pub(super) fn secrets(resource: &Resource) -> Vec<ListedEntry> {
    let Ok(secret) = Secret::decode(&*resource.body) else { return ListedEntry::undecodable(resource) };
    let content = match &secret.r#type {
        Some(secret::Type::TlsCertificate(certificate)) => chain(certificate),
        Some(secret::Type::ValidationContext(_)) => "certificate authorities".to_owned(),
        Some(secret::Type::SessionTicketKeys(_)) => "keys of session tickets".to_owned(),
        Some(secret::Type::GenericSecret(_)) => "a value that is not shown".to_owned(),
        None => "empty".to_owned(),
    };
    vec![ListedEntry::new(resource, "", content).owned_by(origins(&resource.origins))]
}

/// The certificates that clients see.
fn chain(certificate: &TlsCertificate) -> String {
    let pem = match certificate.certificate_chain.as_ref().and_then(|source| source.specifier.as_ref()) {
        Some(Specifier::InlineBytes(bytes)) => bytes.as_slice(),
        Some(Specifier::InlineString(text)) => text.as_bytes(),
        _ => return "a certificate that is not shown".into(),
    };
    let all: Vec<String> = summaries(pem).iter().map(ToString::to_string).collect();
    all.join("; ")
}

fn addresses(assignment: &ClusterLoadAssignment) -> String {
    let all: Vec<String> =
        assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints).map(address).collect();
    if all.is_empty() {
        return "no endpoints".into();
    }
    let shown: Vec<&str> = all.iter().take(ADDRESSES_MAX).map(String::as_str).collect();
    match all.len().saturating_sub(ADDRESSES_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn address(endpoint: &LbEndpoint) -> String {
    let known = match &endpoint.host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => {
            endpoint.address.as_ref().and_then(|address| address.address.as_ref())
        }
        _ => None,
    };
    match known {
        Some(Address::SocketAddress(socket)) => {
            let port = match socket.port_specifier {
                Some(PortSpecifier::PortValue(port)) => port,
                _ => 0,
            };
            match socket.address.parse::<IpAddr>() {
                Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
                _ => format!("{}:{port}", socket.address),
            }
        }
        _ => "an address of another kind".into(),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_graph::{ObjectKey, Origins};

    use super::*;
    use crate::encode::endpoints;
    use crate::model::ServicePort;
    use crate::model::port::Transport;

    #[test]
    fn addresses_are_shown_up_to_a_limit() {
        let service = ServicePort {
            key: ObjectKey::new("", "Service", "shop", "a"),
            port: 80,
            transport: Transport::Tcp,
            health: None,
        };
        let shown = |count: u8| {
            let addresses = (0..count).map(|last| (([10, 0, 0, last], 80).into(), None)).collect();
            let body = endpoints::encode(&service, &addresses);
            let resource = Resource::new("service/shop/a/80", body, Origins::one(service.key.clone()));
            super::endpoints(&resource).remove(0)
        };
        let entry = shown(2);
        assert_eq!((&*entry.action, entry.owners.len()), ("10.0.0.0:80, 10.0.0.1:80", 1));
        assert_eq!(shown(0).action, "no endpoints");
        assert!(shown(53).action.ends_with("10.0.0.49:80 and 3 more"), "{}", shown(53).action);
    }
}
