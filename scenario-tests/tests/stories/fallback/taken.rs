//! A port that another process holds when Envoy binds it: reported with Envoy's message, tried again, and served as
//! soon as it is free, without an edit. Everything else is served meanwhile.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::fleet::{FleetEnvoy, small_binary};
use holdfast_scenario_tests::manifests::{documents, http_route, listener};
use holdfast_scenario_tests::{Holdfast, HoldfastOptions, Story, World, stories, until};
use serde_json::Value;

use super::{BACKFILL, REPLACE, comes_to_blame, comes_to_serve, good, refused, unprobed};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "fallback::taken",
        true,
        [
            served_as_soon_as_it_is_free,
            with_default_gates,
            with_the_fallback,
            with_last_valid_versions,
            with_a_probe,
            a_running_gateway_gets_one_more,
            a_gateway_with_a_managed_envoy_gets_one_more,
            a_refused_route_beside_it_is_found
        ]
    )
}

/// Envoy's message.
const MESSAGE: &str = "Address already in use";

/// Returns the condition `Programmed` of a listener of the Gateway.
async fn programmed(holdfast: &Holdfast, listener: &str) -> Result<Value> {
    let page = holdfast.diagnostics("/debug/statuses").await?;
    let objects = page["objects"].as_array().context("no objects")?;
    let gateway = objects.iter().find(|status| status["object"]["kind"] == "Gateway").context("no Gateway")?;
    let listeners = gateway.pointer("/status/listeners").and_then(Value::as_array).context("no listeners")?;
    let own = listeners.iter().find(|known| known["name"] == listener).context("no such listener")?;
    let conditions = own["conditions"].as_array().context("no conditions")?;
    conditions.iter().find(|condition| condition["type"] == "Programmed").cloned().context("no condition")
}

/// Waits until the reason is in the condition, on the page of faults, in the report and in the metric; nothing is in
/// quarantine.
async fn comes_to_report(holdfast: &Holdfast) -> Result<()> {
    until("the taken port is reported", || async {
        let condition = programmed(holdfast, "taken").await?;
        ensure!(condition["status"] == "False", "{condition}");
        ensure!(condition["message"].as_str().is_some_and(|text| text.contains(MESSAGE)), "{condition}");
        let faults = holdfast.diagnostics("/debug/faults").await?;
        let refused = faults["refusals"].as_array().context("no refusals")?;
        ensure!(
            refused.iter().any(|one| one["refusal"]["class"] == "host" && one.to_string().contains(MESSAGE)),
            "{faults}"
        );
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        ensure!(report["status"] == "triggered" && report.to_string().contains(MESSAGE), "{report}");
        ensure!(report["excludedObjects"] == serde_json::json!([]), "the listener is left out: {report}");
        let health = holdfast.diagnostics("/debug/health").await?;
        ensure!(health["outages"].to_string().contains("again, at least every 30 seconds"), "{health}");
        ensure!(holdfast.metric("holdfast_refusals_total", &["class=\"host\""]).await? > 0.0, "no metric");
        Ok(())
    })
    .await
}

async fn is_reported_no_more(holdfast: &Holdfast) -> Result<()> {
    until("nothing is reported any more", || async {
        let condition = programmed(holdfast, "taken").await?;
        ensure!(condition["status"] == "True", "{condition}");
        let report = holdfast.diagnostics("/debug/config/fallback").await?;
        ensure!(report["status"] == "not-triggered", "{report}");
        Ok(())
    })
    .await
}

fn listeners(free: u16, taken: u16) -> String {
    [listener("free", free, "protocol: HTTP"), listener("taken", taken, "protocol: HTTP")].concat()
}

/// From the first start, over a restart, until the port is free.
async fn from_the_start(world: &World, options: HoldfastOptions) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (free, taken) = (world.port()?, world.port()?);
    let holder = TcpListener::bind((Ipv4Addr::UNSPECIFIED, taken))?;
    world.gateway_with(&listeners(free, taken))?;
    world.route("cart", &good("/cart", "1"))?;
    let holdfast = Holdfast::start(world, options.clone())?;
    // A managed Envoy is not sent a listener on a port that another process holds, so this Envoy is not managed.
    let _envoy = FleetEnvoy::small("one").start(world, &options).await?;
    comes_to_serve(free, "/cart", "1").await?;
    comes_to_report(&holdfast).await?;
    world.route("cart", &good("/cart", "2"))?;
    comes_to_serve(free, "/cart", "2").await?;

    let holdfast = Holdfast::start(world, holdfast.kill()?)?;
    comes_to_report(&holdfast).await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(free, "/cart", "3").await?;

    drop(holder);
    comes_to_serve(taken, "/cart", "3").await?;
    comes_to_serve(free, "/cart", "3").await?;
    is_reported_no_more(&holdfast).await
}

/// With each setting of the gates, no edit and no restart is needed.
async fn served_as_soon_as_it_is_free(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    for flags in [&[][..], &REPLACE, &BACKFILL] {
        let (free, taken) = (world.port()?, world.port()?);
        let holder = TcpListener::bind((Ipv4Addr::UNSPECIFIED, taken))?;
        world.gateway_with(&listeners(free, taken))?;
        world.route("cart", &good("/cart", "1"))?;
        let options = HoldfastOptions { data: world.folder().join(format!("data-{free}")), ..unprobed(&world, flags)? };
        let holdfast = Holdfast::start(&world, options.clone())?;
        let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
        comes_to_serve(free, "/cart", "1").await?;
        let holdfast = Holdfast::start(&world, holdfast.kill()?)?;
        world.route("cart", &good("/cart", "2"))?;
        comes_to_serve(free, "/cart", "2").await?;
        drop(holder);
        comes_to_serve(taken, "/cart", "2").await?;
        holdfast.terminate().await?.expect_code(0)?;
    }
    Ok(())
}

async fn with_default_gates(world: World) -> Result<()> {
    let options = unprobed(&world, &[])?;
    from_the_start(&world, options).await
}

async fn with_the_fallback(world: World) -> Result<()> {
    let options = unprobed(&world, &REPLACE)?;
    from_the_start(&world, options).await
}

async fn with_last_valid_versions(world: World) -> Result<()> {
    let options = unprobed(&world, &BACKFILL)?;
    from_the_start(&world, options).await
}

async fn with_a_probe(world: World) -> Result<()> {
    let binary = small_binary(&world)?.display().to_string();
    let options = HoldfastOptions::new(&world)?.without_envoy().args(&["--probe", "on"]).args(&BACKFILL);
    from_the_start(&world, options.env("ENVOY_BIN", &binary)).await
}

/// The port is occupied only when a listener is added to a served Gateway.
async fn a_running_gateway_gets_one_more(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (free, taken) = (world.port()?, world.port()?);
    world.gateway_with(&listener("free", free, "protocol: HTTP"))?;
    world.route("cart", &good("/cart", "1"))?;
    world.route("other", &good("/other", "1"))?;
    let options = unprobed(&world, &BACKFILL)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to_serve(free, "/cart", "1").await?;
    let holder = TcpListener::bind((Ipv4Addr::UNSPECIFIED, taken))?;
    world.gateway_with(&listeners(free, taken))?;
    comes_to_report(&holdfast).await?;
    world.route("other", &good("/other", "2"))?;
    comes_to_serve(free, "/other", "2").await?;
    comes_to_serve(free, "/cart", "1").await?;
    drop(holder);
    comes_to_serve(taken, "/other", "2").await?;
    comes_to_serve(taken, "/cart", "1").await?;
    world.route("cart", &good("/cart", "3"))?;
    comes_to_serve(taken, "/cart", "3").await?;
    is_reported_no_more(&holdfast).await
}

/// Holdfast sees the other process beside a managed Envoy, and withdraws the listener, which this Envoy has refused in
/// most runs before that.
async fn a_gateway_with_a_managed_envoy_gets_one_more(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    for probe in ["on", "off"] {
        for flags in [&[][..], &REPLACE, &BACKFILL] {
            let free = world.port()?;
            world.gateway_with(&listener("free", free, "protocol: HTTP"))?;
            world.route("cart", &good("/cart", "1"))?;
            let options = HoldfastOptions::new(&world)?.args(&["--probe", probe]).args(flags);
            let options = HoldfastOptions { data: world.folder().join(format!("data-{free}")), ..options };
            let holdfast = world.run_with(options).await?;
            comes_to_serve(free, "/cart", "1").await?;
            for (address, name) in [(Ipv4Addr::LOCALHOST, "taken"), (Ipv4Addr::UNSPECIFIED, "renamed")] {
                is_withdrawn_until_free(&world, &holdfast, free, address, name)
                    .await
                    .with_context(|| format!("{flags:?}, probe {probe}, {address}, {name}"))?;
            }
            holdfast.terminate().await?.expect_code(0)?;
        }
    }
    Ok(())
}

/// Adds a listener on a port that another process holds; the listener has the name `then` by the end.
async fn is_withdrawn_until_free(
    world: &World,
    holdfast: &Holdfast,
    free: u16,
    address: Ipv4Addr,
    then: &str,
) -> Result<()> {
    let taken = world.port()?;
    let holder = TcpListener::bind((address, taken))?;
    world.gateway_with(&listeners(free, taken))?;
    until("the port is reported as taken", || async {
        let health = holdfast.diagnostics("/debug/health").await?;
        let outages = health["outages"].to_string();
        ensure!(outages.contains("served as soon as the port is free"), "{health}");
        Ok(())
    })
    .await?;
    let two = [listener("free", free, "protocol: HTTP"), listener(then, taken, "protocol: HTTP")].concat();
    world.gateway_with(&two)?;
    comes_to_serve(free, "/cart", "1").await?;
    drop(holder);
    comes_to_serve(taken, "/cart", "1").await?;
    until("everything is served as desired", || async {
        let health = holdfast.diagnostics("/debug/health").await?;
        ensure!(health["verdict"] == "healthy", "{health}");
        Ok(())
    })
    .await
}

/// Envoy does not subscribe to the routes of a listener that cannot be bound: no search for a culprit waits for them.
async fn a_refused_route_beside_it_is_found(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (free, taken) = (world.port()?, world.port()?);
    let _holder = TcpListener::bind((Ipv4Addr::UNSPECIFIED, taken))?;
    world.gateway_with(&listeners(free, taken))?;
    world.route("cart", &good("/cart", "1"))?;
    let options = unprobed(&world, &REPLACE)?;
    let holdfast = world.run_with(options.clone()).await?;
    let _envoy = FleetEnvoy::small("one").start(&world, &options).await?;
    comes_to_serve(free, "/cart", "1").await?;
    comes_to_report(&holdfast).await?;
    let batch = [("liar", refused("/liar", "1")), ("new", good("/new", "1"))];
    world.write("batch.yaml", documents(&batch.map(|(name, spec)| http_route(name, &spec))))?;
    comes_to_serve(free, "/new", "1").await?;
    // The Gateway is listed because of its port.
    comes_to_blame(&holdfast, "nack", ["liar", "public"]).await?;
    world.route("cart", &good("/cart", "2"))?;
    comes_to_serve(free, "/cart", "2").await
}
