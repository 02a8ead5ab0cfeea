//! Tests of managed Envoys, with a script instead of an Envoy: it runs until it is ended, and records each start and
//! end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use holdfast_envoy::bootstrap::ServerAddress;
use holdfast_probe::envoy::EnvoyBinary;
use holdfast_probe::envoy::process::ProcessIdentity;
use tempfile::TempDir;

use super::{ManagedEnvoy, Supervisor, SupervisorOptions};

const GATEWAY: &str = "infra/web";

/// A data folder, and a script that replaces Envoy.
struct ScriptedEnvoy {
    folder: TempDir,
}

impl ScriptedEnvoy {
    fn new(script: &str) -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        world.write_script("envoy", script);
        world
    }

    fn write_script(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path(name);
        // Moved into place: a file that is open for writing cannot be executed.
        let new = self.path("new");
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &path).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn supervisor(&self) -> Supervisor {
        self.supervisor_of(self.path("envoy"))
    }

    fn supervisor_of(&self, path: PathBuf) -> Supervisor {
        self.supervisor_on(path, ServerAddress::Unix(self.path("xds.sock")))
    }

    fn supervisor_on(&self, path: PathBuf, xds: ServerAddress) -> Supervisor {
        Supervisor::new(SupervisorOptions {
            binary: EnvoyBinary { path, version: "0.0.0".into() },
            xds,
            data: self.path("data"),
            concurrency: 1,
        })
        .unwrap()
    }
}

/// Waits until the Envoy of the Gateway is in the wanted state.
async fn comes_to_be(supervisor: &Supervisor, wanted: impl Fn(Option<&ManagedEnvoy>) -> bool) -> Option<ManagedEnvoy> {
    for _ in 0..6000 {
        let views = supervisor.views();
        let view = views.lock().unwrap_or_else(PoisonError::into_inner).get(GATEWAY).cloned();
        if wanted(view.as_ref()) {
            return view;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to that: {:?}", supervisor.views());
}

async fn runs(supervisor: &Supervisor) -> ManagedEnvoy {
    comes_to_be(supervisor, |view| view.is_some_and(|view| view.state == "running")).await.unwrap()
}

/// An Envoy that outlived its controller, as after a crash.
fn left_behind(world: &ScriptedEnvoy) -> ManagedEnvoy {
    left_behind_by(|| world.supervisor())
}

fn left_behind_by(supervisor: impl Fn() -> Supervisor + Sync) -> ManagedEnvoy {
    let outlive = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut supervisor = supervisor();
            supervisor.start(&gateway());
            runs(&supervisor).await
        })
    };
    std::thread::scope(|threads| threads.spawn(outlive).join().unwrap())
}

fn gateway() -> Arc<str> {
    GATEWAY.into()
}

fn identity(view: &ManagedEnvoy) -> ProcessIdentity {
    ProcessIdentity::of(view.pid.unwrap()).unwrap()
}

const PATIENT: &str = "exec sleep 600";

#[tokio::test]
async fn an_envoy_is_started_with_its_bootstrap_and_ended_with_the_gateway() {
    let world = ScriptedEnvoy::new("echo \"$@\" > arguments; exec sleep 600");
    let mut supervisor = world.supervisor();
    supervisor.start(&gateway());
    let view = runs(&supervisor).await;
    let process = identity(&view);
    let bootstrap = fs::read_to_string(view.folder.join("bootstrap.yaml")).unwrap();
    assert!(bootstrap.contains("cluster: infra/web"), "{bootstrap}");
    assert!(bootstrap.contains(&*view.admin.to_string_lossy()), "{bootstrap}");
    supervisor.end(&gateway());
    comes_to_be(&supervisor, |view| view.is_none()).await;
    assert!(!process.is_running());
    let arguments = fs::read_to_string(view.folder.join("arguments")).unwrap();
    assert!(arguments.contains("bootstrap.yaml") && arguments.contains("--disable-hot-restart"), "{arguments}");
}

#[tokio::test]
async fn an_envoy_that_dies_is_started_again() {
    let world = ScriptedEnvoy::new(PATIENT);
    let mut supervisor = world.supervisor();
    supervisor.start(&gateway());
    let first = identity(&runs(&supervisor).await);
    first.kill();
    let second = comes_to_be(&supervisor, |view| view.is_some_and(|v| v.state == "running" && v.restarts == 1)).await;
    assert_ne!(identity(&second.unwrap()), first);
    supervisor.end_all().await;
}

#[tokio::test]
async fn an_envoy_outlives_its_supervisor_and_is_adopted() {
    let world = ScriptedEnvoy::new(PATIENT);
    let process = identity(&left_behind(&world));

    let mut supervisor = world.supervisor();
    supervisor.start(&gateway());
    let view = runs(&supervisor).await;
    assert!(view.adopted);
    assert_eq!(identity(&view), process);
    supervisor.end_all().await;
    assert!(!process.is_running());
}

#[tokio::test]
async fn an_envoy_that_was_started_otherwise_is_taken_over_from() {
    let world = ScriptedEnvoy::new(PATIENT);
    let old = identity(&left_behind(&world));

    let other = world.write_script("other-envoy", PATIENT);
    let mut supervisor = world.supervisor_of(other);
    supervisor.start(&gateway());
    let view = runs(&supervisor).await;
    assert!(!view.adopted);
    assert_ne!(identity(&view), old);
    assert!(!old.is_running());
    supervisor.end_all().await;
}

/// As after an upgrade: earlier versions of Holdfast let managed Envoys read from a TCP address.
#[tokio::test]
async fn an_envoy_that_reads_from_another_address_is_taken_over_from() {
    let world = ScriptedEnvoy::new(PATIENT);
    let tcp = || world.supervisor_on(world.path("envoy"), ServerAddress::Tcp("127.0.0.1".into(), 18000));
    let old = identity(&left_behind_by(tcp));

    let mut supervisor = world.supervisor();
    supervisor.start(&gateway());
    let view = runs(&supervisor).await;
    assert!(!view.adopted && !old.is_running());
    assert_ne!(identity(&view), old);
    supervisor.end_all().await;
}

#[tokio::test]
async fn a_record_of_another_process_is_not_believed() {
    let world = ScriptedEnvoy::new(PATIENT);
    let mut supervisor = world.supervisor();
    supervisor.start(&gateway());
    let view = runs(&supervisor).await;
    let record = fs::read_to_string(view.folder.join("process.json")).unwrap();
    supervisor.end_all().await;

    // The process id now belongs to another process: this test.
    let ours = record.replace(&view.pid.unwrap().to_string(), &std::process::id().to_string());
    fs::write(view.folder.join("process.json"), ours).unwrap();
    let mut supervisor = world.supervisor();
    supervisor.end_orphans(&[]);
    supervisor.start(&gateway());
    assert!(!runs(&supervisor).await.adopted);
    supervisor.end_all().await;
}

#[tokio::test]
async fn envoys_of_an_earlier_run_without_a_gateway_are_ended() {
    let world = ScriptedEnvoy::new(PATIENT);
    let process = identity(&left_behind(&world));

    let mut supervisor = world.supervisor();
    supervisor.end_orphans(&[]);
    supervisor.end_all().await;
    assert!(!process.is_running());
}

#[tokio::test]
async fn an_envoy_of_an_unpublished_gateway_keeps_running() {
    let world = ScriptedEnvoy::new(PATIENT);
    let process = identity(&left_behind(&world));

    let mut supervisor = world.supervisor();
    supervisor.end_orphans(&[gateway()]);
    supervisor.end_all().await;
    assert!(process.is_running());
    supervisor.start(&gateway());
    assert!(runs(&supervisor).await.adopted);
    supervisor.end_all().await;
    assert!(!process.is_running());
}

#[tokio::test]
async fn one_that_does_not_end_is_killed() {
    let world = ScriptedEnvoy::new("trap '' TERM; while true; do sleep 1; done");
    let mut supervisor = world.supervisor();
    supervisor.start(&gateway());
    let process = identity(&runs(&supervisor).await);
    supervisor.end_all().await;
    assert!(!process.is_running());
}

#[tokio::test]
async fn a_binary_that_cannot_run_is_tried_again_and_given_up_when_the_gateway_goes() {
    let world = ScriptedEnvoy::new(PATIENT);
    let mut supervisor = world.supervisor_of(Path::new("/no/such/envoy").into());
    supervisor.start(&gateway());
    comes_to_be(&supervisor, |view| view.is_some_and(|view| view.restarts > 1)).await;
    supervisor.end_all().await;
    comes_to_be(&supervisor, |view| view.is_none()).await;
}
