//! Verification of the certificates of backends.

use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::route::UpstreamValidation;
use holdfast_api::fault::Class;
use holdfast_envoy::features::upstream::{CertificateValidation, SubjectAltName, Trust};
use holdfast_graph::{ObjectKey, Role};

use super::tls;
use crate::outcome::finding::Finding;
use crate::reader::Reader;

/// Text that identifies a private key.
const PRIVATE: &[u8] = b"PRIVATE KEY";
/// Maximum number of names in one certificate.
const NAMES_MAX: usize = 8;

/// Reason of an invalid validation of a backend's certificate.
pub(super) const REASON: &str = "TLSUpstreamValidation";

/// Reason why the certificate of a backend cannot be validated.
#[derive(Debug)]
pub(super) struct NoValidation {
    pub(super) reason: &'static str,
    pub(super) class: Class,
    /// A sentence for users.
    pub(super) message: String,
    /// The object at fault, if it is not the one that requires the validation.
    pub(super) cause: Option<Box<ObjectKey>>,
}

/// The verification of a backend's certificate.
#[derive(Debug, Default)]
pub(super) struct UpstreamVerification {
    /// The verification; unset if none is required.
    pub(super) required: Option<CertificateValidation>,
    /// Why no backend passes it at this time.
    pub(super) warning: Option<Warning>,
}

/// A warning about a verification that is enforced, or has no effect.
#[derive(Debug)]
pub(super) struct Warning {
    pub(super) reason: &'static str,
    /// A sentence for users.
    pub(super) message: String,
    /// The object at fault, if it is not the one that requires the verification.
    pub(super) cause: Option<Box<ObjectKey>>,
}

impl Warning {
    /// Returns the finding about the field of an object.
    pub(super) fn found(self, object: &ObjectKey, field: impl Into<String>, kind: &'static str) -> Finding {
        let Self { reason, message, cause } = self;
        Finding::warning(object, field, kind, reason, message).caused_by(cause.map(|cause| *cause))
    }
}

/// Reads the verification of a backend's certificate; the error has the reason, its class and a sentence.
pub(super) fn read(
    proxy: &ObjectKey,
    section: &str,
    written: Option<&UpstreamValidation>,
    reader: &mut Reader<'_>,
) -> Result<UpstreamVerification, NoValidation> {
    let Some(written) = written else { return Ok(UpstreamVerification::default()) };
    let invalid = |message: String| NoValidation { reason: REASON, class: Class::Invalid, message, cause: None };
    let mut names: Vec<Arc<str>> = written.subject_names.clone().unwrap_or_default();
    if names.is_empty() {
        names.push(written.subject_name.clone());
    } else if names.first() != Some(&written.subject_name) {
        return Err(invalid("subjectName must be equal to the first of subjectNames".into()));
    }
    if names.len() > NAMES_MAX || names.iter().any(|name| name.is_empty()) {
        return Err(invalid(format!("there must be a subjectName, and at most {NAMES_MAX} of them, none empty")));
    }
    if written.ca_secret.is_empty() {
        return Err(invalid("missing required CA Secret".into()));
    }
    let secret = tls::secret(&proxy.namespace, &written.ca_secret);
    reader.edge(proxy, section, &secret, Role::Requires);
    if !tls::delegated(proxy, &secret, reader) {
        let message = format!(
            "service.UpstreamValidation.CACertificate Secret {:?} is not configured for certificate delegation",
            secret.namespaced_name().as_str()
        );
        let (reason, class) = ("CACertificateNotDelegated", Class::Referential);
        return Err(NoValidation { reason, class, message, cause: None });
    }
    let name = secret.namespaced_name();
    let Some(object) = reader.object(&secret) else {
        let message = format!("invalid CA Secret {name:?}: Secret {}", reader.unfound(&secret));
        let cause = Some(Box::new(secret));
        return Err(NoValidation { reason: REASON, class: Class::Referential, message, cause });
    };
    let Body::Secret(data) = &object.body else { return Err(invalid(format!("{secret} is no Secret"))) };
    let Some(bundle) = data.data.get("ca.crt") else {
        return Err(invalid(format!("invalid CA Secret {name:?}: it has no ca.crt")));
    };
    // The bundle becomes part of the cluster, which diagnostics show.
    if bundle.windows(PRIVATE.len()).any(|window| window == PRIVATE) {
        return Err(invalid(format!("invalid CA Secret {name:?}: ca.crt holds a private key")));
    }
    let dates = holdfast_check::certificate::check_ca_bundle(bundle)
        .map_err(|fault| invalid(format!("invalid CA Secret {name:?}: {fault}")))?;
    let warning = reader.bundle_fault(&dates).map(|fault| Warning {
        reason: fault.reason(),
        message: format!(
            "Secret {name}: {fault}: Envoy cannot verify the certificate of the backend, and requests to it fail; add a \
             certificate that is valid now"
        ),
        cause: Some(Box::new(secret.clone())),
    });
    let trust = Trust::Bundle { from: vec![secret], authorities: bundle.as_ref().into() };
    let names = names.into_iter().map(SubjectAltName::Dns).collect();
    Ok(UpstreamVerification { required: Some(CertificateValidation { trust, names }), warning })
}
