//! What RE2 knows of Unicode: its group names (`\p{Greek}`), and simple case folding.
//!
//! RE2's tables are those of Unicode 15.1. Ours come from a crate that is newer, so everything younger is taken out:
//! a group must not come out smaller here than in RE2, nor much larger.

use std::sync::{LazyLock, OnceLock};

use regex_syntax::hir::{Class as HirClass, ClassUnicode, ClassUnicodeRange, HirKind};

use super::class::{Class, RUNE_MAX};

/// The version of RE2's tables, as an age property.
const AGE: &str = r"\p{age=15.1}";
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

/// The names that RE2 accepts between the braces of `\p{…}`, case-sensitive and sorted: general categories, scripts.
#[rustfmt::skip]
const GROUPS: &[&str] = &[

    "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah",
    "Batak", "Bengali", "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "C",
    "Canadian_Aboriginal", "Carian", "Caucasian_Albanian", "Cc", "Cf", "Chakma", "Cham", "Cherokee",
    "Chorasmian", "Co", "Common", "Coptic", "Cs", "Cuneiform", "Cypriot", "Cypro_Minoan", "Cyrillic", "Deseret",
    "Devanagari", "Dives_Akuru", "Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic",
    "Georgian", "Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Han",
    "Hangul", "Hanifi_Rohingya", "Hanunoo", "Hatran", "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited",
    "Inscriptional_Pahlavi", "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Katakana", "Kawi",
    "Kayah_Li", "Kharoshthi", "Khitan_Small_Script", "Khmer", "Khojki", "Khudawadi", "L", "Lao", "Latin",
    "Lepcha", "Limbu", "Linear_A", "Linear_B", "Lisu", "Ll", "Lm", "Lo", "Lt", "Lu", "Lycian", "Lydian", "M",
    "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen", "Masaram_Gondi", "Mc", "Me",
    "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao", "Mn",
    "Modi", "Mongolian", "Mro", "Multani", "Myanmar", "N", "Nabataean", "Nag_Mundari", "Nandinagari", "Nd",
    "New_Tai_Lue", "Newa", "Nko", "Nl", "No", "Nushu", "Nyiakeng_Puachue_Hmong", "Ogham", "Ol_Chiki",
    "Old_Hungarian", "Old_Italic", "Old_North_Arabian", "Old_Permic", "Old_Persian", "Old_Sogdian",
    "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya", "Osage", "Osmanya", "P", "Pahawh_Hmong",
    "Palmyrene", "Pau_Cin_Hau", "Pc", "Pd", "Pe", "Pf", "Phags_Pa", "Phoenician", "Pi", "Po", "Ps",
    "Psalter_Pahlavi", "Rejang", "Runic", "S", "Samaritan", "Saurashtra", "Sc", "Sharada", "Shavian", "Siddham",
    "SignWriting", "Sinhala", "Sk", "Sm", "So", "Sogdian", "Sora_Sompeng", "Soyombo", "Sundanese",
    "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri", "Tamil",
    "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic", "Vai",
    "Vithkuqi", "Wancho", "Warang_Citi", "Yezidi", "Yi", "Z", "Zanabazar_Square", "Zl", "Zp", "Zs",
];

/// A group, kept once it was asked for: patterns name the same group many times.
#[derive(Default)]
struct Group {
    plain: OnceLock<Class>,
    folded: OnceLock<Class>,
}

static TABLES: LazyLock<Vec<Group>> = LazyLock::new(|| GROUPS.iter().map(|_| Group::default()).collect());
static ANY: LazyLock<Class> = LazyLock::new(|| Class::new(vec![(0, RUNE_MAX)]));

/// The group with this name, on demand with everything that differs from a member only by case; `None` if RE2 has
/// no such group.
pub(super) fn group(name: &str, fold: bool) -> Option<&'static Class> {
    if name == "Any" {
        return Some(&ANY);
    }
    let group = TABLES.get(GROUPS.binary_search(&name).ok()?)?;
    let plain = group.plain.get_or_init(|| members(name));
    Some(if fold { group.folded.get_or_init(|| plain.clone().folded()) } else { plain })
}

fn members(name: &str) -> Class {
    // RE2's "C" is the sum of its parts, without what is not assigned.
    let mut ranges = match name {
        "C" => table(r"[\p{Cc}\p{Cf}\p{Co}]"),
        "Cs" => Vec::new(),
        name => table(&format!(r"\p{{{name}}}")),
    };
    if name == "C" || name == "Cs" {
        ranges.push(SURROGATES);
    }
    Class::new(ranges)
}

/// Whether a named group may have this character in its name.
pub(super) fn is_capture_name_character(rune: char) -> bool {
    static CLASS: LazyLock<Class> =
        LazyLock::new(|| Class::new(table(r"[\p{Lu}\p{Ll}\p{Lt}\p{Lm}\p{Lo}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}]")));
    rune.is_ascii_alphanumeric() || rune == '_' || !rune.is_ascii() && CLASS.contains(u32::from(rune))
}

/// The ranges of a class of the crate's syntax that exist in RE2's version of Unicode.
fn table(pattern: &str) -> Vec<(u32, u32)> {
    let Some(mut class) = parsed(pattern) else { return Vec::new() };
    class.intersect(&KNOWN);
    class.ranges().iter().map(|range| (u32::from(range.start()), u32::from(range.end()))).collect()
}

/// What exists in RE2's version of Unicode.
static KNOWN: LazyLock<ClassUnicode> = LazyLock::new(|| parsed(AGE).unwrap_or_else(ClassUnicode::empty));

fn parsed(pattern: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(pattern).ok()?.into_kind() {
        HirKind::Class(HirClass::Unicode(class)) => Some(class),
        // A group of one character.
        HirKind::Literal(literal) => {
            let character = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(character, character)]))
        }
        _ => None,
    }
}

/// Every code point that has another case, with all code points that differ from it only by case.
static CASES: LazyLock<Vec<(u32, Vec<u32>)>> = LazyLock::new(|| {
    let mut cases = Vec::new();
    for candidate in (char::MIN..='\u{1ffff}').filter(|c| is_cased(*c)) {
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(candidate, candidate)]);
        if class.try_case_fold_simple().is_err() {
            continue;
        }
        class.intersect(&KNOWN);
        let members: Vec<u32> =
            class.ranges().iter().flat_map(|range| u32::from(range.start())..=u32::from(range.end())).collect();
        if members.len() > 1 {
            cases.extend(members.iter().map(|member| (*member, members.clone())));
        }
    }
    cases.sort();
    cases.dedup();
    cases
});

/// A quick first look: characters without any case mapping need no closer one.
fn is_cased(character: char) -> bool {
    !character.to_lowercase().eq([character]) || !character.to_uppercase().eq([character])
}

/// The code points that differ from `rune` only by case, itself included; `None` if there is no other.
pub(super) fn cases(rune: u32) -> Option<Vec<u32>> {
    if rune >= 0x80 {
        let index = CASES.binary_search_by_key(&rune, |(member, _)| *member).ok()?;
        return CASES.get(index).map(|(_, members)| members.clone());
    }
    let lower = u8::try_from(rune).ok().filter(u8::is_ascii_alphabetic)?.to_ascii_lowercase();
    let mut members = vec![u32::from(lower) - 0x20, u32::from(lower)];
    match lower {
        b'k' => members.push(0x212a),
        b's' => members.push(0x017f),
        _ => {}
    }
    Some(members)
}

/// Adds to `out` the other cases of everything in `ranges`.
pub(super) fn push_case_variants(ranges: &[(u32, u32)], out: &mut Vec<(u32, u32)>) {
    for (low, high) in ranges {
        // Most classes are ASCII and need no table.
        for rune in (*low).max(0x41)..=(*high).min(0x7a) {
            out.extend(cases(rune).into_iter().flatten().map(|variant| (variant, variant)));
        }
        if *high >= 0x80 {
            let start = CASES.partition_point(|(member, _)| *member < (*low).max(0x80));
            let inside = CASES.iter().skip(start).take_while(|(member, _)| member <= high);
            out.extend(inside.flat_map(|(_, members)| members.iter().map(|variant| (*variant, *variant))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_all_have_members() {
        assert!(GROUPS.is_sorted());
        for name in GROUPS {
            assert!(group(name, false).is_some_and(|class| !class.is_empty()), "{name}");
        }
    }

    #[test]
    fn names_are_case_sensitive_and_exact() {
        assert!(group("Greek", true).is_some());
        for name in ["greek", "Grek", "Garay", "", "L&", "Letter", "Script=Greek"] {
            assert!(group(name, false).is_none(), "{name}");
        }
    }

    #[test]
    fn ascii_needs_no_table_but_agrees_with_it() {
        for rune in 0..0x80 {
            let index = CASES.binary_search_by_key(&rune, |(member, _)| *member);
            let members = index.ok().and_then(|index| CASES.get(index)).map(|(_, members)| members.clone());
            assert_eq!(cases(rune), members, "{rune:x}");
        }
    }
}
