//! Tests of folders as users and ConfigMap mounts make them: read, read again, and broken in many ways.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use holdfast_api::object::Object;
use holdfast_engine::engine::Event;
use holdfast_kubernetes::watching::DeletionGuard;
use tempfile::TempDir;

use super::entry::OBJECT_BYTES_MAX;
use super::read::{MISSING_HELD, REST};
use super::tree::ChangedFiles;
use super::{Incarnations, ManifestReading, Manifests, Problem, Readings, Root};
use crate::admin::input_metrics::Pulse;

/// A folder of manifests, and another one for data.
pub(super) struct ManifestFolder {
    manifests: TempDir,
    data: TempDir,
}

impl ManifestFolder {
    pub(super) fn new() -> Self {
        Self { manifests: tempfile::tempdir().unwrap(), data: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.manifests.path().join(name)
    }

    /// Writes a file with an old modification time.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        rest(&path);
    }

    pub(super) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    pub(super) fn open(&self) -> Manifests {
        let incarnations = Incarnations::open(self.data.path()).unwrap();
        Manifests::new(vec![Root { path: self.manifests.path().into() }], incarnations, Readings::Repeated)
    }
}

/// Sets the modification time of a file to a minute ago.
fn rest(path: &Path) {
    let then = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().append(true).open(path).unwrap().set_modified(then).unwrap();
}

pub(super) fn class(name: &str) -> String {
    described(name, "one")
}

/// A GatewayClass with this description in its spec.
pub(super) fn described(name: &str, description: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: {name}}}\n\
         spec: {{controllerName: example.com/c, description: {description}}}\n"
    )
}

/// `+name`, `!name`, `-name`, `?name` and `~name` for objects that were applied, are unusable, were deleted, are unread,
/// and are uncertain.
pub(super) fn events(reading: &ManifestReading) -> Vec<String> {
    let short = |event: &Event| match event {
        Event::Applied(object, _) => format!("+{}", object.key.name),
        Event::Unusable(key, _) => format!("!{}", key.name),
        Event::Unread(key, _) => format!("?{}", key.name),
        Event::Uncertain(object, ..) => format!("~{}", object.key.name),
        Event::Deleted(key) => format!("-{}", key.name),
        _ => "?".into(),
    };
    reading.events.iter().map(short).collect()
}

fn applied<'a>(reading: &'a ManifestReading, name: &str) -> &'a Object {
    let found = reading.events.iter().find_map(|event| match event {
        Event::Applied(object, _) if &*object.key.name == name => Some(object),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{name} is not applied: {:?}", events(reading)))
}

fn fault_messages(reading: &ManifestReading) -> Vec<String> {
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
fn folders_are_read_recursively_and_only_changes_are_reported() {
    let folder = ManifestFolder::new();
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
fn an_unparsable_file_keeps_its_objects_and_is_reported_with_its_line() {
    let folder = ManifestFolder::new();
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
    let folder = ManifestFolder::new();
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
    assert_eq!(events(&reading), ["?a", "~b", "?d"], "c was deleted");
    manifests.save();
    let mut manifests = folder.open();
    assert_eq!(events(&manifests.read()), ["?a", "~b", "?d"], "nor is a second start one");
    assert_eq!(events(&manifests.read()), [""; 0]);

    folder.write("a.yaml", class("a"));
    fs::remove_file(folder.path("d.yaml")).unwrap();
    let reading = manifests.read();
    assert_eq!(events(&reading), ["-b", "-d", "+a"]);
    assert_eq!(applied(&reading, "a").metadata.uid, uid);
}

#[test]
fn what_parses_of_a_broken_file_is_used_where_nothing_better_is_known() {
    let folder = ManifestFolder::new();
    folder.write("a.yaml", class("a") + "---\nx: [1\n---\n" + &class("c"));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+a", "+c"]);
    only(&reading.problems);
}

#[test]
fn invalid_utf8_is_reported_with_its_position() {
    let folder = ManifestFolder::new();
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
    let folder = ManifestFolder::new();
    let large = "x".repeat(2 * 1024 * 1024);
    folder.write("a.yaml", class("a") + "---\n" + &described("large", &large));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+a", "!large"]);
    let messages = fault_messages(&reading);
    assert!(messages[0].contains("large") && messages[0].contains(&OBJECT_BYTES_MAX.to_string()), "{messages:?}");
}

#[test]
fn keys_given_twice_make_the_object_unusable_and_nothing_else() {
    let folder = ManifestFolder::new();
    let twice = class("twice").replace("spec: {", "spec: {controllerName: a.b/c, ");
    folder.write("a.yaml", twice + "---\n" + &class("b"));
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+b", "!twice"]);
    assert!(fault_messages(&reading)[0].contains("spec.controllerName"), "{:?}", fault_messages(&reading));
}

#[test]
fn documents_that_are_no_objects_are_problems_of_their_place() {
    let folder = ManifestFolder::new();
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
fn two_objects_in_one_document_and_misspelt_groups_lose_their_names() {
    let contents = |text: &str| {
        let found = super::entry::contents(&"a.yaml".into(), text.as_bytes(), super::entry::KeptOfManifest::Objects);
        (found.entries.len(), found.certain(), found.problems.into_iter().map(|one| one.message).collect::<Vec<_>>())
    };
    let twice =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n";
    let message = "apiVersion is given twice: a line with --- is missing between two objects, of which none is used";
    assert_eq!(contents(twice), (0, false, vec![message.to_owned()]));
    for group in ["projectcontours.io", "PROJECTCONTOUR.IO", "xprojectcontour.io"] {
        let (objects, certain, problems) =
            contents(&format!("apiVersion: {group}/v1\nkind: HTTPProxy\nmetadata: {{name: a}}\n"));
        assert!(
            objects == 0 && !certain && problems[0].contains("Holdfast reads HTTPProxy of projectcontour.io"),
            "{problems:?}"
        );
    }
}

#[test]
fn an_object_that_loses_its_name_is_not_taken_for_deleted() {
    let folder = ManifestFolder::new();
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
fn of_two_definitions_the_first_by_path_counts_and_both_positions_are_reported() {
    let folder = ManifestFolder::new();
    folder.write("b.yaml", described("x", "later"));
    folder.write("a.yaml", class("other") + "---\n" + &described("x", "first"));
    let mut manifests = folder.open();
    let reading = manifests.read();
    assert!(applied(&reading, "x").source.as_ref().unwrap().file.ends_with("a.yaml"));
    let messages = fault_messages(&reading);
    assert!(messages[0].contains("a.yaml:6") && messages[0].contains("b.yaml:1"), "{messages:?}");
    // The other definition replaces it as the same object.
    let uid = applied(&reading, "x").metadata.uid.clone();
    fs::remove_file(folder.path("a.yaml")).unwrap();
    let reading = manifests.read();
    assert_eq!(events(&reading), ["-other", "+x"]);
    assert_eq!(applied(&reading, "x").metadata.uid, uid);
    assert_eq!(fault_messages(&reading), [""; 0]);
}

/// Reads, and saves which objects exist.
pub(super) fn read_and_save(manifests: &mut Manifests) -> ManifestReading {
    let reading = manifests.read();
    manifests.save();
    reading
}

#[test]
fn created_again_is_another_object_and_a_restart_is_not() {
    let folder = ManifestFolder::new();
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

    // The object is deleted while Holdfast does not run.
    fs::remove_file(folder.path("a.yaml")).unwrap();
    read_and_save(&mut folder.open());
    folder.write("a.yaml", class("a"));
    assert_ne!(applied(&folder.open().read(), "a").metadata.uid, created_again.uid);
}

#[test]
fn age_without_a_creation_time_is_the_order_of_first_reading() {
    let folder = ManifestFolder::new();
    folder.write("v.yaml", class("victim"));
    let mut manifests = folder.open();
    let victim = applied(&read_and_save(&mut manifests), "victim").clone();
    folder.write("a.yaml", class("aaa") + "---\n" + &class("bbb"));
    let reading = read_and_save(&mut manifests);
    let (a, b) = (applied(&reading, "aaa").clone(), applied(&reading, "bbb").clone());
    assert!(victim.age() < a.age(), "the object that was there first is the older one");
    assert!(a.age() < b.age(), "objects of one reading are equally old: names decide");

    let again = read_and_save(&mut folder.open());
    assert_eq!(applied(&again, "victim").age(), victim.age());
    assert_eq!(applied(&again, "aaa").age(), a.age());

    // An explicit time always takes precedence, and equal times are ordered by name, as the specification requires.
    let timed = |name: &str| class(name).replace("{name:", "{creationTimestamp: '2026-01-01T00:00:00Z', name:");
    let mut later = folder.open();
    read_and_save(&mut later);
    folder.write("z.yaml", timed("zzz"));
    let zzz = applied(&read_and_save(&mut later), "zzz").clone();
    assert!(zzz.age() < victim.age());
    folder.write("y.yaml", timed("yyy"));
    assert!(applied(&read_and_save(&mut later), "yyy").age() < zzz.age());
}

#[test]
fn a_file_that_is_emptied_keeps_its_objects_until_it_is_deleted() {
    let folder = ManifestFolder::new();
    folder.write("all.yaml", class("a") + "---\n" + &class("b"));
    let mut manifests = folder.open();
    read_and_save(&mut manifests);
    for empty in ["", "\n", "---\n", "# generated by a tool\n"] {
        folder.write("all.yaml", empty);
        let reading = read_and_save(&mut manifests);
        assert_eq!(events(&reading), [""; 0], "{empty:?}");
        let problem = only(&reading.problems);
        assert!(problem.message.contains("contained 2 object(s)"), "{problem}");
    }

    // At a start the result is equal, from the data folder.
    let mut started = folder.open();
    let reading = read_and_save(&mut started);
    assert_eq!(events(&reading), ["?a", "?b"]);
    assert_eq!(reading.problems.len(), 1);

    folder.write("all.yaml", class("a"));
    assert_eq!(events(&read_and_save(&mut manifests)), ["-b"]);
    assert_eq!(events(&read_and_save(&mut started)), ["-b", "+a"]);
    folder.write("all.yaml", "");
    read_and_save(&mut manifests);
    fs::remove_file(folder.path("all.yaml")).unwrap();
    assert_eq!(events(&read_and_save(&mut manifests)), ["-a"]);
}

#[test]
fn many_objects_that_are_missing_at_once_are_kept_for_a_while() {
    let many = |from: usize| (from..20).map(|n| class(&format!("c{n:02}"))).collect::<Vec<_>>().join("---\n");
    let folder = ManifestFolder::new();
    folder.write("all.yaml", many(0));
    let mut manifests = folder.open();
    read_and_save(&mut manifests);
    folder.write("all.yaml", many(11));
    let deletions = |reading: &ManifestReading| events(reading).iter().filter(|event| event.starts_with('-')).count();
    let held = read_and_save(&mut manifests);
    assert_eq!((deletions(&held), held.waiting), (0, true));
    assert!(only(&held.problems).message.starts_with("11 of 20 objects are missing"), "{:?}", held.problems);

    // The objects come back: no event.
    folder.write("all.yaml", many(0));
    let back = read_and_save(&mut manifests);
    assert_eq!((deletions(&back), back.problems.len()), (0, 0));

    // The objects stay missing: they are deleted.
    folder.write("all.yaml", many(11));
    read_and_save(&mut manifests);
    manifests.missing_since = manifests.missing_since.and_then(|since| since.checked_sub(MISSING_HELD));
    let gone = read_and_save(&mut manifests);
    assert_eq!((deletions(&gone), gone.problems.len()), (11, 0));

    // Without the guard they are deleted at once.
    let mut unguarded = folder.open().guarded(DeletionGuard::new(false));
    read_and_save(&mut unguarded);
    fs::remove_file(folder.path("all.yaml")).unwrap();
    assert_eq!(deletions(&read_and_save(&mut unguarded)), 9);
}

#[test]
fn what_is_written_in_metadata_is_kept_as_written() {
    let folder = ManifestFolder::new();
    folder.write("a.yaml", class("a").replace("{name: a}", "{name: a, uid: mine, generation: 7}"));
    let mut manifests = folder.open();
    let reading = manifests.read();
    let metadata = &applied(&reading, "a").metadata;
    assert_eq!((&*metadata.uid, metadata.generation), ("mine", 7));
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_changes_as_a_whole() {
    use std::os::unix::fs::symlink;
    let folder = ManifestFolder::new();
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

/// A folder with a file, and with links to a file and a folder outside of it.
#[cfg(unix)]
fn linked() -> (ManifestFolder, TempDir) {
    use std::os::unix::fs::symlink;
    let (folder, outside) = (ManifestFolder::new(), tempfile::tempdir().unwrap());
    fs::create_dir(outside.path().join("sub")).unwrap();
    for (name, object) in [("a.yaml", "a"), ("sub/b.yaml", "b"), ("sub/c.yaml", "c"), ("notes.txt", "none")] {
        fs::write(outside.path().join(name), class(object)).unwrap();
        rest(&outside.path().join(name));
    }
    symlink(outside.path().join("a.yaml"), folder.path("a.yaml")).unwrap();
    symlink(outside.path().join("sub"), folder.path("team.one")).unwrap();
    symlink(outside.path().join("notes.txt"), folder.path("notes.txt")).unwrap();
    folder.write("d.yaml", class("d"));
    folder.write("e.yaml", class("e"));
    (folder, outside)
}

#[cfg(unix)]
#[test]
fn a_link_to_nowhere_keeps_what_was_read_through_it_until_it_is_deleted() {
    let (folder, outside) = linked();
    let mut manifests = folder.open();
    assert_eq!(events(&read_and_save(&mut manifests)), ["+a", "+b", "+c", "+d", "+e"]);
    let gone = outside.path().with_extension("gone");
    fs::rename(outside.path(), &gone).unwrap();
    fs::remove_file(folder.path("d.yaml")).unwrap();
    let reading = read_and_save(&mut manifests);
    assert_eq!(events(&reading), ["-d"], "what is readable changes");
    let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "a link by which nothing was read is none: {problems:?}");
    for (problem, name) in problems.iter().zip(["/a.yaml: ", "/team.one: "]) {
        assert!(problem.contains(name) && problem.contains("symbolic link"), "{problem}");
    }
    assert_eq!(read_and_save(&mut manifests).problems.len(), 2, "for as long as they are there");

    // After a start the result is equal.
    let mut started = folder.open();
    let reading = read_and_save(&mut started);
    assert_eq!(
        (events(&reading), reading.problems.len()),
        (vec!["?a", "?b", "?c", "+e"].into_iter().map(String::from).collect(), 2)
    );
    assert_eq!(read_and_save(&mut started).problems.len(), 2);

    // A file that was deleted from the folder while the link was broken, and a link that is deleted.
    fs::remove_file(gone.join("sub/c.yaml")).unwrap();
    fs::remove_file(folder.path("a.yaml")).unwrap();
    for (manifests, left) in [(&mut manifests, 1), (&mut started, 1)] {
        let reading = manifests.read();
        assert_eq!((events(&reading), reading.problems.len()), (vec!["-a".to_owned()], left));
    }
    fs::rename(&gone, outside.path()).unwrap();
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.problems), (vec!["-c".to_owned()], vec![]));
    let reading = started.read();
    assert_eq!((events(&reading), reading.problems), (vec!["-c".to_owned(), "+b".to_owned()], vec![]));
    fs::remove_file(folder.path("team.one")).unwrap();
    assert_eq!(events(&manifests.read()), ["-b"]);
}

#[cfg(unix)]
#[test]
fn a_root_that_is_a_link_to_nowhere_keeps_what_was_read() {
    let (folder, outside) = (ManifestFolder::new(), tempfile::tempdir().unwrap());
    fs::create_dir(outside.path().join("m")).unwrap();
    fs::write(outside.path().join("m/a.yaml"), class("a")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("m"), folder.path("root")).unwrap();
    let root = Root { path: folder.path("root") };
    let mut manifests = Manifests::new(vec![root], Incarnations::in_memory(), Readings::Repeated);
    assert_eq!(events(&manifests.read()), ["+a"]);
    fs::remove_dir_all(outside.path().join("m")).unwrap();
    for _ in 0..2 {
        let reading = manifests.read();
        assert_eq!(events(&reading), [""; 0]);
        assert!(only(&reading.problems).message.contains("symbolic link"), "{:?}", reading.problems);
    }
}

#[cfg(unix)]
#[test]
fn what_becomes_something_else_keeps_what_it_held() {
    use std::os::unix::net::UnixListener;
    let folder = ManifestFolder::new();
    for name in ["a", "b", "c"] {
        folder.write(&format!("{name}.yaml"), class(name));
    }
    folder.write("sub/d.yaml", class("d"));
    let mut manifests = folder.open();
    read_and_save(&mut manifests);
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        fs::remove_file(folder.path(name)).unwrap();
    }
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, folder.path("a.yaml"), fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(folder.path("b.yaml")).unwrap();
    folder.write("c.yaml/e.yaml", class("e"));
    fs::remove_dir_all(folder.path("sub")).unwrap();
    fs::write(folder.path("sub"), "no folder").unwrap();
    let mut started = folder.open();
    for (manifests, expected) in [(&mut manifests, vec!["+e"]), (&mut started, vec!["?a", "?b", "?c", "?d", "+e"])] {
        let reading = manifests.read();
        assert_eq!(events(&reading), expected);
        let named = |name: &str| reading.problems.iter().any(|problem| problem.file.ends_with(name));
        assert!(["a.yaml", "b.yaml", "c.yaml", "sub"].into_iter().all(named), "{:?}", reading.problems);
        assert_eq!(reading.problems.len(), 4);
    }
    fs::remove_file(folder.path("a.yaml")).unwrap();
    fs::remove_file(folder.path("sub")).unwrap();
    for manifests in [&mut manifests, &mut started] {
        let reading = manifests.read();
        assert_eq!((events(&reading), reading.problems.len()), (vec!["-a".to_owned(), "-d".to_owned()], 2));
    }
    fs::remove_dir_all(folder.path("c.yaml")).unwrap();
    folder.write("c.yaml", described("c", "other"));
    assert_eq!(events(&manifests.read()), ["-e", "+c"]);
}

#[test]
fn what_is_missing_from_a_file_changed_in_place_is_deleted_when_the_file_rests() {
    let folder = ManifestFolder::new();
    let (a, b, c) = (class("a"), class("b"), class("c"));
    folder.write("all.yaml", format!("{a}---\n{b}---\n{c}"));
    folder.write("other.yaml", class("d"));
    let mut manifests = folder.open();
    manifests.read();
    // Written in place, with an age that suffices for reading but not for deletion.
    let shorten = |text: &str| {
        fs::write(folder.path("all.yaml"), text).unwrap();
        let then = SystemTime::now() - Duration::from_secs(1);
        fs::File::options().append(true).open(folder.path("all.yaml")).unwrap().set_modified(then).unwrap();
    };
    shorten(&described("a", "other"));
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.waiting), (vec![], true), "the last object may be cut");
    assert!(only(&reading.problems).message.contains("lacks 2 object(s)"), "{:?}", reading.problems);
    shorten(&format!("{}---\n{b}", described("a", "other")));
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.problems.len()), (vec!["+a".to_owned()], 1));
    // A truncation that does not parse, and an empty file, keep the objects too.
    for text in ["a: [", ""] {
        shorten(text);
        let reading = manifests.read();
        assert_eq!((events(&reading), reading.problems.len()), (vec![], 1), "{:?}", reading.problems);
    }
    shorten(&format!("{}---\n{b}", described("a", "other")));
    manifests.read();
    assert_eq!(events(&manifests.read()), [""; 0]);
    manifests.rest("all.yaml");
    let reading = manifests.read();
    assert_eq!((events(&reading), reading.problems, reading.waiting), (vec!["-c".to_owned()], vec![], false));

    // Objects that another file defines are not missing; a replaced file is complete, and so is one without the guard.
    folder.write("later.yaml", described("b", "later"));
    manifests.read();
    shorten(&a);
    assert_eq!(events(&manifests.read()), ["+b"]);
    folder.write(".draft", class("e"));
    fs::rename(folder.path(".draft"), folder.path("all.yaml")).unwrap();
    assert_eq!(events(&manifests.read()), ["-a", "+e"]);
    let mut unguarded = folder.open().guarded(DeletionGuard::new(false));
    unguarded.read();
    shorten(&class("f"));
    assert_eq!(events(&unguarded.read()), ["-e", "+f"]);
    // The deletion of the file deletes all its objects.
    shorten(&class("g"));
    manifests.read();
    fs::remove_file(folder.path("all.yaml")).unwrap();
    assert_eq!(events(&manifests.read()), ["-e", "-g"]);
}

#[test]
fn a_list_without_items_is_no_empty_list() {
    let folder = ManifestFolder::new();
    let list = |items: &str| format!("apiVersion: v1\nkind: List\nitems:{items}\n");
    let item = " [{apiVersion: v1, kind: Namespace, metadata: {name: a}}]";
    folder.write("list.yaml", list(item));
    let mut manifests = folder.open();
    assert_eq!(events(&read_and_save(&mut manifests)), ["+a"]);
    let cut =
        ["apiVersion: v1\nkind: List\n".to_owned(), list(""), list(" {}"), list(" [null]"), list("\n- metadata:")];
    let of_kind = list("").replace("kind: List", "kind: NamespaceList");
    let deep =
        (0..5).fold(item.trim().to_owned(), |items, _| format!("[{{apiVersion: v1, kind: List, items: {items}}}]"));
    for text in cut.into_iter().chain([of_kind, list(&format!(" {deep}"))]) {
        folder.write("list.yaml", &text);
        let reading = manifests.read();
        assert_eq!(events(&reading), [""; 0], "{text}");
        only(&reading.problems);
        assert_eq!(events(&folder.open().read()), ["?a"], "{text}");
    }
    folder.write("list.yaml", list(" []"));
    let reading = manifests.read();
    assert_eq!(events(&reading), [""; 0], "as an empty file");
    assert!(only(&reading.problems).message.contains("the file is empty"), "{:?}", reading.problems);
    folder.write("list.yaml", list(&item.replace("name: a", "name: b")));
    assert_eq!(events(&manifests.read()), ["-a", "+b"]);
}

#[cfg(unix)]
#[test]
fn circles_of_links_end() {
    let folder = ManifestFolder::new();
    folder.write("deep/a.yaml", class("a"));
    std::os::unix::fs::symlink("..", folder.path("deep/up")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path("dangling.yaml")).unwrap();
    std::os::unix::fs::symlink("round.yaml", folder.path("round.yaml")).unwrap();
    let reading = folder.open().read();
    assert_eq!(events(&reading), ["+a"]);
    let files: Vec<&str> = reading.problems.iter().filter_map(|problem| problem.file.rsplit('/').next()).collect();
    assert_eq!(files, ["dangling.yaml", "round.yaml"], "{:?}", reading.problems);
}

#[test]
fn a_root_that_is_gone_for_a_while_takes_nothing_with_it() {
    let folder = ManifestFolder::new();
    folder.write("m/a.yaml", class("a"));
    let root = Root { path: folder.path("m") };
    let mut manifests = Manifests::new(vec![root], Incarnations::in_memory(), Readings::Repeated);
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
    // If the machine stalls for longer than a file must rest, the attempt shows nothing, and is repeated.
    assert!((0..100).any(|_| half_written_is_waited_for()));
}

fn half_written_is_waited_for() -> bool {
    let folder = ManifestFolder::new();
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
    fs::write(folder.path("a.tmp"), described("a", "moved")).unwrap();
    fs::rename(folder.path("a.tmp"), folder.path("a.yaml")).unwrap();
    let moved = ChangedFiles { complete: [folder.path("a.yaml")].into(), paths: None };
    assert_eq!(events(&manifests.read_with(&moved)), ["+a"]);
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_seen_as_they_come() {
    let folder = ManifestFolder::new();
    folder.write("a.yaml", class("a"));
    let (sender, mut readings) = tokio::sync::mpsc::channel(4);
    super::watch::start(folder.open(), sender, Pulse::default(), super::watch::wake()).unwrap();
    let mut next = async || tokio::time::timeout(Duration::from_secs(60), readings.recv()).await.unwrap().unwrap();
    assert_eq!(events(&next().await), ["+a"]);
    fs::create_dir(folder.path("new")).unwrap();
    fs::write(folder.path("new/b.yaml"), class("b")).unwrap();
    assert_eq!(events(&next().await), ["+b"]);
    // Editors save this way: another file takes the name.
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

/// The messages of a check of these paths below a folder of the test.
fn checked(folder: &Path, names: &[&str]) -> Vec<String> {
    let roots = names.iter().map(|name| Root { path: folder.join(name) }).collect();
    let reading = Manifests::new(roots, Incarnations::in_memory(), Readings::Once).read();
    reading.problems.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn a_check_reads_a_pipe_and_keeps_nothing() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, class("piped")).unwrap()
    });
    let roots = vec![Root { path: pipe }];
    let reading = Manifests::new(roots, Incarnations::in_memory(), Readings::Once).read();
    writer.join().unwrap();
    assert_eq!(events(&reading), ["+piped"]);
    assert_eq!(reading.problems, []);

    std::os::unix::fs::symlink("/nowhere/target", folder.path().join("dangling.yaml")).unwrap();
    assert_eq!(
        checked(folder.path(), &["dangling.yaml"]),
        ["cannot be read: it is a symbolic link to /nowhere/target, which does not exist"]
    );
    // A pipe in a folder may never have a writer.
    fs::create_dir(folder.path().join("in")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.path().join("in/p.yaml")).status().unwrap().success());
    assert_eq!(checked(folder.path(), &["in"]), ["not a regular file"]);
}

#[test]
fn standard_input_is_for_commands_that_read_once() {
    let stdin = [PathBuf::from(super::files::STDIN)];
    assert_eq!(super::roots("PATH", &stdin, Readings::Once).unwrap(), [Root { path: "-".into() }]);
    assert!(super::roots("--manifests", &stdin, Readings::Repeated).unwrap_err().to_string().contains("--manifests -"));
}

#[test]
fn a_template_is_named_as_such() {
    let folder = TempDir::new().unwrap();
    for (name, text, is_template) in [
        ("value.yaml", "kind: X\nspec:\n  replicas: {{ .Values.replicas }}\n", true),
        ("block.yaml", "{{- if .Values.on }}\nkind: X\n{{- end }}\n", true),
        (
            "quoted.yaml",
            "kind: GatewayClass\napiVersion: gateway.networking.k8s.io/v1\nmetadata: {name: \"{{ .Values.n }}\"}\n",
            true,
        ),
        ("key.yaml", "kind: X\n? [a]\n: b\n", false),
        ("inja.yaml", "value: '{{ header(\"x\") }}'\n? [a]\n: b\n", false),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
        let messages = checked(folder.path(), &[name]);
        let named = messages.iter().any(|message| message.contains("helm template"));
        assert!(!messages.is_empty() && named == is_template, "{name}: {messages:?}");
    }
}

#[test]
fn a_name_that_is_a_number_must_be_written_in_quotes() {
    let folder = TempDir::new().unwrap();
    for (metadata, expected) in [
        ("{name: 17}", "GatewayClass: metadata.name must be a string, not 17: write it in quotes, as \"17\""),
        ("{name: true}", "GatewayClass: metadata.name must be a string, not true: write it in quotes, as \"true\""),
        ("{name: []}", "GatewayClass: metadata.name must be a string"),
        ("{name: }", "GatewayClass: metadata.name must be set"),
        (
            "{name: a, namespace: 7}",
            "GatewayClass: metadata.namespace must be a string, not 7: write it in quotes, as \"7\"",
        ),
    ] {
        let text = format!("apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {metadata}\n");
        fs::write(folder.path().join("a.yaml"), text).unwrap();
        assert_eq!(checked(folder.path(), &["a.yaml"]), [expected]);
    }
}
