//! Random changes of files: a reading that looks at the changed paths finds what a reading of all files finds.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use holdfast_engine::engine::Event;
use holdfast_kubernetes::watching::DeletionGuard;

use super::files::Signature;
use super::read::REST;
use super::tree::ChangedFiles;
use super::{Incarnations, ManifestReading, Manifests, Readings, Root};

/// Numbers of a linear congruential generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn open(folder: &Path) -> Manifests {
    let root = Root { path: folder.to_owned() };
    Manifests::new(vec![root], Incarnations::in_memory(), Readings::Repeated).guarded(DeletionGuard::new(false))
}

/// What a reading found, as text.
fn found(reading: &ManifestReading) -> String {
    let event = |event: &Event| match event {
        Event::Applied(object, faults) => {
            let (key, generation) = (&object.key, object.metadata.generation);
            format!("+{key} {generation} {} {faults:?} {:?}", object.metadata.uid, object.body)
        }
        Event::Deleted(key) => format!("-{key}"),
        other => format!("{other:?}"),
    };
    let events: Vec<String> = reading.events.iter().map(event).collect();
    let ManifestReading { places, problems, foreign, files, objects, .. } = reading;
    format!("{events:#?}\n{places:?}\n{problems:#?}\n{foreign:?}\n{files} files, {objects} objects")
}

/// A text with some GatewayClasses, or a broken one.
fn text(numbers: &mut Numbers) -> String {
    if numbers.below(8) == 0 {
        return "kind: [".into();
    }
    let class = |numbers: &mut Numbers| {
        let (name, description) = (numbers.below(6), numbers.below(3));
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: c{name}}}\n\
             spec: {{controllerName: a/b, description: \"{description}\"}}\n---\n"
        )
    };
    (0..numbers.below(4)).map(|_| class(numbers)).collect()
}

/// Writes a file that is old enough to be read at once.
fn write(path: &Path, text: &str) {
    // Errors are part of the test: the path may be a folder, or its folder may be gone.
    let Ok(()) = fs::write(path, text) else { return };
    let long_ago = SystemTime::now().checked_sub(50 * REST).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
}

/// Two random paths, and the folders that a change may move.
fn paths(folder: &Path, numbers: &mut Numbers) -> Vec<PathBuf> {
    let folders = ["", "x", "y", "x/z"];
    let names = ["a.yaml", "b.yaml", "c.json", "d.txt", ".e.yaml", "x.yaml"];
    let mut any = || {
        let at = folder.join(folders[usize::try_from(numbers.below(4)).unwrap()]);
        at.join(names[usize::try_from(numbers.below(6)).unwrap()])
    };
    vec![any(), any(), folder.join("x"), folder.join("y"), folder.join("x/z")]
}

/// Changes something below a folder.
fn change(folder: &Path, paths: &[PathBuf], numbers: &mut Numbers) {
    let (path, other) = (&paths[0], &paths[1]);
    // An operation that is impossible now changes nothing.
    match numbers.below(12) {
        0 => drop(fs::remove_file(path)),
        1 => drop(fs::rename(path, other)),
        2 => drop(fs::create_dir_all(folder.join("x/z"))),
        3 => drop(fs::rename(folder.join("x"), folder.join("y"))),
        4 => drop(fs::remove_dir_all(folder.join("y"))),
        5 if numbers.below(3) == 0 => drop(std::os::unix::fs::symlink(other, path)),
        6 if numbers.below(2) == 0 => drop(fs::create_dir(path)),
        7 => drop(fs::remove_dir(path)),
        _ => write(path, &text(numbers)),
    }
}

/// Returns the states of paths, as a notification of the operating system would compare them.
fn states(paths: &[PathBuf]) -> Vec<Option<String>> {
    let state = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(format!("{:?} {:?}", metadata.file_type(), Signature::of(&metadata)))
    };
    paths.iter().map(state).collect()
}

#[test]
fn known_changes_give_the_result_of_a_search() {
    let mut partial = 0;
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("x/z")).unwrap();
        let (mut known, mut searching) = (open(folder.path()), open(folder.path()));
        assert_eq!(found(&known.read()), found(&searching.read()));
        for step in 0..60 {
            let paths = paths(folder.path(), &mut numbers);
            let before = states(&paths);
            change(folder.path(), &paths, &mut numbers);
            let after = states(&paths);
            let changed = paths.iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
            let changed = changed.map(|(path, _)| path.clone()).collect();
            let changes = ChangedFiles { paths: Some(changed), complete: HashSet::new() };
            partial += usize::from(known.looks_at_changes(&changes));
            assert_eq!(found(&known.read_with(&changes)), found(&searching.read()), "seed {seed}, step {step}");
        }
    }
    assert!(partial > 300, "only {partial} readings did without a search");
}
