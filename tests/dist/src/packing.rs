//! Images of all platforms, made of layers that are compressed once, each with its list of components.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::components::{ComponentEntry, ComponentKind};
use crate::digest::sha256;
use crate::files::{FileEntry, Files};
use crate::image::{self, EnvoyFiles};
use crate::layout::{ImageLayout, Layer};
use crate::output::OutputFolder;
use crate::platform::Platform;
use crate::release::Binary;
use crate::sbom::{self, Subject};
use crate::source::Source;

/// A compressed layer, and its files as components.
struct PackedLayer {
    layer: Layer,
    components: Vec<ComponentEntry>,
}

impl PackedLayer {
    fn of(source: &Source, files: &Files) -> Result<Self> {
        Ok(Self { layer: Layer::of(files, source.epoch)?, components: components(source, files) })
    }
}

/// The layers for a platform, and the packages in its program.
pub(crate) struct PlatformLayers {
    platform: Platform,
    base: PackedLayer,
    envoy: Option<PackedLayer>,
    program: PackedLayer,
    packages: Vec<ComponentEntry>,
}

/// Compresses the layers of all platforms. There is an Envoy for each binary, or none.
pub(crate) fn pack(source: &Source, binaries: Vec<Binary>, envoys: Vec<EnvoyFiles>) -> Result<Vec<PlatformLayers>> {
    let mut envoys = envoys.into_iter();
    let base = image::base_layer(source)?;
    let pack_one = |binary: Binary| {
        let envoy = envoys.next().map(|envoy| image::envoy_layer(source, envoy)).transpose()?;
        Ok(PlatformLayers {
            platform: binary.platform,
            base: PackedLayer::of(source, &base)?,
            envoy: envoy.map(|files| PackedLayer::of(source, &files)).transpose()?,
            program: PackedLayer::of(source, &image::program_layer(&binary.libraries, &binary.bytes))?,
            packages: binary.components,
        })
    };
    binaries.into_iter().map(pack_one).collect()
}

/// Writes an image of all platforms, and returns the digest of its index.
pub(crate) fn write_image(
    source: &Source,
    out: &OutputFolder,
    name: &str,
    platforms: &[PlatformLayers],
    with_envoy: bool,
) -> Result<String> {
    let created = source.time()?;
    let mut layout = ImageLayout::create(&out.path().join(format!("{name}.oci")))?;
    for PlatformLayers { platform, base, envoy, program, packages } in platforms {
        let envoy = envoy.as_ref().filter(|_| with_envoy);
        // From what rarely changes to the program.
        let packed: Vec<&PackedLayer> = [Some(base), envoy, Some(program)].into_iter().flatten().collect();
        let layers: Vec<&Layer> = packed.iter().map(|packed| &packed.layer).collect();
        let digest = layout.add(*platform, &created, image::config(source, name, envoy.is_some())?, &layers)?;
        let files = packed.iter().flat_map(|packed| packed.components.iter());
        // A file of a later layer replaces the one of an earlier layer.
        let entries: BTreeMap<String, &ComponentEntry> =
            packages.iter().chain(files).map(|entry| (entry.id(), entry)).collect();
        let entries: Vec<ComponentEntry> = entries.into_values().cloned().collect();
        let subject = Subject { name, is_image: true, sha256: digest.trim_start_matches("sha256:") };
        let list = sbom::list(source, subject, &entries)?;
        out.write(&format!("{name}-{}-image-linux-{}.cdx.json", source.version, platform.name()), &list)?;
    }
    layout.finish(source.version)
}

/// Returns the files of a layer as components.
fn components(source: &Source, files: &Files) -> Vec<ComponentEntry> {
    let mut entries = Vec::new();
    for (path, entry) in &files.0 {
        let FileEntry::File { bytes, .. } = entry else { continue };
        let mut component = ComponentEntry::file(&format!("/{path}"), sha256(bytes));
        let version = match path.as_str() {
            image::HOLDFAST => Some(source.version),
            image::ENVOY => Some(holdfast_probe::envoy::RELEASE),
            _ => None,
        };
        if let Some(version) = version {
            component.kind = ComponentKind::Application;
            component.version = Some(version.to_owned());
            component.license = Some("Apache-2.0".into());
        }
        entries.push(component);
    }
    entries
}
