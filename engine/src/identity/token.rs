//! ServiceAccount tokens (JSON Web Tokens, RFC 7519), verified without a request to the API server.
//!
//! Only tokens that were issued for this server are accepted: the audience matches, and the token expires within the
//! lifetime of projected Pod tokens. Tokens for the API server and legacy tokens without expiry are refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::keys::VerificationKeys;
use super::signature::Algorithm;
use super::{Unproven, VerifiedIdentity, names};

/// Maximum size of a token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Maximum lifetime of a token, in seconds.
pub const TOKEN_LIFE_MAX: u64 = 24 * 3600;
/// Tolerated clock skew for tokens that are not valid yet, in seconds.
const CLOCKS_DIFFER: u64 = 60;

/// Required claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Required audience (`aud`).
    pub audience: String,
    /// Required issuer (`iss`).
    pub issuer: String,
}

#[derive(Deserialize)]
struct JwtHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that a verifier must support (RFC 7515, section 4.1.11). None is supported.
    crit: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct TokenClaims {
    iss: String,
    aud: Audiences,
    exp: u64,
    iat: u64,
    nbf: Option<u64>,
    sub: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Option<Kubernetes>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct Kubernetes {
    namespace: String,
    serviceaccount: ServiceAccount,
}

#[derive(Deserialize)]
struct ServiceAccount {
    name: String,
}

/// Returns the Gateway of the ServiceAccount that a token was issued for, at a time in seconds since 1970.
///
/// # Errors If no key signed the token, or if its claims do not match the rules.
pub fn proof(token: &str, keys: &VerificationKeys, rules: &Rules, now: u64) -> Result<VerifiedIdentity, Unproven> {
    let unreadable = || Unproven::Unreadable("token");
    if token.len() > TOKEN_BYTES_MAX {
        return Err(unreadable());
    }
    let (signed, signature) = token.rsplit_once('.').ok_or_else(unreadable)?;
    let (header, claims) = signed.split_once('.').ok_or_else(unreadable)?;
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| unreadable());
    let header: JwtHeader = serde_json::from_slice(&decode(header)?).map_err(|_| unreadable())?;
    let algorithm = Algorithm::named(&header.alg).ok_or(Unproven::Algorithm)?;
    let signature = decode(signature)?;
    if header.crit.is_some()
        || !keys.signed(header.kid.as_deref(), &header.alg, algorithm, signed.as_bytes(), &signature)
    {
        return Err(Unproven::NotSigned);
    }
    // The claims are read only after the verification of the signature.
    let claims: TokenClaims = serde_json::from_slice(&decode(claims)?).map_err(|_| unreadable())?;
    claims.check(rules, now)?;
    Ok(VerifiedIdentity { gateway: claims.gateway()?, until: claims.exp })
}

impl TokenClaims {
    fn check(&self, rules: &Rules, now: u64) -> Result<(), Unproven> {
        let wrong = |claim, wrong| Err(Unproven::Claim { claim, wrong });
        let is_for_us = match &self.aud {
            Audiences::One(audience) => *audience == rules.audience,
            Audiences::Several(audiences) => audiences.contains(&rules.audience),
        };
        let not_before = self.nbf.unwrap_or(self.iat).max(self.iat);
        match self {
            _ if self.iss != rules.issuer => wrong("iss", "is not the expected issuer"),
            _ if !is_for_us => wrong("aud", "is not the audience of this server"),
            _ if self.exp <= now => wrong("exp", "is in the past"),
            _ if not_before > now.saturating_add(CLOCKS_DIFFER) => wrong("nbf", "is in the future"),
            _ if self.exp.saturating_sub(self.iat) > TOKEN_LIFE_MAX => {
                wrong("exp", "is more than a day after its `iat`")
            }
            _ => Ok(()),
        }
    }

    fn gateway(&self) -> Result<std::sync::Arc<str>, Unproven> {
        let none = || Unproven::Claim { claim: "sub", wrong: "is not the ServiceAccount of a Gateway" };
        let account = self.sub.strip_prefix("system:serviceaccount:").ok_or_else(none)?;
        let (namespace, name) = account.split_once(':').ok_or_else(none)?;
        let contradicts = |bound: &Kubernetes| bound.namespace != namespace || bound.serviceaccount.name != name;
        if self.kubernetes.as_ref().is_some_and(contradicts) {
            return Err(Unproven::Claim { claim: "kubernetes.io", wrong: "does not match the claim `sub`" });
        }
        names::gateway_of_service_account(namespace, name).ok_or_else(none)
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
