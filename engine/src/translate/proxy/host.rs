//! The host of a root: which name it claims, with which certificate, and who else claims it.

use std::sync::Arc;

use holdfast_graph::{Edge, ObjectKey, Role};

use super::is_ours;
use super::seats::{self, Seats};
use crate::apis::Body;
use crate::apis::contour::http_proxy::HttpProxy;
use crate::apis::contour::virtual_host::Tls;
use crate::apis::scheme;
use crate::check;
use crate::encode::listener::TlsVersions;
use crate::fault::Class;
use crate::object::{Age, Object};
use crate::proxies::finding::{Finding, NOT_READABLE};
use crate::settings::Settings;
use crate::translate::listener::certificate;
use crate::translate::reader::Reader;
use crate::translate::table::Host;

/// What a root claims.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostClaim {
    /// The host; unset where it has none that may be claimed.
    pub(crate) host: Option<Host>,
    /// Where it stands; unset where it has no host.
    pub(crate) seats: Option<Seats>,
    /// TLS, where it is asked for.
    pub(crate) tls: Option<TlsClaim>,
    /// Does the host answer nobody?
    pub(crate) closed: bool,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
    /// The references that were read.
    pub(crate) edges: Vec<Edge>,
}

/// TLS of a host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsClaim {
    /// The certificate; without one connections are refused.
    pub(crate) certificate: Option<ObjectKey>,
    /// A certificate that is there and cannot be used, and why.
    pub(crate) broken: Option<(ObjectKey, String)>,
    /// The versions of TLS.
    pub(crate) versions: TlsVersions,
}

/// Works out what a root claims; `None` for what is no root of ours.
pub(in crate::translate) fn claim(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<HostClaim> {
    let object = reader.object(key)?;
    let Body::HttpProxy(proxy) = &object.body else { return None };
    let host = proxy.virtual_host.as_ref().filter(|_| is_ours(object, proxy, settings))?;
    let mut claim =
        HostClaim { host: None, seats: None, tls: None, closed: false, findings: Vec::new(), edges: Vec::new() };
    if !may_be_root(object, settings) {
        claim.findings.push(Finding::error(
            key,
            "spec.virtualhost",
            "RootNamespaceError",
            "RootProxyNotAllowedInNamespace",
            "root HTTPProxy cannot be defined in this namespace",
        ));
        return Some(claim);
    }
    if host.fqdn.is_empty() {
        let message = "Spec.VirtualHost.Fqdn must be specified";
        let field = "spec.virtualhost.fqdn";
        claim.findings.push(Finding::error(key, field, "VirtualHostError", "FQDNNotSpecified", message));
        return Some(claim);
    }
    if let Err(fault) = check::host::hostname(&host.fqdn) {
        let field = "spec.virtualhost.fqdn";
        claim.findings.push(Finding::error(key, field, "VirtualHostError", "FQDNInvalid", fault.to_string()));
        return Some(claim);
    }
    claim.host = Some(Host::new(Some(&host.fqdn)));
    let rivals = rivals(&host.fqdn, settings, reader);
    let ages: Vec<Age> = rivals.iter().map(|rival| rival.age()).collect();
    let shared = rivals.len() > 1;
    if shared {
        let rivals: Vec<String> = rivals.iter().map(|rival| rival.key.namespaced_name()).collect();
        let message = format!("fqdn {:?} is used in multiple HTTPProxies: {}", host.fqdn, rivals.join(", "));
        let found = Finding::error(key, "spec.virtualhost.fqdn", "VirtualHostError", "DuplicateVhost", message);
        claim.findings.push(found.of_class(Class::Conflict));
    }
    if proxy.routes.is_empty() && proxy.includes.is_empty() && proxy.tcp_proxy.is_none() {
        let message = "HTTPProxy.Spec must have at least one Route, Include, or a TCPProxy";
        claim.findings.push(Finding::error(key, "spec", "SpecError", "NothingDefined", message));
    }
    match &host.written {
        Some(written) => {
            if let Some(tls) = &written.tls {
                claim.tls = Some(tls_claim(object, proxy, tls, shared, &mut claim.findings, reader));
            }
        }
        None => {
            let message = "spec.virtualhost could not be read; the host stays closed";
            let field = "spec.virtualhost";
            claim.findings.push(Finding::error(key, field, "VirtualHostError", NOT_READABLE, message));
            // Whether TLS was meant is not known: whoever asks for it is refused.
            let (certificate, broken, versions) = (None, None, TlsVersions::default());
            claim.tls = Some(TlsClaim { certificate, broken, versions });
        }
    }
    claim.closed = !claim.findings.is_empty();
    let wanted = Host::new(Some(&host.fqdn));
    let seated = seats::find(key, &wanted, claim.tls.is_some(), &ages, settings, reader);
    claim.closed |= seated.closes && !seated.findings.is_empty();
    claim.findings.extend(seated.findings);
    claim.seats = Some(seated.seats);
    Some(claim)
}

/// A root on which translation failed keeps what it claimed, and answers nobody.
pub(in crate::translate) fn failed(key: &ObjectKey, before: Option<&HostClaim>) -> Option<HostClaim> {
    let mut claim = before?.clone();
    let message = crate::translate::guard::fault(key).message;
    claim.findings.push(Finding::error(key, "", "VirtualHostError", "InternalError", message));
    claim.findings.dedup();
    claim.closed = true;
    Some(claim)
}

/// The roots that claim a host.
fn rivals<'a>(fqdn: &Arc<str>, settings: &Settings, reader: &mut Reader<'a>) -> Vec<&'a Arc<Object>> {
    let mut roots = reader.roots(fqdn);
    roots.retain(|root| match &root.body {
        Body::HttpProxy(proxy) => is_ours(root, proxy, settings) && may_be_root(root, settings),
        _ => false,
    });
    roots
}

fn may_be_root(object: &Object, settings: &Settings) -> bool {
    let namespaces = &settings.proxies.root_namespaces;
    namespaces.is_empty() || namespaces.contains(&object.key.namespace)
}

/// The fields of TLS that are not served yet; a host with one of them is closed.
const NOT_SERVED: &str = "is not served by this version of Holdfast; the host stays closed";

fn tls_claim(
    object: &Object,
    proxy: &HttpProxy,
    tls: &Tls,
    shared: bool,
    findings: &mut Vec<Finding>,
    reader: &mut Reader<'_>,
) -> TlsClaim {
    let key = &object.key;
    let mut found: Vec<(&str, &'static str, Class, String)> = Vec::new();
    let mut invalid = |field, reason, message: &str| found.push((field, reason, Class::Invalid, message.to_owned()));
    let secret_name = tls.secret_name.as_deref().filter(|name| !name.is_empty());
    let passthrough = tls.passthrough == Some(true);
    if passthrough && tls.enable_fallback_certificate == Some(true) {
        let message = "Spec.VirtualHost.TLS: both Passthrough and enableFallbackCertificate were specified";
        invalid("enableFallbackCertificate", "TLSIncompatibleFeatures", message);
    }
    if passthrough && tls.client_validation.is_some() {
        let message = "Spec.VirtualHost.TLS passthrough cannot be combined with tls.clientValidation";
        invalid("clientValidation", "TLSIncompatibleFeatures", message);
    }
    if tls.enable_fallback_certificate == Some(true) && tls.client_validation.is_some() {
        let message = "Spec.Virtualhost.TLS fallback & client validation are incompatible";
        invalid("enableFallbackCertificate", "TLSIncompatibleFeatures", message);
    }
    match (passthrough, secret_name) {
        (true, Some(_)) => {
            let message = "Spec.VirtualHost.TLS: both Passthrough and SecretName were specified";
            invalid("passthrough", "TLSConfigNotValid", message);
        }
        (false, None) => {
            let message = "Spec.VirtualHost.TLS: neither Passthrough nor SecretName were specified";
            invalid("secretName", "TLSConfigNotValid", message);
        }
        _ => {}
    }
    let versions = versions(tls);
    if let Err((field, message)) = versions {
        invalid(field, "TLSConfigNotValid", message);
    }
    if passthrough {
        invalid("passthrough", "NotServed", &format!("Spec.VirtualHost.TLS passthrough {NOT_SERVED}"));
    }
    if tls.client_validation.is_some() {
        let message = format!("Spec.VirtualHost.TLS client validation {NOT_SERVED}");
        invalid("clientValidation", "NotServed", &message);
    }
    if tls.enable_fallback_certificate == Some(true) {
        let message = format!("Spec.VirtualHost.TLS fallback certificate {NOT_SERVED}");
        invalid("enableFallbackCertificate", "NotServed", &message);
    }
    if proxy.tcp_proxy.is_some() {
        let message = format!("Spec.TCPProxy {NOT_SERVED}");
        findings.push(Finding::error(key, "spec.tcpproxy", "TCPProxyError", "NotServed", message));
    }
    let mut usable = None;
    let mut broken = None;
    if let Some(name) = secret_name {
        let secret = secret(&key.namespace, name);
        reader.edge(key, super::HOST, &secret, Role::Requires);
        if !delegated(key, &secret, reader) {
            let message = format!(
                "Spec.VirtualHost.TLS Secret {:?} certificate delegation not permitted",
                secret.namespaced_name().as_str()
            );
            found.push(("secretName", "DelegationNotPermitted", Class::Referential, message));
        } else {
            match certificate(&secret, reader) {
                Ok(()) => usable = Some(secret),
                Err((class, why)) => {
                    let why = if class == Class::Referential { "Secret not found".to_owned() } else { why };
                    let name = secret.namespaced_name();
                    let message = format!("Spec.VirtualHost.TLS Secret {name:?} is invalid: {why}");
                    if class == Class::Invalid {
                        broken = Some((secret, why));
                    }
                    found.push(("secretName", "SecretNotValid", class, message));
                }
            }
        }
    }
    let whole = found.is_empty() && !shared && proxy.tcp_proxy.is_none();
    for (field, reason, class, message) in found {
        let field = format!("spec.virtualhost.tls.{field}");
        findings.push(Finding::error(key, field, "TLSError", reason, message).of_class(class));
    }
    TlsClaim { certificate: usable.filter(|_| whole), broken, versions: versions.unwrap_or_default() }
}

fn versions(tls: &Tls) -> Result<TlsVersions, (&'static str, &'static str)> {
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
    let versions = TlsVersions { only_13: minimum.unwrap_or(false), only_12: maximum == Some(false) };
    if versions.only_13 && versions.only_12 {
        let message = "Spec.Virtualhost.TLS the minimum protocol version is greater than the maximum protocol version";
        return Err(("minimumProtocolVersion", message));
    }
    Ok(versions)
}

/// A Secret as it is named in a namespace: `name` or `namespace/name`.
pub(super) fn secret(namespace: &str, name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
    scheme::secret_key(namespace, name)
}

/// May a proxy use this Secret?
pub(super) fn delegated(proxy: &ObjectKey, secret: &ObjectKey, reader: &mut Reader<'_>) -> bool {
    proxy.namespace == secret.namespace || reader.delegated(&proxy.namespace, secret)
}
