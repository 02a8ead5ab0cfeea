//! Protection by TLS: certificates of clients and of backends.

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::manifests::{NAMESPACE, documents, indent, service};
use holdfast_scenario_tests::secured::Secured;
use holdfast_scenario_tests::tls::StoryAuthority;

use super::guard::{ProtectingField, REFUSED_CONNECTION};
use super::level::{AttachmentLevel, IMPOSTOR, TRUSTED};

/// The kind of a policy, with its API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PolicyKind {
    #[default]
    Traffic,
    Listener,
    Backend,
    BackendTls,
}

impl PolicyKind {
    pub(super) const ALL: [Self; 4] = [Self::Traffic, Self::Listener, Self::Backend, Self::BackendTls];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Traffic => "TrafficPolicy",
            Self::Listener => "ListenerPolicy",
            Self::Backend => "BackendConfigPolicy",
            Self::BackendTls => "BackendTLSPolicy",
        }
    }

    pub(super) fn version(self) -> &'static str {
        if self == Self::BackendTls { "gateway.networking.k8s.io/v1" } else { "gateway.kgateway.dev/v1alpha1" }
    }
}

/// A name in the certificates of backends.
const NAME: &str = "shop.clients.example.com";

/// Returns a ConfigMap with CA certificates.
fn authorities(name: &str, text: &str) -> String {
    let text = indent(text, 4);
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\ndata:\n  ca.crt: |\n{text}"
    )
}

/// Returns a CA certificate with an invalid version, which only Envoy checks.
fn odd(authority: &StoryAuthority) -> Result<String> {
    let body: String = authority.pem.lines().filter(|line| !line.starts_with('-')).collect();
    let mut bytes = STANDARD.decode(body.trim())?;
    let version = [0xa0, 3, 2, 1, 2];
    let at = bytes.windows(version.len()).position(|window| window == version);
    if let Some(byte) = at.and_then(|at| bytes.get_mut(at + version.len() - 1)) {
        *byte = 7;
    }
    Ok(format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(bytes)))
}

/// Returns ConfigMaps with valid CA certificates, with invalid PEM, and with an invalid version.
fn three(authority: &StoryAuthority, place: &str) -> Result<(String, String)> {
    let bad = authority.pem.replace("BEGIN", "BEGAN");
    let others = [authorities(&format!("bad-{place}"), &bad), authorities(&format!("odd-{place}"), &odd(authority)?)];
    Ok((authorities(&format!("ca-{place}"), &authority.pem), documents(&others)))
}

/// Client certificates; the denied request has no certificate, at the level of Gateways a certificate of an untrusted
/// authority.
pub(super) fn clients(level: AttachmentLevel) -> Result<ProtectingField> {
    let (ours, others) = (StoryAuthority::new("ours")?, StoryAuthority::new("others")?);
    let (known, untrusted) = (ours.client("known", 1)?, others.client("untrusted", 1)?);
    let place = level.name();
    let (besides, fixtures) = three(&ours, place)?;
    let spec = |name: &str| {
        format!(
            "default: {{clientCertificateValidation: {{mode: Require, \
             caCertificateRefs: [{{group: '', kind: ConfigMap, name: {name}-{place}}}]}}}}"
        )
    };
    let strange = level == AttachmentLevel::Doors;
    let guard = ProtectingField::new(&spec("ca"), REFUSED_CONNECTION, move |request| {
        if strange { request.showing(&untrusted) } else { request }
    });
    Ok(guard
        .of(PolicyKind::Listener, spec("odd"), fixtures)
        .passing(move |request| request.showing(&known))
        .besides(besides)
        .bad(&spec("bad")))
}

/// TLS to a backend. The denied request would reach a server with a certificate of an untrusted authority, which also
/// answers without TLS.
pub(super) async fn backend(kind: PolicyKind, world: &World, place: &str) -> Result<ProtectingField> {
    let (authority, untrusted) = (StoryAuthority::new("backends")?, StoryAuthority::new("untrusted")?);
    let (own, others) = (authority.client("shop", 1)?, untrusted.client("shop", 1)?);
    let (besides, fixtures) = three(&authority, place)?;
    let echo = world.pod(NAMESPACE, TRUSTED, "echo").await?;
    let trusted = Secured::start(&own, None, echo.address()).await?;
    let impostor = Secured::careless(&others, echo.address()).await?;
    let services = [
        service(NAMESPACE, TRUSTED, None, &[trusted.address]),
        service(NAMESPACE, IMPOSTOR, None, &[impostor.address]),
    ];
    let fixtures = documents(&[&services[..], &[fixtures]].concat());
    let guard = if kind == PolicyKind::BackendTls {
        let spec = |name: &str| {
            format!(
                "validation: {{hostname: {NAME}, caCertificateRefs: [{{group: '', kind: ConfigMap, name: {name}-{place}}}]}}"
            )
        };
        let guard = ProtectingField::new(&spec("ca"), 503, |request| request.path("/impostor"));
        guard.of(kind, spec("odd"), fixtures).besides(besides).bad(&spec("bad"))
    } else {
        let text = indent(&authority.pem, 4);
        let secret = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: ca-{place}, namespace: {NAMESPACE}}}\nstringData:\n  ca.crt: |\n{text}"
        );
        let spec = |name: &str, more: &str| {
            format!("tls: {{secretRef: {{name: {name}-{place}}}, sni: {NAME}, verifySubjectAltNames: [{NAME}]{more}}}")
        };
        let guard = ProtectingField::new(&spec("ca", ""), 503, |request| request.path("/impostor"));
        guard
            .of(kind, spec("ca", ", parameters: {cipherSuites: [NO-SUCH-CIPHER]}"), fixtures)
            .besides(secret)
            .bad(&spec("ca", ", strange: 1"))
    };
    Ok(guard.passing(|request| request).calling((echo, trusted, impostor)))
}
