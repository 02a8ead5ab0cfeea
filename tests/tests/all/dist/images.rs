//! Images: the layout is complete, both platforms are in it, and the files are those that a Pod of the chart needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Artefacts, EPOCH, Entry, artefacts, entries, json};
use crate::chart;

/// The blob of a descriptor, which must have its size.
fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = fs::read(layout.join("blobs/sha256").join(digest)).unwrap();
    assert_eq!(descriptor["size"], bytes.len());
    bytes
}

fn document(layout: &Path, descriptor: &Value) -> Value {
    serde_json::from_slice(&blob(layout, descriptor)).unwrap()
}

/// An image of a platform.
struct Image {
    platform: Value,
    configuration: Value,
    layers: Vec<Vec<u8>>,
}

/// Reads all images of a layout.
fn images(artefacts: &Artefacts, name: &str) -> Vec<Image> {
    let layout = artefacts.out.join(format!("{name}.oci"));
    assert_eq!(json(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&layout.join("index.json"));
    let [all] = index["manifests"].as_array().unwrap().as_slice() else { panic!("{index}") };
    assert_eq!(all["annotations"]["org.opencontainers.image.ref.name"], env!("CARGO_PKG_VERSION"));
    let (_, digest) = artefacts.made.images.iter().find(|(made, _)| made == name).unwrap();
    assert_eq!(all["digest"], digest.as_str());
    let all = document(&layout, all);
    let read = |descriptor: &Value| {
        let manifest = document(&layout, descriptor);
        assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
        let layers = manifest["layers"].as_array().unwrap().iter();
        Image {
            platform: descriptor["platform"].clone(),
            configuration: document(&layout, &manifest["config"]),
            layers: layers.map(|layer| blob(&layout, layer)).collect(),
        }
    };
    all["manifests"].as_array().unwrap().iter().map(read).collect()
}

/// Returns the files of all layers.
fn root(image: &Image) -> BTreeMap<String, Entry> {
    image.layers.iter().flat_map(|layer| entries(layer)).collect()
}

#[test]
fn both_images_have_both_platforms() {
    let artefacts = artefacts(true);
    for name in ["holdfast", "holdfast-envoy"] {
        let images = images(artefacts, name);
        let platforms: Vec<_> = images.iter().map(|image| image.platform.to_string()).collect();
        assert_eq!(platforms, [r#"{"architecture":"amd64","os":"linux"}"#, r#"{"architecture":"arm64","os":"linux"}"#]);
        for image in images {
            let config = &image.configuration;
            assert_eq!(config["architecture"], image.platform["architecture"]);
            assert_eq!(config["created"], "2023-11-14T22:13:20Z");
            assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), image.layers.len());
            assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/usr/local/bin/holdfast"]));
            let root = root(&image);
            assert_eq!(root["usr/local/bin/holdfast"].mode, 0o755);
            assert_eq!(root.contains_key("usr/local/bin/envoy"), name == "holdfast-envoy");
            let has_variable = config["config"]["Env"].to_string().contains("ENVOY_BIN=/usr/local/bin/envoy");
            assert_eq!(has_variable, name == "holdfast-envoy");
        }
    }
}

#[test]
fn an_image_has_the_user_and_the_mounts_of_the_pod_and_no_shell() {
    let artefacts = artefacts(false);
    let pod = chart::text("templates/_pod.tpl");
    assert!(pod.contains("runAsUser: 65532\n") && pod.contains("runAsGroup: 65532\n"), "the Pod has another user");
    for image in images(artefacts, "holdfast") {
        assert_eq!(image.configuration["config"]["User"], "65532:65532");
        let root = root(&image);
        // The root file system is read-only: a folder for each volume must be there.
        let mounts: Vec<&str> =
            pod.split("mountPath: ").skip(1).map(|rest| rest.split(['}', ',']).next().unwrap()).collect();
        assert!(mounts.len() > 6, "{mounts:?}");
        for mount in mounts {
            assert!(root.contains_key(mount.trim_start_matches('/')), "{mount} is not in the image");
        }
        let authorities = &root["etc/ssl/certs/ca-certificates.crt"].bytes;
        assert!(String::from_utf8_lossy(authorities).matches("BEGIN CERTIFICATE").count() > 100);
        let programs: Vec<&String> =
            root.iter().filter(|(_, entry)| entry.mode == 0o755).map(|(path, _)| path).collect();
        let programs: Vec<&&String> = programs.iter().filter(|path| !root[**path].bytes.is_empty()).collect();
        assert_eq!(programs, [&"usr/local/bin/holdfast"]);
        for (path, entry) in &root {
            assert_eq!(entry.origin, (0, 0, EPOCH), "{path}");
        }
    }
}
