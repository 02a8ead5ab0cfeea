//! BackendTLSPolicy settings. The policy is enforced with its usable certificate authorities; without any, the policy
//! closes the backend.

use std::sync::Arc;

use holdfast_api::apis::gateway::backend_tls::{self as written, AUTHORITIES_MAX, BackendTlsSpec, NAMES_MAX};
use holdfast_api::apis::kinds;
use holdfast_api::fault::at;
use holdfast_check::certificate::Bundle;
use holdfast_envoy::features::upstream::{CertificateValidation, SubjectAltName, Trust, UpstreamTls};
use holdfast_graph::ObjectKey;

use super::notes::Notes;
use super::{Behalf, authorities};
use crate::reader::Reader;

/// The reason for certificate authorities that are unusable.
pub(super) const INVALID_REFERENCE: &str = "InvalidCACertificateRef";
/// The reason for a reference to a kind that cannot contain certificate authorities.
pub(super) const INVALID_KIND: &str = "InvalidKind";

pub(super) fn read(
    key: &ObjectKey,
    spec: &BackendTlsSpec,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<UpstreamTls> {
    let written = &spec.validation;
    if let Some(name) = spec.options.iter().flat_map(|options| options.keys()).next() {
        notes.unsupported(format!("spec.options.{name}"), "Holdfast has no TLS options");
    }
    if let Err(fault) = holdfast_check::host::precise_hostname(&written.hostname) {
        notes.invalid("spec.validation.hostname", fault);
    }
    let names = names(written, notes);
    let references = written.ca_certificate_refs.as_deref().unwrap_or_default();
    let well_known = written.well_known.as_deref().filter(|name| !name.is_empty());
    let field = "spec.validation.wellKnownCACertificates";
    match (references.is_empty(), well_known) {
        (true, Some("System")) | (false, None) => {}
        (true, Some(other)) => notes.invalid(field, format!("{other:?} is not supported: use System")),
        (true, None) => {
            notes.invalid("spec.validation", "one of caCertificateRefs and wellKnownCACertificates must be set");
        }
        (false, Some(_)) => {
            notes.invalid("spec.validation", "only one of caCertificateRefs and wellKnownCACertificates may be set");
        }
    }
    if references.len() > AUTHORITIES_MAX {
        notes.invalid("spec.validation.caCertificateRefs", format!("must have at most {AUTHORITIES_MAX} entries"));
    }
    let is_sound = notes.is_empty();
    let trust = match well_known {
        Some(_) => Trust::System,
        None => bundle(key, references, behalf, reader, notes)?,
    };
    let validation = Some(CertificateValidation { trust, names });
    is_sound.then(|| UpstreamTls { sni: written.hostname.clone(), validation, ..UpstreamTls::default() })
}

fn names(written: &written::Validation, notes: &mut Notes) -> Vec<SubjectAltName> {
    let field = "spec.validation.subjectAltNames";
    let named = written.subject_alt_names.as_deref().unwrap_or_default();
    if named.is_empty() {
        return vec![SubjectAltName::Dns(written.hostname.clone())];
    }
    if named.len() > NAMES_MAX {
        notes.invalid(field, format!("must have at most {NAMES_MAX} entries"));
    }
    let mut names = Vec::new();
    for (index, name) in named.iter().enumerate() {
        let field = at(field, index);
        match (&*name.kind, &name.hostname, &name.uri) {
            ("Hostname", Some(host), None) => match holdfast_check::host::hostname(host) {
                Ok(()) => names.push(SubjectAltName::Dns(host.clone())),
                Err(fault) => notes.invalid(format!("{field}.hostname"), fault),
            },
            ("URI", None, Some(uri)) if uri.contains("://") && uri.bytes().all(|byte| byte.is_ascii_graphic()) => {
                names.push(SubjectAltName::Uri(uri.clone()));
            }
            _ => notes.invalid(field, "must be of type Hostname with a hostname, or of type URI with a uri"),
        }
    }
    names
}

fn bundle(
    key: &ObjectKey,
    references: &[written::Reference],
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<Trust> {
    let mut parts: Vec<(ObjectKey, Arc<[u8]>)> = Vec::new();
    let mut dates = Bundle::default();
    for (index, reference) in references.iter().take(AUTHORITIES_MAX).enumerate() {
        let field = at("spec.validation.caCertificateRefs", index);
        if !reference.group.is_empty() || ![kinds::CONFIG_MAP, kinds::SECRET].contains(&&*reference.kind) {
            let message = format!(
                "caCertificateRefs must reference ConfigMaps or Secrets, not {}/{}",
                reference.group, reference.kind
            );
            notes.missing(field, INVALID_KIND, message);
            continue;
        }
        let named = ObjectKey::new("", &*reference.kind, &*key.namespace, &*reference.name);
        match authorities::of(&named, behalf, reader) {
            Ok((authorities, bundle)) => {
                dates.validities.extend(bundle.validities);
                parts.push((named, authorities));
            }
            Err(why) => notes.lacks(field, INVALID_REFERENCE, &named, why),
        }
    }
    let pem = match parts.as_slice() {
        [] => return None,
        [(_, only)] => only.clone(),
        several => several.iter().map(|(_, part)| &**part).collect::<Vec<_>>().join(&b'\n').into(),
    };
    let mut from: Vec<ObjectKey> = parts.into_iter().map(|(key, _)| key).collect();
    from.dedup();
    authorities::report_dates("spec.validation.caCertificateRefs", &from, &dates, reader, notes);
    Some(Trust::Bundle { from, authorities: pem })
}
