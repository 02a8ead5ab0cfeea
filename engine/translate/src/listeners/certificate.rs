//! Certificates of listeners: the Secret of a reference, whether Envoy can use it, and its dates.
//!
//! A certificate outside of its validity closes nothing here: Envoy serves it, and a client that does not verify it is
//! served. Whether an earlier version is served instead is decided by the fallback.

use gateway_api::gateways::GatewayListenersTlsCertificateRefs;
use holdfast_api::apis::{Body, kinds, scheme};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::section;
use holdfast_check::certificate::DateFault;
use holdfast_graph::{ObjectKey, Role};

use super::{INVALID_CERTIFICATE, unresolved};
use crate::outcome::listener::{CertificateDates, ListenerPlan};
use crate::reader::Reader;

/// Adds a certificate to a TLS listener, or reports why it cannot be used.
pub(super) fn read_certificate(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    field: &str,
    reference: &GatewayListenersTlsCertificateRefs,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) {
    let group = reference.group.as_deref().unwrap_or("");
    let kind = reference.kind.as_deref().unwrap_or(kinds::SECRET);
    if !group.is_empty() || kind != kinds::SECRET {
        let of = if group.is_empty() { "core" } else { group };
        let message = format!("certificateRefs must reference Secrets, not {of}/{kind}");
        return unresolved(plan, Fault::new(owner, Class::Invalid, field, INVALID_CERTIFICATE, message), faults);
    }
    let namespace = reference.namespace.as_deref().unwrap_or(&owner.namespace);
    let secret = scheme::secret_key(namespace, &reference.name);
    reader.edge(owner, section::listener(plan.section()), &secret, Role::Requires);
    if !reader.granted((&owner.group, &owner.kind, &owner.namespace), &secret) {
        let message = format!(
            "Secret {} is in another namespace, and no ReferenceGrant there allows {}s of {} to use it",
            secret.namespaced_name(),
            owner.kind,
            owner.namespace
        );
        return unresolved(plan, Fault::new(owner, Class::Referential, field, "RefNotPermitted", message), faults);
    }
    match certificate(&secret, reader) {
        // The order is that of the references: clients that name no host get the first certificate.
        Ok(_) if plan.certificates.contains(&secret) => {}
        Ok(dates) => {
            if let Some(found) = dates.fault {
                let class = if found.is_outside() { Class::Invalid } else { Class::Ignored };
                let fault = Fault::new(owner, class, field, found.reason(), at_secret(&secret, found));
                let fault = fault.caused_by(Some(secret.clone()));
                if found.is_outside() { unresolved(plan, fault, faults) } else { faults.push(fault) }
            }
            plan.named_certificates.push(secret.clone());
            plan.certificate_dates.insert(secret.clone(), dates);
            plan.certificates.push(secret);
        }
        Err((class, message)) => {
            if class == Class::Invalid {
                if !plan.named_certificates.contains(&secret) {
                    plan.named_certificates.push(secret.clone());
                }
                plan.broken_certificates.push((secret.clone(), message.clone()));
            }
            let fault = Fault::new(owner, class, field, INVALID_CERTIFICATE, message);
            unresolved(plan, fault.caused_by(Some(secret)), faults);
        }
    }
}

/// Returns the message about the dates of a certificate, with its Secret.
pub(crate) fn at_secret(secret: &ObjectKey, fault: DateFault) -> String {
    format!("Secret {}: {fault}", secret.namespaced_name())
}

/// Checks that the Secret contains a certificate and a key that Envoy can use; returns its dates.
pub(crate) fn certificate(key: &ObjectKey, reader: &mut Reader<'_>) -> Result<CertificateDates, (Class, String)> {
    let Some(object) = reader.object(key) else {
        return Err((Class::Referential, format!("Secret {} {}", key.namespaced_name(), reader.lacking(key))));
    };
    let Body::Secret(secret) = &object.body else {
        return Err((Class::Invalid, format!("{key} is no Secret")));
    };
    let data = |name: &str| {
        let message = || (Class::Invalid, format!("Secret {} has no {name}", key.namespaced_name()));
        secret.data.get(name).ok_or_else(message)
    };
    let (chain, private_key) = (data("tls.crt")?, data("tls.key")?);
    let pair = holdfast_check::certificate::check_pair(chain, private_key)
        .map_err(|fault| (Class::Invalid, format!("Secret {}: {fault}", key.namespaced_name())))?;
    Ok(CertificateDates { validity: pair.validity, fault: reader.date_fault(pair.validity) })
}
