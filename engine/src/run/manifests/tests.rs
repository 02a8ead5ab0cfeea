//! Folders as people and ConfigMap mounts make them: read, read again, and broken in every way.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::entry::OBJECT_BYTES_MAX;
use super::read::REST;
use super::{Incarnations, Manifests, Problem, Reading, Root};
use crate::engine::Event;
use crate::object::Object;

/// A folder of manifests, and another one for data.
struct Folder {
    manifests: TempDir,
    data: TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { manifests: tempfile::tempdir().unwrap(), data: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.manifests.path().join(name)
    }

    /// Writes a file that has rested since.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        rest(&path);
    }

    fn open(&self) -> Manifests {
        let incarnations = Incarnations::open(self.data.path()).unwrap();
        Manifests::new(vec![Root { path: self.manifests.path().into() }], incarnations, true)
    }
}

/// Lets a file look as if it had not changed for a while.
fn rest(path: &Path) {
    let then = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

fn class(name: &str) -> String {
    described(name, "one")
}

/// A GatewayClass whose spec differs with the description.
fn described(name: &str, description: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: {name}}}\n\
         spec: {{controllerName: example.com/c, description: {description}}}\n"
    )
}

/// `+name`, `!name` and `-name` for objects that were applied, are unusable, and were deleted.
fn events(reading: &Reading) -> Vec<String> {
    let short = |event: &Event| match event {
        Event::Applied(object, _) => format!("+{}", object.key.name),
        Event::Unusable(key, _) => format!("!{}", key.name),
        Event::Unread(key, _) => format!("?{}", key.name),
        Event::Deleted(key) => format!("-{}", key.name),
        _ => "?".into(),
    };
    reading.events.iter().map(short).collect()
}

fn applied<'a>(reading: &'a Reading, name: &str) -> &'a Object {
    let found = reading.events.iter().find_map(|event| match event {
        Event::Applied(object, _) if &*object.key.name == name => Some(object),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{name} is not applied: {:?}", events(reading)))
}

fn fault_messages(reading: &Reading) -> Vec<String> {
    let faults = reading.events.iter().flat_map(|event| match event {
        Event::Applied(_, faults) | Event::Unusable(_, faults) => faults.as_slice(),
        _ => &[],
    });
    faults.map(|fault| fault.to_string()).collect()
}

fn only(problems: &[Problem]) -> &Problem {
    assert_eq!(problems.len(), 1, "{problems:?}");
    &problems[0]
}

#[test]
fn folders_are_read_with_all_below_and_only_changes_are_told() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a") + "---\n" + &class("b"));
    folder.write("deep/er/c.yml", class("c"));
    let list =
        r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"d"}}]}"#;
    folder.write("d.json", list);
    folder.write("notes.txt", "not: [a manifest");
    folder.write("deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n");
    let mut manifests = folder.open();
    let first = manifests.read();
    assert_eq!(events(&first), ["+d", "+a", "+b", "+c"]);
    assert_eq!(first.problems, []);
    assert_eq!((first.files, first.objects, first.foreign.len()), (4, 4, 1));
    assert_eq!(applied(&first, "b").source.as_ref().unwrap().line, 6);

    assert_eq!(events(&manifests.read()), [""; 0]);
    folder.write("a.yaml", class("a") + "---\n" + &described("b", "other"));
    assert_eq!(events(&manifests.read()), ["+b"]);
    fs::remove_file(folder.path("deep/er/c.yml")).unwrap();
    assert_eq!(events(&manifests.read()), ["-c"]);
}

#[test]
fn a_file_that_does_not_parse_keeps_what_it_held_and_is_told_with_its_line() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a"));
    folder.write("b.yaml", class("b"));
    let mut manifests = folder.open();
    manifests.read();
    folder.write("a.yaml", "spec:\n  x: [1\n");
    folder.write("b.yaml", described("b", "other"));
    let reading = manifests.read();
    assert_eq!(events(&reading), ["+b"]);
    let problem = only(&reading.problems);
    assert!(problem.file.ends_with("a.yaml") && problem.line >= 2 && problem.column > 0, "{problem}");
    folder.write("a.yaml", described("a", "other"));
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.problems), (vec!["+a".to_owned()], vec![]));
}

#[test]
fn a_file_that_does_not_parse_at_the_start_is_no_deletion() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a") + "---\n" + &class("b"));
    folder.write("c.yaml", class("c"));
    folder.write("d.yaml", class("d"));
    let mut manifests = folder.open();
    let first = manifests.read();
    let uid = applied(&first, "a").metadata.uid.clone();
    manifests.save();

    folder.write("a.yaml", class("b") + "---\nspec: [1\n");
    folder.write("d.yaml", "spec: [1\n");
    fs::remove_file(folder.path("c.yaml")).unwrap();
    let mut manifests = folder.open();
    let reading = manifests.read();
    assert_eq!(events(&reading), ["?a", "?d", "+b"], "c was deleted");
    manifests.save();
    let mut manifests = folder.open();
    assert_eq!(events(&manifests.read()), ["?a", "?d", "+b"], "nor is a second start one");
    assert_eq!(events(&manifests.read()), [""; 0]);

    folder.write("a.yaml", class("a"));
    fs::remove_file(folder.path("d.yaml")).unwrap();
    let reading = manifests.read();
    assert_eq!(events(&reading), ["-b", "-d", "+a"]);
    assert_eq!(applied(&reading, "a").metadata.uid, uid);
}

#[test]
fn what_parses_of_a_broken_file_is_used_where_nothing_better_is_known() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a") + "---\nx: [1\n---\n" + &class("c"));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+a", "+c"]);
    only(&reading.problems);
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_place() {
    let folder = Folder::new();
    folder.write("a.yaml", b"a: 1\nb: \xff\n");
    folder.write("b.yaml", format!("\u{feff}{}", class("b")));
    let reading = folder.open().read();
    let problem = only(&reading.problems);
    assert_eq!((problem.line, problem.column), (2, 4));
    assert!(problem.message.contains("UTF-8"));
    assert_eq!(events(&reading), ["+b"]);
}

#[test]
fn objects_that_are_too_large_are_faults_of_their_own() {
    let folder = Folder::new();
    let large = "x".repeat(2 * 1024 * 1024);
    folder.write("a.yaml", class("a") + "---\n" + &described("large", &large));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+a", "!large"]);
    let messages = fault_messages(&reading);
    assert!(messages[0].contains("large") && messages[0].contains(&OBJECT_BYTES_MAX.to_string()), "{messages:?}");
}

#[test]
fn keys_given_twice_make_the_object_unusable_and_nothing_else() {
    let folder = Folder::new();
    let twice = class("twice").replace("spec: {", "spec: {controllerName: a.b/c, ");
    folder.write("a.yaml", twice + "---\n" + &class("b"));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+b", "!twice"]);
    assert!(fault_messages(&reading)[0].contains("spec.controllerName"), "{:?}", fault_messages(&reading));
}

#[test]
fn documents_that_are_no_objects_are_problems_of_their_place() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        "just text\n---\nkind: GatewayClass\n---\n".to_owned() + &class("UPPER") + "---\n" + &class("b"),
    );
    folder.write("typo.yaml", class("typo").replace("k8s.io", "k8s.oi"));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+b"]);
    let lines: Vec<u32> = reading.problems.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 3, 5, 1], "{:?}", reading.problems);
}

#[test]
fn an_object_that_loses_its_name_is_not_taken_for_deleted() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a") + "---\n" + &class("b"));
    let mut manifests = folder.open();
    manifests.read();
    for (broken, other) in [("kind:", "knid:"), ("k8s.io", "k8s.oi")] {
        folder.write("a.yaml", class("a").replace(broken, other) + "---\n" + &described("b", &format!("{other:?}")));
        let reading = manifests.read();
        assert_eq!(events(&reading), ["+b"]);
        only(&reading.problems);
    }
    folder.write("a.yaml", class("b"));
    assert_eq!(events(&manifests.read()), ["-a", "+b"]);
}

#[test]
fn of_two_definitions_the_first_by_path_counts_and_both_places_are_told() {
    let folder = Folder::new();
    folder.write("b.yaml", described("x", "later"));
    folder.write("a.yaml", class("other") + "---\n" + &described("x", "first"));
    let mut manifests = folder.open();
    let reading = manifests.read();
    assert!(applied(&reading, "x").source.as_ref().unwrap().file.ends_with("a.yaml"));
    let messages = fault_messages(&reading);
    assert!(messages[0].contains("a.yaml:6") && messages[0].contains("b.yaml:1"), "{messages:?}");
    // The other one takes its place as the same object.
    let uid = applied(&reading, "x").metadata.uid.clone();
    fs::remove_file(folder.path("a.yaml")).unwrap();
    let reading = manifests.read();
    assert_eq!(events(&reading), ["-other", "+x"]);
    assert_eq!(applied(&reading, "x").metadata.uid, uid);
    assert_eq!(fault_messages(&reading), [""; 0]);
}

/// Reads, and writes down which objects there are.
fn read_and_save(manifests: &mut Manifests) -> Reading {
    let reading = manifests.read();
    manifests.save();
    reading
}

#[test]
fn created_again_is_another_object_and_a_restart_is_not() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a"));
    let first = applied(&read_and_save(&mut folder.open()), "a").metadata.clone();
    assert_eq!(first.generation, 1);

    let mut again = folder.open();
    assert_eq!(applied(&read_and_save(&mut again), "a").metadata, first);
    folder.write("a.yaml", described("a", "other"));
    let changed = applied(&read_and_save(&mut again), "a").metadata.clone();
    assert_eq!((changed.uid.clone(), changed.generation), (first.uid.clone(), 2));
    assert_eq!(applied(&folder.open().read(), "a").metadata.generation, 2);

    fs::remove_file(folder.path("a.yaml")).unwrap();
    read_and_save(&mut again);
    folder.write("a.yaml", class("a"));
    let created_again = applied(&read_and_save(&mut again), "a").metadata.clone();
    assert_ne!(created_again.uid, first.uid);
    assert_eq!(created_again.generation, 1);

    // Deleted while nobody looked.
    fs::remove_file(folder.path("a.yaml")).unwrap();
    read_and_save(&mut folder.open());
    folder.write("a.yaml", class("a"));
    assert_ne!(applied(&folder.open().read(), "a").metadata.uid, created_again.uid);
}

#[test]
fn what_is_written_in_metadata_is_kept_as_written() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a").replace("{name: a}", "{name: a, uid: mine, generation: 7}"));
    let mut manifests = folder.open();
    let reading = manifests.read();
    let metadata = &applied(&reading, "a").metadata;
    assert_eq!((&*metadata.uid, metadata.generation), ("mine", 7));
}

#[test]
fn a_damaged_list_of_identities_is_set_aside() {
    let folder = Folder::new();
    fs::write(folder.data.path().join(super::incarnations::FILE), "{\"format\": 9").unwrap();
    folder.write("a.yaml", class("a"));
    assert_eq!(events(&folder.open().read()), ["+a"]);
    assert!(folder.data.path().join("incarnations.json.unreadable").exists());
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_changes_as_a_whole() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    folder.write("..1/a.yaml", class("a"));
    folder.write("..1/b.yaml", class("b"));
    symlink("..1", folder.path("..data")).unwrap();
    symlink("..data/a.yaml", folder.path("a.yaml")).unwrap();
    symlink("..data/b.yaml", folder.path("b.yaml")).unwrap();
    let mut manifests = folder.open();
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.files), (vec!["+a".to_owned(), "+b".to_owned()], 2));

    folder.write("..2/a.yaml", described("a", "other"));
    folder.write("..2/b.yaml", described("b", "other"));
    symlink("..2", folder.path("..data_tmp")).unwrap();
    fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
    fs::remove_dir_all(folder.path("..1")).unwrap();
    assert_eq!(events(&manifests.read()), ["+a", "+b"]);
}

#[cfg(unix)]
#[test]
fn circles_of_links_end() {
    let folder = Folder::new();
    folder.write("deep/a.yaml", class("a"));
    std::os::unix::fs::symlink("..", folder.path("deep/up")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path("dangling.yaml")).unwrap();
    let reading = folder.open().read();
    assert_eq!((events(&reading), reading.problems), (vec!["+a".to_owned()], vec![]));
}

#[test]
fn a_root_that_is_gone_for_a_while_takes_nothing_with_it() {
    let folder = Folder::new();
    folder.write("m/a.yaml", class("a"));
    let root = Root { path: folder.path("m") };
    let mut manifests = Manifests::new(vec![root], Incarnations::in_memory(), false);
    manifests.read();
    fs::rename(folder.path("m"), folder.path("moved")).unwrap();
    let reading = manifests.read();
    assert_eq!(events(&reading), [""; 0]);
    only(&reading.problems);
    fs::rename(folder.path("moved"), folder.path("m")).unwrap();
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.problems), (vec![], vec![]));
}

#[test]
fn a_file_that_is_still_being_written_is_waited_for() {
    // Where this machine stands still for longer than a file needs to rest, nothing was shown: once more.
    assert!((0..100).any(|_| half_written_is_waited_for()));
}

fn half_written_is_waited_for() -> bool {
    let folder = Folder::new();
    folder.write("a.yaml", class("a"));
    let mut manifests = folder.open();
    manifests.read();
    let now = SystemTime::now();
    fs::write(folder.path("a.yaml"), &class("a")[..20]).unwrap();
    let reading = manifests.read();
    if now.elapsed().unwrap() >= REST {
        return false;
    }
    assert_eq!((events(&reading), reading.problems, reading.restless), (vec![], vec![], true));
    folder.write("a.yaml", described("a", "whole"));
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.restless), (vec!["+a".to_owned()], false));
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_seen_as_they_come() {
    let folder = Folder::new();
    folder.write("a.yaml", class("a"));
    let (sender, mut readings) = tokio::sync::mpsc::channel(4);
    super::watch::start(folder.open(), sender).unwrap();
    let mut next = async || tokio::time::timeout(Duration::from_secs(60), readings.recv()).await.unwrap().unwrap();
    assert_eq!(events(&next().await), ["+a"]);
    fs::create_dir(folder.path("new")).unwrap();
    fs::write(folder.path("new/b.yaml"), class("b")).unwrap();
    assert_eq!(events(&next().await), ["+b"]);
    // As editors save: another file takes the name.
    fs::write(folder.path("new/.b.tmp"), described("b", "other")).unwrap();
    fs::rename(folder.path("new/.b.tmp"), folder.path("new/b.yaml")).unwrap();
    assert_eq!(events(&next().await), ["+b"]);
    fs::write(folder.path("a.yaml"), "x: [").unwrap();
    let broken = next().await;
    assert_eq!(events(&broken), [""; 0]);
    only(&broken.problems);
    fs::remove_dir_all(folder.path("new")).unwrap();
    assert_eq!(events(&next().await), ["-b"]);
}
