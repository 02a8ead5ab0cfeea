//! Named sets of characters: `\d`, `[[:alpha:]]`, `\p{Greek}`.
//!
//! RE2 knows the names of the general categories and scripts of Unicode. In Latin-1, a name of a set beyond Latin-1 is
//! valid, but the set is empty.

use super::class::RuneClass;
use super::encoding::Encoding;
use super::unicode::{self, RuneRange};

/// Returns the set of `\p{name}`, or `None` if RE2 has no such set.
pub(super) fn unicode(name: &str, encoding: Encoding) -> Option<RuneClass> {
    let most = encoding.rune_max();
    if name == "Any" {
        return Some(RuneClass::new([(0, most)]));
    }
    // A single letter is the union of its categories.
    let found: Vec<&[RuneRange]> = match name.len() {
        1 => unicode::categories(name).collect(),
        _ => unicode::group(name).into_iter().collect(),
    };
    if found.is_empty() {
        return None;
    }
    let within = found.into_iter().flat_map(|ranges| ranges.iter().take_while(|(low, _)| *low <= most));
    Some(RuneClass::new(within.map(|(low, high)| (*low, most.min(*high)))))
}

/// Returns whether the name of a capture group may contain this character.
pub(super) fn is_in_capture_name(character: char, encoding: Encoding) -> bool {
    let categories = ["Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Nd", "Pc"];
    let rune = u32::from(character);
    rune <= encoding.rune_max()
        && categories
            .iter()
            .filter_map(|name| unicode::group(name))
            .flatten()
            .any(|(low, high)| (*low..=*high).contains(&rune))
}

const WORD: &[RuneRange] = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];

/// Returns the set of `\d`, `\s` or `\w`, by its letter in any case.
pub(super) fn perl(letter: char) -> Option<RuneClass> {
    match letter.to_ascii_lowercase() {
        'd' => Some(RuneClass::new([(0x30, 0x39)])),
        's' => Some(RuneClass::new([(0x09, 0x0a), (0x0c, 0x0d), (0x20, 0x20)])),
        'w' => Some(RuneClass::new(WORD.iter().copied())),
        _ => None,
    }
}

/// Returns the set `[[:name:]]`.
pub(super) fn posix(name: &str) -> Option<RuneClass> {
    let ranges: &[RuneRange] = match name {
        "alnum" => &[(0x30, 0x39), (0x41, 0x5a), (0x61, 0x7a)],
        "alpha" => &[(0x41, 0x5a), (0x61, 0x7a)],
        "ascii" => &[(0x00, 0x7f)],
        "blank" => &[(0x09, 0x09), (0x20, 0x20)],
        "cntrl" => &[(0x00, 0x1f), (0x7f, 0x7f)],
        "digit" => &[(0x30, 0x39)],
        "graph" => &[(0x21, 0x7e)],
        "lower" => &[(0x61, 0x7a)],
        "print" => &[(0x20, 0x7e)],
        "punct" => &[(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e)],
        "space" => &[(0x09, 0x0d), (0x20, 0x20)],
        "upper" => &[(0x41, 0x5a)],
        "word" => WORD,
        "xdigit" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        _ => return None,
    };
    Some(RuneClass::new(ranges.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_category() {
        for byte in 0..=255 {
            let has = |letter: &str| unicode(letter, Encoding::Latin1).is_some_and(|class| class.contains(byte));
            assert_eq!(
                ["C", "L", "M", "N", "P", "S", "Z"].into_iter().filter(|letter| has(letter)).count(),
                1,
                "{byte:x}"
            );
        }
    }

    #[test]
    fn names_are_case_sensitive_and_exact() {
        assert!(unicode("Greek", Encoding::Latin1).is_some_and(|class| class.is_empty()));
        assert!(unicode("Greek", Encoding::Utf8).is_some_and(|class| class.contains(0x3b1)));
        assert!(unicode("Cs", Encoding::Utf8).is_some_and(|class| class.contains(0xd800)));
        assert!(unicode("L", Encoding::Latin1).is_some_and(|class| class.contains(0x61) && class.contains(0xc0)));
        for name in ["greek", "Grek", "Garay", "", "L&", "LC", "Letter", "Script=Greek", "X", "l"] {
            assert!(unicode(name, Encoding::Utf8).is_none(), "{name}");
        }
    }
}
