//! Which fields are tried at which level under which gates: every pair of field and level, and of level and gates. Each
//! is broken in every way, so that these pairs are all there as well.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::gates;
use super::guard::{FIELDS, levels};
use super::level::Level;

/// One world: a field at each level.
pub(super) type Round = Vec<(Level, &'static str)>;

/// The rounds under each combination of gates, by its number.
pub(super) fn rounds(gates_number: usize) -> Vec<Round> {
    let all = fields_of(Level::ALL).into_iter().map(|(_, fields)| fields.len()).max().unwrap_or_default();
    let numbers = (0..all.max(gates::ALL.len())).filter(|number| number % gates::ALL.len() == gates_number);
    numbers.map(round).collect()
}

/// In each round every level has another field.
fn round(number: usize) -> Round {
    let fields = fields_of(Level::ALL).into_iter().enumerate();
    fields.filter_map(|(at, (level, fields))| Some((level, *fields.get((number + at) % fields.len())?))).collect()
}

/// The fields that can stand at each level.
fn fields_of<const N: usize>(all: [Level; N]) -> [(Level, Vec<&'static str>); N] {
    all.map(|level| (level, FIELDS.into_iter().filter(|field| levels(field).contains(&level)).collect()))
}

/// Every pair is there; says how many cells there are.
pub(super) fn check() -> Result<usize> {
    let mut at_level = BTreeSet::new();
    let mut under_gates = BTreeSet::new();
    let mut cells = 0;
    for number in 0..gates::ALL.len() {
        for (level, field) in rounds(number).concat() {
            cells += 1;
            under_gates.insert((level, number));
            at_level.insert((level, field));
        }
    }
    for level in Level::ALL {
        for number in 0..gates::ALL.len() {
            ensure!(under_gates.contains(&(level, number)), "{level:?} under {number}");
        }
        for field in FIELDS.into_iter().filter(|field| levels(field).contains(&level)) {
            ensure!(at_level.contains(&(level, field)), "{field} at {level:?}");
        }
    }
    Ok(cells)
}
