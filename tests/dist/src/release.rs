//! The order of the work: binaries, then images, then the chart that names them, then everything about all of them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::arguments::{DistArgs, PlatformPath};
use crate::chart::ChartImages;
use crate::components::{self, ComponentEntry};
use crate::digest::sha256;
use crate::elf::ProgramNeeds;
use crate::files::Files;
use crate::image::EnvoyFiles;
use crate::krew::{self, PluginArchive};
use crate::libraries::LibraryFolder;
use crate::output::OutputFolder;
use crate::platform::Platform;
use crate::sbom::{self, Subject};
use crate::source::Source;
use crate::{archive, changelog, chart, compile, packing, tarball};

const HOLDFAST: &str = "holdfast";
const WITH_ENVOY: &str = "holdfast-envoy";

/// What a run has made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The folder.
    pub folder: PathBuf,
    /// Names of the files in it.
    pub files: Vec<String>,
    /// Images by name, with the digest of their index.
    pub images: Vec<(String, String)>,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

impl Made {
    /// Returns what was made, for people.
    pub fn report(&self) -> String {
        let mut lines = vec![format!("{} files are in {}", self.files.len(), self.folder.display())];
        lines.extend(self.images.iter().map(|(name, digest)| format!("image {name}@{digest}")));
        lines.extend(self.notes.iter().map(|note| format!("NOTE: {note}")));
        lines.join("\n")
    }
}

/// A binary with what it needs and is made of.
pub(crate) struct Binary {
    pub(crate) platform: Platform,
    pub(crate) bytes: Vec<u8>,
    pub(crate) libraries: Files,
    pub(crate) components: Vec<ComponentEntry>,
}

/// Makes all artefacts.
///
/// # Errors
/// Returns an error if one of them cannot be made; the folder is unchanged then.
pub fn run(args: &DistArgs) -> Result<Made> {
    let source = Source::of_repository(args.source_date_epoch)?;
    if let Some(tag) = &args.tag {
        source.check_tag(tag)?;
    }
    let out = OutputFolder::create(&args.out)?;
    let binaries =
        args.platforms().into_iter().map(|platform| binary(&source, args, platform)).collect::<Result<Vec<_>>>()?;
    let archives = binaries.iter().map(|binary| write_archive(&source, &out, binary)).collect::<Result<Vec<_>>>()?;
    let mut notes = Vec::new();
    match &args.download_url {
        Some(url) => out.write(krew::FILE, krew::manifest(source.version, url, &archives)?.as_bytes())?,
        None => notes.push(format!("there is no {}, the manifest of krew, without --download-url", krew::FILE)),
    }
    let envoys = envoys(args, &binaries, &mut notes)?;
    let has_envoy = envoys.is_some();
    let packed = packing::pack(&source, binaries, envoys.unwrap_or_default())?;
    let mut images = vec![(HOLDFAST.to_owned(), packing::write_image(&source, &out, HOLDFAST, &packed, false)?)];
    if has_envoy {
        images.push((WITH_ENVOY.to_owned(), packing::write_image(&source, &out, WITH_ENVOY, &packed, true)?));
    }
    let list: String = images.iter().map(|(name, digest)| format!("{name}@{digest}\n")).collect();
    out.write("images.txt", list.as_bytes())?;
    let (name, digest) = images.last().context("there is no image")?;
    let repository = format!("{}/{name}", args.repository);
    let named = ChartImages { repository, digest: digest.clone(), has_envoy };
    let package = tarball::tar(&chart::files(&source, &named)?, source.epoch)?;
    out.write(&format!("{HOLDFAST}-{}.tgz", source.version), &tarball::gzip(&package)?)?;
    out.write("CHANGELOG.md", changelog::assemble(&source)?.as_bytes())?;
    Ok(Made { files: out.finish()?, folder: args.out.clone(), images, notes })
}

fn binary(source: &Source, args: &DistArgs, platform: Platform) -> Result<Binary> {
    let path = match PlatformPath::of(&args.binaries, platform) {
        Some(path) => path.clone(),
        None => compile::build(source, platform)?,
    };
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let needs = ProgramNeeds::of(&path, &bytes, platform)?;
    ensure!(
        args.dynamic || needs.is_static(),
        "{} needs the shared libraries {}, which are not in the image: build it for {}, or set --dynamic to add them",
        path.display(),
        needs.libraries.join(", "),
        platform.triple()
    );
    let libraries = libraries(args, platform, &needs)?;
    Ok(Binary { platform, bytes, libraries, components: components::of_program(source, platform)? })
}

fn libraries(args: &DistArgs, platform: Platform, needs: &ProgramNeeds) -> Result<Files> {
    if needs.is_static() {
        return Ok(Files::default());
    }
    let name = platform.name();
    let missing = || {
        format!(
            "the folder of shared libraries for {name} is not named; set --libraries {name}=DIR, see \
             docs/operating/artefacts.md"
        )
    };
    let root = PlatformPath::of(&args.libraries, platform).with_context(missing)?;
    LibraryFolder { root, platform }.of(needs)
}

fn write_archive(source: &Source, out: &OutputFolder, binary: &Binary) -> Result<PluginArchive> {
    let name = format!("{HOLDFAST}-{}-linux-{}", source.version, binary.platform.name());
    let hash = sha256(&binary.bytes);
    let subject = Subject { name: HOLDFAST, is_image: false, sha256: &hash };
    let list = sbom::list(source, subject, &binary.components)?;
    let files = archive::files(source, &name, &binary.bytes, &list)?;
    let archive = tarball::gzip(&tarball::tar(&files, source.epoch)?)?;
    out.write(&format!("{name}.tar.gz"), &archive)?;
    out.write(&format!("{name}.cdx.json"), &list)?;
    Ok(PluginArchive { platform: binary.platform, folder: name, sha256: sha256(&archive) })
}

/// Reads the Envoys of all platforms; none, with a note, if one is not named.
fn envoys(args: &DistArgs, binaries: &[Binary], notes: &mut Vec<String>) -> Result<Option<Vec<EnvoyFiles>>> {
    let mut found = Vec::new();
    for Binary { platform, .. } in binaries {
        let Some(path) = PlatformPath::of(&args.envoys, *platform) else {
            let name = platform.name();
            notes.push(format!(
                "there is no image {WITH_ENVOY}, and the packaged chart has no probe, because no Envoy for {name} is named; \
                 set --envoy {name}=PATH for each platform"
            ));
            return Ok(None);
        };
        let program = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let needs = ProgramNeeds::of(path, &program, *platform)?;
        found.push(EnvoyFiles { program, libraries: libraries(args, *platform, &needs)? });
    }
    Ok(Some(found))
}
