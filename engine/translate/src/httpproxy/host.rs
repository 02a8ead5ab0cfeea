//! Host of a root: its claimed name, its certificate, and conflicts with other claims.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::fault::Class;
use holdfast_api::object::{Age, Object};
use holdfast_api::settings::Settings;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;

use super::seats;
use super::tls::Notes;
use super::{is_ours, stream, tls};
use crate::outcome::finding::{Finding, NOT_READABLE};
use crate::outcome::host::HostClaim;
use crate::outcome::host::TlsClaim;
use crate::reader::Reader;

/// Computes the claim of a root; `None` if the object is not a root of a served class.
pub(crate) fn claim(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<HostClaim> {
    let object = reader.object(key)?;
    let Body::HttpProxy(proxy) = &object.body else { return None };
    let host = proxy.virtual_host.as_ref().filter(|_| is_ours(object, proxy, settings))?;
    let mut claim =
        HostClaim { host: None, seats: None, tls: None, closed: false, findings: Vec::new(), edges: Vec::new() };
    if let Some(found) = unusable_name(object, &host.fqdn, settings) {
        claim.findings.push(found);
        return Some(claim);
    }
    claim.host = Some(Host::new(Some(&host.fqdn)));
    let rivals = rivals(&host.fqdn, settings, reader);
    let ages: Vec<Age> = rivals.iter().map(|rival| rival.age()).collect();
    let shared = rivals.len() > 1;
    if shared {
        let rivals: Vec<String> = rivals.iter().map(|rival| rival.key.namespaced_name()).collect();
        let message = format!("fqdn {:?} is used in multiple HTTPProxies: {}", host.fqdn, rivals.join(", "));
        let found = Finding::error(key, "spec.virtualhost.fqdn", "VirtualHostError", "DuplicateVhost", message);
        claim.findings.push(found.of_class(Class::Conflict));
    }
    if proxy.routes.is_empty() && proxy.includes.is_empty() && proxy.tcp_proxy.is_none() {
        let message = "HTTPProxy.Spec must have at least one Route, Include, or a TCPProxy";
        claim.findings.push(Finding::error(key, "spec", "SpecError", "NothingDefined", message));
    }
    let mut notes = Notes::new(key);
    match &host.written {
        Some(written) => {
            claim.tls =
                written.tls.as_ref().map(|tls| tls::claim(object, proxy, written, tls, &mut notes, settings, reader));
            let stream = stream::claim(key, proxy, written, settings, &mut notes.additional, reader);
            if let Some(tls) = &mut claim.tls {
                tls.stream = stream;
            }
        }
        None => {
            let message = "spec.virtualhost could not be decoded; requests to the host are refused";
            let field = "spec.virtualhost";
            claim.findings.push(Finding::error(key, field, "VirtualHostError", NOT_READABLE, message));
            // It is unknown whether TLS was configured: TLS connections to the host are refused.
            claim.tls = Some(TlsClaim::default());
        }
    }
    if let Some(tls) = claim.tls.as_mut().filter(|_| shared || !notes.closing.is_empty()) {
        tls.refuse();
    }
    claim.findings.extend(notes.closing);
    claim.closed = !claim.findings.is_empty();
    claim.findings.extend(notes.additional);
    let wanted = Host::new(Some(&host.fqdn));
    let seated = seats::find(key, &wanted, claim.tls.as_ref(), &ages, settings, reader);
    claim.closed |= seated.closes;
    claim.findings.extend(seated.findings);
    claim.findings.extend(seated.additional);
    claim.seats = Some(seated.seats);
    Some(claim)
}

/// Returns why a root cannot claim a host; `None` if it can.
fn unusable_name(object: &Object, fqdn: &str, settings: &Settings) -> Option<Finding> {
    let key = &object.key;
    if !may_be_root(object, settings) {
        return Some(Finding::error(
            key,
            "spec.virtualhost",
            "RootNamespaceError",
            "RootProxyNotAllowedInNamespace",
            "root HTTPProxy cannot be defined in this namespace",
        ));
    }
    let field = "spec.virtualhost.fqdn";
    if fqdn.is_empty() {
        let message = "Spec.VirtualHost.Fqdn must be specified";
        return Some(Finding::error(key, field, "VirtualHostError", "FQDNNotSpecified", message));
    }
    let fault = holdfast_check::host::hostname(fqdn).err()?;
    Some(Finding::error(key, field, "VirtualHostError", "FQDNInvalid", fault.to_string()))
}

/// Returns the claim of a root after a failed translation: the root keeps its claim, and its host is closed.
pub(crate) fn failed(key: &ObjectKey, before: Option<&HostClaim>) -> Option<HostClaim> {
    let mut claim = before?.clone();
    let message = crate::incremental::guard::fault(key).message;
    claim.findings.push(Finding::error(key, "", "VirtualHostError", "InternalError", message));
    claim.findings.dedup();
    claim.closed = true;
    Some(claim)
}

/// Returns the roots that claim a host.
fn rivals<'a>(fqdn: &Arc<str>, settings: &Settings, reader: &mut Reader<'a>) -> Vec<&'a Arc<Object>> {
    let mut roots = reader.roots(fqdn);
    roots.retain(|root| match &root.body {
        Body::HttpProxy(proxy) => is_ours(root, proxy, settings) && may_be_root(root, settings),
        _ => false,
    });
    roots
}

fn may_be_root(object: &Object, settings: &Settings) -> bool {
    let namespaces = &settings.proxies.root_namespaces;
    namespaces.is_empty() || namespaces.contains(&object.key.namespace)
}
