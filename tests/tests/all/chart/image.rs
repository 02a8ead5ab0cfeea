//! Container image: its toolchain and its Envoy are those of the tests, its user is that of the Pod.

use std::fs;
use std::path::Path;

use holdfast_cli::envoy;

use super::yaml;

fn top(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap()
}

#[test]
fn versions_are_those_of_the_repository() {
    let image = top("charts/image/Dockerfile");
    assert!(image.contains(&format!("envoyproxy/envoy:distroless-v{}", envoy::RELEASE)), "another Envoy");
    let toolchain = top("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"')).unwrap();
    assert!(image.contains(&format!("FROM rust:{channel}-")), "another Rust than {channel}");
    assert_eq!(yaml("Chart.yaml")["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn its_user_is_the_one_that_the_pod_runs_as() {
    let image = top("charts/image/Dockerfile");
    let pod = super::text("templates/_pod.tpl");
    assert!(image.contains("\nUSER 65532:65532\n"), "the image has another user");
    assert!(pod.contains("runAsUser: 65532\n") && pod.contains("runAsGroup: 65532\n"), "the Pod has another user");
}
