//! Objects and those that depend on them, drawn as a graph: in layers, from the given objects at the left to those that
//! depend on them through others.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_fallback::view::Identity;
use holdfast_graph::key::KeyParts;
use holdfast_graph::{Affected, ObjectKey};
use maud::{Markup, html};

use super::article::address;
use super::text::shortened;
use crate::finding::plain;

/// Maximum number of objects in the picture, the nearest first.
const DIAGRAM_OBJECTS_MAX: usize = 40;
/// Size of a box and of the gaps between boxes, in units of the picture.
const BOX: (i64, i64) = (230, 40);
const GAP: (i64, i64) = (50, 12);
/// Maximum number of characters of a name in a box.
const BOX_NAME_CHARACTERS_MAX: usize = 32;

/// The objects of a diagram.
pub(super) struct Diagram<'a> {
    /// The objects at the left.
    pub(super) roots: &'a BTreeSet<ObjectKey>,
    /// What their failure reaches, the nearest first.
    pub(super) affected: &'a [Affected],
    /// Objects at fault.
    pub(super) broken: &'a BTreeSet<ObjectKey>,
    /// Objects that are not served as desired.
    pub(super) not_as_desired: &'a BTreeSet<ObjectKey>,
}

/// Where the objects are drawn: the column and the row of each.
type DiagramPlaces<'a> = BTreeMap<&'a ObjectKey, (i64, i64)>;

impl Diagram<'_> {
    /// Returns the picture; nothing if no object depends on the ones at the left.
    pub(super) fn section(&self) -> Markup {
        let (places, left_out) = self.places();
        let edges = self.edges(&places);
        let size = |of: fn(&(i64, i64)) -> i64| places.values().map(of).max().unwrap_or(0) + 1;
        let width = size(|place| place.0) * (BOX.0 + GAP.0);
        let height = size(|place| place.1) * (BOX.1 + GAP.1);
        html! {
            @if places.len() > self.roots.len() {
                section aria-labelledby="graph" {
                    h2 #graph { "Dependent objects" }
                    div class="wide" tabindex="0" role="group" aria-label="Picture of the graph" {
                        svg class="graph" role="group" aria-label="Objects in the order of their dependencies" width=(width) height=(height) {
                            @for ((from_column, from_row), (to_column, to_row)) in edges {
                                @let (x, y) = corner(from_column, from_row);
                                @let (to_x, to_y) = corner(to_column, to_row);
                                path class="edge" d={ "M" (x + BOX.0) " " (y + BOX.1 / 2) " C" (x + BOX.0 + GAP.0 / 2) " " (y + BOX.1 / 2) " " (to_x - GAP.0 / 2) " " (to_y + BOX.1 / 2) " " (to_x) " " (to_y + BOX.1 / 2) } {}
                            }
                            @for (key, (column, row)) in &places { (self.node(key, corner(*column, *row))) }
                        }
                    }
                    @if left_out > 0 { p { "and " (left_out) " more objects" } }
                }
            }
        }
    }

    fn node(&self, key: &ObjectKey, (x, y): (i64, i64)) -> Markup {
        let (class, words) = match (self.broken.contains(key), self.not_as_desired.contains(key)) {
            (true, _) => ("error", "at fault"),
            (false, true) => ("earlier", "affected"),
            (false, false) => ("served", "as desired"),
        };
        let name = plain(&key.namespaced_name());
        html! {
            a href=(address(&identity(key))) aria-label={ (plain(&key.kind)) " " (name) ", " (words) } {
                rect class=(class) x=(x) y=(y) width=(BOX.0) height=(BOX.1) rx="4" {}
                text class="kind" x=(x + 8) y=(y + 15) { (plain(&key.kind)) " – " (words) }
                text x=(x + 8) y=(y + 31) { (shortened(&name, BOX_NAME_CHARACTERS_MAX)) }
                title { (plain(&key.kind)) " " (name) }
            }
        }
    }

    /// Returns the place of each object, and the number of objects without one.
    fn places(&self) -> (DiagramPlaces<'_>, usize) {
        let mut places: DiagramPlaces<'_> = self.roots.iter().zip(0..).map(|(root, row)| (root, (0, row))).collect();
        let mut rows = BTreeMap::<i64, i64>::new();
        let mut left_out = BTreeSet::new();
        for reached in self.affected {
            let key = &reached.node.key;
            if places.contains_key(key) {
                continue;
            }
            if places.len() >= DIAGRAM_OBJECTS_MAX {
                left_out.insert(key);
                continue;
            }
            let before = places.get(&reached.through.key).map_or(0, |(column, _)| *column);
            let row = rows.entry(before + 1).or_default();
            places.insert(key, (before + 1, *row));
            *row += 1;
        }
        (places, left_out.len())
    }

    fn edges(&self, places: &DiagramPlaces<'_>) -> BTreeSet<((i64, i64), (i64, i64))> {
        let between = |reached: &Affected| Some((*places.get(&reached.through.key)?, *places.get(&reached.node.key)?));
        self.affected.iter().filter_map(between).filter(|(from, to)| from != to).collect()
    }
}

fn corner(column: i64, row: i64) -> (i64, i64) {
    (column * (BOX.0 + GAP.0), row * (BOX.1 + GAP.1))
}

/// Returns the identity of an object of which only the key is known.
pub(super) fn identity(key: &ObjectKey) -> Identity {
    let KeyParts { group, kind, namespace, name } = KeyParts::clone(key);
    Identity { group, kind, namespace, name, ..Identity::default() }
}
