//! The root file system of an image, unpacked from its layout, and the program in it, started as in a Pod: as the user of
//! the image, with its environment alone, and with a read-only root.
//!
//! Not as in a Pod: the network and the processes are those of this machine, and there is no limit of memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::process::Process;
use crate::runner::MissingTool;
use crate::world::World;

/// Checks that a root file system can be mounted and entered here.
///
/// # Errors
/// If this process may not do so.
pub fn can_be_run() -> Result<(), MissingTool> {
    let mut trial = Command::new("unshare");
    trial.args(["--mount", "--", "chroot", "--userspec=65532:65532", "/", "/bin/true"]);
    trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if trial.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let why = "the root file system of an image cannot be entered as another user here (unshare --mount, chroot \
               --userspec); run the story as root";
    Err(MissingTool { why: why.to_owned(), fails_in_ci: false })
}

/// An unpacked image.
#[derive(Debug)]
pub struct ImageRoot {
    folder: PathBuf,
    config: Value,
}

impl ImageRoot {
    /// Unpacks the image for an architecture of a layout into a new folder.
    pub fn unpack(layout: &Path, architecture: &str, folder: PathBuf) -> Result<Self> {
        let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
        let images = document(layout, &index["manifests"][0])?;
        let images = images["manifests"].as_array().context("the index has no images")?;
        let image = images.iter().find(|image| image["platform"]["architecture"] == architecture);
        let manifest = document(layout, image.with_context(|| format!("there is no image for {architecture}"))?)?;
        fs::create_dir(&folder)?;
        for layer in manifest["layers"].as_array().context("the image has no layers")? {
            let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(blob(layout, layer)?)?));
            archive.set_preserve_permissions(true);
            archive.unpack(&folder)?;
        }
        Ok(Self { folder, config: document(layout, &manifest["config"])?["config"].clone() })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the entry point with these arguments. Each of the folders is mounted at its place, all else is read-only;
    /// `/tmp` is an empty volume.
    pub fn start(&self, world: &World, args: &[String], volumes: &[(PathBuf, &str)]) -> Result<Process> {
        let texts = |field: &str| -> Vec<String> {
            let list = self.config[field].as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let (root, user) = (self.folder.display(), self.config["User"].as_str().context("the image has no user")?);
        ensure!(user == "65532:65532", "the image has the user {user}");
        let mut script = format!("set -e\nmount --bind {root} {root}\n");
        for (volume, place) in volumes {
            fs::create_dir_all(self.folder.join(place.trim_start_matches('/')))?;
            script += &format!("mount --bind {} {root}{place}\n", volume.display());
        }
        for system in ["dev", "proc"] {
            script += &format!("mount --rbind /{system} {root}/{system}\n");
        }
        script += &format!("mount -t tmpfs -o mode=1777 tmpfs {root}/tmp\nmount -o remount,bind,ro {root}\n");
        // Variables of the tests are not in a container.
        script += &format!(
            "exec env -i {} \"$(command -v chroot)\" --userspec={user} {root} \"$@\"\n",
            texts("Env").join(" ")
        );
        let entry = texts("Entrypoint");
        ensure!(!entry.is_empty(), "the image has no entry point");
        let line = ["--mount", "--", "/bin/sh", "-c", &script, "sh"].map(str::to_owned);
        let line: Vec<String> = line.into_iter().chain(entry).chain(args.iter().cloned()).collect();
        Process::start(Path::new("unshare"), line, &[], &world.log("image"))
    }
}

fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    Ok(layout.join("blobs/sha256").join(digest.context("a descriptor has no digest")?))
}

fn document(layout: &Path, descriptor: &Value) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(blob(layout, descriptor)?)?)?)
}
