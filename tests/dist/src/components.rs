//! Components of the artefacts: the packages in a binary, as cargo selects them for its platform, and files of images.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_lock::{Checksum, Lockfile};

use crate::compile::{cargo, rustc_version};
use crate::platform::Platform;
use crate::source::Source;

/// What a component is, for readers of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComponentKind {
    Application,
    Library,
    File,
}

/// A component of an artefact.
#[derive(Clone, Debug)]
pub(crate) struct ComponentEntry {
    pub(crate) kind: ComponentKind,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// Expression of SPDX.
    pub(crate) license: Option<String>,
    pub(crate) sha256: Option<String>,
    /// Whether it is a package of cargo's registry.
    pub(crate) is_package: bool,
    /// Identities of the components that it uses.
    pub(crate) uses: Vec<String>,
}

impl ComponentEntry {
    pub(crate) fn file(name: &str, sha256: String) -> Self {
        Self {
            kind: ComponentKind::File,
            name: name.to_owned(),
            version: None,
            license: None,
            sha256: Some(sha256),
            is_package: false,
            uses: Vec::new(),
        }
    }

    /// Returns the identity in the list.
    pub(crate) fn id(&self) -> String {
        match &self.version {
            Some(version) => format!("{}@{version}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Returns the packages that are compiled into the program for a platform, and Rust's standard library; sorted. Packages
/// that run only during the build (build scripts and procedural macros) are not in the binary.
pub(crate) fn of_program(source: &Source, platform: Platform) -> Result<Vec<ComponentEntry>> {
    let licenses = selected(source, platform)?;
    let lock = Lockfile::load(source.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let mut components = Vec::new();
    for package in &lock.packages {
        let key = (package.name.to_string(), package.version.to_string());
        let Some(license) = licenses.get(&key) else { continue };
        let used = package.dependencies.iter().map(|used| (used.name.to_string(), used.version.to_string()));
        let uses = used.filter(|key| licenses.contains_key(key)).map(|(name, version)| format!("{name}@{version}"));
        components.push(ComponentEntry {
            kind: ComponentKind::Library,
            name: key.0,
            version: Some(key.1),
            license: Some(license.clone()).filter(|license| !license.is_empty()),
            sha256: package.checksum.as_ref().map(|checksum| match checksum {
                Checksum::Sha256(hash) => hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            }),
            is_package: package.source.is_some(),
            uses: uses.collect::<BTreeSet<_>>().into_iter().collect(),
        });
    }
    ensure!(components.len() == licenses.len(), "Cargo.lock does not have all packages that cargo selects");
    components.push(standard_library(source)?);
    components.sort_by_key(ComponentEntry::id);
    Ok(components)
}

fn standard_library(source: &Source) -> Result<ComponentEntry> {
    let version = rustc_version(&source.root)?;
    Ok(ComponentEntry {
        kind: ComponentKind::Library,
        name: "rust-std".into(),
        version: version.split(' ').nth(1).map(str::to_owned),
        license: Some("MIT OR Apache-2.0".into()),
        sha256: None,
        is_package: false,
        uses: Vec::new(),
    })
}

/// Returns the packages that cargo selects, by name and version, with their licences.
fn selected(source: &Source, platform: Platform) -> Result<BTreeMap<(String, String), String>> {
    let mut command = Command::new(cargo());
    command.args(["tree", "--locked", "--package", "holdfast-cli", "--target", &platform.triple()]);
    command.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]);
    let output = command.current_dir(&source.root).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo tree fails: {}", String::from_utf8_lossy(&output.stderr).trim());
    let mut packages = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (package, license) = line.split_once('|').with_context(|| format!("cargo tree prints {line:?}"))?;
        let mut words = package.split(' ');
        let version = |words: &mut std::str::Split<'_, char>| Some(words.next()?.strip_prefix('v')?.to_owned());
        let name = words.next().unwrap_or_default().to_owned();
        let version = version(&mut words).with_context(|| format!("cargo tree prints {line:?}"))?;
        packages.insert((name, version), license.to_owned());
    }
    Ok(packages)
}
