//! Everything beside images: the same bytes twice, checksums, archives, lists of components, chart and changelog.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Artefacts, artefacts, entries, json, make};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn two_runs_make_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (artefacts(true), &make(folder.path(), true));
    let sums = |artefacts: &super::Artefacts| fs::read_to_string(artefacts.out.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(first), sums(second));
    assert_eq!(first.made.images, second.made.images);
    assert_eq!(first.made.notes, [""; 0]);
    let named: Vec<_> = sums(first).lines().map(|line| line.split_once("  ").unwrap().1.to_owned()).collect();
    assert_eq!(named, first.made.files[..first.made.files.len() - 1], "all files but the last one, SHA256SUMS");
    for name in [
        "CHANGELOG.md",
        "images.txt",
        "holdfast.oci/index.json",
        "holdfast-envoy.oci/index.json",
        &format!("holdfast-{VERSION}.tgz"),
        &format!("holdfast-{VERSION}-linux-amd64.tar.gz"),
        &format!("holdfast-{VERSION}-linux-arm64.tar.gz"),
        &format!("holdfast-{VERSION}-linux-arm64.cdx.json"),
        &format!("holdfast-envoy-{VERSION}-image-linux-arm64.cdx.json"),
    ] {
        assert!(named.contains(&name.to_owned()), "{name} is missing: {named:?}");
    }
}

#[test]
fn checksums_are_those_of_sha256sum() {
    let artefacts = artefacts(false);
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&artefacts.out);
    let output = check.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_archive_has_the_program_its_licence_completion_and_man_pages() {
    let artefacts = artefacts(false);
    let folder = format!("holdfast-{VERSION}-linux-arm64");
    let files = entries(&fs::read(artefacts.out.join(format!("{folder}.tar.gz"))).unwrap());
    let file = |name: &str| &files[&format!("{folder}/{name}")];
    assert_eq!((file("holdfast").mode, file("LICENSE").mode), (0o755, 0o644));
    for name in ["completion/holdfast.bash", "completion/_holdfast", "completion/holdfast.fish", "man/holdfast-run.1"] {
        assert!(String::from_utf8_lossy(&file(name).bytes).contains("holdfast"), "{name}");
    }
    let list = fs::read(artefacts.out.join(format!("{folder}.cdx.json"))).unwrap();
    assert_eq!(file("holdfast.cdx.json").bytes, list);
}

#[test]
fn a_list_has_the_packages_of_the_program_and_of_no_build_or_test() {
    let artefacts = artefacts(true);
    let list = json(&artefacts.out.join(format!("holdfast-{VERSION}-linux-amd64.cdx.json")));
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(list["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let components = list["components"].as_array().unwrap();
    let found = |name: &str| components.iter().find(|component| component["name"] == name);
    let sled = found("sled").unwrap();
    assert_eq!(sled["purl"], "pkg:cargo/sled@0.34.7");
    assert_eq!(sled["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(sled["hashes"][0]["alg"], "SHA-256");
    assert!(found("rust-std").is_some() && found("holdfast-engine").is_some());
    for other in ["proptest", "serde_derive", "cc", "holdfast-dist", "windows-sys"] {
        assert!(found(other).is_none(), "{other} is in no binary");
    }
    let ids: Vec<&str> = components.iter().map(|component| component["bom-ref"].as_str().unwrap()).collect();
    let used = list["dependencies"].as_array().unwrap().iter().flat_map(|entry| entry["dependsOn"].as_array());
    for used in used.flatten() {
        assert!(ids.contains(&used.as_str().unwrap()), "{used} is used, and is not in the list");
    }
    let image = json(&artefacts.out.join(format!("holdfast-envoy-{VERSION}-image-linux-amd64.cdx.json")));
    let names: Vec<&Value> = image["components"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    for name in ["/usr/local/bin/envoy", "/usr/local/bin/holdfast", "/etc/ssl/certs/ca-certificates.crt", "sled"] {
        assert!(names.contains(&&Value::from(name)), "{name} is missing");
    }
}

#[test]
fn the_packaged_chart_names_the_images_of_the_run() {
    for with_envoy in [true, false] {
        let artefacts = artefacts(with_envoy);
        let files = entries(&fs::read(artefacts.out.join(format!("holdfast-{VERSION}.tgz"))).unwrap());
        let values: Value = serde_saphyr::from_slice(&files["holdfast/values.yaml"].bytes).unwrap();
        let (name, digest) = artefacts.made.images.last().unwrap();
        let repository = format!("registry.example.com/team/{name}");
        assert_eq!(name == "holdfast-envoy", with_envoy);
        assert_eq!(values["image"]["repository"], repository.as_str());
        assert_eq!(values["image"]["digest"], digest.as_str());
        assert_eq!(values["probe"]["mode"], if with_envoy { "auto" } else { "off" });
        let deployed = values["provision"]["image"].as_str().unwrap();
        assert_eq!(deployed == format!("{repository}@{digest}"), with_envoy, "{deployed}");
        assert!(files.contains_key("holdfast/Chart.yaml"));
        assert!(files.contains_key("holdfast/charts/gateway-api-crds/crds/standard-install.yaml"));
        let loud = artefacts.made.report();
        assert_eq!(loud.contains("NOTE: there is no image holdfast-envoy"), !with_envoy, "{loud}");
    }
}

#[test]
fn the_changelog_has_every_note() {
    let artefacts = artefacts(false);
    let text = fs::read_to_string(artefacts.out.join("CHANGELOG.md")).unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/changes/unreleased");
    let notes = fs::read_dir(folder).unwrap().map(|note| fs::read_to_string(note.unwrap().path()).unwrap());
    for note in notes {
        let first = note.lines().next().unwrap().replace("](../../", "](docs/");
        let first = if first.starts_with('#') { format!("#{first}") } else { first };
        assert!(text.contains(&format!("\n{first}\n")), "{first:?} is missing");
    }
    assert!(!text.contains("](.."), "a link is relative to the folder of notes");
}

/// The manifest of the plugin has the checksums of the archives; without a URL there is no manifest.
#[test]
fn the_manifest_of_the_plugin_has_the_archives() {
    let Artefacts { out, made } = artefacts(true);
    let manifest = fs::read_to_string(out.join("holdfast.yaml")).unwrap();
    let manifest: Value = serde_saphyr::from_str(&manifest).unwrap();
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let name = platform["uri"].as_str().unwrap().strip_prefix("https://downloads.example.com/v1/").unwrap();
        let line = format!("{}  {name}\n", platform["sha256"].as_str().unwrap());
        assert!(sums.contains(&line), "{line} is not in\n{sums}");
    }
    assert!(made.notes.is_empty(), "{:?}", made.notes);
    let Artefacts { out, made } = artefacts(false);
    assert!(!out.join("holdfast.yaml").exists());
    assert!(made.notes.iter().any(|note| note.contains("--download-url")), "{:?}", made.notes);
}
