//! A JWT provider: signs tokens with ES256 and serves its JSON Web Key Set.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use serde_json::{Value, json};

use super::RunningServer;

/// A JWT provider.
pub struct TokenMaker {
    issuer: String,
    key: KeyPair,
    running: RunningServer,
    key_requests: Arc<AtomicU64>,
}

impl TokenMaker {
    /// Starts a provider with this issuer.
    pub async fn start(issuer: &str) -> Result<Self> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let keys = Bytes::from(keys(&key)?);
        let key_requests = Arc::new(AtomicU64::new(0));
        let count = key_requests.clone();
        let running = super::answering(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Response::new(Full::new(keys.clone()))
        })
        .await?;
        Ok(Self { issuer: issuer.to_owned(), key, running, key_requests })
    }

    /// The listen address, where the keys are served.
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// The URI of the keys.
    pub fn uri(&self) -> String {
        format!("http://{}/keys", self.running.address)
    }

    /// The keys as a JSON Web Key Set.
    pub fn keys(&self) -> Result<String> {
        keys(&self.key)
    }

    /// The public key in PEM.
    pub fn public_key(&self) -> String {
        self.key.public_key_pem()
    }

    /// The number of requests for the keys.
    pub fn key_requests(&self) -> u64 {
        self.key_requests.load(Ordering::Relaxed)
    }

    /// A token for an audience, valid until the year 2100.
    pub fn token(&self, audience: &str) -> Result<String> {
        let head = json!({"alg": "ES256", "typ": "JWT", "kid": "one"});
        let claims = json!({"iss": self.issuer, "aud": audience, "sub": "alice", "exp": 4_102_444_800_u64});
        signed(&self.key, &head, &claims)
    }

    /// The value of an `authorization` header with such a token.
    pub fn bearer(&self, audience: &str) -> Result<String> {
        Ok(format!("Bearer {}", self.token(audience)?))
    }
}

/// Signs a token with this header and these claims (ES256).
pub fn signed(key: &KeyPair, head: &Value, claims: &Value) -> Result<String> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(head), part(claims));
    let signature = key.sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(fixed(&signature)?)))
}

fn keys(key: &KeyPair) -> Result<String> {
    // 0x04, x, y: an uncompressed point.
    let point = key.der_bytes();
    let (x, y) = point.get(1..).and_then(|both| both.split_at_checked(32)).context("no point of P-256")?;
    let key = json!({
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "one",
        "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
    });
    Ok(json!({ "keys": [key] }).to_string())
}

/// Converts a DER signature (two integers) to the form of JSON Web Signatures: 32 bytes for each integer.
fn fixed(der: &[u8]) -> Result<Vec<u8>> {
    let mut rest = der.get(2..).context("too short")?;
    let mut both = Vec::new();
    for _ in 0..2 {
        let (head, tail) = rest.split_at_checked(2).context("too short")?;
        ensure!(head.first() == Some(&2), "no number");
        let length = head.get(1).copied().unwrap_or_default().into();
        let (number, tail) = tail.split_at_checked(length).context("too short")?;
        let number: Vec<u8> = number.iter().copied().skip_while(|byte| *byte == 0).collect();
        both.extend(std::iter::repeat_n(0, 32 - number.len().min(32)));
        both.extend(number);
        rest = tail;
    }
    Ok(both)
}
