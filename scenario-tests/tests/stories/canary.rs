//! Confidentiality of Secrets and of credentials in objects, without a store key: on no page, in no log, metric or
//! file. Every field that refers to a Secret is covered; the fields are taken from the schemas.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::holdfast::PAGES;
use holdfast_scenario_tests::manifests::{self, documents, http_listener, http_route, https_listener};
use holdfast_scenario_tests::marks::SecretTexts;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::{Certificate, StoryAuthority};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!("canary", true, [no_credential_without_a_store_key, every_reference_is_covered])
}

/// Fields that refer to Secrets; [`objects`] uses each of them.
const COVERED: [&str; 18] = [
    "Backend spec.aws.auth.secretRef",
    "BackendConfigPolicy spec.tls.secretRef",
    "ExtensionService spec.validation.caSecret",
    "Gateway spec.listeners[].tls.certificateRefs",
    "GatewayExtension spec.oauth2.credentials.clientSecretRef",
    "HTTPProxy spec.routes[].services[].validation.caSecret",
    "HTTPProxy spec.virtualhost.jwtProviders[].localJWKS.secretName",
    "HTTPProxy spec.virtualhost.tls.clientValidation.caSecret",
    "HTTPProxy spec.virtualhost.tls.clientValidation.crlSecret",
    "HTTPProxy spec.virtualhost.tls.secretName",
    "ListenerPolicy spec.default.clientCertificateValidation.caCertificateRefs",
    "ListenerSet spec.listeners[].tls.certificateRefs",
    "TrafficPolicy spec.apiKeyAuth.secretRef",
    "TrafficPolicy spec.apiKeyAuth.secretSelector",
    "TrafficPolicy spec.basicAuth.secretRef",
    "TrafficPolicy spec.headerModifiers.request.add[].secretRef",
    "TrafficPolicy spec.headerModifiers.request.set[].secretRef",
    "TrafficPolicy spec.headerModifiers.response.set[].secretRef",
];

const LOCAL_REPLIES: &str = "is not served: the targets of the policy are closed";

/// Fields that refer to Secrets and are not covered by [`objects`], with the reason.
const NOT_COVERED: [(&str, &str); 7] = [
    ("ListenerPolicy spec.default.httpSettings.localReplies.mappers[].headers.add[].secretRef", LOCAL_REPLIES),
    ("ListenerPolicy spec.default.httpSettings.localReplies.mappers[].headers.set[].secretRef", LOCAL_REPLIES),
    ("Gateway spec.tls.backend.clientCertificateRef", "is not served, and reported as such"),
    ("HTTPProxy spec.tcpproxy.services[].validation.caSecret", "is not served, and reported as such"),
    (
        "HTTPProxy spec.virtualhost.jwtProviders[].remoteJWKS.validation.caSecret",
        "the same SDS Secret as a service's caSecret",
    ),
    ("TLSCertificateDelegation spec.delegations[].secretName", "a permission: the Secret is not read"),
    ("TrafficPolicy spec.headerModifiers.response.add[].secretRef", "the same filter as response.set"),
];

/// Returns the fields of the schemas that refer to Secrets.
fn references() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for group in ["kgateway", "contour", "sets"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/tests/all/{group}/schemas.yaml"));
        let kinds: Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)?;
        for (kind, schema) in kinds.as_object().context("no kinds")? {
            for (name, content) in schema.as_object().into_iter().flatten() {
                walk(content, &format!("{kind} {name}"), &mut found);
            }
        }
    }
    Ok(found)
}

fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        let lower = name.to_lowercase();
        if lower.contains("secret") || lower.contains("certificateref") {
            found.insert(path);
        } else {
            walk(field, &path, found);
        }
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), found);
    }
}

async fn every_reference_is_covered(_world: World) -> Result<()> {
    let known: BTreeSet<String> =
        COVERED.iter().chain(NOT_COVERED.iter().map(|(field, _)| field)).map(|it| (*it).into()).collect();
    let read = references()?;
    ensure!(read.len() > 15, "too few references are found: {read:?}");
    let missing: Vec<_> = read.difference(&known).collect();
    ensure!(missing.is_empty(), "the canary does not cover {missing:?}");
    Ok(())
}

/// All secrets of a story.
struct Canaries {
    certificates: [Certificate; 4],
    authority: StoryAuthority,
    marks: SecretTexts,
}

/// Returns a text for a Secret, unique for each use.
fn mark(what: &str) -> String {
    format!("canary-{what}-5f0c9e21a7")
}

/// An entry of `.htpasswd`, without its name and scheme.
const HASH: &str = "CEo1Ae3vaEXy8eQZjsOiuBz1xrw=";

/// Returns the second line of a PEM text, which does not occur by chance.
fn line(pem: &str) -> &str {
    pem.lines().nth(1).unwrap_or_default()
}

impl Canaries {
    fn new() -> Result<Self> {
        let named = |name: &str| Certificate::of(&[name]);
        let certificates = [
            named("gw.example.com")?,
            named("set.example.com")?,
            named("proxy.example.com")?,
            named("client.example.com")?,
        ];
        let authority = StoryAuthority::new("canary")?;
        let texts = [
            "aws",
            "aws-token",
            "client",
            "api",
            "api-selected",
            "request",
            "added",
            "response",
            "inline",
            "inline-policy",
            "inline-proxy",
            "matched",
        ];
        let texts = texts.map(mark);
        let keys = certificates.iter().map(|certificate| line(&certificate.key_pem));
        let all: Vec<&str> = texts.iter().map(String::as_str).chain(keys).chain([HASH]).collect();
        Ok(Self { marks: SecretTexts::new(&all), certificates, authority })
    }

    fn secrets(&self) -> String {
        let opaque = |name: &str, labels: &str, data: &[(&str, &str)]| {
            let data: Vec<String> = data.iter().map(|(key, value)| format!("{key}: {value:?}")).collect();
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default, labels: {{{labels}}}}}\n\
                 stringData: {{{}}}\n",
                data.join(", ")
            )
        };
        let [gateway, set, proxy, client] = &self.certificates;
        let hash = format!("alice:{{SHA}}{}", HASH);
        // The public key of RFC 7515, appendix A.3.
        let jwks = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"one","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;
        documents(&[
            gateway.secret("default", "gw-cert"),
            set.secret("default", "set-cert"),
            proxy.secret("default", "proxy-cert"),
            opaque(
                "client-cert",
                "",
                &[("tls.crt", &client.pem), ("tls.key", &client.key_pem), ("ca.crt", &self.authority.pem)],
            ),
            opaque("ca", "", &[("ca.crt", &self.authority.pem)]),
            opaque(
                "aws",
                "",
                &[("accessKey", "AKIDEXAMPLE"), ("secretKey", &mark("aws")), ("sessionToken", &mark("aws-token"))],
            ),
            opaque("client", "", &[("client-secret", &mark("client"))]),
            opaque("api", "", &[("alice", &mark("api"))]),
            opaque("api-selected", "keys: 'yes'", &[("bob", &mark("api-selected"))]),
            opaque("basic", "", &[(".htpasswd", &hash)]),
            opaque(
                "values",
                "",
                &[("request", &mark("request")), ("added", &mark("added")), ("response", &mark("response"))],
            ),
            opaque("jwks", "", &[("jwks", jwks)]),
        ])
    }
}

/// Returns a TrafficPolicy for the route of the same name.
fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]\n  {spec}\n"
    )
}

fn kgateway(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
    )
}

fn rule(path: &str, more: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  \
         backendRefs: [{{name: one, port: 8080}}]\n{more}"
    )
}

/// Returns objects that use every field of [`COVERED`], and credentials in objects.
fn objects(http: u16, tls: u16, set: u16) -> String {
    let gateway = manifests::gateway(
        "public",
        &format!("{}\n{}", http_listener(http), https_listener("tls", tls, "gw.example.com", &["gw-cert"])),
    );
    let gateway = gateway.replacen("spec:\n", "spec:\n  allowedListeners: {namespaces: {from: Same}}\n", 1);
    let inline = format!(
        "  filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: Authorization, value: 'Basic {}'}}]}}}}]",
        mark("inline")
    );
    let matched = format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: /matched}}, headers: [{{name: x-api-key, value: '{}'}}]}}]\n  \
         backendRefs: [{{name: one, port: 8080}}]",
        mark("matched")
    );
    documents(&[
        manifests::class(),
        gateway,
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {{name: own, namespace: default}}\n\
             spec:\n  parentRef: {{name: public}}\n  listeners:\n  - {{name: own, port: {set}, protocol: HTTPS, \
             hostname: set.example.com, tls: {{certificateRefs: [{{name: set-cert}}]}}}}\n"
        ),
        http_route("plain", &rule("/plain", "")),
        http_route("inline", &rule("/inline", &inline)),
        http_route("matched", &matched),
        http_route("api", &rule("/api", "")),
        policy("api", "apiKeyAuth: {secretRef: {name: api}}"),
        http_route("selected", &rule("/selected", "")),
        policy("selected", "apiKeyAuth: {secretSelector: {matchLabels: {keys: 'yes'}}}"),
        http_route("basic", &rule("/basic", "")),
        policy("basic", "basicAuth: {secretRef: {name: basic}}"),
        http_route("values", &rule("/values", "")),
        policy(
            "values",
            &format!(
                "headerModifiers: {{request: {{set: [{{name: x-set, secretRef: {{name: values, key: request}}}}, \
                 {{name: x-auth-token, value: '{}'}}], add: [{{name: x-added, secretRef: {{name: values, key: added}}}}]}}, \
                 response: {{set: [{{name: x-response, secretRef: {{name: values, key: response}}}}]}}}}",
                mark("inline-policy")
            ),
        ),
        http_route("login", &rule("/login", "")),
        policy("login", "oauth2: {extensionRef: {name: login}}"),
        kgateway(
            "GatewayExtension",
            "login",
            "{oauth2: {backendRef: {name: one, port: 8080}, authorizationEndpoint: \"https://login.example.com/authorize\", \
             tokenEndpoint: \"https://login.example.com/token\", credentials: {clientID: shop, clientSecretRef: {name: client}}}}",
        ),
        http_route(
            "function",
            "rules:\n- matches: [{path: {type: PathPrefix, value: /function}}]\n  \
             backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: call}]",
        ),
        kgateway(
            "Backend",
            "call",
            "{aws: {accountId: '123456789012', region: eu-west-1, auth: {type: Secret, secretRef: {name: aws}}, lambda: {functionName: f}}}",
        ),
        http_route("secure", "rules:\n- matches: [{path: {type: PathPrefix, value: /secure}}]\n  backendRefs: [{name: two, port: 8080}]"),
        kgateway(
            "BackendConfigPolicy",
            "secure",
            "{targetRefs: [{group: '', kind: Service, name: two}], tls: {secretRef: {name: client-cert}, simpleTLS: true}}",
        ),
        kgateway(
            "ListenerPolicy",
            "edge",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}], default: {\
             clientCertificateValidation: {mode: Optional, caCertificateRefs: [{group: '', kind: Secret, name: ca}]}}}",
        ),
        "apiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\nmetadata: {name: auth, namespace: default}\n\
         spec: {protocol: h2, services: [{name: two, port: 8080}], validation: {caSecret: ca, subjectName: two.example.com}}\n"
            .to_owned(),
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: proxy, namespace: default}}\nspec:\n  \
             virtualhost:\n    fqdn: proxy.example.com\n    tls: {{secretName: proxy-cert, clientValidation: {{caSecret: ca, \
             crlSecret: crl, crlOnlyVerifyLeafCert: true, optionalClientCertificate: true}}}}\n    \
             jwtProviders: [{{name: own, localJWKS: {{secretName: jwks, key: jwks}}}}]\n  routes:\n  \
             - conditions: [{{prefix: /}}]\n    requestHeadersPolicy: {{set: [{{name: x-auth-token, value: '{}'}}]}}\n    \
             services: [{{name: two, port: 8080, protocol: tls, validation: {{caSecret: ca, subjectName: two.example.com}}}}]\n",
            mark("inline-proxy")
        ),
    ])
}

/// Checks all outputs that can be read without reading Secrets.
async fn are_nowhere(marks: &SecretTexts, holdfast: &Holdfast) -> Result<()> {
    for page in PAGES {
        let page = format!("/debug/{page}");
        let reply = get(holdfast.options.diagnostics, &page).host("localhost").answers(200).await?;
        marks.are_not_in(&page, &reply.body)?;
    }
    marks.are_not_in("metrics", &holdfast.metrics().await?)?;
    marks.are_not_in("the log", &holdfast.output())?;
    let files = marks.are_in_no_file(&holdfast.options.data)?;
    ensure!(files > 5, "{files} files");
    Ok(())
}

/// Files and folders of the store that other users may read.
fn readable(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(entry.path().display().to_string());
        }
        if metadata.is_dir() {
            found.extend(readable(&entry.path())?);
        }
    }
    Ok(found)
}

async fn no_credential_without_a_store_key(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let canaries = Canaries::new()?;
    let (http, tls, set) = (world.port()?, world.port()?, world.port()?);
    let crl = canaries.authority.revoking(&[7])?;
    let crl: String = crl.lines().map(|line| format!("    {line}\n")).collect();
    let crl = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: crl, namespace: default}}\nstringData:\n  crl.pem: |\n{crl}"
    );
    world.write("secrets.yaml", documents(&[canaries.secrets(), crl]))?;
    world.write("objects.yaml", objects(http, tls, set))?;
    let (proxy_http, proxy_https) = (world.port()?.to_string(), world.port()?.to_string());
    let options = HoldfastOptions::new(&world)?.args(&[
        "--feature-gates=FallbackConfiguration=true",
        "--use-last-valid-config-for-fallback",
        "--httpproxy-http",
        &proxy_http,
        "--httpproxy-https",
        &proxy_https,
    ]);
    let holdfast = world.run_with(options).await?;
    get(http, "/plain").comes_to_reach("one").await?;
    get(http, "/inline").comes_to_reach("one").await?;
    get(http, "/api").comes_to_answer(401).await?;
    get(http, "/basic").comes_to_answer(401).await?;
    get(http, "/api").header("api-key", &mark("api")).comes_to_reach("one").await?;
    get(http, "/values")
        .comes_to("it has the secret header", |reply| reply.header("x-response") == mark("response"))
        .await?;
    let faults = holdfast.diagnostics("/debug/faults").await?.to_string();
    for kind in ["SecretNotFound", "SecretEntryNotFound", "PolicyNotEnforced"] {
        ensure!(!faults.contains(kind), "a Secret is not used: {faults}");
    }
    are_nowhere(&canaries.marks, &holdfast).await?;

    // Something is stored, and an earlier version is served.
    holdfast.comes_to_store("gateway.networking.k8s.io/HTTPRoute:default/plain", 1).await?;
    world.route("plain-broken", "rules: {not: a list}")?;
    world.write(
        "broken.yaml",
        http_route("later", "rules:\n- matches: [{path: {type: RegularExpression, value: \"/(\"}}]"),
    )?;
    are_nowhere(&canaries.marks, &holdfast).await?;
    let readable = readable(&holdfast.options.data.join("store"))?;
    ensure!(readable.is_empty(), "others may read {readable:?}");
    let options = holdfast.kill()?;
    let holdfast = world.run_with(options).await?;
    get(http, "/plain").comes_to_reach("one").await?;
    get(http, "/api").comes_to_answer(401).await?;
    are_nowhere(&canaries.marks, &holdfast).await?;
    holdfast.terminate().await.map(drop)
}
