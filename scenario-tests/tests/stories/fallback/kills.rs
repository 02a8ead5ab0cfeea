//! Holdfast is killed repeatedly while routes are written, and its disk fills up: it always starts, and the served
//! versions never go back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, RunningEnvoy, connected};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, binary, stories, until};

use super::{BACKFILL, comes_to_serve, good, refused, request, serves, stored, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::kills",
        true,
        [at_twenty_moments, at_ten_moments_of_blame, a_stale_store_rolls_no_envoy_back, with_a_full_disk]
    )
}

/// Requests the version of a path continuously; fails if an older version follows a newer one, or if there is no
/// response.
async fn never_goes_back(port: u16, path: &'static str, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut newest = 0;
    while !stop.load(Ordering::Relaxed) {
        let version = request(port, path).answers(200).await?.header("x-version");
        let version: u64 = version.parse().with_context(|| format!("{path} is served in version {version:?}"))?;
        ensure!(version >= newest, "{path} is served in version {version} after {newest}");
        newest = version;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(newest)
}

/// `/cart` is refused, and the refusal is stored; two other routes are written all the time.
async fn at_twenty_moments(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, envoy) = three_routes(&world).await?;
    stored(&world, &holdfast, port).await?;
    world.route("cart", &refused("/cart", "2"))?;
    super::refused::refuses_something(&envoy).await?;
    stored(&world, &holdfast, port).await?;
    let load = Hammer::start([request(port, "/cart")]);
    let stop = Arc::new(AtomicBool::new(false));
    let watched = ["/other", "/third"].map(|path| tokio::spawn(never_goes_back(port, path, stop.clone())));
    let (options, version) = killed(&world, holdfast.kill()?, 20, |version| {
        world.route("other", &good("/other", &version.to_string()))?;
        world.route("third", &good("/third", &version.to_string()))
    })
    .await?;
    let _holdfast = world.run_with(options).await?;
    for path in ["/other", "/third"] {
        comes_to_serve(port, path, &version.to_string()).await?;
    }
    stop.store(true, Ordering::Relaxed);
    for watched in watched {
        ensure!(watched.await?? <= version, "a version that nobody wrote");
    }
    serves(port, "/cart", "1").await?;
    ensure!(envoy.refusals().await? == 1, "what was refused was sent again");
    load.stop_expecting(Shot::is_ok).await?;
    world.delete("route-cart.yaml")?;
    request(port, "/cart").comes_to_answer(404).await?;
    Ok(())
}

/// `/cart` is refused in one new version after another: other suspects may be backfilled, each route is served in one
/// of its own versions, and in the end all routes are served as desired.
async fn at_ten_moments_of_blame(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, _envoy) = three_routes(&world).await?;
    stored(&world, &holdfast, port).await?;
    let load = Hammer::start(["/cart", "/other", "/third"].map(|path| request(port, path)));
    let (options, version) = killed(&world, holdfast.kill()?, 10, |version| {
        world.route("other", &good("/other", &version.to_string()))?;
        if version % 3 == 0 {
            world.route("cart", &refused("/cart", &version.to_string()))?;
        }
        world.route("third", &good("/third", &version.to_string()))
    })
    .await?;
    let _holdfast = world.run_with(options).await?;
    for path in ["/other", "/third"] {
        comes_to_serve(port, path, &version.to_string()).await?;
    }
    serves(port, "/cart", "1").await?;
    load.stop_expecting(Shot::is_ok).await?;
    world.route("cart", &good("/cart", "healed"))?;
    comes_to_serve(port, "/cart", "healed").await
}

async fn three_routes(world: &World) -> Result<(u16, Holdfast, RunningEnvoy)> {
    let port = world.gateway()?;
    for name in ["cart", "other", "third"] {
        world.route(name, &good(&format!("/{name}"), "1"))?;
    }
    let options = unprobed(world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let envoy = FleetEnvoy::small("one").start(world, &options).await?;
    for path in ["/cart", "/other", "/third"] {
        comes_to_serve(port, path, "1").await?;
    }
    Ok((port, holdfast, envoy))
}

/// Starts and kills Holdfast this number of times, with continuous writes; returns the last written version.
async fn killed(
    world: &World,
    mut options: HoldfastOptions,
    times: u64,
    write: impl Fn(u64) -> Result<()>,
) -> Result<(HoldfastOptions, u64)> {
    let mut version = 1;
    for round in 0..times {
        let holdfast = Holdfast::start(world, options)?;
        // Different moments between the start and the first commits, in a mixed order.
        let until = Instant::now() + Duration::from_millis(round * 379 % 1100);
        while Instant::now() < until {
            version += 1;
            write(version)?;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        let output = holdfast.output();
        options = holdfast.kill()?;
        for word in ["cannot open the store", "cannot be read", "damage", "panicked"] {
            ensure!(!output.contains(word), "start {round}: it says {word:?}:\n{output}");
        }
    }
    Ok((options, version))
}

/// The store is older than the configuration of Envoys, and manifests take long to read: until they are read, an Envoy
/// with a configuration is sent nothing.
async fn a_stale_store_rolls_no_envoy_back(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (port, holdfast, _envoy) = three_routes(&world).await?;
    stored(&world, &holdfast, port).await?;
    let options = holdfast.options.clone();
    holdfast.terminate().await?.expect_code(0)?;
    let yesterday = world.folder().join("yesterday");
    copy(&options.data, &yesterday)?;
    let mut holdfast = world.run_with(options.clone()).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    let stop = Arc::new(AtomicBool::new(false));
    let watched = tokio::spawn(never_goes_back(port, "/other", stop.clone()));
    // An object of a kind that is not served, made longer until reading it takes longer than the reconnect of the
    // Envoy.
    let mut lines = 100_000;
    loop {
        let data: String = (0..lines).map(|line| format!("  key-{line}: value {line}\n")).collect();
        let long = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: long}}\ndata:\n{data}");
        world.write("long.yaml", long)?;
        holdfast.kill()?;
        fs::remove_dir_all(&options.data)?;
        copy(&yesterday, &options.data)?;
        holdfast = Holdfast::start(&world, options.clone())?;
        holdfast.comes_to_be_ready().await?;
        connected(&holdfast, 1).await?;
        comes_to_serve(port, "/other", "2").await?;
        let output = holdfast.output();
        if output.find("Envoy connected") < output.find("read all objects") {
            break;
        }
        ensure!(lines < 1_000_000, "the Envoy never comes before manifests are read");
        lines *= 2;
    }
    stop.store(true, Ordering::Relaxed);
    ensure!(watched.await?? == 2, "another version");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    ensure!(status.success(), "cannot copy {}", from.display());
    Ok(())
}

/// Writes of Holdfast fail because files reach a size limit: stored data stays, and everything else continues.
async fn with_a_full_disk(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    for name in ["cart", "other"] {
        world.route(name, &good(&format!("/{name}"), "1"))?;
    }
    let options = unprobed(&world, &BACKFILL)?;
    let envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    let holdfast = LimitedHoldfast::start(&world, &options)?;
    for path in ["/cart", "/other"] {
        comes_to_serve(port, path, "1").await?;
    }
    let load = Hammer::start([request(port, "/cart"), request(port, "/other")]);
    // Written until the store reaches the limit.
    let mut version = 1;
    until("the disk is full", || {
        version += 1;
        let filling = "x".repeat(3000);
        let hosts = |number: u64| format!("hostnames: [\"{number}.full.example\"]\n");
        let spec = |path: &str| good(path, &format!("{version}-{filling}"));
        let written = (0..40).try_for_each(|number| {
            world.route(&format!("full-{number}"), &format!("{}{}", hosts(number), spec(&format!("/full-{number}"))))
        });
        let output = holdfast.output();
        async move {
            written?;
            tokio::time::sleep(Duration::from_millis(100)).await;
            ensure!(
                output.contains("cannot store last valid versions") || output.contains("nothing can be stored"),
                "it has room"
            );
            Ok(())
        }
    })
    .await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(port, "/other", "2").await?;
    world.route("cart", &refused("/cart", "2"))?;
    super::refused::refuses_something(&envoy).await?;
    world.route("other", &good("/other", "3"))?;
    comes_to_serve(port, "/other", "3").await?;
    serves(port, "/cart", "1").await?;
    holdfast.process.kill()?;
    // Without the limit it starts, whether or not the last changes were stored.
    let _holdfast = world.run_with(options).await?;
    world.route("other", &good("/other", "4"))?;
    comes_to_serve(port, "/other", "4").await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(port, "/cart", "3").await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Holdfast with a limit of file sizes of a few megabytes. Its own output is short.
struct LimitedHoldfast {
    process: Process,
}

impl LimitedHoldfast {
    fn start(world: &World, options: &HoldfastOptions) -> Result<Self> {
        let script = world.folder().join("limited");
        // The limit is in blocks of 512 bytes. Without the trap the signal would end the process; with it, the write
        // fails.
        fs::write(&script, "#!/bin/sh\ntrap '' XFSZ\nulimit -f 4096\nexec \"$@\"\n")?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        let mut args = vec![binary::holdfast()?.display().to_string()];
        args.extend(options.command_line());
        Ok(Self { process: Process::start(&script, args, &[], &world.log("limited"))? })
    }

    fn output(&self) -> String {
        self.process.output()
    }
}
