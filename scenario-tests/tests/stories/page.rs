//! The page for operators in a real browser, beside real requests.

use std::path::Path;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::browser::without_live::WithoutLive;
use holdfast_scenario_tests::browser::{Browser, ColourScheme, accessibility_rules};
use holdfast_scenario_tests::fleet::binary_with_mistakes;
use holdfast_scenario_tests::manifests::{SERVICE_PORT, documents, http_route, route};
use holdfast_scenario_tests::mistakes::HEADER;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use crate::diff::{GUARD, proxy};
use crate::fallback::BACKFILL;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "page",
        true,
        [
            an_open_page_follows_a_mistake_and_its_repair,
            an_open_page_without_a_stream_follows_as_well,
            an_earlier_version_is_shown_with_both_generations,
            a_held_gateway_is_shown_as_held,
            sixty_routes_with_one_cause_are_one_finding,
            three_owners_each_find_their_own,
            what_is_not_read_or_not_served_is_not_all_well,
            many_routes_are_shown_in_pages,
            hostile_text_is_only_text,
            an_end_of_holdfast_is_shown,
            all_people_can_use_it
        ]
    )
}

/// Where the pictures of `docs/operating/page.md` are.
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating/page");

fn address(holdfast: &Holdfast, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", holdfast.options.diagnostics)
}

fn rule(path: &str, service: &str) -> String {
    format!("- matches: [{{path: {path}}}]\n  backendRefs: [{{name: {service}, port: {SERVICE_PORT}}}]\n")
}

/// Writes a picture for the documents, with `HOLDFAST_PICTURES=write`.
async fn picture(browser: &Browser, name: &str) -> Result<()> {
    if std::env::var("HOLDFAST_PICTURES").is_ok_and(|mode| mode == "write") {
        std::fs::create_dir_all(PICTURES)?;
        browser.picture(&Path::new(PICTURES).join(name)).await?;
    }
    Ok(())
}

/// The class of the row of a host.
async fn colour(browser: &Browser, host: &str) -> Result<String> {
    let script = format!(
        "const head = [...document.querySelectorAll('tbody th')].find(one => one.textContent === '{host}');
         return head ? head.parentElement.className : 'no row';"
    );
    Ok(browser.run(&script).await?.as_str().unwrap_or_default().to_owned())
}

/// A route of the host `shop.test` to a Service.
fn shop(service: &str) -> String {
    format!("hostnames: [shop.test]\nrules:\n{}", rule("{value: /}", service))
}

/// Serves the host `shop.test` by the backend `echo`: the port, and Holdfast.
async fn served_shop(world: &World) -> Result<(u16, Holdfast)> {
    let port = world.gateway()?;
    world.route("shop", &shop("echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").host("shop.test").comes_to_reach("echo").await?;
    Ok((port, holdfast))
}

async fn an_open_page_follows_a_mistake_and_its_repair(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast) = served_shop(&world).await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&["Everything is served as desired.", "shop.test", "1 of 1 connected here"]).await?;
    ensure!(colour(&browser, "shop.test").await? == "served", "the host has a wrong colour");
    // The mark is lost if the browser loads the page again.
    browser.run("window.mark = 1; document.querySelector('[name=q]').value = 'half a wo';").await?;

    world.route("shop", &shop("gone"))?;
    get(port, "/").host("shop.test").comes_to_answer(500).await?;
    let words = ["NOT everything is served as desired: 1 outage", "Service default/gone does not exist", "answers 500"];
    browser.comes_to_show(&words).await?;
    ensure!(colour(&browser, "shop.test").await? == "error", "the host has a wrong colour");

    world.route("shop", &shop("echo"))?;
    get(port, "/").host("shop.test").comes_to_reach("echo").await?;
    browser.comes_to_show(&["Everything is served as desired.", "The episodes as a list"]).await?;
    ensure!(colour(&browser, "shop.test").await? == "served", "the host has a wrong colour");
    let kept = browser.run("return [window.mark, document.querySelector('[name=q]').value];").await?;
    ensure!(kept == serde_json::json!([1, "half a wo"]), "{kept}");
    browser.end().await
}

/// If the stream of changes is refused, the page is loaded again every few seconds.
async fn an_open_page_without_a_stream_follows_as_well(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (_, holdfast) = served_shop(&world).await?;
    let relay = WithoutLive::start(holdfast.options.diagnostics).await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.open(&format!("http://127.0.0.1:{}/", relay.port)).await?;
    browser.comes_to_show(&["Everything is served as desired.", "1 of 1 connected here"]).await?;
    browser.run("window.mark = 1;").await?;
    for (service, words) in
        [("gone", "Service default/gone does not exist"), ("echo", "Everything is served as desired.")]
    {
        world.route("shop", &shop(service))?;
        browser.comes_to_show(&[words]).await?;
    }
    ensure!(browser.run("return window.mark;").await? == 1, "the browser has left the page");
    browser.end().await
}

async fn an_earlier_version_is_shown_with_both_generations(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let route = |path: &str| format!("hostnames: [shop.test]\nrules:\n{}", rule(path, "echo"));
    world.route("shop", &route("{value: /a}"))?;
    world.write(
        "policy.yaml",
        "apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: limits, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
  timeouts: {request: 5s}
",
    )?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    get(port, "/a").host("shop.test").comes_to_reach("echo").await?;
    until("the version is proven", || async {
        let reply = get(holdfast.options.diagnostics, "/").host("localhost").send().await?;
        ensure!(reply.body.contains("Everything is served as desired."), "{}", reply.body);
        Ok(())
    })
    .await?;
    world.route("shop", &route("{type: RegularExpression, value: '/a[0-9+'}"))?;
    let browser = Browser::start(&world, ColourScheme::Dark).await?;
    browser.resize(1200, 1300).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&["generation 2 desired since ", "generation 1 is served, last valid since "]).await?;
    ensure!(colour(&browser, "shop.test").await? == "earlier", "the host has a wrong colour");
    picture(&browser, "overview-dark.png").await?;
    get(port, "/a").host("shop.test").reaches("echo").await?;

    let opened = browser.run("document.querySelector('article a').click(); return true;").await?;
    ensure!(opened == true, "{opened}");
    let words = ["HTTPRoute default/shop", "# <-- invalid regex", "+ desired (generation 2)", "Text for the owner"];
    browser.comes_to_show(&words).await?;
    ensure!(browser.run("return location.pathname;").await? == "/object/HTTPRoute/default/shop", "another address");
    browser.click("[data-copy]").await?;
    browser.comes_to_show(&["Copied"]).await?;
    picture(&browser, "object-dark.png").await?;

    // An object that others depend on: the graph, and its edges.
    browser.open(&address(&holdfast, "/object/TrafficPolicy/default/limits")).await?;
    browser.comes_to_show(&["Dependent objects", "default/shop"]).await?;
    browser
        .open(&address(&holdfast, &format!("/explain?url=http://127.0.0.1:{port}/a&headers=Host:+shop.test")))
        .await?;
    browser.comes_to_show(&["HTTPRoute default/shop rules[0]: yes", "not served as desired"]).await?;
    browser.end().await
}

async fn a_held_gateway_is_shown_as_held(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let route = |mistake: &str| {
        let filter = match mistake {
            "" => String::new(),
            mistake => format!(
                "  filters: [{{type: ResponseHeaderModifier, responseHeaderModifier: {{set: [{{name: {HEADER}, value: {mistake}}}]}}}}]\n"
            ),
        };
        format!("hostnames: [shop.test]\nrules:\n{}{filter}", rule("{value: /}", "echo"))
    };
    world.route("shop", &route(""))?;
    let binary = binary_with_mistakes(&world)?.display().to_string();
    let options = HoldfastOptions::new(&world)?.env("ENVOY_BIN", &binary).args(&["--probe", "off"]);
    let holdfast = world.run_with(options).await?;
    get(port, "/").host("shop.test").comes_to_reach("echo").await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&["Everything is served as desired."]).await?;
    world.route("shop", &route("regex"))?;
    browser.comes_to_show(&["NOT everything is served as desired", "held (held)"]).await?;
    ensure!(colour(&browser, "shop.test").await? == "earlier", "the host has a wrong colour");
    get(port, "/").host("shop.test").reaches("echo").await?;
    browser.end().await
}

async fn sixty_routes_with_one_cause_are_one_finding(world: World) -> Result<()> {
    let port = world.gateway()?;
    let route = |number: usize| {
        let spec = format!("hostnames: [h{number}.test]\nrules:\n{}", rule("{value: /}", "gone"));
        http_route(&format!("r{number}"), &spec)
    };
    world.write("routes.yaml", documents(&(0..60).map(route).collect::<Vec<_>>()))?;
    let holdfast = world.run().await?;
    get(port, "/").host("h59.test").comes_to_answer(500).await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&["1 outage", "and 59 more with the same cause", "60 with errors"]).await?;
    let counts =
        "return [document.querySelectorAll('article').length, document.querySelectorAll('tr.error th').length];";
    let counts = browser.run(counts).await?;
    // The Gateway and its hosts.
    ensure!(counts == serde_json::json!([1, 61]), "{counts}");
    browser.end().await
}

/// Mistakes of three namespaces at once: a route, a policy and an HTTPProxy. A filter by namespace shows its own mistake.
async fn three_owners_each_find_their_own(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["cart", "pay", "blog"] {
        backends.push(world.backend_in(name, name, None).await?);
    }
    let (port, proxies) = (world.gateway()?, world.port()?);
    let parent = "- {name: public, namespace: default}\n";
    let cart = format!("hostnames: [cart.test]\nrules:\n{}", rule("{type: RegularExpression, value: '/a['}", "cart"));
    world.write("cart.yaml", route("HTTPRoute", "cart", "cart", parent, &cart))?;
    let pay = format!("hostnames: [pay.test]\nrules:\n{}", rule("{value: /}", "pay"));
    world.write("pay.yaml", route("HTTPRoute", "pay", "pay", parent, &pay))?;
    world.write("guard.yaml", GUARD)?;
    world.write("blog.yaml", proxy("bad header"))?;
    let flags = ["--httpproxy-http", &proxies.to_string(), "--httpproxy-https", &world.port()?.to_string()];
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&[&BACKFILL[..], &flags].concat())).await?;
    for (at, host, path) in [(port, "cart.test", "/a"), (port, "pay.test", "/"), (proxies, "blog.test", "/")] {
        get(at, path).host(host).comes_to_answer(404).await?;
    }
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&["HTTPRoute cart/cart", "TrafficPolicy pay/guard", "HTTPProxy blog/blog"]).await?;
    for host in ["cart.test", "pay.test", "blog.test"] {
        ensure!(colour(&browser, host).await? == "error", "{host} has a wrong colour");
    }
    for (namespace, culprit, others) in [
        ("cart", "HTTPRoute cart/cart", ["pay/guard", "blog/blog"]),
        ("pay", "TrafficPolicy pay/guard", ["cart/cart", "blog/blog"]),
        ("blog", "HTTPProxy blog/blog", ["cart/cart", "pay/guard"]),
    ] {
        browser.open(&address(&holdfast, &format!("/?namespace={namespace}"))).await?;
        browser.comes_to_show(&[&format!("NOT everything of namespace {namespace}"), culprit]).await?;
        let text = browser.text().await?;
        ensure!(others.iter().all(|other| !text.contains(other)), "{namespace}: {text}");
    }
    browser.end().await
}

/// A Gateway without a class beside one that is served, a route of both, a route of the first alone, and a file that
/// cannot be read.
async fn what_is_not_read_or_not_served_is_not_all_well(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let class = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: noclass, namespace: default}
spec:
  gatewayClassName: other
  listeners: [{name: http, port: 1, protocol: HTTP}]
";
    world.write("noclass.yaml", class)?;
    let with_host = |host: &str| format!("hostnames: [{host}]\nrules:\n{}", rule("{value: /}", "echo"));
    world.route("shop", &with_host("shop.test"))?;
    let parents = ["- {name: public}\n- {name: noclass}\n", "- {name: noclass}\n"];
    world.write("both.yaml", route("HTTPRoute", "default", "both", parents[0], &with_host("both.test")))?;
    world.write("lost.yaml", route("HTTPRoute", "default", "lost", parents[1], &with_host("lost.test")))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    get(port, "/").host("both.test").comes_to_reach("echo").await?;
    let shows = async |path: &str, words: &[&str], others: &[&str]| -> Result<()> {
        until(&format!("{path} shows {words:?}"), || async {
            let body = get(holdfast.options.diagnostics, path).host("localhost").send().await?.body;
            let missing = words.iter().find(|words| !body.contains(**words));
            let odd = others.iter().find(|words| body.contains(**words));
            ensure!(missing.is_none() && odd.is_none(), "{path}: {missing:?}, {odd:?}: {body}");
            Ok(())
        })
        .await
    };
    let row = |class: &str, host: &str, gateway: &str| {
        format!("<tr class=\"{class}\"><th scope=\"row\">{host}</th><td>{gateway}</td>")
    };
    let (both, lost) = (row("served", "both.test", "default/public"), row("error", "lost.test", "default/noclass"));
    let not_served = "<tr class=\"error\"><th scope=\"row\">default/noclass</th>";
    shows("/", &[&both, &lost, not_served], &[]).await?;
    shows("/?gateway=default/noclass", &["NOT everything at Gateway default/noclass", not_served, &lost], &[]).await?;
    shows("/?q=lost.test", &[&lost], &["No host"]).await?;
    shows("/?gateway=default/typo", &["There is no Gateway default/typo"], &["is served as desired"]).await?;
    shows("/?namespace=typo", &["no object of namespace typo"], &["is served as desired"]).await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let status = world.command(&["status", "--diagnostics", &diagnostics, "--gateway", "default/noclass"]).await?;
    status.expect_code(1)?.expect_output(&["GatewayClass other does not exist"])?;

    world.write("route-shop.yaml", "kind: [")?;
    let earlier = row("earlier", "shop.test", "default/public");
    let of_file = ["Unparsable: ", "what was read last is served"];
    shows("/", &[&earlier, "route-shop.yaml", of_file[0], of_file[1]], &["Everything is served as desired."]).await?;
    let words = ["served as it was read last", "Nothing of what can be read.", "cannot be read"];
    shows("/object/HTTPRoute/default/shop", &words, &[">served as written</span>"]).await?;
    shows("/object/HTTPRoute/default/both", &["clients get errors"], &[">served as written</span>"]).await?;
    get(port, "/").host("shop.test").reaches("echo").await?;

    // The routes of a Service are served as the Service was read last.
    world.write("service-default-echo.yaml", "kind: [")?;
    let earlier = row("earlier", "both.test", "default/public");
    shows("/", &[&earlier, "service-default-echo.yaml", of_file[1]], &[&both]).await?;
    get(port, "/").host("both.test").reaches("echo").await?;
    Ok(())
}

/// The number of routes of the story about many: 10,000 with `HOLDFAST_FIGURES`.
fn many() -> usize {
    if std::env::var_os("HOLDFAST_FIGURES").is_some() { 10_000 } else { 400 }
}

async fn many_routes_are_shown_in_pages(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let (many, broken) = (many(), many() / 20);
    let route = |number: usize| {
        let service = if number < broken { format!("gone-{number}") } else { "echo".to_owned() };
        let spec = format!("hostnames: [h{number}.test]\nrules:\n{}", rule("{value: /}", &service));
        http_route(&format!("r{number}"), &spec)
    };
    for part in 0..many.div_ceil(500) {
        let routes: Vec<String> = (part * 500..many.min((part + 1) * 500)).map(route).collect();
        world.write(&format!("routes-{part}.yaml"), documents(&routes))?;
    }
    let holdfast = world.run().await?;
    get(port, "/").host("h0.test").comes_to_answer(500).await?;
    get(port, "/").host(&format!("h{}.test", many - 1)).comes_to_reach("echo").await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.resize(1200, 1300).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&[&format!("{broken} outages"), &format!("({many} hosts)"), "Page 1 of "]).await?;
    picture(&browser, "overview-many.png").await?;
    let size = browser.run("return document.documentElement.outerHTML.length;").await?;
    ensure!(size.as_u64().is_some_and(|size| size < 300_000), "{size} characters");
    browser.run("document.querySelector('nav[aria-label=\"Pages of hosts\"] [rel=next]').click();").await?;
    browser.comes_to_show(&["Page 2 of "]).await?;
    browser.open(&address(&holdfast, &format!("/?q=h{}.test&state=served", many - 1))).await?;
    browser.comes_to_show(&[&format!("h{}.test", many - 1), "Nothing with this filter."]).await?;
    let rows = browser.run("return document.querySelectorAll('tr.served th').length;").await?;
    ensure!(rows == 1, "{rows}");
    if std::env::var_os("HOLDFAST_FIGURES").is_some() {
        for path in
            ["/", "/?state=served", "/object/HTTPRoute/default/r0", &format!("/object/HTTPRoute/default/r{}", many - 1)]
        {
            figure(&holdfast, path).await?;
        }
    }
    browser.end().await
}

/// Prints the median time and the size of a page.
async fn figure(holdfast: &Holdfast, path: &str) -> Result<()> {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..21 {
        let began = std::time::Instant::now();
        bytes = get(holdfast.options.diagnostics, path).host("localhost").send().await?.body.len();
        times.push(began.elapsed());
    }
    times.sort();
    println!("{path}: {:?} median, {:?} longest, {bytes} bytes", times[times.len() / 2], times[times.len() - 1]);
    Ok(())
}

async fn hostile_text_is_only_text(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let long = "a".repeat(63);
    let value = "</pre><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\\u001b[31m\\u202egpj\\\"'[";
    let route =
        |value: &str| format!("rules:\n{}", rule(&format!("{{type: RegularExpression, value: \"/{value}\"}}"), "echo"));
    world.route(&long, &route(value))?;
    world.route("huge", &route(&"(".repeat(1_000_000)))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    get(port, "/x").comes_to_answer(404).await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    let object = format!("/object/HTTPRoute/default/{long}");
    let search =
        "/?q=%3Cscript%3Ewindow.hacked%3D1%3C/script%3E&namespace=%22%3E%3Cscript%3Ewindow.hacked%3D1%3C/script%3E";
    let explain = "/explain?url=http://127.0.0.1/%3Cscript%3Ewindow.hacked=1%3C/script%3E&headers=x%3A+%3Cscript%3E";
    for path in ["/", &object, "/object/HTTPRoute/default/huge", search, explain, "/object/%3Cscript%3E/a/b"] {
        browser.open(&address(&holdfast, path)).await?;
        browser.comes_to_show(&["As of "]).await?;
        let found = browser
            .run("return [window.hacked === undefined, document.scripts.length, document.images.length, /[\\u202e\\u001b]/.test(document.body.textContent), document.documentElement.outerHTML.length < 1000000];")
            .await?;
        ensure!(found == serde_json::json!([true, 1, 0, false, true]), "{path}: {found}");
    }
    browser.open(&address(&holdfast, &object)).await?;
    browser.comes_to_show(&["<script>window.hacked=1</script>", "\\u{202e}"]).await?;
    browser.end().await
}

async fn an_end_of_holdfast_is_shown(world: World) -> Result<()> {
    world.gateway()?;
    let holdfast = world.run().await?;
    let browser = Browser::start(&world, ColourScheme::Light).await?;
    browser.open(&address(&holdfast, "/")).await?;
    browser.comes_to_show(&["As of "]).await?;
    let options = holdfast.kill()?;
    browser.comes_to_show(&["Holdfast does not answer: what is shown may be out of date."]).await?;
    let _holdfast = world.run_with(options).await?;
    until("the page is current again", || async {
        let text = browser.text().await?;
        ensure!(!text.contains("does not answer"), "{text}");
        Ok(())
    })
    .await?;
    browser.end().await
}

/// The rules of axe-core, a narrow window, and a page without scripts.
async fn all_people_can_use_it(world: World) -> Result<()> {
    let rules = accessibility_rules()?;
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("fine", &format!("hostnames: [fine.test]\nrules:\n{}", rule("{value: /}", "echo")))?;
    world.route("lost", &format!("hostnames: [lost.test]\nrules:\n{}", rule("{value: /}", "gone")))?;
    let edited = |path: &str| format!("hostnames: [shop.test]\nrules:\n{}", rule(path, "echo"));
    world.route("shop", &edited("{value: /a}"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    get(port, "/a").host("shop.test").comes_to_reach("echo").await?;
    world.route("shop", &edited("{type: RegularExpression, value: '/a['}"))?;
    until("it falls back", || async {
        let health: Value = holdfast.diagnostics("/debug/health").await?;
        ensure!(health["degraded"].as_array().is_some_and(|found| !found.is_empty()), "{health:#}");
        Ok(())
    })
    .await?;
    let paths = [
        "/",
        "/?state=served",
        "/object/HTTPRoute/default/shop",
        "/object/HTTPRoute/default/lost",
        "/object/Gateway/default/public",
        &format!("/explain?url=http://127.0.0.1:{port}/a&headers=Host:+shop.test"),
        "/object/HTTPRoute/default/unknown",
    ];
    for (colours, name) in [(ColourScheme::Light, "light"), (ColourScheme::Dark, "dark")] {
        let browser = Browser::start(&world, colours).await?;
        browser.resize(1200, 1300).await?;
        for path in paths {
            browser.open(&address(&holdfast, path)).await?;
            let found = browser.accessibility_violations(&rules).await?;
            ensure!(found.is_empty(), "{path}, {name}: {found:#?}");
        }
        let is_dark = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches;").await?;
        ensure!(is_dark == (colours == ColourScheme::Dark), "{name}: {is_dark}");
        if colours == ColourScheme::Light {
            browser.open(&address(&holdfast, "/")).await?;
            picture(&browser, "overview-light.png").await?;
            browser.resize(500, 1300).await?;
            for path in paths {
                browser.open(&address(&holdfast, path)).await?;
                let width = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth;";
                ensure!(browser.run(width).await? == true, "{path} is wider than a narrow window");
            }
            browser.open(&address(&holdfast, "/")).await?;
            picture(&browser, "overview-narrow.png").await?;
        }
        browser.end().await?;
    }
    // Without scripts: the same facts, and a browser that loads the page again.
    let reply = get(holdfast.options.diagnostics, "/").host("localhost").send().await?;
    let text = &reply.body;
    for words in ["lost.test", "answers 500", "generation 2 desired since", "<noscript><meta http-equiv=\"refresh\""] {
        ensure!(text.contains(words), "{words} is not in {text}");
    }
    for (header, value) in [("x-frame-options", "DENY"), ("cache-control", "no-store")] {
        ensure!(reply.header(header) == value, "{header}: {}", reply.header(header));
    }
    let scripts = text.matches("<script").count();
    ensure!(scripts == 1, "{scripts} scripts");
    let cookie = reply.header("set-cookie");
    ensure!(cookie.is_empty(), "a cookie: {cookie}");
    let answer = get(holdfast.options.diagnostics, "/").host("shop.example.com").send().await?;
    ensure!(answer.status == 421, "{answer:?}");
    Ok(())
}
