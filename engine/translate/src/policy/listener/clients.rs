//! Verification of client certificates.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::GROUP as GATEWAY_GROUP;
use holdfast_api::apis::kgateway::listener_policy::{ClientCertificateValidation, ObjectReference};
use holdfast_api::apis::kinds;
use holdfast_check::certificate::{Bundle, check_client_authorities};
use holdfast_envoy::features::client_certificate::{ClientCertificates, ClientValidationContext};
use holdfast_graph::{ObjectKey, Role};

use super::super::reading::Reading;
use crate::reader::Reader;

/// Maximum number of objects with certificate authorities; the limit of the CRD.
pub(crate) const REFERENCES_MAX: usize = 8;
/// Entry of a Secret or ConfigMap that contains certificate authorities.
const ENTRY: &str = "ca.crt";

/// Reads the verification of client certificates; `None` if it is invalid, which closes the listener.
pub(super) fn read(
    field: &str,
    written: &ClientCertificateValidation,
    reading: &mut Reading<'_, '_>,
) -> Option<Arc<ClientCertificates>> {
    let required = match &*written.mode {
        "Require" => Some(true),
        "Optional" => Some(false),
        _ => {
            reading.invalid(format!("spec.{field}.mode"), "must be Require or Optional");
            None
        }
    };
    let references = &written.ca_certificate_refs;
    if references.is_empty() || references.len() > REFERENCES_MAX {
        let message = format!("must have from 1 to {REFERENCES_MAX} entries");
        reading.invalid(format!("spec.{field}.caCertificateRefs"), message);
    }
    let mut found: Vec<(ObjectKey, Bytes)> = Vec::new();
    let mut dates = Bundle::default();
    for (index, reference) in references.iter().take(REFERENCES_MAX).enumerate() {
        let field = format!("spec.{field}.caCertificateRefs[{index}]");
        let Some((key, text, bundle)) = authorities(&field, reference, reading) else { continue };
        dates.validities.extend(bundle.validities);
        found.push((key, text));
    }
    let required = required?;
    if found.is_empty() || found.len() < references.len() {
        return None;
    }
    if let Some(fault) = reading.reader.bundle_fault(&dates) {
        let effect = if required { "clients are refused" } else { "clients with a certificate are refused" };
        let message = format!("{fault}: {effect}; add a certificate that is valid now");
        reading.ignored(format!("spec.{field}.caCertificateRefs"), fault.reason(), message);
    }
    let trust = context(reading.key, found)?;
    Some(Arc::new(ClientCertificates { required, trust, forwarded_details: None }))
}

/// Returns the validation context with the certificate authorities of these objects; `None` where there are none.
pub(crate) fn context(owner: &ObjectKey, mut found: Vec<(ObjectKey, Bytes)>) -> Option<ClientValidationContext> {
    // The order of the references does not matter: the certificate authorities form one pool.
    found.sort_unstable();
    found.dedup();
    let text = found.iter().map(|(_, text)| text.as_ref()).collect::<Vec<&[u8]>>().join(&b"\n"[..]);
    let mut keys = found.into_iter().map(|(key, _)| key);
    let first = keys.next()?;
    Some(ClientValidationContext {
        owner: owner.clone(),
        authorities: Some((first, text.into())),
        besides: keys.collect(),
        revoked: None,
        leaf_only: false,
        unverified: false,
    })
}

/// The reason why an object has no usable certificate authorities.
pub(crate) enum NoAuthorities {
    /// The object does not exist, or cannot be read.
    Missing,
    /// The content cannot be used.
    Wrong(String),
}

/// Returns the certificate authorities of a Secret or ConfigMap, always those of today's version: an earlier version
/// could accept clients that today's version refuses.
pub(crate) fn todays(key: &ObjectKey, reader: &mut Reader<'_>) -> Result<(Bytes, Bundle), NoAuthorities> {
    let text = match reader.current(key).map(|object| &object.body) {
        Some(Body::Secret(secret)) => secret.data.get(ENTRY).cloned(),
        Some(Body::ConfigMap(map)) => map.data.get(ENTRY).map(|text| Bytes::copy_from_slice(text.as_bytes())),
        _ => return Err(NoAuthorities::Missing),
    };
    let (kind, name) = (&key.kind, key.namespaced_name());
    let text = text.ok_or_else(|| NoAuthorities::Wrong(format!("{kind} {name} has no {ENTRY}")))?;
    match check_client_authorities(&text) {
        Ok(bundle) => Ok((text, bundle)),
        Err(fault) => Err(NoAuthorities::Wrong(format!("{kind} {name}: {ENTRY}: {fault}"))),
    }
}

/// Reads the certificate authorities of an object.
fn authorities(
    field: &str,
    reference: &ObjectReference,
    reading: &mut Reading<'_, '_>,
) -> Option<(ObjectKey, Bytes, Bundle)> {
    let kind = &*reference.kind;
    if !reference.group.is_empty() || !matches!(kind, kinds::SECRET | kinds::CONFIG_MAP) {
        let group = if reference.group.is_empty() { "core" } else { &reference.group };
        reading.invalid(field, format!("caCertificateRefs must reference Secrets or ConfigMaps, not {group}/{kind}"));
        return None;
    }
    let namespace = reference.namespace.as_deref().unwrap_or(&reading.key.namespace);
    let key = ObjectKey::new("", kind, namespace, &*reference.name);
    reading.reader.edge(reading.key, "", &key, Role::Requires);
    // A ReferenceGrant for Gateways is sufficient as well: the policy is in the Gateway's namespace.
    let own = reading.key.clone();
    let granted = reading.reader.granted((&own.group, &own.kind, &own.namespace), &key)
        || reading.reader.granted((GATEWAY_GROUP, kinds::GATEWAY, &own.namespace), &key);
    if !granted {
        let message = format!(
            "{kind} {} is in another namespace, and no ReferenceGrant there allows Gateways or ListenerPolicies of {} to \
             use it",
            key.namespaced_name(),
            own.namespace
        );
        reading.missing(field, "RefNotPermitted", message);
        return None;
    }
    match todays(&key, reading.reader) {
        Ok((text, bundle)) => {
            reading.read_from(&key);
            Some((key, text, bundle))
        }
        Err(NoAuthorities::Missing) => {
            let reason = if kind == kinds::SECRET { "SecretNotFound" } else { "ConfigMapNotFound" };
            reading.lacks(field, reason, &key);
            None
        }
        Err(NoAuthorities::Wrong(message)) => {
            reading.read_from(&key);
            reading.invalid(field, message);
            None
        }
    }
}
