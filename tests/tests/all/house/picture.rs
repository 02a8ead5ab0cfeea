//! The picture of arrows in `docs/architecture.md`, generated from manifests and from the paths in the sources.
//!
//! A room of a crate is a folder below its `src` with product code. Files beside the folders are a room with the name of
//! the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use syn::visit::{self, Visit};

use super::{code, files, shown, top};

/// Lines before and after the picture.
const PICTURE: (&str, &str) = ("<!-- arrows: generated from the sources -->", "<!-- end of arrows -->");
/// Crates with a picture of their rooms, each with its folder.
const CRATES_WITH_ROOMS: [(&str, &str); 2] = [("translate", "engine/translate"), ("fallback", "engine/fallback")];

/// Nodes with the nodes that they use.
#[derive(Default)]
struct Arrows(BTreeMap<String, BTreeSet<String>>);

impl Arrows {
    fn add(&mut self, from: &str, to: &str) {
        self.0.entry(to.to_owned()).or_default();
        let used = self.0.entry(from.to_owned()).or_default();
        if from != to {
            used.insert(to.to_owned());
        }
    }

    /// Returns all nodes that a node uses directly or indirectly.
    fn reached<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(node) = next.pop() {
            next.extend(self.0[node].iter().map(String::as_str).filter(|used| reached.insert(*used)));
        }
        reached
    }

    /// Returns the arrows that do not follow from others. All arrows between nodes of one circle are returned.
    fn essential(&self) -> Vec<(&str, &str)> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|node| (node.as_str(), self.reached(node))).collect();
        let is_circle = |one: &str, other: &str| reached[one].contains(other) && reached[other].contains(one);
        let all = self.0.iter().flat_map(|(from, used)| used.iter().map(move |to| (from.as_str(), to.as_str())));
        let follows = |from: &str, to: &str| {
            let between = reached[from].iter().filter(|node| reached[**node].contains(to));
            !is_circle(from, to) && between.into_iter().any(|node| !is_circle(from, node) && !is_circle(node, to))
        };
        all.filter(|(from, to)| !follows(from, to)).collect()
    }

    /// Returns the picture as a Mermaid graph.
    fn draw(&self) -> String {
        let mut text = String::from("```mermaid\nflowchart LR\n");
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "    {line}").unwrap();
        // A word such as `graph` cannot be the identifier of a node.
        self.0.keys().for_each(|node| line(format_args!("{node}_[\"{node}\"]")));
        let arrows = self.essential();
        for (from, to) in &arrows {
            match arrows.contains(&(to, from)) {
                true if from < to => line(format_args!("{from}_ <--> {to}_")),
                true => {}
                false => line(format_args!("{from}_ --> {to}_")),
            }
        }
        text.push_str("```\n");
        text
    }
}

/// Returns the arrows between the crates of the product, from their manifests.
fn between_crates() -> Arrows {
    let root = std::fs::read_to_string(top().join("Cargo.toml")).unwrap();
    let members = root.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let folders = members.split('"').skip(1).step_by(2).filter(|folder| !folder.contains("tests"));
    let mut arrows = Arrows::default();
    for folder in folders {
        let manifest = std::fs::read_to_string(top().join(folder).join("Cargo.toml")).unwrap();
        let member = manifest.lines().find_map(|line| line.strip_prefix("name = \"holdfast-")).unwrap();
        let member = member.trim_end_matches('"');
        arrows.add(member, member);
        let dependencies = manifest.split("[dependencies]\n").nth(1).unwrap_or_default();
        let dependencies = dependencies.lines().take_while(|line| !line.starts_with('['));
        for other in dependencies.filter_map(|line| line.strip_prefix("holdfast-")) {
            arrows.add(member, other.split(['.', ' ', '=']).next().unwrap());
        }
    }
    arrows
}

/// The paths of a file, from the root of its crate.
struct SourcePaths {
    /// The module of the file.
    module: Vec<String>,
    found: Vec<Vec<String>>,
}

impl SourcePaths {
    fn add(&mut self, path: &[String]) {
        let mut base = self.module.clone();
        for (at, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                // Another path names something of this module, or of another crate.
                _ if at == 0 && !self.module.is_empty() => return,
                _ => {
                    base.extend_from_slice(&path[at..]);
                    break;
                }
            }
        }
        self.found.push(base);
    }

    fn add_use(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.add(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.add(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(before, tree)),
        }
    }
}

impl<'a> Visit<'a> for SourcePaths {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        // A name that the crate exports again from one of its rooms is no use of the room.
        if !self.module.is_empty() || matches!(item.vis, syn::Visibility::Inherited) {
            self.add_use(&[], &item.tree);
        }
    }

    fn visit_visibility(&mut self, _: &'a syn::Visibility) {
        // The module in `pub(super)` is not used.
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&segments);
        visit::visit_path(self, path);
    }
}

/// Returns the names that the root of a crate exports again from its modules, with the first module of each.
fn exported_again(root: &Path) -> BTreeMap<String, String> {
    let file = syn::parse_file(&code(root)).unwrap();
    let mut paths = SourcePaths { module: Vec::new(), found: Vec::new() };
    for item in &file.items {
        if let syn::Item::Use(item) = item
            && !matches!(item.vis, syn::Visibility::Inherited)
        {
            paths.add_use(&[], &item.tree);
        }
    }
    paths.found.into_iter().filter_map(|path| Some((path.last()?.clone(), path.first()?.clone()))).collect()
}

/// Returns the module of a file below `src`.
fn module(path: &Path) -> Vec<String> {
    let mut module: Vec<String> = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    let file = module.pop().unwrap();
    let name = file.trim_end_matches(".rs");
    module.extend((name != "mod" && name != "lib").then(|| name.to_owned()));
    module
}

/// Returns the arrows between the rooms of a crate, from the paths in its sources.
fn between_rooms(member: &str, folder: &str) -> Arrows {
    let src = format!("{folder}/src");
    let paths = files(&src, &[".rs"]);
    let sources: Vec<_> = paths.iter().map(|path| (path, path.strip_prefix(top().join(&src)).unwrap())).collect();
    let is_test = |path: &Path| {
        let name = path.to_str().unwrap();
        name.ends_with("tests.rs") || path.iter().any(|part| part == "tests" || part == "testing")
    };
    let product: Vec<_> = sources.into_iter().filter(|(_, below)| !is_test(below)).collect();
    let rooms: BTreeSet<&str> = product
        .iter()
        .filter(|(_, below)| below.iter().count() > 1)
        .filter_map(|(_, below)| below.iter().next()?.to_str())
        .collect();
    let again = exported_again(&top().join(&src).join("lib.rs"));
    let room = |path: &[String]| {
        let first = path.first().map(|first| again.get(first).unwrap_or(first));
        first.and_then(|first| rooms.get(first.as_str())).map_or(member, |room| *room)
    };
    let mut arrows = Arrows::default();
    for (path, below) in &product {
        let file = syn::parse_file(&code(path)).unwrap_or_else(|error| panic!("{}: {error}", shown(path)));
        let mut paths = SourcePaths { module: module(below), found: Vec::new() };
        paths.visit_file(&file);
        let here = room(&paths.module);
        // At the root of the crate, a path that begins with no room may name another crate.
        let is_root = paths.module.is_empty();
        let used = paths.found.iter().map(|path| room(path)).filter(|used| !is_root || *used != member);
        used.for_each(|used| arrows.add(here, used));
    }
    arrows
}

#[test]
fn the_picture_of_arrows_is_generated() {
    let mut text = format!("\nThe crates:\n\n{}", between_crates().draw());
    for (member, folder) in CRATES_WITH_ROOMS {
        let arrows = between_rooms(member, folder);
        if arrows.0.len() > 1 {
            write!(text, "\nThe rooms of `{member}`:\n\n{}", arrows.draw()).unwrap();
        }
    }
    text.push('\n');
    holdfast_golden::check_block(top().join("docs/architecture.md"), PICTURE, &text);
}

#[test]
fn arrows_that_follow_from_others_are_left_out() {
    let mut arrows = Arrows::default();
    for (from, to) in [("c", "b"), ("b", "a"), ("c", "a"), ("d", "c"), ("c", "d"), ("d", "a"), ("a", "a")] {
        arrows.add(from, to);
    }
    assert_eq!(arrows.essential(), [("b", "a"), ("c", "b"), ("c", "d"), ("d", "c")]);
    assert!(arrows.draw().ends_with("    b_ --> a_\n    c_ --> b_\n    c_ <--> d_\n```\n"));
}

#[test]
fn paths_are_resolved_from_the_root_of_their_crate() {
    let source = "use crate::{a::B, c::*}; use super::d::E; use std::fs; fn f() { super::super::g::h(); i::j(); }";
    let mut paths = SourcePaths { module: vec!["x".into(), "y".into()], found: Vec::new() };
    paths.visit_file(&syn::parse_file(source).unwrap());
    let found: Vec<String> = paths.found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["a::B", "c", "x::d::E", "g::h"]);
}
