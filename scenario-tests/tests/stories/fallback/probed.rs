//! With a probe: refused content never reaches a serving Envoy, wherever the culprit is and whatever its fault is.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use holdfast_scenario_tests::fleet::small_binary_with_mistakes;
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, https_listener};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, mistakes, process, stories, until};

use super::estate::{Estate, RouteFault, RouteResponse};
use super::{BACKFILL, REPLACE, comes_to_blame, comes_to_serve, good, refused, serves};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::probed",
        true,
        [
            culprits_among_a_thousand_are_backfilled,
            culprits_among_a_thousand_are_replaced,
            two_that_do_not_go_together,
            certificate_with_another_key,
            a_new_gateway_with_a_broken_route,
            edits_while_the_probe_is_at_work,
            edits_while_probes_are_killed,
        ]
    )
}

/// Returns options with a managed Envoy and a probe, both with the small limit.
pub(super) fn probed(world: &World, flags: &[&str]) -> Result<HoldfastOptions> {
    let binary = small_binary_with_mistakes(world)?.display().to_string();
    Ok(HoldfastOptions::new(world)?.args(&["--probe", "on"]).args(flags).env("ENVOY_BIN", &binary))
}

/// Waits until the probe is ready: until then, the Envoy that serves tries changed configuration.
pub(super) async fn probe_is_ready(holdfast: &Holdfast) -> Result<()> {
    until("the probe is ready", || async {
        ensure!(holdfast.output().contains("a probe is ready"), "{}", holdfast.output());
        Ok(())
    })
    .await
}

/// Runs Holdfast until its probe is ready.
async fn run_probed(world: &World, flags: &[&str]) -> Result<Holdfast> {
    let holdfast = world.run_with(probed(world, flags)?).await?;
    probe_is_ready(&holdfast).await?;
    Ok(holdfast)
}

/// Checks that no serving Envoy has refused anything.
async fn production_refused_nothing(holdfast: &Holdfast) -> Result<()> {
    let nacks = holdfast.metric("holdfast_nacks_total", &[]).await?;
    ensure!(nacks == 0.0, "{nacks} refusals by Envoys that serve");
    let output = holdfast.output();
    ensure!(!output.contains("refused by Envoy "), "an Envoy that serves has refused something:\n{output}");
    Ok(())
}

const ROUTES: usize = 1000;

/// Returns this number of culprits, with all kinds of flaws in turn, far from each other.
fn culprits(count: usize, round: usize) -> BTreeMap<usize, RouteFault> {
    let flaws: Vec<RouteFault> =
        mistakes::ALONE.into_iter().map(RouteFault::Mistake).chain([RouteFault::Large]).collect();
    (0..count).map(|number| ((number * 383 + round * 71) % ROUTES, flaws[(number + round) % flaws.len()])).collect()
}

async fn culprits_of_a_thousand(world: World, flags: &[&str], backfilled: bool) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let estate = Estate::new(&world, port, ROUTES);
    estate.write(1, &BTreeMap::new())?;
    let holdfast = run_probed(&world, flags).await?;
    until("all are served", || estate.answer(|_| RouteResponse::Version(1))).await?;
    // Innocent routes that share a host, and an owner, with a culprit of each round.
    let load = Hammer::start([estate.request(1), estate.request(120)]);
    let mut served: Vec<u32> = vec![1; ROUTES];
    for (round, count) in [1, 5, 20].into_iter().enumerate() {
        let version = u32::try_from(round + 2)?;
        let flaws = culprits(count, round);
        ensure!(flaws.len() == count && !flaws.contains_key(&1) && !flaws.contains_key(&120), "another number");
        estate.write(version, &flaws)?;
        let expected = |route: usize| match flaws.contains_key(&route) {
            true if backfilled => RouteResponse::Version(served[route]),
            true => RouteResponse::Replaced,
            false => RouteResponse::Version(version),
        };
        until(&format!("all but {count} are served in version {version}"), || estate.answer(expected)).await?;
        let names: Vec<String> = flaws.keys().map(|route| format!("r{route}")).collect();
        comes_to_blame(&holdfast, "probe", names.iter().map(String::as_str)).await?;
        production_refused_nothing(&holdfast).await?;
        let innocents = served.iter_mut().enumerate().filter(|(route, _)| !flaws.contains_key(route));
        innocents.for_each(|(_, served)| *served = version);
    }
    estate.write(9, &BTreeMap::new())?;
    until("all are healed", || estate.answer(|_| RouteResponse::Version(9))).await?;
    comes_to_blame(&holdfast, "probe", []).await?;
    production_refused_nothing(&holdfast).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn culprits_among_a_thousand_are_backfilled(world: World) -> Result<()> {
    culprits_of_a_thousand(world, &BACKFILL, true).await
}

async fn culprits_among_a_thousand_are_replaced(world: World) -> Result<()> {
    culprits_of_a_thousand(world, &REPLACE, false).await
}

/// Each of two routes is valid, but Envoy refuses a host with both: the newer one is backfilled.
async fn two_that_do_not_go_together(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let estate = Estate::new(&world, port, 200);
    estate.write(1, &BTreeMap::new())?;
    let holdfast = run_probed(&world, &BACKFILL).await?;
    until("all are served", || estate.answer(|_| RouteResponse::Version(1))).await?;
    let pair = RouteFault::Mistake(mistakes::PAIR);
    // The first of them without the second is not a mistake.
    estate.write(2, &BTreeMap::from([(25, pair)]))?;
    until("all are served", || estate.answer(|_| RouteResponse::Version(2))).await?;
    // The second, of the same host, and a third that is refused by itself.
    let flaws = BTreeMap::from([(25, pair), (65, pair), (77, RouteFault::Large)]);
    estate.write(3, &flaws)?;
    until("all but the culprits are served in version 3", || async {
        let served = estate.served().await?;
        let old: Vec<usize> = (0..200).filter(|route| served.get(*route) != Some(&RouteResponse::Version(3))).collect();
        ensure!(old == [25, 77] || old == [65, 77], "in another version: {old:?}");
        ensure!(old.iter().all(|route| served.get(*route) == Some(&RouteResponse::Version(2))), "{served:?}");
        Ok(())
    })
    .await?;
    production_refused_nothing(&holdfast).await?;
    // With one of them corrected, the other is served.
    estate.write_of(2, 4, &BTreeMap::new())?;
    let expected = |route: usize| match route {
        20..30 => RouteResponse::Version(4),
        77 => RouteResponse::Version(2),
        _ => RouteResponse::Version(3),
    };
    until("the other is released", || estate.answer(expected)).await?;
    production_refused_nothing(&holdfast).await
}

/// A certificate with another key: its last valid version is presented, and other hosts have their newest version.
async fn certificate_with_another_key(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let hosts = ["one.example", "two.example"];
    let port = world.port()?;
    world.gateway_with(
        &hosts.map(|host| https_listener(&host.replace('.', "-"), port, host, &[&host.replace('.', "-")])).concat(),
    )?;
    world.route("all", &good("/", "1"))?;
    let secret = |host: &str, certificate: &Certificate, flaw: bool| {
        let before = if flaw { format!("{}\n", mistakes::KEY) } else { String::new() };
        let pem = format!("{before}{}", certificate.pem);
        let name = host.replace('.', "-");
        world.write(&format!("{name}.yaml"), manifests::tls_secret("default", &name, &pem, &certificate.key_pem))
    };
    let old = [Certificate::of(&hosts[..1])?, Certificate::of(&hosts[1..])?];
    let new = [Certificate::of(&hosts[..1])?, Certificate::of(&hosts[1..])?];
    for (host, certificate) in hosts.iter().zip(&old) {
        secret(host, certificate, false)?;
    }
    let holdfast = run_probed(&world, &BACKFILL).await?;
    let request = |index: usize, certificate: &Certificate| {
        get(port, "/x").host(hosts[index]).tls(certificate.trust(hosts[index]))
    };
    for (index, certificate) in old.iter().enumerate() {
        request(index, certificate).comes_to_answer(200).await?;
    }
    let load = Hammer::start([request(0, &old[0])]);
    secret(hosts[0], &new[0], true)?;
    secret(hosts[1], &new[1], false)?;
    request(1, &new[1]).comes_to_answer(200).await?;
    comes_to_blame(&holdfast, "probe", ["one-example"]).await?;
    world.route("all", &good("/", "2"))?;
    request(1, &new[1]).comes_to("the newest route is served", |reply| reply.header("x-version") == "2").await?;
    load.goes_on(30).await?;
    load.stop_expecting(Shot::is_ok).await?;
    production_refused_nothing(&holdfast).await?;
    secret(hosts[0], &new[0], false)?;
    request(0, &new[0]).comes_to_answer(200).await?;
    Ok(())
}

/// Nothing is acknowledged yet when the first configuration is broken.
async fn a_new_gateway_with_a_broken_route(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    world.route("cart", &refused("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let holdfast = run_probed(&world, &BACKFILL).await?;
    let port = world.gateway()?;
    comes_to_serve(port, "/other", "1").await?;
    super::request(port, "/cart").answers(404).await?;
    production_refused_nothing(&holdfast).await?;
    world.route("cart", &good("/cart", "2"))?;
    comes_to_serve(port, "/cart", "2").await?;
    production_refused_nothing(&holdfast).await
}

/// Edits arrive faster than the probe answers: in the end the newest version is served, and no other route is blamed.
async fn edits_while_the_probe_is_at_work(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let holdfast = run_probed(&world, &BACKFILL).await?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    let load = Hammer::start([super::request(port, "/cart"), super::request(port, "/other")]);
    for version in 2..60 {
        let text = version.to_string();
        let spec = if version % 2 == 0 { refused("/cart", &text) } else { good("/cart", &text) };
        world.route("cart", &spec)?;
        world.route("other", &good("/other", &text))?;
        tokio::time::sleep(std::time::Duration::from_millis(version * 13 % 40)).await;
    }
    comes_to_serve(port, "/other", "59").await?;
    comes_to_serve(port, "/cart", "59").await?;
    world.route("cart", &refused("/cart", "60"))?;
    world.route("other", &good("/other", "60"))?;
    comes_to_serve(port, "/other", "60").await?;
    serves(port, "/cart", "59").await?;
    production_refused_nothing(&holdfast).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Without a probe no object is convicted, and in the end all routes are served as they should be.
async fn edits_while_probes_are_killed(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let estate = Estate::new(&world, port, 60);
    estate.write(1, &BTreeMap::new())?;
    let holdfast = run_probed(&world, &BACKFILL).await?;
    until("all are served", || estate.answer(|_| RouteResponse::Version(1))).await?;
    let load = Hammer::start([estate.request(1), estate.request(33)]);
    for version in 2..10 {
        let flaws = BTreeMap::from([
            (33, RouteFault::Large),
            (40 + usize::try_from(version)?, RouteFault::Mistake("duration")),
        ]);
        estate.write(version, &flaws)?;
        for probe in holdfast.probes() {
            process::signal(probe, "KILL");
        }
        tokio::time::sleep(Duration::from_millis(u64::from(version) * 37 % 150)).await;
    }
    let flaws = BTreeMap::from([(33, RouteFault::Large), (44, RouteFault::Mistake("regex"))]);
    estate.write(10, &flaws)?;
    until("all but two are served in version 10", || async {
        let served = estate.served().await?;
        let old = (0..60).filter(|route| served.get(*route) != Some(&RouteResponse::Version(10))).collect::<Vec<_>>();
        if old != [33, 44] {
            let plan = holdfast.diagnostics("/debug/plan").await?;
            bail!("in another version: {old:?}; the plan is {plan}");
        }
        ensure!(served.get(33) == Some(&RouteResponse::Version(1)), "{:?}", served.get(33));
        Ok(())
    })
    .await?;
    load.stop_expecting(Shot::is_ok).await?;
    estate.write(11, &BTreeMap::new())?;
    until("all are healed", || estate.answer(|_| RouteResponse::Version(11))).await
}
