//! The admission webhook of the chart: `kubectl apply` prints what is wrong with an object and what clients get.
//!
//! The API server reaches Holdfast by a URL, since no kube-proxy serves the chart's Service. Everything else in the
//! configuration is the chart's, and certgen has the chart's rights.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_scenario_tests::kubernetes::{Cluster, chart};
use holdfast_scenario_tests::process::{Finished, Process};
use holdfast_scenario_tests::{HoldfastOptions, Story, World, binary, manifests, stories, until};
use serde_json::{Value, json};

use super::reporting::in_a_pod;
use super::serving::{answers, backend, gateway, options, rule};

pub(crate) fn stories() -> Vec<Story> {
    let mut stories = stories!("webhook", false, [faults_of_content_are_denied, certgen_sets_the_authorities]);
    stories.extend(stories!("webhook", true, [an_apply_is_answered_with_warnings]));
    stories
}

/// The name of the chart's configuration.
const CONFIGURATION: &str = "holdfast-holdfast";
const BROKEN: &str =
    "rules:\n- matches: [{path: {type: RegularExpression, value: '/a['}}]\n  backendRefs: [{name: echo, port: 8080}]";
const FIELD: &str = "HTTPRoute default/good: spec.rules[0].matches[0].path.value: ";
/// A backend of another owner, which cannot be used.
const BROKEN_BACKEND: &str = "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: Backend, metadata: {name: broken, namespace: default}, \
     spec: {type: Static, static: {hosts: [{host: 'not a host', port: 80}]}}}";

/// The webhook of one story.
struct Webhook<'a> {
    world: &'a World,
    cluster: &'a Cluster,
    port: u16,
    /// The kubeconfig of certgen's ServiceAccount.
    certgen: PathBuf,
}

impl<'a> Webhook<'a> {
    /// Applies the chart's objects for the webhook and for certgen, and makes the certificate.
    async fn install(world: &'a World, cluster: &'a Cluster) -> Result<Self> {
        let all = chart::objects(&chart::render(world, &["--set", "webhook.enabled=true"]).await?)?;
        cluster.kubectl_output(&["create", "namespace", "holdfast"]).await?;
        for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"] {
            for object in chart::of_kind(&all, kind) {
                cluster.apply(object.to_string()).await?;
            }
        }
        let port = world.port()?;
        let [configuration] = chart::of_kind(&all, "ValidatingWebhookConfiguration")[..] else {
            anyhow::bail!("no webhook in the chart")
        };
        let mut configuration = configuration.clone();
        configuration["webhooks"][0]["clientConfig"] = json!({ "url": format!("https://127.0.0.1:{port}/review") });
        // The machine that runs the stories can be slow; the chart has 2 seconds.
        configuration["webhooks"][0]["timeoutSeconds"] = json!(30);
        cluster.apply(configuration.to_string()).await?;
        let token = cluster.kubectl_output(&["-n", "holdfast", "create", "token", "holdfast-certgen"]).await?;
        let webhook = Self { world, cluster, port, certgen: cluster.kubeconfig_of(token.trim())? };
        webhook.renew("127.0.0.1").await?.expect_code(0)?.expect_output(&["set the authorities in"])?;
        Ok(webhook)
    }

    /// Runs certgen with these names, and writes the certificate into the files of Holdfast.
    async fn renew(&self, names: &str) -> Result<Finished> {
        let kubeconfig = self.certgen.display().to_string();
        let secret = "holdfast/holdfast-xds-certificate";
        let args = ["certgen", "--secret", secret, "--kubeconfig", &kubeconfig, "--server-name", names];
        let args = [&args[..], &["--webhook-configuration", CONFIGURATION]].concat();
        let finished = Process::start(&binary::holdfast()?, args, &[], &self.world.log("certgen"))?.finish().await?;
        let name = ["-n", "holdfast", "get", "secret", "holdfast-xds-certificate", "-o", "json"];
        let secret: Value = serde_json::from_str(&self.cluster.kubectl_output(&name).await?)?;
        for file in ["tls.key", "tls.crt"] {
            let aside = self.world.folder().join(format!("..{file}"));
            fs::write(&aside, STANDARD.decode(secret["data"][file].as_str().context("no text")?)?)?;
            fs::rename(&aside, self.world.folder().join(file))?;
        }
        Ok(finished)
    }

    fn options(&self, options: HoldfastOptions, mode: &str) -> HoldfastOptions {
        let file = |name: &str| self.world.folder().join(name).display().to_string();
        options.args(&[
            "--webhook-listen",
            &format!("127.0.0.1:{}", self.port),
            "--webhook-mode",
            mode,
            "--webhook-tls-cert",
            &file("tls.crt"),
            "--webhook-tls-key",
            &file("tls.key"),
        ])
    }

    async fn apply(&self, text: &str, more: &[&str]) -> Result<Finished> {
        let file = self.world.folder().join("edit.yaml");
        fs::write(&file, text)?;
        let args = ["apply", "--server-side", "--force-conflicts", "-f", &file.display().to_string()];
        self.cluster.kubectl(&[&args[..], more].concat()).await
    }

    /// Applies text, which is stored without a warning.
    async fn stores_silently(&self, text: &str) -> Result<()> {
        let finished = self.apply(text, &[]).await?;
        ensure!(finished.code == Some(0) && !finished.output().contains("Warning"), "{}", finished.output());
        Ok(())
    }

    async fn generation(&self, kind: &str, name: &str) -> Result<String> {
        self.cluster.kubectl_output(&["get", kind, name, "-o", "jsonpath={.metadata.generation}"]).await
    }
}

fn proxy(conditions: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: p, namespace: default}}\n\
         spec:\n  virtualhost: {{fqdn: b.example.com}}\n  \
         routes: [{{conditions: [{conditions}], services: [{{name: echo, port: 8080}}]}}]\n"
    )
}

fn policy(more: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: t, namespace: default}}\nspec:\n  \
         targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: good}}]\n  \
         headerModifiers: {{response: {{set: [{{name: x-policy, value: one}}]}}}}\n{more}"
    )
}

const TO_BROKEN: &str = "rules:\n- backendRefs: [{group: gateway.kgateway.dev, kind: Backend, name: broken}]";

async fn an_apply_is_answered_with_warnings(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let _echo = backend(&cluster, "echo", [10, 244, 0, 1]).await?;
    let port = gateway(&world, &cluster).await?;
    cluster.apply(manifests::http_route("good", &rule("/good"))).await?;
    let webhook = Webhook::install(&world, &cluster).await?;
    let (http, https) = (world.port()?.to_string(), world.port()?.to_string());
    let options = in_a_pod(&world, &cluster).await?.args(&["--httpproxy-http", &http, "--httpproxy-https", &https]);
    let holdfast = world.run_with(webhook.options(options, "warn")).await?;
    answers(port, "/good", 200).await?;

    let broken = manifests::http_route("good", BROKEN);
    // The route has a last valid version as soon as its Envoy has acknowledged it.
    until("a dry run names the generation that goes on being served", async || {
        let finished = webhook.apply(&broken, &["--dry-run=server"]).await?;
        finished.expect_code(0)?.expect_output(&["Warning: ", FIELD, "; generation 1 goes on being served"])?;
        Ok(())
    })
    .await?;
    ensure!(webhook.generation("httproute", "good").await? == "1", "the dry run was stored");
    let finished = webhook.apply(&broken, &[]).await?;
    finished.expect_code(0)?.expect_output(&["Warning: ", FIELD, "; generation 1 goes on being served"])?;
    ensure!(webhook.generation("httproute", "good").await? == "2", "it is not stored");
    holdfast.comes_to_print(&["FallbackConfigurationSucceeded"]).await?;
    answers(port, "/good", 200).await?;
    webhook.stores_silently(&manifests::http_route("good", &rule("/good"))).await?;

    let finished = webhook.apply(&proxy("{prefix: /one}, {header: {name: x, regex: \"(\"}}"), &[]).await?;
    finished.expect_code(0)?.expect_output(&["Warning: HTTPProxy default/p: spec.routes[0].conditions"])?;
    webhook.stores_silently(&proxy("{prefix: /one}")).await?;
    webhook.stores_silently(&policy("")).await?;
    let finished =
        webhook.apply(&policy("  urlRewrite: {pathRegex: {pattern: \"(\", substitution: /}}\n"), &[]).await?;
    finished.expect_code(0)?.expect_output(&["Warning: TrafficPolicy default/t: spec.urlRewrite"])?;
    webhook.stores_silently(&policy("")).await?;

    // The fault of another object is the business of its owner; a missing object may still come.
    webhook.apply(BROKEN_BACKEND, &[]).await?.expect_code(0)?.expect_output(&["Warning: Backend default/broken: "])?;
    webhook.stores_silently(&manifests::http_route("refers", TO_BROKEN)).await?;
    let missing = "rules:\n- backendRefs: [{name: absent, port: 80}]";
    let finished = webhook.apply(&manifests::http_route("early", missing), &[]).await?;
    finished.expect_code(0)?.expect_output(&["Warning: HTTPRoute default/early: spec.rules[0].backendRefs[0]"])?;

    // A new certificate, with another name, is used without a restart.
    webhook.renew("127.0.0.1,localhost").await?.expect_code(0)?.expect_output(&["created the certificate"])?;
    holdfast.comes_to_print(&["the certificates of the webhook have changed"]).await?;
    webhook.apply(&broken, &["--dry-run=server"]).await?.expect_code(0)?.expect_output(&["Warning: ", FIELD])?;

    // Without a webhook, objects are stored unchecked.
    holdfast.kill()?;
    webhook.stores_silently(&broken).await
}

async fn faults_of_content_are_denied(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    gateway(&world, &cluster).await?;
    cluster.apply(manifests::service("default", "echo", None, &[([10, 244, 0, 1], 8080).into()])).await?;
    cluster.apply(manifests::http_route("stored", BROKEN)).await?;
    cluster.apply(BROKEN_BACKEND).await?;
    let webhook = Webhook::install(&world, &cluster).await?;
    let holdfast = world.run_with(webhook.options(options(&world, &cluster)?.without_envoy(), "deny")).await?;
    let good = manifests::http_route("good", &rule("/good"));
    webhook.stores_silently(&good).await?;
    for more in [&["--dry-run=server"][..], &[]] {
        let finished = webhook.apply(&manifests::http_route("good", BROKEN), more).await?;
        finished.expect_code(1)?.expect_output(&[
            "admission webhook \"check.holdfast.dev\" denied the request",
            FIELD,
            "requests for rules[0] would get response 404",
            "it is not stored: edit these fields and apply it again",
        ])?;
    }
    ensure!(webhook.generation("httproute", "good").await? == "1", "it is stored");
    let finished = webhook.apply(&proxy("{prefix: /one}, {header: {name: x, regex: \"(\"}}"), &[]).await?;
    finished
        .expect_code(1)?
        .expect_output(&["denied the request", "HTTPProxy default/p: spec.routes[0].conditions"])?;
    let finished =
        webhook.apply(&policy("  urlRewrite: {pathRegex: {pattern: \"(\", substitution: /}}\n"), &[]).await?;
    finished.expect_code(1)?.expect_output(&["denied the request", "TrafficPolicy default/t: spec.urlRewrite"])?;

    // References can be applied in any order, and metadata of a broken object can be changed.
    let missing = "rules:\n- backendRefs: [{name: absent, port: 80}]";
    let finished = webhook.apply(&manifests::http_route("early", missing), &[]).await?;
    finished.expect_code(0)?.expect_output(&["Warning: HTTPRoute default/early: "])?;
    cluster.kubectl_output(&["label", "httproute", "stored", "a=b"]).await?;
    webhook.stores_silently(&manifests::http_route("refers", TO_BROKEN)).await?;
    cluster.kubectl_output(&["delete", "httproute", "stored"]).await?;
    holdfast.terminate().await?.expect_code(0)?;
    Ok(())
}

async fn certgen_sets_the_authorities(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    let webhook = Webhook::install(&world, &cluster).await?;
    let bundle = async || {
        let path = "jsonpath={.webhooks[*].clientConfig.caBundle}";
        cluster.kubectl_output(&["get", "validatingwebhookconfiguration", CONFIGURATION, "-o", path]).await
    };
    let before = bundle().await?;
    let path = "jsonpath={.data.ca\\.crt}";
    let authorities =
        cluster.kubectl_output(&["-n", "holdfast", "get", "secret", "holdfast-xds-certificate", "-o", path]).await?;
    ensure!(!before.is_empty() && before == authorities, "{before}");
    webhook.renew("127.0.0.1").await?.expect_code(0)?.expect_output(&["nothing to renew"])?;
    // Another client removed it.
    let remove = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    let named = ["patch", "validatingwebhookconfiguration", CONFIGURATION, "--type=json", "-p", remove];
    cluster.kubectl_output(&named).await?;
    webhook.renew("127.0.0.1").await?.expect_code(0)?.expect_output(&["set the authorities in"])?;
    ensure!(bundle().await? == before);
    cluster.kubectl_output(&["delete", "validatingwebhookconfiguration", CONFIGURATION]).await?;
    webhook.renew("127.0.0.1").await?.expect_code(1)?.expect_output(&[CONFIGURATION, "does not exist yet"])?;
    Ok(())
}
