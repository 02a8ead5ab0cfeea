//! Policies that call a service, at every level: external authorization, JWT and global rate limits, each with a real
//! server. No unauthorized request passes at any moment, whichever policy, extension or more specific policy is edited.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::binary_with_mistakes;
use holdfast_scenario_tests::hammer::Hammer;
use holdfast_scenario_tests::manifests::{documents, http_listener, https_listener, service};
use holdfast_scenario_tests::mistakes::NAME as MISTAKE;
use holdfast_scenario_tests::request::{HttpRequest, request};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, REFUSED};
use holdfast_scenario_tests::services::limits::Limiter;
use holdfast_scenario_tests::services::tokens::TokenMaker;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories, until};

use super::enforced::policy;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::called_services",
        true,
        [
            authorization,
            authorization_over_http,
            tokens,
            limits,
            what_is_closer_replaces,
            a_listener_is_opened_on_purpose,
            refused_by_envoy_only,
            refused_by_envoy_only_and_held,
        ]
    )
}

const RULE: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: one}";
const ROUTE: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";
const PLAIN: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: http}";
const SECURE: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: public, sectionName: tls}";
const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: public}";
/// The host of the listener with TLS.
const HOST: &str = "shop.example";

/// A Gateway with a plain and a TLS listener, and a route for both.
struct TwoListeners {
    world: World,
    plain: u16,
    secure: u16,
    certificate: Certificate,
}

impl TwoListeners {
    fn write(world: &World, rules: &str) -> Result<Self> {
        let (plain, secure) = (world.port()?, world.port()?);
        let certificate = Certificate::of(&[HOST])?;
        world.write("cert.yaml", certificate.secret("default", "cert"))?;
        world.gateway_with(&format!("{}{}", http_listener(plain), https_listener("tls", secure, HOST, &["cert"])))?;
        world.route("r", rules)?;
        Ok(Self { world: world.clone(), plain, secure, certificate })
    }

    fn plain(&self) -> HttpRequest {
        request(self.plain).host(HOST)
    }

    fn secure(&self) -> HttpRequest {
        request(self.secure).host(HOST).tls(self.certificate.trust(HOST))
    }

    fn set(&self, target: &str, spec: &str) -> Result<()> {
        self.world.write("policy.yaml", policy("p", target, spec))
    }
}

const ONE: &str = "rules:\n- name: one\n  backendRefs: [{name: echo, port: 8080}]";

/// Returns a GatewayExtension and its Service.
fn extension(name: &str, address: SocketAddr, spec: &str) -> String {
    documents(&[
        service("default", name, None, &[address]),
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
             metadata: {{name: {name}, namespace: default}}\nspec:\n  {spec}\n"
        ),
    ])
}

/// A policy field and its variants.
struct PolicyField {
    spec: String,
    /// The extension that it refers to, in a working and a broken version.
    extension: String,
    bad_extension: String,
    passing: Box<dyn Fn(HttpRequest) -> HttpRequest + Send + Sync>,
    failing: Box<dyn Fn(HttpRequest) -> HttpRequest + Send + Sync>,
    status: u16,
    /// Policy specs that cannot be enforced.
    broken: [String; 3],
}

/// Checks the field at every level, with every way to break it.
async fn holds(world: &World, field: &PolicyField) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let estate = TwoListeners::write(world, ONE)?;
    world.write("extension.yaml", &field.extension)?;
    estate.set(RULE, &field.spec)?;
    let _holdfast = world.run().await?;
    let (plain, secure) = (estate.plain(), estate.secure());
    (field.passing)(plain.clone()).comes_to_reach("echo").await?;
    for (request, levels) in [
        (&plain, &[(RULE, 404), (ROUTE, 404), (PLAIN, 500), (GATEWAY, 500)][..]),
        (&secure, &[(GATEWAY, 500), (SECURE, 500), (RULE, 404)][..]),
    ] {
        let (passing, failing) = ((field.passing)(request.clone()), (field.failing)(request.clone()));
        estate.set(levels[0].0, &field.spec)?;
        passing.comes_to_reach("echo").await?;
        failing.comes_to_answer(field.status).await?;
        let hammers = [Hammer::start([failing.clone()]), Hammer::start_kept([failing.clone()])];
        for (target, closed) in levels {
            let at = || format!("{} at {target}", field.spec);
            estate.set(target, &field.spec)?;
            passing.comes_to_reach("echo").await.with_context(at)?;
            failing.comes_to_answer(field.status).await.with_context(at)?;
            for broken in &field.broken {
                estate.set(target, broken)?;
                passing.comes_to_answer(*closed).await.with_context(|| format!("{broken} at {target}"))?;
                failing.comes_to_answer(*closed).await.with_context(|| format!("{broken} at {target}"))?;
            }
            estate.set(target, &field.spec)?;
            passing.comes_to_reach("echo").await.with_context(at)?;
            world.write("extension.yaml", &field.bad_extension)?;
            passing.comes_to_answer(*closed).await.with_context(at)?;
            world.write("extension.yaml", &field.extension)?;
            passing.comes_to_reach("echo").await.with_context(at)?;
            failing.comes_to_answer(field.status).await.with_context(at)?;
        }
        for hammer in hammers {
            hammer.stop_expecting(|shot| !shot.is_ok()).await.with_context(|| field.spec.clone())?;
        }
    }
    Ok(())
}

fn ext_auth(name: &str, address: SocketAddr, more: &str) -> String {
    let spec =
        format!("extAuth: {{grpcService: {{backendRef: {{name: {name}, port: 8080}}, requestTimeout: 5s}}{more}}}");
    extension(name, address, &spec)
}

async fn authorization(world: World) -> Result<()> {
    let server = Authorizer::grpc().await?;
    let field = PolicyField {
        spec: "extAuth: {extensionRef: {name: auth}}".into(),
        extension: ext_auth("auth", server.address(), ""),
        bad_extension: ext_auth("auth", server.address(), ", statusOnError: 42"),
        passing: Box::new(|request| request.header("authorization", CREDENTIALS)),
        failing: Box::new(|request| request.header("authorization", "open up")),
        status: REFUSED,
        broken: [
            "extAuth: {extensionRef: {name: nobody}}".into(),
            "extAuth: {extensionRef: {name: auth}, withRequestBody: {maxRequestBytes: 0}}".into(),
            "jwtAuth: {extensionRef: {name: auth}}".into(),
        ],
    };
    holds(&world, &field).await
}

async fn authorization_over_http(world: World) -> Result<()> {
    let server = Authorizer::http().await?;
    let over_http = |path: &str| {
        let spec = format!(
            "extAuth: {{httpService: {{backendRef: {{name: auth, port: 8080}}, requestTimeout: 5s, pathPrefix: {path}}}}}"
        );
        extension("auth", server.address(), &spec)
    };
    let field = PolicyField {
        spec: "extAuth: {extensionRef: {name: auth}}".into(),
        extension: over_http("/check"),
        bad_extension: over_http("check"),
        passing: Box::new(|request| request.header("authorization", CREDENTIALS)),
        failing: Box::new(|request| request),
        status: REFUSED,
        broken: [
            "extAuth: {extensionRef: {name: nobody}}".into(),
            "extAuth: {extensionRef: {name: auth}, contextExtensions: {a: b}}".into(),
            "extAuth: {}".into(),
        ],
    };
    holds(&world, &field).await
}

async fn tokens(world: World) -> Result<()> {
    let maker = TokenMaker::start("maker").await?;
    let bearer = maker.bearer("shop")?;
    let with_keys = |keys: &str| {
        let spec = format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: '{keys}'}}}}}}]}}");
        extension("tokens", maker.address(), &spec)
    };
    let field = PolicyField {
        spec: "jwtAuth: {extensionRef: {name: tokens}}".into(),
        extension: with_keys(&maker.keys()?),
        bad_extension: with_keys("{}"),
        passing: Box::new(move |request| request.header("authorization", &bearer)),
        failing: Box::new(|request| request.header("authorization", "Bearer nonsense")),
        status: 401,
        broken: [
            "jwtAuth: {extensionRef: {name: nobody}}".into(),
            "extAuth: {extensionRef: {name: tokens}}".into(),
            "jwtAuth: {extensionRef: {name: tokens}, disable: {}}".into(),
        ],
    };
    holds(&world, &field).await
}

async fn limits(world: World) -> Result<()> {
    // The limit is 0: a request with a descriptor is denied, a request without one is allowed.
    let limiter = Limiter::start(0).await?;
    let counted = |header: &str| {
        format!(
            "rateLimit: {{global: {{extensionRef: {{name: limits}}, descriptors: [{{entries: \
             [{{type: Header, header: {header}}}]}}]}}}}"
        )
    };
    let of_domain = |domain: &str| {
        let grpc = "grpcService: {backendRef: {name: limits, port: 8080}, requestTimeout: 5s}";
        let spec = format!("rateLimit: {{{domain} failOpen: false, timeout: 5s, {grpc}}}");
        extension("limits", limiter.address(), &spec)
    };
    let field = PolicyField {
        spec: counted("x-counted"),
        extension: of_domain("domain: shop,"),
        bad_extension: of_domain(""),
        passing: Box::new(|request| request),
        failing: Box::new(|request| request.header("x-counted", "yes")),
        status: 429,
        broken: [
            counted("x-counted").replace("name: limits", "name: nobody"),
            counted("'no header'"),
            "rateLimit: {global: {extensionRef: {name: limits}}}".into(),
        ],
    };
    holds(&world, &field).await
}

/// Below a Gateway with an authorization policy: routes with a policy of their own, with an additional token, and with
/// authorization disabled.
async fn what_is_closer_replaces(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (outer, inner) = (Authorizer::grpc().await?, Authorizer::grpc().await?);
    let maker = TokenMaker::start("maker").await?;
    let token = maker.token("shop")?;
    let names = ["plain", "inner", "token", "open", "only-token"];
    let rule = |name: &&str| {
        format!(
            "- name: {name}\n  matches: [{{path: {{value: /{name}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]"
        )
    };
    let rules = names.iter().map(rule).collect::<Vec<_>>().join("\n");
    let estate = TwoListeners::write(&world, &format!("rules:\n{rules}"))?;
    let keys = format!(
        "jwt: {{providers: [{{name: own, issuer: maker, tokenSource: {{header: {{header: x-token}}}}, \
         jwks: {{local: {{inline: '{}'}}}}}}]}}",
        maker.keys()?
    );
    world.write("outer.yaml", ext_auth("outer", outer.address(), ""))?;
    world.write("inner.yaml", ext_auth("inner", inner.address(), ""))?;
    world.write("tokens.yaml", extension("tokens", maker.address(), &keys))?;
    let at =
        |rule: &str| format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: {rule}}}");
    let own = [
        ("inner", "extAuth: {extensionRef: {name: inner}}"),
        ("token", "jwtAuth: {extensionRef: {name: tokens}}"),
        ("open", "extAuth: {disable: {}}"),
        ("only-token", "extAuth: {disable: {}}\n  jwtAuth: {extensionRef: {name: tokens}}"),
    ];
    let write_own = || -> Result<()> {
        own.iter().try_for_each(|(rule, spec)| world.write(&format!("own-{rule}.yaml"), policy(rule, &at(rule), spec)))
    };
    estate.set(GATEWAY, "extAuth: {extensionRef: {name: outer}}")?;
    write_own()?;
    let _holdfast = world.run().await?;
    let authorized = |request: HttpRequest| request.header("authorization", CREDENTIALS);
    for base in [estate.plain(), estate.secure()] {
        let path = |name: &str| base.clone().path(&format!("/{name}"));
        authorized(path("plain")).comes_to_reach("echo").await?;
        path("plain").answers(REFUSED).await?;
        let before = (outer.checks().len(), inner.checks().len());
        authorized(path("inner")).comes_to_reach("echo").await?;
        path("inner").answers(REFUSED).await?;
        ensure!(outer.checks().len() == before.0 && inner.checks().len() >= before.1 + 2, "the other one was asked");
        let both = authorized(path("token")).header("x-token", &token);
        both.comes_to_reach("echo").await?;
        authorized(path("token")).answers(401).await?;
        path("token").header("x-token", &token).answers(REFUSED).await?;
        path("open").reaches("echo").await?;
        path("only-token").header("x-token", &token).reaches("echo").await?;
        authorized(path("only-token")).answers(401).await?;
    }
    // The guards of the routes and of the Gateway are removed and added in turn; one of the two always exists.
    let base = estate.plain();
    let shut = ["plain", "inner", "token"].map(|name| base.clone().path(&format!("/{name}")));
    let hammers = [Hammer::start(shut.clone()), Hammer::start_kept(shut)];
    for _ in 0..4 {
        for rule in ["inner", "token"] {
            world.delete(&format!("own-{rule}.yaml"))?;
        }
        hammers[0].goes_on(20).await?;
        write_own()?;
        hammers[1].goes_on(20).await?;
        estate.set(GATEWAY, "extAuth: {extensionRef: {name: inner}}")?;
        hammers[0].goes_on(20).await?;
        estate.set(GATEWAY, "extAuth: {extensionRef: {name: outer}}")?;
        hammers[1].goes_on(20).await?;
    }
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    authorized(base.clone().path("/token")).header("x-token", &token).comes_to_reach("echo").await?;
    base.path("/open").comes_to_reach("echo").await?;
    Ok(())
}

/// A listener without TLS below a guarded Gateway may be opened by a policy, and closed again.
async fn a_listener_is_opened_on_purpose(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let server = Authorizer::grpc().await?;
    let estate = TwoListeners::write(&world, ONE)?;
    world.write("auth.yaml", ext_auth("auth", server.address(), ""))?;
    estate.set(GATEWAY, "extAuth: {extensionRef: {name: auth}}")?;
    let _holdfast = world.run().await?;
    let authorized = |request: HttpRequest| request.header("authorization", CREDENTIALS);
    authorized(estate.plain()).comes_to_reach("echo").await?;
    authorized(estate.secure()).comes_to_reach("echo").await?;
    let hammer = Hammer::start([estate.secure()]);
    for _ in 0..3 {
        estate.plain().comes_to_answer(REFUSED).await?;
        world.write("listener.yaml", policy("q", PLAIN, "extAuth: {disable: {}}"))?;
        estate.plain().comes_to_reach("echo").await?;
        world.delete("listener.yaml")?;
    }
    estate.plain().comes_to_answer(REFUSED).await?;
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    Ok(())
}

/// Returns options with Envoys that refuse the mistake of a filter.
fn with_mistakes(world: &World) -> Result<HoldfastOptions> {
    let binary = binary_with_mistakes(world)?.display().to_string();
    Ok(HoldfastOptions::new(world)?.env("ENVOY_BIN", &binary))
}

/// An extension that only Envoy refuses closes all routes that it guards, at every level, and its status reports the
/// refusal.
async fn refused_by_envoy_only(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let server = Authorizer::grpc().await?;
    let estate = TwoListeners::write(&world, ONE)?;
    let (good, bad) = ("", &*format!(", statPrefix: {MISTAKE}"));
    world.write("auth.yaml", ext_auth("auth", server.address(), good))?;
    let spec = "extAuth: {extensionRef: {name: auth}}";
    estate.set(RULE, spec)?;
    let options = with_mistakes(&world)?.args(&["--feature-gates", "FallbackConfiguration=true"]);
    let holdfast = world.run_with(options).await?;
    let authorized = |request: HttpRequest| request.header("authorization", CREDENTIALS);
    authorized(estate.plain()).comes_to_reach("echo").await?;
    let hammers = [Hammer::start([estate.plain()]), Hammer::start_kept([estate.plain()])];
    for (target, closed, all) in
        [(RULE, 404, true), (ROUTE, 404, true), (PLAIN, 500, false), (GATEWAY, 500, true), (SECURE, 500, false)]
    {
        let at = || format!("at {target}");
        if target == SECURE {
            for hammer in &hammers {
                hammer.goes_on(5).await?;
            }
        }
        let hit = if target == SECURE { estate.secure() } else { estate.plain() };
        let other = if target == SECURE { estate.plain() } else { estate.secure() };
        if target == SECURE {
            // The plain listener keeps another guard.
            world.write(
                "plain.yaml",
                policy("q", PLAIN, "basicAuth: {users: ['alice:{SHA}CEo1Ae3vaEXy8eQZjsOiuBz1xrw=']}"),
            )?;
        }
        estate.set(target, spec)?;
        authorized(hit.clone()).comes_to_reach("echo").await.with_context(at)?;
        world.write("auth.yaml", ext_auth("auth", server.address(), bad))?;
        authorized(hit.clone()).comes_to_answer(closed).await.with_context(at)?;
        hit.comes_to_answer(closed).await.with_context(at)?;
        if all {
            authorized(other.clone()).comes_to_answer(closed).await.with_context(at)?;
        }
        until("it is told of the extension", || async {
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            let broken = report["brokenObjects"].as_array().context("no objects")?;
            ensure!(broken.iter().any(|object| object["kind"] == "GatewayExtension"), "{report}");
            let levels = ["virtualHost", "routeConfiguration"];
            let replaced = report["replacedObjects"].as_array().context("no objects")?;
            let above = replaced.iter().any(|object| levels.iter().any(|level| object["scope"] == *level));
            ensure!(above == (closed == 500), "{report}");
            Ok(())
        })
        .await
        .with_context(at)?;
        world.write("auth.yaml", ext_auth("auth", server.address(), good))?;
        authorized(hit.clone()).comes_to_reach("echo").await.with_context(at)?;
        hit.comes_to_answer(REFUSED).await.with_context(at)?;
    }
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    Ok(())
}

/// An extension that Envoy refuses, where everything is held: the acknowledged configuration stays in force.
async fn refused_by_envoy_only_and_held(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let server = Authorizer::grpc().await?;
    let estate = TwoListeners::write(&world, ONE)?;
    world.write("auth.yaml", ext_auth("auth", server.address(), ""))?;
    let spec = "extAuth: {extensionRef: {name: auth}}";
    estate.set(GATEWAY, spec)?;
    let holdfast = world.run_with(with_mistakes(&world)?).await?;
    let authorized = |request: HttpRequest| request.header("authorization", CREDENTIALS);
    authorized(estate.plain()).comes_to_reach("echo").await?;
    let hammer = Hammer::start([estate.plain(), estate.secure()]);
    for target in [GATEWAY, RULE, ROUTE, GATEWAY] {
        estate.set(target, spec)?;
        authorized(estate.secure()).comes_to_reach("echo").await?;
        world.write("auth.yaml", ext_auth("auth", server.address(), &format!(", statPrefix: {MISTAKE}")))?;
        until("it is told", || async {
            let report = holdfast.diagnostics("/debug/config/fallback").await?;
            let held = |gateway: &serde_json::Value| gateway["state"] == "held";
            ensure!(report["gateways"].as_array().is_some_and(|all| all.iter().any(held)), "{report}");
            Ok(())
        })
        .await?;
        hammer.goes_on(10).await?;
        world.write("auth.yaml", ext_auth("auth", server.address(), ""))?;
        authorized(estate.plain()).comes_to_reach("echo").await?;
        estate.plain().comes_to_answer(REFUSED).await?;
    }
    hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    Ok(())
}
