//! Tests of tokens: valid tokens, and each reason for a refusal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, SigningKey};
use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_800_000_000;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Converts a signature from DER to its two numbers, each padded to `length` bytes.
fn raw(der: &[u8], length: usize) -> Vec<u8> {
    let mut rest = &der[if der[1] == 0x81 { 3 } else { 2 }..];
    let mut all = Vec::new();
    for _ in 0..2 {
        let (number, after) = rest[2..].split_at(rest[1] as usize);
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        all.extend(std::iter::repeat_n(0, length - number.len()).chain(number.iter().copied()));
        rest = after;
    }
    all
}

/// An issuer of tokens.
struct Issuer {
    key: KeyPair,
    name: &'static str,
    length: usize,
}

impl Issuer {
    fn p256() -> Self {
        Self { key: KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap(), name: "ES256", length: 32 }
    }

    fn p384() -> Self {
        Self { key: KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap(), name: "ES384", length: 48 }
    }

    fn keys(&self) -> VerificationKeys {
        let (x, y) = self.key.public_key_raw()[1..].split_at(self.length);
        let curve = if self.length == 32 { "P-256" } else { "P-384" };
        let key = json!({ "kty": "EC", "crv": curve, "kid": "one", "use": "sig", "x": encode(x), "y": encode(y) });
        VerificationKeys::parse(json!({ "keys": [key] }).to_string().as_bytes()).unwrap()
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = raw(&self.key.sign(signed.as_bytes()).unwrap(), self.length);
        format!("{signed}.{}", encode(signature))
    }

    fn token(&self, claims: &Value) -> String {
        self.sign(&json!({ "alg": self.name, "kid": "one", "typ": "JWT" }), claims)
    }
}

fn rules() -> Rules {
    Rules { audience: "holdfast".into(), issuer: "https://issuer.example".into() }
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.example", "aud": ["holdfast"], "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 600,
        "sub": "system:serviceaccount:infra:public-holdfast",
        "kubernetes.io": {
            "namespace": "infra", "serviceaccount": { "name": "public-holdfast", "uid": "1" },
            "pod": { "name": "public-1", "uid": "2" },
        },
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

#[test]
fn a_token_of_the_account_that_is_named_after_a_gateway_proves_that_gateway() {
    for issuer in [Issuer::p256(), Issuer::p384()] {
        let expected = Ok(VerifiedIdentity { gateway: "infra/public".into(), until: NOW + 600 });
        for claims in [claims(), with("aud", json!("holdfast")), with("aud", json!(["other", "holdfast"]))] {
            assert_eq!(proof(&issuer.token(&claims), &issuer.keys(), &rules(), NOW), expected);
        }
        let mut bare = claims();
        bare.as_object_mut().unwrap().remove("kubernetes.io");
        assert_eq!(proof(&issuer.token(&bare), &issuer.keys(), &rules(), NOW), expected);
        let without_key_id = issuer.sign(&json!({ "alg": issuer.name }), &claims());
        assert_eq!(proof(&without_key_id, &issuer.keys(), &rules(), NOW), expected);
    }
}

#[test]
fn a_claim_that_is_not_right_is_named() {
    let issuer = Issuer::p256();
    for (claim, value) in [
        ("iss", json!("https://other.example")),
        ("aud", json!("https://kubernetes.default.svc")),
        ("aud", json!([])),
        ("aud", json!("")),
        ("exp", json!(NOW)),
        ("exp", json!(NOW + TOKEN_LIFE_MAX)),
        ("nbf", json!(NOW + CLOCKS_DIFFER + 1)),
        ("sub", json!("system:serviceaccount:infra:default")),
        ("sub", json!("system:serviceaccount:infra")),
        ("sub", json!("public-holdfast")),
    ] {
        let mut claims = with(claim, value.clone());
        claims.as_object_mut().unwrap().remove("kubernetes.io");
        let result = proof(&issuer.token(&claims), &issuer.keys(), &rules(), NOW);
        assert!(
            matches!(result, Err(Unproven::Claim { claim: named, .. }) if named == claim),
            "{claim} {value}: {result:?}"
        );
    }
    let elsewhere = with("kubernetes.io", json!({ "namespace": "b", "serviceaccount": { "name": "public-holdfast" } }));
    let result = proof(&issuer.token(&elsewhere), &issuer.keys(), &rules(), NOW);
    assert!(matches!(result, Err(Unproven::Claim { claim: "kubernetes.io", .. })));
    for gone in ["iss", "aud", "exp", "iat", "sub"] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(gone);
        let result = proof(&issuer.token(&claims), &issuer.keys(), &rules(), NOW);
        assert_eq!(result, Err(Unproven::Unreadable("token")), "{gone}");
    }
    assert!(proof(&issuer.token(&with("exp", json!(-1))), &issuer.keys(), &rules(), NOW).is_err());
}

#[test]
fn what_is_not_signed_by_a_key_that_is_known_proves_nothing() {
    let (issuer, other) = (Issuer::p256(), Issuer::p256());
    let keys = issuer.keys();
    let good = issuer.token(&claims());
    let verify = |token: &str| proof(token, &keys, &rules(), NOW);
    assert!(verify(&good).is_ok());
    assert_eq!(verify(&other.token(&claims())), Err(Unproven::NotSigned));
    let header = |header: Value| verify(&issuer.sign(&header, &claims()));
    assert_eq!(header(json!({ "alg": "ES256", "kid": "two" })), Err(Unproven::NotSigned));
    assert_eq!(header(json!({ "alg": "ES256", "crit": ["exp"] })), Err(Unproven::NotSigned));
    assert_eq!(header(json!({ "alg": "ES384" })), Err(Unproven::NotSigned));
    assert_eq!(header(json!({ "alg": "RS256" })), Err(Unproven::NotSigned));
    for algorithm in ["none", "HS256", "", "es256"] {
        assert_eq!(header(json!({ "alg": algorithm })), Err(Unproven::Algorithm), "{algorithm}");
    }
    // A change of any part of the token invalidates the signature.
    let parts: Vec<&str> = good.split('.').collect();
    let other_claims = encode(with("sub", json!("system:serviceaccount:infra:other-holdfast")).to_string());
    assert_eq!(verify(&format!("{}.{other_claims}.{}", parts[0], parts[2])), Err(Unproven::NotSigned));
    for at in 0..64 {
        let mut signature = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
        signature[at] ^= 1;
        assert_eq!(verify(&format!("{}.{}.{}", parts[0], parts[1], encode(signature))), Err(Unproven::NotSigned));
    }
    for signature in ["", "AA", &encode([0; 64]), &encode([0; 65])] {
        assert_eq!(verify(&format!("{}.{}.{signature}", parts[0], parts[1])), Err(Unproven::NotSigned));
    }
    assert_eq!(proof(&good, &VerificationKeys::default(), &rules(), NOW), Err(Unproven::NotSigned));
}

#[test]
fn malformed_tokens_are_unreadable() {
    let issuer = Issuer::p256();
    let long = format!("{}.a.b", "a".repeat(TOKEN_BYTES_MAX));
    for text in ["", ".", "..", "a.b.c", "a.b.c.d", "\u{e4}.b.c", &long] {
        assert_eq!(proof(text, &issuer.keys(), &rules(), NOW), Err(Unproven::Unreadable("token")), "{text}");
    }
}

/// Test data made with openssl: an RSA key of 2048 bits and a token that it signed.
#[test]
fn rsa_signatures_are_checked_too() {
    let keys = VerificationKeys::parse(include_bytes!("testdata/rsa.jwks.json")).unwrap();
    let token = include_str!("testdata/rsa.jwt").trim();
    assert_eq!(
        proof(token, &keys, &rules(), NOW),
        Ok(VerifiedIdentity { gateway: "infra/public".into(), until: NOW + 600 })
    );
    let other = Issuer::p256().keys();
    assert_eq!(proof(token, &other, &rules(), NOW), Err(Unproven::NotSigned));
    assert!(proof(&format!("{token}A"), &keys, &rules(), NOW).unwrap_err().to_string().contains("token"));
}
