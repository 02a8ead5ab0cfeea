//! The same objects result in the same bytes in every process, independent of the order of maps in the process.

use std::process::Command;

use holdfast_api::settings::Settings;
use holdfast_test_support as testing;

/// The environment variable of the child process, which only prints its versions.
const VERSIONS_VARIABLE: &str = "HOLDFAST_TEST_VERSIONS";
/// Objects with everything that is put into maps: per-route settings, protocol options, several certificates.
const OBJECTS: [&str; 6] = [
    include_str!("../../golden/include/shop.yaml"),
    include_str!("../../golden/include/certificates.yaml"),
    include_str!("../../golden/filters/cors.yaml"),
    include_str!("../../golden/grpc/matches.yaml"),
    include_str!("../../golden/tls/sni.yaml"),
    include_str!("../../golden/proxies/cookies.yaml"),
];

fn versions() -> String {
    let engine = testing::engine(&OBJECTS.join("\n---\n"), Settings::standalone());
    let lines = testing::served(&engine)
        .into_iter()
        .map(|(gateway, kind, name, version, _)| format!("version {gateway} {} {name} {version}", kind.short_name()));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn versions_are_the_same_in_another_process() {
    let own = versions();
    if std::env::var_os(VERSIONS_VARIABLE).is_some() {
        println!("\n{own}");
        return;
    }
    assert!(own.lines().count() > 10, "{own}");
    let name = "processes::versions_are_the_same_in_another_process";
    for _ in 0..3 {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(VERSIONS_VARIABLE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<&str> = text.lines().filter(|line| line.starts_with("version ")).collect();
        assert_eq!(printed.join("\n"), own);
    }
}
