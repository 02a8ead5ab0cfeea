//! BackendTLSPolicy: TLS to backends, and the identity that backends must prove.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#backendtlspolicy>

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;
use crate::apis::kgateway::policy::{self, Policy};

/// Number of certificate authority references of one policy; the limit of the CRD.
pub const AUTHORITIES_MAX: usize = 8;
/// Number of subject alternative names of one policy; the limit of the CRD.
pub const NAMES_MAX: usize = 5;

/// A BackendTLSPolicy.
pub type BackendTlsPolicy = Policy<BackendTlsSpec>;

/// The spec of a BackendTLSPolicy without its targets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsSpec {
    /// The identity that backends must prove.
    pub validation: Validation,
    /// Implementation-specific options; Holdfast knows none.
    pub options: Option<BTreeMap<String, String>>,
}

/// The identity that backends must prove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// References to certificate authorities.
    pub ca_certificate_refs: Option<Vec<Reference>>,
    /// `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known: Option<Arc<str>>,
    /// Server name (SNI), and the name that the certificate must have where no other names are given.
    pub hostname: Arc<str>,
    /// Accepted names; the certificate must have at least one of them.
    pub subject_alt_names: Option<Vec<AltName>>,
}

/// A reference to an object in the namespace of the policy.
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

/// A subject alternative name of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// A host name.
    pub hostname: Option<Arc<str>>,
    /// A URI.
    pub uri: Option<Arc<str>>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let policy: BackendTlsPolicy = policy::read(&mut document, found);
    Some(Body::BackendTlsPolicy(Arc::new(policy)))
}
