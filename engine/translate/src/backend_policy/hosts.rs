//! Static hosts of Backends.

use std::sync::Arc;

use holdfast_api::apis::kgateway::backend::{Static, StaticHost};
use holdfast_api::fault::at;
use holdfast_envoy::features::hosts::{HOSTS_MAX, Hosts, NamedHost};
use holdfast_envoy::model::BackendProtocol;
use holdfast_graph::ObjectKey;

use super::notes::Notes;

/// Reads the hosts, and their protocol.
pub(super) fn read(
    key: &ObjectKey,
    fixed: &Static,
    allow_loopback: bool,
    notes: &mut Notes,
) -> Option<(Arc<Hosts>, BackendProtocol)> {
    let field = "spec.static.hosts";
    if fixed.hosts.is_empty() || fixed.hosts.len() > HOSTS_MAX {
        notes.invalid(field, format!("must have 1 to {HOSTS_MAX} entries"));
    }
    let mut hosts = Vec::new();
    for (index, written) in fixed.hosts.iter().take(HOSTS_MAX).enumerate() {
        if let Some(host) = host(&at(field, index), written, allow_loopback, notes)
            && !hosts.contains(&host)
        {
            hosts.push(host);
        }
    }
    let protocol = match fixed.app_protocol.as_deref() {
        None | Some("grpc-web" | "kubernetes.io/ws") => BackendProtocol::Http1,
        Some("http2" | "grpc" | "kubernetes.io/h2c") => BackendProtocol::H2c,
        Some(other) => {
            notes.invalid("spec.static.appProtocol", format!("{other:?} is not known"));
            return None;
        }
    };
    Some((
        Arc::new(Hosts { owner: key.clone(), members: Vec::new(), groups: vec![hosts], loopback: allow_loopback }),
        protocol,
    ))
}

/// Reads a host.
pub(super) fn host(
    field: &str,
    written: &StaticHost,
    allow_loopback: bool,
    notes: &mut Notes,
) -> Option<(NamedHost, u16)> {
    let port = match holdfast_check::number::port(written.port) {
        Ok(port) => Some(port),
        Err(fault) => {
            notes.invalid(format!("{field}.port"), fault);
            None
        }
    };
    let field = format!("{field}.host");
    let text = written.host.to_ascii_lowercase();
    let host = match text.parse() {
        Ok(address) => match holdfast_check::address::allowed(address, allow_loopback) {
            Ok(()) => Some(NamedHost::Address(address)),
            Err(fault) => {
                notes.invalid(field, fault);
                None
            }
        },
        Err(_) => match holdfast_check::host::precise_hostname(&text) {
            Ok(()) if !allow_loopback && (text == "localhost" || text.ends_with(".localhost")) => {
                notes.invalid(field, "localhost is the proxy's own host, and cannot be a backend");
                None
            }
            Ok(()) if is_number(&text) => {
                notes.invalid(
                    field,
                    format!("{text:?} ends in a number, so that resolvers may interpret it as an IP address"),
                );
                None
            }
            Ok(()) => Some(NamedHost::Name(text.into())),
            Err(fault) => {
                notes.invalid(field, fault);
                None
            }
        },
    };
    host.zip(port)
}

/// Returns whether the name ends in a number, which resolvers may interpret as an address (`127.1`).
fn is_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x")
}
