//! Observability: diagnostics pages, metrics, logs; and confidentiality of their content.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::manifests::https_listener;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{HoldfastOptions, Story, World, stories};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!("seeing", true, [pages_and_metrics, secrets_never_leave, log_lines_are_json])
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

async fn pages_and_metrics(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("good", &prefix("/good", "echo"))?;
    world.route("missing", &prefix("/missing", "nowhere"))?;
    let holdfast = world.run().await?;
    get(port, "/good").comes_to_reach("echo").await?;
    get(port, "/missing").comes_to_answer(500).await?;

    let served = holdfast.diagnostics("/debug/config/successful").await?.to_string();
    ensure!(served.contains("gateway.networking.k8s.io/HTTPRoute:default/good"), "no origins: {served}");
    let graph = holdfast.diagnostics("/debug/graph").await?.to_string();
    for key in ["HTTPRoute:default/good", "Service:default/echo", "Gateway:default/public", "GatewayClass:holdfast"] {
        ensure!(graph.contains(key), "{key} is missing in {graph}");
    }
    let envoys = holdfast.diagnostics("/debug/envoys").await?.to_string();
    ensure!(envoys.contains("default/public") && envoys.contains("1.40"), "{envoys}");

    // Another host name is rejected, so that a web page in a local browser cannot read the pages (DNS rebinding).
    get(holdfast.options.diagnostics, "/debug/envoys").host("evil.example").answers(421).await?;

    let metrics = holdfast.options.metrics;
    get(metrics, "/healthz").answers(200).await?;
    let ready = get(metrics, "/readyz?verbose").answers(200).await?;
    ensure!(ready.body.lines().count() > 2, "{ready:?}");
    get(metrics, "/nothing").answers(404).await?;
    ensure!(holdfast.metric("holdfast_xds_connected_envoys", &["default/public"]).await? == 1.0);
    let missing = holdfast.metric("holdfast_route_replacements", &["cause=\"referential\""]).await?;
    ensure!(missing == 1.0, "{missing} rules are replaced:\n{}", holdfast.metrics().await?);
    ensure!(holdfast.metric("holdfast_nacks_total", &[]).await? == 0.0);
    Ok(())
}

/// A client secret of an OAuth 2.0 extension.
const CLIENT_SECRET: &str = "canary-of-a-client";

/// Returns a policy for OAuth 2.0 login, and its objects.
fn login() -> String {
    let object =
        |kind: &str, rest: &str| format!("apiVersion: {kind}, metadata: {{name: login, namespace: default}}, {rest}");
    let documents = [
        object("v1, kind: Secret", &format!("stringData: {{client-secret: {CLIENT_SECRET}}}")),
        object(
            "gateway.kgateway.dev/v1alpha1, kind: GatewayExtension",
            "spec: {oauth2: {backendRef: {name: echo, port: 8080}, authorizationEndpoint: https://a.example/, \
             tokenEndpoint: https://a.example/token, credentials: {clientID: shop, clientSecretRef: {name: login}}}}",
        ),
        object(
            "gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy",
            "spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: login}], \
             oauth2: {extensionRef: {name: login}}}",
        ),
    ];
    documents.map(|document| format!("{{{document}}}")).join("\n---\n")
}

/// A private key and a client secret reach Envoy and nothing else: no page, no metric, no log, no file.
async fn secrets_never_leave(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let certificate = Certificate::of(&["one.example"])?;
    let port = world.port()?;
    world.write("secret.yaml", certificate.secret("default", "one"))?;
    world.gateway_with(&https_listener("one", port, "one.example", &["one"]))?;
    world.route("all", &prefix("/", "echo"))?;
    world.route("login", &prefix("/login", "echo"))?;
    world.write("login.yaml", login())?;
    let options = HoldfastOptions::new(&world)?.args(&["--log-level", "debug"]);
    let holdfast = world.run_with(options).await?;
    let request = |path: &str| get(port, path).host("one.example").tls(certificate.trust("one.example"));
    request("/").comes_to_reach("echo").await?;
    request("/login").comes_to_answer(302).await?;

    // A line of the PEM form of the key, and its base64 form in the Secret.
    let line = certificate.key_pem.lines().nth(1).context("a key of one line")?.to_owned();
    let encoded = STANDARD.encode(&certificate.key_pem);
    let client = [CLIENT_SECRET.to_owned(), STANDARD.encode(CLIENT_SECRET).trim_end_matches('=').to_owned()];
    let keys = [line, encoded.get(40..80).context("a short key")?.to_owned()];
    let marks = [keys, client].concat();
    let clean = |what: &str, text: &str| {
        ensure!(
            marks.iter().all(|mark| !text.contains(mark.as_str())),
            "{what} holds a private key or a client's secret"
        );
        Ok(())
    };
    let mut pages = 0;
    let configs = ["config/fallback", "config/successful", "config/failed", "config/raw-error"];
    let others = ["graph", "graph?format=dot", "plan", "envoys", "faults", "statuses", "store"];
    for page in configs.into_iter().chain(others) {
        let reply = get(holdfast.options.diagnostics, &format!("/debug/{page}")).host("localhost").send().await?;
        pages += usize::from(reply.status.is_success());
        clean(page, &reply.body)?;
    }
    ensure!(pages == 11, "{pages} pages");
    clean("metrics", &holdfast.metrics().await?)?;
    let folder = world.manifests().display().to_string();
    for command in ["check", "translate"] {
        clean(command, &world.command(&[command, &folder]).await?.output())?;
    }
    let options = holdfast.kill()?;
    for_each_file(&options.data, &mut |path, text| clean(&path.display().to_string(), text))?;
    for_each_file(&world.folder().join("logs"), &mut |path, text| clean(&path.display().to_string(), text))
}

pub(crate) fn for_each_file(folder: &Path, look: &mut impl FnMut(&Path, &str) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            for_each_file(&path, look)?;
        } else if path.is_file() {
            look(&path, &String::from_utf8_lossy(&fs::read(&path)?))?;
        }
    }
    Ok(())
}

async fn log_lines_are_json(world: World) -> Result<()> {
    let port = world.gateway()?;
    world.route("missing", &prefix("/missing", "nowhere"))?;
    world.write("broken.yaml", "kind: [")?;
    let options = HoldfastOptions::new(&world)?.env("CONTROLLER_LOG_FORMAT", "json");
    let holdfast = world.run_with(options).await?;
    get(port, "/missing").comes_to_answer(500).await?;
    let output = holdfast.terminate().await?.output();
    let mut lines = 0;
    for line in output.lines() {
        let entry: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        ensure!(entry.get("level").is_some() && entry.get("timestamp").is_some(), "{line}");
        lines += 1;
    }
    ensure!(lines > 3 && output.contains("broken.yaml"), "{output}");
    Ok(())
}
