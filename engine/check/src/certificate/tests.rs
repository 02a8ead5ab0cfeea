//! Tests of the verdicts about certificates and keys against those of Envoy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use rcgen::{
    CertificateParams, DnType, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ED25519,
};

use super::*;

/// Returns the key as PEM. The generator writes Ed25519 keys in the second version of the format (RFC 5958), which
/// Envoy refuses, so they are rewritten.
fn pem_of(key: &KeyPair) -> String {
    if key.algorithm() != &PKCS_ED25519 {
        return key.serialize_pem();
    }
    let der = key.serialize_der();
    let mut fields = der::Reader::new(&der).enter(der::SEQUENCE).unwrap();
    assert_eq!(fields.next(der::INTEGER), Some(&[1][..]));
    let algorithm = fields.next(der::SEQUENCE).unwrap();
    let secret = fields.next(der::OCTET_STRING).unwrap();
    let parts = [
        der::element(der::INTEGER, &[0]),
        der::element(der::SEQUENCE, algorithm),
        der::element(der::OCTET_STRING, secret),
    ];
    let content = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        der::element(der::SEQUENCE, &parts.concat()),
    );
    format!("-----BEGIN PRIVATE KEY-----\n{content}\n-----END PRIVATE KEY-----\n")
}

fn self_signed(key: &KeyPair) -> String {
    let names = vec!["Shop.example.com".to_owned(), "*.example.com".to_owned(), "10.1.2.3".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    params.self_signed(key).unwrap().pem()
}

fn check(certificate: &str, key: &str) -> Result<Pair, CertificateFault> {
    check_pair(certificate.as_bytes(), key.as_bytes())
}

#[test]
fn pairs_of_every_kind_are_accepted_and_described() {
    let kinds = [
        (&PKCS_ECDSA_P256_SHA256, KeyKind::EcdsaP256),
        (&PKCS_ECDSA_P384_SHA384, KeyKind::EcdsaP384),
        (&PKCS_ED25519, KeyKind::Ed25519),
    ];
    for (algorithm, kind) in kinds {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pair = check(&self_signed(&key), &pem_of(&key)).unwrap();
        assert_eq!(
            pair,
            Pair {
                validity: Validity::new(ChainPosition::SERVER, 1_577_836_800, 1_609_459_200),
                names: vec!["shop.example.com".to_owned(), "*.example.com".to_owned(), "10.1.2.3".to_owned()],
                key: kind,
                chain: 1,
            }
        );
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let (one, other) = (KeyPair::generate_for(algorithm).unwrap(), KeyPair::generate_for(algorithm).unwrap());
        assert_eq!(check(&self_signed(&one), &pem_of(&other)), Err(CertificateFault::Mismatch));
    }
    let (p256, p384) = (KeyPair::generate().unwrap(), KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap());
    assert_eq!(check(&self_signed(&p256), &p384.serialize_pem()), Err(CertificateFault::Mismatch));
}

#[test]
fn the_first_certificate_of_a_chain_counts() {
    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let chain = self_signed(&one) + &self_signed(&other);
    assert_eq!(check(&chain, &pem_of(&one)).unwrap().chain, 2);
    assert_eq!(check(&chain, &pem_of(&other)), Err(CertificateFault::Mismatch));
}

/// A certificate of the name, valid in these years, with its issuer; unset: self-signed.
fn of_chain(name: &str, years: (i32, i32), issuer: Option<&str>) -> (String, String) {
    let params = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        params
    };
    let key = KeyPair::generate().unwrap();
    let certificate = match issuer {
        Some(issuer) => params(name).signed_by(&key, &Issuer::new(params(issuer), KeyPair::generate().unwrap())),
        None => params(name).self_signed(&key),
    };
    (certificate.unwrap().pem(), pem_of(&key))
}

#[test]
fn the_issuers_of_a_certificate_limit_its_validity() {
    let year = |year: i32| rcgen::date_time_ymd(year, 1, 1).unix_timestamp();
    let (server, key) = of_chain("shop", (2020, 2030), Some("one"));
    let one = |from, to| of_chain("one", (from, to), Some("two")).0;
    let two = |from, to| of_chain("two", (from, to), Some("root")).0;
    let root = of_chain("root", (2000, 2001), None).0;
    // The other certificates, the validity in years, and the certificates that begin and end it.
    let cases = [
        (vec![], (2020, 1), (2030, 1)),
        (vec![one(2019, 2025)], (2020, 1), (2025, 2)),
        (vec![one(2019, 2040), two(2021, 2022)], (2021, 3), (2022, 3)),
        (vec![two(2021, 2022), one(2022, 2023)], (2022, 3), (2022, 2)),
        (vec![one(2010, 2011), two(2022, 2023)], (2022, 3), (2011, 2)),
        // Of two certificates of an issuer, clients use the valid one.
        (vec![one(2010, 2011), one(2019, 2028)], (2020, 1), (2028, 3)),
        // Clients use their own copy of an authority, and no certificate beside the path.
        (vec![one(2019, 2040), two(2019, 2040), root], (2020, 1), (2030, 1)),
        (vec![two(2010, 2011)], (2020, 1), (2030, 1)),
        (vec![of_chain("one", (2010, 2011), None).0, one(2010, 2011)], (2020, 1), (2030, 1)),
        // Two that name each other.
        (vec![one(2019, 2040), of_chain("two", (2019, 2024), Some("one")).0], (2020, 1), (2024, 3)),
    ];
    for (others, begins, ends) in cases {
        let validity = check(&(server.clone() + &others.concat()), &key).unwrap().validity;
        let expected = Validity {
            not_before: year(begins.0),
            not_after: year(ends.0),
            begins_with: ChainPosition(begins.1),
            ends_with: ChainPosition(ends.1),
        };
        assert_eq!(validity, expected, "{} others", others.len());
    }
}

#[test]
fn the_certificate_of_a_chain_that_has_expired_is_named() {
    let (server, key) = of_chain("shop", (2020, 2030), Some("one"));
    let chain = server + &of_chain("one", (2019, 2021), Some("root")).0;
    let validity = check(&chain, &key).unwrap().validity;
    assert_eq!(
        validity.fault(rcgen::date_time_ymd(2022, 1, 1).unix_timestamp()).unwrap().to_string(),
        "certificate 2 of the chain in tls.crt expired at 2021-01-01T00:00:00Z: clients refuse it; replace it with a \
         valid one of the same issuer"
    );
    assert_eq!(
        validity.fault(validity.not_after).unwrap().to_string(),
        "certificate 2 of the chain in tls.crt expires at 2021-01-01T00:00:00Z; replace it with a valid one of the \
         same issuer before then"
    );
}

#[test]
fn a_broken_certificate_later_in_the_chain_is_named() {
    let key = KeyPair::generate().unwrap();
    let chain = self_signed(&key) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(
        check(&chain, &pem_of(&key)).unwrap_err().to_string(),
        "certificate 2 of the chain cannot be read: it is no X.509 certificate"
    );
}

#[test]
fn key_usage_must_allow_signatures() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key).unwrap().pem();
    assert_eq!(check(&certificate, &pem_of(&key)), Err(CertificateFault::KeyUsage));
}

#[test]
fn absent_parts_are_named() {
    let key = KeyPair::generate().unwrap();
    let certificate = self_signed(&key);
    assert_eq!(check("", &pem_of(&key)), Err(CertificateFault::NoCertificate { what: "certificate" }));
    assert_eq!(check(&certificate, ""), Err(CertificateFault::NoKey));
    assert_eq!(check(&certificate, &certificate), Err(CertificateFault::NoKey));
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_eq!(check(&certificate, encrypted), Err(CertificateFault::Encrypted));
    let encrypted = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    assert_eq!(check(&certificate, encrypted), Err(CertificateFault::Encrypted));
    let damaged = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert_eq!(check(&certificate, damaged), Err(CertificateFault::Key));
}

#[test]
fn sizes_are_limited() {
    let key = KeyPair::generate().unwrap();
    let certificate = self_signed(&key);
    let long = certificate.repeat(CHAIN_CERTIFICATES_MAX + 1);
    assert!(matches!(check(&long, &pem_of(&key)), Err(CertificateFault::LongChain { .. })));
    assert!(matches!(check(&" ".repeat(CHAIN_BYTES_MAX + 1), ""), Err(CertificateFault::Large { .. })));
    assert!(matches!(check(&certificate, &" ".repeat(KEY_BYTES_MAX + 1)), Err(CertificateFault::Large { .. })));
}

#[test]
fn bundles_of_authorities() {
    let key = KeyPair::generate().unwrap();
    let certificate = self_signed(&key);
    let bundle = check_ca_bundle(certificate.repeat(3).as_bytes()).unwrap();
    let validity = |position| Validity::new(ChainPosition(position), 1_577_836_800, 1_609_459_200);
    assert_eq!(bundle.validities, [1, 2, 3].map(validity));
    assert_eq!(check_ca_bundle(b""), Err(CertificateFault::NoCertificate { what: "bundle" }));
    assert_eq!(check_ca_bundle(b"nonsense"), Err(CertificateFault::NoCertificate { what: "bundle" }));
    let broken = certificate + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(check_ca_bundle(broken.as_bytes()), Err(CertificateFault::Certificate { what: "bundle", position: 2 }));
}

#[test]
fn errors_contain_no_part_of_a_key() {
    let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let key = pem_of(&other);
    let cut = key.replace("-----END PRIVATE KEY-----", "");
    let garbled = key.replacen("MIG", "M!G", 1);
    let secrets: Vec<&str> = key.lines().filter(|line| !line.starts_with('-')).collect();
    for text in [&key, &cut, &garbled] {
        let fault = check(&self_signed(&one), text).unwrap_err();
        let shown = format!("{fault} {fault:?}");
        assert!(secrets.iter().all(|secret| !shown.contains(&secret[..8.min(secret.len())])), "{shown}");
    }
}

/// Pairs made with OpenSSL, and whether Envoy 1.40 accepts them.
#[test]
fn verdicts_are_those_of_envoy() {
    macro_rules! pair {
        ($name:literal) => {
            check_pair(
                include_bytes!(concat!("fixtures/", $name, ".crt")),
                include_bytes!(concat!("fixtures/", $name, ".key")),
            )
        };
    }
    assert_eq!(pair!("rsa2048").unwrap().key, KeyKind::Rsa { bits: 2048 });
    assert_eq!(pair!("rsa2048-pkcs1").unwrap().key, KeyKind::Rsa { bits: 2048 });
    assert_eq!(pair!("rsa2056-e3").unwrap().key, KeyKind::Rsa { bits: 2056 });
    assert_eq!(pair!("p521").unwrap().key, KeyKind::EcdsaP521);
    assert_eq!(pair!("p256-parameters-block").unwrap().key, KeyKind::EcdsaP256);
    assert_eq!(pair!("p256-without-public-key").unwrap().key, KeyKind::EcdsaP256);
    assert_eq!(pair!("p256-compressed").unwrap().key, KeyKind::EcdsaP256);
    assert_eq!(pair!("rsa1024"), Err(CertificateFault::RsaBits { bits: 1024 }));
    for refused in [pair!("secp256k1"), pair!("p256-explicit"), pair!("rsa-pss"), pair!("ed448")] {
        let fault = refused.unwrap_err();
        assert!(matches!(fault, CertificateFault::KeyKind { .. }), "{fault}");
    }
    let mismatch = check_pair(include_bytes!("fixtures/rsa2048.crt"), include_bytes!("fixtures/rsa2048-pkcs1.key"));
    assert_eq!(mismatch, Err(CertificateFault::Mismatch));
    let mismatch = check_pair(include_bytes!("fixtures/rsa2048.crt"), include_bytes!("fixtures/p521.key"));
    assert_eq!(mismatch, Err(CertificateFault::Mismatch));
}

#[test]
fn a_key_of_the_second_version_is_refused() {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    assert_eq!(check(&self_signed(&key), &key.serialize_pem()), Err(CertificateFault::KeyVersion));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_pairs_never_panic(position in 0usize..2000, bit in 0u8..8) {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate = self_signed(&key);
        let damage = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            let index = position % bytes.len();
            bytes[index] ^= 1 << bit;
            bytes
        };
        let _ = check_pair(&damage(&certificate), pem_of(&key).as_bytes());
        let _ = check_pair(certificate.as_bytes(), &damage(&pem_of(&key)));
        let _ = check_ca_bundle(&damage(&certificate));
    }
}
