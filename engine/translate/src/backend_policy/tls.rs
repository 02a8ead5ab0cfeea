//! TLS settings of BackendConfigPolicy. The certificate of a backend is always verified, unless the policy explicitly
//! disables the verification.

use std::sync::Arc;

use holdfast_api::apis::kgateway::backend_config as written;
use holdfast_api::apis::scheme;
use holdfast_api::fault::at;
use holdfast_envoy::features::upstream::{
    CertificateValidation, SubjectAltName, Trust, UpstreamTls, UpstreamTlsParameters,
};
use holdfast_graph::ObjectKey;

use super::notes::Notes;
use super::{Behalf, authorities};
use crate::reader::Reader;

/// Entries of one list of names or algorithms.
const LIST_MAX: usize = 64;
/// Bytes of an ALPN protocol name.
const ALPN_BYTES_MAX: usize = 255;
/// The field path.
const FIELD: &str = "spec.tls";
/// Why files are not supported.
const FILES: &str =
    "the author of a policy would choose among files of a proxy that serves other teams as well; use secretRef";

pub(super) fn read(
    key: &ObjectKey,
    written: &written::BackendConfigTls,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> Option<UpstreamTls> {
    let names = names(written, notes);
    let skips = written.insecure_skip_verify.unwrap_or(false);
    let well_known = written.well_known.as_deref();
    if written.files.is_some() {
        notes.unsupported(format!("{FIELD}.files"), FILES);
    }
    let (trust, client) = match (&written.secret_ref, &written.files, well_known, skips) {
        (Some(secret), None, None, false) => {
            let (trust, client) = of_secret(key, secret, written.simple.unwrap_or(false), behalf, reader, notes);
            (Some(trust?), client)
        }
        (None, None, Some("System"), false) => (Some(Trust::System), None),
        (None, None, None, true) => (None, None),
        (None, None, Some(other), false) => {
            notes
                .invalid(format!("{FIELD}.wellKnownCACertificates"), format!("{other:?} is not supported: use System"));
            return None;
        }
        (None, Some(_), None, false) => return None,
        _ => {
            let message = "exactly one of secretRef, insecureSkipVerify and wellKnownCACertificates must be set";
            notes.invalid(FIELD, message);
            return None;
        }
    };
    if trust.is_none() && !names.is_empty() {
        let message = "must not be set together with insecureSkipVerify, which disables the verification";
        notes.invalid(format!("{FIELD}.verifySubjectAltNames"), message);
    }
    if let Some(sni) = &written.sni
        && let Err(fault) = holdfast_check::host::precise_hostname(sni)
    {
        notes.invalid(format!("{FIELD}.sni"), fault);
    }
    Some(UpstreamTls {
        sni: written.sni.clone().unwrap_or_else(|| "".into()),
        h2: false,
        validation: trust.map(|trust| CertificateValidation { trust, names }),
        alpn: alpn(written.alpn_protocols.as_deref(), notes),
        client,
        parameters: written.parameters.as_ref().map(|written| parameters(written, notes)),
        renegotiation: written.allow_renegotiation.unwrap_or(false),
    })
}

/// Returns the certificate authorities and the client certificate of a Secret.
fn of_secret(
    key: &ObjectKey,
    written: &written::Named,
    is_simple: bool,
    behalf: Behalf<'_>,
    reader: &mut Reader<'_>,
    notes: &mut Notes,
) -> (Option<Trust>, Option<ObjectKey>) {
    let field = format!("{FIELD}.secretRef");
    let secret = scheme::secret_key(&key.namespace, &written.name);
    let data = match authorities::secret(&secret, behalf, reader) {
        Ok(data) => data,
        Err(why) => {
            notes.lacks(field, "SecretNotFound", &secret, why);
            return (None, None);
        }
    };
    let trust = match authorities::of(&secret, behalf, reader) {
        Ok((authorities, dates)) => {
            authorities::report_dates(&field, std::slice::from_ref(&secret), &dates, reader, notes);
            Some(Trust::Bundle { from: vec![secret.clone()], authorities })
        }
        Err(why) => {
            notes.lacks(
                &field,
                "InvalidCACertificateRef",
                &secret,
                format!("{why}; the certificate of the backend cannot be verified without it"),
            );
            None
        }
    };
    if is_simple {
        return (trust, None);
    }
    let client = match (data.data.get("tls.crt"), data.data.get("tls.key")) {
        (None, None) => None,
        (chain, own) => {
            let part = |part: Option<&bytes::Bytes>| part.cloned().unwrap_or_default();
            match holdfast_check::certificate::check_pair(&part(chain), &part(own)) {
                Ok(_) => Some(secret),
                Err(fault) => {
                    notes.invalid(field, format!("Secret {}: {fault}", secret.namespaced_name()));
                    None
                }
            }
        }
    };
    (trust, client)
}

fn names(written: &written::BackendConfigTls, notes: &mut Notes) -> Vec<SubjectAltName> {
    let field = format!("{FIELD}.verifySubjectAltNames");
    let names = list(&field, written.verify_subject_alt_names.as_deref(), notes);
    names
        .into_iter()
        .map(|name| match name.parse::<std::net::IpAddr>() {
            Ok(address) => SubjectAltName::Address(address.to_string().into()),
            Err(_) if name.contains("://") => SubjectAltName::Uri(name),
            Err(_) => SubjectAltName::Dns(name),
        })
        .collect()
}

/// Reads a list of texts, each non-empty and without spaces.
fn list(field: &str, written: Option<&[Arc<str>]>, notes: &mut Notes) -> Vec<Arc<str>> {
    let written = written.unwrap_or_default();
    if written.len() > LIST_MAX {
        notes.invalid(field, format!("must have at most {LIST_MAX} entries"));
    }
    let is_text = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    for (index, _) in written.iter().enumerate().filter(|(_, text)| !is_text(text)) {
        notes.invalid(at(field, index), "must be text without spaces");
    }
    written.iter().take(LIST_MAX).cloned().collect()
}

fn alpn(written: Option<&[Arc<str>]>, notes: &mut Notes) -> Vec<Arc<str>> {
    let field = format!("{FIELD}.alpnProtocols");
    let names = list(&field, written, notes);
    for (index, _) in names.iter().enumerate().filter(|(_, name)| name.len() > ALPN_BYTES_MAX) {
        notes.invalid(at(&field, index), format!("is longer than {ALPN_BYTES_MAX} bytes"));
    }
    names
}

fn parameters(written: &written::Parameters, notes: &mut Notes) -> UpstreamTlsParameters {
    let field = format!("{FIELD}.parameters");
    let mut version = |below: &str, text: Option<&str>| match text? {
        "AUTO" => None,
        "1.0" => Some(10),
        "1.1" => Some(11),
        "1.2" => Some(12),
        "1.3" => Some(13),
        other => {
            let message = format!("{other:?} is none of AUTO, 1.0, 1.1, 1.2 and 1.3");
            notes.invalid(format!("{field}.{below}"), message);
            None
        }
    };
    let least = version("minVersion", written.min_version.as_deref());
    let most = version("maxVersion", written.max_version.as_deref());
    if most.is_some_and(|most| most < least.unwrap_or(12)) {
        notes.invalid(format!("{field}.maxVersion"), "must not be below minVersion, which is 1.2 where it is unset");
    }
    UpstreamTlsParameters {
        versions: (least, most),
        ciphers: list(&format!("{field}.cipherSuites"), written.cipher_suites.as_deref(), notes),
        curves: list(&format!("{field}.ecdhCurves"), written.ecdh_curves.as_deref(), notes),
        signatures: list(&format!("{field}.signatureAlgorithms"), written.signature_algorithms.as_deref(), notes),
    }
}
