//! Certificates of listeners: the Secret of a reference, whether Envoy can use it, and its dates.
//!
//! A certificate outside of its validity closes nothing here: Envoy serves it, and a client that does not verify it is
//! served. Whether an earlier version is served instead is decided by the fallback.

use std::collections::BTreeSet;

use gateway_api::gateways::GatewayListenersTlsCertificateRefs;
use holdfast_api::apis::{Body, kinds, scheme};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::section;
use holdfast_check::certificate::{DateFault, KeyKind};
use holdfast_envoy::model::certificates::{CertificateLabels, SelectedKey};
use holdfast_graph::{ObjectKey, Role};

use super::{INVALID_CERTIFICATE, unresolved};
use crate::outcome::listener::{CertificateDates, ListenerPlan};
use crate::reader::Reader;

/// A certificate that Envoy can use.
pub(crate) struct UsableCertificate {
    /// Its dates.
    pub(crate) dates: CertificateDates,
    /// What Envoy selects it by.
    pub(crate) labels: CertificateLabels,
}

/// Adds a certificate to a TLS listener, or reports why it cannot be used. Returns the Secret of a certificate that was
/// added.
pub(super) fn read_certificate(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    field: &str,
    reference: &GatewayListenersTlsCertificateRefs,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Option<ObjectKey> {
    let group = reference.group.as_deref().unwrap_or("");
    let kind = reference.kind.as_deref().unwrap_or(kinds::SECRET);
    if !group.is_empty() || kind != kinds::SECRET {
        let of = if group.is_empty() { "core" } else { group };
        let message = format!("certificateRefs must reference Secrets, not {of}/{kind}");
        unresolved(plan, Fault::new(owner, Class::Invalid, field, INVALID_CERTIFICATE, message), faults);
        return None;
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
        unresolved(plan, Fault::new(owner, Class::Referential, field, "RefNotPermitted", message), faults);
        return None;
    }
    match certificate(&secret, reader) {
        // The order is that of the references: clients that name no host get the first certificate.
        Ok(_) if plan.certificates.contains(&secret) => None,
        Ok(UsableCertificate { dates, labels }) => {
            plan.named_certificates.push(secret.clone());
            plan.certificate_dates.insert(secret.clone(), dates);
            plan.certificate_labels.insert(secret.clone(), labels);
            plan.certificates.push(secret.clone());
            Some(secret)
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
            None
        }
    }
}

/// The reason of a certificate outside of its validity that no client gets.
const NOT_SHOWN: &str = "CertificateNotShown";

/// Reports the dates of the certificates of a listener, each with its field. Where all certificates are known, it is
/// known which of them clients get.
pub(super) fn report_dates(
    owner: &ObjectKey,
    plan: &mut ListenerPlan,
    certificates: Vec<(String, ObjectKey)>,
    faults: &mut Vec<Fault>,
) {
    let shown = plan.shown_certificates().into_iter().filter(|(_, at)| at.is_any());
    let shown: BTreeSet<ObjectKey> = shown.map(|(secret, _)| secret.clone()).collect();
    for (field, secret) in certificates {
        let Some(found) = plan.certificate_dates.get(&secret).and_then(|dates| dates.fault) else { continue };
        let is_shown = shown.contains(&secret);
        let message = at_secret(&secret, found);
        let fault = match (found.is_outside(), is_shown) {
            (true, true) => Fault::new(owner, Class::Invalid, field, found.reason(), message),
            (true, false) => {
                let message =
                    format!("{message}. No client gets it now: other certificates of the listener have its names");
                Fault::new(owner, Class::Ignored, field, NOT_SHOWN, message)
            }
            (false, _) => Fault::new(owner, Class::Ignored, field, found.reason(), message),
        };
        let is_error = fault.is_error();
        let fault = fault.caused_by(Some(secret));
        if is_error { unresolved(plan, fault, faults) } else { faults.push(fault) }
    }
}

/// Returns the message about the dates of a certificate, with its Secret.
pub(crate) fn at_secret(secret: &ObjectKey, fault: DateFault) -> String {
    format!("Secret {}: {fault}", secret.namespaced_name())
}

/// Checks that the Secret contains a certificate and a key that Envoy can use.
pub(crate) fn certificate(key: &ObjectKey, reader: &mut Reader<'_>) -> Result<UsableCertificate, (Class, String)> {
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
    let key = match pair.key {
        KeyKind::Rsa { .. } => SelectedKey::Rsa,
        KeyKind::EcdsaP256 => SelectedKey::Ecdsa(256),
        KeyKind::EcdsaP384 => SelectedKey::Ecdsa(384),
        KeyKind::EcdsaP521 => SelectedKey::Ecdsa(521),
        KeyKind::Ed25519 => SelectedKey::Ed25519,
    };
    let labels = CertificateLabels { names: pair.names.into_iter().map(Into::into).collect(), key };
    let dates = CertificateDates { validity: pair.validity, fault: reader.date_fault(pair.validity) };
    Ok(UsableCertificate { dates, labels })
}
