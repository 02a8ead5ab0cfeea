//! `kubectl holdfast`: kubectl finds the plugin, which finds the Pod of the leader and queries it through a port.
//!
//! Pods have no kubelet here, so `kubectl port-forward` is played; every other request of the plugin is a real one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::{Cluster, assets};
use holdfast_scenario_tests::process::{Finished, Process, naming, signal};
use holdfast_scenario_tests::{Holdfast, Story, World, binary, manifests, stories, until};

use super::reporting::in_a_pod;
use super::serving::gateway;

pub(crate) fn stories() -> Vec<Story> {
    stories!("plugin", false, [queries_reach_the_leader])
}

/// In the command line of each process that keeps a port open.
const FORWARDING: &str = "forwarding";

/// kubectl with the plugin on its `PATH`.
struct Kubectl<'a> {
    world: &'a World,
    cluster: &'a Cluster,
    program: PathBuf,
    folder: PathBuf,
}

impl<'a> Kubectl<'a> {
    /// Ports of `infra/holdfast-0` lead to this Holdfast; other Pods have none.
    fn new(world: &'a World, cluster: &'a Cluster, holdfast: &Holdfast) -> Result<Self> {
        let (program, folder) = (assets::find()?.program("kubectl"), world.folder().join("plugins"));
        fs::create_dir(&folder)?;
        symlink(binary::holdfast()?, folder.join("kubectl-holdfast"))?;
        let (diagnostics, metrics) = (holdfast.options.diagnostics, holdfast.options.metrics);
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n\
             *'--namespace=infra port-forward --address=127.0.0.1 pod/holdfast-0 :'*)\n\
             echo 'Forwarding from 127.0.0.1:{metrics} -> 10255'\n\
             echo 'Forwarding from 127.0.0.1:{diagnostics} -> 10256'\n\
             exec /bin/sh -c 'while :; do sleep 1; done' '{}';;\n\
             *port-forward*) echo 'error: lost connection to pod' >&2; exit 1;;\n\
             *) exec '{}' \"$@\";;\nesac\n",
            folder.join(FORWARDING).display(),
            program.display()
        );
        write_program(&folder.join("kubectl"), &script)?;
        Ok(Self { world, cluster, program, folder })
    }

    async fn holdfast(&self, args: &[&str]) -> Result<Finished> {
        self.start(args)?.finish().await
    }

    /// The processes that keep a port open.
    fn forwarding(&self) -> Vec<u32> {
        naming(&self.folder.join(FORWARDING))
    }

    /// Starts a command of the plugin.
    fn start(&self, args: &[&str]) -> Result<Process> {
        let path = format!("{}:{}", self.folder.display(), std::env::var("PATH").unwrap_or_default());
        let env = [
            ("PATH".to_owned(), path),
            ("HOME".to_owned(), self.world.folder().display().to_string()),
            ("KUBECONFIG".to_owned(), self.cluster.kubeconfig().display().to_string()),
        ];
        let args = ["holdfast"].iter().chain(args);
        Process::start(&self.program, args, &env, &self.world.log("kubectl"))
    }
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Sets the labels of the chart on a Pod, and its status as a kubelet would.
async fn runs(cluster: &Cluster, pod: &str) -> Result<()> {
    let labels = ["app.kubernetes.io/name=holdfast", "app.kubernetes.io/component=controller"];
    cluster.kubectl_output(&[&["label", "pod", "-n", "infra", pod][..], &labels].concat()).await?;
    let status = r#"{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#;
    let patch = ["patch", "pod", "-n", "infra", pod, "--subresource=status", "--type=merge", "-p", status];
    cluster.kubectl_output(&patch).await.map(drop)
}

async fn queries_reach_the_leader(world: World) -> Result<()> {
    let cluster = Cluster::start(&world).await?;
    gateway(&world, &cluster).await?;
    let broken = "rules: [{backendRefs: [{name: absent, port: 80}]}]";
    cluster.apply(manifests::http_route("broken", broken)).await?;
    let holdfast = world.run_with(in_a_pod(&world, &cluster).await?.without_envoy()).await?;
    let kubectl = Kubectl::new(&world, &cluster, &holdfast)?;
    let prints = async |args: &[&str], code: i32, words: &[&str]| -> Result<()> {
        kubectl.holdfast(args).await?.expect_code(code)?.expect_output(words).map(drop)
    };
    prints(&["status"], 3, &["no Pod of Holdfast runs in any namespace with the labels app.kubernetes.io/name"])
        .await?;
    runs(&cluster, "holdfast-0").await?;
    prints(&["status"], 1, &["HTTPRoute default/broken", "Service default/absent"]).await?;
    prints(&["-n", "other", "status"], 3, &["no Pod of Holdfast runs in namespace other"]).await?;

    // A second replica, which does not lead, and is the first by name.
    let other = "apiVersion: v1\nkind: Pod\nmetadata: {name: first, namespace: infra}\n\
                 spec: {containers: [{name: holdfast, image: none}]}\n";
    cluster.apply(other).await?;
    runs(&cluster, "first").await?;
    until("the leader answers", || prints(&["status", "-o", "json"], 1, &["\"verdict\": \"down\""])).await?;
    prints(&["--pod", "first", "status"], 3, &["port-forward to Pod infra/first: error: lost connection to pod"])
        .await?;
    prints(&["diff", "HTTPRoute/default/broken"], 1, &["backendRefs"]).await?;
    prints(&["log-level", "debug"], 0, &["debug for "]).await?;
    let archive = world.folder().join("collected.tar.gz").display().to_string();
    prints(&["collect", "--file", &archive], 0, &["17 files"]).await?;
    let address = format!("127.0.0.1:{}", holdfast.options.diagnostics);
    prints(&["--kubeconfig", "/nowhere", "status", "--diagnostics", &address], 1, &["HTTPRoute default/broken"])
        .await?;
    prints(&["--kubeconfig", "/nowhere", "status"], 3, &["kubectl get pods", "/nowhere"]).await?;
    prints(&["--help"], 0, &["kubectl holdfast", "--selector"]).await?;
    prints(&["version"], 0, &["holdfast "]).await?;

    // A signal to the plugin alone also ends kubectl.
    for name in ["INT", "TERM", "HUP"] {
        let mut watching = kubectl.start(&["status", "--watch"])?;
        until("the port is open", async || {
            ensure!(watching.output().contains("OUTAGES"), "{}", watching.output());
            Ok(())
        })
        .await?;
        ensure!(!kubectl.forwarding().is_empty(), "no port is open");
        signal(watching.id(), name);
        watching.comes_to_end().await;
        until("the port is closed", async || {
            ensure!(kubectl.forwarding().is_empty(), "it is open after SIG{name}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
