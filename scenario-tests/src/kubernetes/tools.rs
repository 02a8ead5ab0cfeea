//! Programs besides the API server: from the environment, promtool also from the `PATH` (distributions package it with
//! Prometheus), else built once from the Go modules in `kubernetes/` and `conformance/`.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use holdfast_cli::data;

use super::assets::{FLAGS, KUBERNETES, go_build};

/// A program that is built from its Go module.
#[derive(Debug)]
pub struct Tool {
    /// The name of the program.
    name: &'static str,
    /// The folder with its Go module, in this package.
    module: &'static str,
    /// The command of Go that builds it.
    command: &'static [&'static str],
    release: &'static str,
    /// The environment variable with the path of another binary.
    variable: &'static str,
    package: &'static str,
    flags: &'static str,
    /// Whether a binary on the `PATH` is accepted, whatever its release.
    any_release: bool,
}

/// Helm. Without these flags it assumes an old cluster version while it renders.
pub const HELM: Tool = Tool {
    name: "helm",
    module: "kubernetes/helm",
    command: &["build"],
    release: "3.22.0",
    variable: "HELM_BIN",
    package: "helm.sh/helm/v3/cmd/helm",
    flags: "-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36 \
            -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=36",
    any_release: false,
};

/// promtool, of Prometheus.
pub const PROMTOOL: Tool = Tool {
    name: "promtool",
    module: "kubernetes/promtool",
    command: &["build"],
    release: "0.308.0",
    variable: "PROMTOOL_BIN",
    package: "github.com/prometheus/prometheus/cmd/promtool",
    flags: "-s -w",
    any_release: true,
};

/// kube-controller-manager.
pub const CONTROLLERS: Tool = Tool {
    name: "kube-controller-manager",
    module: "kubernetes/apiserver",
    command: &["build"],
    release: KUBERNETES,
    variable: "KUBE_CONTROLLER_MANAGER_BIN",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    flags: FLAGS,
    any_release: false,
};

/// The release of Gateway API, of its CRDs and of its conformance suite.
pub const GATEWAY_API: &str = "1.6.1";

/// The release of the conformance suite of Gateway API; the last number counts changes of the program here, which the
/// cache folder then has beside the earlier one.
const SUITE_RELEASE: &str = "1.6.1-2";

/// The conformance suite of Gateway API, as a Go test binary.
pub const SUITE: Tool = Tool {
    name: "suite.test",
    module: "conformance/suite",
    command: &["test", "-c"],
    release: SUITE_RELEASE,
    variable: "CONFORMANCE_SUITE_BIN",
    package: "holdfast.dev/scenario-tests/conformance/suite",
    flags: "-s -w",
    any_release: false,
};

/// The backend of the conformance suite.
pub const ECHO: Tool = Tool {
    name: "echo-basic",
    module: "conformance/suite",
    command: &["build"],
    release: SUITE_RELEASE,
    variable: "CONFORMANCE_ECHO_BIN",
    package: "sigs.k8s.io/gateway-api/conformance/echo-basic",
    flags: "-s -w",
    any_release: false,
};

/// CoreDNS, the backend of the conformance suite for datagrams.
pub const COREDNS: Tool = Tool {
    name: "coredns",
    module: "conformance/coredns",
    command: &["build"],
    release: "1.12.2",
    variable: "COREDNS_BIN",
    package: "holdfast.dev/scenario-tests/conformance/coredns",
    flags: "-s -w",
    any_release: false,
};

impl Tool {
    /// Returns the path; builds the program where the cache does not have it.
    ///
    /// # Errors
    /// If the program is not available; the message has the reason and the remedy.
    pub fn find(&self) -> Result<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable) {
            let named = PathBuf::from(named);
            ensure!(named.is_file(), "{}={} is no file", self.variable, named.display());
            return Ok(named);
        }
        if let Some(packaged) = self.on_path() {
            return Ok(packaged);
        }
        let cache = data::default_cache().context("neither XDG_CACHE_HOME nor HOME is set")?;
        let folder = cache.join(format!("{}-{}", self.name, self.release));
        let program = folder.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
        // Several processes may need the program at the same time: one builds, the others wait.
        let lock = File::create(cache.join(format!("{}.lock", self.name)))?;
        lock.lock()?;
        if !program.is_file() {
            eprintln!("building {} {} (some minutes, once) into {}", self.name, self.release, folder.display());
            go_build(self.command, self.module, self.flags, &folder, &[self.package])
                .with_context(|| format!("set {} to the path of {}", self.variable, self.name))?;
        }
        ensure!(program.is_file(), "the build made no {}", self.name);
        Ok(program)
    }

    fn on_path(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").filter(|_| self.any_release)?;
        std::env::split_paths(&path).map(|folder| folder.join(self.name)).find(|program| program.is_file())
    }
}
