//! Gateways: listeners that share a port, listeners that are added and removed, routes that attach and detach.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, listener, route};
use holdfast_scenario_tests::request::{get, request};
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "gateways",
        true,
        [
            listeners_on_one_port_are_apart,
            routes_attach_and_detach,
            listeners_come_and_go,
            namespaces_that_may_attach,
            section_names_and_ports,
            two_gateways,
            default_gateways,
            route_moves_between_gateways,
            hostnames_intersect,
            two_gateways_want_one_port,
            class_of_another_controller,
        ]
    )
}

fn attached_to(section: &str) -> String {
    format!("- name: public\n  sectionName: {section}\n")
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

/// Listener isolation as in the conformance suite: a request belongs to the most specific listener only.
async fn listeners_on_one_port_are_apart(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.port()?;
    let sections = [
        ("empty-hostname", ""),
        ("wildcard-example-com", "*.example.com"),
        ("wildcard-foo-example-com", "*.foo.example.com"),
        ("abc-foo-example-com", "abc.foo.example.com"),
    ];
    let mut listeners = String::new();
    for (section, host) in sections {
        let host = if host.is_empty() { String::new() } else { format!("\nhostname: '{host}'") };
        listeners += &listener(section, port, &format!("protocol: HTTP{host}"));
        let spec = prefix(&format!("/{section}"), "echo");
        let name = format!("attaches-to-{section}");
        world.write(&format!("{section}.yaml"), route("HTTPRoute", "default", &name, &attached_to(section), &spec))?;
    }
    world.gateway_with(&listeners)?;
    let _holdfast = world.run().await?;
    get(port, "/empty-hostname").host("bar.com").comes_to_reach("echo").await?;
    for (host, own) in [
        ("bar.com", "empty-hostname"),
        ("bar.example.com", "wildcard-example-com"),
        ("bar.foo.example.com", "wildcard-foo-example-com"),
        ("abc.foo.example.com", "abc-foo-example-com"),
    ] {
        for (section, _) in sections {
            let request = get(port, &format!("/{section}")).host(host);
            if section == own {
                request.comes_to_reach("echo").await?
            } else {
                request.answers(404).await?
            };
        }
    }
    Ok(())
}

async fn routes_attach_and_detach(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route("one", &prefix("/one", "one"))?;
    let _holdfast = world.run().await?;
    get(port, "/one").comes_to_reach("one").await?;
    get(port, "/two").answers(404).await?;
    let others = Hammer::start([get(port, "/one")]);
    for _ in 0..5 {
        world.route("two", &prefix("/two", "two"))?;
        get(port, "/two").comes_to_reach("two").await?;
        world.delete("route-two.yaml")?;
        get(port, "/two").comes_to_answer(404).await?;
    }
    others.goes_on(20).await?;
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn listeners_come_and_go(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (first, second) = (world.port()?, world.port()?);
    let one = manifests::http_listener(first);
    let two = format!("{one}{}", listener("second", second, "protocol: HTTP"));
    world.gateway_with(&one)?;
    world.route("all", &prefix("/", "echo"))?;
    let _holdfast = world.run().await?;
    get(first, "/").comes_to_reach("echo").await?;
    ensure!(get(second, "/").send().await.is_err(), "a listener that nobody asked for answers");
    let others = Hammer::start([get(first, "/")]);
    for _ in 0..2 {
        world.gateway_with(&two)?;
        get(second, "/").comes_to_reach("echo").await?;
        world.gateway_with(&one)?;
        until("the removed listener is gone", || async {
            ensure!(get(second, "/").send().await.is_err(), "it still answers");
            Ok(())
        })
        .await?;
    }
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn namespaces_that_may_attach(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for namespace in ["default", "tenant", "foreign"] {
        backends.push(world.backend_in(namespace, "echo", None).await?);
    }
    let (same, selected, all) = (world.port()?, world.port()?, world.port()?);
    let with = |name: &str, port: u16, from: &str| {
        format!("- name: {name}\n  port: {port}\n  protocol: HTTP\n  allowedRoutes: {{namespaces: {from}}}\n")
    };
    world.gateway_with(&format!(
        "{}{}{}",
        with("same", same, "{from: Same}"),
        with("selected", selected, "{from: Selector, selector: {matchLabels: {team: blue}}}"),
        with("all", all, "{from: All}")
    ))?;
    let parent = "- name: public\n  namespace: default\n";
    let routes: Vec<String> = ["default", "tenant", "foreign"]
        .iter()
        .map(|namespace| route("HTTPRoute", namespace, "r", parent, &prefix(&format!("/{namespace}"), "echo")))
        .collect();
    world.write("routes.yaml", documents(&routes))?;
    let labels = |labels: &str| {
        documents(&[manifests::namespace("tenant", labels), manifests::namespace("foreign", "team: red")])
    };
    world.write("namespaces.yaml", labels("team: blue"))?;
    let _holdfast = world.run().await?;
    get(all, "/foreign").comes_to_reach("echo").await?;
    for (port, default, tenant, foreign) in [(same, 200, 404, 404), (selected, 404, 200, 404), (all, 200, 200, 200)] {
        get(port, "/default").comes_to_answer(default).await?;
        get(port, "/tenant").comes_to_answer(tenant).await?;
        get(port, "/foreign").comes_to_answer(foreign).await?;
    }
    // Namespace labels are evaluated in their current state.
    world.write("namespaces.yaml", labels("team: green"))?;
    get(selected, "/tenant").comes_to_answer(404).await?;
    get(all, "/tenant").reaches("echo").await?;
    Ok(())
}

async fn section_names_and_ports(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (first, second) = (world.port()?, world.port()?);
    world.gateway_with(&format!(
        "{}{}",
        listener("first", first, "protocol: HTTP"),
        listener("second", second, "protocol: HTTP")
    ))?;
    let parents = [
        ("section", attached_to("first")),
        ("port", format!("- name: public\n  port: {second}\n")),
        ("nowhere", attached_to("third")),
        ("both", format!("- name: public\n  sectionName: first\n  port: {second}\n")),
        ("all", "- name: public\n".to_owned()),
    ];
    for (name, parent) in &parents {
        let text = route("HTTPRoute", "default", name, parent, &prefix(&format!("/{name}"), "echo"));
        world.write(&format!("{name}.yaml"), text)?;
    }
    let _holdfast = world.run().await?;
    get(second, "/all").comes_to_reach("echo").await?;
    for (name, on_first, on_second) in
        [("section", 200, 404), ("port", 404, 200), ("nowhere", 404, 404), ("both", 404, 404), ("all", 200, 200)]
    {
        get(first, &format!("/{name}")).comes_to_answer(on_first).await?;
        get(second, &format!("/{name}")).comes_to_answer(on_second).await?;
    }
    Ok(())
}

/// Each Gateway has a separate Envoy.
async fn two_gateways(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (first, second) = (world.port()?, world.port()?);
    world.write(
        "gateways.yaml",
        documents(&[
            manifests::class(),
            manifests::gateway("one", &manifests::http_listener(first)),
            manifests::gateway("two", &manifests::http_listener(second)),
        ]),
    )?;
    let on =
        |name: &str, parents: &str| route("HTTPRoute", "default", name, parents, &prefix(&format!("/{name}"), "echo"));
    world.write(
        "routes.yaml",
        documents(&[on("one", "- name: one"), on("two", "- name: two"), on("both", "- name: one\n- name: two")]),
    )?;
    let holdfast = world.run().await?;
    for (port, name, other) in [(first, "one", "two"), (second, "two", "one")] {
        get(port, &format!("/{name}")).comes_to_reach("echo").await?;
        get(port, "/both").comes_to_reach("echo").await?;
        get(port, &format!("/{other}")).answers(404).await?;
    }
    ensure!(holdfast.envoys().len() == 2, "{:?}", holdfast.envoys());
    Ok(())
}

/// The default moves from one Gateway to another, first with both: the route that uses defaults is always served at one,
/// and the route that names its Gateway all the time, while a third route is broken.
async fn default_gateways(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let (old, new) = (world.port()?, world.port()?);
    let gateway = |name: &str, port: u16, scope: &str| {
        let text = manifests::gateway(name, &manifests::http_listener(port));
        format!("{text}\n  defaultScope: {scope}\n")
    };
    world.write("class.yaml", manifests::class())?;
    world.write("old.yaml", gateway("public", old, "All"))?;
    world.write("new.yaml", gateway("second", new, "None"))?;
    let defaulted = manifests::http_route("defaulted", &format!("useDefaultGateways: All\n{}", prefix("/all", "one")));
    let defaulted = defaulted.replace("  parentRefs:\n  - name: public\n", "");
    world.write("defaulted.yaml", defaulted)?;
    world.route("named", &prefix("/named", "two"))?;
    let _holdfast = world.run().await?;
    get(old, "/all").comes_to_reach("one").await?;
    get(old, "/named").comes_to_reach("two").await?;
    let others = Hammer::start([get(old, "/named")]);
    world.write("new.yaml", gateway("second", new, "All"))?;
    get(new, "/all").comes_to_reach("one").await?;
    get(old, "/all").reaches("one").await?;
    let moved = Hammer::start([get(new, "/all")]);
    world.route("broken", "rules: [{matches: [{path: {value: /broken}}], filters: [{type: Unknown}]}]")?;
    world.write("old.yaml", gateway("public", old, "None"))?;
    get(old, "/all").comes_to_answer(404).await?;
    get(new, "/named").answers(404).await?;
    others.stop_expecting(Shot::is_ok).await?;
    moved.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn route_moves_between_gateways(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (first, second) = (world.port()?, world.port()?);
    world.write(
        "gateways.yaml",
        documents(&[
            manifests::class(),
            manifests::gateway("one", &manifests::http_listener(first)),
            manifests::gateway("two", &manifests::http_listener(second)),
        ]),
    )?;
    let to =
        |gateway: &str| route("HTTPRoute", "default", "mover", &format!("- name: {gateway}"), &prefix("/", "echo"));
    world.write("mover.yaml", to("one"))?;
    let _holdfast = world.run().await?;
    for (gateway, here, there) in [("one", first, second), ("two", second, first), ("one", first, second)] {
        world.write("mover.yaml", to(gateway))?;
        request(here).comes_to_reach("echo").await?;
        request(there).comes_to_answer(404).await?;
    }
    Ok(())
}

/// A route serves the intersection of its hostnames and those of its listener, as in the conformance suite.
async fn hostnames_intersect(world: World) -> Result<()> {
    let mut backends = Vec::new();
    for name in ["specific", "non-matching", "wildcard", "sub-wildcard"] {
        backends.push(world.backend(name).await?);
    }
    let port = world.port()?;
    world.gateway_with(&format!(
        "{}{}{}",
        listener("one", port, "protocol: HTTP\nhostname: very.specific.com"),
        listener("two", port, "protocol: HTTP\nhostname: '*.wildcard.io'"),
        listener("three", port, "protocol: HTTP\nhostname: '*.anotherwildcard.io'")
    ))?;
    let on = |hosts: &str, path: &str, backend: &str| format!("hostnames: [{hosts}]\n{}", prefix(path, backend));
    world
        .route("specific", &on("non.matching.com, '*.nonmatchingwildcard.io', very.specific.com", "/s1", "specific"))?;
    world.route("none", &on("specific.but.wrong.com, wildcard.io", "/s4", "non-matching"))?;
    world.route("wide", &on("'*.io', non.matching.com", "/s3", "wildcard"))?;
    world.route("narrow", &on("foo.wildcard.io, foo.bar.wildcard.io", "/s2", "sub-wildcard"))?;
    let holdfast = world.run().await?;
    for (host, path, pod) in [
        ("very.specific.com", "/s1", "specific"),
        ("foo.wildcard.io", "/s2", "sub-wildcard"),
        ("foo.bar.wildcard.io", "/s2", "sub-wildcard"),
        ("any.wildcard.io", "/s3", "wildcard"),
        ("any.anotherwildcard.io", "/s3", "wildcard"),
    ] {
        get(port, path).host(host).comes_to_reach(pod).await?;
    }
    for (host, path) in [
        ("non.matching.com", "/s1"),
        ("foo.nonmatchingwildcard.io", "/s1"),
        ("very.specific.com", "/non-matching-prefix"),
        ("bar.wildcard.io", "/s2"),
        ("foo.anotherwildcard.io", "/s2"),
        ("wildcard.io", "/s4"),
        ("wildcard.io", "/s3"),
        ("specific.but.wrong.com", "/s4"),
        ("any.io", "/s3"),
    ] {
        get(port, path).host(host).answers(404).await?;
    }
    holdfast.comes_to_print(&["default/none"]).await
}

/// All Gateways in standalone mode share the ports of the machine: the older listener gets the port, and the status of
/// the other one reports this.
async fn two_gateways_want_one_port(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let (shared, own) = (world.port()?, world.port()?);
    let at = |name: &str, created: &str, listeners: &str| {
        let created = format!("metadata:\n  creationTimestamp: \"{created}\"");
        manifests::gateway(name, listeners).replacen("metadata:", &created, 1)
    };
    let young = format!("{}{}", listener("clash", shared, "protocol: HTTP"), listener("own", own, "protocol: HTTP"));
    world.write(
        "gateways.yaml",
        documents(&[
            manifests::class(),
            at("a-young", "2026-02-01T00:00:00Z", &young),
            at("b-old", "2026-01-01T00:00:00Z", &manifests::http_listener(shared)),
        ]),
    )?;
    world.write("one.yaml", route("HTTPRoute", "default", "one", "- name: b-old", &prefix("/", "one")))?;
    world.write("two.yaml", route("HTTPRoute", "default", "two", "- name: a-young", &prefix("/", "two")))?;
    let holdfast = world.run().await?;
    get(shared, "/").comes_to_reach("one").await?;
    get(own, "/").comes_to_reach("two").await?;
    for _ in 0..30 {
        get(shared, "/").reaches("one").await?;
    }
    holdfast.comes_to_print(&["default/a-young", &shared.to_string()]).await
}

async fn class_of_another_controller(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (ours, theirs) = (world.port()?, world.port()?);
    let class = manifests::class().replace(manifests::CONTROLLER, "example.com/other");
    let class = class.replacen("name: holdfast", "name: other", 1);
    let other = class.split("---").next().unwrap_or_default().to_owned();
    let gateway = manifests::gateway("theirs", &manifests::http_listener(theirs))
        .replace("gatewayClassName: holdfast", "gatewayClassName: other");
    world.write(
        "gateways.yaml",
        documents(&[manifests::class(), other, gateway, manifests::gateway("public", &manifests::http_listener(ours))]),
    )?;
    world.write(
        "all.yaml",
        route("HTTPRoute", "default", "all", "- name: public\n- name: theirs", &prefix("/", "echo")),
    )?;
    let holdfast = world.run().await?;
    get(ours, "/").comes_to_reach("echo").await?;
    ensure!(get(theirs, "/").send().await.is_err(), "the Gateway of another controller is served");
    ensure!(holdfast.envoys().len() == 1, "{:?}", holdfast.envoys());
    Ok(())
}
