//! An OCI image layout: blobs by their digest, one image for each platform, and an index of them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use oci_spec::image::{
    ANNOTATION_REF_NAME, Config, Descriptor, HistoryBuilder, ImageConfigurationBuilder, ImageIndexBuilder,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, Os, PlatformBuilder, RootFsBuilder, SCHEMA_VERSION,
    Sha256Digest,
};
use serde::Serialize;

use crate::digest::sha256;
use crate::files::Files;
use crate::platform::Platform;
use crate::tarball;

/// A compressed layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    compressed: Vec<u8>,
    /// Hash of the archive that is compressed.
    content: String,
}

impl Layer {
    pub(crate) fn of(files: &Files, epoch: u64) -> Result<Self> {
        let archive = tarball::tar(files, epoch)?;
        Ok(Self { compressed: tarball::gzip(&archive)?, content: sha256(&archive) })
    }
}

/// An image layout in a folder.
#[derive(Debug)]
pub(crate) struct ImageLayout {
    folder: PathBuf,
    images: Vec<Descriptor>,
}

impl ImageLayout {
    /// Begins a layout in a new folder.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("blobs/sha256"))
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), images: Vec::new() })
    }

    /// Adds the image of a platform, and returns its digest.
    pub(crate) fn add(
        &mut self,
        platform: Platform,
        created: &str,
        config: Config,
        layers: &[&Layer],
    ) -> Result<String> {
        let contents = layers.iter().map(|layer| format!("sha256:{}", layer.content)).collect::<Vec<_>>();
        let made = |_| HistoryBuilder::default().created(created).created_by("cargo dist").build();
        let history = layers.iter().map(made).collect::<Result<Vec<_>, _>>()?;
        let configuration = ImageConfigurationBuilder::default()
            .created(created)
            .architecture(platform.architecture())
            .os(Os::Linux)
            .config(config)
            .rootfs(RootFsBuilder::default().typ("layers").diff_ids(contents).build()?)
            .history(history)
            .build()?;
        let configuration = self.document(MediaType::ImageConfig, &configuration)?;
        let blobs = layers.iter().map(|layer| self.blob(MediaType::ImageLayerGzip, &layer.compressed));
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(configuration)
            .layers(blobs.collect::<Result<Vec<_>>>()?)
            .build()?;
        let mut manifest = self.document(MediaType::ImageManifest, &manifest)?;
        let digest = manifest.digest().to_string();
        let place = PlatformBuilder::default().architecture(platform.architecture()).os(Os::Linux).build()?;
        manifest.set_platform(Some(place));
        self.images.push(manifest);
        Ok(digest)
    }

    /// Writes the index of all images, and returns its digest.
    pub(crate) fn finish(self, tag: &str) -> Result<String> {
        let index = |images: Vec<Descriptor>| {
            ImageIndexBuilder::default()
                .schema_version(SCHEMA_VERSION)
                .media_type(MediaType::ImageIndex)
                .manifests(images)
                .build()
        };
        let mut all = self.document(MediaType::ImageIndex, &index(self.images.clone())?)?;
        let digest = all.digest().to_string();
        all.set_annotations(Some(HashMap::from([(ANNOTATION_REF_NAME.to_owned(), tag.to_owned())])));
        self.write("index.json", &json(&index(vec![all])?)?)?;
        let version = OciLayoutBuilder::default().image_layout_version("1.0.0").build()?;
        self.write("oci-layout", &json(&version)?)?;
        Ok(digest)
    }

    fn document(&self, kind: MediaType, document: &impl Serialize) -> Result<Descriptor> {
        self.blob(kind, &json(document)?)
    }

    fn blob(&self, kind: MediaType, bytes: &[u8]) -> Result<Descriptor> {
        let digest = sha256(bytes);
        self.write(&format!("blobs/sha256/{digest}"), bytes)?;
        Ok(Descriptor::new(kind, bytes.len() as u64, Sha256Digest::from_str(&digest)?))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Returns the document with its fields sorted: some of them are hash maps, which have no order.
fn json(document: &impl Serialize) -> Result<Vec<u8>> {
    let sorted: BTreeMap<String, serde_json::Value> = serde_json::from_value(serde_json::to_value(document)?)?;
    Ok(serde_json::to_vec(&sorted)?)
}
