//! External authorization of HTTPProxies: over gRPC and HTTP. Whatever is broken, no request passes without
//! authorization.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, service};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, REFUSED, USER, USER_HEADER};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{HttpRequest, Story, World, stories, until};
use hyper::Method;

use super::edited::{self, Edited};
use super::{ServedProxies, proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "proxies::auth",
        true,
        [
            authorization_over_grpc,
            authorization_over_http,
            no_unauthorized_request_passes_during_edits,
            fail_open_while_the_server_is_unavailable,
            switched_on_by_a_route_only,
            several_services_with_shares,
            preflights_are_answered_before,
            its_answer_chooses_no_route,
        ]
    )
}

/// Returns an ExtensionService with one Service of this address.
pub(super) fn extension(namespace: &str, name: &str, protocol: &str, address: SocketAddr) -> String {
    documents(&[
        service(namespace, name, None, &[address]),
        format!(
            "apiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\n\
             metadata: {{name: {name}, namespace: {namespace}}}\n\
             spec: {{protocol: {protocol}, services: [{{name: {name}, port: 8080}}], timeoutPolicy: {{response: 5s}}}}\n"
        ),
    ])
}

/// Returns a host with TLS; `guard` are fields of its virtual host, `routes` its routes.
pub(super) fn secure(guard: &str, routes: &str) -> String {
    proxy(
        "shop",
        "shop",
        &format!(
            "virtualhost:\n  fqdn: shop.example.com\n  tls: {{secretName: cert}}\n{}\nroutes:\n{routes}",
            guard.trim_end().lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        ),
    )
}

/// Creates the certificate of that host, and writes its Secret.
pub(super) fn certificate(world: &World) -> Result<Certificate> {
    let certificate = Certificate::of(&["shop.example.com"])?;
    world.write("cert.yaml", certificate.secret("shop", "cert"))?;
    Ok(certificate)
}

/// Returns a request to that host with TLS.
pub(super) fn request(served: &ServedProxies, certificate: &Certificate, path: &str) -> HttpRequest {
    let request = holdfast_scenario_tests::request::get(served.https, path);
    request.host("shop.example.com").tls(certificate.trust("shop.example.com"))
}

/// Marks a refused connection instead of a status: if a host cannot be parsed, it is not known whether it uses TLS.
pub(super) const REFUSED_CONNECTION: u16 = 0;

/// Repeats the request until its connection is refused.
pub(super) async fn comes_to_be_refused(request: &HttpRequest) -> Result<()> {
    until("the connection is refused", || async {
        ensure!(request.send().await.is_err(), "it is served");
        Ok(())
    })
    .await
}

/// Returns whether no backend answered.
pub(super) fn did_not_pass(shot: &Shot) -> bool {
    !matches!(shot, Shot::Answer { pod, .. } if !pod.is_empty())
}

const ROUTES: &str = "- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /open}]
  authPolicy: {disabled: true}
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /plain}]
  permitInsecure: true
  services: [{name: echo, port: 8080}]
- conditions: [{prefix: /more}]
  authPolicy: {context: {route: more, host: other}}
  services: [{name: echo, port: 8080}]";

const GRPC: &str = "authorization:
  extensionRef: {name: auth, namespace: infra}
  authPolicy: {context: {host: shop, team: a}}
  withRequestBody: {maxRequestBytes: 4, allowPartialMessage: true}";

async fn authorization_over_grpc(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (server, certificate) = (Authorizer::grpc().await?, certificate(&world)?);
    world.write("auth.yaml", extension("infra", "auth", "h2c", server.address()))?;
    world.write("proxy.yaml", secure(GRPC, ROUTES))?;
    let served = serve(&world).await?;
    let request = |path: &str| request(&served, &certificate, path);
    let reply = request("/").header("authorization", CREDENTIALS).body("123456").comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header(USER_HEADER) == [USER], "the backend is not told who it is");
    ensure!(request("/").answers(REFUSED).await?.body == "asked over gRPC", "its answer is not passed on");
    request("/open").reaches("echo").await?;
    request("/more").answers(REFUSED).await?;
    let checks = server.checks();
    let check_of = |path: &str| checks.iter().rev().find(|check| check.path == path).cloned().unwrap_or_default();
    ensure!(checks.iter().any(|check| check.body == "1234"), "the body is not told: {checks:?}");
    ensure!(
        check_of("/").context == [("host".into(), "shop".into()), ("team".into(), "a".into())].into(),
        "{checks:?}"
    );
    let merged = [("host", "other"), ("route", "more"), ("team", "a")];
    let merged = merged.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ensure!(check_of("/more").context == merged.into(), "{checks:?}");
    ensure!(!checks.iter().any(|check| check.path == "/open"), "it was asked about what is open");
    // Without TLS the server is not called, and no route is open.
    for path in ["/", "/open", "/plain"] {
        served.get("shop.example.com", path).answers(301).await?;
    }
    served.comes_to_be("shop", "shop", "valid").await
}

async fn authorization_over_http(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (server, certificate) = (Authorizer::http().await?, certificate(&world)?);
    world.write("auth.yaml", extension("shop", "auth", "http/1.1", server.address()))?;
    let guard = "authorization:
  extensionRef: {name: auth}
  serviceType: http
  httpSettings:
    pathPrefix: /check
    allowedAuthorizationHeaders: [{exact: x-token}, {prefix: x-client-}]
    allowedUpstreamHeaders: [{exact: x-user}]";
    let routes = "- services: [{name: echo, port: 8080}]";
    world.write("proxy.yaml", secure(guard, routes))?;
    let served = serve(&world).await?;
    let request = |path: &str| request(&served, &certificate, path);
    let passing =
        request("/a?b=c").header("authorization", CREDENTIALS).header("x-token", "1").header("x-client-id", "2");
    let reply = passing.header("x-other", "3").comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header(USER_HEADER) == [USER], "the backend is not told who it is");
    let checks = server.checks();
    let check = checks.last().cloned().unwrap_or_default();
    ensure!(check.path == "/check/a?b=c", "{check:?}");
    let header = |name: &str| check.headers.get(name).map(String::as_str);
    ensure!(header("x-token") == Some("1") && header("x-client-id") == Some("2"), "{check:?}");
    ensure!(header("x-other").is_none(), "{check:?}");
    ensure!(request("/").answers(REFUSED).await?.body == "asked over HTTP", "its answer is not passed on");
    // A client cannot set a header of the authorization response.
    let reply =
        request("/").header("authorization", CREDENTIALS).header(USER_HEADER, "mallory").reaches("echo").await?;
    ensure!(reply.echo()?.header(USER_HEADER) == [USER], "{:?}", reply.echo()?.header(USER_HEADER));
    // Over HTTP there is no context: a route with a context is closed.
    let routes = format!(
        "{routes}\n  authPolicy: {{context: {{a: b}}}}\n- conditions: [{{prefix: /fine}}]\n  services: [{{name: echo, port: 8080}}]"
    );
    world.write("proxy.yaml", secure(guard, &routes))?;
    request("/").header("authorization", CREDENTIALS).comes_to_answer(404).await?;
    request("/fine").header("authorization", CREDENTIALS).comes_to_reach("echo").await?;
    request("/fine").answers(REFUSED).await.map(drop)
}

const SERVER: &str = "authorization:\n  extensionRef: {name: auth, namespace: infra}";

async fn no_unauthorized_request_passes_during_edits(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (server, certificate) = (Authorizer::grpc().await?, certificate(&world)?);
    let working = || extension("infra", "auth", "h2c", server.address());
    world.write("auth.yaml", working())?;
    let guard = |rest: &str| format!("{SERVER}\n{rest}");
    let (served, whole) = edited::served(&world, &guard("")).await?;
    let request = |path: &str| request(&served, &certificate, path);
    let known = |path: &str| request(path).header("authorization", CREDENTIALS);
    let host = Edited::start(&world, (&served, whole), known, request).await?;
    // The ExtensionService is deleted, refers to nothing, cannot be parsed; the server does not answer.
    let broken = [
        (None, 500),
        (Some(working().replace("port: 8080}]", "port: 9}]")), 500),
        (Some(working().replace("protocol: h2c", "protocol: carrier-pigeon")), 500),
        (Some(working().replace("protocol: h2c", "protocol: {}")), 500),
        (Some(extension("infra", "auth", "h2c", nowhere().await?)), 403),
    ];
    for (content, status) in broken {
        match &content {
            Some(content) => world.write("auth.yaml", content)?,
            None => world.delete("auth.yaml")?,
        }
        known("/").comes_to_answer(status).await?;
        world.write("auth.yaml", working())?;
        known("/").comes_to_reach("echo").await?;
    }
    // Then edits of the host; other settings take effect at once. `failOpen` is not among them: see the next story.
    let edits = [
        (guard("  responseTimeout: soon"), 500),
        (guard("  serviceType: http\n  httpSettings: {allowedUpstreamHeaders: [{}]}"), 500),
        (guard("  withRequestBody: {maxRequestBytes: -1}"), 500),
        (guard("  responseTimeout: 3s"), 200),
        (guard("  nonsense: {}"), REFUSED_CONNECTION),
        ("authorization: nonsense".to_owned(), REFUSED_CONNECTION),
        (guard("").replace("infra}", "infra, apiVersion: v9}"), 500),
        (guard("").replace("auth,", "another,"), 500),
    ];
    for (edit, status) in edits {
        host.edit(&edit, status).await?;
    }
    host.end().await?;
    until("the server's object is told of", || async {
        let statuses = served.holdfast.diagnostics("/debug/statuses").await?.to_string();
        ensure!(statuses.contains("Valid ExtensionService"), "{statuses}");
        Ok(())
    })
    .await
}

/// Returns an address where nothing listens.
async fn nowhere() -> Result<SocketAddr> {
    let gone = Authorizer::grpc().await?;
    Ok(gone.address())
}

/// `failOpen`: denied requests stay denied, and all requests pass while the server is unavailable, as long as it is
/// set.
async fn fail_open_while_the_server_is_unavailable(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (server, certificate) = (Authorizer::grpc().await?, certificate(&world)?);
    let working = extension("infra", "auth", "h2c", server.address());
    let away = extension("infra", "auth", "h2c", nowhere().await?);
    world.write("auth.yaml", &working)?;
    let open = format!("{SERVER}\n  failOpen: true\n  responseTimeout: 60s");
    let (served, _) = edited::served(&world, &open).await?;
    let request = |path: &str| request(&served, &certificate, path);
    request("/").header("authorization", CREDENTIALS).comes_to_reach("echo").await?;
    for _ in 0..3 {
        request("/").comes_to_answer(REFUSED).await?;
        world.write("auth.yaml", &away)?;
        request("/").comes_to_reach("echo").await?;
        // The field is removed.
        world.write("proxy.yaml", secure(SERVER, edited::ROUTES))?;
        request("/").comes_to_answer(403).await?;
        world.write("proxy.yaml", secure(&open, edited::ROUTES))?;
        request("/").comes_to_reach("echo").await?;
        world.write("auth.yaml", &working)?;
    }
    request("/").comes_to_answer(REFUSED).await?;
    // A missing object is not covered by `failOpen`.
    world.delete("auth.yaml")?;
    request("/").comes_to_answer(500).await.map(drop)
}

async fn switched_on_by_a_route_only(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (server, certificate) = (Authorizer::grpc().await?, certificate(&world)?);
    let guard = "authorization:\n  extensionRef: {name: auth}\n  authPolicy: {disabled: true}";
    let routes = "- services: [{name: echo, port: 8080}]
- conditions: [{prefix: /asked}]
  authPolicy: {disabled: false}
  services: [{name: echo, port: 8080}]";
    world.write("proxy.yaml", secure(guard, routes))?;
    let served = serve(&world).await?;
    let request = |path: &str| request(&served, &certificate, path);
    // Without a server only that route is closed.
    request("/").comes_to_reach("echo").await?;
    request("/asked").header("authorization", CREDENTIALS).answers(404).await?;
    world.write("auth.yaml", extension("shop", "auth", "h2c", server.address()))?;
    request("/asked").header("authorization", CREDENTIALS).comes_to_reach("echo").await?;
    request("/asked").answers(REFUSED).await?;
    request("/").reaches("echo").await.map(drop)
}

async fn several_services_with_shares(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let certificate = certificate(&world)?;
    let servers = [Authorizer::grpc().await?, Authorizer::grpc().await?, Authorizer::grpc().await?];
    let services: Vec<String> = servers
        .iter()
        .zip(["a", "b", "c"])
        .map(|(server, name)| service("shop", name, None, &[server.address()]))
        .collect();
    world.write("services.yaml", documents(&services))?;
    let extension = "apiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\nmetadata: {name: auth, namespace: shop}\n\
                     spec:\n  protocol: h2c\n  timeoutPolicy: {response: 5s}\n  circuitBreakerPolicy: {maxRequests: 100, perHostMaxConnections: 10}\n  \
                     services: [{name: a, port: 8080, weight: 3}, {name: b, port: 8080, weight: 1}, {name: c, port: 8080}]\n";
    world.write("auth.yaml", extension)?;
    world.write(
        "proxy.yaml",
        secure("authorization:\n  extensionRef: {name: auth}", "- services: [{name: echo, port: 8080}]"),
    )?;
    let served = serve(&world).await?;
    let known = request(&served, &certificate, "/").header("authorization", CREDENTIALS);
    known.comes_to_reach("echo").await?;
    until("two of them are asked, one more often", || async {
        for _ in 0..20 {
            known.reaches("echo").await?;
        }
        let counts: Vec<usize> = servers.iter().map(|server| server.checks().len()).collect();
        ensure!(matches!(counts[..], [a, b, 0] if b > 0 && a > b), "{counts:?}");
        Ok(())
    })
    .await?;
    // Endpoints take their quick path: a new address is called at once.
    let moved = Authorizer::grpc().await?;
    let services = [service("shop", "a", None, &[moved.address()]), service("shop", "b", None, &[moved.address()])];
    world.write("services.yaml", documents(&[&services[..], &[service("shop", "c", None, &[])]].concat()))?;
    until("the new address is asked", || async {
        known.reaches("echo").await?;
        ensure!(!moved.checks().is_empty(), "not yet");
        Ok(())
    })
    .await
}

async fn preflights_are_answered_before(world: World) -> Result<()> {
    let _echo = world.backend_in("shop", "echo", None).await?;
    let (server, certificate) = (Authorizer::grpc().await?, certificate(&world)?);
    world.write("auth.yaml", extension("shop", "auth", "h2c", server.address()))?;
    let guard = "authorization:\n  extensionRef: {name: auth}\ncorsPolicy: {allowOrigin: ['https://app.example.com'], allowMethods: [GET]}";
    world.write("proxy.yaml", secure(guard, "- services: [{name: echo, port: 8080}]"))?;
    let served = serve(&world).await?;
    let request = request(&served, &certificate, "/");
    request.clone().header("authorization", CREDENTIALS).comes_to_reach("echo").await?;
    let before = server.checks().len();
    // A browser sends no credentials with a preflight.
    let preflight = |origin: &str| {
        let request = request.clone().method(Method::OPTIONS).header("origin", origin);
        request.header("access-control-request-method", "GET")
    };
    let reply = preflight("https://app.example.com").answers(200).await?;
    ensure!(reply.header("access-control-allow-origin") == "https://app.example.com", "{:?}", reply.headers);
    ensure!(server.checks().len() == before, "a preflight was asked about");
    // A preflight from another origin, and an OPTIONS request that is not a preflight, do not reach the backend.
    let other = preflight("https://evil.example.com").send().await?;
    ensure!(other.pod().is_err(), "a preflight reached the backend: {other:?}");
    request.clone().method(Method::OPTIONS).answers(REFUSED).await?;
    request.header("origin", "https://app.example.com").answers(REFUSED).await.map(drop)
}

/// A header that the server adds would match another route, which does not have the access list of the first one.
async fn its_answer_chooses_no_route(world: World) -> Result<()> {
    let _backends = (world.backend_in("shop", "echo", None).await?, world.backend_in("shop", "other", None).await?);
    let (server, certificate) = (Authorizer::grpc().await?, certificate(&world)?);
    world.write("auth.yaml", extension("infra", "auth", "h2c", server.address()))?;
    let other = format!(
        "- conditions: [{{prefix: /}}, {{header: {{name: {USER_HEADER}, exact: {USER}}}}}]\n  \
         services: [{{name: other, port: 8080}}]\n"
    );
    let closed = "- conditions: [{prefix: /closed}]\n  ipDenyPolicy: [{source: Peer, cidr: 127.0.0.0/8}]\n  \
                  services: [{name: echo, port: 8080}]\n";
    let around = "- conditions: [{prefix: /closed}, {header: {name: x-user, present: true}}]\n  \
                  services: [{name: other, port: 8080}]\n";
    world.write("proxy.yaml", secure(GRPC, &format!("{ROUTES}\n{closed}{around}{other}")))?;
    let served = serve(&world).await?;
    let request = |path: &str| request(&served, &certificate, path).header("authorization", CREDENTIALS);
    let reply = request("/").comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header(USER_HEADER) == [USER], "the backend is not told who it is");
    request("/closed").answers(403).await?;
    // The route match uses the header of the client, not that of the server.
    request("/").header(USER_HEADER, USER).reaches("other").await?;
    Ok(())
}
