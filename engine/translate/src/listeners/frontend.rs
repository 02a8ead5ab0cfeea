//! Validation of client certificates that a Gateway requires of its TLS listeners (`spec.tls.frontend`), including those
//! that ListenerSets add.
//!
//! The validation and the certificate authorities are always those of today's versions, even where an earlier version of
//! the Gateway is read: an earlier one could accept other clients. A listener without any usable certificate authority
//! refuses connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::frontend::{AUTHORITIES_MAX, FrontendValidation, ValidationMode};
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::kgateway::listener_policy::ObjectReference;
use holdfast_api::apis::{Body, kinds};
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::status::Condition;
use holdfast_check::certificate::Bundle;
use holdfast_envoy::features::client_certificate::ClientCertificates;
use holdfast_graph::{ObjectKey, Role};

use crate::outcome::listener::{ListenerPlan, ListenerState, Traffic};
use crate::policy::listener::clients::{NoAuthorities, context, todays};
use crate::reader::Reader;

/// The reason of a listener without any usable certificate authority.
const NONE_VALID: &str = "NoValidCACertificate";
/// The reason of a listener of which the validation is not known.
const UNREADABLE: &str = "InvalidFrontendTLS";
/// The reason of certificate authorities of which none is valid now. The listener serves, and refuses their clients.
const NONE_NOW: &str = "NoCurrentCACertificate";

/// A validation, after its references were resolved.
struct ResolvedValidation {
    /// The validation; unset where no certificate authority is usable.
    clients: Option<Arc<ClientCertificates>>,
    /// The reason and message of the first reference that cannot be used.
    wrong: Option<(&'static str, String)>,
    /// The objects that the references name.
    named: Vec<ObjectKey>,
}

/// Sets the validation of the TLS listeners of a Gateway, or closes the listeners where it cannot be enforced.
pub(crate) fn validate(
    key: &ObjectKey,
    read: &Gateway,
    listeners: &mut [ListenerPlan],
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) {
    let today = match reader.current(key).map(|object| &object.body) {
        Some(Body::Gateway(today)) => today,
        _ => read,
    };
    let Some(frontend) = &today.tls.frontend else { return };
    let mut known: BTreeMap<String, ResolvedValidation> = BTreeMap::new();
    // Where the backend terminates TLS, only the backend can validate certificates.
    let meant = |listener: &&mut ListenerPlan| {
        listener.https && listener.traffic != Traffic::Passthrough && listener.has_place()
    };
    for listener in listeners.iter_mut().filter(meant) {
        let Some(frontend) = frontend else {
            let message = "spec.tls of the Gateway cannot be read completely; connections to the listener are refused";
            close(listener, UNREADABLE, message);
            continue;
        };
        if let Some(index) = frontend.repeated(listener.declared_port) {
            let field = format!("{}.port", at("spec.tls.frontend.perPort", index));
            let message = format!(
                "port {} has an entry already; connections to its TLS listeners are refused",
                listener.declared_port
            );
            close(listener, UNREADABLE, &message);
            faults.push(Fault::new(key, Class::Invalid, field, UNREADABLE, message));
            continue;
        }
        let Some((field, written)) = frontend.at(listener.declared_port) else { continue };
        let resolved = known.entry(field).or_insert_with_key(|field| resolve(key, field, written, reader, faults));
        let unit = listener.unit(key);
        for named in &resolved.named {
            reader.edge(&unit.key, unit.section.clone(), named, Role::Requires);
        }
        apply(listener, resolved);
    }
    // The owner of a ListenerSet sees why its listeners are closed.
    for listener in listeners.iter().filter(|listener| listener.is_unvalidated) {
        let Some(set) = &listener.set else { continue };
        let is_unreadable = &*listener.accepted.reason == UNREADABLE;
        let (class, reason) =
            if is_unreadable { (Class::Invalid, UNREADABLE) } else { (Class::Referential, NONE_VALID) };
        let fault = Fault::new(&set.key, class, &listener.field, reason, &*listener.accepted.message);
        faults.push(fault.caused_by(Some(key.clone())));
    }
    for (index, entry) in frontend.iter().flat_map(|frontend| frontend.per_port.iter().flatten()).enumerate() {
        if !listeners.iter().any(|listener| listener.https && listener.declared_port == entry.port) {
            let field = format!("{}.port", at("spec.tls.frontend.perPort", index));
            let message = format!("no HTTPS listener of the Gateway has port {}", entry.port);
            faults.push(Fault::new(key, Class::Ignored, field, "NoMatchingListener", message));
        }
    }
    faults.sort_unstable();
    faults.dedup();
}

/// Sets a validation for a listener, and its conditions.
fn apply(listener: &mut ListenerPlan, resolved: &ResolvedValidation) {
    if let Some((reason, message)) = &resolved.wrong {
        listener.resolved_refs = Condition::new("ResolvedRefs", false, *reason, message);
    }
    listener.clients.clone_from(&resolved.clients);
    if listener.clients.is_none() {
        let why = resolved.wrong.as_ref().map_or("it names none", |(_, message)| message);
        let message = format!("no usable certificate authority for clients: {why}");
        close(listener, NONE_VALID, &message);
    }
}

fn close(listener: &mut ListenerPlan, reason: &str, message: &str) {
    listener.reject(ListenerState::Closed, reason, message);
    listener.is_unvalidated = true;
}

/// Resolves the references of a validation, and reports those that cannot be used.
fn resolve(
    key: &ObjectKey,
    field: &str,
    written: &FrontendValidation,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> ResolvedValidation {
    let field = format!("{field}.caCertificateRefs");
    let mut resolved = ResolvedValidation { clients: None, wrong: None, named: Vec::new() };
    let mut wrong = |resolved: &mut ResolvedValidation, fault: Fault| {
        resolved.wrong.get_or_insert_with(|| (fault.reason, fault.message.clone()));
        faults.push(fault);
    };
    let references = &written.ca_certificate_refs;
    if references.is_empty() || references.len() > AUTHORITIES_MAX {
        let message = format!("must have from 1 to {AUTHORITIES_MAX} entries");
        wrong(&mut resolved, Fault::new(key, Class::Invalid, &field, "InvalidCACertificateRef", message));
    }
    let (mut found, mut dates) = (Vec::<(ObjectKey, Bytes)>::new(), Bundle::default());
    for (index, reference) in references.iter().take(AUTHORITIES_MAX).enumerate() {
        let named = object(key, reference);
        resolved.named.extend(named.clone());
        match authorities(key, &at(&field, index), reference, named, reader) {
            Ok((named, text, bundle)) => {
                dates.validities.extend(bundle.validities);
                found.push((named, text));
            }
            Err(fault) => wrong(&mut resolved, *fault),
        }
    }
    let insecure = written.mode.unwrap_or_default() == ValidationMode::AllowInsecureFallback;
    if !found.is_empty()
        && !insecure
        && let Some(fault) = reader.bundle_fault(&dates)
    {
        let message = format!("{fault}: clients are refused; add a certificate that is valid now");
        faults.push(Fault::new(key, Class::Ignored, field, NONE_NOW, message));
    }
    resolved.clients = context(key, found).map(|mut trust| {
        trust.unverified = insecure;
        Arc::new(ClientCertificates { required: !insecure, trust, forwarded_details: None })
    });
    resolved
}

/// Returns the object that a reference names; `None` where its kind cannot have certificate authorities.
fn object(gateway: &ObjectKey, reference: &ObjectReference) -> Option<ObjectKey> {
    let is_known = reference.group.is_empty() && [kinds::CONFIG_MAP, kinds::SECRET].contains(&&*reference.kind);
    let namespace = reference.namespace.as_deref().unwrap_or(&gateway.namespace);
    is_known.then(|| ObjectKey::new("", &*reference.kind, namespace, &*reference.name))
}

/// Reads the certificate authorities of a reference.
fn authorities(
    gateway: &ObjectKey,
    field: &str,
    reference: &ObjectReference,
    named: Option<ObjectKey>,
    reader: &mut Reader<'_>,
) -> Result<(ObjectKey, Bytes, Bundle), Box<Fault>> {
    let Some(named) = named else {
        let group = if reference.group.is_empty() { "core" } else { &reference.group };
        let message = format!("caCertificateRefs must reference ConfigMaps or Secrets, not {group}/{}", reference.kind);
        return Err(Box::new(Fault::new(gateway, Class::Invalid, field, "InvalidCACertificateKind", message)));
    };
    let name = format!("{} {}", named.kind, named.namespaced_name());
    if !reader.granted((GROUP, kinds::GATEWAY, &gateway.namespace), &named) {
        let message = format!(
            "{name} is in another namespace, and no ReferenceGrant there allows Gateways of {} to use it",
            gateway.namespace
        );
        return Err(Box::new(Fault::new(gateway, Class::Referential, field, "RefNotPermitted", message)));
    }
    let invalid = |class, message| Fault::new(gateway, class, field, "InvalidCACertificateRef", message);
    match todays(&named, reader) {
        Ok((text, bundle)) => Ok((named, text, bundle)),
        Err(NoAuthorities::Missing) => {
            let fault = invalid(Class::Referential, format!("{name} {}", reader.lacking(&named)));
            Err(Box::new(fault.caused_by(Some(named))))
        }
        Err(NoAuthorities::Wrong(message)) => Err(Box::new(invalid(Class::Invalid, message).caused_by(Some(named)))),
    }
}
