//! Test plan of fields, levels and gates: covers every pair of field and level, and of level and gates. Each field is
//! broken in every way, so the pairs with these are covered as well.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::gates;
use super::guard::{FIELDS, levels};
use super::level::AttachmentLevel;

/// One round: a field for each level.
pub(super) type Round = Vec<(AttachmentLevel, &'static str)>;

/// Returns the rounds under a combination of gates, by its number.
pub(super) fn rounds(gates_number: usize) -> Vec<Round> {
    let all = fields_of(AttachmentLevel::ALL).into_iter().map(|(_, fields)| fields.len()).max().unwrap_or_default();
    let numbers = (0..all.max(gates::ALL.len())).filter(|number| number % gates::ALL.len() == gates_number);
    numbers.map(round).collect()
}

/// Returns a round; over the rounds every level has each of its fields.
fn round(number: usize) -> Round {
    let fields = fields_of(AttachmentLevel::ALL).into_iter().enumerate();
    fields.filter_map(|(at, (level, fields))| Some((level, *fields.get((number + at) % fields.len())?))).collect()
}

/// Returns the fields that are available at each level.
fn fields_of<const N: usize>(all: [AttachmentLevel; N]) -> [(AttachmentLevel, Vec<&'static str>); N] {
    all.map(|level| (level, FIELDS.into_iter().filter(|field| levels(field).contains(&level)).collect()))
}

/// Checks that every pair is covered; returns the number of cells.
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
    for level in AttachmentLevel::ALL {
        for number in 0..gates::ALL.len() {
            ensure!(under_gates.contains(&(level, number)), "{level:?} under {number}");
        }
        for field in FIELDS.into_iter().filter(|field| levels(field).contains(&level)) {
            ensure!(at_level.contains(&(level, field)), "{field} at {level:?}");
        }
    }
    Ok(cells)
}
