//! Identity of Envoys: the Gateway that an Envoy may read, derived from its credentials only.
//!
//! The credential is a certificate with the URI of the Gateway ([`certificate`]) or a token of the ServiceAccount that
//! is named after the Gateway ([`token`]); [`names`] defines the names. All functions are pure functions of bytes, keys
//! and the time. Ambiguous credentials are refused; no default grants access.
//!
//! This module contains no files, clocks or connections. Errors contain names from a token or a key, and no other
//! content.

pub mod certificate;
pub mod keys;
pub mod names;
mod signature;
pub mod token;

use std::sync::Arc;

/// The result of a successful verification of a certificate or token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedIdentity {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// End of the validity of the credential, in seconds since 1970.
    pub until: u64,
}

/// Reason why a credential is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// The credential cannot be parsed.
    #[error("the {0} cannot be read")]
    Unreadable(&'static str),
    /// The certificate has no URI of a Gateway, or several URIs.
    #[error(
        "the certificate must name one Gateway by a URI such as spiffe://{trust_domain}/gateway/<namespace>/<name>"
    )]
    NotOneGateway {
        /// The required trust domain.
        trust_domain: String,
    },
    /// A claim of the token is invalid.
    #[error("the token's `{claim}` {wrong}")]
    Claim {
        /// Name of the claim.
        claim: &'static str,
        /// Description of the problem.
        wrong: &'static str,
    },
    /// None of the known keys signed the token.
    #[error("the signature of the token matches no known key")]
    NotSigned,
    /// The signature algorithm is not supported.
    #[error("the token is signed with an unsupported algorithm; supported are RS256, RS384, RS512, ES256 and ES384")]
    Algorithm,
}
