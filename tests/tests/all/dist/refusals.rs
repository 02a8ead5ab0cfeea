//! What `cargo dist` refuses, with the reason; nothing is written then.

use std::env;
use std::fs;
use std::path::Path;

use super::{MACHINES, args, program};

/// The error of a run for amd64 with this binary.
fn error(binary: &Path, out: &Path, more: &[&str]) -> String {
    let mut line = vec!["--target".to_owned(), "amd64".to_owned(), "--binary".to_owned()];
    line.extend([format!("amd64={}", binary.display()), "--out".to_owned(), out.display().to_string()]);
    line.extend(more.iter().map(|argument| (*argument).to_owned()));
    format!("{:#}", holdfast_dist::run(&args(&line)).unwrap_err())
}

#[test]
fn a_binary_must_be_static_and_for_its_platform() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    if cfg!(target_arch = "x86_64") {
        // This test is itself a program that needs shared libraries.
        let own = env::current_exe().unwrap();
        let text = error(&own, &out, &[]);
        assert!(text.contains("libc.so.6") && text.contains("set --dynamic"), "{text}");
        let text = error(&own, &out, &["--dynamic"]);
        assert!(text.contains("set --libraries amd64=DIR"), "{text}");
        let empty = format!("amd64={}", folder.path().display());
        let text = error(&own, &out, &["--dynamic", "--libraries", &empty]);
        assert!(text.contains("ld-linux-x86-64.so.2 is missing in"), "{text}");
    }
    let other = folder.path().join("other");
    fs::write(&other, program(MACHINES[1].1)).unwrap();
    let text = error(&other, &out, &[]);
    assert!(text.contains("a program for another processor than amd64"), "{text}");
    fs::write(&other, "#!/bin/sh\n").unwrap();
    assert!(error(&other, &out, &[]).contains("is no program for Linux"));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["other"]);
}

#[test]
fn a_folder_with_other_files_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (binary, out) = (folder.path().join("holdfast"), folder.path().join("out"));
    fs::write(&binary, program(MACHINES[0].1)).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("letter"), "dear").unwrap();
    let text = error(&binary, &out, &[]);
    assert!(text.contains("has other files than artefacts"), "{text}");
    assert_eq!(fs::read_to_string(out.join("letter")).unwrap(), "dear");
}
