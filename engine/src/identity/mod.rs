//! Which Gateway an Envoy may read, told from what it proves and from nothing else.
//!
//! An Envoy proves it by a certificate with the Gateway's URI ([`certificate`]) or by a token of the ServiceAccount that
//! is named after the Gateway ([`token`]); the names are in [`names`]. Everything here is a pure function of bytes, keys
//! and the time. What is unclear is a refusal: nothing here has a default that lets somebody in.
//!
//! Not in this room: files, clocks, connections. And nothing in an error comes from a token or a key but names.

pub mod certificate;
pub mod keys;
pub mod names;
mod signature;
pub mod token;

use std::sync::Arc;

/// What a certificate or a token proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// `namespace/name` of the Gateway.
    pub gateway: Arc<str>,
    /// The end of its validity, in seconds since 1970.
    pub until: u64,
}

/// Why something proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// It cannot be read.
    #[error("the {0} cannot be read")]
    Unreadable(&'static str),
    /// The certificate has no URI of a Gateway, or several.
    #[error(
        "the certificate must name one Gateway by a URI such as spiffe://{trust_domain}/gateway/<namespace>/<name>"
    )]
    NotOneGateway {
        /// The trust domain that is asked for.
        trust_domain: String,
    },
    /// A claim of the token is not as it must be.
    #[error("the token's `{claim}` {wrong}")]
    Claim {
        /// The claim.
        claim: &'static str,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// No key of those that are known signed it.
    #[error("the token is not signed by a key that is known")]
    NotSigned,
    /// Its algorithm is not taken.
    #[error("the token is signed by an algorithm that is not taken; RS256, RS384, RS512, ES256 and ES384 are")]
    Algorithm,
}
