//! ListenerSets: listeners that other teams add to a Gateway, and isolation between them.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, http_listener, https_listener, listener, route};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Story, World, stories, until};

use crate::policies::guards;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "sets",
        true,
        [
            another_team_adds_a_host_and_a_port,
            the_older_claim_keeps_the_host,
            with_tls_and_a_certificate_of_its_own,
            a_claimed_host_with_tls_is_answered_by_its_owner,
            policies_of_a_set_hold_for_its_listeners,
            policies_of_a_set_hold_with_tls,
            unreadable_set_stays,
        ]
    )
}

/// Writes the Gateway, with the namespaces that may add listeners.
fn gateway(world: &World, from: &str, listeners: &str) -> Result<()> {
    let gateway = manifests::gateway("public", listeners);
    let gateway = format!("{gateway}  allowedListeners: {{namespaces: {{from: {from}}}}}\n");
    world.write("gateway.yaml", documents(&[manifests::class(), gateway]))
}

/// Writes a ListenerSet of the Gateway; `made` is the day of its creation in January 2026.
fn set(world: &World, namespace: &str, name: &str, made: u8, listeners: &str) -> Result<()> {
    let listeners: String = listeners.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\n\
         metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: \"2026-01-{made:02}T00:00:00Z\"}}\n\
         spec:\n  parentRef: {{name: public, namespace: default}}\n  listeners:\n{listeners}"
    );
    world.write(&format!("set-{namespace}-{name}.yaml"), text)
}

/// Writes a route for all paths at a ListenerSet.
fn at_set(world: &World, namespace: &str, name: &str) -> Result<()> {
    let parent = format!("- {{kind: ListenerSet, name: {name}}}\n");
    world.write(&format!("route-{namespace}-{name}.yaml"), route("HTTPRoute", namespace, name, &parent, &to("echo")))
}

fn to(backend: &str) -> String {
    format!("rules: [{{backendRefs: [{{name: {backend}, port: 8080}}]}}]\n")
}

fn host(name: &str, port: u16, host: &str) -> String {
    listener(name, port, &format!("protocol: HTTP\nhostname: {host}"))
}

async fn another_team_adds_a_host_and_a_port(world: World) -> Result<()> {
    let _own = world.backend("own").await?;
    let team = world.pod("team", "echo", "team").await?;
    world.write("team.yaml", manifests::service("team", "echo", None, &[team.address()]))?;
    let (port, other) = (world.port()?, world.port()?);
    gateway(&world, "None", &http_listener(port))?;
    world.route("all", &to("own"))?;
    set(
        &world,
        "team",
        "own",
        1,
        &format!("{}{}", host("http", port, "team.example"), listener("port", other, "protocol: HTTP")),
    )?;
    at_set(&world, "team", "own")?;
    let _holdfast = world.run().await?;
    let (theirs, ours, at_port) =
        (get(port, "/").host("team.example"), get(port, "/").host("other.example"), get(other, "/"));
    // Without permission, the Gateway's own listener answers for all hosts.
    theirs.comes_to_reach("own").await?;
    ensure!(at_port.send().await.is_err(), "a port that nobody may open");
    let others = Hammer::start([ours.clone()]);
    gateway(&world, "All", &http_listener(port))?;
    theirs.comes_to_reach("team").await?;
    at_port.comes_to_reach("team").await?;
    ours.reaches("own").await?;
    // A route at the Gateway is not attached to the set's listeners, and vice versa.
    at_port.clone().host("any.example").reaches("team").await?;
    gateway(&world, "Same", &http_listener(port))?;
    theirs.comes_to_reach("own").await?;
    until("the port of the set is closed", || async {
        ensure!(at_port.send().await.is_err(), "it still answers");
        Ok(())
    })
    .await?;
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A set cannot take a host of the Gateway or of an older set; its other hosts are served.
async fn the_older_claim_keeps_the_host(world: World) -> Result<()> {
    let _own = world.backend("own").await?;
    let mut pods = Vec::new();
    for namespace in ["old", "young"] {
        let pod = world.pod(namespace, "echo", namespace).await?;
        world.write(&format!("{namespace}.yaml"), manifests::service(namespace, "echo", None, &[pod.address()]))?;
        pods.push(pod);
        at_set(&world, namespace, "own")?;
    }
    let port = world.port()?;
    gateway(&world, "All", &host("own", port, "gateway.example"))?;
    world.route("all", &to("own"))?;
    set(&world, "old", "own", 1, &host("http", port, "old.example"))?;
    let holdfast = world.run().await?;
    let at = |host: &str| get(port, "/").host(host);
    at("gateway.example").comes_to_reach("own").await?;
    at("old.example").comes_to_reach("old").await?;
    let others = Hammer::start([at("gateway.example"), at("old.example")]);
    let listeners = [("a", "gateway.example"), ("b", "old.example"), ("c", "young.example")];
    let wants_all: String = listeners.iter().map(|(name, hostname)| host(name, port, hostname)).collect();
    let tls = listener("d", port, "protocol: HTTPS\nhostname: d.example\ntls: {certificateRefs: [{name: none}]}");
    set(&world, "young", "own", 2, &format!("{wants_all}{tls}"))?;
    at("young.example").comes_to_reach("young").await?;
    at("gateway.example").reaches("own").await?;
    at("old.example").reaches("old").await?;
    others.stop_expecting(Shot::is_ok).await?;
    until("health says that the other listener answers", || async {
        let health = holdfast.diagnostics("/debug/health").await?;
        let served =
            health["outages"].as_array().into_iter().flatten().flat_map(|finding| finding["served"].as_array());
        let lost = served.flatten().find(|served| served["section"] == "listeners[1]");
        let gets = lost.map(|served| &served["gets"]["kind"]);
        ensure!(gets.is_some_and(|gets| gets == "anotherListener"), "{gets:?}");
        Ok(())
    })
    .await?;
    // When the older set is deleted, the next one gets the host.
    world.delete("set-old-own.yaml")?;
    at("old.example").comes_to_reach("young").await?;
    drop(pods);
    Ok(())
}

fn secure(port: u16, host: &str, certificate: &Certificate) -> HttpRequest {
    get(port, "/").host(host).tls(certificate.trust(host))
}

async fn with_tls_and_a_certificate_of_its_own(world: World) -> Result<()> {
    let _own = world.backend("own").await?;
    let team = world.pod("team", "echo", "team").await?;
    world.write("team.yaml", manifests::service("team", "echo", None, &[team.address()]))?;
    let (wild, theirs) =
        (Certificate::of(&["*.example.org"])?, Certificate::of(&["team.example.org", "second.example.org"])?);
    let port = world.port()?;
    world.write("wild.yaml", wild.secret("default", "wild"))?;
    world.write("theirs.yaml", theirs.secret("team", "theirs"))?;
    gateway(&world, "All", &https_listener("wild", port, "*.example.org", &["wild"]))?;
    world.route("all", &to("own"))?;
    let both = format!(
        "{}{}",
        https_listener("one", port, "team.example.org", &["theirs"]),
        https_listener("two", port, "second.example.org", &["theirs"])
    );
    set(&world, "team", "own", 1, &both)?;
    at_set(&world, "team", "own")?;
    let _holdfast = world.run().await?;
    secure(port, "other.example.org", &wild).comes_to_reach("own").await?;
    secure(port, "team.example.org", &theirs).comes_to_reach("team").await?;
    let shown = secure(port, "team.example.org", &theirs).connect().await?.certificate;
    ensure!(shown.as_ref() == Some(&theirs.der), "not the certificate of the team");
    // A connection is valid for the hosts of one listener, whether of the Gateway or of a set.
    let on = |name: &str, host: &str, certificate: &Certificate| {
        get(port, "/").host(host).tls(certificate.trust(name)).http2()
    };
    on("team.example.org", "second.example.org", &theirs).answers(421).await?;
    on("team.example.org", "other.example.org", &theirs).answers(421).await?;
    on("other.example.org", "team.example.org", &wild).answers(421).await?;
    on("other.example.org", "third.example.org", &wild).reaches("own").await?;
    let others = Hammer::start([secure(port, "other.example.org", &wild), secure(port, "second.example.org", &theirs)]);
    // A certificate that is missing or of another namespace closes its listener, and the wildcard does not answer.
    for reference in ["{name: missing}", "{name: wild, namespace: default}"] {
        let bad = listener(
            "one",
            port,
            &format!("protocol: HTTPS\nhostname: team.example.org\ntls: {{certificateRefs: [{reference}]}}"),
        );
        set(
            &world,
            "team",
            "own",
            1,
            &format!("{bad}{}", https_listener("two", port, "second.example.org", &["theirs"])),
        )?;
        until("the host is closed", || async {
            let closed = get(port, "/").host("team.example.org").tls(wild.trust("team.example.org"));
            ensure!(closed.send().await.is_err(), "the wildcard answers");
            ensure!(secure(port, "team.example.org", &theirs).send().await.is_err(), "it is open");
            Ok(())
        })
        .await?;
        set(&world, "team", "own", 1, &both)?;
        secure(port, "team.example.org", &theirs).comes_to_reach("team").await?;
    }
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A ListenerSet claims a port and host that a TLS listener of the Gateway has: the Gateway answers, and the report has
/// no refused connections.
async fn a_claimed_host_with_tls_is_answered_by_its_owner(world: World) -> Result<()> {
    const HOST: &str = "shop.example.com";
    let _own = world.backend("own").await?;
    let (port, certificate) = (world.port()?, Certificate::of(&[HOST])?);
    let claim = https_listener("web", port, HOST, &["shop"]);
    gateway(&world, "All", &claim)?;
    set(&world, "team", "late", 2, &claim)?;
    world
        .write("secret.yaml", documents(&["default", "team"].map(|namespace| certificate.secret(namespace, "shop"))))?;
    world.route("own", &to("own"))?;
    let holdfast = world.run().await?;
    secure(port, HOST, &certificate).comes_to_reach("own").await?;
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("the conflict is reported, and no refused connection", || async {
        let status = world.command(&["status", "--diagnostics", &address]).await?;
        status.expect_code(1)?.expect_output(&[
            "ListenerSet team/late",
            "another listener of the port answers the requests to listeners[0]",
        ])?;
        ensure!(!status.output().contains("are refused"), "{}", status.output());
        Ok(())
    })
    .await
}

/// Writes a TrafficPolicy of a ListenerSet, or of one of its listeners.
fn policy(world: &World, section: &str, spec: &str) -> Result<()> {
    let text = format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: p, namespace: team}}\n\
         spec:\n  targetRefs: [{{group: gateway.networking.k8s.io, kind: ListenerSet, name: own{section}}}]\n  {spec}\n"
    );
    world.write("policy.yaml", text)
}

/// The hosts of a set close and open; those of the Gateway and of another set at the same port are served, and no
/// unauthorized request passes.
async fn policies_of_a_set_hold_for_its_listeners(world: World) -> Result<()> {
    let _own = world.backend("echo").await?;
    let team = world.pod("team", "echo", "team").await?;
    world.write("team.yaml", manifests::service("team", "echo", None, &[team.address()]))?;
    let port = world.port()?;
    gateway(&world, "All", &http_listener(port))?;
    world.route("all", &to("echo"))?;
    set(
        &world,
        "team",
        "own",
        1,
        &format!("{}{}", host("http", port, "own.example"), host("second", port, "second.example")),
    )?;
    set(&world, "team", "other", 2, &host("http", port, "other.example"))?;
    at_set(&world, "team", "own")?;
    at_set(&world, "team", "other")?;
    let guard = guards::basic_auth();
    policy(&world, "", guard.spec)?;
    let holdfast = world.run().await?;
    let at = |host: &str| get(port, "/").host(host);
    (guard.passing)(at("own.example")).comes_to_reach("team").await?;
    let without = [at("own.example"), (guard.failing)(at("own.example"))];
    let unauthorized = Hammer::start(without.clone());
    let others = Hammer::start([at("any.example"), at("other.example")]);
    for broken in guard.broken {
        policy(&world, "", broken)?;
        (guard.passing)(at("own.example")).comes_to_answer(500).await?;
        at("second.example").comes_to_answer(500).await?;
        without[0].answers(500).await?;
        policy(&world, "", guard.spec)?;
        (guard.passing)(at("own.example")).comes_to_reach("team").await?;
        without[0].comes_to_answer(guard.status).await?;
    }
    unauthorized.stop_expecting(|shot| !shot.is_ok()).await?;
    // A policy of one listener only.
    policy(&world, ", sectionName: http", guard.broken[0])?;
    at("own.example").comes_to_answer(500).await?;
    at("second.example").comes_to_reach("team").await?;
    others.stop_expecting(Shot::is_ok).await?;
    until("the listener says which policy closed it", || async {
        let statuses = holdfast.diagnostics("/debug/statuses").await?;
        let text = statuses.to_string();
        ensure!(text.contains("ListenerReplaced") && text.contains("TrafficPolicy team/p"), "{statuses}");
        ensure!(!text.contains("GatewayReplaced"), "the Gateway is blamed: {statuses}");
        Ok(())
    })
    .await
}

async fn policies_of_a_set_hold_with_tls(world: World) -> Result<()> {
    let _own = world.backend("echo").await?;
    let team = world.pod("team", "echo", "team").await?;
    world.write("team.yaml", manifests::service("team", "echo", None, &[team.address()]))?;
    let names = ["gateway.example", "own.example", "other.example"];
    let certificate = Certificate::of(&names)?;
    let secrets = ["default", "team"].map(|namespace| certificate.secret(namespace, "all"));
    world.write("secrets.yaml", documents(&secrets))?;
    let port = world.port()?;
    gateway(&world, "All", &https_listener("https", port, names[0], &["all"]))?;
    world.route("all", &to("echo"))?;
    set(&world, "team", "own", 1, &https_listener("https", port, names[1], &["all"]))?;
    set(&world, "team", "other", 2, &https_listener("https", port, names[2], &["all"]))?;
    at_set(&world, "team", "own")?;
    at_set(&world, "team", "other")?;
    let guard = guards::basic_auth();
    policy(&world, "", guard.spec)?;
    let _holdfast = world.run().await?;
    let at = |host: &str| secure(port, host, &certificate);
    (guard.passing)(at(names[1])).comes_to_reach("team").await?;
    let unauthorized = Hammer::start([at(names[1]), (guard.failing)(at(names[1]))]);
    let others = Hammer::start([at(names[0]), at(names[2])]);
    for section in ["", ", sectionName: https"] {
        policy(&world, section, guard.broken[1])?;
        (guard.passing)(at(names[1])).comes_to_answer(500).await?;
        policy(&world, section, guard.spec)?;
        (guard.passing)(at(names[1])).comes_to_reach("team").await?;
    }
    unauthorized.stop_expecting(|shot| !shot.is_ok()).await?;
    others.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// A set that becomes unreadable is served as before; the Gateway and other sets are not affected.
async fn unreadable_set_stays(world: World) -> Result<()> {
    let _own = world.backend("own").await?;
    let team = world.pod("team", "echo", "team").await?;
    world.write("team.yaml", manifests::service("team", "echo", None, &[team.address()]))?;
    let port = world.port()?;
    gateway(&world, "All", &http_listener(port))?;
    world.route("all", &to("own"))?;
    set(&world, "team", "own", 1, &host("http", port, "team.example"))?;
    at_set(&world, "team", "own")?;
    let _holdfast = world.run().await?;
    let theirs = get(port, "/").host("team.example");
    theirs.comes_to_reach("team").await?;
    let hammer = Hammer::start([theirs.clone()]);
    world.write(
        "set-team-own.yaml",
        "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: own, namespace: team}\nspec: 1\n",
    )?;
    set(&world, "team", "later", 2, &host("http", port, "later.example"))?;
    at_set(&world, "team", "later")?;
    get(port, "/").host("later.example").comes_to_reach("team").await?;
    theirs.reaches("team").await?;
    hammer.stop_expecting(Shot::is_ok).await?;
    Ok(())
}
