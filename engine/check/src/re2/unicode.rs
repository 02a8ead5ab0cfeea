//! Tables of RE2 about characters: general categories, scripts and cases (Unicode 15).
//!
//! The tables are those of `google-re2` 1.1.20251105, read by matching every character. Those of a Rust library are of
//! another version of Unicode, so that sizes of programs would differ from Envoy.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A line for each category (two letters) and script: its name and its ranges, hexadecimal and sorted.
const GROUPS: &str = include_str!("unicode/groups.txt");
/// A line for each character with several cases: its cases, hexadecimal and sorted.
const CASES: &str = include_str!("unicode/cases.txt");

/// A range of characters, with both ends.
pub(super) type RuneRange = (u32, u32);

static GROUP_RANGES: LazyLock<HashMap<&str, Vec<RuneRange>>> = LazyLock::new(|| {
    let range = |text: &str| {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        Some((number(low)?, number(high)?))
    };
    let groups = GROUPS.lines().filter_map(|line| line.split_once(' '));
    groups.map(|(name, ranges)| (name, ranges.split(' ').filter_map(range).collect())).collect()
});

/// The cases of each character that has several, sorted by the character.
static RUNE_CASES: LazyLock<Vec<(u32, Vec<u32>)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for line in CASES.lines() {
        let cases: Vec<u32> = line.split(' ').filter_map(number).collect();
        all.extend(cases.iter().map(|rune| (*rune, cases.clone())));
    }
    all.sort_unstable();
    all
});

fn number(hexadecimal: &str) -> Option<u32> {
    u32::from_str_radix(hexadecimal, 16).ok()
}

/// Returns the ranges of a category with a two-letter name, or of a script.
pub(super) fn group(name: &str) -> Option<&'static [RuneRange]> {
    GROUP_RANGES.get(name).map(Vec::as_slice)
}

/// Returns the names of the categories with two letters that begin with a letter.
pub(super) fn categories(letter: &str) -> impl Iterator<Item = &'static [RuneRange]> {
    GROUP_RANGES
        .iter()
        .filter(move |(name, _)| name.len() == 2 && name.starts_with(letter))
        .map(|(_, ranges)| &**ranges)
}

/// Returns the characters of a range that have several cases, each with its cases.
pub(super) fn cases_within((low, high): RuneRange) -> impl Iterator<Item = &'static [u32]> {
    let all = RUNE_CASES.as_slice();
    let first = all.partition_point(|(rune, _)| *rune < low);
    all.get(first..).unwrap_or_default().iter().take_while(move |(rune, _)| *rune <= high).map(|(_, cases)| &**cases)
}

/// Returns all cases of a character; empty for a character without cases.
pub(super) fn cases(rune: u32) -> &'static [u32] {
    cases_within((rune, rune)).next().unwrap_or_default()
}
