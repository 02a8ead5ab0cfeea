//! Several Envoys of one Gateway, without a probe: one Envoy is the canary for new configuration, and the others
//! receive only what it acknowledged.
//!
//! Envoys share the Gateway's port: the kernel selects one of them for each connection.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{documents, http_route, service};
use holdfast_scenario_tests::{Hammer, Holdfast, Story, World, stories, until};

use super::{BACKFILL, comes_to_blame, comes_to_serve, good, refused, request, serves, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::fleet",
        true,
        [
            culprits_are_found_on_one_envoy,
            each_build_gets_what_it_takes,
            an_envoy_that_comes_later_is_given_what_is_proven,
            pods_change_while_a_silent_envoy_is_waited_for,
            a_silent_envoy_blocks_no_other_envoy,
            a_killed_envoy_convicts_no_object,
            one_envoy_that_refuses_alone_convicts_no_route,
        ]
    )
}

/// Number of connections after which each of two Envoys has had at least one, except once in a billion cases.
const CONNECTIONS: usize = 30;

/// Several times `--ack-timeout` in the story of a silent Envoy.
const SILENCE: Duration = Duration::from_secs(3);

/// Waits until every Envoy serves this version.
async fn everywhere(port: u16, path: &str, version: &str) -> Result<()> {
    until(&format!("{path} is served in version {version} by every Envoy"), || async {
        for _ in 0..CONNECTIONS {
            serves(port, path, version).await?;
        }
        Ok(())
    })
    .await
}

/// Returns the versions in which a path is served.
async fn versions(port: u16, path: &str) -> Result<BTreeSet<String>> {
    let mut versions = BTreeSet::new();
    for _ in 0..CONNECTIONS {
        versions.insert(request(port, path).answers(200).await?.header("x-version"));
    }
    Ok(versions)
}

/// Serves `/cart` and `/other` in version 1 with these Envoys.
async fn served_by<const N: usize>(
    world: &World,
    flags: &[&str],
    envoys: [FleetEnvoy; N],
) -> Result<(u16, Holdfast, [RunningEnvoy; N])> {
    let port = world.gateway()?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let options = unprobed(world, flags)?;
    let holdfast = world.run_with(options.clone()).await?;
    let mut running = Vec::new();
    for envoy in envoys {
        running.push(envoy.start(world, &options).await?);
        comes_to_serve(port, "/other", "1").await?;
    }
    connected(&holdfast, N).await?;
    everywhere(port, "/cart", "1").await?;
    let running = running.try_into().map_err(|_| anyhow::anyhow!("another number"))?;
    Ok((port, holdfast, running))
}

const ROUTES: usize = 40;
const CULPRITS: [usize; 3] = [3, 17, 38];

/// All routes are edited at once; three of the new versions are refused.
async fn culprits_are_found_on_one_envoy(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    let write = |version: &str, culprits: &[usize]| {
        let spec = |number: usize| {
            let path = format!("/r{number}");
            if culprits.contains(&number) { refused(&path, version) } else { good(&path, version) }
        };
        let routes: Vec<String> = (0..ROUTES).map(|number| http_route(&format!("r{number}"), &spec(number))).collect();
        world.write("routes.yaml", documents(&routes))
    };
    write("1", &[])?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let one = FleetEnvoy::small("one").start(&world, &options).await?;
    let two = FleetEnvoy::small("two").start(&world, &options).await?;
    connected(&holdfast, 2).await?;
    everywhere(port, &format!("/r{}", ROUTES - 1), "1").await?;
    let load = Hammer::start([request(port, "/r0"), request(port, "/r3")]);

    write("2", &CULPRITS)?;
    for number in 0..ROUTES {
        let version = if CULPRITS.contains(&number) { "1" } else { "2" };
        everywhere(port, &format!("/r{number}"), version).await?;
    }
    comes_to_blame(&holdfast, "nack", CULPRITS.map(|number| format!("r{number}")).iter().map(String::as_str)).await?;
    let (tried, spared) = (one.refusals().await?, two.refusals().await?);
    // The second Envoy is sent each content that the first has convicted, and no other refused content.
    let convicted = CULPRITS.len() as u64;
    ensure!(tried > 0 && spared == convicted, "one refused {tried} times, two {spared} times");
    let bound = CULPRITS.len() as u64 * (2 + 2 * u64::from(ROUTES.ilog2() + 1));
    ensure!(tried <= bound, "{tried} refusals to find {} of {ROUTES}", CULPRITS.len());

    write("3", &[])?;
    for number in 0..ROUTES {
        everywhere(port, &format!("/r{number}"), "3").await?;
    }
    ensure!((one.refusals().await?, two.refusals().await?) == (tried, convicted), "healing was refused");
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

async fn each_build_gets_what_it_takes(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let envoys = [FleetEnvoy::small("a-small"), FleetEnvoy::large("b-large")];
    let (port, holdfast, [small, large]) = served_by(&world, &BACKFILL, envoys).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    for round in 0..3 {
        let (before, after) = (format!("{}", 2 * round + 1), format!("{}", 2 * round + 2));
        world.route("cart", &refused("/cart", &after))?;
        world.route("other", &good("/other", &after))?;
        everywhere(port, "/other", &after).await?;
        let both = BTreeSet::from([before.clone(), after.clone()]);
        until("one serves the old version, the other the new one", || async {
            let versions = versions(port, "/cart").await?;
            ensure!(versions == both, "{versions:?} instead of {both:?}");
            Ok(())
        })
        .await?;
        let served = [small.dump("dynamic_route_configs").await?, large.dump("dynamic_route_configs").await?];
        let [of_small, of_large] = served.map(|dump| dump.to_string());
        ensure!(!of_small.contains("{1,40}") && of_large.contains("{1,40}"), "it is the wrong one");
        let healed = format!("{}", 2 * round + 3);
        world.route("cart", &good("/cart", &healed))?;
        everywhere(port, "/cart", &healed).await?;
    }
    large.never_refused().await?;
    ensure!(
        holdfast.metric("holdfast_nacks_total", &[]).await? <= 6.0,
        "more refusals than it takes to tell two apart"
    );
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// While a route is refused, another Envoy of the build connects, then one of another build.
async fn an_envoy_that_comes_later_is_given_what_is_proven(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, [one]) = served_by(&world, &BACKFILL, [FleetEnvoy::small("one")]).await?;
    world.route("cart", &refused("/cart", "2"))?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    serves(port, "/cart", "1").await?;
    let options = holdfast.options.clone();
    let two = FleetEnvoy::small("two").start(&world, &options).await?;
    connected(&holdfast, 2).await?;
    until("the second Envoy has its routes", || async {
        ensure!(two.dump("dynamic_route_configs").await?.to_string().contains("/other"), "it has none");
        Ok(())
    })
    .await?;
    everywhere(port, "/cart", "1").await?;
    everywhere(port, "/other", "2").await?;
    // It is sent the content that the first Envoy has convicted, and no other refused content.
    ensure!(two.refusals().await? <= 1, "the second Envoy refused {} times", two.refusals().await?);
    one.terminate().await?;
    two.terminate().await?;
    // The only connected Envoy accepts the route: it has its own build, and receives the newest version.
    let large = FleetEnvoy::large("three").start(&world, &options).await?;
    everywhere(port, "/cart", "2").await?;
    large.never_refused().await
}

/// Endpoints are never delayed, not even by the canary.
async fn pods_change_while_a_silent_envoy_is_waited_for(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let envoys = [FleetEnvoy::small("one"), FleetEnvoy::small("two")];
    let (port, _holdfast, [one, two]) = served_by(&world, &BACKFILL, envoys).await?;
    one.freeze();
    world.route("cart", &good("/cart", "2"))?;
    let mut pods = Vec::new();
    for name in ["second", "third", "fourth"] {
        let pod = world.pod("default", "echo", name).await?;
        let address = pod.address();
        world.write("service-default-echo.yaml", service("default", "echo", None, &[address]))?;
        until("the Envoy that is well has the new pod", || async {
            let clusters = two.clusters().await?;
            ensure!(clusters.contains(&address.to_string()), "it has not:\n{clusters}");
            Ok(())
        })
        .await?;
        pods.push(pod);
    }
    let routes = two.dump("dynamic_route_configs").await?.to_string();
    ensure!(!routes.contains("\"2\""), "what is new was not waited for: {routes}");
    one.thaw();
    everywhere(port, "/cart", "2").await
}

/// The canary does not answer: the other Envoys receive this and newer configuration.
async fn a_silent_envoy_blocks_no_other_envoy(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let flags = [&BACKFILL[..], &["--ack-timeout", "500ms"]].concat();
    let envoys = [FleetEnvoy::small("one"), FleetEnvoy::small("two")];
    let (port, holdfast, [one, two]) = served_by(&world, &flags, envoys).await?;
    let health_contains = async |wanted: &[&str]| {
        let reported = async || {
            let health = holdfast.diagnostics("/debug/health").await?.to_string();
            ensure!(wanted.iter().all(|word| health.contains(word)), "{health}");
            ensure!(health.contains("NotAnswering") != wanted.is_empty(), "{health}");
            Ok(())
        };
        until(&format!("health says {wanted:?}"), reported).await
    };
    health_contains(&[]).await?;
    // An Envoy other than the canary that does not answer is reported as well.
    two.freeze();
    world.route("cart", &good("/cart", "cart-1"))?;
    health_contains(&["Envoy two ", "\"verdict\":\"degraded\""]).await?;
    two.thaw();
    health_contains(&[]).await?;
    one.freeze();
    world.route("cart", &good("/cart", "cart-2"))?;
    tokio::time::sleep(SILENCE).await;
    health_contains(&["Envoy one ", "\"verdict\":\"degraded\""]).await?;
    world.route("other", &good("/other", "other-2"))?;
    // A connection to the silent Envoy would block, so the other Envoy's config dump is used.
    until("the Envoy that is well has the newest", || async {
        let dump = two.dump("dynamic_route_configs").await?.to_string();
        ensure!(dump.contains("other-2"), "it has not");
        Ok(())
    })
    .await?;
    one.thaw();
    world.route("cart", &good("/cart", "cart-3"))?;
    everywhere(port, "/cart", "cart-3").await?;
    everywhere(port, "/other", "other-2").await?;
    for envoy in [&one, &two] {
        envoy.never_refused().await?;
    }
    Ok(())
}

/// The canary is killed before it has answered: this is not a verdict, and another Envoy becomes the canary.
async fn a_killed_envoy_convicts_no_object(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let envoys = [FleetEnvoy::small("one"), FleetEnvoy::small("two")];
    let (port, holdfast, [one, two]) = served_by(&world, &BACKFILL, envoys).await?;
    one.freeze();
    world.route("cart", &good("/cart", "2"))?;
    world.route("other", &good("/other", "2"))?;
    one.kill()?;
    connected(&holdfast, 1).await?;
    for path in ["/cart", "/other"] {
        everywhere(port, path, "2").await?;
    }
    comes_to_blame(&holdfast, "nack", []).await?;
    let options = holdfast.options.clone();
    let one = FleetEnvoy::small("one").start(&world, &options).await?;
    connected(&holdfast, 2).await?;
    world.route("cart", &good("/cart", "3"))?;
    everywhere(port, "/cart", "3").await?;
    for envoy in [&one, &two] {
        envoy.never_refused().await?;
    }
    Ok(())
}

/// The canary refuses an edit that the other Envoy of its build accepts, beside an edit of another route.
async fn one_envoy_that_refuses_alone_convicts_no_route(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let envoys = [FleetEnvoy::secretly_small("a-outlier"), FleetEnvoy::large("b-other")];
    let (port, holdfast, [outlier, other]) = served_by(&world, &BACKFILL, envoys).await?;
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    world.route("cart", &refused("/cart", "2"))?;
    world.route("other", &good("/other", "2"))?;
    let both = BTreeSet::from(["1".to_owned(), "2".to_owned()]);
    until("the outlier serves the version before, the other Envoy the new one", || async {
        let versions = versions(port, "/cart").await?;
        ensure!(versions == both, "{versions:?} instead of {both:?}");
        Ok(())
    })
    .await?;
    // The route that changed together with the other one is suspected until its own trial has ended.
    let clause = "only Envoy a-outlier refuses it; the other Envoys of build ";
    until("page, health and conditions name the outlier, and the one route that it refuses", || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let [broken] = report["brokenObjects"].as_array().context("no list of broken objects")?.as_slice() else {
            bail!("{report}");
        };
        let message = broken["message"].as_str().unwrap_or_default();
        ensure!(broken["name"] == "cart" && broken["detectedBy"] == "nack" && message.contains(clause), "{report}");
        ensure!(report["gateways"][0]["state"] == "fallback", "{report}");
        let health = holdfast.diagnostics("/debug/health").await?.to_string();
        ensure!(health.contains(clause), "the outlier is not reported: {health}");
        let statuses = holdfast.diagnostics("/debug/statuses").await?.to_string();
        ensure!(statuses.contains(clause), "{statuses}");
        Ok(())
    })
    .await?;
    // Edits of other objects arrive at both Envoys.
    everywhere(port, "/other", "2").await?;
    world.route("other", &good("/other", "3"))?;
    everywhere(port, "/other", "3").await?;
    ensure!(versions(port, "/cart").await? == both, "the refused version is served elsewhere");
    other.never_refused().await?;
    load.stop_expecting(Shot::is_ok).await?;

    drop(outlier);
    everywhere(port, "/cart", "2").await?;
    everywhere(port, "/other", "3").await?;
    until("no Envoy is apart", || async {
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        let gateway = &report["gateways"][0];
        ensure!(gateway["state"] == "current" && gateway["heldEnvoys"].is_null(), "{report}");
        Ok(())
    })
    .await?;
    // An edit is tried on the remaining Envoy, and the verdicts of the outlier no longer apply.
    world.route("cart", &refused("/cart", "3"))?;
    everywhere(port, "/cart", "3").await?;
    Ok(())
}
