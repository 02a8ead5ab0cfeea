//! Addresses that a Gateway requests (`spec.addresses`).
//!
//! Standalone, a Gateway binds an address. In a cluster its Envoys bind every address of their Pods, and the requested
//! address is one of its Service.

use std::net::{IpAddr, Ipv4Addr};

use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;

/// The reason of an address that is not used.
const UNSUPPORTED: &str = "UnsupportedAddress";

/// The addresses of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestedAddresses {
    /// The address that its listeners bind; unset where it requests only addresses that are unavailable.
    pub(crate) bound: Option<IpAddr>,
    /// The address that is requested of the load balancer of a cluster.
    pub(crate) balanced: Option<IpAddr>,
    /// The reason why an entry cannot be requested of the load balancer.
    pub(crate) unsupported: Option<String>,
}

/// Reads the addresses that a Gateway requests, and reports those that are not used.
pub(crate) fn read(
    key: &ObjectKey,
    gateway: &Gateway,
    settings: &Settings,
    faults: &mut Vec<Fault>,
) -> RequestedAddresses {
    let written = gateway.addresses.iter().enumerate().filter_map(|(index, address)| {
        let value = address.value.as_deref().filter(|value| !value.is_empty())?;
        let is_ip = address.r#type.as_deref().is_none_or(|kind| kind == "IPAddress");
        Some((format!("{}.value", at("spec.addresses", index)), value, is_ip))
    });
    let (mut usable, mut unsupported, mut is_requested) = (None, None, false);
    for (field, value, is_ip) in written {
        is_requested = true;
        let (class, message) = match value.parse::<IpAddr>() {
            _ if !is_ip => (
                Class::Invalid,
                format!("the address {value:?} is not of type IPAddress, and other types are not supported"),
            ),
            Err(_) => (Class::Invalid, format!("{value:?} is no IP address")),
            // Without data planes of Holdfast, no Service could request the address.
            Ok(_) if settings.listen_address.is_none() && !settings.provision => (
                Class::Invalid,
                format!("the address {value:?} cannot be requested: the cluster assigns the addresses"),
            ),
            Ok(_) if usable.is_some() => (
                Class::Ignored,
                format!("the address {value:?} is not used: a Gateway has only the first usable address"),
            ),
            Ok(address) => {
                usable = Some(address);
                continue;
            }
        };
        if class == Class::Invalid {
            unsupported.get_or_insert_with(|| format!("{field}: {message}"));
        }
        faults.push(Fault::new(key, class, field, UNSUPPORTED, message));
    }
    let default = settings.listen_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    match settings.listen_address {
        Some(_) => {
            let bound = usable.or((!is_requested).then_some(default));
            RequestedAddresses { bound, ..RequestedAddresses::default() }
        }
        None => {
            let bound = (usable.is_some() || !is_requested).then_some(default);
            RequestedAddresses { bound, balanced: usable, unsupported }
        }
    }
}
