//! Failures: crashes at any moment, damaged data, occupied ports, Envoys that hang.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::hammer::Shot;
use holdfast_scenario_tests::manifests::{self, listener};
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Hammer, Holdfast, HoldfastOptions, Story, World, process, stories, until};

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "adversity",
        true,
        [
            killed_again_and_again_while_routes_change,
            damaged_data_folder,
            two_of_them_on_one_data_folder,
            port_of_a_listener_is_taken,
            port_is_taken_during_a_restart,
            ports_are_shared_with_no_other_holdfast,
            envoy_that_hangs_for_a_while,
            evasive_paths_do_not_pass_a_replaced_route,
            routes_change_faster_than_they_are_read,
        ]
    )
}

fn prefix(path: &str, backend: &str) -> String {
    format!(
        "rules:\n- matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n  backendRefs: [{{name: {backend}, port: 8080}}]"
    )
}

async fn killed_again_and_again_while_routes_change(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("stays", &prefix("/stays", "echo"))?;
    let mut holdfast = world.run().await?;
    get(port, "/stays").comes_to_reach("echo").await?;
    let envoys = holdfast.envoys();
    let load = Hammer::start([get(port, "/stays")]);
    for round in 0..8_usize {
        world.route("moves", &prefix(&format!("/moves{round}"), "echo"))?;
        // At a different moment in each round: before Holdfast has read the change, while it sends the change, after
        // that.
        load.goes_on(u64::try_from(round)? * 2).await?;
        let options = holdfast.kill()?;
        holdfast = Holdfast::start(&world, options)?;
    }
    get(port, "/moves7").comes_to_reach("echo").await?;
    get(port, "/moves6").comes_to_answer(404).await?;
    load.goes_on(20).await?;
    load.stop_expecting(Shot::is_ok).await?;
    ensure!(holdfast.envoys() == envoys, "the Envoys were {envoys:?} and are {:?}", holdfast.envoys());
    Ok(())
}

/// Every file of the data folder is truncated, emptied or overwritten: this is reported, and everything is served.
async fn damaged_data_folder(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let mut options = holdfast.options.clone();
    holdfast.terminate().await?.expect_code(0)?;
    for (round, damage) in [&b""[..], b"\x00\xff\x00garbage", b"{\"half\": "].into_iter().enumerate() {
        let mut damaged = 0;
        for entry in fs::read_dir(&options.data)? {
            let path = entry?.path();
            if path.is_file() {
                fs::write(&path, damage)?;
                damaged += 1;
            }
        }
        ensure!(damaged > 0 || round > 0, "there is no file in the data folder");
        let holdfast = world.run_with(options).await?;
        get(port, "/").comes_to_reach("echo").await?;
        options = holdfast.options.clone();
        holdfast.terminate().await?.expect_code(0)?;
    }
    Ok(())
}

async fn two_of_them_on_one_data_folder(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let first = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    let load = Hammer::start([get(port, "/")]);
    let second = holdfast_scenario_tests::HoldfastOptions::new(&world)?;
    let finished = Holdfast::start(&world, second)?.finish().await?;
    ensure!(finished.code.is_some_and(|code| code != 0), "{finished:?}");
    finished.expect_output(&[&first.options.data.display().to_string()])?;
    load.goes_on(20).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Another process listens on the port of one listener: this listener is reported, the others are served.
async fn port_of_a_listener_is_taken(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let occupant = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let taken = occupant.local_addr()?.port();
    let free = world.port()?;
    world.gateway_with(&format!(
        "{}{}",
        listener("taken", taken, "protocol: HTTP"),
        listener("free", free, "protocol: HTTP")
    ))?;
    world.route("all", &prefix("/", "echo"))?;
    let holdfast = world.run().await?;
    get(free, "/").comes_to_reach("echo").await?;
    holdfast.comes_to_print(&[&taken.to_string()]).await?;
    // Changes still arrive.
    world.route("more", &prefix("/more", "nowhere"))?;
    get(free, "/more").comes_to_answer(500).await?;
    Ok(())
}

/// The port is taken when Envoy gets the configuration that an earlier run stored, before all objects were read: Envoy
/// refuses the listener, and serves it when the port is free.
async fn port_is_taken_during_a_restart(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("all", &prefix("/", "echo"))?;
    let mut holdfast = world.run().await?;
    get(port, "/").comes_to_reach("echo").await?;
    // The stored configuration has the listener; the managed Envoy ends with Holdfast.
    let options = holdfast.options.clone();
    holdfast.terminate().await?.expect_code(0)?;
    let occupant = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    holdfast = world.run_with(options).await?;
    // On a slow machine the port is known to be in use before an Envoy is there to refuse the stored listener.
    holdfast.comes_to_print(&[&format!("port {port} of 127.0.0.1 is in use by")]).await?;
    drop(occupant);
    get(port, "/").comes_to_reach("echo").await?;
    Ok(())
}

/// An Envoy that is stopped for a while receives the newest state when it continues, and the other Envoy never waits
/// for it.
async fn envoy_that_hangs_for_a_while(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let (first, second) = (world.port()?, world.port()?);
    world.write(
        "gateways.yaml",
        manifests::documents(&[
            manifests::class(),
            manifests::gateway("one", &manifests::http_listener(first)),
            manifests::gateway("two", &manifests::http_listener(second)),
        ]),
    )?;
    let write = |path: &str| {
        let parents = "- name: one\n- name: two\n";
        world.write("route.yaml", manifests::route("HTTPRoute", "default", "all", parents, &prefix(path, "echo")))
    };
    write("/start")?;
    let holdfast = world.run().await?;
    for port in [first, second] {
        get(port, "/start").comes_to_reach("echo").await?;
    }
    for envoy in holdfast.envoys() {
        process::signal(envoy, "STOP");
        let mut other = None;
        for round in 0..10 {
            let path = format!("/e{envoy}-r{round}");
            write(&path)?;
            let answers = |port: u16| {
                let path = path.clone();
                async move {
                    tokio::time::timeout(std::time::Duration::from_secs(1), get(port, &path).reaches("echo")).await
                }
            };
            until("the Envoy that runs has the change", || async {
                for port in [first, second] {
                    if let Ok(Ok(_)) = answers(port).await {
                        return Ok(());
                    }
                }
                anyhow::bail!("neither Envoy has it")
            })
            .await?;
            other = Some(path);
        }
        process::signal(envoy, "CONT");
        for port in [first, second] {
            get(port, &other.clone().unwrap_or_default()).comes_to_reach("echo").await?;
        }
    }
    Ok(())
}

/// Alternative spellings of `/path/bad` must not reach the backend of `/path` under that path.
async fn evasive_paths_do_not_pass_a_replaced_route(world: World) -> Result<()> {
    let broad = world.backend("broad").await?;
    let port = world.gateway()?;
    world.route("broad", &prefix("/path", "broad"))?;
    world.route("narrow", &prefix("/path/bad", "nowhere"))?;
    let _holdfast = world.run().await?;
    get(port, "/path/x").comes_to_reach("broad").await?;
    get(port, "/path/bad/x").comes_to_answer(500).await?;
    for path in [
        "/path/./bad/x",
        "/path/y/../bad/x",
        "/path/y/%2e%2e/bad/x",
        "/path/%2e/bad/x",
        "/path//bad/x",
        "/path/%62ad/x",
        "/path/bad%2fx",
        "/path\\bad\\x",
        "/path/bad",
        "/path/bad/",
        "/path/bad?x",
        "/path/bad/../bad",
    ] {
        // Any response is allowed, also a rejection of the request.
        let _ = get(port, path).send().await;
    }
    let reached: Vec<String> = broad.recorded().into_iter().map(|seen| seen.request.path).collect();
    let is_misrouted = |path: &&String| {
        let path = path.split('?').next().unwrap_or_default();
        path == "/path/bad"
            || path.starts_with("/path/bad/")
            || path.contains("/./")
            || path.contains("..")
            || path.contains("//")
    };
    let misrouted: Vec<&String> = reached.iter().filter(is_misrouted).collect();
    ensure!(misrouted.is_empty(), "{misrouted:?} reached the backend of /path");
    Ok(())
}

/// A thousand changes without a pause: only the last one must take effect, and other routes must not be affected.
async fn routes_change_faster_than_they_are_read(world: World) -> Result<()> {
    let _echo = world.backend("echo").await?;
    let port = world.gateway()?;
    world.route("stays", &prefix("/stays", "echo"))?;
    let _holdfast = world.run().await?;
    get(port, "/stays").comes_to_reach("echo").await?;
    let load = Hammer::start([get(port, "/stays")]);
    for change in 0..1000 {
        world.route("moves", &prefix(&format!("/moves{change}"), "echo"))?;
    }
    get(port, "/moves999").comes_to_reach("echo").await?;
    get(port, "/moves998").answers(404).await?;
    load.goes_on(10).await?;
    load.stop_expecting(Shot::is_ok).await?;
    Ok(())
}

/// Number of requests and the pause between them, in which another Envoy would share the port.
const AGAIN: usize = 200;
const REST: Duration = Duration::from_millis(20);

/// Envoys could share a port. A second Holdfast leaves the port to the first one, and to an Envoy that the first one
/// left behind, and reports this; it serves as soon as the port is free.
async fn ports_are_shared_with_no_other_holdfast(world: World) -> Result<()> {
    let _backends = (world.backend("one").await?, world.backend("two").await?);
    let port = world.gateway()?;
    world.route("r", &prefix("/", "one"))?;
    let first = world.run().await?;
    get(port, "/").comes_to_reach("one").await?;

    let second = world.folder().join("second");
    fs::create_dir(&second)?;
    for file in ["gateway.yaml", "service-default-one.yaml", "service-default-two.yaml"] {
        fs::copy(world.manifests().join(file), second.join(file))?;
    }
    fs::write(second.join("route.yaml"), manifests::http_route("r", &prefix("/", "two")))?;
    let mut options = HoldfastOptions::new(&world)?;
    options.manifests = vec![second];
    options.data = world.folder().join("second-data");
    let second = Holdfast::start(&world, options)?;
    let reports_port_owner = async |pid: u32| {
        let process = format!("process {pid} ");
        let is_reported = async || {
            let faults = second.diagnostics("/debug/faults").await?.to_string();
            ensure!(faults.contains("PortUnavailable") && faults.contains(&process), "not {process}: {faults}");
            Ok(())
        };
        until("it names the process that has the port", is_reported).await
    };
    let envoy = *first.envoys().first().context("the first has no Envoy")?;
    second.comes_to_print(&["read all objects"]).await?;
    for _ in 0..AGAIN {
        get(port, "/").reaches("one").await?;
        tokio::time::sleep(REST).await;
    }
    reports_port_owner(envoy).await?;
    for _ in 0..60 {
        get(port, "/").reaches("one").await?;
    }

    // The first Holdfast is killed, and its Envoy continues: nothing changes.
    first.kill()?;
    reports_port_owner(envoy).await?;
    for _ in 0..60 {
        get(port, "/").reaches("one").await?;
    }
    process::signal(envoy, "TERM");
    get(port, "/").comes_to_reach("two").await?;
    second.terminate().await.map(drop)
}
