//! Artefacts of a release: what `cargo dist` makes of binaries that it is given, and the workflows that call it.
//!
//! The binaries are empty programs: nothing is built. The story `dist` runs an image.

mod contents;
mod images;
mod refusals;
mod workflows;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Parser;
use flate2::read::GzDecoder;
use holdfast_dist::{DistArgs, Made};
use serde_json::Value;

/// Time of the artefacts of tests.
const EPOCH: u64 = 1_700_000_000;

/// Artefacts of a run.
struct Artefacts {
    out: PathBuf,
    made: Made,
}

/// The machine numbers of ELF.
const MACHINES: [(&str, u8); 2] = [("amd64", 62), ("arm64", 183)];

/// Returns a static program without code: the header of ELF alone.
fn program(machine: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    bytes[16] = 2;
    bytes[18] = machine;
    bytes[20] = 1;
    bytes[52] = 64;
    bytes
}

fn args(line: &[String]) -> DistArgs {
    let epoch = ["--source-date-epoch".to_owned(), EPOCH.to_string()];
    DistArgs::try_parse_from(["dist".to_owned()].iter().chain(&epoch).chain(line)).unwrap()
}

/// Returns the artefacts that all tests read, made once in cargo's folder for files of tests.
fn artefacts(with_envoy: bool) -> &'static Artefacts {
    static MADE: [OnceLock<Artefacts>; 2] = [const { OnceLock::new() }; 2];
    MADE[usize::from(with_envoy)].get_or_init(|| {
        let name = if with_envoy { "dist-with-envoy" } else { "dist-without-envoy" };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        make(&folder, with_envoy)
    })
}

/// Makes artefacts for both platforms; with an Envoy that is an empty program as well.
fn make(folder: &Path, with_envoy: bool) -> Artefacts {
    let mut line = Vec::new();
    for (platform, machine) in MACHINES {
        let path = folder.join(platform);
        fs::write(&path, program(machine)).unwrap();
        let flags = if with_envoy { &["--binary", "--envoy"][..] } else { &["--binary"] };
        line.extend(flags.iter().flat_map(|flag| [(*flag).to_owned(), format!("{platform}={}", path.display())]));
    }
    let out = folder.join("out");
    line.extend(["--out".to_owned(), out.display().to_string()]);
    line.extend(["--repository".to_owned(), "registry.example.com/team".to_owned()]);
    if with_envoy {
        line.extend(["--download-url".to_owned(), "https://downloads.example.com/v1".to_owned()]);
    }
    let made = holdfast_dist::run(&args(&line)).unwrap();
    Artefacts { out, made }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// An entry of an archive.
struct Entry {
    bytes: Vec<u8>,
    mode: u32,
    /// Owner, group and time.
    origin: (u64, u64, u64),
}

/// Returns the entries of a compressed archive by their path, which must be in order.
fn entries(compressed: &[u8]) -> BTreeMap<String, Entry> {
    let mut archive = tar::Archive::new(GzDecoder::new(compressed));
    let mut found = BTreeMap::new();
    let mut order = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
        let header = entry.header();
        let origin = (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
        let mode = header.mode().unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        order.push(path.clone());
        assert!(found.insert(path.clone(), Entry { bytes, mode, origin }).is_none(), "{path} twice");
    }
    assert!(order.iter().is_sorted(), "{order:?}");
    found
}
