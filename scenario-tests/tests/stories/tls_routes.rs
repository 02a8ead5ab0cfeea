//! TLSRoutes and TCPRoutes with a real Envoy: connections go by the server name or the port, a mistake closes the connections of its own route
//! only, and the connections of other routes survive every edit.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, documents, grant, https_listener, listener, service};
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::{Certificate, Front};
use holdfast_scenario_tests::{Hammer, HoldfastOptions, Story, World, stories, until};

use crate::fallback::{BACKFILL, stored};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "tls_routes",
        true,
        [
            go_by_the_server_name,
            two_owners_and_two_mistakes,
            earlier_versions_are_served,
            survive_the_edits_of_others,
            tcp_ports,
        ]
    )
}

/// Connections that stay open during the edits of others.
const OPEN_CONNECTIONS: usize = 100;
/// Edits of other routes meanwhile.
const EDITS: usize = 200;

/// A Gateway with a port at which two TLS listeners and an HTTPS listener have hosts of their own.
pub(crate) struct Estate {
    port: u16,
    pub(crate) http: u16,
    /// The port of a TCP listener.
    pub(crate) tcp: u16,
    here: Certificate,
    there: Certificate,
    /// Pods, and the process that terminates TLS in front of `echo`.
    _pods: (Echo, Echo, Front),
}

impl Estate {
    pub(crate) async fn new(world: &World) -> Result<Self> {
        let (echo, other) = (world.backend("echo").await?, world.backend_in("team", "other", None).await?);
        let here = Certificate::of(&["*.here.test", "web.there.test"])?;
        let there = Certificate::of(&["*.there.test"])?;
        let front = there.front(echo.address()).await?;
        world.write("front.yaml", service("default", "front", None, &[front.address]))?;
        world.write("secret.yaml", here.secret("default", "here"))?;
        let [port, http, tcp] = [world.port()?, world.port()?, world.port()?];
        let estate = Self { port, http, tcp, here, there, _pods: (echo, other, front) };
        estate.gateway(world)?;
        Ok(estate)
    }

    fn gateway(&self, world: &World) -> Result<()> {
        let tls = |name: &str, host: &str, mode: &str| {
            listener(name, self.port, &format!("protocol: TLS\nhostname: \"{host}\"\ntls: {{{mode}}}"))
        };
        let listeners = [
            tls("pass", "*.there.test", "mode: Passthrough"),
            tls("term", "*.here.test", "certificateRefs: [{name: here}]"),
            https_listener("web", self.port, "web.there.test", &["here"]),
            listener("http", self.http, "protocol: HTTP"),
            listener("tcp", self.tcp, "protocol: TCP"),
        ];
        world.write("gateway.yaml", documents(&[manifests::class(), manifests::gateway("public", &listeners.concat())]))
    }

    /// A request through TLS that the Gateway terminates (`*.here.test`, `web.there.test`), or the backend.
    pub(crate) fn to(&self, host: &str) -> HttpRequest {
        let is_passed_through = host.ends_with(".there.test") && !host.starts_with("web.");
        let certificate = if is_passed_through { &self.there } else { &self.here };
        get(self.port, "/").host(host).tls(certificate.trust(host))
    }
}

/// Writes a TLSRoute to a file with its name.
pub(crate) fn route(world: &World, namespace: &str, name: &str, hosts: &str, backends: &str) -> Result<()> {
    let spec = format!("hostnames: [{hosts}]\nrules:\n- backendRefs: [{backends}]");
    let parents = "- {name: public, namespace: default}\n";
    world.write(&format!("{name}.yaml"), manifests::route("TLSRoute", namespace, name, parents, &spec))
}

pub(crate) async fn comes_to_refuse(request: &HttpRequest) -> Result<()> {
    until(&format!("connections of {} are closed", request.line()), || async {
        let answer = request.send().await;
        ensure!(answer.is_err(), "it is answered: {answer:?}");
        Ok(())
    })
    .await
}

pub(crate) const ECHO: &str = "{name: echo, port: 8080}";
pub(crate) const FRONT: &str = "{name: front, port: 8080}";
const OTHER: &str = "{name: other, port: 8080, namespace: team}";
pub(crate) const OWN_OTHER: &str = "{name: other, port: 8080}";

async fn go_by_the_server_name(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    route(&world, "default", "passed", "a.there.test, web.there.test", FRONT)?;
    route(&world, "default", "ended", "a.here.test", ECHO)?;
    route(&world, "team", "wild", "\"*.here.test\"", OWN_OTHER)?;
    world.route("web", &format!("hostnames: [web.there.test]\nrules:\n- backendRefs: [{ECHO}]"))?;
    let _holdfast = world.run().await?;
    // The backend sees the bytes of the client.
    let seen = estate.to("a.there.test").comes_to_reach("echo").await?.echo()?;
    ensure!(seen.header("x-request-id").is_empty(), "{:?}", seen.headers);
    estate.to("a.here.test").comes_to_reach("echo").await?;
    estate.to("b.here.test").comes_to_reach("other").await?;
    estate.to("web.there.test").comes_to_reach("echo").await?;
    comes_to_refuse(&estate.to("b.there.test")).await?;
    // A grant decides about backends of other namespaces, and the share of a missing backend is closed.
    route(&world, "default", "ended", "a.here.test", OTHER)?;
    comes_to_refuse(&estate.to("a.here.test")).await?;
    world.write("grant.yaml", grant("team", "default", "TLSRoute", "default", "Service"))?;
    estate.to("a.here.test").comes_to_reach("other").await?;
    world.delete("grant.yaml")?;
    comes_to_refuse(&estate.to("a.here.test")).await?;
    // The host of a deleted route belongs to the wildcard route again.
    world.delete("ended.yaml")?;
    estate.to("a.here.test").comes_to_reach("other").await?;
    // Without the certificate, only the listener that needs it is closed.
    world.delete("secret.yaml")?;
    comes_to_refuse(&estate.to("b.here.test")).await?;
    estate.to("a.there.test").reaches("echo").await?;
    Ok(())
}

/// Two teams make a mistake in one moment; the neighbours notice nothing, and no wildcard route gets the connections.
async fn two_owners_and_two_mistakes(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    route(&world, "default", "shop", "shop.here.test", ECHO)?;
    route(&world, "team", "pay", "pay.here.test", OWN_OTHER)?;
    route(&world, "team", "wild", "\"*.here.test\"", OWN_OTHER)?;
    route(&world, "default", "passed", "a.there.test", FRONT)?;
    world.route("r", &format!("rules:\n- backendRefs: [{ECHO}]"))?;
    let holdfast =
        world.run_with(HoldfastOptions::new(&world)?.args(&["--feature-gates", "FallbackConfiguration=true"])).await?;
    let (shop, pay) = (estate.to("shop.here.test"), estate.to("pay.here.test"));
    shop.comes_to_reach("echo").await?;
    pay.comes_to_reach("other").await?;
    estate.to("a.there.test").comes_to_reach("echo").await?;
    let neighbours =
        Hammer::start([estate.to("any.here.test"), estate.to("a.there.test"), get(estate.http, "/").host("x.test")]);
    let mistakes = Hammer::start([shop.clone()]);
    route(&world, "default", "shop", "shop.here.test", "{name: echo, port: 8080, weight: -1}")?;
    route(&world, "team", "pay", "pay.here.test", "{name: gone, port: 8080}")?;
    comes_to_refuse(&shop).await?;
    comes_to_refuse(&pay).await?;
    // The page reports both, each with its field, and what clients get.
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    until("the status reports both", || async {
        let text = world.command(&["status", "--diagnostics", &diagnostics]).await?.stdout;
        let words = ["TLSRoute default/shop", "backendRefs[0].weight", "TLSRoute team/pay", "are refused"];
        let missing: Vec<_> = words.iter().filter(|words| !text.contains(**words)).collect();
        ensure!(missing.is_empty(), "{missing:?} is not in {text}");
        Ok(())
    })
    .await?;
    route(&world, "default", "shop", "shop.here.test", ECHO)?;
    route(&world, "team", "pay", "pay.here.test", OWN_OTHER)?;
    shop.comes_to_reach("echo").await?;
    pay.comes_to_reach("other").await?;
    neighbours.stop_expecting(|shot| shot.is_ok()).await?;
    // No connection of a broken route reaches the backend of the wildcard route.
    mistakes.stop_expecting(|shot| !shot.passed() || matches!(shot, Shot::Answer { pod, .. } if pod == "echo")).await?;
    Ok(())
}

/// The last valid version of a broken route is served, also after a kill, under the claims of today.
async fn earlier_versions_are_served(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    route(&world, "default", "shop", "shop.here.test, moved.here.test", ECHO)?;
    route(&world, "team", "pay", "pay.here.test", OWN_OTHER)?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let (shop, moved) = (estate.to("shop.here.test"), estate.to("moved.here.test"));
    shop.comes_to_reach("echo").await?;
    moved.comes_to_reach("echo").await?;
    stored(&world, &holdfast, estate.http).await?;
    // The broken version gives up a host, which another team claims.
    route(&world, "default", "shop", "shop.here.test", "{name: echo, port: 8080, weight: -1}")?;
    route(&world, "team", "pay", "pay.here.test, moved.here.test", OWN_OTHER)?;
    moved.comes_to_reach("other").await?;
    shop.reaches("echo").await?;
    let diagnostics = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    let url = format!("https://shop.here.test:{}/", estate.port);
    until("the last valid version is explained", || async {
        let explained = world.command(&["explain", "--diagnostics", &diagnostics, "GET", &url]).await?;
        explained.expect_code(1)?.expect_output(&["TLSRoute default/shop: generation 1", "Service default/echo"])?;
        Ok(())
    })
    .await?;
    let _holdfast = world.run_with(holdfast.kill()?).await?;
    shop.comes_to_reach("echo").await?;
    moved.comes_to_reach("other").await?;
    world.delete("shop.yaml")?;
    comes_to_refuse(&shop).await?;
    moved.reaches("other").await?;
    Ok(())
}

/// TCPRoutes: each has the connections of a port, and a mistake closes this port only.
async fn tcp_ports(world: World) -> Result<()> {
    let (_echo, _other) = (world.backend("echo").await?, world.backend("other").await?);
    let [one, two, http] = [world.port()?, world.port()?, world.port()?];
    let listeners = [
        listener("one", one, "protocol: TCP"),
        listener("two", two, "protocol: TCP"),
        listener("http", http, "protocol: HTTP"),
    ];
    world.gateway_with(&listeners.concat())?;
    let route = |name: &str, section: &str, backends: &str| {
        let parents = format!("- {{name: public, sectionName: {section}}}\n");
        let spec = format!("rules:\n- backendRefs: [{backends}]");
        world.write(&format!("{name}.yaml"), manifests::route("TCPRoute", "default", name, &parents, &spec))
    };
    route("a", "one", ECHO)?;
    route("b", "two", OWN_OTHER)?;
    world.route("r", &format!("rules:\n- backendRefs: [{ECHO}]"))?;
    let holdfast = world.run_with(HoldfastOptions::new(&world)?.args(&BACKFILL)).await?;
    let (first, second) = (get(one, "/"), get(two, "/"));
    let seen = first.comes_to_reach("echo").await?.echo()?;
    ensure!(seen.header("x-request-id").is_empty(), "{:?}", seen.headers);
    second.comes_to_reach("other").await?;
    stored(&world, &holdfast, http).await?;
    // A younger route gets nothing. It has them when the older one is gone.
    route("c", "one", OWN_OTHER)?;
    let neighbours = Hammer::start([second.clone(), get(http, "/").host("x.test")]);
    route("a", "one", "{name: echo, port: 8080, weight: -1}")?;
    neighbours.goes_on(50).await?;
    holdfast.comes_to_print(&["1 backfilled"]).await?;
    first.reaches("echo").await?;
    let _holdfast = world.run_with(holdfast.kill()?).await?;
    neighbours.stop_expecting(|shot| shot.is_ok()).await?;
    first.comes_to_reach("echo").await?;
    second.comes_to_reach("other").await?;
    let neighbours = Hammer::start([second.clone(), get(http, "/").host("x.test")]);
    world.delete("a.yaml")?;
    first.comes_to_reach("other").await?;
    route("c", "one", "{name: gone, port: 8080}")?;
    comes_to_refuse(&first).await?;
    neighbours.stop_expecting(|shot| shot.is_ok()).await?;
    Ok(())
}

/// Long-lived connections of one route, while other routes of the same listeners change.
async fn survive_the_edits_of_others(world: World) -> Result<()> {
    let estate = Estate::new(&world).await?;
    route(&world, "default", "shop", "shop.here.test", ECHO)?;
    route(&world, "default", "passed", "a.there.test", FRONT)?;
    route(&world, "team", "pay", "pay.here.test", OWN_OTHER)?;
    let _holdfast = world.run().await?;
    let requests = [estate.to("shop.here.test"), estate.to("a.there.test")];
    for request in &requests {
        request.comes_to_reach("echo").await?;
    }
    estate.to("pay.here.test").comes_to_reach("other").await?;
    let mut open = Vec::new();
    for index in 0..OPEN_CONNECTIONS {
        let request = &requests[index % requests.len()];
        let mut connection = request.connect().await?;
        request.send_on(&mut connection).await?.from_pod("echo")?;
        open.push((request, connection));
    }
    for edit in 0..EDITS {
        // The backend, a host, a whole route, and a mistake.
        match edit % 4 {
            0 => route(&world, "team", "pay", "pay.here.test", "{name: other, port: 8080, weight: 3}")?,
            1 => route(&world, "team", "pay", &format!("pay.here.test, h{edit}.here.test"), OWN_OTHER)?,
            2 => route(&world, "team", "more", &format!("m{edit}.there.test"), OWN_OTHER)?,
            _ => route(&world, "team", "pay", "pay.here.test", "{name: gone, port: 8080}")?,
        }
        match edit % 4 {
            1 => drop(estate.to(&format!("h{edit}.here.test")).comes_to_reach("other").await?),
            3 => comes_to_refuse(&estate.to("pay.here.test")).await?,
            _ => {}
        }
        if edit % 20 == 19 {
            for (request, connection) in &mut open {
                request.send_on(connection).await?.from_pod("echo")?;
            }
        }
    }
    println!("{OPEN_CONNECTIONS} connections, {EDITS} edits, none closed");
    Ok(())
}
