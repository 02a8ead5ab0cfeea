//! Fields of GatewayExtensions, each observed by the server that it affects.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::manifests::{documents, service};
use holdfast_scenario_tests::request::{HttpRequest, request};
use holdfast_scenario_tests::services::auth::{Authorizer, CREDENTIALS, REFUSED, USER, WHY_HEADER};
use holdfast_scenario_tests::services::tokens::TokenMaker;
use holdfast_scenario_tests::{Story, World, stories, until};
use hyper::Method;

use super::enforced::policy;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "policies::extensions",
        true,
        [headers_of_answers, bodies, retries_of_authorization, keys_of_a_config_map, keys_in_pem, fetched_ahead]
    )
}

const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: public}";

fn extension(name: &str, address: SocketAddr, spec: &str) -> String {
    documents(&[
        service("default", name, None, &[address]),
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
             metadata: {{name: {name}, namespace: default}}\nspec:\n  {spec}\n"
        ),
    ])
}

fn route(world: &World) -> Result<()> {
    world.route("r", "rules:\n- name: one\n  backendRefs: [{name: echo, port: 8080}]")
}

fn authorized(request: HttpRequest) -> HttpRequest {
    request.header("authorization", CREDENTIALS)
}

/// Headers that are added to authorization requests, and headers of the response that are passed on to clients and
/// backends.
async fn headers_of_answers(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    route(&world)?;
    let server = Authorizer::http().await?;
    let spec = "extAuth: {httpService: {backendRef: {name: auth, port: 8080}, requestTimeout: 5s, \
                authorizationRequest: {headersToAdd: {x-from: \"%REQ(x-client)% of shop\"}}, \
                authorizationResponse: {headersToBackend: [x-user], headersToClient: [x-why], \
                headersToClientOnSuccess: [x-why]}}, statPrefix: shop}";
    world.write("auth.yaml", extension("auth", server.address(), spec))?;
    world.write("policy.yaml", policy("p", GATEWAY, "extAuth: {extensionRef: {name: auth}}"))?;
    let _holdfast = world.run().await?;
    let request = request(port).header("x-client", "me").header("x-from", "somebody else");
    let reply = authorized(request.clone()).comes_to_reach("echo").await?;
    ensure!(reply.echo()?.header("x-user") == [USER], "{reply:?}");
    ensure!(reply.header(WHY_HEADER) == "said the word", "{reply:?}");
    let denied = request.answers(REFUSED).await?;
    ensure!(denied.header(WHY_HEADER) == "did not say the word", "{denied:?}");
    let sent = server.checks();
    let sent = sent.last().map(|check| check.headers.get("x-from").cloned().unwrap_or_default()).unwrap_or_default();
    ensure!(sent == "me of shop", "{sent:?}");
    Ok(())
}

/// The policy sets the size of the body in authorization requests, whatever the extension specifies.
async fn bodies(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    route(&world)?;
    let server = Authorizer::grpc().await?;
    let spec =
        "extAuth: {grpcService: {backendRef: {name: auth, port: 8080}, requestTimeout: 5s, authority: auth.shop}}";
    world.write("auth.yaml", extension("auth", server.address(), spec))?;
    let write_policy = |bytes: u32| {
        let body = format!("withRequestBody: {{maxRequestBytes: {bytes}, allowPartialMessage: true}}");
        world.write("policy.yaml", policy("p", GATEWAY, &format!("extAuth: {{extensionRef: {{name: auth}}, {body}}}")))
    };
    write_policy(4)?;
    let _holdfast = world.run().await?;
    let post = authorized(request(port)).method(Method::POST).body("a long story");
    for (bytes, body) in [(4, "a lo"), (6, "a long")] {
        write_policy(bytes)?;
        until("the server is told so much", || async {
            post.comes_to_reach("echo").await?;
            let checks = server.checks();
            ensure!(checks.last().is_some_and(|check| check.body == body), "{:?}", checks.last());
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Authorization requests are repeated where this is configured, otherwise a failure denies the request.
async fn retries_of_authorization(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    route(&world)?;
    let server = Authorizer::stumbling(2).await?;
    let with = |retry: &str| {
        let spec =
            format!("extAuth: {{grpcService: {{backendRef: {{name: auth, port: 8080}}, requestTimeout: 5s{retry}}}}}");
        world.write("auth.yaml", extension("auth", server.address(), &spec))
    };
    // Envoy also uses the longest backoff as the timeout of one attempt.
    with(", retry: {attempts: 5, backoff: {baseInterval: 1ms, maxInterval: 4s}}")?;
    world.write("policy.yaml", policy("p", GATEWAY, "extAuth: {extensionRef: {name: auth}}"))?;
    let _holdfast = world.run().await?;
    authorized(request(port)).comes_to_reach("echo").await?;
    for _ in 0..5 {
        authorized(request(port)).reaches("echo").await?;
    }
    with(", retry: {attempts: 0}")?;
    authorized(request(port)).comes_to_answer(403).await?;
    Ok(())
}

/// Keys from a ConfigMap, in its current state.
async fn keys_of_a_config_map(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    route(&world)?;
    let (maker, other) = (TokenMaker::start("maker").await?, TokenMaker::start("maker").await?);
    let map = |entry: &str, keys: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: keys, namespace: default}}, data: {{{entry}: '{keys}'}}}}"
        );
        world.write("map.yaml", text)
    };
    let spec = "jwt: {providers: [{name: own, issuer: maker, jwks: {local: {configMapRef: {name: keys}}}}]}";
    world.write("tokens.yaml", extension("tokens", maker.address(), spec))?;
    world.write("policy.yaml", policy("p", GATEWAY, "jwtAuth: {extensionRef: {name: tokens}}"))?;
    map("jwks", &maker.keys()?)?;
    let _holdfast = world.run().await?;
    let with = |maker: &TokenMaker| -> Result<HttpRequest> {
        Ok(request(port).header("authorization", &maker.bearer("shop")?))
    };
    let (own, others) = (with(&maker)?, with(&other)?);
    own.comes_to_reach("echo").await?;
    others.answers(401).await?;
    map("jwks", &other.keys()?)?;
    others.comes_to_reach("echo").await?;
    own.comes_to_answer(401).await?;
    for (entry, keys) in [("other", other.keys()?), ("jwks", "{}".to_owned())] {
        map(entry, &keys)?;
        others.comes_to_answer(500).await?;
        map("jwks", &other.keys()?)?;
        others.comes_to_reach("echo").await?;
    }
    world.delete("map.yaml")?;
    others.comes_to_answer(500).await?;
    map("jwks", &other.keys()?)?;
    others.comes_to_reach("echo").await?;
    Ok(())
}

/// A public key in PEM verifies tokens with any key id; a text that is no public key closes, and the fault is reported.
async fn keys_in_pem(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    route(&world)?;
    let (maker, other) = (TokenMaker::start("maker").await?, TokenMaker::start("maker").await?);
    let written = |text: &str| {
        let text = serde_json::Value::from(text);
        let spec = format!("jwt: {{providers: [{{name: own, issuer: maker, jwks: {{local: {{inline: {text}}}}}}}]}}");
        world.write("tokens.yaml", extension("tokens", maker.address(), &spec))
    };
    written(&maker.public_key())?;
    world.write("policy.yaml", policy("p", GATEWAY, "jwtAuth: {extensionRef: {name: tokens}}"))?;
    let holdfast = world.run().await?;
    let with = |maker: &TokenMaker| -> Result<HttpRequest> {
        Ok(request(port).header("authorization", &maker.bearer("shop")?))
    };
    let (own, others) = (with(&maker)?, with(&other)?);
    own.comes_to_reach("echo").await?;
    others.answers(401).await?;
    written(&other.public_key())?;
    others.comes_to_reach("echo").await?;
    own.comes_to_answer(401).await?;
    written(&other.public_key().replace("PUBLIC KEY", "CERTIFICATE"))?;
    others.comes_to_answer(500).await?;
    let faults = holdfast.diagnostics("/debug/faults").await?.to_string();
    ensure!(faults.contains("openssl x509 -pubkey"), "{faults}");
    Ok(())
}

/// Keys are fetched before the first request.
async fn fetched_ahead(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    route(&world)?;
    let maker = TokenMaker::start("maker").await?;
    let spec = format!(
        "jwt: {{providers: [{{name: own, issuer: maker, jwks: {{remote: {{url: \"{}\", backendRef: {{name: tokens, port: 8080}}, \
         asyncFetch: {{failedRefetchDuration: 100ms}}, retryPolicy: {{numRetries: 2, backOff: {{baseInterval: 10ms}}}}}}}}}}]}}",
        maker.uri()
    );
    world.write("tokens.yaml", extension("tokens", maker.address(), &spec))?;
    world.write("policy.yaml", policy("p", GATEWAY, "jwtAuth: {extensionRef: {name: tokens}}"))?;
    let _holdfast = world.run().await?;
    until("the keys are fetched", || async {
        ensure!(maker.key_requests() > 0, "nobody asked for them");
        Ok(())
    })
    .await?;
    request(port).header("authorization", &maker.bearer("shop")?).comes_to_reach("echo").await?;
    request(port).answers(401).await?;
    Ok(())
}
