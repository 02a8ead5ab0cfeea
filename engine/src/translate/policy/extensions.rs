//! Fields that ask somebody else: authorization, tokens, limits that all Envoys share, each by a GatewayExtension.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_graph::{ObjectKey, Role};

use super::super::backend::{self, Reference, Referrer};
use super::reading::Reading;
use crate::apis::Body;
use crate::apis::gateway::references::BackendRef;
use crate::apis::kgateway::GROUP;
use crate::apis::kgateway::extension::{
    ExtAuthProvider, GatewayExtension, GrpcService, HttpService, Jwt as WrittenJwt, JwtProvider, RateLimitProvider,
};
use crate::apis::kgateway::traffic_policy::{DescriptorEntry, ExtensionRef, GlobalRateLimit, TrafficSpec};
use crate::check;
use crate::features::ext_auth::{AuthServer, Body as ToldBody, ExtAuth, Spoken, TIMEOUT_DEFAULT};
use crate::features::jwt::{Jwt, JwtFilter, Keys, PROVIDERS_MAX, Provider, Requirement, URI_BYTES_MAX, check_keys};
use crate::features::rate_limit::{Entry, GlobalLimit, RateLimitService};
use crate::features::remote::Remote;
use crate::model::{Like, Part, Protocol};
use crate::policies::settings::Piece;

/// How long a rate limit service may take where nothing is set.
const LIMIT_TIMEOUT: Duration = Duration::from_millis(100);
/// How long fetching keys may take.
const KEYS_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    if let Some(written) = &spec.ext_auth {
        let field = "extAuth";
        match (&written.extension_ref, &written.disable) {
            (None, Some(_)) => reading.piece(field, Piece::ExtAuth(None)),
            (Some(reference), None) => {
                if written.with_request_body.is_some() {
                    reading.unsupported("extAuth.withRequestBody");
                }
                let context: BTreeMap<_, _> = written.context_extensions.clone().unwrap_or_default();
                if let Some(server) = server(reference, reading) {
                    let auth = ExtAuth { server, context };
                    reading.flaws(field, auth.check());
                    reading.piece(field, Piece::ExtAuth(Some(auth)));
                }
            }
            _ => reading.invalid("spec.extAuth", "exactly one of extensionRef and disable must be set"),
        }
    }
    if let Some(written) = &spec.jwt_auth {
        match (&written.extension_ref, &written.disable) {
            (None, Some(_)) => reading.piece("jwtAuth", Piece::Jwt(None)),
            (Some(reference), None) => {
                if let Some(jwt) = jwt(reference, reading) {
                    reading.piece("jwtAuth", Piece::Jwt(Some(jwt)));
                }
            }
            _ => reading.invalid("spec.jwtAuth", "exactly one of extensionRef and disable must be set"),
        }
    }
    if let Some(written) = spec.rate_limit.as_ref().and_then(|limits| limits.global.as_ref())
        && let Some(limit) = limit(written, reading)
    {
        reading.piece("rateLimit.global", Piece::GlobalLimit(limit));
    }
}

/// The GatewayExtension that a field names.
pub(super) fn extension<'a>(
    field: &str,
    reference: &ExtensionRef,
    reading: &mut Reading<'_, 'a>,
) -> Option<(ObjectKey, &'a GatewayExtension)> {
    let namespace = reference.namespace.as_deref().unwrap_or(&reading.key.namespace);
    let key = ObjectKey::new(GROUP, "GatewayExtension", namespace, &*reference.name);
    let field = format!("spec.{field}.extensionRef");
    reading.reader.edge(reading.key, "", &key, Role::Requires);
    if !reading.reader.granted((GROUP, &reading.key.kind, &reading.key.namespace), &key) {
        let message = format!(
            "GatewayExtension {} is in another namespace, and no ReferenceGrant there allows it to be used",
            key.namespaced_name()
        );
        reading.missing(field, "RefNotPermitted", message);
        return None;
    }
    match reading.reader.object(&key).map(|object| &object.body) {
        Some(Body::GatewayExtension(extension)) => {
            reading.read_from(&key);
            for unread in &extension.unread {
                let message =
                    format!("GatewayExtension {}: {}: {}", key.namespaced_name(), unread.field, unread.message);
                reading.invalid(&field, message);
            }
            extension.unread.is_empty().then_some((key, &**extension))
        }
        _ => {
            let message = format!("GatewayExtension {} does not exist, or cannot be read", key.namespaced_name());
            reading.missing(field, "ExtensionNotFound", message);
            None
        }
    }
}

/// A GatewayExtension that a field uses, while it is read.
pub(super) struct Used<'u, 'r, 'a> {
    pub(super) key: &'u ObjectKey,
    /// The field of the policy.
    pub(super) field: &'u str,
    pub(super) reading: &'u mut Reading<'r, 'a>,
}

impl Used<'_, '_, '_> {
    pub(super) fn wrong(&mut self, below: &str, message: impl std::fmt::Display) {
        let message = format!("GatewayExtension {}: spec.{below}: {message}", self.key.namespaced_name());
        self.reading.invalid(format!("spec.{}.extensionRef", self.field), message);
    }

    /// Fields that are set and cannot be served.
    fn unserved(&mut self, fields: &[(&str, bool)]) {
        for (field, _) in fields.iter().filter(|(_, is_set)| *is_set) {
            self.wrong(field, "cannot be served by this version of Holdfast");
        }
    }

    pub(super) fn duration(&mut self, below: &str, text: Option<&str>) -> Option<Duration> {
        match text.map(check::duration::duration)? {
            Ok(duration) => Some(duration),
            Err(fault) => {
                self.wrong(below, fault);
                None
            }
        }
    }

    /// Whom it asks.
    pub(super) fn remote(&mut self, below: &str, written: Option<&BackendRef>, grpc: bool) -> Option<Remote> {
        let Some(written) = written else {
            self.wrong(below, "backendRef must be set");
            return None;
        };
        let field = format!("spec.{below}");
        let referrer = Referrer { route: self.key, section: "", field: &field, role: Role::Requires };
        let reference = Reference {
            group: written.group.as_deref(),
            kind: written.kind.as_deref(),
            namespace: written.namespace.as_deref(),
            name: &written.name,
            port: written.port,
        };
        match backend::resolve(&referrer, &reference, self.reading.reader) {
            Ok(mut backend) => {
                if grpc {
                    backend.protocol = Protocol::H2c;
                }
                Some(Remote::Backend(backend))
            }
            Err(fault) => {
                let message =
                    format!("GatewayExtension {}: {}: {}", self.key.namespaced_name(), fault.field, fault.message);
                self.reading.missing(format!("spec.{}.extensionRef", self.field), fault.reason, message);
                None
            }
        }
    }

    pub(super) fn grpc(&mut self, below: &str, service: &GrpcService) -> Option<Remote> {
        self.unserved(&[
            (&format!("{below}.authority"), service.authority.is_some()),
            (&format!("{below}.retry"), service.retry.is_some()),
        ]);
        self.remote(&format!("{below}.backendRef"), service.backend_ref.as_ref(), true)
    }
}

fn exactly(names: &[Arc<str>]) -> Vec<Like> {
    let like = |name: &Arc<str>| Like { part: Part::Whole, text: name.clone(), ignore_case: true };
    names.iter().map(like).collect()
}

fn server(reference: &ExtensionRef, reading: &mut Reading<'_, '_>) -> Option<Arc<AuthServer>> {
    let (key, extension) = extension("extAuth", reference, reading)?;
    let mut used = Used { key: &key, field: "extAuth", reading };
    let Some(written) = &extension.ext_auth else {
        used.wrong("extAuth", "must be set for a policy's extAuth");
        return None;
    };
    let ExtAuthProvider { grpc_service, http_service, with_request_body, status_on_error, .. } = written;
    used.unserved(&[("extAuth.statPrefix", written.stat_prefix.is_some())]);
    let (remote, spoken, timeout) = match (grpc_service, http_service) {
        (Some(service), None) => {
            let timeout = used.duration("extAuth.grpcService.requestTimeout", service.request_timeout.as_deref());
            (used.grpc("extAuth.grpcService", service)?, Spoken::Grpc, timeout)
        }
        (None, Some(service)) => over_http(service, &mut used)?,
        _ => {
            used.wrong("extAuth", "exactly one of grpcService and httpService must be set");
            return None;
        }
    };
    let status_on_error = match status_on_error.map(u16::try_from).transpose() {
        Ok(status) => status.filter(|status| (100..=511).contains(status)),
        Err(_) => None,
    };
    if written.status_on_error.is_some() && status_on_error.is_none() {
        used.wrong("extAuth.statusOnError", "goes from 100 to 511");
    }
    let body = with_request_body.as_ref().map(|body| ToldBody {
        max: body.max_request_bytes.and_then(|max| u32::try_from(max).ok()).unwrap_or(0),
        partial: body.allow_partial_message == Some(true),
        as_bytes: body.pack_as_bytes == Some(true),
    });
    let fail_open = written.fail_open == Some(true);
    let server = AuthServer {
        name: name("ext_auth", &key, fail_open),
        owners: vec![key.clone()],
        remote,
        spoken,
        timeout: timeout.unwrap_or(TIMEOUT_DEFAULT),
        fail_open,
        body,
        headers: exactly(written.headers_to_forward.as_deref().unwrap_or_default()),
        may_reroute: written.clear_route_cache == Some(true),
        status_on_error,
    };
    let flaws = server.check();
    for flaw in &flaws {
        used.wrong(&format!("extAuth.{}", flaw.field), &flaw.message);
    }
    flaws.is_empty().then(|| Arc::new(server))
}

fn over_http(service: &HttpService, used: &mut Used<'_, '_, '_>) -> Option<(Remote, Spoken, Option<Duration>)> {
    let answer = service.authorization_response.clone().unwrap_or_default();
    let added = service.authorization_request.as_ref().is_some_and(|request| request.headers_to_add.is_some());
    used.unserved(&[
        ("extAuth.httpService.authorizationRequest.headersToAdd", added),
        ("extAuth.httpService.authorizationResponse.headersToClient", answer.headers_to_client.is_some()),
        (
            "extAuth.httpService.authorizationResponse.headersToClientOnSuccess",
            answer.headers_to_client_on_success.is_some(),
        ),
        ("extAuth.httpService.retry", service.retry.is_some()),
    ]);
    let timeout = used.duration("extAuth.httpService.requestTimeout", service.request_timeout.as_deref());
    let remote = used.remote("extAuth.httpService.backendRef", service.backend_ref.as_ref(), false)?;
    let path_prefix = service.path_prefix.clone().unwrap_or_default();
    let to_backend = exactly(answer.headers_to_backend.as_deref().unwrap_or_default());
    Some((remote, Spoken::Http { path_prefix, to_backend }, timeout))
}

/// What a filter is called. One that lets requests pass without an answer must not be taken for one that does not.
pub(super) fn name(filter: &str, key: &ObjectKey, fail_open: bool) -> Arc<str> {
    let open = if fail_open { "/open" } else { "" };
    format!("{filter}/extension/{}/{}{open}", key.namespace, key.name).into()
}

fn jwt(reference: &ExtensionRef, reading: &mut Reading<'_, '_>) -> Option<Jwt> {
    let (key, extension) = extension("jwtAuth", reference, reading)?;
    let mut used = Used { key: &key, field: "jwtAuth", reading };
    let Some(WrittenJwt { validation_mode, providers: written }) = &extension.jwt else {
        used.wrong("jwt", "must be set for a policy's jwtAuth");
        return None;
    };
    let allow_missing = match validation_mode.as_deref() {
        None | Some("Strict") => false,
        Some("AllowMissing") => true,
        Some(other) => {
            used.wrong("jwt.validationMode", format!("{other:?} is neither Strict nor AllowMissing"));
            return None;
        }
    };
    if written.is_empty() || written.len() > PROVIDERS_MAX {
        used.wrong("jwt.providers", format!("must have at least 1 and at most {PROVIDERS_MAX} entries"));
        return None;
    }
    let mut providers = BTreeMap::new();
    for (index, written) in written.iter().enumerate() {
        let provider = provider(&format!("jwt.providers[{index}]"), written, &mut used)?;
        if providers.insert(written.name.clone(), provider).is_some() {
            used.wrong(&format!("jwt.providers[{index}].name"), "stands there twice");
            return None;
        }
    }
    let requirement = Requirement { providers: providers.keys().cloned().collect(), allow_missing };
    let filter = JwtFilter {
        name: name("jwt", &key, false),
        owners: vec![key.clone()],
        providers,
        requirements: [requirement.clone()].into(),
    };
    Some(Jwt { filter: Arc::new(filter), requirement })
}

fn provider(field: &str, written: &JwtProvider, used: &mut Used<'_, '_, '_>) -> Option<Provider> {
    let jwks = written.jwks.clone().unwrap_or_default();
    let keys = match (&jwks.local, &jwks.remote) {
        (Some(local), None) => {
            let Some(text) = &local.inline else {
                used.wrong(
                    &format!("{field}.jwks.local"),
                    "only inline keys can be served by this version of Holdfast",
                );
                return None;
            };
            match check_keys(text.as_bytes()) {
                Ok(keys) => Keys::Written(keys),
                Err(message) => {
                    used.wrong(&format!("{field}.jwks.local.inline"), message);
                    return None;
                }
            }
        }
        (None, Some(remote)) => {
            used.unserved(&[
                (&format!("{field}.jwks.remote.asyncFetch"), remote.async_fetch.is_some()),
                (&format!("{field}.jwks.remote.retryPolicy"), remote.retry_policy.is_some()),
            ]);
            if remote.url.is_empty() || remote.url.len() > URI_BYTES_MAX || !remote.url.starts_with("http") {
                used.wrong(&format!("{field}.jwks.remote.url"), "must be an address of http or https");
                return None;
            }
            let kept = used.duration(&format!("{field}.jwks.remote.cacheDuration"), remote.cache_duration.as_deref());
            let below = format!("{field}.jwks.remote.backendRef");
            let asked = used.remote(&below, remote.backend_ref.as_ref(), false)?;
            Keys::Remote { uri: remote.url.clone(), remote: asked, timeout: KEYS_TIMEOUT, kept }
        }
        _ => {
            used.wrong(&format!("{field}.jwks"), "exactly one of local and remote must be set");
            return None;
        }
    };
    let source = written.token_source.clone().unwrap_or_default();
    let mut headers = Vec::new();
    if let Some(header) = &source.header {
        let name = header.header.as_deref().unwrap_or("Authorization");
        match check::header::name(name) {
            Ok(name) => headers.push((name.into(), header.prefix.clone().unwrap_or_default())),
            Err(fault) => {
                used.wrong(&format!("{field}.tokenSource.header.header"), fault);
                return None;
            }
        }
    }
    let mut claims = Vec::new();
    for (index, claim) in written.claims_to_headers.iter().flatten().enumerate() {
        match check::header::modifiable_name(&claim.header) {
            Ok(header) => claims.push((claim.name.clone(), header.into())),
            Err(fault) => {
                used.wrong(&format!("{field}.claimsToHeaders[{index}].header"), fault);
                return None;
            }
        }
    }
    Some(Provider {
        issuer: written.issuer.clone().filter(|issuer| !issuer.is_empty()),
        audiences: written.audiences.clone().unwrap_or_default(),
        keys,
        forward: written.forward_token == Some(true),
        headers,
        parameters: source.query_parameter.into_iter().collect(),
        cookies: Vec::new(),
        claims,
    })
}

fn limit(written: &GlobalRateLimit, reading: &mut Reading<'_, '_>) -> Option<GlobalLimit> {
    let Some(reference) = &written.extension_ref else {
        reading.invalid("spec.rateLimit.global", "extensionRef must be set");
        return None;
    };
    let (key, extension) = extension("rateLimit.global", reference, reading)?;
    let mut descriptors = Vec::new();
    for (index, descriptor) in written.descriptors.iter().enumerate() {
        let mut entries = Vec::new();
        for (place, written) in descriptor.entries.iter().enumerate() {
            let Some(entry) = entry(written) else {
                let field = format!("spec.rateLimit.global.descriptors[{index}].entries[{place}]");
                reading.invalid(field, "must have a type, with what belongs to it and nothing else");
                return None;
            };
            entries.push(entry);
        }
        descriptors.push(entries);
    }
    if descriptors.is_empty() {
        reading.invalid("spec.rateLimit.global.descriptors", "must have an entry");
        return None;
    }
    let mut used = Used { key: &key, field: "rateLimit.global", reading };
    let Some(RateLimitProvider { grpc_service: Some(service), domain: Some(domain), fail_open, timeout, .. }) =
        &extension.rate_limit
    else {
        used.wrong("rateLimit", "must be set, with domain and grpcService, for a policy's rateLimit.global");
        return None;
    };
    used.unserved(&[("rateLimit.grpcService.requestTimeout", service.request_timeout.is_some())]);
    let tell_clients = match extension.rate_limit.as_ref().and_then(|limit| limit.x_rate_limit_headers.as_deref()) {
        None | Some("Off") => false,
        Some("DraftVersion03") => true,
        Some(other) => {
            used.wrong("rateLimit.xRateLimitHeaders", format!("{other:?} is neither Off nor DraftVersion03"));
            return None;
        }
    };
    let fail_open = *fail_open != Some(false);
    let timeout = used.duration("rateLimit.timeout", timeout.as_deref()).unwrap_or(LIMIT_TIMEOUT);
    let service = RateLimitService {
        name: name("ratelimit", &key, fail_open),
        owners: vec![key.clone()],
        remote: used.grpc("rateLimit.grpcService", service)?,
        domain: domain.clone(),
        timeout,
        fail_open,
        tell_clients,
        resource_exhausted: false,
    };
    let limit = GlobalLimit { service: Arc::new(service), descriptors };
    let flaws = limit.check();
    let usable = flaws.is_empty();
    used.reading.flaws("rateLimit.global", flaws);
    usable.then_some(limit)
}

fn entry(written: &DescriptorEntry) -> Option<Entry> {
    match (&*written.kind, &written.generic, &written.header) {
        ("Generic", Some(generic), None) => {
            Some(Entry::Generic { key: Some(generic.key.clone()), value: generic.value.clone() })
        }
        ("Header", None, Some(header)) => Some(Entry::Header { name: header.clone(), key: header.clone() }),
        ("RemoteAddress", None, None) => Some(Entry::RemoteAddress),
        ("Path", None, None) => Some(Entry::Path),
        _ => None,
    }
}
