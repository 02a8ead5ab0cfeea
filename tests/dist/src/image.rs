//! Root file systems of the images, and how their containers start.
//!
//! An image has no shell and no tools. Folders on which the chart mounts volumes exist, because the root file system of
//! a Pod is read-only.

use anyhow::{Context, Result};
use oci_spec::image::{
    ANNOTATION_LICENSES, ANNOTATION_REVISION, ANNOTATION_TITLE, ANNOTATION_VERSION, Config, ConfigBuilder,
};

use crate::authorities;
use crate::files::Files;
use crate::source::Source;

/// The user and group of containers, as in the Pods of the chart.
const USER: &str = "65532:65532";
/// Path of the program.
pub(crate) const HOLDFAST: &str = "usr/local/bin/holdfast";
/// Path of Envoy.
pub(crate) const ENVOY: &str = "usr/local/bin/envoy";
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Folders for volumes, and those that a container runtime mounts itself.
const MOUNTS: [&str; 8] = [
    "dev",
    "etc/holdfast/store-key",
    "etc/holdfast/xds",
    "etc/holdfast/xds-clients",
    "etc/holdfast/xds-keys",
    "proc",
    "run/holdfast-probe",
    "sys",
];
/// Folders that the user of the image can write to, where nothing is mounted and the root file system is not read-only.
const WRITABLE: [&str; 2] = ["tmp", "var/lib/holdfast"];

/// An Envoy for an image.
#[derive(Clone, Debug)]
pub(crate) struct EnvoyFiles {
    pub(crate) program: Vec<u8>,
    pub(crate) libraries: Files,
}

/// Returns the files of the layer with Envoy.
pub(crate) fn envoy_layer(source: &Source, envoy: EnvoyFiles) -> Result<Files> {
    let mut files = envoy.libraries;
    files.add_program(ENVOY, envoy.program);
    // Envoy's own licence is the same text: the Apache License 2.0.
    files.add("usr/share/licenses/envoy/LICENSE", source.read("LICENSE")?);
    Ok(files)
}

/// Returns the files of the layer with the program.
pub(crate) fn program_layer(libraries: &Files, program: &[u8]) -> Files {
    let mut files = libraries.clone();
    files.add_program(HOLDFAST, program);
    files
}

/// Returns the files of the layer that all images have.
pub(crate) fn base_layer(source: &Source) -> Result<Files> {
    let mut files = Files::default();
    files.add(AUTHORITIES, authorities::pem());
    files.add("etc/passwd", "root:x:0:0:root:/:/sbin/nologin\nholdfast:x:65532:65532::/tmp:/sbin/nologin\n");
    files.add("etc/group", "root:x:0:\nholdfast:x:65532:\n");
    files.add("usr/share/licenses/holdfast/LICENSE", source.read("LICENSE")?);
    for folder in MOUNTS {
        files.add_folder(folder, 0o755);
    }
    for folder in WRITABLE {
        files.add_folder(folder, 0o1777);
    }
    Ok(files)
}

/// Returns how containers of an image start, with its labels.
pub(crate) fn config(source: &Source, name: &str, has_envoy: bool) -> Result<Config> {
    let mut env = vec!["PATH=/usr/local/bin".to_owned()];
    if has_envoy {
        env.push(format!("ENVOY_BIN=/{ENVOY}"));
    }
    let mut labels = vec![(ANNOTATION_TITLE, name), (ANNOTATION_VERSION, source.version)];
    labels.push((ANNOTATION_LICENSES, "Apache-2.0"));
    labels.extend(source.commit.as_deref().map(|commit| (ANNOTATION_REVISION, commit)));
    let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    ConfigBuilder::default()
        .user(USER)
        .env(env)
        .entrypoint(vec![format!("/{HOLDFAST}")])
        .cmd(vec!["run".to_owned()])
        .working_dir("/")
        .labels(labels.collect::<std::collections::HashMap<_, _>>())
        .build()
        .context("the configuration of an image is incomplete")
}
