//! JWT authentication: providers of a host, and the token that a route requires.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::guard::{JwtProvider, LocalJwks, RemoteJwks};
use holdfast_api::apis::contour::route::JwtVerificationPolicy;
use holdfast_api::apis::contour::virtual_host::VirtualHost;
use holdfast_api::fault::{Class, at};
use holdfast_api::settings::Settings;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::jwt::{
    Fetching, JwtFilter, Keys, PROVIDERS_MAX, Provider, Requirement, RouteJwt, URI_BYTES_MAX, check_keys,
};
use holdfast_envoy::features::remote::{DnsHost, Family, Remote};
use holdfast_envoy::features::upstream::UpstreamTls;
use holdfast_graph::{ObjectKey, Role};

use super::auth::Wrong;
use super::validation::{self, NoValidation, UpstreamVerification, Warning};
use super::{HOST, timeouts, tls};
use crate::reader::Reader;

/// Maximum length of a name, issuer or audience in characters, and maximum number of audiences.
const TEXT_CHARS_MAX: usize = 1024;
const AUDIENCES_MAX: usize = 64;
/// Reason for a route that requires tokens of a provider that its host does not define.
pub(super) const NOT_DEFINED: &str = "JWTProviderNotDefined";
/// Default timeout for fetching keys.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
/// Minimum cache duration of keys in Envoy.
const KEPT_MIN: Duration = Duration::from_millis(1);

/// JWT settings of a host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostJwt {
    filter: Arc<JwtFilter>,
    /// Provider of the required tokens of routes without settings.
    default: Option<Arc<str>>,
}

/// Reason why the token requirement of a route is invalid: field, reason and a sentence.
pub(super) type Refused = (&'static str, &'static str, String);

/// Returns the token that a route requires.
pub(super) fn of_route(
    host: Option<&HostJwt>,
    policy: Option<&JwtVerificationPolicy>,
) -> Result<Option<RouteJwt>, Refused> {
    let policy = policy.cloned().unwrap_or_default();
    let required = policy.require.filter(|provider| !provider.is_empty());
    let provider = match (required, policy.disabled == Some(true)) {
        (Some(_), true) => {
            let message = "route's JWT verification policy cannot specify both require and disabled".to_owned();
            return Err(("jwtVerificationPolicy", "InvalidJWTVerificationPolicy", message));
        }
        (Some(provider), false) => provider,
        (None, true) => return Ok(None),
        (None, false) => match host.and_then(|host| host.default.clone()) {
            Some(provider) => provider,
            None => return Ok(None),
        },
    };
    match host.filter(|host| host.filter.providers.contains_key(&provider)) {
        Some(host) => Ok(Some(RouteJwt { filter: host.filter.clone(), requirement: Requirement::of(&provider) })),
        None => {
            let message = format!("Route references an undefined JWT provider {provider:?}");
            Err(("jwtVerificationPolicy.require", NOT_DEFINED, message))
        }
    }
}

/// Reads the JWT providers of a host; `None` if there are none. `warnings`: about providers that are served, with the
/// fields below `spec.virtualhost`.
pub(super) fn of_host(
    key: &ObjectKey,
    host: &VirtualHost,
    settings: &Settings,
    reader: &mut Reader<'_>,
    warnings: &mut Vec<(String, Warning)>,
) -> Result<Option<HostJwt>, Wrong> {
    let written = host.jwt_providers.as_deref().unwrap_or_default();
    if written.is_empty() {
        return Ok(None);
    }
    let wrong =
        |field: String, reason, message: String| Wrong { field, reason, class: Class::Invalid, message, cause: None };
    let secure = host.tls.as_ref().is_some_and(|tls| tls.secret_name.as_deref().is_some_and(|name| !name.is_empty()));
    if !secure {
        let message = "Spec.VirtualHost.JWTProviders can only be defined for root HTTPProxies that terminate TLS";
        return Err(wrong("jwtProviders".into(), "JWTVerificationNotPermitted", message.into()));
    }
    if written.len() > PROVIDERS_MAX {
        let message = format!("Spec.VirtualHost.JWTProviders is invalid: more than {PROVIDERS_MAX} providers");
        return Err(wrong("jwtProviders".into(), "TooMany", message));
    }
    let (mut providers, mut default) = (BTreeMap::new(), None);
    for (index, provider) in written.iter().enumerate() {
        let field = at("jwtProviders", index);
        let name = provider.name.clone();
        if providers.contains_key(&name) {
            let message = format!("Spec.VirtualHost.JWTProviders is invalid: duplicate name {name}");
            return Err(wrong(format!("{field}.name"), "DuplicateProviderName", message));
        }
        if provider.default == Some(true) && default.replace(name.clone()).is_some() {
            let message =
                "Spec.VirtualHost.JWTProviders is invalid: at most one provider can be set as the default".to_owned();
            return Err(wrong(format!("{field}.default"), "MultipleDefaultProvidersSpecified", message));
        }
        let texts = provider.audiences.iter().flatten().chain(&provider.issuer).chain([&provider.name]);
        let too_long = texts.into_iter().any(|text| text.chars().count() > TEXT_CHARS_MAX || text.contains('\0'));
        if name.is_empty() || too_long || provider.audiences.iter().flatten().count() > AUDIENCES_MAX {
            let message = "Spec.VirtualHost.JWTProviders is invalid: a provider has a name, and at most 64 audiences";
            return Err(wrong(field, "ProviderInvalid", message.into()));
        }
        let (keys, warning) = keys(key, provider, settings, reader)
            .map_err(|wrong| Wrong { field: format!("{field}{}", wrong.field), ..wrong })?;
        warnings.extend(warning.map(|warning| (format!("{field}.remoteJWKS.validation"), warning)));
        let read = Provider {
            issuer: provider.issuer.clone().filter(|issuer| !issuer.is_empty()),
            audiences: provider.audiences.clone().unwrap_or_default(),
            keys,
            forward: provider.forward_jwt == Some(true),
            headers: Vec::new(),
            parameters: Vec::new(),
            cookies: Vec::new(),
            claims: Vec::new(),
        };
        providers.insert(name, read);
    }
    let requirements: BTreeSet<Requirement> = providers.keys().map(Requirement::of).collect();
    let name = names::proxy_jwt_filter(key).into();
    let filter = JwtFilter { name, owners: vec![key.clone()], providers, requirements };
    Ok(Some(HostJwt { filter: Arc::new(filter), default }))
}

/// Keys of a provider, with a warning about the verification of their server.
type KeysResult = Result<(Keys, Option<Warning>), Wrong>;

fn keys(key: &ObjectKey, provider: &JwtProvider, settings: &Settings, reader: &mut Reader<'_>) -> KeysResult {
    let invalid = |reason, message: &str| Wrong {
        field: String::new(),
        reason,
        class: Class::Invalid,
        message: format!("Spec.VirtualHost.JWTProviders is invalid: {message}"),
        cause: None,
    };
    match (&provider.remote_jwks, &provider.local_jwks) {
        (Some(remote), None) => self::remote(key, remote, settings, reader),
        (None, Some(local)) => Ok((self::local(key, local, reader)?, None)),
        (Some(_), Some(_)) => {
            Err(invalid("JWKSSourceConflict", "only one of remoteJWKS and localJWKS can be specified"))
        }
        (None, None) => Err(invalid("JWKSSourceMissing", "one of remoteJWKS and localJWKS must be specified")),
    }
}

fn local(key: &ObjectKey, written: &LocalJwks, reader: &mut Reader<'_>) -> Result<Keys, Wrong> {
    let wrong = |class, message: String| Wrong {
        field: ".localJWKS".into(),
        reason: "LocalJWKSInvalid",
        class,
        message: format!("Spec.VirtualHost.JWTProviders.LocalJWKS is invalid: {message}"),
        cause: None,
    };
    let (name, entry) =
        (written.secret_name.as_deref().unwrap_or_default(), written.key.as_deref().unwrap_or_default());
    let secret = tls::secret(&key.namespace, name);
    reader.edge(key, HOST, &secret, Role::Requires);
    let shown = secret.namespaced_name();
    if !tls::delegated(key, &secret, reader) {
        let message = format!("Secret {shown:?} is not configured for certificate delegation");
        return Err(wrong(Class::Referential, message));
    }
    let data = reader.object(&secret).and_then(|object| match &object.body {
        Body::Secret(secret) => Some(secret.data.clone()),
        _ => None,
    });
    let Some(data) = data else {
        let message = format!("Secret {shown:?} {}", reader.unfound(&secret));
        return Err(Wrong { cause: Some(Box::new(secret)), ..wrong(Class::Referential, message) });
    };
    let Some(bytes) = data.get(entry) else {
        return Err(wrong(Class::Invalid, format!("Secret {shown:?} has no key {entry:?}")));
    };
    let keys = check_keys(bytes).map_err(|why| wrong(Class::Invalid, format!("Secret {shown:?}: {why}")))?;
    Ok(Keys::Written(keys))
}

fn remote(key: &ObjectKey, written: &RemoteJwks, settings: &Settings, reader: &mut Reader<'_>) -> KeysResult {
    let wrong = |below: &str, reason, message: String| Wrong {
        field: format!(".remoteJWKS.{below}"),
        reason,
        class: Class::Invalid,
        message: format!("Spec.VirtualHost.JWTProviders.RemoteJWKS.{message}"),
        cause: None,
    };
    let uri = written.uri.clone().unwrap_or_else(|| "".into());
    let address = address(&uri, settings.allow_loopback_backends).map_err(|fault| match fault {
        Fault::Scheme(scheme) => {
            let message = format!("URI has invalid scheme {scheme:?}, must be http or https");
            wrong("uri", "RemoteJWKSSchemeInvalid", message)
        }
        Fault::Port(port) => wrong("uri", "RemoteJWKSPortInvalid", format!("URI has an invalid port: {port}")),
        Fault::Uri(why) => wrong("uri", "RemoteJWKSURIInvalid", format!("URI is invalid: {why}")),
    })?;
    let UpstreamVerification { required: validation, warning } = match &written.validation {
        Some(_) if !address.https => {
            let message = "UpstreamValidation must not be specified when URI scheme is http.".to_owned();
            return Err(wrong("validation", "RemoteJWKSUpstreamValidationInvalid", message));
        }
        written => validation::read(key, HOST, written.as_ref(), reader).map_err(|no| {
            let NoValidation { reason, class, message: why, cause } = no;
            let (reason, message) = match reason {
                "CACertificateNotDelegated" => {
                    let secret = written.as_ref().map(|written| written.ca_secret.to_string()).unwrap_or_default();
                    let message = format!(
                        "UpstreamValidation.CACertificate Secret {secret:?} is not configured for certificate delegation"
                    );
                    ("RemoteJWKSCACertificateNotDelegated", message)
                }
                _ => ("RemoteJWKSUpstreamValidationInvalid", format!("UpstreamValidation is invalid: {why}")),
            };
            Wrong { class, cause, ..wrong("validation", reason, message) }
        })?,
    };
    let time = |text: Option<&Arc<str>>| {
        text.filter(|text| !text.is_empty()).map(|text| timeouts::go_duration(text)).transpose()
    };
    let timeout = time(written.timeout.as_ref())
        .map_err(|fault| wrong("timeout", "RemoteJWKSTimeoutInvalid", format!("Timeout is invalid: {fault}")))?;
    let kept = time(written.cache_duration.as_ref())
        .and_then(|kept| match kept {
            Some(kept) if kept < KEPT_MIN => Err("it is shorter than 1ms".to_owned()),
            kept => Ok(kept),
        })
        .map_err(|fault| {
            wrong("cacheDuration", "RemoteJWKSCacheDurationInvalid", format!("CacheDuration is invalid: {fault}"))
        })?;
    let family = match written.dns_lookup_family.as_deref().unwrap_or_default() {
        "" | "auto" => Family::Auto,
        "v4" => Family::V4,
        "v6" => Family::V6,
        "all" => Family::All,
        other => {
            let message = format!("DNSLookupFamily has an invalid value {other:?}, must be auto, all, v4 or v6");
            return Err(wrong("dnsLookupFamily", "RemoteJWKSDNSLookupFamilyInvalid", message));
        }
    };
    let tls = address.https.then(|| UpstreamTls { sni: address.host.clone(), validation, ..UpstreamTls::default() });
    let loopback = settings.allow_loopback_backends;
    let remote = Remote::Host(Arc::new(DnsHost { host: address.host, port: address.port, family, tls, loopback }));
    let timeout = timeout.unwrap_or(TIMEOUT_DEFAULT);
    Ok((Keys::Remote { uri, remote, timeout, kept, fetching: Fetching::default() }, warning))
}

/// Host that keys are fetched from.
struct Address {
    https: bool,
    host: Arc<str>,
    port: u16,
}

/// Fault of the address of keys.
#[derive(Debug, PartialEq)]
enum Fault {
    Scheme(String),
    Port(String),
    Uri(String),
}

fn address(uri: &str, allow_loopback: bool) -> Result<Address, Fault> {
    let fault = |why: &str| Fault::Uri(why.to_owned());
    let graphic = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`');
    if uri.len() > URI_BYTES_MAX || !uri.bytes().all(graphic) {
        return Err(fault("it is too long, or has characters that are not allowed in a URL"));
    }
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let https = match &*scheme.to_ascii_lowercase() {
        "https" => true,
        "http" => false,
        _ => return Err(Fault::Scheme(scheme.to_owned())),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || rest.contains('#') {
        return Err(fault("it must have neither a user nor a fragment"));
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None | Some("") => 443 - 363 * u16::from(!https),
        Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| Fault::Port(text.to_owned()))?,
    };
    let host = host.to_ascii_lowercase();
    match host.parse() {
        Ok(address) => {
            holdfast_check::address::allowed(address, allow_loopback).map_err(|why| Fault::Uri(why.to_string()))?;
        }
        Err(_) => {
            holdfast_check::host::precise_hostname(&host).map_err(|why| Fault::Uri(why.to_string()))?;
            if !allow_loopback && (host == "localhost" || host.ends_with(".localhost")) {
                return Err(fault("localhost is the proxy's own host, and cannot be a backend"));
            }
        }
    }
    Ok(Address { https, host: host.into(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_keys() {
        let read = |uri: &str, loopback| {
            address(uri, loopback).map(|address| (address.https, address.host.to_string(), address.port))
        };
        let rows = [
            ("https://a.example.com/jwks", Ok((true, "a.example.com", 443))),
            ("http://a.example.com", Ok((false, "a.example.com", 80))),
            ("https://a.example.com:8443?x=1", Ok((true, "a.example.com", 8443))),
            ("https://[2001:db8::1]:8443/", Ok((true, "2001:db8::1", 8443))),
            ("ftp://a.example.com/", Err(Fault::Scheme("ftp".into()))),
            ("a.example.com", Err(Fault::Scheme(String::new()))),
            ("https://a.example.com:99999/", Err(Fault::Port("99999".into()))),
            ("https://a.example.com:x/", Err(Fault::Port("x".into()))),
        ];
        for (uri, expected) in rows {
            assert_eq!(read(uri, false), expected.map(|(https, host, port)| (https, host.to_owned(), port)), "{uri}");
        }
        for wrong in ["https:///x", "https://u@a.example.com/", "https://a b/", "https://a.example.com/#x", "http://-/"]
        {
            assert!(matches!(read(wrong, true), Err(Fault::Uri(_))), "{wrong}");
        }
        for own in ["http://127.0.0.1/", "http://localhost:9901/", "http://169.254.169.254/", "http://[::1]/"] {
            assert!(matches!(read(own, false), Err(Fault::Uri(_))), "{own}");
        }
        assert!(read("http://127.0.0.1:1/", true).is_ok());
    }
}
