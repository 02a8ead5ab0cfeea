//! The chart as `cargo dist` packages it: installed with Helm, its Pods run the images of the same run by their digest.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use holdfast_scenario_tests::artefacts::artefacts;
use holdfast_scenario_tests::kubernetes::Cluster;
use holdfast_scenario_tests::{Story, World, stories};
use serde_json::Value;

use super::helm;

pub(crate) fn stories() -> Vec<Story> {
    stories!("packaged", false, [pods_run_the_images_by_digest])
}

/// Returns the package of the chart in a folder of artefacts.
fn package(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut packages =
        files.into_iter().map(|file| file.path()).filter(|path| path.extension() == Some("tgz".as_ref()));
    packages.next().context("there is no package of the chart")
}

async fn pods_run_the_images_by_digest(world: World) -> Result<()> {
    let folder = artefacts(&world, None).await?;
    let cluster = Cluster::bare(&world).await?;
    let (package, kubeconfig) = (package(&folder)?.display().to_string(), cluster.kubeconfig().display().to_string());
    let install = ["--kubeconfig", &kubeconfig, "--namespace", "holdfast", "install", "holdfast", &package];
    let crds = ["--create-namespace", "--set", "crds.gatewayApi=true,crds.contour=true,crds.kgateway=true"];
    helm(&world, &[&install[..], &crds].concat()).await?.expect_code(0)?;

    // The last image of the list is the one with an Envoy, if there is one.
    let images = fs::read_to_string(folder.join("images.txt"))?;
    let (name, digest) = images.lines().last().and_then(|line| line.split_once('@')).context("images.txt is empty")?;
    let path = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
    let workloads = ["-n", "holdfast", "get", "statefulsets,deployments,jobs", "-o", path];
    let installed = cluster.kubectl_output(&workloads).await?;
    let is_pinned = |image: &str| image.ends_with(&format!("/{name}@{digest}"));
    ensure!(!installed.is_empty() && installed.split(' ').all(is_pinned), "{installed} instead of {name}@{digest}");

    let index = fs::read_to_string(folder.join(format!("{name}.oci/index.json")))?;
    let index: Value = serde_json::from_str(&index)?;
    ensure!(index["manifests"][0]["digest"] == digest, "the layout has another digest: {index}");
    let blob = folder.join(format!("{name}.oci/blobs")).join(digest.replace(':', "/"));
    ensure!(blob.is_file(), "the layout has no {}", blob.display());
    Ok(())
}
