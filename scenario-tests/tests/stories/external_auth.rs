//! The filter ExternalAuth of HTTPRoutes, over gRPC and HTTP: what the server receives, what the backend receives, and
//! that no request passes without the server's permission, whatever is missing.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::hammer::Hammer;
use holdfast_scenario_tests::manifests::{documents, grant, service};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, Check, REFUSED, USER, USER_HEADER, WHY_HEADER};
use holdfast_scenario_tests::{Story, World, stories};
use hyper::{Method, StatusCode};

pub(crate) fn stories() -> Vec<Story> {
    stories!("external_auth", true, [over_grpc, over_http, fails_closed, beside_policies])
}

/// The namespace of the servers.
const SECURITY: &str = "security";

/// Returns a rule for requests below `/name`; `auth` are the fields of its filter.
fn rule(name: &str, auth: &str) -> String {
    format!(
        "- name: {name}\n  matches: [{{path: {{value: /{name}}}}}]\n  \
         filters: [{{type: ExternalAuth, externalAuth: {{{auth}}}}}]\n  backendRefs: [{{name: echo, port: 8080}}]\n"
    )
}

/// Returns the reference to a server.
fn server(name: &str) -> String {
    format!("backendRef: {{name: {name}, namespace: {SECURITY}, port: 8080}}")
}

/// Returns the Service of a server with the grant for it.
fn service_of(name: &str, address: SocketAddr) -> String {
    documents(&[
        service(SECURITY, name, None, &[address]),
        grant(SECURITY, &format!("to-{name}"), "HTTPRoute", "default", "Service"),
    ])
}

fn authorized(request: HttpRequest) -> HttpRequest {
    request.header("authorization", CREDENTIALS)
}

/// Returns the last check of a request with this path.
fn check_of(server: &Authorizer, path: &str) -> Result<Check> {
    server.checks().into_iter().rev().find(|check| check.path == path).with_context(|| format!("no check of {path}"))
}

async fn over_grpc(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let auth = Authorizer::grpc().await?;
    let port = world.gateway()?;
    world.write("auth.yaml", service_of("auth", auth.address()))?;
    let of = |more: &str| format!("protocol: GRPC, {}, {more}", server("auth"));
    let rules = [
        rule("all", &of("grpc: {}")),
        rule("some", &of("grpc: {allowedHeaders: [X-Shown, authorization]}, forwardBody: {maxSize: 8}")),
        "- matches: [{path: {value: /open}}]\n  backendRefs: [{name: echo, port: 8080}]\n".to_owned(),
    ];
    world.route("r", &format!("rules:\n{}", rules.concat()))?;
    let _holdfast = world.run().await?;
    let sent = |path: &str| {
        let request = get(port, path).method(Method::POST).header("x-shown", "1").header("x-other", "2");
        request.body("12345678")
    };
    let reply = authorized(sent("/all")).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header(USER_HEADER) == [USER] && reply.echo()?.body_bytes == 8, "{reply:?}");
    let check = check_of(&auth, "/all")?;
    ensure!(check.headers.get("x-other").is_some_and(|value| value == "2") && check.body.is_empty(), "{check:?}");
    ensure!(
        sent("/all").answers(REFUSED).await?.body == "asked over gRPC",
        "the answer of the server is not passed on"
    );
    let reply = authorized(sent("/some")).reaches("echo").await?;
    ensure!(reply.echo()?.body_bytes == 8 && reply.echo()?.header("x-other") == ["2"], "{reply:?}");
    let check = check_of(&auth, "/some")?;
    ensure!(check.headers.contains_key("x-shown") && !check.headers.contains_key("x-other"), "{check:?}");
    ensure!(check.body == "12345678", "{check:?}");
    sent("/some").answers(REFUSED).await?;
    authorized(sent("/some")).body("123456789").answers(413).await?;
    sent("/open").reaches("echo").await?;
    Ok(())
}

async fn over_http(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let auth = Authorizer::http().await?;
    let port = world.gateway()?;
    world.write("auth.yaml", service_of("auth", auth.address()))?;
    let of = |more: &str| format!("protocol: HTTP, {}, {more}", server("auth"));
    let listed = "http: {path: /verify, allowedHeaders: [X-Shown], allowedResponseHeaders: [X-User]}";
    let rules =
        [rule("plain", &of("http: {}")), rule("listed", &of(&format!("{listed}, forwardBody: {{maxSize: 8}}")))];
    world.route("r", &format!("rules:\n{}", rules.concat()))?;
    let _holdfast = world.run().await?;
    let sent = |path: &str| {
        let request = get(port, path).host("shop.test").method(Method::POST).header("content-type", "text/csv");
        request.header("x-shown", "1").header("x-other", "2").body("12345678")
    };
    let seen = authorized(sent("/plain?a=b")).comes_to_reach("echo").await?.echo()?;
    ensure!(seen.header(USER_HEADER) == [USER] && seen.header(WHY_HEADER).len() == 1, "{seen:?}");
    // What describes the message of the server's answer, or its connection, does not describe the request.
    ensure!(seen.body_bytes == 8 && seen.header("content-type") == ["text/csv"], "{seen:?}");
    ensure!(seen.host == "shop.test" && seen.path == "/plain?a=b", "{seen:?}");
    let check = check_of(&auth, "/plain?a=b")?;
    let header = |check: &Check, name: &str| check.headers.get(name).cloned().unwrap_or_default();
    ensure!(header(&check, "host") == "shop.test" && header(&check, "content-length") == "0", "{check:?}");
    ensure!(!check.headers.contains_key("x-shown") && !check.headers.contains_key("x-other"), "{check:?}");
    let denied = sent("/plain").answers(REFUSED).await?;
    ensure!(denied.body == "asked over HTTP" && denied.header(WHY_HEADER) == "did not say the word", "{denied:?}");
    let seen = authorized(sent("/listed")).reaches("echo").await?.echo()?;
    ensure!(seen.header(USER_HEADER) == [USER] && seen.header(WHY_HEADER).is_empty(), "{seen:?}");
    ensure!(seen.body_bytes == 8 && seen.path == "/listed", "{seen:?}");
    let check = check_of(&auth, "/verify/listed")?;
    ensure!(header(&check, "x-shown") == "1" && !check.headers.contains_key("x-other"), "{check:?}");
    ensure!(header(&check, "content-length") == "8" && check.body == "12345678", "{check:?}");
    sent("/listed").answers(REFUSED).await?;
    authorized(sent("/listed")).body("123456789").answers(413).await?;
    Ok(())
}

/// Without its server, its Service, its grant or a readable field, no request passes, with or without credentials.
async fn fails_closed(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let write = |more: &str| {
        let grpc = rule("grpc", &format!("protocol: GRPC, {}, grpc: {{}}{more}", server("grpc")));
        let http = rule("http", &format!("protocol: HTTP, {}, http: {{}}{more}", server("http")));
        let open = "- matches: [{path: {value: /}}]\n  backendRefs: [{name: echo, port: 8080}]\n";
        world.route("r", &format!("rules:\n{grpc}{http}{open}"))
    };
    let servers = [Authorizer::grpc().await?, Authorizer::http().await?];
    let write_servers = || -> Result<()> {
        world.write("grpc.yaml", service_of("grpc", servers[0].address()))?;
        world.write("http.yaml", service_of("http", servers[1].address()))
    };
    write_servers()?;
    write("")?;
    let _holdfast = world.run().await?;
    let paths = ["/grpc", "/http"].map(|path| get(port, path));
    get(port, "/").comes_to_reach("echo").await?;
    for request in &paths {
        authorized(request.clone()).comes_to_reach("echo").await?;
        request.answers(REFUSED).await?;
    }
    let hammers = [Hammer::start(paths.clone()), Hammer::start_kept(paths.clone())];
    let closed = |status: u16| {
        let paths = paths.clone();
        async move {
            for request in paths {
                authorized(request.clone()).comes_to_answer(status).await?;
                request.comes_to_answer(status).await?;
            }
            anyhow::Ok(())
        }
    };
    let opened = || async {
        for request in &paths {
            authorized(request.clone()).comes_to_reach("echo").await?;
            request.comes_to_answer(REFUSED).await?;
        }
        anyhow::Ok(())
    };
    for name in ["grpc", "http"] {
        world.write(&format!("{name}.yaml"), service(SECURITY, name, None, &[]))?;
    }
    closed(500).await.context("without the grants")?;
    write_servers()?;
    opened().await?;
    for name in ["grpc", "http"] {
        world.delete(&format!("{name}.yaml"))?;
    }
    closed(500).await.context("without the Services")?;
    write_servers()?;
    opened().await?;
    for spoilt in [", forwardBody: {maxSize: -1}", ", forwardBody: {maxSize: many}", ", forwardBody: {maxSize: 70000}"]
    {
        write(spoilt)?;
        for request in &paths {
            let is_closed = |status: StatusCode| status == StatusCode::NOT_FOUND || status.is_server_error();
            let closed = authorized(request.clone());
            closed.comes_to("closed", |reply| is_closed(reply.status)).await.with_context(|| spoilt.to_owned())?;
        }
        write("")?;
        opened().await?;
    }
    for name in ["grpc", "http"] {
        let unused = SocketAddr::from(([127, 0, 0, 1], world.port()?));
        world.write(&format!("{name}.yaml"), service_of(name, unused))?;
    }
    closed(403).await.context("without the servers")?;
    get(port, "/").reaches("echo").await?;
    for hammer in hammers {
        hammer.stop_expecting(|shot| !shot.is_ok()).await?;
    }
    Ok(())
}

/// A policy of the Gateway and the filter of the rule are both enforced; neither replaces the other.
async fn beside_policies(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (outer, inner) = (Authorizer::grpc().await?, Authorizer::grpc().await?);
    let port = world.gateway()?;
    world.write("inner.yaml", service_of("inner", inner.address()))?;
    let of = |more: &str| format!("protocol: GRPC, {}, grpc: {{{more}}}", server("inner"));
    // The server does not see the credentials of one rule, and refuses.
    let rules = [rule("both", &of("")), rule("blind", &of("allowedHeaders: [x-none]")), rule("disabled", &of(""))];
    world.route("r", &format!("rules:\n{}", rules.concat()))?;
    world.write("outer.yaml", service("default", "outer", None, &[outer.address()]))?;
    let policies = "apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {name: outer, namespace: default}
spec: {extAuth: {grpcService: {backendRef: {name: outer, port: 8080}, requestTimeout: 5s}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: outer, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  extAuth: {extensionRef: {name: outer}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: disabled, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: disabled}]
  extAuth: {disable: {}}
";
    world.write("policies.yaml", policies)?;
    let _holdfast = world.run().await?;
    authorized(get(port, "/both")).comes_to_reach("echo").await?;
    check_of(&outer, "/both")?;
    check_of(&inner, "/both")?;
    authorized(get(port, "/blind")).answers(REFUSED).await?;
    check_of(&outer, "/blind")?;
    authorized(get(port, "/disabled")).reaches("echo").await?;
    get(port, "/disabled").answers(REFUSED).await?;
    ensure!(check_of(&outer, "/disabled").is_err(), "the policy that disables authorization has no effect");
    let before = inner.checks().len();
    get(port, "/both").answers(REFUSED).await?;
    ensure!(inner.checks().len() == before, "the server of the policy did not refuse first");
    Ok(())
}
