//! Certificate authorities that verify backends: an entry of a ConfigMap or Secret.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::core::secret::Secret;
use holdfast_check::certificate::Bundle;
use holdfast_graph::ObjectKey;

use super::Behalf;
use super::notes::Notes;
use crate::reader::Reader;

/// The entry with the certificate authorities.
const ENTRY: &str = "ca.crt";
/// Text in the PEM header of a private key.
const PRIVATE: &str = "PRIVATE KEY";

/// Returns the certificate authorities of an object as PEM, with their dates; an error message where none is usable.
pub(super) fn of(key: &ObjectKey, behalf: Behalf<'_>, reader: &mut Reader<'_>) -> Result<(Arc<[u8]>, Bundle), String> {
    reader.edge(behalf.key, behalf.section, key, behalf.role);
    let name = || format!("{} {}", key.kind, key.namespaced_name());
    let bundle = match reader.object(key).map(|object| &object.body) {
        Some(Body::ConfigMap(map)) => map.data.get(ENTRY).map(|text| Arc::<[u8]>::from(text.clone())),
        Some(Body::Secret(secret)) => secret.data.get(ENTRY).map(|bytes| Arc::<[u8]>::from(&bytes[..])),
        _ => return Err(format!("{} {}", name(), reader.lacking(key))),
    };
    let bundle = bundle.ok_or_else(|| format!("{} has no entry {ENTRY}", name()))?;
    let dates = usable(&bundle).map_err(|why| format!("{ENTRY} of {} {why}", name()))?;
    Ok((bundle, dates))
}

/// Reports certificate authorities of which none is valid now. The policy is enforced with them.
pub(super) fn report_dates(
    field: &str,
    from: &[ObjectKey],
    bundle: &Bundle,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) {
    let Some(fault) = reader.bundle_fault(bundle) else { return };
    let names = from.iter().map(|key| format!("{} {}", key.kind, key.namespaced_name())).collect::<Vec<_>>();
    let message = format!(
        "{}: {fault}: Envoy cannot verify the backend, and its clients get 503; add a certificate that is valid now",
        names.join(", ")
    );
    notes.dated(field, fault.reason(), from.first(), message);
}

fn usable(bundle: &[u8]) -> Result<Bundle, String> {
    // The text becomes part of the cluster, which diagnostics pages show.
    if bundle.windows(PRIVATE.len()).any(|window| window == PRIVATE.as_bytes()) {
        return Err("holds a private key".into());
    }
    holdfast_check::certificate::check_ca_bundle(bundle).map_err(|fault| format!("cannot be used: {fault}"))
}

/// Returns a Secret; an error message where there is none.
pub(super) fn secret<'a>(key: &ObjectKey, behalf: Behalf<'_>, reader: &mut Reader<'a>) -> Result<&'a Secret, String> {
    reader.edge(behalf.key, behalf.section, key, behalf.role);
    match reader.object(key).map(|object| &object.body) {
        Some(Body::Secret(secret)) => Ok(secret),
        _ => Err(format!("Secret {} {}", key.namespaced_name(), reader.lacking(key))),
    }
}
