//! Tests of the first reading after a restart while a file does not parse.

use super::tests::{ManifestFolder, class, described, events, read_and_save};

#[test]
fn edits_of_a_file_that_does_not_parse_take_effect_when_it_parses() {
    let folder = ManifestFolder::new();
    folder.write("all.yaml", class("a") + "---\n" + &class("b"));
    read_and_save(&mut folder.open());
    // `a` is edited, `b` is cut, `c` is new.
    let broken = described("a", "edited") + "---\n" + &class("c") + "---\nfoo: [bar\n";
    folder.write("all.yaml", &broken);
    let mut manifests = folder.open();
    let first = read_and_save(&mut manifests);
    assert_eq!(events(&first), ["~a", "?b"]);
    assert_eq!(first.problems.len(), 1, "{:?}", first.problems);
    // Another edit does not parse either, and so does one after a second restart.
    folder.write("all.yaml", described("d", "new") + "---\n" + &broken);
    let again = read_and_save(&mut manifests);
    assert_eq!((events(&again), again.problems.len()), (vec![], 1));
    assert_eq!(events(&folder.open().read()), ["~a", "?b"]);
    folder.write("all.yaml", described("a", "edited") + "---\n" + &class("c"));
    assert_eq!(events(&read_and_save(&mut manifests)), ["-b", "+a", "+c"]);
}

#[test]
fn readable_objects_of_a_file_that_never_parsed_are_used() {
    let folder = ManifestFolder::new();
    folder.write("all.yaml", class("a") + "---\nfoo: [bar\n");
    assert_eq!(events(&folder.open().read()), ["+a"]);
    // An object that another file defines now is not uncertain.
    folder.write("b.yaml", class("b"));
    read_and_save(&mut folder.open());
    folder.write("b.yaml", "foo: [bar\n");
    folder.write("c.yaml", described("b", "moved"));
    assert_eq!(events(&folder.open().read()), ["~a", "+b"]);
}

#[test]
fn another_definition_that_goes_again_deletes_no_object_of_a_file_that_does_not_parse() {
    let folder = ManifestFolder::new();
    folder.write("a.yaml", class("a"));
    read_and_save(&mut folder.open());
    folder.write("a.yaml", class("a") + "---\nfoo: [bar\n");
    let mut manifests = folder.open();
    assert_eq!(events(&read_and_save(&mut manifests)), ["~a"]);
    folder.write("b.yaml", described("a", "copy"));
    assert_eq!(events(&read_and_save(&mut manifests)), ["+a"]);
    folder.remove("b.yaml");
    assert_eq!(events(&read_and_save(&mut manifests)), ["?a"]);
    folder.write("a.yaml", class("a"));
    assert_eq!(events(&read_and_save(&mut manifests)), ["+a"]);
    // The other definition is there at the start, and stays when the file is deleted.
    folder.write("a.yaml", "foo: [bar\n");
    folder.write("b.yaml", described("a", "copy"));
    let mut manifests = folder.open();
    assert_eq!(events(&read_and_save(&mut manifests)), ["+a"]);
    folder.remove("a.yaml");
    assert_eq!(events(&read_and_save(&mut manifests)), [""; 0]);
}
