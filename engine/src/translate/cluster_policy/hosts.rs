//! The hosts that a Backend names; of its other forms none is served.

use std::sync::Arc;

use holdfast_graph::ObjectKey;

use super::notes::Notes;
use crate::apis::kgateway::backend::{Backend, Host};
use crate::check;
use crate::fault::at;
use crate::features::hosts::{HOSTS_MAX, Hosts, NamedHost};
use crate::model::Protocol;

/// What of a Backend is used, and what it is spoken to in.
pub(in crate::translate) fn hosts(
    key: &ObjectKey,
    backend: &Backend,
    allow_loopback: bool,
) -> Result<(Arc<Hosts>, Protocol), String> {
    let mut notes = Notes::default();
    read(key, backend, allow_loopback, &mut notes).filter(|_| notes.is_empty()).ok_or_else(|| notes.sentence())
}

pub(super) fn read(
    key: &ObjectKey,
    backend: &Backend,
    allow_loopback: bool,
    notes: &mut Notes,
) -> Option<(Arc<Hosts>, Protocol)> {
    notes.unread(&backend.unread);
    let others = [
        ("aws", backend.aws.is_some(), "requests to AWS are signed with keys that Holdfast gives to no Envoy"),
        (
            "dynamicForwardProxy",
            backend.dynamic_forward_proxy.is_some(),
            "clients would choose where the proxy connects to, itself and what only it can reach among it",
        ),
        (
            "gcp",
            backend.gcp.is_some(),
            "tokens of GCP are made from the identity of the proxy, which serves others too",
        ),
        ("priorityGroups", backend.priority_groups.is_some(), "Backends stand for themselves only"),
    ];
    for (field, _, why) in others.iter().filter(|(_, is_set, _)| *is_set) {
        notes.unsupported(format!("spec.{field}"), why);
    }
    let is_another = others.iter().any(|(_, is_set, _)| *is_set);
    let Some(fixed) = &backend.fixed else {
        if !is_another && backend.unread.is_empty() {
            notes.invalid("spec", "one of static, aws, dynamicForwardProxy, gcp and priorityGroups must be set");
        }
        return None;
    };
    if is_another {
        notes.invalid("spec", "only one of static, aws, dynamicForwardProxy, gcp and priorityGroups may be set");
    }
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
        None | Some("grpc-web" | "kubernetes.io/ws") => Protocol::Http1,
        Some("http2" | "grpc" | "kubernetes.io/h2c") => Protocol::H2c,
        Some(other) => {
            notes.invalid("spec.static.appProtocol", format!("{other:?} is not known"));
            return None;
        }
    };
    Some((Arc::new(Hosts { owner: key.clone(), hosts }), protocol))
}

fn host(field: &str, written: &Host, allow_loopback: bool, notes: &mut Notes) -> Option<(NamedHost, u16)> {
    let port = match check::number::port(written.port) {
        Ok(port) => Some(port),
        Err(fault) => {
            notes.invalid(format!("{field}.port"), fault);
            None
        }
    };
    let field = format!("{field}.host");
    let text = written.host.to_ascii_lowercase();
    let host = match text.parse() {
        Ok(address) => match check::address::allowed(address, allow_loopback) {
            Ok(()) => Some(NamedHost::Address(address)),
            Err(fault) => {
                notes.invalid(field, fault);
                None
            }
        },
        Err(_) => match check::host::precise_hostname(&text) {
            Ok(()) if !allow_loopback && (text == "localhost" || text.ends_with(".localhost")) => {
                notes.invalid(field, "it names the proxy's own host");
                None
            }
            Ok(()) if is_number(&text) => {
                notes.invalid(field, format!("{text:?} is a number, which some would take for an address"));
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

/// Does the name end in a number, in which systems that look it up may see an address (`127.1`)?
fn is_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x")
}
