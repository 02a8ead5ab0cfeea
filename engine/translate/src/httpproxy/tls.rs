//! TLS of a host: its certificate, verification of client certificates, and clients without SNI.
//!
//! An invalid setting closes the host. If only the fallback certificate for clients without SNI is invalid, the host is
//! still served to all other clients: this grants no access that would be denied otherwise.

use std::sync::Arc;

use bytes::Bytes;
use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::contour::virtual_host::{ClientCertificateDetails, DownstreamValidation, Tls, VirtualHost};
use holdfast_api::apis::scheme;
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_check::certificate::{BundleFault, CertificateFault, check_client_authorities, check_revocations};
use holdfast_check::tls::TlsVersion;
use holdfast_envoy::features::client_certificate::{ClientCertificates, ClientValidationContext, ForwardedDetails};
use holdfast_envoy::features::server_tls::ServerTls;
use holdfast_graph::{ObjectKey, Role};

use super::HOST;
use crate::listeners::{UsableCertificate, at_secret, certificate};
use crate::outcome::finding::Finding;
use crate::outcome::host::TlsClaim;
use crate::outcome::listener::CertificateDates;
use crate::reader::Reader;

/// Findings while TLS is read.
pub(super) struct Notes<'a> {
    key: &'a ObjectKey,
    /// Findings that close the host.
    pub(super) closing: Vec<Finding>,
    /// Additional findings.
    pub(super) additional: Vec<Finding>,
}

impl<'a> Notes<'a> {
    pub(super) fn new(key: &'a ObjectKey) -> Self {
        Self { key, closing: Vec::new(), additional: Vec::new() }
    }

    fn found(&self, field: &str, reason: &'static str, class: Class, message: String) -> Finding {
        let field = format!("spec.virtualhost.tls.{field}");
        Finding::error(self.key, field, "TLSError", reason, message).of_class(class)
    }

    fn close(&mut self, field: &str, reason: &'static str, class: Class, message: impl Into<String>) {
        self.closing.push(self.found(field, reason, class, message.into()));
    }

    /// Reports the dates of a certificate. The host is served in any case.
    fn dates(&mut self, field: &str, secret: &ObjectKey, dates: CertificateDates) {
        let Some(fault) = dates.fault else { return };
        let found = self.found(field, fault.reason(), Class::Invalid, at_secret(secret, fault));
        let found = if fault.is_outside() { found } else { found.into_warning() };
        self.additional.push(found.caused_by(Some(secret.clone())));
    }

    /// Reports that none of the certificate authorities for clients is valid now. The host is served with them.
    fn authorities_dates(&mut self, secret: &ObjectKey, fault: BundleFault) {
        let message = format!(
            "Secret {}: {fault}: clients with a certificate are refused; add a certificate that is valid now",
            secret.namespaced_name()
        );
        let found = self.found("clientValidation.caSecret", fault.reason(), Class::Invalid, message).into_warning();
        self.additional.push(found.caused_by(Some(secret.clone())));
    }

    fn report(&mut self, field: &str, reason: &'static str, class: Class, message: impl Into<String>) {
        self.additional.push(self.found(field, reason, class, message.into()));
    }
}

/// Reads TLS of a root's host, except the destination of connections.
pub(super) fn claim(
    object: &Object,
    proxy: &HttpProxy,
    host: &VirtualHost,
    tls: &Tls,
    notes: &mut Notes<'_>,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> TlsClaim {
    let key = &object.key;
    let mut claim = TlsClaim::default();
    let secret_name = tls.secret_name.as_deref().filter(|name| !name.is_empty());
    let passthrough = tls.passthrough == Some(true);
    match (passthrough, secret_name) {
        (true, Some(_)) => {
            let message = "Spec.VirtualHost.TLS: both Passthrough and SecretName were specified";
            notes.close("passthrough", "TLSConfigNotValid", Class::Invalid, message);
        }
        (false, None) => {
            let message = "Spec.VirtualHost.TLS: neither Passthrough nor SecretName were specified";
            notes.close("secretName", "TLSConfigNotValid", Class::Invalid, message);
        }
        (true, None) if proxy.tcp_proxy.is_none() => {
            let message =
                "Spec.VirtualHost.TLS passthrough requires Spec.TCPProxy: connections to the host are refused";
            let (field, reason) = ("spec.virtualhost.tls.passthrough", "TLSConfigNotValid");
            notes.additional.push(Finding::warning(key, field, "TLSError", reason, message));
        }
        _ => {}
    }
    match versions(tls) {
        Ok(settings) => claim.settings = settings,
        Err((field, message)) => notes.close(field, "TLSConfigNotValid", Class::Invalid, message),
    }
    let clients = tls.client_validation.as_ref();
    let fallback = tls.enable_fallback_certificate == Some(true);
    if passthrough && clients.is_some() {
        let message = "Spec.VirtualHost.TLS passthrough cannot be combined with tls.clientValidation";
        notes.close("clientValidation", "TLSIncompatibleFeatures", Class::Invalid, message);
    }
    if fallback && passthrough {
        let message = "Spec.VirtualHost.TLS: both Passthrough and enableFallbackCertificate were specified";
        notes.report("enableFallbackCertificate", "TLSIncompatibleFeatures", Class::Invalid, message);
    }
    let has_providers = host.jwt_providers.as_ref().is_some_and(|providers| !providers.is_empty());
    let incompatible = [
        (clients.is_some() && !passthrough, "client validation"),
        (host.authorization.is_some(), "client authorization"),
        (has_providers, "JWT providers"),
    ];
    for (_, what) in incompatible.iter().filter(|(there, _)| fallback && *there) {
        let message = format!("Spec.Virtualhost.TLS fallback & {what} are incompatible");
        notes.close("enableFallbackCertificate", "TLSIncompatibleFeatures", Class::Invalid, message);
    }
    if let Some(name) = secret_name {
        own_certificate(key, name, &mut claim, notes, reader);
    }
    if let Some(written) = clients.filter(|_| !passthrough) {
        claim.clients = client_certificates(key, written, notes, reader).map(Arc::new);
    }
    if fallback && !passthrough {
        fallback_certificate(key, &mut claim, notes, settings, reader);
    }
    claim
}

fn own_certificate(key: &ObjectKey, name: &str, claim: &mut TlsClaim, notes: &mut Notes<'_>, reader: &mut Reader<'_>) {
    let secret = secret(&key.namespace, name);
    reader.edge(key, HOST, &secret, Role::Requires);
    let name = secret.namespaced_name();
    if !delegated(key, &secret, reader) {
        let message = format!("Spec.VirtualHost.TLS Secret {name:?} certificate delegation not permitted");
        return notes.close("secretName", "DelegationNotPermitted", Class::Referential, message);
    }
    match certificate(&secret, reader) {
        Ok(UsableCertificate { dates, .. }) => {
            notes.dates("secretName", &secret, dates);
            claim.dates.insert(secret.clone(), dates);
            claim.certificate = Some(secret);
        }
        Err((class, why)) => {
            let why = if class == Class::Referential { format!("Secret {}", reader.unfound(&secret)) } else { why };
            let message = format!("Spec.VirtualHost.TLS Secret {name:?} is invalid: {why}");
            let found = notes.found("secretName", "SecretNotValid", class, message);
            notes.closing.push(found.caused_by(Some(secret.clone())));
            if class == Class::Invalid {
                claim.broken = Some((secret, why));
            }
        }
    }
}

/// Reads the fallback certificate for clients without SNI: it is the operator's, and the host needs a delegation to use
/// it.
fn fallback_certificate(
    key: &ObjectKey,
    claim: &mut TlsClaim,
    notes: &mut Notes<'_>,
    settings: &Settings,
    reader: &mut Reader<'_>,
) {
    let field = "enableFallbackCertificate";
    let Some(secret) = &settings.proxies.fallback_certificate else {
        let message = "Spec.Virtualhost.TLS enabled fallback but the fallback Certificate Secret is not configured: \
                       set --httpproxy-fallback-certificate";
        return notes.report(field, "FallbackNotPresent", Class::Referential, message);
    };
    // The host is still served without the fallback certificate.
    reader.edge(key, HOST, secret, Role::Mentions);
    let name = secret.namespaced_name();
    if !delegated(key, secret, reader) {
        let message = format!("Spec.VirtualHost.TLS Secret {name:?} is not configured for certificate delegation");
        return notes.report(field, "FallbackNotDelegated", Class::Referential, message);
    }
    match certificate(secret, reader) {
        Ok(UsableCertificate { dates, .. }) => {
            notes.dates(field, secret, dates);
            claim.dates.insert(secret.clone(), dates);
            claim.fallback = Some(secret.clone());
        }
        Err((class, why)) => {
            let why = if class == Class::Referential { format!("Secret {}", reader.unfound(secret)) } else { why };
            let message = format!("Spec.Virtualhost.TLS Secret {name:?} fallback certificate is invalid: {why}");
            let found = notes.found(field, "FallbackNotValid", class, message);
            notes.additional.push(found.caused_by(Some(secret.clone())));
            if class == Class::Invalid {
                claim.broken_fallback = Some((secret.clone(), why));
            }
        }
    }
}

/// Reads the verification of client certificates; `None` if it is invalid, which is reported and closes the host.
fn client_certificates(
    key: &ObjectKey,
    written: &DownstreamValidation,
    notes: &mut Notes<'_>,
    reader: &mut Reader<'_>,
) -> Option<ClientCertificates> {
    let unverified = written.skip_client_cert_validation == Some(true);
    let named = |name: &Option<Arc<str>>| name.clone().filter(|name| !name.is_empty());
    let (ca, crl) = (named(&written.ca_secret), named(&written.crl_secret));
    let invalid = |why: &str| format!("Spec.VirtualHost.TLS client validation is invalid: {why}");
    if ca.is_none() && !unverified {
        let message = invalid("CA Secret must be specified");
        notes.close("clientValidation.caSecret", "ClientValidationInvalid", Class::Invalid, message);
    }
    if ca.is_none() && crl.is_some() {
        // Envoy refuses a revocation list without certificate authorities.
        let message = invalid("CRL Secret has no effect without a CA Secret");
        notes.close("clientValidation.crlSecret", "ClientValidationInvalid", Class::Invalid, message);
    }
    let mut part = |name: Option<Arc<str>>, part: &Part| {
        let name = name?;
        list(key, &name, part, notes, reader)
    };
    let authorities = part(ca.clone(), &AUTHORITIES);
    let revoked = part(crl.clone(), &REVOCATIONS);
    if ca.is_some() != authorities.is_some() || crl.is_some() != revoked.is_some() || ca.is_none() && !unverified {
        return None;
    }
    if let Some((secret, text)) = authorities.as_ref().filter(|_| !unverified)
        && let Ok(bundle) = check_client_authorities(text)
        && let Some(fault) = reader.bundle_fault(&bundle)
    {
        notes.authorities_dates(secret, fault);
    }
    let trust = ClientValidationContext {
        owner: key.clone(),
        authorities,
        besides: Vec::new(),
        leaf_only: revoked.is_some() && written.crl_only_verify_leaf_cert == Some(true),
        revoked,
        unverified,
    };
    Some(ClientCertificates {
        required: written.optional_client_certificate != Some(true),
        trust,
        forwarded_details: written.forward_client_certificate.as_ref().map(forwarded_details),
    })
}

fn forwarded_details(written: &ClientCertificateDetails) -> ForwardedDetails {
    let on = |field: Option<bool>| field == Some(true);
    ForwardedDetails {
        subject: on(written.subject),
        cert: on(written.cert),
        chain: on(written.chain),
        dns: on(written.dns),
        uri: on(written.uri),
    }
}

/// A part of the verification of client certificates.
struct Part {
    /// Name of the part in messages.
    what: &'static str,
    field: &'static str,
    /// Key in the Secret.
    entry: &'static str,
    check: fn(&[u8]) -> Result<(), CertificateFault>,
}

const AUTHORITIES: Part = Part {
    what: "CA Secret",
    field: "clientValidation.caSecret",
    entry: "ca.crt",
    check: |text| check_client_authorities(text).map(drop),
};
const REVOCATIONS: Part = Part {
    what: "CRL Secret",
    field: "clientValidation.crlSecret",
    entry: "crl.pem",
    check: |text| check_revocations(text).map(drop),
};

/// Reads certificate authorities or a revocation list from their Secret.
fn list(
    key: &ObjectKey,
    name: &str,
    part: &Part,
    notes: &mut Notes<'_>,
    reader: &mut Reader<'_>,
) -> Option<(ObjectKey, Bytes)> {
    let secret = secret(&key.namespace, name);
    reader.edge(key, HOST, &secret, Role::Requires);
    let Part { what, field, entry, check } = part;
    let name = secret.namespaced_name();
    if !delegated(key, &secret, reader) {
        let message = format!("Spec.VirtualHost.TLS {what} {name:?} is invalid: Certificate delegation not permitted");
        notes.close(field, "DelegationNotPermitted", Class::Referential, message);
        return None;
    }
    // The verification of clients always uses today's version, even if other objects are read in an earlier version.
    let (class, why) = match reader.current(&secret).map(|object| &object.body) {
        None => (Class::Referential, format!("Secret {}", reader.unfound(&secret))),
        Some(Body::Secret(data)) => match data.data.get(*entry) {
            None => (Class::Invalid, format!("it has no {entry}")),
            Some(text) => match check(text) {
                Ok(()) => return Some((secret, text.clone())),
                Err(fault) => (Class::Invalid, fault.to_string()),
            },
        },
        Some(_) => (Class::Invalid, "it is no Secret".to_owned()),
    };
    let message = format!("Spec.VirtualHost.TLS client validation is invalid: invalid {what} {name:?}: {why}");
    let found = notes.found(field, "ClientValidationInvalid", class, message);
    notes.closing.push(found.caused_by(Some(secret)));
    None
}

fn versions(tls: &Tls) -> Result<ServerTls, (&'static str, &'static str)> {
    let is_13 = |text: Option<&Arc<str>>| match text.map(|text| &**text) {
        None | Some("") => Some(None),
        Some("1.2") => Some(Some(false)),
        Some("1.3") => Some(Some(true)),
        Some(_) => None,
    };
    let minimum = is_13(tls.minimum_protocol_version.as_ref()).ok_or((
        "minimumProtocolVersion",
        "Spec.Virtualhost.TLS the minimum protocol version is neither 1.2 nor 1.3",
    ))?;
    let maximum = is_13(tls.maximum_protocol_version.as_ref()).ok_or((
        "maximumProtocolVersion",
        "Spec.Virtualhost.TLS the maximum protocol version is neither 1.2 nor 1.3",
    ))?;
    let least = (minimum == Some(true)).then_some(TlsVersion::V13);
    let most = (maximum == Some(false)).then_some(TlsVersion::V12);
    if least.is_some() && most.is_some() {
        let message = "Spec.Virtualhost.TLS the minimum protocol version is greater than the maximum protocol version";
        return Err(("minimumProtocolVersion", message));
    }
    Ok(ServerTls::versions(least, most))
}

/// Returns the key of a Secret that is named in a namespace: `name` or `namespace/name`.
pub(super) fn secret(namespace: &str, name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
    scheme::secret_key(namespace, name)
}

/// Checks whether an HTTPProxy may use this Secret.
pub(super) fn delegated(proxy: &ObjectKey, secret: &ObjectKey, reader: &mut Reader<'_>) -> bool {
    proxy.namespace == secret.namespace || reader.delegated(&proxy.namespace, secret)
}
