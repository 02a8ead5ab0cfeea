//! Authenticator of xDS clients: admits a client that proves which Gateway it belongs to.
//!
//! Every presented proof must be valid: a valid certificate does not compensate for an invalid token, and if both are
//! presented they must belong to one Gateway.

use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_engine::identity::token::{self, Rules};
use holdfast_engine::identity::{VerifiedIdentity, certificate};
use holdfast_xds::{Admitted, Authenticator, NotAdmitted, PresentedCredentials};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

use super::keys::KnownKeys;
use super::material::Clients;

/// An authenticator, with the proofs that it accepts.
pub(super) struct ClientAuthenticator {
    trust_domain: String,
    clients: watch::Receiver<Clients>,
    tokens: Option<(Rules, watch::Receiver<KnownKeys>)>,
}

impl ClientAuthenticator {
    pub(super) fn new(
        trust_domain: String,
        clients: watch::Receiver<Clients>,
        tokens: Option<(Rules, watch::Receiver<KnownKeys>)>,
    ) -> Self {
        Self { trust_domain, clients, tokens }
    }

    /// Verifies the certificate again, since the authorities may have changed after the handshake.
    fn by_certificate(
        &self,
        chain: &[CertificateDer<'static>],
        now: u64,
    ) -> Result<Option<VerifiedIdentity>, NotAdmitted> {
        let Some((own, others)) = chain.split_first() else { return Ok(None) };
        let clients = self.clients.borrow().clone();
        let verifier =
            clients.ok_or_else(|| refused("client certificates are not accepted, since --xds-client-ca is not set"))?;
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        verifier.verify_client_cert(own, others, time).map_err(|error| refused(&error))?;
        certificate::proof(own, &self.trust_domain).map(Some).map_err(|error| refused(&error))
    }

    fn by_token(&self, token: Option<&str>, now: u64) -> Result<Option<VerifiedIdentity>, NotAdmitted> {
        let Some(token) = token else { return Ok(None) };
        let (rules, keys) = self
            .tokens
            .as_ref()
            .ok_or_else(|| refused("tokens are not accepted, since --xds-token-audience is not set"))?;
        let keys = keys.borrow().clone();
        let keys = keys.at(now).ok_or_else(|| refused("the keys that verify tokens are not known"))?;
        token::proof(token, keys, rules, now).map(Some).map_err(|error| refused(&error))
    }

    fn decide(&self, shown: &PresentedCredentials<'_>, now: u64) -> Result<Admitted, NotAdmitted> {
        let proofs = (self.by_certificate(shown.chain, now)?, self.by_token(shown.token, now)?);
        let proof = match proofs {
            (Some(one), Some(other)) if one.gateway != other.gateway => {
                return Err(refused("certificate and token belong to different Gateways"));
            }
            (Some(one), Some(other)) => VerifiedIdentity { until: one.until.min(other.until), ..one },
            (Some(proof), None) | (None, Some(proof)) => proof,
            (None, None) => return Err(refused("the client presented neither a certificate nor a token")),
        };
        Ok(Admitted { fleet: proof.gateway, until: proof.until })
    }
}

impl Authenticator for ClientAuthenticator {
    fn admit(&self, shown: &PresentedCredentials<'_>) -> Result<Admitted, NotAdmitted> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_err(|_| refused("the clock of this host is wrong: it is before 1970"))?;
        self.decide(shown, now.as_secs())
    }
}

fn refused(why: impl std::fmt::Display) -> NotAdmitted {
    NotAdmitted(why.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::Arc;

    use holdfast_engine::identity::keys::VerificationKeys;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};

    use super::*;

    /// 2027-01-15, when the token of the test data is valid.
    const NOW: u64 = 1_800_000_000;

    fn authority() -> (Issuer<'static, KeyPair>, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).unwrap().der().clone();
        (Issuer::new(params, key), der)
    }

    fn client(issuer: &Issuer<'_, KeyPair>, gateway: &str) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let uri = format!("spiffe://holdfast.dev/gateway/{gateway}");
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        params.not_after = date_time_ymd(2028, 1, 1);
        vec![params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()]
    }

    fn verifier(ders: &[&CertificateDer<'static>]) -> Clients {
        Some(holdfast_xds::tls::verifier(ders.iter().map(|der| (*der).clone()).collect(), true).unwrap())
    }

    const TOKEN: &str = include_str!("../../../src/identity/testdata/rsa.jwt");

    #[test]
    fn all_that_is_shown_must_be_good_and_of_one_gateway() {
        let (issuer, der) = authority();
        let (foreign, _) = authority();
        let (_clients, watched) = watch::channel(verifier(&[&der]));
        let rules = Rules { audience: "holdfast".into(), issuer: "https://issuer.example".into() };
        let keys = VerificationKeys::parse(include_bytes!("../../../src/identity/testdata/rsa.jwks.json")).unwrap();
        let (known, keys) = watch::channel(KnownKeys::new(Arc::new(keys), None));
        let authenticator = ClientAuthenticator::new("holdfast.dev".into(), watched.clone(), Some((rules, keys)));
        let decide = |chain: &[CertificateDer<'static>], token: Option<&str>| {
            authenticator
                .decide(&PresentedCredentials { chain, token }, NOW)
                .map(|admitted| (admitted.fleet.to_string(), admitted.until))
        };
        let token = TOKEN.trim();
        let (public, other) = (client(&issuer, "infra/public"), client(&issuer, "infra/other"));
        assert_eq!(decide(&public, None).unwrap(), ("infra/public".into(), 1_830_297_600));
        assert_eq!(decide(&[], Some(token)).unwrap(), ("infra/public".into(), NOW + 600));
        assert_eq!(decide(&public, Some(token)).unwrap(), ("infra/public".into(), NOW + 600));
        assert_eq!(decide(&other, None).unwrap().0, "infra/other");
        for (chain, token) in [
            (&other[..], Some(token)),
            (&public, Some("bad")),
            (&[], Some("bad")),
            (&[], None),
            (&client(&foreign, "infra/public"), None),
            (&client(&foreign, "infra/public"), Some(token)),
        ] {
            decide(chain, token).unwrap_err();
        }
        known.send_replace(KnownKeys::default());
        decide(&[], Some(token)).unwrap_err();
        let none = ClientAuthenticator::new("holdfast.dev".into(), watched, None);
        none.decide(&PresentedCredentials { chain: &[], token: Some(token) }, NOW).unwrap_err();
        none.decide(&PresentedCredentials { chain: &public, token: Some(token) }, NOW).unwrap_err();
    }

    #[test]
    fn a_connection_does_not_outlive_its_authority_or_its_certificate() {
        let (issuer, der) = authority();
        let (_, newer) = authority();
        let (clients, watched) = watch::channel(verifier(&[&der]));
        let authenticator = ClientAuthenticator::new("holdfast.dev".into(), watched, None);
        let chain = client(&issuer, "infra/public");
        let decide = |now: u64| authenticator.decide(&PresentedCredentials { chain: &chain, token: None }, now);
        decide(NOW).unwrap();
        decide(NOW + 3 * 365 * 86_400).unwrap_err();
        clients.send_replace(verifier(&[&newer, &der]));
        decide(NOW).unwrap();
        clients.send_replace(verifier(&[&newer]));
        decide(NOW).unwrap_err();
        clients.send_replace(None);
        decide(NOW).unwrap_err();
    }
}
