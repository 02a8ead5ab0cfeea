//! What protects, field by field: each with a request that may pass, one that may not, and three ways to break it.
//!
//! A new field joins with an entry in `FIELDS` and one in `guard`; where it cannot stand at every level, one in `levels`.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, bail};
use holdfast_scenario_tests::World;
use holdfast_scenario_tests::ask::Ask;
use holdfast_scenario_tests::asked::auth::{Authorizer, REFUSED, WORD};
use holdfast_scenario_tests::asked::limits::Limiter;
use holdfast_scenario_tests::asked::login::{CLIENT, LoginServer};
use holdfast_scenario_tests::asked::processing::{self, ProcessingServer};
use holdfast_scenario_tests::asked::tokens::TokenMaker;
use holdfast_scenario_tests::manifests::{NAMESPACE, documents, service};
use hyper::Method;

use super::level::Level;
use super::tls::{self, Kind};

/// Every field that decides who may come in.
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
/// Stands for a connection that is refused.
pub(super) const REFUSED_CONNECTION: u16 = 0;

/// An expression that translation takes, and that an Envoy with its own limit refuses.
pub(super) const LARGE: &str = "([a-z0-9]{1,40}-[a-z0-9]{1,40})";

type Change = Box<dyn Fn(Ask) -> Ask + Send + Sync>;

/// Something that protects.
pub(super) struct Guard {
    /// Which policy it is.
    pub(super) kind: Kind,
    /// What it says.
    pub(super) spec: String,
    /// The objects that it names; empty where it names none.
    pub(super) besides: String,
    /// Objects that are there all the while; empty where none are needed.
    pub(super) standing: String,
    /// Makes a request one that may pass; unset where nobody may in the long run.
    pub(super) passing: Option<Change>,
    /// Makes a request one that may not.
    pub(super) failing: Change,
    /// What that is answered.
    pub(super) status: u16,
    /// How many of those that may not pass do each time that something is edited: what is left of a limit.
    pub(super) slack: u64,
    /// What a policy says that names something that is not there.
    missing: Option<String>,
    /// What a policy says that cannot be enforced.
    pub(super) bad: String,
    /// What a policy says that only Envoy refuses.
    pub(super) refused: String,
    /// Whom Envoy asks, at work for as long as this is there.
    _asked: Option<Box<dyn Any + Send + Sync>>,
}

impl Guard {
    pub(super) fn new(spec: &str, status: u16, failing: impl Fn(Ask) -> Ask + Send + Sync + 'static) -> Self {
        Self {
            kind: Kind::default(),
            standing: String::new(),
            spec: spec.to_owned(),
            besides: String::new(),
            passing: None,
            failing: Box::new(failing),
            status,
            slack: 0,
            missing: None,
            bad: String::new(),
            // Of another field of the same policy: fields are enforced together, or not at all.
            refused: format!("{spec}\ncsrf: {{additionalOrigins: [{{safeRegex: '{LARGE}'}}]}}"),
            _asked: None,
        }
    }

    pub(super) fn passing(self, change: impl Fn(Ask) -> Ask + Send + Sync + 'static) -> Self {
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

    pub(super) fn asking(self, asked: impl Any + Send + Sync) -> Self {
        Self { _asked: Some(Box::new(asked)), ..self }
    }

    /// Said by another kind of policy, beside objects that are there all the while; `refused` is what only Envoy refuses.
    pub(super) fn of(self, kind: Kind, refused: String, standing: String) -> Self {
        Self { kind, refused, standing, ..self }
    }

    /// What a policy says that names something that is not there.
    pub(super) fn missing_spec(&self) -> String {
        // Of another field where this one names nothing.
        let other = || format!("{}\napiKeyAuth: {{secretRef: {{name: nobody}}}}", self.spec);
        self.missing.clone().unwrap_or_else(other)
    }
}

/// Where a field can stand.
pub(super) fn levels(field: &str) -> &'static [Level] {
    match field {
        // Without TLS nobody shows a certificate.
        "clientCertificateValidation" => &[Level::Secure, Level::Doors],
        "BackendConfigPolicy.tls" | "BackendTLSPolicy" => &[Level::BackEnd],
        _ => &Level::OF_TRAFFIC,
    }
}

/// A field at work; what it names is named after the place.
pub(super) async fn guard(field: &str, level: Level, world: &World) -> Result<Guard> {
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
        "BackendConfigPolicy.tls" => tls::back_end(Kind::BackEnd, world, place).await?,
        "BackendTLSPolicy" => tls::back_end(Kind::BackEndTls, world, place).await?,
        other => bail!("there is no guard for {other}"),
    })
}

fn basic_auth() -> Guard {
    Guard::new("basicAuth: {users: ['alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=']}", 401, |ask| {
        ask.header("authorization", "Basic YWxpY2U6d3Jvbmc=")
    })
    .passing(|ask| ask.header("authorization", "Basic YWxpY2U6c2VzYW1l"))
    .missing("basicAuth: {secretRef: {name: nobody}}")
    .bad("basicAuth: {users: ['alice:sesame']}")
}

fn api_key(place: &str) -> Guard {
    let spec = format!("apiKeyAuth: {{secretRef: {{name: keys-{place}}}}}");
    let secret = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: keys-{place}, namespace: {NAMESPACE}}}, \
         stringData: {{alice: k-123}}}}"
    );
    Guard::new(&spec, 401, |ask| ask.header("api-key", "k-124"))
        .passing(|ask| ask.header("api-key", "k-123"))
        .besides(secret)
        .bad(&format!("apiKeyAuth: {{secretRef: {{name: keys-{place}}}, keySources: [{{}}]}}"))
}

/// The loopback address that may come in.
const WELCOME: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn acl() -> Guard {
    let list = |range: &str| format!("acl: {{defaultAction: deny, rules: [{{cidrs: [{range}], action: allow}}]}}");
    Guard::new(&list("127.0.0.2"), 403, |ask| ask).passing(|ask| ask.coming_from(WELCOME)).bad(&list("127.0.0.2/8"))
}

fn rbac() -> Guard {
    let of =
        |more: &str| format!("rbac: {{policy: {{matchExpressions: [\"request.headers['role'] == 'admin'{more}\"]}}}}");
    let guard = Guard::new(&of(""), 403, |ask| ask.header("role", "guest"));
    // A regex is larger to Envoy, which reads UTF-8 here, than its text tells.
    Guard { refused: of(" && request.path.matches('.{20}')"), ..guard }
        .passing(|ask| ask.header("role", "admin"))
        .bad(&of(" && nobody()"))
}

fn csrf() -> Guard {
    let origins = |more: &str| {
        format!("csrf: {{percentageEnabled: 100, additionalOrigins: [{{suffix: .friend.example}}{more}]}}")
    };
    let from = |ask: Ask, origin: &str| ask.method(Method::POST).header("origin", origin);
    let guard = Guard::new(&origins(""), 403, move |ask| from(ask, "http://evil.example"));
    Guard { refused: origins(&format!(", {{safeRegex: '{LARGE}'}}")), ..guard }
        .passing(move |ask| from(ask, "http://a.friend.example"))
        .bad(&origins(", {safeRegex: '('}"))
}

fn buffer() -> Guard {
    let of = |ask: Ask, bytes: usize| ask.method(Method::POST).body(vec![b'x'; bytes]);
    Guard::new("buffer: {maxRequestSize: 1Ki}", 413, move |ask| of(ask, 2048))
        .passing(move |ask| of(ask, 512))
        .bad("buffer: {maxRequestSize: 0}")
}

/// Each edit makes new tokens, and so do Envoys that hear of an edit of others in the same route configuration.
const EDITS_HEARD_MAX: u64 = 20;

fn local_limit() -> Guard {
    let bucket = |most: u32| {
        format!("rateLimit: {{local: {{tokenBucket: {{maxTokens: {most}, tokensPerFill: 1, fillInterval: 1h}}}}}}")
    };
    let guard = Guard::new(&bucket(1), 429, |ask| ask).bad(&bucket(0));
    Guard { slack: EDITS_HEARD_MAX, ..guard }
}

/// A GatewayExtension and the Service that it is about.
fn extension(name: &str, spec: &str, address: SocketAddr) -> String {
    documents(&[
        service(NAMESPACE, name, Some("kubernetes.io/h2c"), &[address]),
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
             metadata: {{name: {name}, namespace: {NAMESPACE}}}\nspec:\n  {spec}\n"
        ),
    ])
}

async fn ext_auth(place: &str) -> Result<Guard> {
    let server = Authorizer::grpc().await?;
    let name = format!("auth-{place}");
    let spec = format!("extAuth: {{grpcService: {{backendRef: {{name: {name}, port: 8080}}, requestTimeout: 5s}}}}");
    let used = |by: &str| format!("{by}: {{extensionRef: {{name: {name}}}}}");
    Ok(Guard::new(&used("extAuth"), REFUSED, |ask| ask)
        .passing(|ask| ask.header("authorization", WORD))
        .besides(extension(&name, &spec, server.address()))
        .bad(&used("jwtAuth"))
        .asking(server))
}

async fn jwt(place: &str) -> Result<Guard> {
    let maker = TokenMaker::start("maker").await?;
    let (name, bearer) = (format!("tokens-{place}"), maker.bearer("shop")?);
    let spec =
        format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{}'}}}}}}]}}", maker.keys()?);
    let used = |by: &str| format!("{by}: {{extensionRef: {{name: {name}}}}}");
    Ok(Guard::new(&used("jwtAuth"), 401, |ask| ask.header("authorization", "Bearer nonsense"))
        .passing(move |ask| ask.header("authorization", &bearer))
        .besides(extension(&name, &spec, maker.address()))
        .bad(&used("extAuth"))
        .asking(maker))
}

async fn global_limit(place: &str) -> Result<Guard> {
    // Nobody who is counted may come in; who is not counted may.
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
    Ok(Guard::new(&used("x-counted"), 429, |ask| ask.header("x-counted", "yes"))
        .passing(|ask| ask)
        .besides(extension(&name, &spec, limiter.address()))
        .bad(&used("'no header'"))
        .asking(limiter))
}

async fn ext_proc(place: &str) -> Result<Guard> {
    let server = ProcessingServer::start().await?;
    let name = format!("seen-{place}");
    let spec = format!(
        "extProc: {{failOpen: false, messageTimeout: 5s, grpcService: {{backendRef: {{name: {name}, port: 8080}}}}}}"
    );
    let used = |more: &str| format!("extProc: {{extensionRef: {{name: {name}}}{more}}}");
    Ok(Guard::new(&used(""), 403, |ask| ask)
        .passing(|ask| ask.header("x-word", processing::WORD))
        .besides(extension(&name, &spec, server.address()))
        .bad(&used(", processingMode: {requestBodyMode: SOMETIMES}"))
        .asking(server))
}

async fn oauth2(place: &str) -> Result<Guard> {
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
    // Nobody logs in here: that is told elsewhere.
    Ok(Guard::new(&used("oauth2"), 302, |ask| {
        ask.header("cookie", "BearerToken=a; OauthHMAC=b; OauthExpires=4102444800")
    })
    .besides(documents(&[extension(&name, &spec, server.address()), secret]))
    .bad(&used("jwtAuth"))
    .asking(server))
}
