//! BackendTLSPolicy: that back ends are spoken to over TLS, and whom they must prove to be.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#backendtlspolicy>

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;
use crate::apis::kgateway::policy::{self, Policy};

/// Authorities that one policy names; the CRD allows as many.
pub const AUTHORITIES_MAX: usize = 8;
/// Names that one policy asks for; the CRD allows as many.
pub const NAMES_MAX: usize = 5;

/// A BackendTLSPolicy.
pub type BackendTlsPolicy = Policy<BackendTlsSpec>;

/// What a BackendTLSPolicy says, its targets apart.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsSpec {
    /// What back ends must prove.
    pub validation: Validation,
    /// Anything else; none is known.
    pub options: Option<BTreeMap<String, String>>,
}

/// What back ends must prove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// Where authorities come from.
    pub ca_certificate_refs: Option<Vec<Reference>>,
    /// `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known: Option<Arc<str>>,
    /// The name that is asked for, and that the certificate must have where no others are named.
    pub hostname: Arc<str>,
    /// The names of which the certificate must have one.
    pub subject_alt_names: Option<Vec<AltName>>,
}

/// An object of the policy's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Group.
    #[serde(default)]
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// A name in a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// A name of a host.
    pub hostname: Option<Arc<str>>,
    /// A URI.
    pub uri: Option<Arc<str>>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let policy: BackendTlsPolicy = policy::read(&mut document, found);
    Some(Body::BackendTlsPolicy(Arc::new(policy)))
}
