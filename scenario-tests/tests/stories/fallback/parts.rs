//! Clusters and listeners that a real Envoy refuses: the object to blame, and the objects that are still served.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::echo::Echo;
use holdfast_scenario_tests::fleet::{FleetEnvoy, binary_with_mistakes, connected};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, https_listener};
use holdfast_scenario_tests::mistakes::NAME;
use holdfast_scenario_tests::request::{HttpRequest, get};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, stories, until};

use super::probed::probe_is_ready;
use super::{BACKFILL, REPLACE, comes_to_blame, comes_to_serve, good, serves, stored, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::parts",
        true,
        [
            a_refused_cluster_goes_back_also_after_a_crash,
            a_refused_cluster_closes_only_its_users,
            a_refused_cluster_never_reaches_production,
            a_refused_listener_closes_only_itself,
            a_refused_listener_never_reaches_production,
        ]
    )
}

/// Returns an Envoy that refuses the mistakes.
fn strict_envoy() -> FleetEnvoy {
    FleetEnvoy { has_mistakes: true, ..FleetEnvoy::large("one") }
}

/// A route to a Service that is refused with HTTP/2, and another route.
async fn two_services(world: &World) -> Result<(u16, Echo, Echo)> {
    let (echo, mistake) = (world.backend("echo").await?, world.backend(NAME).await?);
    let port = world.gateway()?;
    world.route("other", &good("/other", "1"))?;
    world.route("cart", &to_mistake("1"))?;
    Ok((port, echo, mistake))
}

fn to_mistake(version: &str) -> String {
    good("/cart", version).replace("name: echo", &format!("name: {NAME}"))
}

fn speak(world: &World, echo: &Echo, protocol: Option<&str>) -> Result<()> {
    let service = manifests::service("default", NAME, protocol, &[echo.address()]);
    world.write(&format!("service-default-{NAME}.yaml"), service)
}

async fn no_refusals(holdfast: &Holdfast) -> Result<()> {
    let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(nacks == 0.0, "{nacks} refusals by Envoys that serve");
    Ok(())
}

fn probed(world: &World, flags: &[&str]) -> Result<HoldfastOptions> {
    let binary = binary_with_mistakes(world)?.display().to_string();
    Ok(HoldfastOptions::new(world)?.args(&["--probe", "on"]).args(flags).env("ENVOY_BIN", &binary))
}

const H2C: Option<&str> = Some("kubernetes.io/h2c");

async fn a_refused_cluster_goes_back_also_after_a_crash(world: World) -> Result<()> {
    let (port, _echo, mistake) = two_services(&world).await?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = strict_envoy().start(&world, &options).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    let load = Hammer::start([super::request(port, "/other")]);
    speak(&world, &mistake, H2C)?;
    comes_to_blame(&holdfast, "nack", [NAME]).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    load.goes_on(100).await?;
    let refusals = envoy.refusals().await?;
    ensure!(refusals == 1, "{refusals} refusals instead of one");
    stored(&world, &holdfast, port).await?;
    let holdfast = world.run_with(holdfast.kill()?).await?;
    connected(&holdfast, 1).await?;
    comes_to_blame(&holdfast, "nack", [NAME]).await?;
    world.route("other", &good("/other", "3"))?;
    comes_to_serve(port, "/other", "3").await?;
    serves(port, "/cart", "1").await?;
    speak(&world, &mistake, None)?;
    comes_to_blame(&holdfast, "nack", []).await?;
    world.route("cart", &to_mistake("2"))?;
    comes_to_serve(port, "/cart", "2").await?;
    let refusals = envoy.refusals().await?;
    ensure!(refusals == 1, "{refusals} refusals instead of one");
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn a_refused_cluster_closes_only_its_users(world: World) -> Result<()> {
    let (port, _echo, mistake) = two_services(&world).await?;
    let options = unprobed(&world, &REPLACE)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = strict_envoy().start(&world, &options).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    let load = Hammer::start([super::request(port, "/other")]);
    speak(&world, &mistake, H2C)?;
    world.route("other", &good("/other", "2"))?;
    comes_to_blame(&holdfast, "nack", [NAME]).await?;
    super::request(port, "/cart").comes_to_answer(404).await?;
    comes_to_serve(port, "/other", "2").await?;
    speak(&world, &mistake, None)?;
    comes_to_serve(port, "/cart", "1").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn a_refused_cluster_never_reaches_production(world: World) -> Result<()> {
    let (port, _echo, mistake) = two_services(&world).await?;
    let holdfast = world.run_with(probed(&world, &BACKFILL)?).await?;
    probe_is_ready(&holdfast).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    let load = Hammer::start(["/cart", "/other"].map(|path| super::request(port, path)));
    speak(&world, &mistake, H2C)?;
    world.route("other", &good("/other", "2"))?;
    comes_to_blame(&holdfast, "probe", [NAME]).await?;
    comes_to_serve(port, "/other", "2").await?;
    serves(port, "/cart", "1").await?;
    no_refusals(&holdfast).await?;
    speak(&world, &mistake, None)?;
    comes_to_blame(&holdfast, "probe", []).await?;
    world.route("cart", &to_mistake("2"))?;
    comes_to_serve(port, "/cart", "2").await?;
    no_refusals(&holdfast).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Two hosts of one port, the second of which is refused under one name and accepted under another.
struct HostPair {
    port: u16,
    certificates: [Certificate; 2],
}

const HOSTS: [&str; 2] = ["one.example", "two.example"];

impl HostPair {
    fn new(world: &World) -> Result<Self> {
        let hosts =
            Self { port: world.port()?, certificates: [Certificate::of(&HOSTS[..1])?, Certificate::of(&HOSTS[1..])?] };
        for (name, certificate) in ["one", "two"].iter().zip(&hosts.certificates) {
            world.write(&format!("{name}.yaml"), certificate.secret("default", name))?;
        }
        hosts.write(world, "two")?;
        Ok(hosts)
    }

    fn write(&self, world: &World, second: &str) -> Result<()> {
        let one = https_listener("one", self.port, HOSTS[0], &["one"]);
        world.gateway_with(&format!("{one}{}", https_listener(second, self.port, HOSTS[1], &["two"])))
    }

    fn request(&self, index: usize) -> HttpRequest {
        get(self.port, "/x").host(HOSTS[index]).tls(self.certificates[index].trust(HOSTS[index]))
    }

    async fn is_closed_beside_the_newest(&self, world: &World) -> Result<()> {
        until("the second host is closed", || async {
            ensure!(self.request(1).connect().await.is_err(), "it is served");
            Ok(())
        })
        .await?;
        world.route("all", &good("/", "2"))?;
        let newest = "the newest route is served";
        self.request(0).comes_to(newest, |reply| reply.header("x-version") == "2").await?;
        ensure!(self.request(1).connect().await.is_err(), "the second host is served");
        Ok(())
    }
}

async fn a_refused_listener_closes_only_itself(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let hosts = HostPair::new(&world)?;
    world.route("all", &good("/", "1"))?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = strict_envoy().start(&world, &options).await?;
    for index in [0, 1] {
        hosts.request(index).comes_to_answer(200).await?;
    }
    let load = Hammer::start([hosts.request(0)]);
    hosts.write(&world, NAME)?;
    comes_to_blame(&holdfast, "nack", ["public"]).await?;
    hosts.is_closed_beside_the_newest(&world).await?;
    hosts.write(&world, "three")?;
    hosts.request(1).comes_to("it is healed", |reply| reply.header("x-version") == "2").await?;
    comes_to_blame(&holdfast, "nack", []).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn a_refused_listener_never_reaches_production(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let hosts = HostPair::new(&world)?;
    world.route("all", &good("/", "1"))?;
    let holdfast = world.run_with(probed(&world, &BACKFILL)?).await?;
    probe_is_ready(&holdfast).await?;
    for index in [0, 1] {
        hosts.request(index).comes_to_answer(200).await?;
    }
    let load = Hammer::start([hosts.request(0)]);
    hosts.write(&world, NAME)?;
    comes_to_blame(&holdfast, "probe", ["public"]).await?;
    hosts.is_closed_beside_the_newest(&world).await?;
    no_refusals(&holdfast).await?;
    hosts.write(&world, "three")?;
    hosts.request(1).comes_to("it is healed", |reply| reply.header("x-version") == "2").await?;
    no_refusals(&holdfast).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}
