//! The order of rooms in the crate `translate`: the folders and files at the top of its sources.

use std::collections::BTreeMap;
use std::path::Path;

use syn::visit::{self, Visit};

use super::{code, files, none, shown, top};

const CRATE: &str = "engine/translate/src/";

/// The rooms in their order: a room uses only rooms before it, so that there is no circle.
const ROOMS: [&str; 18] = [
    "provision",
    "incremental",
    "dates",
    "precedence",
    "narrowing",
    "outcome",
    "overlay",
    "reader",
    "annotations",
    "backend_policy",
    "policy",
    "listeners",
    "listener_set",
    "httpproxy",
    "gateway_api",
    "assembly",
    "update",
    "query",
];

/// Paths of one file that begin with `crate`, `super` or `self`.
#[derive(Default)]
struct CratePaths(Vec<Vec<String>>);

impl CratePaths {
    fn of(file: &syn::File) -> Vec<Vec<String>> {
        let mut paths = Self::default();
        paths.visit_file(file);
        paths.0
    }

    fn push(&mut self, path: Vec<String>) {
        if path.first().is_some_and(|first| ["crate", "super", "self"].contains(&first.as_str())) {
            self.0.push(path);
        }
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.tree(&path.tree, &with(&path.ident)),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before)),
            syn::UseTree::Name(name) => self.push(with(&name.ident)),
            syn::UseTree::Rename(renamed) => self.push(with(&renamed.ident)),
            syn::UseTree::Glob(_) => self.push(before.to_vec()),
        }
    }
}

impl<'a> Visit<'a> for CratePaths {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// Returns the module of a file, as the names below the crate.
fn module(name: &str) -> Vec<String> {
    let path = name.trim_start_matches(CRATE).trim_end_matches(".rs");
    let names = path.split('/').filter(|name| !["mod", "lib"].contains(name));
    names.map(str::to_owned).collect()
}

/// Returns a path as the names below the crate.
fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    let mut names = if path.first().is_some_and(|first| first == "crate") { Vec::new() } else { module.to_vec() };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => drop(names.pop()),
            _ => names.push(name.clone()),
        }
    }
    names
}

/// Returns the room of every name that the root of the crate exports.
fn exports(root: &syn::File) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for item in &root.items {
        let syn::Item::Use(item) = item else { continue };
        let mut paths = CratePaths::default();
        paths.tree(&item.tree, &["crate".to_owned()]);
        let ends = paths.0.iter().filter_map(|path| Some((path.last()?.clone(), path.get(1)?.clone())));
        found.extend(ends);
    }
    found
}

/// Parses a file, without its tests.
fn parsed(path: &Path) -> syn::File {
    syn::parse_file(&code(path)).unwrap_or_else(|error| panic!("{}: {error}", shown(path)))
}

#[test]
fn rooms_of_translate_use_only_earlier_rooms() {
    let exports = exports(&parsed(&top().join(CRATE).join("lib.rs")));
    let place = |room: &str| {
        ROOMS.iter().position(|known| *known == room).unwrap_or_else(|| panic!("{room} is no room of {CRATE}"))
    };
    let mut offences = Vec::new();
    for file in files(CRATE, &[".rs"]) {
        let name = shown(&file);
        let module = module(&name);
        let is_test = module.iter().any(|part| part == "tests" || part == "testing");
        let Some(from) = module.first().filter(|_| !is_test) else { continue };
        for path in CratePaths::of(&parsed(&file)) {
            let names = absolute(&path, &module);
            let Some(first) = names.first() else { continue };
            let to = exports.get(first).unwrap_or(first);
            offences.extend((place(from) < place(to)).then(|| format!("{name}: {}", path.join("::"))));
        }
    }
    none("a room of translate uses only rooms before it", offences);
}

#[test]
fn paths_lead_to_rooms() {
    let file = syn::parse_file("use super::{a, b::{self, C}}; fn f() { crate::room::g::<super::D>(); x::y(); }");
    let paths: Vec<String> = CratePaths::of(&file.unwrap()).iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["super::a", "super::b::self", "super::b::C", "crate::room::g", "super::D"]);
    let names = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let module = module("engine/translate/src/policy/listener/mod.rs");
    assert_eq!(absolute(&names("super::level::Level"), &module), ["policy", "level", "Level"]);
    assert_eq!(absolute(&names("crate::reader"), &module), ["reader"]);
    let root = syn::parse_file("pub use update::{Changes, Translator};").unwrap();
    assert_eq!(exports(&root).get("Changes").map(String::as_str), Some("update"));
}
