//! Fields with an unknown name or an unreadable value in routes, HTTPProxies and listeners: what they guarded or
//! narrowed stays closed, and no broader route gets the requests.

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::hammer::Hammer;
use holdfast_scenario_tests::manifests::{class, documents, gateway, http_listener, http_route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};

use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "misspelt",
        true,
        [fields_do_not_open, fields_do_not_open_without_a_last_valid_version, fields_do_not_open_without_the_fallback,]
    )
}

async fn fields_do_not_open(world: World) -> Result<()> {
    do_not_open(world, &BACKFILL).await
}

async fn fields_do_not_open_without_a_last_valid_version(world: World) -> Result<()> {
    do_not_open(world, &["--feature-gates", "FallbackConfiguration=true"]).await
}

async fn fields_do_not_open_without_the_fallback(world: World) -> Result<()> {
    do_not_open(world, &[]).await
}

/// An object that keeps a request from the backends, and edits after which it no longer would if the edited field was
/// taken literally.
struct Guarded {
    object: &'static str,
    file: &'static str,
    manifest: String,
    answer: u16,
    edits: &'static [(&'static str, &'static str)],
}

const HOST: &str = "case.example.com";
const DENY: &str = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: NAME, namespace: \
default}\nspec: {TARGET rbac: {action: Deny, policy: {matchExpressions: [\"true\"]}}}\n";

fn policies() -> String {
    let group = "group: gateway.networking.k8s.io, kind: HTTPRoute";
    let section = format!("targetRefs: [{{{group}, name: case, sectionName: main}}],");
    let labels = format!("targetSelectors: [{{{group}, matchLabels: {{guard: 'yes'}}}}],");
    let policy = |name: &str, target: &str| DENY.replace("NAME", name).replace("TARGET", target);
    documents(&[policy("called", ""), policy("section", &section), policy("labels", &labels)])
}

fn routes() -> Vec<Guarded> {
    let rule = |spec: &str| {
        let backend = "backendRefs: [{name: one, port: 8080}]";
        http_route("case", &format!("hostnames: [{HOST}]\nrules:\n- {spec}\n  {backend}"))
    };
    let object = "HTTPRoute default/case";
    let extension = "filters: [{type: ExtensionRef, extensionRef: {group: gateway.kgateway.dev, kind: TrafficPolicy, name: called}}]";
    vec![
        Guarded {
            object,
            file: "case.yaml",
            manifest: rule("matches: [{path: {value: /}, headers: [{name: k, value: v}]}]"),
            answer: 404,
            edits: &[
                ("matches:", "match:"),
                ("headers:", "header:"),
                ("headers:", "Headers:"),
                ("headers:", "hdrs:"),
                ("rules:", "rule:"),
                ("hostnames:", "hostname:"),
                ("hostnames:", "hosts:"),
                ("[case.example.com]", "[other.example.com, 5]"),
                ("hostnames: [case.example.com]", "hostnames: case.example.com"),
                ("parentRefs:", "parentRef:"),
            ],
        },
        Guarded {
            object,
            file: "case.yaml",
            manifest: rule(extension),
            answer: 403,
            edits: &[
                ("filters:", "filter:"),
                ("filters:", "plugins:"),
                ("hostnames: [case.example.com]", "hostnames: [5]"),
            ],
        },
        Guarded {
            object,
            file: "case.yaml",
            manifest: rule("name: main"),
            answer: 403,
            edits: &[("name: main", "Name: main"), ("name: main", "id: main")],
        },
        Guarded {
            object,
            file: "case.yaml",
            manifest: rule("matches: [{path: {value: /}}]")
                .replace("name: case", "name: case\n  labels: {guard: 'yes'}"),
            answer: 403,
            edits: &[
                ("labels: {guard: 'yes'}", "labels: {guard: true}"),
                ("labels: {", "label: {"),
                ("labels: {", "tags: {"),
            ],
        },
    ]
}

/// A guarded rule, route or include beside a broader one of the same object.
fn narrower() -> Vec<Guarded> {
    let rules = "\
- matches: [{path: {value: /x}}]
  filters: [{type: ExtensionRef, extensionRef: {group: gateway.kgateway.dev, kind: TrafficPolicy, name: called}}]
  backendRefs: [{name: one, port: 8080}]
- backendRefs: [{name: broader, port: 8080}]";
    let broader = "{conditions: [{prefix: /}], services: [{name: broader, port: 8080}]}";
    let deny = "ipDenyPolicy: [{source: Peer, cidr: 0.0.0.0/0}], services: [{name: one, port: 8080}]";
    let route = proxy(
        "case",
        &format!("virtualhost: {{fqdn: {HOST}}}\nroutes: [{{conditions: [{{prefix: /x}}], {deny}}}, {broader}]"),
    );
    let root = format!(
        "virtualhost: {{fqdn: {HOST}}}\nroutes: [{broader}]\nincludes: [{{name: child, conditions: [{{prefix: /x}}]}}]"
    );
    let child = proxy("child", &format!("routes: [{{{deny}}}]"));
    let edits: &[(&str, &str)] = &[
        ("{prefix: /x}", "{prefx: /x}"),
        ("{prefix: /x}", "/x"),
        ("conditions: [{prefix: /x}]", "condition: [{prefix: /x}]"),
        ("conditions: [{prefix: /x}]", "match: [{prefix: /x}]"),
        ("[{prefix: /x}]", "/x"),
    ];
    vec![
        Guarded {
            object: "HTTPRoute default/case",
            file: "case.yaml",
            manifest: http_route("case", &format!("hostnames: [{HOST}]\nrules:\n{rules}")),
            answer: 403,
            edits: &[
                ("path:", "paht:"),
                ("{value: /x}", "/x"),
                ("value: /x", "value: 5"),
                ("{value: /x}", "{tpye: Exact, value: /x}"),
                ("{value: /x}", "{type: Exact, vlaue: /x}"),
                ("[{path: {value: /x}}]", "[/x]"),
                ("[{path: {value: /x}}]", "{path: {value: /x}}"),
                ("matches:", "match:"),
                ("matches:", "conditions:"),
            ],
        },
        Guarded { object: "HTTPProxy default/case", file: "case.yaml", manifest: route, answer: 403, edits },
        Guarded {
            object: "HTTPProxy default/case",
            file: "case.yaml",
            manifest: documents(&[proxy("case", &root), child]),
            answer: 403,
            edits,
        },
    ]
}

fn proxy(name: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: {name}, namespace: default}}\nspec:\n{spec}"
    )
}

fn proxies() -> Vec<Guarded> {
    let object = "HTTPProxy default/case";
    let services = "services: [{name: one, port: 8080}]";
    let deny = "[{source: Peer, cidr: 0.0.0.0/0}]";
    let host = proxy(
        "case",
        &format!(
            "virtualhost: {{fqdn: {HOST}, ipDenyPolicy: {deny}}}\nroutes: [{{conditions: [{{prefix: /}}], {services}}}]\n"
        ),
    );
    let route = proxy(
        "case",
        &format!(
            "virtualhost: {{fqdn: {HOST}}}\nroutes: [{{conditions: [{{prefix: /}}], ipDenyPolicy: {deny}, {services}}}]\n"
        ),
    );
    let condition = proxy(
        "case",
        &format!(
            "virtualhost: {{fqdn: {HOST}}}\nroutes: [{{conditions: [{{prefix: /}}, {{header: {{name: k, exact: v}}}}], {services}}}]\n"
        ),
    );
    vec![
        Guarded {
            object,
            file: "case.yaml",
            manifest: host,
            answer: 403,
            edits: &[
                ("ipDenyPolicy", "ipDenyPolicies"),
                ("virtualhost:", "virtualHost:"),
                ("virtualhost: {", "virtualhost: 5 # {"),
                ("fqdn: case.example.com", "Fqdn: case.example.com"),
                ("fqdn: case.example.com", "fqdn: [case.example.com]"),
                ("case.example.com", "case.example.com:80"),
            ],
        },
        Guarded {
            object,
            file: "case.yaml",
            manifest: route,
            answer: 403,
            edits: &[("ipDenyPolicy", "ipDenyPolicies"), ("ipDenyPolicy", "deny")],
        },
        Guarded { object, file: "case.yaml", manifest: condition, answer: 404, edits: &[("header:", "headers:")] },
    ]
}

fn listeners(port: u16, second: u16) -> Vec<Guarded> {
    let with = |allowed: &str| {
        let second = format!("- name: second\n  port: {second}\n  protocol: HTTP\n  allowedRoutes: {allowed}\n");
        documents(&[class(), gateway("public", &format!("{}{second}", http_listener(port)))])
    };
    let guarded = |allowed: &str, edits| Guarded {
        object: "Gateway default/public",
        file: "gateway.yaml",
        manifest: with(allowed),
        answer: 404,
        edits,
    };
    vec![
        guarded(
            "{namespaces: {from: All}, kinds: [{kind: GRPCRoute}]}",
            &[
                ("kinds:", "kind:"),
                ("kinds:", "only:"),
                ("allowedRoutes:", "allowedRoute:"),
                ("name: second", "name: ''"),
            ],
        ),
        guarded(
            "{namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}",
            &[("matchLabels", "MatchLabels"), ("selector:", "selectors:")],
        ),
    ]
}

/// Waits until `status` names the object, and `explain` reports that the request is not served as desired.
async fn is_reported(world: &World, holdfast: &Holdfast, object: &str, port: u16) -> Result<()> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let url = format!("http://{HOST}:{port}/x");
    until(&format!("status and explain report {object}"), || async {
        let status = world.command(&["status", "--diagnostics", &address]).await?;
        let parts: Vec<&str> = object.split(' ').collect();
        status.expect_code(1)?.expect_output(&parts)?;
        ensure!(!status.output().contains("0 outages, 0 degraded"), "{}", status.output());
        let explained = world.command(&["explain", "--diagnostics", &address, "GET", &url]).await?;
        ensure!([Some(1), Some(3)].contains(&explained.code), "explain: {}", explained.output());
        Ok(())
    })
    .await
}

async fn do_not_open(world: World, flags: &[&str]) -> Result<()> {
    let _one = world.backend("one").await?;
    let _broader = world.backend("broader").await?;
    let (port, second) = (world.port()?, world.port()?);
    world.gateway_with(&http_listener(port))?;
    world.write("policies.yaml", policies())?;
    world.route("broader", "hostnames: ['*.example.com']\nrules:\n- backendRefs: [{name: broader, port: 8080}]")?;
    let mut flags = flags.to_vec();
    flags.extend(["--httpproxy-gateway", "default/public"]);
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    let request = |port: u16| get(port, "/x").host(HOST);
    request(port).comes_to_reach("broader").await?;
    for case in routes().into_iter().chain(proxies()).chain(narrower()) {
        stays_closed(&world, &holdfast, request(port), port, &case).await?;
        world.delete(case.file)?;
        request(port).comes_to_reach("broader").await?;
    }
    // Of a new object, the hosts are unknown.
    let unknown = http_route("case", &format!("hosts: [{HOST}]\nrules:\n- backendRefs: [{{name: one, port: 8080}}]"));
    world.write("case.yaml", unknown)?;
    is_reported(&world, &holdfast, "HTTPRoute default/case", port).await?;
    world.delete("case.yaml")?;
    for case in listeners(port, second) {
        stays_closed(&world, &holdfast, request(second), second, &case).await?;
    }
    Ok(())
}

async fn stays_closed(
    world: &World,
    holdfast: &Holdfast,
    request: HttpRequest,
    port: u16,
    case: &Guarded,
) -> Result<()> {
    for (from, to) in case.edits {
        let what = || format!("{}: {from} became {to}", case.object);
        world.write(case.file, &case.manifest)?;
        request.clone().comes_to_answer(case.answer).await.with_context(what)?;
        let closed = Hammer::start([request.clone()]);
        closed.goes_on(3).await?;
        ensure!(case.manifest.contains(from), "no {from} in {}", case.manifest);
        world.write(case.file, case.manifest.replacen(from, to, 1))?;
        is_reported(world, holdfast, case.object, port).await.with_context(what)?;
        closed.goes_on(10).await?;
        closed.stop_expecting(|shot| !shot.passed()).await.with_context(what)?;
    }
    Ok(())
}
