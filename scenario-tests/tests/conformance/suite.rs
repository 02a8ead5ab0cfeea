//! A run of the suite.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::node::{NODE, Node, requestable};
use holdfast_scenario_tests::kubernetes::pod::API_SERVER;
use holdfast_scenario_tests::kubernetes::{Cluster, start_controllers, tools};
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{Story, World, stories};

use super::installed::{NAMESPACE, SERVER, SERVICE, features, image, install};
use super::replicas::Replicas;
use super::report::{self, REPORTS};
use super::results::{Profiles, TestResult, begun, failures, profiles, results, table};
use super::variant::Variant;

/// Environment variable with the name of a single test to run.
const TEST: &str = "HOLDFAST_CONFORMANCE_TEST";
/// Environment variable with a file for the log of the suite.
const LOG: &str = "HOLDFAST_CONFORMANCE_LOG";
/// Timeouts of requests to the API server, in seconds: longer ones, for slow machines. Those of Gateways and routes are
/// the defaults.
const TIMEOUTS: &str = "CreateTimeout:180;DeleteTimeout:60;GetTimeout:60";
/// Pause between two looks at the log.
const REST: Duration = Duration::from_secs(1);

pub(super) fn stories() -> Vec<Story> {
    stories!("conformance", true, [every_test_of_a_claimed_feature_passes])
}

async fn every_test_of_a_claimed_feature_passes(world: World) -> Result<()> {
    let variant = Variant::find()?;
    let cluster = Cluster::start(&world).await?;
    let _controllers = start_controllers(&world, &cluster)?;
    variant.prepare(&cluster).await?;
    install(&world, &cluster, variant).await?;
    let node_address = NODE.to_string();
    let hosts = [SERVER, API_SERVER].map(|name| (name, node_address.as_str()));
    let mut node = Node::start(&world, &cluster, image, &hosts, &[(NAMESPACE, SERVICE)]).await?;
    let signals = node.signals();
    let run = async {
        let claimed = features(&cluster).await?;
        let mut replicas = match variant {
            Variant::Replicas => Some(Replicas::start(&cluster, signals).await?),
            _ => None,
        };
        eprintln!("{variant:?}; features of the GatewayClass: {}", claimed.join(", "));
        let features = [claimed, variant.features().iter().map(|name| (*name).to_owned()).collect()].concat();
        run(&world, &cluster, variant, &features, replicas.as_mut()).await?;
        if let Some(replicas) = replicas {
            replicas.check(&cluster).await?;
        }
        variant.check(&cluster).await
    };
    let outcome = tokio::select! {
        outcome = run => outcome,
        failed = node.work() => failed,
    };
    for why in node.waiting() {
        eprintln!("a Pod was not started: {why}");
    }
    outcome
}

/// Runs the suite with these features; fails unless all tests of them pass.
async fn run(
    world: &World,
    cluster: &Cluster,
    variant: Variant,
    features: &[String],
    mut replicas: Option<&mut Replicas>,
) -> Result<()> {
    let profiles = list(world).await?;
    let names: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let mut arguments = vec![
        "-test.v".to_owned(),
        "-test.run=^TestConformance$".to_owned(),
        "-test.timeout=0".to_owned(),
        "-gateway-class=holdfast".to_owned(),
        format!("-conformance-profiles={}", names.join(",")),
        format!("-timeout-config-overrides={TIMEOUTS}"),
        format!("-conformance-options-file={}", options(world)?.display()),
        // The cluster ends with the story.
        "-cleanup-base-resources=false".to_owned(),
    ];
    if !variant.features().is_empty() {
        // Without this argument, the suite reads the features of the GatewayClass.
        arguments.push(format!("-supported-features={}", features.join(",")));
    }
    if let Ok(test) = std::env::var(TEST) {
        arguments.push(format!("-run-test={test}"));
    }
    let env = [("KUBECONFIG".to_owned(), cluster.kubeconfig().display().to_string())];
    let mut suite = Process::start(&tools::SUITE.find()?, arguments, &env, &world.log("suite"))?;
    let file = std::env::var_os(LOG).map(PathBuf::from);
    let mut shown = 0;
    let status = loop {
        let ended = suite.ended()?;
        let log = suite.stdout();
        for name in begun(&log).into_iter().skip(shown) {
            eprintln!("runs {name}");
            shown += 1;
        }
        if let Some(replicas) = &mut replicas {
            replicas.note(cluster, shown).await?;
        }
        if let Some(file) = &file {
            std::fs::write(file, &log)?;
        }
        if let Some(status) = ended {
            break status;
        }
        tokio::time::sleep(REST).await;
    };
    let log = suite.stdout();
    let results = results(&log);
    let run: Vec<TestResult> = results.iter().filter(|test| test.has_run()).cloned().collect();
    print!("{}", table(&profiles, &run));
    if let Some(folder) = std::env::var_os(REPORTS).filter(|_| std::env::var_os(TEST).is_none()) {
        report::write(Path::new(&folder), variant, &profiles, &run, features)?;
    }
    let failed: Vec<&str> = run.iter().filter(|test| test.result == "FAIL").map(|test| test.name.as_str()).collect();
    ensure!(
        failed.is_empty(),
        "these tests fail: {}; {LOG}=FILE keeps the whole log of the suite\n{}",
        failed.join(", "),
        failures(&log)
    );
    let is_missing = |name: &&str| !run.iter().any(|test| test.name == *name);
    let missing: Vec<&str> = begun(&log).into_iter().filter(is_missing).collect();
    ensure!(missing.is_empty(), "these tests have begun, and have no result: {}", missing.join(", "));
    ensure!(status.success(), "the suite failed outside of its tests: {status}");
    ensure!(!run.is_empty(), "no test has run");
    Ok(())
}

/// Writes the options of the suite without flags of their own: addresses that Gateways can request, and cannot.
fn options(world: &World) -> Result<PathBuf> {
    let file = world.folder().join("options.yaml");
    let usable = requestable()?;
    let text = format!(
        "usableNetworkAddresses: [{{type: IPAddress, value: {usable}}}]\n\
         unusableNetworkAddresses: [{{type: IPAddress, value: 203.0.113.1}}]\n"
    );
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Returns the tests of each profile.
async fn list(world: &World) -> Result<Profiles> {
    let finished = Process::start(&tools::SUITE.find()?, ["-test.run=^TestProfiles$"], &[], &world.log("profiles"))?
        .finish()
        .await?;
    let profiles = profiles(&finished.expect_code(0)?.stdout);
    ensure!(!profiles.is_empty(), "the suite has no profiles");
    Ok(profiles)
}
