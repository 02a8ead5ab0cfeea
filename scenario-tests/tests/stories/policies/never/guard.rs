//! Protecting fields: each with an allowed request, a denied request, and three ways to break it.
//!
//! A new field needs an entry in `FIELDS` and one in `guard`; if it is not available at every level, also one in
//! `levels`.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, bail};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::manifests::{NAMESPACE, documents, service};
use holdfast_scenario_tests::request::HttpRequest;
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, REFUSED};
use holdfast_scenario_tests::services::limits::Limiter;
use holdfast_scenario_tests::services::login::{CLIENT, LoginServer};
use holdfast_scenario_tests::services::processing::{self, ProcessingServer};
use holdfast_scenario_tests::services::tokens::TokenMaker;
use hyper::Method;

use super::level::AttachmentLevel;
use super::tls::{self, PolicyKind};

/// All fields that decide whether a request is allowed.
pub(super) const FIELDS: [&str; 15] = [
    "basicAuth",
    "apiKeyAuth",
    "acl",
    "rbac",
    "csrf",
    "buffer",
    "rateLimit.local",
    "extAuth",
    "jwtAuth",
    "rateLimit.global",
    "extProc",
    "oauth2",
    "clientCertificateValidation",
    "BackendConfigPolicy.tls",
    "BackendTLSPolicy",
];
/// Marks a refused connection instead of a status.
pub(super) const REFUSED_CONNECTION: u16 = 0;

/// A regular expression that translation accepts, and an Envoy with its default limit refuses.
pub(super) const LARGE: &str = "([a-z0-9]{1,40}-[a-z0-9]{1,40})";

type RequestChange = Box<dyn Fn(HttpRequest) -> HttpRequest + Send + Sync>;

/// A protecting field in use.
pub(super) struct ProtectingField {
    /// The kind of the policy.
    pub(super) kind: PolicyKind,
    /// The spec of the policy.
    pub(super) spec: String,
    /// The objects that it refers to; empty where there are none.
    pub(super) besides: String,
    /// Objects that exist during the whole story; empty where none are needed.
    pub(super) fixtures: String,
    /// Makes a request that is allowed; unset where no request is allowed permanently.
    pub(super) passing: Option<RequestChange>,
    /// Makes a request that is denied.
    pub(super) failing: RequestChange,
    /// The status of a denied request.
    pub(super) status: u16,
    /// Number of requests per edit that pass although they should be denied: the remainder of a rate limit.
    pub(super) slack: u64,
    /// A spec that refers to a missing object.
    missing: Option<String>,
    /// A spec that cannot be enforced.
    pub(super) bad: String,
    /// A spec that only Envoy refuses.
    pub(super) refused: String,
    /// The server that Envoy calls; it runs until the guard is dropped.
    _server: Option<Box<dyn Any + Send + Sync>>,
}

impl ProtectingField {
    pub(super) fn new(
        spec: &str,
        status: u16,
        failing: impl Fn(HttpRequest) -> HttpRequest + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind: PolicyKind::default(),
            fixtures: String::new(),
            spec: spec.to_owned(),
            besides: String::new(),
            passing: None,
            failing: Box::new(failing),
            status,
            slack: 0,
            missing: None,
            bad: String::new(),
            // A mistake in another field of the same policy: fields are enforced together, or not at all.
            refused: format!("{spec}\ncsrf: {{additionalOrigins: [{{safeRegex: '{LARGE}'}}]}}"),
            _server: None,
        }
    }

    pub(super) fn passing(self, change: impl Fn(HttpRequest) -> HttpRequest + Send + Sync + 'static) -> Self {
        Self { passing: Some(Box::new(change)), ..self }
    }

    pub(super) fn bad(self, spec: &str) -> Self {
        Self { bad: spec.to_owned(), ..self }
    }

    fn missing(self, spec: &str) -> Self {
        Self { missing: Some(spec.to_owned()), ..self }
    }

    pub(super) fn besides(self, objects: String) -> Self {
        Self { besides: objects, ..self }
    }

    pub(super) fn calling(self, server: impl Any + Send + Sync) -> Self {
        Self { _server: Some(Box::new(server)), ..self }
    }

    /// Uses another kind of policy, with objects that exist during the whole story; `refused` is the spec that only
    /// Envoy refuses.
    pub(super) fn of(self, kind: PolicyKind, refused: String, fixtures: String) -> Self {
        Self { kind, refused, fixtures, ..self }
    }

    /// Returns a spec that refers to a missing object.
    pub(super) fn missing_spec(&self) -> String {
        // Uses another field where this one has no reference.
        let other = || format!("{}\napiKeyAuth: {{secretRef: {{name: nobody}}}}", self.spec);
        self.missing.clone().unwrap_or_else(other)
    }
}

/// The levels at which a field is available.
pub(super) fn levels(field: &str) -> &'static [AttachmentLevel] {
    match field {
        // Client certificates require TLS.
        "clientCertificateValidation" => &[AttachmentLevel::Secure, AttachmentLevel::Doors],
        "BackendConfigPolicy.tls" | "BackendTLSPolicy" => &[AttachmentLevel::Backend],
        _ => &AttachmentLevel::OF_TRAFFIC,
    }
}

/// Creates the guard of a field; the objects that it refers to are named after the level.
pub(super) async fn guard(field: &str, level: AttachmentLevel, world: &World) -> Result<ProtectingField> {
    let place = level.name();
    Ok(match field {
        "basicAuth" => basic_auth(),
        "apiKeyAuth" => api_key(place),
        "acl" => acl(),
        "rbac" => rbac(),
        "csrf" => csrf(),
        "buffer" => buffer(),
        "rateLimit.local" => local_limit(),
        "extAuth" => ext_auth(place).await?,
        "jwtAuth" => jwt(place).await?,
        "rateLimit.global" => global_limit(place).await?,
        "extProc" => ext_proc(place).await?,
        "oauth2" => oauth2(place).await?,
        "clientCertificateValidation" => tls::clients(level)?,
        "BackendConfigPolicy.tls" => tls::backend(PolicyKind::Backend, world, place).await?,
        "BackendTLSPolicy" => tls::backend(PolicyKind::BackendTls, world, place).await?,
        other => bail!("there is no guard for {other}"),
    })
}

fn basic_auth() -> ProtectingField {
    ProtectingField::new("basicAuth: {users: ['alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=']}", 401, |request| {
        request.header("authorization", "Basic YWxpY2U6d3Jvbmc=")
    })
    .passing(|request| request.header("authorization", "Basic YWxpY2U6c2VzYW1l"))
    .missing("basicAuth: {secretRef: {name: nobody}}")
    .bad("basicAuth: {users: ['alice:sesame']}")
}

fn api_key(place: &str) -> ProtectingField {
    let spec = format!("apiKeyAuth: {{secretRef: {{name: keys-{place}}}}}");
    let secret = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: keys-{place}, namespace: {NAMESPACE}}}, \
         stringData: {{alice: k-123}}}}"
    );
    ProtectingField::new(&spec, 401, |request| request.header("api-key", "k-124"))
        .passing(|request| request.header("api-key", "k-123"))
        .besides(secret)
        .bad(&format!("apiKeyAuth: {{secretRef: {{name: keys-{place}}}, keySources: [{{}}]}}"))
}

/// The loopback address that is allowed.
const WELCOME: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn acl() -> ProtectingField {
    let list = |range: &str| format!("acl: {{defaultAction: deny, rules: [{{cidrs: [{range}], action: allow}}]}}");
    ProtectingField::new(&list("127.0.0.2"), 403, |request| request)
        .passing(|request| request.coming_from(WELCOME))
        .bad(&list("127.0.0.2/8"))
}

fn rbac() -> ProtectingField {
    let of =
        |more: &str| format!("rbac: {{policy: {{matchExpressions: [\"request.headers['role'] == 'admin'{more}\"]}}}}");
    let guard = ProtectingField::new(&of(""), 403, |request| request.header("role", "guest"));
    // The regular expression is a larger program in Envoy, which compiles it as UTF-8, than its text suggests.
    ProtectingField { refused: of(" && request.path.matches('.{20}')"), ..guard }
        .passing(|request| request.header("role", "admin"))
        .bad(&of(" && nobody()"))
}

fn csrf() -> ProtectingField {
    let origins = |more: &str| {
        format!("csrf: {{percentageEnabled: 100, additionalOrigins: [{{suffix: .friend.example}}{more}]}}")
    };
    let from = |request: HttpRequest, origin: &str| request.method(Method::POST).header("origin", origin);
    let guard = ProtectingField::new(&origins(""), 403, move |request| from(request, "http://evil.example"));
    ProtectingField { refused: origins(&format!(", {{safeRegex: '{LARGE}'}}")), ..guard }
        .passing(move |request| from(request, "http://a.friend.example"))
        .bad(&origins(", {safeRegex: '('}"))
}

fn buffer() -> ProtectingField {
    let of = |request: HttpRequest, bytes: usize| request.method(Method::POST).body(vec![b'x'; bytes]);
    ProtectingField::new("buffer: {maxRequestSize: 1Ki}", 413, move |request| of(request, 2048))
        .passing(move |request| of(request, 512))
        .bad("buffer: {maxRequestSize: 0}")
}

/// Each edit refills the token bucket, and so does any edit of other objects in the same route configuration.
const EDITS_MAX: u64 = 20;

fn local_limit() -> ProtectingField {
    let bucket = |most: u32| {
        format!("rateLimit: {{local: {{tokenBucket: {{maxTokens: {most}, tokensPerFill: 1, fillInterval: 1h}}}}}}")
    };
    let guard = ProtectingField::new(&bucket(1), 429, |request| request).bad(&bucket(0));
    ProtectingField { slack: EDITS_MAX, ..guard }
}

/// Returns a GatewayExtension and its Service.
fn extension(name: &str, spec: &str, address: SocketAddr) -> String {
    documents(&[
        service(NAMESPACE, name, Some("kubernetes.io/h2c"), &[address]),
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
             metadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec:\n  {spec}\n"
        ),
    ])
}

async fn ext_auth(place: &str) -> Result<ProtectingField> {
    let server = Authorizer::grpc().await?;
    let name = format!("auth-{place}");
    let spec = format!("extAuth: {{grpcService: {{backendRef: {{name: {name}, port: 8080}}, requestTimeout: 5s}}}}");
    let used = |by: &str| format!("{by}: {{extensionRef: {{name: {name}}}}}");
    Ok(ProtectingField::new(&used("extAuth"), REFUSED, |request| request)
        .passing(|request| request.header("authorization", CREDENTIALS))
        .besides(extension(&name, &spec, server.address()))
        .bad(&used("jwtAuth"))
        .calling(server))
}

async fn jwt(place: &str) -> Result<ProtectingField> {
    let maker = TokenMaker::start("maker").await?;
    let (name, bearer) = (format!("tokens-{place}"), maker.bearer("shop")?);
    let spec =
        format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{}'}}}}}}]}}", maker.keys()?);
    let used = |by: &str| format!("{by}: {{extensionRef: {{name: {name}}}}}");
    Ok(ProtectingField::new(&used("jwtAuth"), 401, |request| request.header("authorization", "Bearer nonsense"))
        .passing(move |request| request.header("authorization", &bearer))
        .besides(extension(&name, &spec, maker.address()))
        .bad(&used("extAuth"))
        .calling(maker))
}

async fn global_limit(place: &str) -> Result<ProtectingField> {
    // The limit is 0: a request with a descriptor is denied, a request without one is allowed.
    let limiter = Limiter::start(0).await?;
    let name = format!("limits-{place}");
    let spec = format!(
        "rateLimit: {{domain: shop, failOpen: false, timeout: 5s, grpcService: {{backendRef: {{name: {name}, port: 8080}}}}}}"
    );
    let used = |header: &str| {
        format!(
            "rateLimit: {{global: {{extensionRef: {{name: {name}}}, descriptors: [{{entries: [{{type: Header, header: {header}}}]}}]}}}}"
        )
    };
    Ok(ProtectingField::new(&used("x-counted"), 429, |request| request.header("x-counted", "yes"))
        .passing(|request| request)
        .besides(extension(&name, &spec, limiter.address()))
        .bad(&used("'no header'"))
        .calling(limiter))
}

async fn ext_proc(place: &str) -> Result<ProtectingField> {
    let server = ProcessingServer::start().await?;
    let name = format!("seen-{place}");
    let spec = format!(
        "extProc: {{failOpen: false, messageTimeout: 5s, grpcService: {{backendRef: {{name: {name}, port: 8080}}}}}}"
    );
    let used = |more: &str| format!("extProc: {{extensionRef: {{name: {name}}}{more}}}");
    Ok(ProtectingField::new(&used(""), 403, |request| request)
        .passing(|request| request.header("x-word", processing::PASS))
        .besides(extension(&name, &spec, server.address()))
        .bad(&used(", processingMode: {requestBodyMode: SOMETIMES}"))
        .calling(server))
}

async fn oauth2(place: &str) -> Result<ProtectingField> {
    let server = LoginServer::start("s3cret").await?;
    let name = format!("login-{place}");
    let spec = format!(
        "oauth2: {{backendRef: {{name: {name}, port: 8080}}, authorizationEndpoint: https://login.example.com/authorize, \
         tokenEndpoint: https://login.example.com/token, \
         credentials: {{clientID: {CLIENT}, clientSecretRef: {{name: {name}}}}}}}"
    );
    let secret = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: {NAMESPACE}}}, \
         stringData: {{client-secret: s3cret}}}}"
    );
    let used = |by: &str| format!("{by}: {{extensionRef: {{name: {name}}}}}");
    // No login here: other stories cover it.
    Ok(ProtectingField::new(&used("oauth2"), 302, |request| {
        request.header("cookie", "BearerToken=a; OauthHMAC=b; OauthExpires=4102444800")
    })
    .besides(documents(&[extension(&name, &spec, server.address()), secret]))
    .bad(&used("jwtAuth"))
    .calling(server))
}
