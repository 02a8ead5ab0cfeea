//! Confidentiality of Secrets: no status, Event, log, metric, diagnostics page or file contains bytes of a Secret, at
//! log level trace, while the Secrets are valid, while they are refused, and while a stand-in is served.

use std::fs;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::holdfast::{PAGES, STORE_TRACED};
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::manifests::{documents, gateway, http_listener, http_route, https_listener, tls_secret};
use holdfast_scenario_tests::marks::SecretTexts;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, Reply, Story, World, manifests, stories};

use super::leading::condition_becomes;
use super::reporting::{event, in_a_pod};
use super::serving::{answers, backend, rule};

pub(crate) fn stories() -> Vec<Story> {
    stories!("canary", true, [secret_bytes_appear_nowhere])
}

/// Bytes of Secrets, long enough that they do not occur by chance.
const HASH: &str = "CEo1Ae3vaEXy8eQZjsOiuBz1xrw=";
const API_KEY: &str = "canary-api-key-2f81c6";
const CLIENT_SECRET: &str = "canary-client-secret-9d4b07";
const STORE_KEY: &str = "canary-sealing-key-of-32-bytes!!";
/// Invalid replacements for these bytes.
const BAD_HASH: &str = "canary-hash-51ce77";
const BAD_KEY: &str = "canary-private-key-0b9aa3";

/// Kinds that users without the right to read Secrets can read.
const READ: &str = "gatewayclasses,gateways,httproutes,trafficpolicies,gatewayextensions,configmaps,services,leases,events,\
                    events.events.k8s.io";

fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default}}\nstringData: {{{key}: '{value}'}}\n"
    )
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]\n  {spec}\n"
    )
}

const LOGIN: &str = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: GatewayExtension\n\
                     metadata: {name: login, namespace: default}\nspec:\n  oauth2:\n    \
                     backendRef: {name: echo, port: 8080}\n    \
                     authorizationEndpoint: \"https://login.example.com/authorize\"\n    \
                     tokenEndpoint: \"https://login.example.com/token\"\n    \
                     credentials: {clientID: shop, clientSecretRef: {name: client}}\n";

/// Checks all outputs that can be read without the right to read Secrets.
async fn are_nowhere(marks: &SecretTexts, cluster: &Cluster, holdfast: &Holdfast) -> Result<()> {
    for page in PAGES {
        let page = format!("/debug/{page}");
        let reply = get(holdfast.options.diagnostics, &page).host("localhost").answers(200).await?;
        marks.are_not_in(&page, &reply.body)?;
    }
    marks.are_not_in("metrics", &holdfast.metrics().await?)?;
    let all = cluster.kubectl_output(&["get", READ, "-A", "-o", "json", "--show-managed-fields"]).await?;
    ensure!(all.contains("ConfigurationSucceeded") && all.contains("\"kind\": \"TrafficPolicy\""), "too little");
    marks.are_not_in("the API server", &all)?;
    let output = holdfast.output();
    ensure!(output.contains("TRACE"), "nothing is traced");
    marks.are_not_in("the log", &output)?;
    let files = marks.are_in_no_file(&holdfast.options.data)?;
    ensure!(files > 3, "{files} files");
    Ok(())
}

async fn secret_bytes_appear_nowhere(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let certificate = Certificate::of(&["a.example.com"])?;
    let (port, tls) = (world.port()?, world.port()?);
    let listeners = format!("{}\n{}", http_listener(port), https_listener("tls", tls, "a.example.com", &["cert"]));
    cluster.apply(documents(&[manifests::class(), gateway("public", &listeners)])).await?;
    let users = format!("alice:{{SHA}}{HASH}");
    let good = [
        certificate.secret("default", "cert"),
        secret("users", ".htpasswd", &users),
        secret("keys", "alice", API_KEY),
        secret("client", "client-secret", CLIENT_SECRET),
    ];
    cluster.apply(documents(&good)).await?;
    let routes = ["users", "keys", "client", "r"].map(|name| http_route(name, &rule(&format!("/{name}"))));
    cluster.apply(documents(&routes)).await?;
    let policies = [
        policy("users", "basicAuth: {secretRef: {name: users}}"),
        policy("keys", "apiKeyAuth: {secretRef: {name: keys}}"),
        policy("client", "oauth2: {extensionRef: {name: login}}"),
    ];
    cluster.apply(documents(&[vec![LOGIN.to_owned()], policies.to_vec()].concat())).await?;

    // Holdfast uses a token and seals its store.
    cluster.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: reader, namespace: default}\n").await?;
    let to =
        ["create", "clusterrolebinding", "reader", "--clusterrole=cluster-admin", "--serviceaccount=default:reader"];
    cluster.kubectl_output(&to).await?;
    let token = cluster.kubectl_output(&["create", "token", "reader"]).await?;
    let kubeconfig = cluster.kubeconfig_of(token.trim())?.display().to_string();
    let key = world.folder().join("store.key");
    fs::write(&key, STORE_KEY)?;
    let mut options = in_a_pod(&world, &cluster).await?;
    let at = options.args.iter().position(|arg| arg == "--kubeconfig").context("no kubeconfig")?;
    *options.args.get_mut(at + 1).context("no file")? = kubeconfig;
    let options = options.args(&["--log-level", STORE_TRACED, "--store-key-file", &key.display().to_string()]);
    let signature = token.trim().rsplit('.').next().context("no token")?;
    let key_line = certificate.key_pem.lines().nth(1).context("a key of one line")?;
    let marks = SecretTexts::new(&[
        HASH,
        API_KEY,
        CLIENT_SECRET,
        STORE_KEY,
        BAD_HASH,
        BAD_KEY,
        signature,
        key_line,
        &STANDARD.encode(HASH),
    ]);
    ensure!(marks.are_not_in("itself", &certificate.key_pem).is_err(), "it finds nothing");
    ensure!(marks.are_not_in("itself", &STANDARD.encode(format!("x{CLIENT_SECRET}"))).is_err(), "it finds nothing");

    let holdfast = world.run_with(options).await?;
    let secured = get(tls, "/r").host("a.example.com").tls(certificate.trust("a.example.com"));
    secured.comes_to_answer(200).await?;
    answers(port, "/users", 401).await?;
    answers(port, "/keys", 401).await?;
    answers(port, "/client", 302).await?;
    get(port, "/keys").host("a.example.com").header("api-key", API_KEY).comes_to_answer(200).await?;
    event(&cluster, "ConfigurationSucceeded", "Pod/holdfast-0", "").await?;
    are_nowhere(&marks, &cluster, &holdfast).await?;

    // Error messages about invalid content do not contain the content.
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{BAD_KEY}\n-----END PRIVATE KEY-----\n");
    let bad = [
        tls_secret("default", "cert", &certificate.pem, &pem),
        secret("users", ".htpasswd", &format!("alice:{BAD_HASH}")),
        secret("keys", "alice", &format!("{API_KEY}\\u0000")),
        secret("client", "other", CLIENT_SECRET),
    ];
    cluster.apply(documents(&bad)).await?;
    cluster.kubectl_output(&["delete", "secret", "client"]).await?;
    for path in ["/users", "/client"] {
        let closed = |reply: &Reply| [404, 500].contains(&reply.status.as_u16());
        get(port, path).host("a.example.com").comes_to("it is closed", closed).await?;
    }
    event(&cluster, "ConfigurationTranslationFailed", "TrafficPolicy/users", "").await?;
    are_nowhere(&marks, &cluster, &holdfast).await?;

    // Also while a stand-in is served, before and after a restart.
    cluster.apply(documents(&good)).await?;
    answers(port, "/users", 401).await?;
    let mistaken = "rules:\n- matches: [{path: {type: RegularExpression, value: \"/(\"}}]\n  \
                    backendRefs: [{name: echo, port: 8080}]";
    cluster.apply(http_route("r", mistaken)).await?;
    condition_becomes(&cluster, "holdfast.dev/Fallback", "True").await?;
    secured.comes_to_answer(200).await?;
    are_nowhere(&marks, &cluster, &holdfast).await?;
    let options = holdfast.kill()?;
    let holdfast = world.run_with(options).await?;
    secured.comes_to_answer(200).await?;
    answers(port, "/users", 401).await?;
    are_nowhere(&marks, &cluster, &holdfast).await?;
    holdfast.terminate().await.map(drop)
}
