//! The user's shell: bash in a folder with the charts of the repository, with kubectl and helm in the path.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use holdfast_scenario_tests::kubernetes::{Cluster, tools};
use holdfast_scenario_tests::process::Process;
use holdfast_scenario_tests::{World, binary, until};

use super::page::PageStep;

/// A wrapper of kubectl. Two commands need the kubelet of a node, which does not exist: a Pod's port is already
/// reachable in this network, and `exec` runs the command directly.
const KUBECTL: &str = r#"#!/bin/bash
case " $* " in
  *" port-forward "*) exit ;;
  *" exec "*)
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@" ;;
esac
exec "$KUBECTL" "$@"
"#;
/// Variables and functions are kept from one step to the next.
const REMEMBERING: &str = "[ ! -e \"$MEMORY\" ] || . \"$MEMORY\"; set -a\n";
const REMEMBER: &str = "\n{ declare -f; declare -p ISSUER ADDRESS 2>/dev/null || true; } > \"$MEMORY\"\n";

/// A shell.
#[derive(Debug)]
pub(crate) struct Shell<'w> {
    world: &'w World,
    environment: Vec<(String, String)>,
}

impl<'w> Shell<'w> {
    pub(crate) fn new(world: &'w World, cluster: &Cluster) -> Result<Self> {
        let programs = world.folder().join("programs");
        fs::create_dir_all(&programs)?;
        let kubectl = programs.join("kubectl");
        fs::write(&kubectl, KUBECTL)?;
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755))?;
        symlink(tools::HELM.find()?, programs.join("helm"))?;
        symlink(binary::holdfast()?, programs.join("holdfast"))?;
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        symlink(checkout.join("charts"), world.folder().join("charts"))?;
        let path = |path: PathBuf| path.display().to_string();
        let environment = [
            ("PATH", format!("{}:{}", path(programs), std::env::var("PATH")?)),
            ("HOME", path(world.folder().to_owned())),
            ("KUBECONFIG", path(cluster.kubeconfig())),
            ("KUBECTL", path(cluster.kubectl_program())),
            ("MEMORY", path(world.folder().join("memory"))),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
        Ok(Self { world, environment })
    }

    /// Runs the commands of a step; if it has an expected output, repeats them until they print it.
    pub(crate) async fn walk(&self, step: &PageStep) -> Result<()> {
        if step.shown.is_empty() {
            return self.run(&step.commands).await.map(drop);
        }
        until("it shows what the page says", || async {
            let output = self.run(&step.commands).await?;
            let missing = step.missing(&output);
            ensure!(missing.is_none(), "{:?} is not in\n{output}", missing.unwrap_or_default());
            Ok(())
        })
        .await
    }

    async fn run(&self, commands: &str) -> Result<String> {
        let text = format!("cd\n{REMEMBERING}{commands}{REMEMBER}");
        let args = ["-euo", "pipefail", "-c", &text];
        let finished =
            Process::start(Path::new("bash"), args, &self.environment, &self.world.log("shell"))?.finish().await?;
        finished.expect_code(0)?;
        Ok(finished.stdout)
    }
}
