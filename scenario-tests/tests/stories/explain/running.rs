//! `holdfast explain` of a running Holdfast: earlier versions and replacements are explained as they are served.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use holdfast_envoy::explain::answer::ExplainedAnswer;
use holdfast_scenario_tests::manifests::{http_listener, https_listener};
use holdfast_scenario_tests::process::Finished;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::story::dice::Dice;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, manifests, stories, until};
use serde_json::Value;

use super::agreement::agree;
use super::random::{self, BACKENDS, MARKER, RandomRequest};
use super::sent;
use crate::fallback::BACKFILL;

pub(super) fn stories() -> Vec<Story> {
    stories!(
        "explain",
        true,
        [
            of_a_running_holdfast,
            closed_listeners,
            objects_without_a_gateway,
            last_valid_certificate,
            random_requests_in_a_fallback,
        ]
    )
}

/// Configurations, and the requests of each.
const CONFIGURATIONS: u64 = 4;
const REQUESTS: usize = 200;
/// The number of the first configuration without broken routes.
const GOOD: u64 = 100;

const POLICY: &str = "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: limits, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}]
  timeouts: {request: 30s}
";

/// A policy with a condition that cannot be read, and another one with a broken extension.
const GUARD: &str = "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: guard, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: pay}]
  rbac: {action: Deny, policy: {matchExpressions: ['request.path.startsWith(']}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: guard-too, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: pay}]
  extAuth: {extensionRef: {name: broken}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {name: broken, namespace: default}
spec: {extAuth: {grpcService: {backendRef: {name: auth, port: 80}, requestTimeout: soon}}}
";

async fn explain(world: &World, holdfast: &Holdfast, args: &[&str]) -> Result<Finished> {
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    world.command(&[&["explain", "--diagnostics", &diagnostics], args].concat()).await
}

/// Waits until the explanation of a request has this exit code and these texts.
async fn comes_to_explain(world: &World, holdfast: &Holdfast, url: &str, code: i32, words: &[&str]) -> Result<()> {
    until(&format!("explain {url} ends with {code} and has {words:?}"), || async {
        explain(world, holdfast, &["GET", url]).await?.expect_code(code)?.expect_output(words)?;
        Ok(())
    })
    .await
}

fn rule(path: &str, backend: &str) -> String {
    format!("- matches: [{{path: {path}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]\n")
}

/// A listener without its certificate, one that takes no part, one of a second Gateway at a port in use, and a host of an
/// HTTPProxy without its certificate: the fault is named, of a running Holdfast and of manifests.
async fn closed_listeners(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (open, closed, out, secure) = (world.port()?, world.port()?, world.port()?, world.port()?);
    let without = https_listener("closed", closed, "", &["gone"]);
    let of_other_protocol = format!("- name: out\n  port: {out}\n  protocol: SCTP\n");
    world.gateway_with(&[http_listener(open), without, of_other_protocol].concat())?;
    world.route("all", &format!("rules:\n{}", rule("{type: PathPrefix, value: /all}", "echo")))?;
    world.write("younger.yaml", manifests::gateway("younger", &http_listener(open)))?;
    let proxy = "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {name: pay, namespace: default}\n\
                 spec: {virtualhost: {fqdn: pay.test, tls: {secretName: lost}}, routes: [{services: [{name: echo, port: \
                 8080}]}]}\n";
    world.write("proxy.yaml", proxy)?;
    let (plain, secure_port) = (world.port()?.to_string(), secure.to_string());
    let flags = ["--httpproxy-http", &plain, "--httpproxy-https", &secure_port];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    get(open, "/all").comes_to_reach("echo").await?;
    let folder = world.manifests().display().to_string();
    for (host, port, words) in [
        ("127.0.0.1", closed, "because of    Gateway default/public: spec.listeners[1].tls.certificateRefs[0]: Secret"),
        ("127.0.0.1", out, "because of    Gateway default/public: spec.listeners[2].protocol: "),
        ("pay.test", secure, "because of    HTTPProxy default/pay: spec.virtualhost.tls.secretName: "),
    ] {
        let url = format!("https://{host}:{port}/");
        comes_to_explain(&world, &holdfast, &url, 1, &["no connection", words]).await?;
        let offline = [&["explain", "--manifests", &folder, "GET", &url], &flags[..]].concat();
        world.command(&offline).await?.expect_code(1)?.expect_output(&["no connection", words])?;
    }
    let taken = "because of    Gateway default/younger: spec.listeners[0].port: ";
    let url = format!("http://127.0.0.1:{open}/");
    comes_to_explain(&world, &holdfast, &url, 1, &["404", taken]).await?;
    let own = explain(&world, &holdfast, &["--gateway", "default/public", "GET", &url]).await?;
    own.expect_code(1)?;
    ensure!(!own.output().contains("because of"), "{}", own.output());
    let routed = explain(&world, &holdfast, &["GET", &format!("{url}all")]).await?;
    ensure!(!routed.output().contains("because of"), "{}", routed.output());
    let document = explain(&world, &holdfast, &["-o", "json", "GET", &format!("https://127.0.0.1:{closed}/")]).await?;
    let document: Value = serde_json::from_str(&document.output())?;
    ensure!(document["closedBy"][0]["reason"] == "InvalidCertificateRef", "{document}");
    Ok(())
}

/// Objects that no Gateway serves, each with its own host: a route to a listener that does not exist, a route of a
/// namespace that is not allowed, a ListenerSet without a Gateway, and HTTPProxies of one host.
const WITHOUT_GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: misspelt, namespace: default}
spec: {parentRefs: [{name: public, sectionName: htpp}], hostnames: [a.test], rules: [{backendRefs: [{name: echo, port: 8080}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: foreign, namespace: other}
spec: {parentRefs: [{name: public, namespace: default}], hostnames: [b.test], rules: [{backendRefs: [{name: echo, port: 8080}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: own, namespace: default}
spec: {parentRef: {name: publik}, listeners: [{name: c, port: 80, protocol: HTTP, hostname: c.test}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: second, namespace: default}
spec: {virtualhost: {fqdn: D.test}, routes: [{services: [{name: echo, port: 8080}]}]}
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {name: first, namespace: default}
spec: {virtualhost: {fqdn: d.test}, routes: [{services: [{name: echo, port: 8080}]}]}
";

async fn objects_without_a_gateway(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    world.gateway_with(&format!("- {{name: http, port: {port}, protocol: HTTP}}\n"))?;
    world.route("all", &format!("rules:\n{}", rule("{type: PathPrefix, value: /}", "echo")))?;
    world.write("others.yaml", WITHOUT_GATEWAY)?;
    let flags = ["--httpproxy-gateway", "default/public"];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    get(port, "/").comes_to_reach("echo").await?;
    for (host, code, words) in [
        ("a.test", 3, "HTTPRoute default/misspelt"),
        ("b.test", 3, "HTTPRoute other/foreign"),
        ("c.test", 3, "ListenerSet default/own"),
        ("e.test", 0, "echo"),
    ] {
        let url = format!("http://{host}:{port}/");
        comes_to_explain(&world, &holdfast, &url, code, &[words]).await?;
        get(port, "/").host(host).reaches("echo").await?;
    }
    let url = format!("http://d.test:{port}/");
    let explained = explain(&world, &holdfast, &["GET", &url]).await?;
    ensure!(explained.code != Some(0), "{}", explained.output());
    // The target that cannot be read may be the route of the request.
    let policy = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
                  metadata: {name: lost, namespace: NAMESPACE}\n\
                  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, nam: all}], timeouts: {request: 1s}}\n";
    let unrelated = format!("http://e.test:{port}/");
    world.write("policy.yaml", policy.replace("NAMESPACE", "default"))?;
    comes_to_explain(&world, &holdfast, &unrelated, 3, &["TrafficPolicy default/lost"]).await?;
    world.write("policy.yaml", policy.replace("NAMESPACE", "other"))?;
    comes_to_explain(&world, &holdfast, &unrelated, 0, &["echo"]).await
}

/// A connection that gets the last valid version of a certificate; plain requests do not depend on it, nor does another
/// Gateway with a listener of the same name and host.
async fn last_valid_certificate(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (http, https, elsewhere) = (world.port()?, world.port()?, world.port()?);
    let (wild, other) = (Certificate::of(&["*.example.com"])?, Certificate::of(&["other.test"])?);
    let secrets = |wild: String| manifests::documents(&[wild, other.secret("default", "other")]);
    world.write("secrets.yaml", secrets(wild.secret("default", "wild")))?;
    let secure = |name: &str, host: &str, secret: &str| https_listener(name, https, host, &[secret]);
    let listeners =
        [http_listener(http), secure("wild", "*.example.com", "wild"), secure("other", "other.test", "other")];
    world.gateway_with(&listeners.concat())?;
    let of_second = https_listener("wild", elsewhere, "*.example.com", &["other"]);
    world.write("second.yaml", manifests::gateway("second", &of_second))?;
    world.route("all", &format!("rules:\n{}", rule("{type: PathPrefix, value: /}", "echo")))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let at_wild = get(https, "/").host("a.example.com").tls(wild.trust("a.example.com"));
    at_wild.comes_to_reach("echo").await?;
    let url = format!("https://a.example.com:{https}/");
    comes_to_explain(&world, &holdfast, &url, 0, &["forwarded to Service default/echo"]).await?;
    let broken = manifests::tls_secret("default", "wild", "no certificate", "no key");
    world.write("secrets.yaml", secrets(broken))?;
    let words = ["last valid    Secret default/wild: generation 1", "data", "forwarded to Service default/echo"];
    comes_to_explain(&world, &holdfast, &url, 1, &words).await?;
    at_wild.reaches("echo").await?;
    let second = explain(&world, &holdfast, &["GET", &format!("https://a.example.com:{elsewhere}/")]).await?;
    second.expect_output(&["gateway       default/second"])?;
    ensure!(!second.output().contains("last valid"), "{}", second.output());
    comes_to_explain(&world, &holdfast, &format!("https://other.test:{https}/"), 0, &["forwarded"]).await?;
    comes_to_explain(&world, &holdfast, &format!("http://a.example.com:{http}/"), 0, &["forwarded"]).await
}

/// A route that is served, a replaced rule, a last valid version, and what cannot be explained.
async fn of_a_running_holdfast(world: World) -> Result<()> {
    let (_old, _new) = (world.backend("old").await?, world.backend("new").await?);
    let port = world.gateway()?;
    let good = "{type: PathPrefix, value: /cart}";
    let broken = "{type: RegularExpression, value: '/pay/[0-9+'}";
    world.route("cart", &format!("rules:\n{}", rule(good, "old")))?;
    world.write("limits.yaml", POLICY)?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    get(port, "/cart").comes_to_reach("old").await?;
    let words = [
        "forwarded to Service default/old",
        "policy        rules[0]: timeouts",
        "of TrafficPolicy default/limits: {\"request\":\"30s\"}",
        "object        HTTPRoute default/cart",
        "1 acknowledged",
        "0 pending",
    ];
    comes_to_explain(&world, &holdfast, &url("/cart"), 0, &words).await?;
    // The shown value is the one that is served.
    world.write("limits.yaml", POLICY.replace("30s", "soon"))?;
    let earlier = ["last valid    TrafficPolicy default/limits", "default/limits: {\"request\":\"30s\"}"];
    comes_to_explain(&world, &holdfast, &url("/cart"), 1, &earlier).await?;
    world.write("limits.yaml", POLICY)?;
    comes_to_explain(&world, &holdfast, &url("/cart"), 0, &words).await?;
    // A missing backend at another path concerns no request to this one.
    let away = format!("rules:\n{}", rule("{type: PathPrefix, value: /away}", "gone"));
    world.route("away", &away)?;
    comes_to_explain(&world, &holdfast, &url("/away"), 1, &["Service default/gone"]).await?;
    comes_to_explain(&world, &holdfast, &url("/cart"), 0, &words).await?;
    world.delete("route-away.yaml")?;
    comes_to_explain(&world, &holdfast, &url("/away"), 1, &["404"]).await?;
    // A broken route of another host concerns no request to this one; a route of all hosts may.
    let pay = format!("rules:\n{}", rule(broken, "old"));
    world.route("pay", &format!("hostnames: [pay.test]\n{pay}"))?;
    comes_to_explain(&world, &holdfast, &url("/cart"), 0, &["the Gateway is in a fallback"]).await?;
    // So does a broken policy of that route, with the extension that it refers to.
    world.write("guard.yaml", GUARD)?;
    world.route("pay", &format!("hostnames: [pay.test]\nrules:\n{}", rule(good, "old")))?;
    let request = ["-H", "Host: pay.test", "GET", &url("/cart")];
    until("the policy closes the route", || async {
        explain(&world, &holdfast, &request).await?.expect_code(1)?.expect_output(&["TrafficPolicy default/guard"])?;
        Ok(())
    })
    .await?;
    comes_to_explain(&world, &holdfast, &url("/cart"), 0, &["the Gateway is in a fallback"]).await?;
    world.delete("guard.yaml")?;
    world.route("pay", &pay)?;
    let words = ["forwarded to Service default/old", "may concern   HTTPRoute default/pay"];
    comes_to_explain(&world, &holdfast, &url("/cart"), 3, &words).await?;
    let words =
        ["answer        404: Holdfast has invalid configuration", "replaced      HTTPRoute default/pay rules[0]"];
    comes_to_explain(&world, &holdfast, &url("/pay/1"), 1, &words).await?;
    get(port, "/pay/1").answers(404).await?;

    // The whole route goes back, with the good edit of its first rule.
    world.route("cart", &format!("rules:\n{}{}", rule(good, "new"), rule(broken, "new")))?;
    let words = [
        "forwarded to Service default/old",
        "last valid    HTTPRoute default/cart: generation 1,",
        "spec.rules[1].matches[0].path.value: invalid regex",
    ];
    comes_to_explain(&world, &holdfast, &url("/cart"), 1, &words).await?;
    get(port, "/cart").reaches("old").await?;

    let finished = explain(&world, &holdfast, &["-o", "json", "GET", &url("/cart")]).await?;
    let report: Value = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
    ensure!(report["outcome"] == "notServed" && report["instead"][0]["servedGeneration"] == 1, "{report}");
    let finished = explain(&world, &holdfast, &["--gateway", "default/other", "GET", &url("/cart")]).await?;
    finished.expect_code(2)?.expect_output(&["there is no such Gateway"])?;
    explain(&world, &holdfast, &["GET", "/cart"]).await?.expect_code(2)?;
    let gone = format!("127.0.0.1:{}", world.port()?);
    let finished = world.command(&["explain", "--diagnostics", &gone, "GET", &url("/cart")]).await?;
    finished.expect_code(3)?.expect_output(&["is Holdfast running"])?;
    let reply =
        get(holdfast.options.diagnostics, "/debug/explain?url=http://a/&path=/b").host("localhost").send().await?;
    ensure!(reply.status == 400 && reply.body.contains("unknown parameter path"), "{reply:?}");
    Ok(())
}

/// Random routes are served, and then some of them break, so that their last valid versions are served: the page explains
/// what a real Envoy answers.
async fn random_requests_in_a_fallback(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in BACKENDS {
        backends.push(world.backend(name).await?);
    }
    let port = world.gateway()?;
    let (proxies, secure) = (world.port()?.to_string(), world.port()?.to_string());
    let flags = ["--httpproxy-http", &proxies, "--httpproxy-https", &secure];
    world.write("routes.yaml", random::routes(&mut Dice::new(0), 0, false))?;
    let options = HoldfastOptions::new(&world)?.args(&[&BACKFILL[..], &flags].concat());
    let holdfast = world.run_with(options).await?;
    let (mut wrong, mut instead, mut outcomes) = (Vec::new(), 0, BTreeMap::new());
    for number in 0..CONFIGURATIONS {
        let mut dice = Dice::new(number);
        let good = random::repaired(&random::routes(&mut Dice::new(number), GOOD + number, false));
        let broken = random::routes(&mut dice, number, false);
        for (text, number) in [(good, GOOD + number), (broken, number)] {
            world.write("routes.yaml", text)?;
            get(port, &format!("/configuration/{number}")).host(MARKER).comes_to_reach(BACKENDS[0]).await?;
        }
        let mut connection = get(port, "/").connect().await?;
        for _ in 0..REQUESTS {
            let request = RandomRequest::new(&mut dice);
            let report = explained(&holdfast, &request, port).await?;
            let answer: ExplainedAnswer = serde_json::from_value(report["answer"].clone())?;
            let reply = sent(&request, port)?.send_on(&mut connection).await?;
            if let Err(why) = agree(&answer, Some(&reply), false) {
                wrong.push(format!("configuration {number}: {request:?}: {why}"));
            }
            if reply.header("connection").eq_ignore_ascii_case("close") {
                connection = get(port, "/").connect().await?;
            }
            instead += usize::from(report["instead"].is_array());
            let outcome = report["outcome"].as_str().unwrap_or_default().to_owned();
            ensure!(outcome != "served" || (answer.is_served() && report["mayConcern"].is_null()), "{report}");
            *outcomes.entry(outcome).or_insert(0) += 1;
        }
    }
    ensure!(wrong.is_empty(), "{} requests: {wrong:#?}", wrong.len());
    let certain = outcomes.get("notServed").copied().unwrap_or_default();
    ensure!(instead >= 20 && certain >= 100, "{instead} requests to last valid versions; outcomes: {outcomes:?}");
    Ok(())
}

/// The explanation of a request by the page.
async fn explained(holdfast: &Holdfast, request: &RandomRequest, port: u16) -> Result<Value> {
    let page = holdfast.diagnostics(&path(request, port)).await?;
    page.get("report").cloned().context("no report")
}

/// The path of the page for a request.
fn path(request: &RandomRequest, port: u16) -> String {
    let mut query = form_urlencoded::Serializer::new("/debug/explain?".to_owned());
    query.append_pair("method", request.method);
    query.append_pair("url", &format!("http://127.0.0.1:{port}{}", request.path));
    for (name, value) in request.headers(port) {
        query.append_pair("header", &format!("{name}: {value}"));
    }
    query.finish()
}
