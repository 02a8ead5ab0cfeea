//! The command line of `cargo dist`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, ValueEnum};

use crate::platform::Platform;

/// Make the artefacts of a release: archives of static binaries, container images (OCI layouts), lists of components
/// (CycloneDX), the chart, the changelog and their checksums
#[derive(Clone, Debug, Parser)]
#[command(name = "holdfast-dist", bin_name = "cargo dist", max_term_width = 100)]
pub struct DistArgs {
    /// Platform to make artefacts for, repeatable [default: amd64 and arm64]
    #[arg(long = "target", value_enum, value_name = "PLATFORM")]
    pub targets: Vec<Platform>,
    /// A built binary of Holdfast for a platform, instead of building it
    #[arg(long = "binary", value_name = "PLATFORM=PATH")]
    pub binaries: Vec<PlatformPath>,
    /// The Envoy of the image `holdfast-envoy` for a platform; without it for each platform, that image is left out
    #[arg(long = "envoy", value_name = "PLATFORM=PATH")]
    pub envoys: Vec<PlatformPath>,
    /// Folder with the shared libraries that Envoy needs, such as an unpacked package libc6, or / for this machine's
    #[arg(long = "libraries", value_name = "PLATFORM=DIR")]
    pub libraries: Vec<PlatformPath>,
    /// Accept a binary of Holdfast that needs shared libraries, and add them to the images; for tests
    #[arg(long)]
    pub dynamic: bool,
    /// Folder of the artefacts; replaced if it has artefacts of an earlier run
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    pub out: PathBuf,
    /// Beginning of the image repositories that the packaged chart names, as in registry.example.com/team
    #[arg(long, value_name = "PREFIX", default_value = "holdfast")]
    pub repository: String,
    /// URL of the folder from which users will download the archives, for the manifest of the plugin of kubectl
    #[arg(long, value_name = "URL")]
    pub download_url: Option<String>,
    /// Tag of the release: it must be `v` and the version, and no file may differ from the commit
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Time of all files, in seconds since 1970 [default: the time of the commit]
    #[arg(long, env = "SOURCE_DATE_EPOCH", value_name = "SECONDS")]
    pub source_date_epoch: Option<u64>,
}

impl DistArgs {
    /// Returns the platforms, each once, in their order.
    pub(crate) fn platforms(&self) -> Vec<Platform> {
        let is_wanted = |platform: &Platform| self.targets.is_empty() || self.targets.contains(platform);
        Platform::ALL.into_iter().filter(is_wanted).collect()
    }
}

/// A path for one platform, written as `amd64=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformPath {
    /// The platform.
    pub platform: Platform,
    /// The path.
    pub path: PathBuf,
}

impl PlatformPath {
    /// Returns the last path for a platform.
    pub(crate) fn of(paths: &[Self], platform: Platform) -> Option<&PathBuf> {
        paths.iter().rev().find(|path| path.platform == platform).map(|path| &path.path)
    }
}

impl FromStr for PlatformPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not of the form PLATFORM=PATH, as in amd64=/opt/envoy");
        let (platform, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or_else(form)?;
        Ok(Self { platform: Platform::from_str(platform, false)?, path: path.into() })
    }
}
