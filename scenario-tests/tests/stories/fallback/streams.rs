//! Routes of connections and of datagrams that a real Envoy refuses: of two owners in one edit, with and without a probe,
//! replaced and backfilled, over a kill of Holdfast. All other routes go on.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::datagrams::{DatagramHammer, comes_to_drop, comes_to_reach};
use holdfast_scenario_tests::fleet::binary_with_mistakes;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::mistakes::NAME;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, manifests, stories};

use super::probed::probe_is_ready;
use super::{BACKFILL, REPLACE, comes_to_blame, stored};
use crate::tls_routes::{ECHO, Estate, FRONT, OWN_OTHER, comes_to_refuse, route};
use crate::udp_routes::{self, OWN, backend, udp};

pub(super) fn stories() -> Vec<Story> {
    stories!(
        "fallback::streams",
        true,
        [
            refused_and_replaced,
            refused_and_backfilled,
            refused_by_the_probe_and_replaced,
            refused_by_the_probe_and_backfilled,
            datagrams_replaced,
            datagrams_backfilled,
            datagrams_refused_by_the_probe_and_replaced,
            datagrams_refused_by_the_probe_and_backfilled,
        ]
    )
}

async fn refused_and_replaced(world: World) -> Result<()> {
    of_two_owners(world, &REPLACE, false).await
}

async fn refused_and_backfilled(world: World) -> Result<()> {
    of_two_owners(world, &BACKFILL, false).await
}

async fn refused_by_the_probe_and_replaced(world: World) -> Result<()> {
    of_two_owners(world, &REPLACE, true).await
}

async fn refused_by_the_probe_and_backfilled(world: World) -> Result<()> {
    of_two_owners(world, &BACKFILL, true).await
}

/// The configuration with this backend is refused: the name of the Service is in it.
fn mistaken() -> String {
    format!("{{name: {NAME}, port: 8080}}")
}

/// Writes the TCPRoute of the port.
fn tcp(world: &World, backend: &str) -> Result<()> {
    let parents = "- {name: public, namespace: default, sectionName: tcp}\n";
    let spec = format!("rules:\n- backendRefs: [{backend}]");
    world.write("tcp.yaml", manifests::route("TCPRoute", "team", "tcp", parents, &spec))
}

/// What clients of a refused route get.
#[derive(Clone, Copy)]
struct Refused {
    is_backfilled: bool,
    detected_by: &'static str,
}

impl Refused {
    fn new(flags: &[&str], is_probed: bool) -> Self {
        Self { is_backfilled: flags == BACKFILL, detected_by: if is_probed { "probe" } else { "nack" } }
    }

    async fn is_seen(self, request: &HttpRequest, pod: &str) -> Result<()> {
        match self.is_backfilled {
            true => request.reaches(pod).await.map(drop),
            false => comes_to_refuse(request).await,
        }
    }

    async fn is_seen_by_datagrams(self, port: u16, pod: &str) -> Result<()> {
        match self.is_backfilled {
            true => comes_to_reach(port, pod).await,
            false => comes_to_drop(port).await,
        }
    }

    async fn is_found(self, holdfast: &Holdfast, names: &[&str]) -> Result<()> {
        comes_to_blame(holdfast, self.detected_by, names.iter().copied()).await
    }
}

async fn start(world: &World, flags: &[&str], is_probed: bool) -> Result<Holdfast> {
    let binary = binary_with_mistakes(world)?.display().to_string();
    let probe = if is_probed { "on" } else { "off" };
    let options = HoldfastOptions::new(world)?.args(&["--probe", probe]).args(flags).env("ENVOY_BIN", &binary);
    let holdfast = world.run_with(options).await?;
    if is_probed {
        probe_is_ready(&holdfast).await?;
    }
    Ok(holdfast)
}

async fn of_two_owners(world: World, flags: &[&str], is_probed: bool) -> Result<()> {
    let estate = Estate::new(&world).await?;
    let bad = [world.backend_in("default", NAME, None).await?, world.backend_in("team", NAME, None).await?];
    route(&world, "default", "shop", "shop.here.test", ECHO)?;
    route(&world, "team", "pay", "pay.here.test", OWN_OTHER)?;
    route(&world, "team", "wild", "\"*.here.test\"", OWN_OTHER)?;
    route(&world, "default", "passed", "a.there.test", FRONT)?;
    world.route("r", &format!("rules:\n- backendRefs: [{ECHO}]"))?;
    tcp(&world, OWN_OTHER)?;
    let holdfast = start(&world, flags, is_probed).await?;
    let (shop, pay, port) = (estate.to("shop.here.test"), estate.to("pay.here.test"), get(estate.tcp, "/"));
    shop.comes_to_reach("echo").await?;
    for request in [&pay, &port] {
        request.comes_to_reach("other").await?;
    }
    stored(&world, &holdfast, estate.http).await?;
    let neighbours =
        Hammer::start([estate.to("any.here.test"), estate.to("a.there.test"), get(estate.http, "/").host("x.test")]);
    let owners = Hammer::start([shop.clone()]);
    let refused = Refused::new(flags, is_probed);

    route(&world, "default", "shop", "shop.here.test", &mistaken())?;
    route(&world, "team", "pay", "pay.here.test", &mistaken())?;
    refused.is_found(&holdfast, &["shop", "pay"]).await?;
    refused.is_seen(&shop, "echo").await?;
    refused.is_seen(&pay, "other").await?;
    // Everything else stays current, also the port of the other owner.
    route(&world, "default", "more", "more.there.test", FRONT)?;
    estate.to("more.there.test").comes_to_reach("echo").await?;
    tcp(&world, &mistaken())?;
    refused.is_found(&holdfast, &["shop", "pay", "tcp"]).await?;
    refused.is_seen(&port, "other").await?;
    neighbours.goes_on(50).await?;

    let holdfast = world.run_with(holdfast.kill()?).await?;
    refused.is_found(&holdfast, &["shop", "pay", "tcp"]).await?;
    refused.is_seen(&shop, "echo").await?;
    refused.is_seen(&port, "other").await?;
    route(&world, "default", "shop", "shop.here.test", ECHO)?;
    tcp(&world, OWN_OTHER)?;
    refused.is_found(&holdfast, &["pay"]).await?;
    shop.comes_to_reach("echo").await?;
    port.comes_to_reach("other").await?;
    // The host of a deleted route belongs to the wildcard route; nothing of it comes back.
    world.delete("pay.yaml")?;
    refused.is_found(&holdfast, &[]).await?;
    pay.comes_to_reach("other").await?;
    if is_probed {
        let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
        ensure!(nacks == 0.0, "{nacks} refusals by Envoys that serve");
    }
    neighbours.stop_expecting(Shot::is_ok).await?;
    // No connection reaches the wildcard route, or the backend of the refused version.
    owners.stop_expecting(|shot| !shot.passed() || matches!(shot, Shot::Answer { pod, .. } if pod == "echo")).await?;
    drop(bad);
    Ok(())
}

async fn datagrams_replaced(world: World) -> Result<()> {
    datagrams_of_two_owners(world, &REPLACE, false).await
}

async fn datagrams_backfilled(world: World) -> Result<()> {
    datagrams_of_two_owners(world, &BACKFILL, false).await
}

async fn datagrams_refused_by_the_probe_and_replaced(world: World) -> Result<()> {
    datagrams_of_two_owners(world, &REPLACE, true).await
}

async fn datagrams_refused_by_the_probe_and_backfilled(world: World) -> Result<()> {
    datagrams_of_two_owners(world, &BACKFILL, true).await
}

async fn datagrams_of_two_owners(world: World, flags: &[&str], is_probed: bool) -> Result<()> {
    let estate = udp_routes::Estate::new(&world).await?;
    let echo = world.backend("echo").await?;
    let second = format!("{NAME}-two");
    let bad = [backend(&world, "default", NAME).await?, backend(&world, "team", &second).await?];
    udp(&world, "default", "a", "one", OWN)?;
    udp(&world, "team", "b", "two", OWN_OTHER)?;
    world.route("r", "rules:\n- backendRefs: [{name: echo, port: 8080}]")?;
    let holdfast = start(&world, flags, is_probed).await?;
    comes_to_reach(estate.one, "own").await?;
    comes_to_reach(estate.two, "other").await?;
    stored(&world, &holdfast, estate.http).await?;
    let neighbours = Hammer::start([get(estate.http, "/").host("x.test")]);
    let owners = DatagramHammer::start([estate.one, estate.two]);
    let refused = Refused::new(flags, is_probed);
    udp(&world, "default", "a", "one", &mistaken())?;
    udp(&world, "team", "b", "two", &format!("{{name: {second}, port: 8080}}"))?;
    refused.is_found(&holdfast, &["a", "b"]).await?;
    refused.is_seen_by_datagrams(estate.one, "own").await?;
    refused.is_seen_by_datagrams(estate.two, "other").await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    refused.is_found(&holdfast, &["a", "b"]).await?;
    refused.is_seen_by_datagrams(estate.one, "own").await?;
    udp(&world, "default", "a", "one", OWN)?;
    comes_to_reach(estate.one, "own").await?;
    refused.is_found(&holdfast, &["b"]).await?;
    world.delete("b.yaml")?;
    comes_to_drop(estate.two).await?;
    refused.is_found(&holdfast, &[]).await?;
    neighbours.stop_expecting(Shot::is_ok).await?;
    // No datagram reaches the backend of another route, or of the refused version.
    owners.stop_expecting(&[(estate.one, "own", true), (estate.two, "other", true)]).await?;
    drop((echo, bad));
    Ok(())
}
