//! Backends by name that Envoy itself calls: for authorization, keys and tokens, and for mirrored requests. Nothing is
//! sent to a name that resolves to the proxy's own host; a name that resolves to another host is called.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::names::{DnsAnswers, NameServer};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS};
use holdfast_scenario_tests::services::tokens::TokenMaker;
use holdfast_scenario_tests::surroundings::{self, NAME_SERVERS};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, manifests, stories, until};

use super::elsewhere::{Plain, backend, own_address};
use super::enforced::policy;
use super::login::Browser;

pub(crate) fn stories() -> Vec<Story> {
    stories!("policies::called_by_name", true, [names_that_lead_inside_are_sent_nothing, no_health_checks_by_name])
}

/// Number of requests of each kind.
const TIMES: usize = 5;

/// The kinds of calls, each with a text in its requests.
const CALLS: [(&str, &str); 4] =
    [("auth", "host: auth-"), ("keys", "GET /keys"), ("login", "POST /token"), ("copy", ".com-shadow")];

/// A filter that ends the request in Envoy.
const END: &str =
    "filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /}}}]";

/// Servers inside (on loopback) and outside, each a Backend by name.
struct NamedServers {
    inside: Plain,
    outside: Option<Plain>,
    envoy: String,
    _names: NameServer,
}

impl NamedServers {
    async fn start(world: &World) -> Result<Self> {
        let own = own_address().and_then(|address| if let IpAddr::V4(own) = address { Some(own) } else { None });
        let inside = Plain::start(IpAddr::from(Ipv4Addr::LOCALHOST), "inside").await?;
        let outside = match own {
            Some(own) => Some(Plain::start(IpAddr::from(own), "outside").await?),
            None => None,
        };
        let mut answers = DnsAnswers::from([("inside.names.test".into(), vec![Ipv4Addr::LOCALHOST])]);
        answers.extend(own.map(|own| ("outside.names.test".to_owned(), vec![own])));
        let names = NameServer::start(answers).await?;
        let files = format!("nameserver {}\n", names.address);
        let envoy = surroundings::binary(world, &[(NAME_SERVERS, &files)])?.display().to_string();
        let places = Self { inside, outside, envoy, _names: names };
        for (name, server) in places.all() {
            let port = server.address.port();
            backend(world, name, &format!("static: {{hosts: [{{host: {name}.names.test, port: {port}}}]}}"))?;
        }
        Ok(places)
    }

    fn all(&self) -> Vec<(&'static str, &Plain)> {
        let outside = self.outside.iter().map(|server| ("outside", server));
        [("inside", &self.inside)].into_iter().chain(outside).collect()
    }

    fn options(&self, world: &World) -> Result<HoldfastOptions> {
        Ok(HoldfastOptions::new(world)?.env("ENVOY_BIN", &self.envoy))
    }
}

/// Writes a route with a host for each kind of call, which use this Backend.
fn write(world: &World, place: &str, served: &str) -> Result<()> {
    let backend_ref = format!("backendRef: {{group: gateway.kgateway.dev, kind: Backend, name: {place}}}");
    let copied = format!("filters: [{{type: RequestMirror, requestMirror: {{{backend_ref}}}}}]");
    for (name, _) in CALLS {
        let own = format!("{name}-{place}");
        let rule = if name == "copy" { &copied } else { END };
        let to = if name == "copy" { format!("\n  backendRefs: [{served}]") } else { String::new() };
        world.route(&own, &format!("hostnames: [{own}.example.com]\nrules:\n- {rule}{to}"))?;
        let (spec, used) = match name {
            "auth" => (format!("extAuth: {{httpService: {{{backend_ref}}}}}"), "extAuth"),
            "keys" => {
                let remote = format!("remote: {{url: 'http://idp.test/keys', {backend_ref}}}");
                (format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{{remote}}}}}]}}"), "jwtAuth")
            }
            "login" => {
                let endpoints =
                    "authorizationEndpoint: 'https://idp.test/authorize', tokenEndpoint: 'https://idp.test/token'";
                let client = "credentials: {clientID: shop, clientSecretRef: {name: client}}";
                (format!("oauth2: {{{backend_ref}, {endpoints}, {client}}}"), "oauth2")
            }
            _ => continue,
        };
        guard(world, &own, &spec, used)?;
    }
    Ok(())
}

/// Writes a policy of a route, and the extension that it refers to.
fn guard(world: &World, route: &str, extension: &str, used: &str) -> Result<()> {
    let target = format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {route}}}");
    let extension = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
         metadata: {{name: {route}, namespace: default}}\nspec:\n  {extension}\n"
    );
    let used = policy(route, &target, &format!("{used}: {{extensionRef: {{name: {route}}}}}"));
    world.write(&format!("guard-{route}.yaml"), manifests::documents(&[extension, used]))
}

/// Writes a route with an authorization server on loopback, referred to by name.
async fn over_grpc(world: &World) -> Result<Authorizer> {
    let server = Authorizer::grpc().await?;
    let host = format!("{{host: inside.names.test, port: {}}}", server.address().port());
    backend(world, "grpc", &format!("static: {{hosts: [{host}]}}"))?;
    world.route("calls", &format!("hostnames: [calls.example.com]\nrules:\n- {END}"))?;
    let backend_ref = "backendRef: {group: gateway.kgateway.dev, kind: Backend, name: grpc}";
    guard(world, "calls", &format!("extAuth: {{grpcService: {{{backend_ref}}}}}"), "extAuth")?;
    Ok(server)
}

/// Sends a request to each host, which causes a call to a Backend.
async fn call_all(port: u16, place: &str, token: &str) -> Result<()> {
    for (name, _) in CALLS {
        let request: HttpRequest = get(port, "/").host(&format!("{name}-{place}.example.com"));
        match name {
            "login" => Browser::default().logs_in(request, "a-code").await.map(drop)?,
            "keys" => request.header("authorization", token).send().await.map(drop)?,
            _ => request.send().await.map(drop)?,
        }
    }
    Ok(())
}

/// Waits until a server has received each kind of call.
async fn is_called_by_all(port: u16, place: &str, server: &Plain, token: &str) -> Result<()> {
    until(&format!("{place} receives all calls"), || async {
        call_all(port, place, token).await?;
        let seen = server.seen();
        for (name, text) in CALLS {
            ensure!(seen.iter().any(|request| request.contains(text)), "not asked by {name}: {seen:?}");
        }
        Ok(())
    })
    .await
}

async fn names_that_lead_inside_are_sent_nothing(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let places = NamedServers::start(&world).await?;
    // Backends on loopback are not served at first.
    let served = match places.outside {
        Some(_) => "{group: gateway.kgateway.dev, kind: Backend, name: outside}",
        None => "{name: echo, port: 8080}",
    };
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: client, namespace: default}, stringData: {client-secret: canary}}";
    world.write("client.yaml", secret)?;
    places.all().into_iter().try_for_each(|(place, _)| write(&world, place, served))?;
    let _authorizer = over_grpc(&world).await?;
    let port = world.gateway()?;
    let token = TokenMaker::start("maker").await?.bearer("shop")?;
    let options = places.options(&world)?;
    let refusing = world.run_with(options.clone().args(&["--allow-loopback-backends=false"])).await?;
    let call = get(port, "/").host("calls.example.com").header("authorization", CREDENTIALS);
    for inside in [&call, &get(port, "/").host("auth-inside.example.com")] {
        inside.clone().comes_to_answer(403).await?;
    }
    if let Some(outside) = &places.outside {
        is_called_by_all(port, "outside", outside, &token).await?;
        get(port, "/").host("auth-outside.example.com").comes_to_answer(302).await?;
    }
    for _ in 0..TIMES {
        call_all(port, "inside", &token).await?;
        call.clone().answers(403).await?;
    }
    get(port, "/").host("keys-inside.example.com").header("authorization", &token).answers(401).await?;
    ensure!(places.inside.seen().is_empty(), "{:?}", places.inside.seen());
    refusing.terminate().await?;
    // Where loopback is allowed, the server is called: the names do resolve to it.
    let _allowing = world.run_with(options).await?;
    call.comes_to_answer(302).await?;
    is_called_by_all(port, "inside", &places.inside, &token).await
}

/// Health checks would connect to any resolved address: a policy with health checks closes its Backend, unless the
/// operator allows loopback.
async fn no_health_checks_by_name(world: World) -> Result<()> {
    let places = NamedServers::start(&world).await?;
    let check = "{timeout: 1s, interval: 1s, unhealthyThreshold: 3, healthyThreshold: 1, http: {path: /health}}";
    let checked = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\n\
         metadata: {{name: checked, namespace: default}}\nspec:\n  \
         targetRefs: [{{group: gateway.kgateway.dev, kind: Backend, name: inside}}]\n  healthCheck: {check}\n"
    );
    world.write("checked.yaml", checked)?;
    let port = world.gateway()?;
    super::elsewhere::route(&world, &["inside"])?;
    let options = places.options(&world)?;
    let refusing = world.run_with(options.clone().args(&["--allow-loopback-backends=false"])).await?;
    get(port, "/inside").comes_to_answer(500).await?;
    refusing.comes_to_print(&["allow-health-checks-by-name"]).await?;
    ensure!(places.inside.seen().is_empty(), "{:?}", places.inside.seen());
    refusing.terminate().await?;
    let flags = ["--allow-loopback-backends=false", "--allow-health-checks-by-name"];
    let _allowing = world.run_with(options.args(&flags)).await?;
    until("its health is checked", || async {
        ensure!(places.inside.seen().iter().any(|request| request.contains("/health")), "not checked");
        Ok(())
    })
    .await
}
