//! `spec.tls` of a Gateway. Its parts are decoded separately: a Gateway that requires client certificates, or presents one
//! to backends, in a form that does not decode must not be served without it.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#frontendtlsconfig>

use std::sync::Arc;

use gateway_api::gateways::GatewayTlsBackend;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apis::decode::Found;
use crate::apis::kgateway::listener_policy::ObjectReference;
use crate::apis::misspelt;
use crate::fault::{Fault, at};

/// Number of ports with a validation of their own; the limit of the CRD.
pub const PORTS_MAX: usize = 64;
/// Number of references to certificate authorities of one validation; the limit of the CRD.
pub const AUTHORITIES_MAX: usize = 8;

const BACKEND: &str = "backend";
const FRONTEND: &str = "frontend";
/// The fields of `spec.tls`.
const KNOWN: [&str; 2] = [BACKEND, FRONTEND];

/// `spec.tls` of a Gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayTlsSpec {
    /// `frontend`. The inner value is unset where `frontend` does not decode, which is already reported.
    pub frontend: Option<Option<Arc<FrontendTls>>>,
    /// `backend`: TLS towards backends. The inner value is unset where `backend` does not decode, which is already
    /// reported.
    pub backend: Option<Option<GatewayTlsBackend>>,
}

impl GatewayTlsSpec {
    /// Returns settings of which nothing can be read, which is already reported.
    fn unreadable() -> Self {
        Self { frontend: Some(None), backend: Some(None) }
    }

    /// Returns the settings where each missing part is one that cannot be read, which is already reported.
    pub(super) fn or_unreadable(self) -> Self {
        Self { frontend: self.frontend.or(Some(None)), backend: self.backend.or(Some(None)) }
    }
}

/// Names of fields in `spec.tls`, and parts of names that a field with such content may have.
const NAMES: [&str; 4] = ["tls", "cert", FRONTEND, BACKEND];
/// Fields in the content of `spec.tls`.
const CONTENT: [&str; 3] = ["clientcertificateref", "cacertificaterefs", "validation"];

/// Returns whether an unknown field of the `spec` of a Gateway may be meant as `spec.tls`, or as a part of it. A
/// misplaced part would otherwise end the validation of clients, or connect to backends without a certificate.
pub(super) fn is_of_tls(name: &str, value: &Value) -> bool {
    let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.to_ascii_lowercase().contains(part));
    let fields = value.as_object().into_iter().flatten();
    has(name, &NAMES) || fields.into_iter().any(|(name, value)| has(name, &CONTENT) || is_of_tls(name, value))
}

/// TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// Settings for every port without settings of its own.
    pub default: FrontendConfig,
    /// Settings for single ports.
    pub per_port: Option<Vec<FrontendPort>>,
}

/// TLS settings towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendConfig {
    /// Validation of client certificates; clients need none where unset.
    pub validation: Option<FrontendValidation>,
}

/// TLS settings of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendPort {
    /// The port of the listeners.
    pub port: i32,
    /// The settings.
    pub tls: FrontendConfig,
}

/// Validation of client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendValidation {
    /// References to objects with certificate authorities.
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// Whether other clients are served, too; `AllowValidOnly` where unset.
    pub mode: Option<ValidationMode>,
}

/// Which clients are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ValidationMode {
    /// Clients with a valid certificate only.
    #[default]
    AllowValidOnly,
    /// Also clients without a certificate, and those with one that is not valid.
    AllowInsecureFallback,
}

impl FrontendTls {
    /// Returns the validation for a port as written in listeners, with its field; `None` where clients need no
    /// certificate. Where several entries name the port, the first one applies: see [`Self::repeated`].
    pub fn at(&self, port: i32) -> Option<(String, &FrontendValidation)> {
        let own = self.per_port.iter().flatten().enumerate().find(|(_, entry)| entry.port == port);
        let (field, config) = match own {
            Some((index, entry)) => (format!("{}.tls", at("spec.tls.frontend.perPort", index)), &entry.tls),
            None => ("spec.tls.frontend.default".to_owned(), &self.default),
        };
        Some((format!("{field}.validation"), config.validation.as_ref()?))
    }

    /// Returns the index of the second entry for a port; `None` where the port has at most one.
    pub fn repeated(&self, port: i32) -> Option<usize> {
        let own = self.per_port.iter().flatten().enumerate().filter(|(_, entry)| entry.port == port);
        own.map(|(index, _)| index).nth(1)
    }
}

/// Decodes `spec.tls`. A misspelt field counts as a validation that does not decode: it may have been meant as one.
pub(super) fn tls(written: Value, found: &mut Found) -> GatewayTlsSpec {
    let Value::Object(mut fields) = written else {
        found.invalid("spec.tls", "must be an object");
        return GatewayTlsSpec::unreadable();
    };
    let reported = found.faults.len();
    let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
    let (frontend, backend) = (take(FRONTEND), take(BACKEND));
    let mut frontend = frontend.map(|value| read(&value, found).map(Arc::new));
    let mut backend = backend.map(|value| read_backend(&value, found));
    for name in fields.keys() {
        let meant = misspelt::similar(name, KNOWN.into_iter());
        let is_wrong = found.unknown(format!("spec.tls.{name}"), meant);
        // A field with another name may be meant as either.
        if meant == Some(BACKEND) || (is_wrong && meant.is_none()) {
            backend = Some(None);
        }
        if meant == Some(FRONTEND) || (is_wrong && meant.is_none()) {
            frontend = Some(None);
        }
    }
    let is_reported = found.faults.iter().skip(reported).any(Fault::is_error);
    if frontend == Some(None) && !is_reported {
        let message = "has a field that is not known: it may be meant to validate client certificates";
        found.invalid("spec.tls", message);
    }
    if backend == Some(None) && !found.faults.iter().skip(reported).any(Fault::is_error) {
        found.invalid(
            "spec.tls",
            "has a field that is not known: it may be meant as the client certificate for backends",
        );
    }
    GatewayTlsSpec { frontend, backend }
}

fn read_backend(written: &Value, found: &mut Found) -> Option<GatewayTlsBackend> {
    let reported = found.faults.len();
    let read = found.typed("spec.tls.backend", written)?;
    (found.faults.len() == reported).then_some(read)
}

fn read(written: &Value, found: &mut Found) -> Option<FrontendTls> {
    let reported = found.faults.len();
    let read: FrontendTls = found.typed("spec.tls.frontend", written)?;
    let ports = read.per_port.as_ref().map_or(0, Vec::len);
    if ports > PORTS_MAX {
        found.invalid("spec.tls.frontend.perPort", format!("must have at most {PORTS_MAX} entries"));
    }
    (found.faults.len() == reported).then_some(read)
}
