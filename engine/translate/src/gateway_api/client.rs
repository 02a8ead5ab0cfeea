//! The client certificate that a Gateway presents to TLS backends (`spec.tls.backend`).
//!
//! The reference is always that of today's version. Without a usable certificate, no Envoy of the Gateway connects to a
//! backend that would get it: a backend may serve clients without a certificate as other clients than the Gateway.

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::{Body, kinds, scheme};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::status::Condition;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_graph::{ObjectKey, Role};

use crate::listeners::{UsableCertificate, at_secret, certificate};
use crate::outcome::gateway::{CLOSED_BACKENDS, GatewayClient, INVALID_CLIENT_CERTIFICATE};
use crate::reader::Reader;

/// The field with the reference.
const FIELD: &str = "spec.tls.backend.clientCertificateRef";

/// Reads the client certificate of a Gateway; `None` where it requires none.
pub(super) fn read(
    key: &ObjectKey,
    read: &Gateway,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Option<GatewayClient> {
    let today = match reader.current(key).map(|object| &object.body) {
        Some(Body::Gateway(today)) => today,
        _ => read,
    };
    let Some(backend) = today.tls.backend.as_ref()? else {
        let message = format!("spec.tls of the Gateway cannot be read completely; {CLOSED_BACKENDS}");
        return Some(unavailable(INVALID_CLIENT_CERTIFICATE, &message, None));
    };
    let written = backend.client_certificate_ref.as_ref()?;
    let group = written.group.as_deref().unwrap_or_default();
    let kind = written.kind.as_deref().unwrap_or(kinds::SECRET);
    if !group.is_empty() || kind != kinds::SECRET {
        let of = if group.is_empty() { "core" } else { group };
        let message = format!("must reference a Secret, not {of}/{kind}");
        return Some(closed(Fault::new(key, Class::Invalid, FIELD, INVALID_CLIENT_CERTIFICATE, message), None, faults));
    }
    let namespace = written.namespace.as_deref().unwrap_or(&key.namespace);
    let secret = scheme::secret_key(namespace, &written.name);
    // Other connections of the Gateway need no client certificate: the Gateway is served without it.
    reader.edge(key, "", &secret, Role::Mentions);
    if !reader.granted((GROUP, kinds::GATEWAY, &key.namespace), &secret) {
        let message = format!(
            "Secret {} is in another namespace, and no ReferenceGrant there allows Gateways of {} to use it",
            secret.namespaced_name(),
            key.namespace
        );
        let fault = Fault::new(key, Class::Referential, FIELD, "RefNotPermitted", message);
        return Some(closed(fault, None, faults));
    }
    match certificate(&secret, reader) {
        Ok(usable) => Some(usable_client(key, secret, &usable, faults)),
        Err((class, message)) => {
            let broken = (class == Class::Invalid).then(|| (secret.clone(), message.clone()));
            let fault = Fault::new(key, class, FIELD, INVALID_CLIENT_CERTIFICATE, message).caused_by(Some(secret));
            Some(closed(fault, broken, faults))
        }
    }
}

/// Returns a certificate that Envoy can use, and reports its dates. Envoy presents it outside of its validity as well:
/// whether it is accepted then is decided by the backend.
fn usable_client(
    key: &ObjectKey,
    secret: ObjectKey,
    usable: &UsableCertificate,
    faults: &mut Vec<Fault>,
) -> GatewayClient {
    let mut resolved_refs = Condition::new("ResolvedRefs", true, "ResolvedRefs", "the client certificate is usable");
    if let Some(found) = usable.dates.fault {
        let message = at_secret(&secret, found);
        let fault = if found.is_outside() {
            let message = format!("{message}; backends that verify the client certificate refuse connections");
            resolved_refs = Condition::new("ResolvedRefs", false, found.reason(), &*message);
            Fault::new(key, Class::Invalid, FIELD, found.reason(), message)
        } else {
            Fault::new(key, Class::Ignored, FIELD, found.reason(), message)
        };
        faults.push(fault.caused_by(Some(secret.clone())));
    }
    let identity = ClientIdentity::Certificate(secret);
    GatewayClient { identity, dates: Some(usable.dates), broken: None, resolved_refs }
}

/// Reports a certificate that cannot be used.
fn closed(fault: Fault, broken: Option<(ObjectKey, String)>, faults: &mut Vec<Fault>) -> GatewayClient {
    let message = format!("{}; {CLOSED_BACKENDS}", fault.message);
    let client = unavailable(fault.reason, &message, broken);
    faults.push(Fault { message, ..fault });
    client
}

fn unavailable(reason: &'static str, message: &str, broken: Option<(ObjectKey, String)>) -> GatewayClient {
    let resolved_refs = Condition::new("ResolvedRefs", false, reason, message);
    GatewayClient { identity: ClientIdentity::Unavailable, dates: None, broken, resolved_refs }
}
