//! UDPRoutes with a real Envoy: datagrams go by the port, a mistake drops the datagrams of its own route only, no
//! datagram reaches the backend of another route, and sessions of other routes survive every edit.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::datagrams::{
    self, DatagramClient, DatagramEcho, DatagramHammer, answers, comes_to_drop, comes_to_reach,
};
use holdfast_scenario_tests::manifests::{self, grant, listener};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories, until};

use crate::fallback::{BACKFILL, stored};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "udp_routes",
        true,
        [
            go_by_weights,
            two_owners_and_two_mistakes,
            earlier_versions_are_served,
            sessions_survive_the_edits_of_others,
            one_port_number_of_two_protocols,
            tried_on_the_probe,
        ]
    )
}

/// Clients of which the backends are counted.
const CLIENTS: usize = 400;
/// Edits of another route while sessions are open.
const EDITS: usize = 40;

pub(crate) const OWN: &str = "{name: own, port: 8080}";
const BROKEN: &str = "{name: own, port: 8080, weight: -1}";
const OTHER: &str = "{name: other, port: 8080, namespace: team}";
pub(crate) const OWN_OTHER: &str = "{name: other, port: 8080}";

/// A Gateway with two UDP listeners and an HTTP listener, and a backend of each of two teams.
pub(crate) struct Estate {
    pub(crate) one: u16,
    pub(crate) two: u16,
    pub(crate) http: u16,
    _pods: [DatagramEcho; 2],
}

impl Estate {
    pub(crate) async fn new(world: &World) -> Result<Self> {
        let pods = [backend(world, "default", "own").await?, backend(world, "team", "other").await?];
        let estate = Self { one: world.udp_port()?, two: world.udp_port()?, http: world.port()?, _pods: pods };
        let listeners = [
            listener("one", estate.one, "protocol: UDP"),
            listener("two", estate.two, "protocol: UDP"),
            listener("http", estate.http, "protocol: HTTP"),
        ];
        world.gateway_with(&listeners.concat())?;
        Ok(estate)
    }
}

/// Starts a backend, the only pod of a Service of the same name.
pub(crate) async fn backend(world: &World, namespace: &str, name: &str) -> Result<DatagramEcho> {
    let echo = DatagramEcho::start(name).await?;
    world.write(&format!("service-{name}.yaml"), datagrams::service(namespace, name, &[echo.address()]))?;
    Ok(echo)
}

/// Writes a route of a listener of the Gateway to a file with its name.
fn route(world: &World, kind: &str, namespace: &str, name: &str, section: &str, backends: &str) -> Result<()> {
    let parents = format!("- {{name: public, namespace: default, sectionName: {section}}}\n");
    let spec = format!("rules:\n- backendRefs: [{backends}]");
    world.write(&format!("{name}.yaml"), manifests::route(kind, namespace, name, &parents, &spec))
}

pub(crate) fn udp(world: &World, namespace: &str, name: &str, section: &str, backends: &str) -> Result<()> {
    route(world, "UDPRoute", namespace, name, section, backends)
}

/// Clients are distributed by weights, the share of a missing backend is dropped, and the datagrams of one client go to
/// one backend.
async fn go_by_weights(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    let (_more, _none) = (backend(&world, "default", "more").await?, backend(&world, "default", "none").await?);
    const MORE: &str = "{name: more, port: 8080, weight: 3}, {name: none, port: 8080, weight: 0}";
    udp(&world, "default", "shares", "one", &format!("{OWN}, {MORE}"))?;
    udp(&world, "default", "partly", "two", &format!("{OWN}, {{name: gone, port: 8080}}"))?;
    let _holdfast = world.run().await?;
    comes_to_reach(estate.one, "more").await?;
    comes_to_reach(estate.two, "own").await?;
    let shares = answers(estate.one, CLIENTS).await?;
    let of = |name: &str| shares.get(name).copied().unwrap_or_default();
    ensure!((60..=140).contains(&of("own")) && (240..=340).contains(&of("more")), "{shares:?}");
    ensure!(of("none") == 0, "{shares:?}");
    let partly = answers(estate.two, CLIENTS).await?;
    let dropped = partly.get("").copied().unwrap_or_default();
    ensure!((140..=260).contains(&dropped) && partly.len() == 2, "{partly:?}");
    // Datagrams that are longer than a packet of Ethernet.
    let client = DatagramClient::new(estate.one).await?;
    let first = client.query().await?;
    for _ in 0..20 {
        let (name, length) = until("a long datagram is answered", || async {
            client.send(8000).await?.ok_or_else(|| anyhow::anyhow!("no answer"))
        })
        .await?;
        ensure!(Some(&name) == first.as_ref() && length == 8000, "{name} answers {length} bytes, not {first:?}");
    }
    Ok(())
}

/// Two teams make mistakes, one after another; the neighbours notice nothing, and no other backend gets the datagrams.
async fn two_owners_and_two_mistakes(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    let web = world.backend("web").await?;
    udp(&world, "default", "a", "one", OWN)?;
    udp(&world, "team", "b", "two", OWN_OTHER)?;
    world.route("r", "rules:\n- backendRefs: [{name: web, port: 8080}]")?;
    let options = HoldfastOptions::new(&world)?.args(&["--feature-gates", "FallbackConfiguration=true"]);
    let holdfast = world.run_with(options).await?;
    comes_to_reach(estate.one, "own").await?;
    comes_to_reach(estate.two, "other").await?;
    let requests = Hammer::start([get(estate.http, "/").host("x.test")]);
    let neighbours = DatagramHammer::start([estate.two]);
    let mistakes = DatagramHammer::start([estate.one]);
    udp(&world, "default", "a", "one", BROKEN)?;
    comes_to_drop(estate.one).await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("the status reports the route", || async {
        let text = world.command(&["status", "--diagnostics", &diagnostics]).await?.stdout;
        let words = ["UDPRoute default/a", "backendRefs[0].weight", "datagrams to rules[0] are dropped"];
        let missing: Vec<_> = words.iter().filter(|words| !text.contains(**words)).collect();
        ensure!(missing.is_empty(), "{missing:?} is not in {text}");
        Ok(())
    })
    .await?;
    udp(&world, "default", "a", "one", OWN)?;
    comes_to_reach(estate.one, "own").await?;
    // The port of the Service is one of TCP, then the backend is gone.
    world.write("service-own.yaml", manifests::service("default", "own", None, &[web.address()]))?;
    comes_to_drop(estate.one).await?;
    world.delete("service-own.yaml")?;
    comes_to_drop(estate.one).await?;
    let own = backend(&world, "default", "own").await?;
    comes_to_reach(estate.one, "own").await?;
    // A grant decides about backends of other namespaces.
    let mistaken = mistakes.stop_expecting(&[(estate.one, "own", true)]).await;
    udp(&world, "default", "a", "one", OTHER)?;
    comes_to_drop(estate.one).await?;
    world.write("grant.yaml", grant("team", "default", "UDPRoute", "default", "Service"))?;
    comes_to_reach(estate.one, "other").await?;
    world.delete("grant.yaml")?;
    comes_to_drop(estate.one).await?;
    world.delete("a.yaml")?;
    comes_to_drop(estate.one).await?;
    neighbours.stop_expecting(&[(estate.two, "other", false)]).await?;
    requests.stop_expecting(|shot| shot.is_ok()).await?;
    drop(own);
    mistaken
}

/// The last valid version of a broken route is served, also after a kill, and keeps the datagrams from a younger route.
async fn earlier_versions_are_served(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    // The backend of the routes that show what is stored.
    let _echo = world.backend("echo").await?;
    world.write("grant.yaml", grant("team", "default", "UDPRoute", "default", "Service"))?;
    udp(&world, "default", "a", "one", OTHER)?;
    udp(&world, "team", "b", "two", OWN_OTHER)?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    comes_to_reach(estate.one, "other").await?;
    stored(&world, &holdfast, estate.http).await?;
    udp(&world, "default", "c", "one", OWN)?;
    let neighbours = DatagramHammer::start([estate.two]);
    udp(&world, "default", "a", "one", "{name: other, port: 8080, namespace: team, weight: -1}")?;
    holdfast.comes_to_print(&["1 backfilled"]).await?;
    comes_to_reach(estate.one, "other").await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    comes_to_reach(estate.one, "other").await?;
    holdfast.comes_to_print(&["1 backfilled"]).await?;
    neighbours.stop_expecting(&[(estate.two, "other", true)]).await?;
    // Without the grant, the earlier version may not be served either. The younger route gets nothing meanwhile.
    let neighbours = DatagramHammer::start([estate.two]);
    world.delete("grant.yaml")?;
    comes_to_drop(estate.one).await?;
    world.delete("a.yaml")?;
    comes_to_reach(estate.one, "own").await?;
    world.delete("c.yaml")?;
    comes_to_drop(estate.one).await?;
    neighbours.stop_expecting(&[(estate.two, "other", false)]).await
}

/// A session stays with its endpoint while other routes change, and begins again when its own route changes.
async fn sessions_survive_the_edits_of_others(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    let pods = [DatagramEcho::start("p1").await?, DatagramEcho::start("p2").await?, DatagramEcho::start("p3").await?];
    let addresses = pods.each_ref().map(DatagramEcho::address);
    world.write("service-pods.yaml", datagrams::service("default", "pods", &addresses))?;
    udp(&world, "default", "a", "one", "{name: pods, port: 8080}")?;
    udp(&world, "team", "b", "two", OWN_OTHER)?;
    let _holdfast = world.run().await?;
    comes_to_reach(estate.one, "p1").await?;
    comes_to_reach(estate.two, "other").await?;
    let mut sessions = Vec::new();
    for _ in 0..12 {
        let client = DatagramClient::new(estate.one).await?;
        let pod = client.query().await?;
        sessions.push((client, pod));
    }
    for edit in 0..EDITS {
        match edit % 4 {
            0 => udp(&world, "team", "b", "two", "{name: other, port: 8080, weight: 3}, {name: gone, port: 8080}")?,
            1 => udp(&world, "team", "b", "two", "{name: gone, port: 8080}")?,
            2 => world.delete("b.yaml")?,
            _ => udp(&world, "team", "b", "two", OWN_OTHER)?,
        }
        match edit % 4 {
            1 | 2 => comes_to_drop(estate.two).await?,
            _ => comes_to_reach(estate.two, "other").await?,
        }
        for (client, pod) in &sessions {
            let now = client.query().await?;
            ensure!(now == *pod, "after edit {edit}: {now:?}, not {pod:?}");
        }
    }
    // An edit of the own route: the datagrams of an open session go to the new backend.
    udp(&world, "default", "a", "one", OWN)?;
    comes_to_reach(estate.one, "own").await?;
    for (client, _) in &sessions {
        let now = client.query().await?;
        ensure!(now.as_deref() == Some("own"), "{now:?}");
    }
    // A session ends with its endpoint.
    udp(&world, "default", "a", "one", "{name: pods, port: 8080}")?;
    comes_to_reach(estate.one, "p2").await?;
    let client = DatagramClient::new(estate.one).await?;
    let pod = client.query().await?;
    let others: Vec<_> =
        pods.iter().zip(["p1", "p2", "p3"]).filter(|(_, name)| Some(*name) != pod.as_deref()).collect();
    let addresses: Vec<_> = others.iter().map(|(echo, _)| echo.address()).collect();
    world.write("service-pods.yaml", datagrams::service("default", "pods", &addresses))?;
    until("the session has another endpoint", || async {
        let now = client.query().await?;
        ensure!(others.iter().any(|(_, name)| now.as_deref() == Some(*name)), "{now:?}, after {pod:?}");
        Ok(())
    })
    .await
}

/// A TCP and a UDP listener at one port number: a mistake of one does not concern the other.
async fn one_port_number_of_two_protocols(world: World) -> Result<()> {
    let (own, web) = (backend(&world, "default", "own").await?, world.backend("web").await?);
    let port = world.udp_port()?;
    let listeners = [listener("datagrams", port, "protocol: UDP"), listener("connections", port, "protocol: TCP")];
    world.gateway_with(&listeners.concat())?;
    udp(&world, "default", "u", "datagrams", OWN)?;
    route(&world, "TCPRoute", "default", "t", "connections", "{name: web, port: 8080}")?;
    let options = HoldfastOptions::new(&world)?.args(&["--feature-gates", "FallbackConfiguration=true"]);
    let _holdfast = world.run_with(options).await?;
    let connection = get(port, "/");
    comes_to_reach(port, "own").await?;
    connection.comes_to_reach("web").await?;
    let connections = Hammer::start([connection.clone()]);
    udp(&world, "default", "u", "datagrams", BROKEN)?;
    comes_to_drop(port).await?;
    connections.goes_on(50).await?;
    udp(&world, "default", "u", "datagrams", OWN)?;
    comes_to_reach(port, "own").await?;
    connections.stop_expecting(|shot| shot.is_ok()).await?;
    let neighbours = DatagramHammer::start([port]);
    route(&world, "TCPRoute", "default", "t", "connections", "{name: web, port: 8080, weight: -1}")?;
    until("connections are closed", || async {
        let answer = connection.send().await;
        ensure!(answer.is_err(), "it is answered: {answer:?}");
        Ok(())
    })
    .await?;
    // A backend of the other protocol is no backend.
    route(&world, "TCPRoute", "default", "t", "connections", OWN)?;
    world.gateway_with(&listener("datagrams", port, "protocol: UDP"))?;
    neighbours.stop_expecting(&[(port, "own", false)]).await?;
    drop((own, web));
    Ok(())
}

/// The probe accepts listeners of datagrams, which Envoy cannot hold without a socket.
async fn tried_on_the_probe(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    udp(&world, "team", "b", "two", OWN_OTHER)?;
    let options = HoldfastOptions::new(&world)?.args(&BACKFILL).args(&["--probe", "on"]);
    let holdfast = world.run_with(options).await?;
    holdfast.comes_to_print(&["a probe is ready"]).await?;
    comes_to_reach(estate.two, "other").await?;
    udp(&world, "default", "a", "one", OWN)?;
    comes_to_reach(estate.one, "own").await?;
    world.write("grant.yaml", grant("team", "default", "UDPRoute", "default", "Service"))?;
    udp(&world, "default", "a", "one", OTHER)?;
    comes_to_reach(estate.one, "other").await?;
    let report = holdfast.diagnostics("/debug/config/fallback").await?;
    ensure!(report["brokenObjects"].as_array().is_some_and(Vec::is_empty), "{report}");
    Ok(())
}
