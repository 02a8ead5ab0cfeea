//! `holdfast diff` of a running Holdfast, beside the other reports: an incident with three owners has the same culprits,
//! fields, generations and answers in all of them, and real requests get these answers.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use holdfast_scenario_tests::fleet::binary_with_mistakes;
use holdfast_scenario_tests::manifests::{SERVICE_PORT, http_route, https_listener, route, tls_secret};
use holdfast_scenario_tests::mistakes::HEADER;
use holdfast_scenario_tests::process::Finished;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "diff",
        true,
        [an_incident_with_three_owners, what_is_written_cannot_disturb, secrets_stay_secret, nothing_is_invented]
    )
}

/// An object of the incident, as each report has it.
struct Culprit {
    kind: &'static str,
    namespace: &'static str,
    name: &'static str,
    field: &'static str,
    /// The host of its requests, and their path.
    host: &'static str,
    path: &'static str,
    /// Words of the fault.
    words: &'static str,
    /// The status that requests get; unset if the last valid version is served.
    status: Option<u16>,
    generation: i64,
}

const CULPRITS: [Culprit; 3] = [
    Culprit {
        kind: "HTTPRoute",
        namespace: "shop",
        name: "cart",
        field: "spec.rules[0]",
        host: "shop.test",
        path: "/cart",
        words: "",
        status: None,
        generation: 2,
    },
    Culprit {
        kind: "TrafficPolicy",
        namespace: "pay",
        name: "guard",
        field: "spec.extAuth.extensionRef",
        host: "pay.test",
        path: "/pay",
        words: "GatewayExtension pay/gone does not exist",
        status: Some(404),
        generation: 1,
    },
    Culprit {
        kind: "HTTPProxy",
        namespace: "blog",
        name: "blog",
        field: "spec.routes[0].requestHeadersPolicy",
        host: "blog.test",
        path: "/",
        words: "header name \"bad header\" contains ' '",
        status: Some(404),
        generation: 1,
    },
];

async fn command(world: &World, holdfast: &Holdfast, name: &str, args: &[&str]) -> Result<Finished> {
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    world.command(&[&[name, "--diagnostics", &diagnostics], args].concat()).await
}

/// Returns the only entry of a list about an object.
fn entry<'a>(list: &'a Value, culprit: &Culprit) -> Result<&'a Value> {
    let is_it = |entry: &&Value| {
        let object = entry.get("object").unwrap_or(entry);
        object["kind"] == culprit.kind && object["namespace"] == culprit.namespace && object["name"] == culprit.name
    };
    list.as_array()
        .and_then(|list| list.iter().find(is_it))
        .with_context(|| format!("{} is not in {list:#}", culprit.name))
}

fn cart(backend: &str, mistake: &str) -> String {
    let header = match mistake {
        "" => String::new(),
        mistake => format!(
            "  filters: [{{type: ResponseHeaderModifier, responseHeaderModifier: {{set: [{{name: {HEADER}, value: {mistake}}}]}}}}]\n"
        ),
    };
    let rule = "rules:\n- matches: [{path: {value: /cart}}]\n";
    let spec =
        format!("hostnames: [shop.test]\n{rule}  backendRefs: [{{name: {backend}, port: {SERVICE_PORT}}}]\n{header}");
    route("HTTPRoute", "shop", "cart", "- {name: public, namespace: default}\n", &spec)
}

/// Returns an HTTPProxy `blog/blog` that sets a request header.
pub(crate) fn proxy(header: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {{name: blog, namespace: blog}}
spec:
  virtualhost: {{fqdn: blog.test}}
  routes:
  - services: [{{name: blog, port: {SERVICE_PORT}}}]
    requestHeadersPolicy: {{set: [{{name: '{header}', value: x}}]}}
"
    )
}

/// A TrafficPolicy `pay/guard` with a missing extension.
pub(crate) const GUARD: &str = "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: guard, namespace: pay}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: pay}]
  extAuth: {extensionRef: {name: gone}}
";

/// A route that Envoy refuses, a policy with a missing extension, and an HTTPProxy with a bad header.
async fn an_incident_with_three_owners(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for (namespace, name) in [("shop", "old"), ("shop", "new"), ("pay", "pay"), ("blog", "blog"), ("default", "fine")] {
        backends.push(world.backend_in(namespace, name, None).await?);
    }
    let (port, proxies, secure) = (world.gateway()?, world.port()?, world.port()?.to_string());
    world.write("cart.yaml", cart("old", ""))?;
    let spec = format!(
        "hostnames: [pay.test]\nrules:\n- matches: [{{path: {{value: /pay}}}}]\n  backendRefs: [{{name: pay, port: {SERVICE_PORT}}}]\n"
    );
    world.write("pay.yaml", route("HTTPRoute", "pay", "pay", "- {name: public, namespace: default}\n", &spec))?;
    world.route(
        "fine",
        &format!("hostnames: [fine.test]\nrules:\n- backendRefs: [{{name: fine, port: {SERVICE_PORT}}}]\n"),
    )?;
    let flags = ["--httpproxy-http", &proxies.to_string(), "--httpproxy-https", &secure];
    let binary = binary_with_mistakes(&world)?.display().to_string();
    let options = HoldfastOptions::new(&world)?.env("ENVOY_BIN", &binary).args(&[&BACKFILL[..], &flags].concat());
    let holdfast = world.run_with(options).await?;
    get(port, "/cart").host("shop.test").comes_to_reach("old").await?;
    get(port, "/pay").host("pay.test").comes_to_reach("pay").await?;
    until("nothing differs", || async {
        command(&world, &holdfast, "diff", &[]).await?.expect_code(0)?.expect_output(&["Served as written."])?;
        Ok(())
    })
    .await?;

    world.write("cart.yaml", cart("new", "regex"))?;
    world.write("guard.yaml", GUARD)?;
    world.write("blog.yaml", proxy("bad header"))?;
    get(port, "/pay").host("pay.test").comes_to_answer(404).await?;
    get(proxies, "/").host("blog.test").comes_to_answer(404).await?;
    for culprit in &CULPRITS {
        until(&format!("all reports agree about {}", culprit.name), || {
            agree(&world, &holdfast, culprit, port, proxies)
        })
        .await?;
    }
    get(port, "/cart").host("shop.test").reaches("old").await?;
    get(port, "/").host("fine.test").reaches("fine").await?;

    // Envoy's words beside the offending lines, and the configuration that differs because of them.
    let finished = command(&world, &holdfast, "diff", &["HTTPRoute/shop/cart"]).await?;
    let words = [
        "served    generation 1 is served, last valid since",
        "because   HTTPRoute shop/cart, spec.rules[0]: refused by ",
        "-    - name: old",
        "+    - name: new",
        "--- served: Gateway default/public: RDS http/",
        "HTTPRoute shop/cart rules[0]",
    ];
    finished.expect_code(1)?.expect_output(&words)?;
    let finished = command(&world, &holdfast, "diff", &["HTTPRoute/pay/pay"]).await?;
    finished.expect_code(1)?.expect_output(&["rules[0] answers 404", "because   TrafficPolicy pay/guard"])?;
    let finished = command(&world, &holdfast, "diff", &["TrafficPolicy/pay/guard"]).await?;
    let words = [
        "affects   HTTPRoute pay/pay: rules[0] answers 404: pay.test",
        "-# not enforced: what it applies to answers with an error",
        "+kind: TrafficPolicy",
    ];
    finished.expect_code(1)?.expect_output(&words)?;
    // Healthy objects below and beside broken ones.
    for object in ["HTTPRoute/default/fine", "Service/shop/new", "Gateway/default/public", "Service/pay/pay"] {
        command(&world, &holdfast, "diff", &[object]).await?.expect_code(0)?.expect_output(&["Served as written."])?;
    }

    for (object, code, words) in [
        ("HTTPRoute/shop/nothing", 2, "Holdfast has read no object HTTPRoute/shop/nothing"),
        ("HTPRoute/shop/cart", 2, "did you mean HTTPRoute?"),
        ("shop/cart", 2, "expected KIND/NAMESPACE/NAME"),
    ] {
        command(&world, &holdfast, "diff", &[object]).await?.expect_code(code)?.expect_output(&[words])?;
    }
    let gone = format!("127.0.0.1:{}", world.port()?);
    world.command(&["diff", "--diagnostics", &gone]).await?.expect_code(3)?.expect_output(&["is Holdfast running"])?;
    for query in ["?object=HTTPRoute/shop/cart&object=HTTPRoute/pay/pay", "?kind=HTTPRoute", "?object=x"] {
        let reply = get(holdfast.options.diagnostics, &format!("/debug/diff{query}")).host("localhost").send().await?;
        ensure!(reply.status == 400, "{query}: {reply:?}");
    }

    world.write("cart.yaml", cart("new", ""))?;
    world.delete("guard.yaml")?;
    world.write("blog.yaml", proxy("x-good"))?;
    until("nothing differs any longer", || async {
        command(&world, &holdfast, "diff", &[]).await?.expect_code(0)?;
        Ok(())
    })
    .await?;
    get(port, "/cart").host("shop.test").reaches("new").await?;
    Ok(())
}

/// Fails unless `status`, the log of Events, `explain` and `diff` agree about an object, and about what clients get.
async fn agree(world: &World, holdfast: &Holdfast, culprit: &Culprit, port: u16, proxies: u16) -> Result<()> {
    let Culprit { kind, namespace, name, field, host, path, words, status, generation } = culprit;
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    let broken = entry(&report["brokenObjects"], culprit)?;
    let message = broken["message"].as_str().context("no message")?;
    ensure!(broken["field"] == *field && message.contains(words) && broken["generation"] == *generation, "{broken:#}");

    let health = holdfast.diagnostics("/debug/health").await?;
    let findings =
        ["outages", "degraded"].into_iter().flat_map(|severity| health[severity].as_array().into_iter().flatten());
    let own: Vec<&Value> = findings.filter(|finding| entry(&finding["objects"], culprit).is_ok()).collect();
    let [finding] = own.as_slice() else { anyhow::bail!("{} findings: {health:#}", own.len()) };
    let object = entry(&finding["objects"], culprit)?;
    ensure!(object["field"] == *field && object["generation"] == *generation, "{finding:#}");
    ensure!(
        finding["message"].as_str().is_some_and(|text| message.contains(text) || text.contains(message)),
        "{finding:#}"
    );
    let gets = finding["served"].as_array().context("nothing is served")?.iter().map(|served| &served["gets"]);
    let is_it = |gets: &Value| match status {
        Some(status) => gets["status"] == *status,
        None => gets["kind"] == "lastValid" && gets["generation"] == *generation - 1,
    };
    ensure!(gets.into_iter().any(&is_it), "{finding:#}");

    let finished = command(world, holdfast, "diff", &["-o", "json"]).await?;
    let diff: Value = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
    let own = entry(&diff["objects"], culprit)?;
    let because = entry(&own["because"], culprit)?;
    ensure!(because["field"] == *field && because["message"] == finding["message"], "{own:#}");
    ensure!(own["desiredGeneration"] == *generation && because["generation"] == *generation, "{own:#}");
    ensure!(because["detectedBy"] == broken["detectedBy"], "{own:#}");
    let own_and_others = own["served"].as_array().into_iter().chain(own["affects"].as_array()).flatten();
    ensure!(own_and_others.map(|served| &served["gets"]).any(&is_it), "{own:#}");

    let port = if *kind == "HTTPProxy" { proxies } else { port };
    let url = format!("http://127.0.0.1:{port}{path}");
    let finished =
        command(world, holdfast, "explain", &["-H", &format!("Host: {host}"), "-o", "json", "GET", &url]).await?;
    let explained: Value = serde_json::from_str(&finished.expect_code(1)?.stdout)?;
    match status {
        Some(status) => ensure!(explained["answer"]["status"] == *status, "{explained:#}"),
        None => ensure!(explained["instead"][0]["servedGeneration"] == *generation - 1, "{explained:#}"),
    }
    on_the_page(holdfast, culprit, message).await?;
    let events = holdfast.output();
    let of_it = format!(
        "object={}",
        broken["group"].as_str().map(|group| format!("{group}/{kind}:{namespace}/{name}")).unwrap_or_default()
    );
    let own: Vec<&str> = events.lines().filter(|line| line.contains(&of_it) && line.contains("reason=")).collect();
    let is_it = |line: &&str| [field, words].iter().all(|words| line.contains(**words));
    ensure!(own.iter().any(is_it), "no Event with {field} and {words} among {own:#?}");
    if status.is_none() {
        let generations =
            [format!("serving generation {} ", generation - 1), format!("generation {generation} was refused")];
        let is_it = |line: &&str| generations.iter().all(|words| line.contains(words));
        ensure!(own.iter().any(is_it), "no Event with {generations:?} among {own:#?}");
    }
    Ok(())
}

/// Fails unless the page of an object and the row of its host have the same as the other reports.
async fn on_the_page(holdfast: &Holdfast, culprit: &Culprit, message: &str) -> Result<()> {
    let Culprit { kind, namespace, name, field, host, status, generation, .. } = culprit;
    let page = async |path: &str| -> Result<String> {
        let reply = get(holdfast.options.diagnostics, path).host("localhost").send().await?;
        ensure!(reply.status == 200, "{path}: {reply:?}");
        let text = reply.body.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
        Ok(text.replace("&amp;", "&"))
    };
    let (class, answer) = match status {
        Some(status) => ("error", format!("answers {status}")),
        None => ("earlier", format!("generation {} is served, last valid since ", generation - 1)),
    };
    let object = page(&format!("/object/{kind}/{namespace}/{name}")).await?;
    let heading = format!("<h1>{kind} {namespace}/{name}</h1>");
    let words = [&*heading, &format!(", generation {generation}"), field, message, &answer, "Text for the owner"];
    for words in words {
        ensure!(object.contains(words), "{words} is not in {object}");
    }
    let overview = page("/").await?;
    let row = format!("<tr class=\"{class}\"><th scope=\"row\">{host}</th>");
    for words in [&*row, &format!("{kind} {namespace}/{name}"), field, &answer] {
        ensure!(overview.contains(words), "{words} is not in {overview}");
    }
    Ok(())
}

/// Names, values and messages with markup, escape sequences and characters that reorder text change nothing on a terminal.
async fn what_is_written_cannot_disturb(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let long = "a".repeat(63);
    let value = "<script>'\\u001b[31m\\u202egpj\\\"[";
    world.route(
        &long,
        &format!(
            "rules:\n- matches: [{{path: {{type: RegularExpression, value: \"/{value}\"}}}}]\n  backendRefs: [{{name: echo, port: {SERVICE_PORT}}}]\n"
        ),
    )?;
    let huge = "(".repeat(1_000_000);
    world.route(
        "huge",
        &format!("rules:\n- matches: [{{path: {{type: RegularExpression, value: '/{huge}'}}}}]\n  backendRefs: [{{name: echo, port: {SERVICE_PORT}}}]\n"),
    )?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    get(port, "/x").comes_to_answer(404).await?;
    for args in [vec![], vec!["HTTPRoute/default/huge"]] {
        let finished = command(&world, &holdfast, "diff", &args).await?;
        let text = &finished.expect_code(1)?.stdout;
        ensure!(
            !text.chars().any(|c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c)),
            "it acts"
        );
        ensure!(text.len() < 3_000_000, "{} bytes", text.len());
    }
    let finished = command(&world, &holdfast, "diff", &[&format!("HTTPRoute/default/{long}")]).await?;
    finished.expect_code(1)?.expect_output(&["<script>"])?;
    Ok(())
}

/// A certificate is described by what its clients see, and a credential in a route is left out.
async fn secrets_stay_secret(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let good = Certificate::of(&["shop.test"])?;
    world.write("cert.yaml", good.secret("default", "cert"))?;
    world.gateway_with(&https_listener("tls", port, "", &["cert"]))?;
    let rule = |path: &str| {
        format!(
            "rules:\n- matches: [{{path: {path}}}]\n  filters: [{{type: RequestHeaderModifier, requestHeaderModifier: \
             {{set: [{{name: authorization, value: Bearer hunter2}}]}}}}]\n  backendRefs: [{{name: echo, port: {SERVICE_PORT}}}]\n"
        )
    };
    world.route("r", &rule("{value: /a}"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    until("all is served", || async {
        command(&world, &holdfast, "diff", &[]).await?.expect_code(0)?;
        Ok(())
    })
    .await?;
    world.route("r", &rule("{type: RegularExpression, value: '/a['}"))?;
    let other = Certificate::of(&["shop.test"])?;
    world.write("cert.yaml", tls_secret("default", "cert", &other.pem, &good.key_pem))?;
    until("both differ", || async {
        let finished = command(&world, &holdfast, "diff", &[]).await?;
        let words =
            ["Secret default/cert", "certificate of", "issuer", "valid from", "[redacted]", "HTTPRoute default/r"];
        finished.expect_code(1)?.expect_output(&words)?;
        let json = command(&world, &holdfast, "diff", &["-o", "json"]).await?;
        for text in [&finished.stdout, &json.stdout] {
            ensure!(!text.contains("hunter2") && !text.contains("BEGIN") && !text.contains("MII"), "{text}");
        }
        Ok(())
    })
    .await?;

    // Nor is anything of them in an archive for a bug report.
    let file = world.folder().join("collected.tar.gz").display().to_string();
    let metrics = format!("127.0.0.1:{}", holdfast.options.metrics);
    let args = ["--metrics", &metrics, "--file", &file];
    let finished = command(&world, &holdfast, "collect", &args).await?;
    ensure!(
        finished.expect_code(0)?.stdout.contains(": 17 files") && !finished.stdout.contains("without"),
        "{finished:?}"
    );
    let mut archive = Vec::new();
    GzDecoder::new(File::open(&file)?).read_to_end(&mut archive)?;
    let archive = String::from_utf8_lossy(&archive);
    for word in [
        "health.json",
        "log.txt",
        "read all objects",
        "metrics.txt",
        "holdfast_",
        "certificate of",
        "process.json",
        "--data-dir",
    ] {
        ensure!(archive.contains(word), "{word} is not in the archive");
    }
    for word in ["hunter2", "BEGIN", "MII"] {
        ensure!(!archive.contains(word), "{word} is in the archive");
    }
    command(&world, &holdfast, "collect", &args).await?.expect_code(2)?.expect_output(&["the file exists"])?;
    let gone = format!("127.0.0.1:{}", world.port()?);
    let other = world.folder().join("other.tar.gz").display().to_string();
    let finished = world.command(&["collect", "--diagnostics", &gone, "--file", &other]).await?;
    finished.expect_code(3)?.expect_output(&["is Holdfast running"])?;
    Ok(())
}

/// Objects that are served as written have no difference beside a policy of their Gateway that is not, files that cannot be
/// read are reported, and a share of the requests is no answer for all.
async fn nothing_is_invented(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    world.gateway()?;
    world.route("ok", &format!("rules:\n- backendRefs: [{{name: echo, port: {SERVICE_PORT}}}]\n"))?;
    let policy = |timeout: &str| {
        format!(
            "apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {{name: p, namespace: default}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: public}}]
  default: {{httpSettings: {{streamIdleTimeout: {timeout}}}}}
"
        )
    };
    world.write("policy.yaml", policy("60s"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let comes_to = async |args: &[&str], code: i32, words: &[&str]| -> Result<()> {
        until(&format!("diff {args:?} ends with {code}"), || async {
            command(&world, &holdfast, "diff", args).await?.expect_code(code)?.expect_output(words)?;
            Ok(())
        })
        .await
    };
    comes_to(&[], 0, &["Served as written."]).await?;
    world.write("policy.yaml", policy("zzz"))?;
    let words = [
        "ListenerPolicy default/p",
        "generation 1 is served",
        "-      streamIdleTimeout: 60s",
        "+      streamIdleTimeout: zzz  # <-- duration",
    ];
    comes_to(&["ListenerPolicy/default/p"], 1, &words).await?;
    for object in ["HTTPRoute/default/ok", "Service/default/echo"] {
        comes_to(&[object], 0, &["Served as written."]).await?;
    }
    let all = command(&world, &holdfast, "diff", &[]).await?;
    ensure!(!all.expect_code(1)?.stdout.contains("--- served: Gateway"), "{}", all.stdout);
    world.write("policy.yaml", policy("60s"))?;
    comes_to(&[], 0, &["Served as written."]).await?;

    world.write("half.yaml", "kind: [")?;
    comes_to(&[], 1, &["Not read: ", "half.yaml:"]).await?;
    world.delete("half.yaml")?;
    comes_to(&[], 0, &["Served as written."]).await?;

    let backends = format!("[{{name: echo, port: {SERVICE_PORT}}}, {{name: gone, port: {SERVICE_PORT}}}]");
    world.route("ok", &format!("rules:\n- backendRefs: {backends}\n"))?;
    comes_to(&["HTTPRoute/default/ok"], 1, &["a share of the requests to rules[0] gets status 500"]).await?;
    let finished = command(&world, &holdfast, "diff", &["HTTPRoute/default/ok"]).await?;
    ensure!(!finished.stdout.contains("[answers 500]"), "{}", finished.stdout);
    // Two mistakes of one kind: both are marked.
    let regex = |path: &str| {
        format!(
            "- matches: [{{path: {{type: RegularExpression, value: '{path}'}}}}]\n  backendRefs: [{{name: echo, port: {SERVICE_PORT}}}]\n"
        )
    };
    world.route("ok", &format!("rules:\n{}{}", regex("/a["), regex("/b[")))?;
    comes_to(&["HTTPRoute/default/ok"], 1, &["value: /a[  # <--", "value: /b[  # <--"]).await?;
    world.write("lost.yaml", http_route("lost", "").replace("name: public", "name: nowhere"))?;
    comes_to(&["HTTPRoute/default/lost"], 1, &["because   HTTPRoute default/lost"]).await
}
