//! What protects, field by field: each with a request that may pass, one that may not, and three ways to break it.
//!
//! A new field joins with an entry in `FIELDS` and one in `guard`; where it cannot stand at every level, one in `levels`.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Result, bail};
use holdfast_scenario_tests::ask::Ask;
use holdfast_scenario_tests::asked::auth::{Authorizer, REFUSED, WORD};
use holdfast_scenario_tests::asked::limits::Limiter;
use holdfast_scenario_tests::asked::tokens::TokenMaker;
use holdfast_scenario_tests::manifests::{NAMESPACE, documents, service};
use hyper::Method;

use super::level::Level;

/// Every field that decides who may come in.
pub(super) const FIELDS: [&str; 9] =
    ["basicAuth", "apiKeyAuth", "acl", "csrf", "buffer", "rateLimit.local", "extAuth", "jwtAuth", "rateLimit.global"];

/// An expression that translation takes, and that an Envoy with its own limit refuses.
const LARGE: &str = "([a-z0-9]{1,40}-[a-z0-9]{1,40})";

type Change = Box<dyn Fn(Ask) -> Ask + Send + Sync>;

/// Something that protects.
pub(super) struct Guard {
    /// What a policy says.
    pub(super) spec: String,
    /// The objects that it names; empty where it names none.
    pub(super) besides: String,
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
    fn new(spec: &str, status: u16, failing: impl Fn(Ask) -> Ask + Send + Sync + 'static) -> Self {
        Self {
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

    fn passing(self, change: impl Fn(Ask) -> Ask + Send + Sync + 'static) -> Self {
        Self { passing: Some(Box::new(change)), ..self }
    }

    fn bad(self, spec: &str) -> Self {
        Self { bad: spec.to_owned(), ..self }
    }

    fn missing(self, spec: &str) -> Self {
        Self { missing: Some(spec.to_owned()), ..self }
    }

    fn besides(self, objects: String) -> Self {
        Self { besides: objects, ..self }
    }

    fn asking(self, asked: impl Any + Send + Sync) -> Self {
        Self { _asked: Some(Box::new(asked)), ..self }
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
        // Of listeners and Gateways they close everything by now.
        "extAuth" | "jwtAuth" | "rateLimit.global" => &Level::OF_ROUTES,
        _ => &Level::ALL,
    }
}

/// A field at work; what it names is named after the place.
pub(super) async fn guard(field: &str, place: &str) -> Result<Guard> {
    Ok(match field {
        "basicAuth" => basic_auth(),
        "apiKeyAuth" => api_key(place),
        "acl" => acl(),
        "csrf" => csrf(),
        "buffer" => buffer(),
        "rateLimit.local" => local_limit(),
        "extAuth" => ext_auth(place).await?,
        "jwtAuth" => jwt(place).await?,
        "rateLimit.global" => global_limit(place).await?,
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
