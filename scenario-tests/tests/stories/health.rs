//! `holdfast status` compared with the responses to real requests: it reports every deviation from the desired state.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::holdfast::HoldfastOptions;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, Story, World, manifests, process, stories, until};
use serde_json::Value;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "health",
        true,
        [
            a_healthy_state_is_reported,
            a_missing_service_is_one_outage_for_all_routes,
            services_without_endpoints,
            names_that_are_not_known,
            the_socket_of_the_xds_server_is_removed,
            the_data_folder_is_removed,
            a_gateway_that_is_not_there,
            a_class_that_is_not_there,
            a_file_that_does_not_parse,
            a_guard_without_a_target,
            a_duplicate_route_of_a_proxy,
            a_port_that_another_process_has,
            a_broken_rule_under_each_gate,
            what_no_request_gets,
            parts_without_effect,
            placeholder_of_a_guarded_route,
            a_rule_lost_at_one_listener,
            connections_without_a_backend,
            dates_survive_a_restart,
        ]
    )
    .into_iter()
    .chain(stories!("health", false, [no_envoy_at_all, an_api_server_that_was_never_reached]))
    .collect()
}

const SENTENCE: &str = "Everything is served as desired.";
const FALLBACK: [&str; 3] = ["--feature-gates", "FallbackConfiguration=true", "--use-last-valid-config-for-fallback"];

fn to(service: &str) -> String {
    format!("hostnames: [cart.example.com]\nrules:\n- backendRefs: [{{name: {service}, port: 8080}}]")
}

async fn status(world: &World, holdfast: &Holdfast, more: &[&str]) -> Result<process::Finished> {
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let first = ["status", "--diagnostics", &address];
    world.command(&[first.as_slice(), more].concat()).await
}

/// Waits until `holdfast status` exits with this code and prints all of these texts; the sentence for a healthy state
/// is printed only with code 0.
async fn status_comes_to_print(world: &World, holdfast: &Holdfast, code: i32, words: &[&str]) -> Result<String> {
    until(&format!("status ends with {code} and says {words:?}"), || async {
        let finished = status(world, holdfast, &[]).await?;
        finished.expect_code(code)?.expect_output(words)?;
        ensure!(finished.stdout.contains(SENTENCE) == (code == 0), "{}", finished.stdout);
        Ok(finished.stdout.clone())
    })
    .await
}

async fn run(world: &World) -> Result<Holdfast> {
    world.run_with(HoldfastOptions::new(world)?.args(&FALLBACK)).await
}

async fn a_healthy_state_is_reported(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let holdfast = run(&world).await?;
    get(port, "/").host("cart.example.com").comes_to_reach("echo").await?;
    status_comes_to_print(&world, &holdfast, 0, &["default/public  current     1 acknowledged", "Objects come from"])
        .await?;
    let page = holdfast.diagnostics("/debug/health").await?;
    ensure!(page["verdict"] == "healthy", "{page}");
    let fallback = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(fallback.pointer("/health/verdict") == Some(&Value::from("healthy")), "{fallback}");
    let ready = get(holdfast.options.metrics, "/readyz?verbose").host("localhost").answers(200).await?.body;
    ensure!(ready.contains(&format!("[i]{SENTENCE}\n")), "{ready}");
    Ok(())
}

async fn a_missing_service_is_one_outage_for_all_routes(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    for name in ["a", "b", "c"] {
        let rules = "rules:\n- backendRefs: [{name: ehco, port: 8080}]";
        world.route(name, &format!("hostnames: [{name}.example.com]\n{rules}"))?;
    }
    world.route("cart", &to("echo"))?;
    let holdfast = run(&world).await?;
    get(port, "/").host("a.example.com").comes_to_answer(500).await?;
    get(port, "/").host("cart.example.com").comes_to_reach("echo").await?;
    let text = std::fs::read_to_string(world.manifests().join("route-a.yaml"))?;
    let found = text.lines().enumerate().find_map(|(line, text)| Some((line + 1, text.find("name: ehco")? + 1)));
    let (line, column) = found.context("the manifest has no reference")?;
    let (position, edit) = (format!("route-a.yaml:{line}:{column}\n"), format!("route-a.yaml at line {line}, then"));
    let words = [
        "1 outage, 0 degraded, 0 warnings, 0 inputs",
        "OUTAGES",
        "HTTPRoute default/a, generation 1, and 2 more with the same cause",
        "Service default/ehco does not exist",
        "HTTPRoute default/a: rules[0] answers 500: a.example.com /*",
        "  owner    namespace default",
        &position,
        "next     edit ",
        &edit,
    ];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    world.write("other.yaml", manifests::service("other", "quiet", None, &[]))?;
    until("another namespace is known", || async {
        let finished = status(&world, &holdfast, &["--namespace", "other"]).await?;
        finished.expect_code(0)?.expect_output(&["Everything of namespace other is served as desired."])?;
        Ok(())
    })
    .await?;
    status(&world, &holdfast, &["--gateway", "default/public"]).await?.expect_code(1)?;
    status(&world, &holdfast, &["--gateway", "public"]).await?.expect_code(2)?;
    let page: Value = serde_json::from_str(&status(&world, &holdfast, &["-o", "json"]).await?.expect_code(1)?.stdout)?;
    let objects = page.pointer("/health/outages/0/objects").and_then(Value::as_array).map(Vec::len);
    ensure!(objects == Some(3) && page["brokenObjects"].is_array(), "{page}");
    world.backend("ehco").await?;
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    Ok(())
}

/// A misspelt name is a usage error, and not reported as a healthy state.
async fn names_that_are_not_known(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let holdfast = run(&world).await?;
    get(port, "/").host("cart.example.com").comes_to_reach("echo").await?;
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    for (flag, typo, known) in [("-n", "defualt", "default"), ("--gateway", "default/pubilc", "default/public")] {
        for form in ["text", "json"] {
            let finished = status(&world, &holdfast, &[flag, typo, "-o", form]).await?;
            finished.expect_code(2)?;
            ensure!(finished.stdout.is_empty(), "{}", finished.stdout);
            ensure!(
                finished.stderr.contains(typo) && finished.stderr.contains(&format!(": {known}")),
                "{}",
                finished.stderr
            );
            status(&world, &holdfast, &[flag, known, "-o", form]).await?.expect_code(0)?;
        }
    }
    let finished = status(&world, &holdfast, &["-n", "default"]).await?;
    finished.expect_output(&["Everything of namespace default is served as desired."])?;
    let finished = status(&world, &holdfast, &["--gateway", "default/public"]).await?;
    finished.expect_output(&["Everything at Gateway default/public is served as desired."])?;
    Ok(())
}

/// The socket is created again, with its folder, so that a restarted Envoy is served; if it cannot be created, this is
/// reported, and an Envoy that never connected is an outage.
async fn the_socket_of_the_xds_server_is_removed(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let mut options = HoldfastOptions::new(&world)?.args(&FALLBACK);
    let socket = options.data.join("xds.sock");
    options.xds = format!("unix:{}", socket.display());
    let holdfast = world.run_with(options).await?;
    let is_served = async || get(port, "/").host("cart.example.com").comes_to_reach("echo").await;
    is_served().await?;
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    std::fs::remove_file(&socket)?;
    kill_envoy(&holdfast).await?;
    is_served().await?;
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    std::fs::remove_file(&socket)?;
    std::fs::write(&socket, "in the way")?;
    status_comes_to_print(
        &world,
        &holdfast,
        1,
        &["1 input", "the xDS server", "was removed, and cannot be created again"],
    )
    .await?;
    kill_envoy(&holdfast).await?;
    let words = ["1 outage", "has not connected to Holdfast since its start", "the xDS server"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    ensure!(get(port, "/").host("cart.example.com").send().await.is_err(), "somebody answers");
    std::fs::remove_file(&socket)?;
    is_served().await?;
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;

    // Later writes to the store are lost when this process ends.
    remove(&holdfast.options.data).await?;
    kill_envoy(&holdfast).await?;
    is_served().await?;
    status_comes_to_print(&world, &holdfast, 1, &["1 input", "the store", "was removed or replaced"]).await?;
    Ok(())
}

async fn is_store_failing(holdfast: &Holdfast, expected: f64) -> Result<()> {
    until("the metric has the state of the store", || async {
        let now = holdfast.metric("holdfast_store_failing", &[]).await?;
        ensure!(now == expected, "{now}");
        Ok(())
    })
    .await
}

/// The removal of the data folder, or of the store only, is reported. The next run does not know the Envoy of the run
/// before: it reports the process that has the port, and serves after that process has ended.
async fn the_data_folder_is_removed(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let holdfast = run(&world).await?;
    let is_served = async || get(port, "/").host("cart.example.com").comes_to_reach("echo").await;
    is_served().await?;
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    is_store_failing(&holdfast, 0.0).await?;
    remove(&holdfast.options.data.join("store")).await?;
    let words = ["1 input", "store in the data folder", "was removed or replaced"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    is_store_failing(&holdfast, 1.0).await?;

    // The next commit fails, and the one after it creates a store without the earlier versions.
    world.route("cart", &to("echo").replace("cart.example.com", "cart.example.org"))?;
    until("the store is created again", || async {
        ensure!(holdfast.options.data.join("store/db").exists());
        Ok(())
    })
    .await?;
    get(port, "/").host("cart.example.org").comes_to_reach("echo").await?;
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    remove(&holdfast.options.data).await?;

    let envoys = holdfast.envoys();
    let &[envoy] = envoys.as_slice() else { anyhow::bail!("Envoys: {envoys:?}") };
    let holdfast = Holdfast::start(&world, holdfast.kill()?)?;
    status_comes_to_print(&world, &holdfast, 1, &["outage", &format!("process {envoy} ")]).await?;
    process::signal(envoy, "TERM");
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    get(port, "/").host("cart.example.org").comes_to_reach("echo").await?;
    Ok(())
}

/// Removes a folder in which Holdfast writes at the same time.
async fn remove(folder: &Path) -> Result<()> {
    until("the folder is removed", || async {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    })
    .await
}

async fn kill_envoy(holdfast: &Holdfast) -> Result<()> {
    let envoys = holdfast.envoys();
    let &[envoy] = envoys.as_slice() else { anyhow::bail!("Envoys: {envoys:?}") };
    process::signal(envoy, "KILL");
    until("the Envoy is gone", || async move {
        ensure!(!process::runs(envoy));
        Ok(())
    })
    .await
}

async fn services_without_endpoints(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let bare = "apiVersion: v1\nkind: Service\nmetadata: {name: bare, namespace: default}\n\
                spec: {ports: [{name: http, port: 8080}]}\n";
    world.write("bare.yaml", bare)?;
    for name in ["a", "b"] {
        let rules = "rules:\n- backendRefs: [{name: bare, port: 8080}]";
        world.route(name, &format!("hostnames: [{name}.example.com]\n{rules}"))?;
    }
    let both = "rules:\n- backendRefs: [{name: echo, port: 8080}, {name: bare, port: 8080, weight: 0}]";
    world.route("both", &format!("hostnames: [both.example.com]\n{both}"))?;
    let holdfast = run(&world).await?;
    get(port, "/").host("a.example.com").comes_to_answer(503).await?;
    get(port, "/").host("both.example.com").comes_to_reach("echo").await?;
    let words = [
        "1 outage, 0 degraded, 0 warnings, 0 inputs",
        "Service default/bare",
        "port 8080 has no endpoint: no EndpointSlice belongs to the Service",
        "HTTPRoute default/a: rules[0] answers 503: a.example.com /*",
        "HTTPRoute default/b: rules[0] answers 503: b.example.com /*",
        "bare.yaml:1",
    ];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
                 metadata: {name: bare-0, namespace: default, labels: {kubernetes.io/service-name: bare}}\n\
                 addressType: IPv4\nports: [{name: web, protocol: TCP, port: 9}]\n\
                 endpoints: [{addresses: [\"127.0.0.1\"]}]\n";
    world.write("bare.yaml", format!("{bare}---\n{slice}"))?;
    let words = ["its name in the Service is \"http\", and the ports of its EndpointSlices are \"web\""];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    get(port, "/").host("a.example.com").comes_to_answer(503).await?;
    world.delete("route-a.yaml")?;
    world.delete("route-b.yaml")?;
    // No request goes to a backend with weight 0.
    status_comes_to_print(&world, &holdfast, 0, &[]).await?;
    Ok(())
}

async fn a_gateway_that_is_not_there(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let lost = manifests::route("HTTPRoute", "default", "lost", "- name: pubilc\n", "hostnames: [lost.example.com]");
    world.write("lost.yaml", lost)?;
    let holdfast = run(&world).await?;
    get(port, "/").host("cart.example.com").comes_to_reach("echo").await?;
    get(port, "/").host("lost.example.com").comes_to_answer(404).await?;
    let words = ["OUTAGES", "HTTPRoute default/lost", "spec.parentRefs[0]: Gateway default/pubilc does not exist"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    Ok(())
}

async fn a_class_that_is_not_there(world: World) -> Result<()> {
    world.gateway()?;
    let port = world.port()?;
    let other = manifests::gateway("other", &manifests::http_listener(port));
    world.write("other.yaml", other.replace("gatewayClassName: holdfast", "gatewayClassName: holdfsat"))?;
    let holdfast = run(&world).await?;
    let words = ["OUTAGES", "Gateway default/other", "spec.gatewayClassName: GatewayClass holdfsat does not exist"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    ensure!(get(port, "/").send().await.is_err(), "somebody answers");
    Ok(())
}

async fn a_file_that_does_not_parse(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    world.write("more.yaml", "kind: HTTPRoute\nspec: [{\n")?;
    let holdfast = run(&world).await?;
    get(port, "/").host("cart.example.com").comes_to_reach("echo").await?;
    let words = ["0 outages, 0 degraded, 0 warnings, 1 input", "INPUTS", "more.yaml:", "next     holdfast check "];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    Ok(())
}

async fn a_guard_without_a_target(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let guard = "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\n\
                 metadata: {name: only-office, namespace: default}\nspec:\n  \
                 targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: carts}]\n  \
                 rbac: {action: Allow, policy: {matchExpressions: [\"source.address == '10.0.0.1'\"]}}\n";
    world.write("guard.yaml", guard)?;
    let holdfast = run(&world).await?;
    get(port, "/").host("cart.example.com").comes_to_reach("echo").await?;
    let words =
        ["1 warning", "WARNINGS", "TrafficPolicy default/only-office", "HTTPRoute default/carts does not exist"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    Ok(())
}

async fn a_duplicate_route_of_a_proxy(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    world.write("class.yaml", manifests::class())?;
    let route = "  - conditions: [{prefix: /a}]\n    services: [{name: echo, port: 8080}]\n";
    let proxy = format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: cart, namespace: default}}\nspec:\n  \
         virtualhost: {{fqdn: cart.example.com}}\n  routes:\n{route}{route}"
    );
    world.write("proxy.yaml", proxy)?;
    let (http, https) = (world.port()?, world.port()?);
    let ports = ["--httpproxy-http".to_owned(), http.to_string(), "--httpproxy-https".to_owned(), https.to_string()];
    let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&FALLBACK).args(&ports)).await?;
    get(http, "/a").host("cart.example.com").comes_to_reach("echo").await?;
    let words = ["1 warning", "HTTPProxy default/cart", "duplicate match conditions", "proxy.yaml:9:5\n"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    Ok(())
}

async fn a_port_that_another_process_has(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &to("echo"))?;
    let _taken = TcpListener::bind(("127.0.0.1", port))?;
    let holdfast = run(&world).await?;
    // The process is reported by name.
    status_comes_to_print(&world, &holdfast, 1, &["OUTAGES", "is in use by process", "reach the process"]).await?;
    Ok(())
}

/// A rule that breaks, under each combination of gates: the status compared with the response.
async fn a_broken_rule_under_each_gate(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let rule = |path: &str| {
        format!(
            "hostnames: [cart.example.com]\nrules:\n- matches: [{{path: {{type: RegularExpression, value: '{path}'}}}}]\n  \
             backendRefs: [{{name: echo, port: 8080}}]"
        )
    };
    let isolate = "FallbackConfiguration=true";
    let combinations: [(&[&str], u16, &str, &str); 4] = [
        (&[], 404, "1 outage, 0 degraded", "rules[0] answers 404: cart.example.com"),
        (&["--feature-gates", isolate], 404, "1 outage, 0 degraded", "rules[0] answers 404: cart.example.com"),
        (&FALLBACK, 200, "0 outages, 1 degraded", "generation 1 is served, last valid since "),
        (
            &["--feature-gates", "FallbackConfiguration=true,InvalidRouteReplacement=false"],
            404,
            "1 outage, 0 degraded",
            "rules[0] left out",
        ),
    ];
    for (index, (flags, code, counts, instead)) in combinations.into_iter().enumerate() {
        world.route("cart", &rule("/a"))?;
        let mut options = HoldfastOptions::new(&world)?.args(flags);
        options.data = world.folder().join(format!("data-{index}"));
        let holdfast = world.run_with(options).await?;
        get(port, "/a").host("cart.example.com").comes_to_reach("echo").await?;
        status_comes_to_print(&world, &holdfast, 0, &[]).await?;
        until("the route is last valid", || async {
            let plan = holdfast.diagnostics("/debug/plan").await?.to_string();
            ensure!(plan.contains("HTTPRoute:default/cart"), "{plan}");
            Ok(())
        })
        .await?;
        world.route("cart", &rule("/a["))?;
        status_comes_to_print(&world, &holdfast, 1, &[counts, instead]).await?;
        get(port, "/a").host("cart.example.com").comes_to_answer(code).await?;
        holdfast.terminate().await?;
    }
    Ok(())
}

async fn dates_survive_a_restart(world: World) -> Result<()> {
    world.gateway()?;
    world.route("cart", &to("nowhere"))?;
    let holdfast = run(&world).await?;
    let since = |text: &str| {
        text.lines().find(|line| line.contains("  since    ")).map(|line| line.chars().take(31).collect::<String>())
    };
    let before = since(&status_comes_to_print(&world, &holdfast, 1, &["1 outage"]).await?);
    ensure!(before.is_some(), "there is no date");
    let options = holdfast.options.clone();
    holdfast.terminate().await?;
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    let holdfast = world.run_with(options).await?;
    let after = since(&status_comes_to_print(&world, &holdfast, 1, &["1 outage, 0 degraded"]).await?);
    ensure!(before == after, "{before:?}, after the restart {after:?}");
    Ok(())
}

async fn no_envoy_at_all(world: World) -> Result<()> {
    let port = world.gateway()?;
    let options = HoldfastOptions::new(&world)?.without_envoy().args(&["--probe", "off"]);
    let holdfast = world.run_with(options).await?;
    status_comes_to_print(&world, &holdfast, 1, &["OUTAGES", "Gateway default/public", "no Envoy is connected"])
        .await?;
    ensure!(get(port, "/").send().await.is_err(), "somebody answers");
    Ok(())
}

async fn an_api_server_that_was_never_reached(world: World) -> Result<()> {
    let config = world.folder().join("kubeconfig");
    let server = format!("http://127.0.0.1:{}", world.port()?);
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
    );
    std::fs::write(&config, text)?;
    let config = config.display().to_string();
    let mut options = HoldfastOptions::new(&world)?.without_envoy();
    options.manifests.clear();
    let options = options.args(&["--kubeconfig", &config, "--provision=false", "--probe", "off"]);
    let holdfast = Holdfast::start(&world, options)?;
    let words = ["INPUTS", "the API server", "it cannot be reached", "it has never answered", "NOT read now"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    Ok(())
}

/// A placeholder after a route with the same match, of an include and of a younger route: no request gets it, and no
/// outage is reported. An edit that makes it the only match is one.
async fn what_no_request_gets(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, plain) = (world.gateway()?, world.port()?.to_string());
    let proxy = |includes: &str, routes: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: root, namespace: default}}\nspec: \
             {{virtualhost: {{fqdn: p.example.com}}, includes: [{includes}], routes: [{routes}]}}\n"
        )
    };
    let all = "{services: [{name: echo, port: 8080}]}";
    world.write("proxy.yaml", proxy("{name: lost}", all))?;
    let rule = |path: &str, service: &str| {
        format!("- matches: [{{path: {{value: {path}}}}}]\n  backendRefs: [{{name: {service}, port: 8080}}]\n")
    };
    world.route("a-old", &format!("hostnames: [s.example.com]\nrules:\n{}", rule("/a", "echo")))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&["--httpproxy-http", &plain])).await?;
    get(port, "/a").host("s.example.com").comes_to_reach("echo").await?;
    let younger = format!("hostnames: [s.example.com]\nrules:\n{}{}", rule("/a", "missing"), rule("/b", "echo"));
    world.route("b-new", &younger)?;
    get(port, "/b").host("s.example.com").comes_to_reach("echo").await?;
    get(port, "/a").host("s.example.com").reaches("echo").await?;
    get(plain.parse()?, "/x").host("p.example.com").comes_to_reach("echo").await?;
    let words = ["0 outages", "Service default/missing does not exist"];
    let printed = status_comes_to_print(&world, &holdfast, 1, &words).await?;
    ensure!(!printed.contains("answers 500") && !printed.contains("answers 502"), "{printed}");
    world.write(
        "proxy.yaml",
        proxy("{name: lost}", &all.replace("{services", "{conditions: [{prefix: /c}], services")),
    )?;
    world.route("b-new", &younger.replace("[s.example.com]", "[s.example.com, t.example.com]"))?;
    get(plain.parse()?, "/x").host("p.example.com").comes_to_answer(502).await?;
    get(port, "/a").host("t.example.com").comes_to_answer(500).await?;
    let words = [
        "2 outages, 0 degraded, 1 warning",
        "includes[0] answers 502: p.example.com /* without another route",
        "rules[0] answers 500: t.example.com /a/*",
    ];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    Ok(())
}

/// Parts that have no effect while each request is served, and a rule of which only requests with a header fail.
async fn parts_without_effect(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let mirror = "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: missing, port: 8080}}}]";
    world.route("cart", &format!("{}\n  {mirror}", to("echo")))?;
    let weightless = "rules:\n- backendRefs: [{name: echo, port: 8080}, {name: missing, port: 8080, weight: 0}]";
    world.route("pay", &format!("hostnames: [pay.example.com, 'bad_host!']\n{weightless}"))?;
    let holdfast = run(&world).await?;
    for host in ["cart.example.com", "pay.example.com"] {
        get(port, "/").host(host).comes_to_reach("echo").await?;
    }
    let words = [
        "0 outages, ",
        " degraded, ",
        "rules[0].filters[0].requestMirror.backendRef.name left out",
        "hostnames[1] left out",
    ];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    // The weights are the cause, and not the missing backend.
    let nothing = weightless.replace("port: 8080}, {", "port: 8080, weight: 0}, {");
    world.route("pay", &format!("hostnames: [pay.example.com]\n{nothing}"))?;
    let words = ["1 outage, ", "all backendRefs have weight 0", "rules[0] answers 500: pay.example.com /*"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    get(port, "/").host("pay.example.com").comes_to_answer(500).await?;
    let narrow = "rules:\n- matches: [{path: {value: /a}, method: POST, headers: [{name: x-e, value: t}]}]\n  backendRefs: \
                  [{name: missing, port: 8080}]\n- backendRefs: [{name: echo, port: 8080}]";
    world.route("pay", &format!("hostnames: [pay.example.com]\n{narrow}"))?;
    let words = ["1 outage, ", "rules[0] answers 500: pay.example.com POST /a/* for some values of header x-e"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    get(port, "/a").host("pay.example.com").comes_to_reach("echo").await?;
    get(port, "/a").host("pay.example.com").method(hyper::Method::POST).header("x-e", "t").comes_to_answer(500).await?;
    Ok(())
}

/// A guarded route with a broken expression keeps the requests from an equal route of the HTTPProxy: that is an outage.
async fn placeholder_of_a_guarded_route(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let plain = world.port()?;
    let routes = "- conditions: [{regex: '/admin[0-9'}]\n    ipAllowPolicy: [{source: Peer, cidr: 10.0.0.0/8}]\n    services: \
                  [{name: echo, port: 8080}]\n  - conditions: [{prefix: /admin}]\n    services: [{name: echo, port: 8080}]";
    world.write(
        "proxy.yaml",
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: root, namespace: default}}\nspec:\n  \
             virtualhost: {{fqdn: p.example.com}}\n  routes:\n  {routes}\n"
        ),
    )?;
    let holdfast =
        world.run_with(HoldfastOptions::new(&world)?.args(&["--httpproxy-http", &plain.to_string()])).await?;
    get(plain, "/admin").host("p.example.com").comes_to_answer(404).await?;
    status_comes_to_print(&world, &holdfast, 1, &["1 outage", "routes[0] answers 404: p.example.com /admin*"]).await?;
    Ok(())
}

/// A rule with an equal older match at one of two listeners: the other one answers 500, which is an outage.
async fn a_rule_lost_at_one_listener(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, other) = (world.port()?, world.port()?);
    let second = manifests::http_listener(other).replace("- name: http", "- name: second");
    world.gateway_with(&[manifests::http_listener(port), second].concat())?;
    let route = |name: &str, section: &str, service: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  \
             parentRefs: [{{name: public{section}}}]\n  hostnames: [x.test]\n  rules: [{{backendRefs: [{{name: {service}, port: \
             8080}}]}}]\n"
        )
    };
    world.write("a.yaml", route("a", ", sectionName: http", "echo"))?;
    let holdfast = run(&world).await?;
    get(port, "/").host("x.test").comes_to_reach("echo").await?;
    world.write("b.yaml", route("b", "", "missing"))?;
    get(other, "/").host("x.test").comes_to_answer(500).await?;
    get(port, "/").host("x.test").reaches("echo").await?;
    status_comes_to_print(&world, &holdfast, 1, &["1 outage", "rules[0] answers 500: x.test /*"]).await?;
    Ok(())
}

/// A `tcpproxy` to a Service that does not exist, and to one without endpoints: connections are closed, which
/// is an outage.
async fn connections_without_a_backend(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    world.gateway()?;
    world.write("empty.yaml", manifests::service(manifests::NAMESPACE, "empty", None, &[]))?;
    let (plain, secure) = (world.port()?.to_string(), world.port()?.to_string());
    let proxy = |service: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{name: p, namespace: default}}\nspec: {{virtualhost: \
             {{fqdn: p.test, tls: {{passthrough: true}}}}, tcpproxy: {{services: [{{name: {service}, port: 8080}}]}}}}\n"
        )
    };
    world.write("proxy.yaml", proxy("missing"))?;
    let flags = ["--httpproxy-http", &plain, "--httpproxy-https", &secure];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&flags)).await?;
    status_comes_to_print(
        &world,
        &holdfast,
        1,
        &["1 outage", "spec.tcpproxy.services[0]", "connections to virtualhost are refused: p.test"],
    )
    .await?;
    world.write("proxy.yaml", proxy("empty"))?;
    let words = ["1 outage", "Service default/empty", "connections to tcpproxy are refused: p.test"];
    status_comes_to_print(&world, &holdfast, 1, &words).await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let url = format!("https://p.test:{secure}/");
    let explained = world.command(&["explain", "--diagnostics", &diagnostics, "GET", &url]).await?;
    explained
        .expect_code(1)?
        .expect_output(&["Service default/empty port 8080, 0 endpoints: the connection is closed"])?;
    world.write("proxy.yaml", proxy("echo"))?;
    status_comes_to_print(&world, &holdfast, 0, &[SENTENCE]).await?;
    Ok(())
}
