//! Tests of renewals over several years: every peer can verify every certificate at any time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use holdfast_engine::identity::certificate;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::*;

const DAY: u64 = 86_400;
const START: u64 = 1_800_000_000;

/// Renews in a folder.
fn renew(wish: &(Wish, CertificateStorage), now: u64) -> anyhow::Result<Vec<String>> {
    super::renew(&wish.0, &wish.1, now)
}

fn wish(folder: &Path) -> (Wish, CertificateStorage) {
    (wished(), CertificateStorage::Folder(folder.to_owned()))
}

fn wished() -> Wish {
    Wish {
        server_names: vec!["holdfast.infra.svc".into(), "10.0.0.1".into()],
        gateways: vec!["infra/public".into(), "infra/other".into()],
        webhook_configuration: None,
        trust_domain: names::TRUST_DOMAIN.into(),
        mount_path: None,
        life: 90 * DAY,
        authority_life: 3650 * DAY,
    }
}

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns whether a server with this bundle accepts the client at the given time.
fn is_taken(bundle: &Path, folder: &Path, now: u64) -> bool {
    let verifier = holdfast_xds::tls::verifier(certificates(bundle), false).unwrap();
    let chain = certificates(&folder.join("tls.crt"));
    verifier.verify_client_cert(&chain[0], &[], UnixTime::since_unix_epoch(Duration::from_secs(now))).is_ok()
}

fn server_is_taken(bundle: &Path, folder: &Path, name: &str, now: u64) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    certificates(bundle).into_iter().for_each(|der| roots.add(der).unwrap());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::client::WebPkiServerVerifier::builder_with_provider(std::sync::Arc::new(roots), provider);
    let chain = certificates(&folder.join("tls.crt"));
    let (name, time) = (ServerName::try_from(name.to_owned()).unwrap(), Duration::from_secs(now));
    let verifier = builder.build().unwrap();
    rustls::client::danger::ServerCertVerifier::verify_server_cert(
        &*verifier,
        &chain[0],
        &[],
        &name,
        &[],
        UnixTime::since_unix_epoch(time),
    )
    .is_ok()
}

#[test]
fn what_is_made_is_what_the_server_and_envoys_take() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let renewed = renew(&wish(folder.path()), START).unwrap();
    assert_eq!(renewed.len(), 4, "{renewed:?}");
    assert!(renew(&wish(folder.path()), START + 59 * DAY).unwrap().is_empty());

    let (server, public) = (at("server"), at("gateways/infra_public"));
    assert!(is_taken(&server.join("ca.crt"), &public, START));
    for name in ["holdfast.infra.svc", "10.0.0.1"] {
        assert!(server_is_taken(&public.join("ca.crt"), &server, name, START));
    }
    assert!(!server_is_taken(&public.join("ca.crt"), &server, "other", START));
    // The certificate of a Gateway is not accepted from a server, nor that of the server from a Gateway.
    assert!(!is_taken(&server.join("ca.crt"), &server, START));
    assert!(!server_is_taken(&public.join("ca.crt"), &public, "holdfast.infra.svc", START));
    let own = certificates(&public.join("tls.crt"));
    assert_eq!(&*certificate::proof(&own[0], names::TRUST_DOMAIN).unwrap().gateway, "infra/public");
    let sds = std::fs::read_to_string(public.join("sds-certificate.yaml")).unwrap();
    assert!(sds.contains(&format!("filename: {}", public.join("tls.key").display())), "{sds}");
    use std::os::unix::fs::PermissionsExt;
    for key in [server.join("tls.key"), public.join("tls.key"), at(&format!("authority/{START}.key"))] {
        assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }

    // Other names, a damaged key or an additional Gateway: only the affected certificates are made again.
    let other = Wish { server_names: vec!["holdfast.infra.svc".into()], ..wished() };
    let other = (other, CertificateStorage::Folder(folder.path().to_owned()));
    assert_eq!(renew(&other, START).unwrap().len(), 1);
    std::fs::write(public.join("tls.key"), "").unwrap();
    let third = (Wish { gateways: vec!["infra/public".into(), "b/third".into()], ..other.0 }, other.1);
    assert_eq!(renew(&third, START).unwrap().len(), 2);
    assert!(renew(&third, START).unwrap().is_empty());
}

#[test]
fn no_peer_sees_a_certificate_that_it_cannot_verify() {
    let folder = tempfile::tempdir().unwrap();
    let before = tempfile::tempdir().unwrap();
    let wish = Wish { life: 9 * DAY, authority_life: 60 * DAY, ..wished() };
    let wish = (wish, CertificateStorage::Folder(folder.path().to_owned()));
    let copy = |name: &str| {
        std::fs::create_dir_all(before.path().join(name)).unwrap();
        for file in std::fs::read_dir(folder.path().join(name)).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), before.path().join(name).join(file.file_name())).unwrap();
        }
    };
    let (mut authorities, mut renewals) = (0, 0);
    for half_day in 0..400 {
        let now = START + half_day * DAY / 2;
        let renewed = renew(&wish, now).unwrap();
        authorities += renewed.iter().filter(|line| line.contains("authority")).count();
        renewals += renewed.iter().filter(|line| line.contains("gateway")).count();
        let names = ["server", "gateways/infra_public"];
        let places = |root: &Path| names.map(|name| root.join(name));
        let [server, public] = places(folder.path());
        let mut pairs = vec![(server.clone(), public.clone())];
        if half_day > 0 {
            // One of the two has not loaded the new files yet.
            let [old_server, old_public] = places(before.path());
            pairs.extend([(old_server, public), (server, old_public)]);
        }
        for (server, public) in pairs {
            assert!(is_taken(&server.join("ca.crt"), &public, now), "day {}", half_day / 2);
            assert!(server_is_taken(&public.join("ca.crt"), &server, "10.0.0.1", now), "day {}", half_day / 2);
        }
        names.iter().for_each(|name| copy(name));
    }
    assert!(authorities >= 5 && renewals >= 60, "{authorities} {renewals}");
    // Expired authorities have been removed.
    assert!(std::fs::read_dir(folder.path().join("authority")).unwrap().count() <= 5);
}

#[test]
fn an_authority_that_is_lost_signs_nothing_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let wish = wish(folder.path());
    renew(&wish, START).unwrap();
    std::fs::remove_dir_all(folder.path().join("authority")).unwrap();
    // In the same second, so that the new authority has the name of the old one.
    assert_eq!(renew(&wish, START).unwrap().len(), 4);
    let (server, public) = (folder.path().join("server"), folder.path().join("gateways/infra_public"));
    assert!(is_taken(&server.join("ca.crt"), &public, START));
    assert!(server_is_taken(&public.join("ca.crt"), &server, "10.0.0.1", START));
}
