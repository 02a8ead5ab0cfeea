//! The data of an etcd with the CRDs: made once, kept in the cache folder, and copied for each cluster.
//!
//! An API server needs most of its start for its own roles and for the CRDs. With the copy, both are there already.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use holdfast_cli::data;
use tokio::sync::OnceCell;

use super::assets::Assets;
use super::cluster::{CRDS, Cluster, crds};
use crate::world::World;

/// Copies the data for one cluster to `folder`, which does not exist.
pub(super) async fn copy_to(folder: &Path, assets: &Assets) -> Result<()> {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    let made = MADE.get_or_try_init(|| make(assets)).await?;
    copy(made, folder)
}

/// Returns the folder of the data; makes it where the cache does not have it.
async fn make(assets: &Assets) -> Result<PathBuf> {
    let cache = data::default_cache().context("neither XDG_CACHE_HOME nor HOME is set")?;
    let folder = cache.join(format!("etcd-with-crds-{:016x}", content(assets)?));
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(&cache)?;
    let world = World::new()?;
    let cluster = Cluster::bare(&world).await?;
    for project in CRDS {
        cluster.install(project).await?;
    }
    let written = cluster.end();
    // The draft is on the disk of the cache, so that the final folder is always complete.
    let draft = cache.join(format!("etcd-with-crds.{}", std::process::id()));
    copy(&written, &draft)?;
    if fs::rename(&draft, &folder).is_err() {
        // Another process was faster.
        fs::remove_dir_all(&draft)?;
    }
    Ok(folder)
}

/// A number for what the data is made from: the programs and the CRDs.
fn content(assets: &Assets) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for program in ["etcd", "kube-apiserver"] {
        let file = assets.program(program);
        (&file, fs::metadata(&file)?.modified()?).hash(&mut hasher);
    }
    for project in CRDS {
        for file in files(&crds(project))? {
            (&file, fs::read(&file)?).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

/// The entries of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in files(from)? {
        let target = to.join(entry.file_name().unwrap_or_default());
        match entry.is_dir() {
            true => copy(&entry, &target)?,
            false => fs::copy(&entry, &target).map(drop)?,
        }
    }
    Ok(())
}
