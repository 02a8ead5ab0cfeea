//! The probe: each candidate has its own verdict, whatever else is tried, and no problem of the probe convicts an
//! object.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use holdfast_api::settings::Settings;
use holdfast_fallback::trial::{Outcome, Trial};
use holdfast_probe::ProbeState;
use holdfast_probe::envoy::EnvoyBinary;
use holdfast_scenario_tests::candidates::{self, MISTAKES, Mistake};
use holdfast_scenario_tests::probe::{ProbeDriver, is_accepted, is_refused, resident_bytes, those, trial};
use holdfast_scenario_tests::tls::Certificate;
use holdfast_scenario_tests::{Story, World, manifests, process, stories, until};
use holdfast_test_support as testing;
use holdfast_xds::ResourceType;

pub(crate) fn stories() -> Vec<Story> {
    stories!(
        "probe",
        true,
        [
            twenty_bad_ones_of_a_thousand,
            large_tables,
            refused_once_is_refused_again,
            certificates_and_authorities,
            listeners,
            clusters,
            what_is_served_is_accepted,
            stopped_in_the_middle,
            killed_in_the_middle,
            content_that_hangs_it,
            cluster_that_waits,
            ended_and_started_again,
            figures,
        ]
    )
    .into_iter()
    .chain(stories!("probe", false, [without_a_binary_no_object_is_convicted]))
    .collect()
}

/// Maximum time without an answer of a probe, in stories that do not wait for it.
const PATIENT: Duration = Duration::from_secs(30);
/// Maximum time without an answer of a probe, in stories that wait for it.
const IMPATIENT: Duration = Duration::from_secs(2);

fn route(id: u64, mistake: Option<Mistake>) -> Trial {
    trial(id, ResourceType::Route, candidates::table(&format!("http/{id}"), 3, mistake))
}

/// Returns whether a route is bad: one in fifty, with each mistake in turn.
fn is_bad(id: u64) -> bool {
    id % 50 == 17
}

fn mixed(count: u64) -> Vec<Trial> {
    let mut mistakes = MISTAKES.into_iter().cycle();
    (0..count).map(|id| route(id, if is_bad(id) { mistakes.next() } else { None })).collect()
}

async fn twenty_bad_ones_of_a_thousand(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    for _ in 0..3 {
        let outcomes = probe.verdicts(mixed(1000)).await?;
        let bad: Vec<u64> = (0..1000).filter(|id| is_bad(*id)).collect();
        ensure!(those(&outcomes, is_refused) == bad, "refused: {:?}", those(&outcomes, is_refused));
        ensure!(those(&outcomes, is_accepted).len() == 1000 - bad.len());
    }
    ensure!(probe.view().restarts == 0);
    probe.end().await;
    Ok(())
}

async fn large_tables(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    let table = |id: u64| {
        let mistake = (id % 2 == 1).then_some(Mistake::Regex);
        trial(id, ResourceType::Route, candidates::table("http/80", 5000, mistake))
    };
    let outcomes = probe.verdicts((0..6).map(table).collect()).await?;
    ensure!(those(&outcomes, is_refused) == [1, 3, 5] && those(&outcomes, is_accepted) == [0, 2, 4], "{outcomes:?}");
    probe.end().await;
    Ok(())
}

/// In one order and in the next, at the same position: a refused content is refused again.
async fn refused_once_is_refused_again(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    let good = Certificate::of(&["a.example.com"])?;
    let other = Certificate::of(&["b.example.com"])?;
    let secret = |id, key: &str| trial(id, ResourceType::Secret, candidates::certificate(&good.pem, key));
    let address: SocketAddr = "127.0.0.1:80".parse()?;
    for _ in 0..3 {
        for mistake in MISTAKES {
            for bad in [true, true, false, true] {
                let outcomes = probe.verdicts(vec![route(1, bad.then_some(mistake))]).await?;
                ensure!(is_refused(&outcomes[&1]) == bad, "{mistake:?}: {outcomes:?}");
            }
        }
        for bad in [true, true, false, true] {
            let key = if bad { &other.key_pem } else { &good.key_pem };
            let outcomes = probe.verdicts(vec![secret(1, key)]).await?;
            ensure!(is_refused(&outcomes[&1]) == bad, "{outcomes:?}");
            let script = bad.then_some("function foo(");
            let listener = trial(1, ResourceType::Listener, candidates::listener(address, script));
            let outcomes = probe.verdicts(vec![listener]).await?;
            ensure!(is_refused(&outcomes[&1]) == bad, "{outcomes:?}");
        }
    }
    // More equal candidates than positions.
    let outcomes = probe.verdicts((0..300).map(|id| route(id, Some(Mistake::Regex))).collect()).await?;
    ensure!(those(&outcomes, is_refused).len() == 300);
    let outcomes = probe.verdicts((0..100).map(|id| secret(id, &other.key_pem)).collect()).await?;
    ensure!(those(&outcomes, is_refused).len() == 100);
    probe.end().await;
    Ok(())
}

async fn certificates_and_authorities(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    let (good, other) = (Certificate::of(&["a.example.com"])?, Certificate::of(&["b.example.com"])?);
    let bodies = [
        (candidates::certificate(&good.pem, &good.key_pem), true),
        (candidates::certificate(&good.pem, &other.key_pem), false),
        (candidates::certificate(&good.pem, "no key"), false),
        (candidates::certificate("no certificate", &good.key_pem), false),
        (candidates::authorities(&good.pem), true),
        (candidates::authorities("no certificate"), false),
    ];
    let bodies: Vec<_> = bodies.iter().cycle().take(120).collect();
    let trials = (0..).zip(&bodies).map(|(id, (body, _))| trial(id, ResourceType::Secret, body.clone())).collect();
    let outcomes = probe.verdicts(trials).await?;
    for (id, (_, good)) in (0..).zip(bodies) {
        ensure!(is_accepted(&outcomes[&id]) == *good && is_refused(&outcomes[&id]) != *good, "{id}: {outcomes:?}");
    }
    let keys = [&good.key_pem, &other.key_pem].map(|pem| pem.lines().nth(1).unwrap_or_default().to_owned());
    let text = format!("{outcomes:?}");
    ensure!(keys.iter().all(|key| !text.contains(key)), "a key is told");
    probe.end().await;
    Ok(())
}

async fn listeners(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    let port = world.port()?;
    let address: SocketAddr = format!("127.0.0.1:{port}").parse()?;
    // All listeners have the same address, which stays free while they are tried.
    let is_bad = |id: u64| id % 7 == 3;
    let listener =
        |id| trial(id, ResourceType::Listener, candidates::listener(address, is_bad(id).then_some("function foo(")));
    probe.submit((0..200).map(listener).collect())?;
    let free = std::net::TcpListener::bind(address);
    let outcomes = probe.answers(200).await?;
    free.context("the probe binds a port")?;
    let bad: Vec<u64> = (0..200).filter(|id| is_bad(*id)).collect();
    ensure!(
        those(&outcomes, is_refused) == bad && those(&outcomes, is_accepted).len() == 200 - bad.len(),
        "{outcomes:?}"
    );
    probe.end().await;
    Ok(())
}

/// Clusters do not wait for endpoints, whether or not Envoy subscribes to them, of one service or of many.
async fn clusters(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, IMPATIENT).await?;
    let is_bad = |id: u64| id % 9 == 4;
    for _ in 0..2 {
        let service = |id: u64| format!("service/a/{}/80", id / 3);
        let cluster = |id| {
            let body = candidates::cluster(&service(id), if is_bad(id) { 99 } else { 0 });
            trial(id, ResourceType::Cluster, body)
        };
        let outcomes = probe.verdicts((0..200).map(cluster).collect()).await?;
        let bad: Vec<u64> = (0..200).filter(|id| is_bad(*id)).collect();
        ensure!(those(&outcomes, is_refused) == bad, "{outcomes:?}");
        ensure!(those(&outcomes, is_accepted).len() == 200 - bad.len(), "{outcomes:?}");
    }
    ensure!(probe.view().restarts == 0);
    probe.end().await;
    Ok(())
}

/// Every resource of a Gateway is accepted as it would be served.
async fn what_is_served_is_accepted(world: World) -> Result<()> {
    let certificate = Certificate::of(&["a.example.com"])?;
    let listeners =
        [manifests::http_listener(8080), manifests::https_listener("tls", 8443, "a.example.com", &["cert"])].concat();
    let rules = "rules:\n- matches: [{path: {type: PathPrefix, value: /a}}]\n  backendRefs: [{name: b, port: 8080}]";
    let yaml = manifests::documents(&[
        manifests::class(),
        manifests::gateway("public", &listeners),
        certificate.secret("default", "cert"),
        manifests::service("default", "b", None, &["127.0.0.1:9".parse()?]),
        manifests::http_route("a", rules),
    ]);
    let engine = testing::engine(&yaml, Settings::standalone());
    let snapshot = engine.fleet("default/public").context("there is no such Gateway")?;
    let kinds = [ResourceType::Cluster, ResourceType::Secret, ResourceType::Listener, ResourceType::Route];
    let resources = kinds.into_iter().flat_map(|kind| snapshot.of(kind).values().map(move |found| (kind, found)));
    let trials: Vec<Trial> =
        (0..).zip(resources).map(|(id, (kind, found))| trial(id, kind, found.body.clone())).collect();
    for kind in kinds {
        ensure!(trials.iter().any(|trial| trial.kind == kind), "there is no {kind:?}: {snapshot:?}");
    }
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    let outcomes = probe.verdicts(trials).await?;
    ensure!(outcomes.values().all(is_accepted), "{outcomes:?}");
    probe.end().await;
    Ok(())
}

async fn disturbed(world: World, signal: &str) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, IMPATIENT).await?;
    let before = probe.view().pid;
    process::signal(before.context("no process")?, "STOP");
    probe.submit(mixed(1000))?;
    probe.is_at_it().await?;
    process::signal(before.context("no process")?, signal);
    let outcomes = probe.answers(1000).await?;
    let bad: Vec<u64> = (0..1000).filter(|id| is_bad(*id)).collect();
    ensure!(those(&outcomes, is_refused) == bad, "refused: {:?}", those(&outcomes, is_refused));
    ensure!(those(&outcomes, is_accepted).len() == 1000 - bad.len(), "somebody was convicted");
    probe.another(before).await?;
    probe.end().await;
    Ok(())
}

async fn stopped_in_the_middle(world: World) -> Result<()> {
    disturbed(world, "STOP").await
}

async fn killed_in_the_middle(world: World) -> Result<()> {
    disturbed(world, "KILL").await
}

/// Only the content that hangs the probe is convicted, after two probes.
async fn content_that_hangs_it(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, IMPATIENT).await?;
    let address = |id: u64| SocketAddr::from(([127, 0, 0, 1], 10_000 + u16::try_from(id).unwrap_or(0)));
    let script = |id: u64| match id {
        11 => Some("while true do end"),
        7 => Some("function foo("),
        _ => None,
    };
    let listener = |id| trial(id, ResourceType::Listener, candidates::listener(address(id), script(id)));
    let mut trials: Vec<Trial> = (0..40).map(listener).collect();
    trials.extend((40..60).map(|id| route(id, None)));
    let outcomes = probe.verdicts(trials).await?;
    ensure!(those(&outcomes, |outcome| *outcome == Outcome::Silent) == [11], "{outcomes:?}");
    ensure!(those(&outcomes, is_refused) == [7], "{outcomes:?}");
    ensure!(those(&outcomes, is_accepted).len() == 58, "{outcomes:?}");
    let outcomes = probe.verdicts(vec![route(1, None)]).await?;
    ensure!(is_accepted(&outcomes[&1]), "{outcomes:?}");
    probe.end().await;
    Ok(())
}

/// A cluster that delays its answer, and thereby the answers for all others, does not convict any object.
async fn cluster_that_waits(world: World) -> Result<()> {
    let mut probe = ProbeDriver::start(&world, IMPATIENT).await?;
    // A server that accepts connections and does not answer.
    let mute = std::net::TcpListener::bind("127.0.0.1:0")?;
    let mut trials: Vec<Trial> =
        (0..20).map(|id| trial(id, ResourceType::Cluster, candidates::cluster("service/a/b/80", 0))).collect();
    trials.insert(3, trial(20, ResourceType::Cluster, candidates::checked_cluster(mute.local_addr()?)));
    let outcomes = probe.verdicts(trials).await?;
    ensure!(those(&outcomes, |outcome| *outcome == Outcome::Unavailable) == [20], "{outcomes:?}");
    ensure!(those(&outcomes, is_accepted).len() == 20, "{outcomes:?}");
    probe.end().await;
    Ok(())
}

async fn ended_and_started_again(world: World) -> Result<()> {
    for _ in 0..2 {
        let probe = ProbeDriver::start(&world, PATIENT).await?;
        let pid = probe.view().pid.context("no process")?;
        ensure!(process::runs(pid));
        probe.end().await;
        ensure!(!process::runs(pid), "the probe outlives its prober");
    }
    let probe = ProbeDriver::start(&world, PATIENT).await?;
    let pid = probe.view().pid.context("no process")?;
    drop(probe);
    until("the probe is gone", || async move {
        ensure!(!process::runs(pid), "it runs");
        Ok(())
    })
    .await
}

async fn without_a_binary_no_object_is_convicted(world: World) -> Result<()> {
    let binary = EnvoyBinary { path: "/no/such/envoy".into(), version: "0.0.0".into() };
    let mut probe = ProbeDriver::start_with(&world, binary, PATIENT)?;
    for _ in 0..3 {
        let outcomes = probe.verdicts(mixed(100)).await?;
        ensure!(outcomes.values().all(|outcome| *outcome == Outcome::Unavailable), "{outcomes:?}");
        ensure!(probe.view().state == ProbeState::Unavailable);
    }
    probe.end().await;
    Ok(())
}

/// Prints the cost of the probe; asserts nothing about it.
async fn figures(world: World) -> Result<()> {
    let started = Instant::now();
    let mut probe = ProbeDriver::start(&world, PATIENT).await?;
    let ready = started.elapsed();
    let pid = probe.view().pid.context("no process")?;
    let idle = resident_bytes(pid);
    eprintln!("probe: ready after {ready:?}, {} MB", idle / 1_000_000);
    for count in [1_000, 10_000] {
        let trials = mixed(count);
        let started = Instant::now();
        let outcomes = probe.verdicts(trials).await?;
        let took = started.elapsed();
        ensure!(those(&outcomes, is_refused).len() as u64 == count / 50);
        eprintln!("probe: {count} tables in {took:?}, then {} MB", resident_bytes(pid) / 1_000_000);
    }
    let table = candidates::table("http/80", 10_000, None);
    let count = 40;
    let started = Instant::now();
    probe.verdicts((0..count).map(|id| trial(id, ResourceType::Route, table.clone())).collect()).await?;
    let (took, resident) = (started.elapsed(), resident_bytes(pid) / 1_000_000);
    eprintln!("probe: {count} tables of {} kB in {took:?}, then {resident} MB", table.len() / 1000);
    probe.end().await;
    Ok(())
}
