//! kube-apiserver, etcd and kubectl: from `KUBEBUILDER_ASSETS`, else built once from the modules in `kubernetes/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use holdfast_cli::data;

/// The release of Kubernetes.
pub(super) const KUBERNETES: &str = "1.36.2";
/// Flags of the linker for programs of Kubernetes. Without them the programs report version v0.0.0, and clients consider
/// them too old.
pub(super) const FLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.2 \
                                -X k8s.io/client-go/pkg/version.gitVersion=v1.36.2";
/// The release of etcd.
const ETCD: &str = "3.6.8";
/// The release of Go for the build.
const GO: &str = "go1.26.8";
/// Maximum duration of one build: a module proxy that never answers must not block all other tests.
const BUILD_MAX: Duration = Duration::from_secs(35 * 60);
/// The programs.
const PROGRAMS: [&str; 3] = ["kube-apiserver", "etcd", "kubectl"];

/// The folder of the programs.
#[derive(Clone, Debug)]
pub struct Assets(PathBuf);

impl Assets {
    /// Path of a program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Returns the programs; builds them where the cache does not have them.
///
/// # Errors
/// If the programs are not available; the message has the reason and the remedy.
pub fn find() -> Result<Assets> {
    if let Some(named) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let folder = PathBuf::from(named);
        ensure!(has_all(&folder), "KUBEBUILDER_ASSETS={} has not all of {}", folder.display(), PROGRAMS.join(", "));
        return Ok(Assets(folder));
    }
    let cache = data::default_cache().context("neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = cache.join(format!("kubernetes-{KUBERNETES}-etcd-{ETCD}"));
    if has_all(&folder) {
        return Ok(Assets(folder));
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot write to {}", cache.display()))?;
    // Several processes may need the programs at the same time: one builds, the others wait.
    let lock = File::create(cache.join("kubernetes.lock"))?;
    lock.lock()?;
    if !has_all(&folder) {
        eprintln!(
            "building kube-apiserver {KUBERNETES} and etcd {ETCD} (about 8 minutes, once) into {}",
            folder.display()
        );
        // The build has its own folder, so that the final folder is always complete.
        let draft = cache.join("kubernetes.building");
        let _ = fs::remove_dir_all(&draft);
        fs::create_dir_all(&draft)?;
        build(&draft).context("set KUBEBUILDER_ASSETS to a folder with kube-apiserver, etcd and kubectl")?;
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&draft, &folder)?;
    }
    Ok(Assets(folder))
}

fn has_all(folder: &Path) -> bool {
    PROGRAMS.iter().all(|program| folder.join(program).is_file())
}

fn build(folder: &Path) -> Result<()> {
    let of_kubernetes = ["k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubectl"];
    go_build(&["build"], "kubernetes/etcd", "-s -w", folder, &["go.etcd.io/etcd/server/v3"])?;
    // The program has the name of its source folder.
    let named = folder.join("server");
    if named.is_file() {
        fs::rename(named, folder.join("etcd"))?;
    }
    go_build(&["build"], "kubernetes/apiserver", FLAGS, folder, &of_kubernetes)?;
    ensure!(has_all(folder), "the build made not all of {}", PROGRAMS.join(", "));
    Ok(())
}

/// Builds packages of a Go module into a folder, with a command of Go; `module` is the folder of the module in this
/// package.
pub(super) fn go_build(command: &[&str], module: &str, flags: &str, folder: &Path, packages: &[&str]) -> Result<()> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(module);
    let mut go = Command::new("go");
    go.current_dir(&sources).env("GOTOOLCHAIN", GO).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=readonly");
    go.args(command).args(["-trimpath", "-ldflags", flags, "-o"]).arg(format!("{}/", folder.display())).args(packages);
    let log = folder.join(format!("{}.log", module.replace('/', "-")));
    go.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
    let mut building = go.spawn().context("there is no Go (1.21 or later) to build them with")?;
    let end = Instant::now() + BUILD_MAX;
    let status = loop {
        if let Some(status) = building.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            building.kill()?;
            building.wait()?;
            bail!("go build of {module} did not end within {} minutes", BUILD_MAX.as_secs() / 60);
        }
        sleep(Duration::from_millis(200));
    };
    if status.success() {
        return Ok(());
    }
    let output = fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with("go: downloading")).collect();
    bail!("go build of {module} failed: {}", lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("; "))
}
