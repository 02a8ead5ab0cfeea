//! The image `holdfast-envoy`, run from its root file system as in a Pod of the chart: it serves a route through the Envoy
//! in it, tries configuration with its probe, and cannot write outside of its volumes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use anyhow::{Context, Error, Result, ensure};
use holdfast_dist::Platform;
use holdfast_scenario_tests::artefacts::artefacts;
use holdfast_scenario_tests::image_root::ImageRoot;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Story, World, envoy, stories};

/// The user of the image.
const USER: u32 = 65532;

pub(crate) fn stories() -> Vec<Story> {
    stories!("dist", true, [the_image_serves_a_route_with_a_read_only_root])
}

async fn the_image_serves_a_route_with_a_read_only_root(world: World) -> Result<()> {
    let platform = Platform::of_this_machine().context("there are no images for this machine")?;
    let envoy = envoy::find().map_err(Error::msg)?;
    let layout = artefacts(&world, Some(&envoy)).await?.join("holdfast-envoy.oci");
    let root = ImageRoot::unpack(&layout, platform.name(), world.folder().join("root"))?;
    ensure!(!root.folder().join("bin/sh").exists(), "the image has a shell");
    let _files = world.backend("files").await?;
    let port = world.gateway()?;
    world.route("files", "rules:\n- backendRefs: [{name: files, port: 8080}]")?;
    let (xds, metrics, diagnostics) = (world.port()?, world.port()?, world.port()?);
    // As with fsGroup of the Pod: the volume belongs to the user; the manifests only have to be readable.
    chown(world.data(), Some(USER), Some(USER))?;
    fs::set_permissions(world.manifests(), fs::Permissions::from_mode(0o755))?;
    let args = [
        "run".to_owned(),
        "--manifests=/manifests".to_owned(),
        "--envoy=managed".to_owned(),
        "--probe=on".to_owned(),
        // The folders and addresses of the chart, on free ports.
        "--data-dir=/var/lib/holdfast/data".to_owned(),
        format!("--xds-listen=0.0.0.0:{xds}"),
        "--insecure-xds=true".to_owned(),
        format!("--metrics-listen=0.0.0.0:{metrics}"),
        format!("--diagnostics-listen=127.0.0.1:{diagnostics}"),
    ];
    let volumes = [(world.data(), "/var/lib/holdfast"), (world.manifests(), "/manifests")];
    let mut process = root.start(&world, &args, &volumes)?;
    let served = get(port, "/").host("files.example.com");
    tokio::select! {
        reached = served.comes_to_reach("files") => reached.map(drop)?,
        end = process.comes_to_end() => anyhow::bail!("the program of the image ended: {end}"),
    }
    let output = process.output();
    ensure!(output.contains("a probe is ready"), "the Envoy of the image is no probe: {output}");
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    ensure!(status.contains(&format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}")), "another user: {status}");
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", process.id()))?;
    let of_root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).context("there is no root")?;
    ensure!(of_root.split(' ').nth(5).is_some_and(|options| options.starts_with("ro")), "a writable root: {of_root}");
    Ok(())
}
