//! Named sets of characters: `\d`, `[[:alpha:]]`, `\p{Greek}`, with their members in Latin-1.
//!
//! RE2 knows the names of the general categories and scripts of Unicode. A name of a set beyond Latin-1 is valid, but
//! the set is empty, since RE2 in Envoy compares bytes.

use super::class::ByteClass;

/// The scripts of RE2 (Unicode 15.1), case-sensitive and sorted.
#[rustfmt::skip]
const SCRIPTS: &[&str] = &[
    "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah",
    "Batak", "Bengali", "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid",
    "Canadian_Aboriginal", "Carian", "Caucasian_Albanian", "Chakma", "Cham", "Cherokee", "Chorasmian", "Common",
    "Coptic", "Cuneiform", "Cypriot", "Cypro_Minoan", "Cyrillic", "Deseret", "Devanagari", "Dives_Akuru",
    "Dogra", "Duployan", "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic", "Georgian", "Glagolitic",
    "Gothic", "Grantha", "Greek", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Han", "Hangul", "Hanifi_Rohingya",
    "Hanunoo", "Hatran", "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited", "Inscriptional_Pahlavi",
    "Inscriptional_Parthian", "Javanese", "Kaithi", "Kannada", "Katakana", "Kawi", "Kayah_Li", "Kharoshthi",
    "Khitan_Small_Script", "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Linear_A",
    "Linear_B", "Lisu", "Lycian", "Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean",
    "Marchen", "Masaram_Gondi", "Medefaidrin", "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive",
    "Meroitic_Hieroglyphs", "Miao", "Modi", "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean",
    "Nag_Mundari", "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu", "Nyiakeng_Puachue_Hmong", "Ogham",
    "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian", "Old_Permic", "Old_Persian", "Old_Sogdian",
    "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya", "Osage", "Osmanya", "Pahawh_Hmong", "Palmyrene",
    "Pau_Cin_Hau", "Phags_Pa", "Phoenician", "Psalter_Pahlavi", "Rejang", "Runic", "Samaritan", "Saurashtra",
    "Sharada", "Shavian", "Siddham", "SignWriting", "Sinhala", "Sogdian", "Sora_Sompeng", "Soyombo",
    "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham", "Tai_Viet", "Takri",
    "Tamil", "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Toto",
    "Ugaritic", "Vai", "Vithkuqi", "Wancho", "Warang_Citi", "Yezidi", "Zanabazar_Square",
];

/// General categories with two-letter names, with their members in Latin-1.
#[rustfmt::skip]
const CATEGORIES: &[(&str, &[(u8, u8)])] = &[
    ("Cc", &[(0x00, 0x1f), (0x7f, 0x9f)]),
    ("Cf", &[(0xad, 0xad)]),
    ("Co", &[]),
    ("Cs", &[]),
    ("Ll", &[(0x61, 0x7a), (0xb5, 0xb5), (0xdf, 0xf6), (0xf8, 0xff)]),
    ("Lm", &[]),
    ("Lo", &[(0xaa, 0xaa), (0xba, 0xba)]),
    ("Lt", &[]),
    ("Lu", &[(0x41, 0x5a), (0xc0, 0xd6), (0xd8, 0xde)]),
    ("Mc", &[]),
    ("Me", &[]),
    ("Mn", &[]),
    ("Nd", &[(0x30, 0x39)]),
    ("Nl", &[]),
    ("No", &[(0xb2, 0xb3), (0xb9, 0xb9), (0xbc, 0xbe)]),
    ("Pc", &[(0x5f, 0x5f)]),
    ("Pd", &[(0x2d, 0x2d)]),
    ("Pe", &[(0x29, 0x29), (0x5d, 0x5d), (0x7d, 0x7d)]),
    ("Pf", &[(0xbb, 0xbb)]),
    ("Pi", &[(0xab, 0xab)]),
    ("Po", &[(0x21, 0x23), (0x25, 0x27), (0x2a, 0x2a), (0x2c, 0x2c), (0x2e, 0x2f), (0x3a, 0x3b), (0x3f, 0x40),
             (0x5c, 0x5c), (0xa1, 0xa1), (0xa7, 0xa7), (0xb6, 0xb7), (0xbf, 0xbf)]),
    ("Ps", &[(0x28, 0x28), (0x5b, 0x5b), (0x7b, 0x7b)]),
    ("Sc", &[(0x24, 0x24), (0xa2, 0xa5)]),
    ("Sk", &[(0x5e, 0x5e), (0x60, 0x60), (0xa8, 0xa8), (0xaf, 0xaf), (0xb4, 0xb4), (0xb8, 0xb8)]),
    ("Sm", &[(0x2b, 0x2b), (0x3c, 0x3e), (0x7c, 0x7c), (0x7e, 0x7e), (0xac, 0xac), (0xb1, 0xb1), (0xd7, 0xd7),
             (0xf7, 0xf7)]),
    ("So", &[(0xa6, 0xa6), (0xa9, 0xa9), (0xae, 0xae), (0xb0, 0xb0)]),
    ("Zl", &[]),
    ("Zp", &[]),
    ("Zs", &[(0x20, 0x20), (0xa0, 0xa0)]),
];

/// Members of the script Latin; all other characters of Latin-1 are "Common".
const LATIN: &[(u8, u8)] =
    &[(0x41, 0x5a), (0x61, 0x7a), (0xaa, 0xaa), (0xba, 0xba), (0xc0, 0xd6), (0xd8, 0xf6), (0xf8, 0xff)];

/// Returns the set of `\p{name}`, or `None` if RE2 has no such set.
pub(super) fn unicode(name: &str) -> Option<ByteClass> {
    match name {
        "Any" => return Some(ByteClass::default().negated()),
        "Latin" => return Some(ByteClass::new(LATIN)),
        "Common" => return Some(ByteClass::new(LATIN).negated()),
        script if SCRIPTS.binary_search(&script).is_ok() => return Some(ByteClass::default()),
        _ => {}
    }
    // A single letter is the union of its categories.
    let mut found = None;
    for (category, ranges) in CATEGORIES {
        if *category == name || name.len() == 1 && category.starts_with(name) {
            found = Some(found.unwrap_or_else(ByteClass::default).union(ByteClass::new(ranges)));
        }
    }
    found
}

/// Returns whether the name of a capture group may contain this character.
pub(super) fn is_in_capture_name(character: char) -> bool {
    let categories = ["Lu", "Ll", "Lo", "Nd", "Pc"];
    u8::try_from(character).is_ok_and(|byte| {
        categories.iter().filter_map(|category| unicode(category)).any(|category| category.contains(byte))
    })
}

const WORD: &[(u8, u8)] = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];

/// Returns the set of `\d`, `\s` or `\w`, by its letter in any case.
pub(super) fn perl(letter: char) -> Option<ByteClass> {
    match letter.to_ascii_lowercase() {
        'd' => Some(ByteClass::new(&[(0x30, 0x39)])),
        's' => Some(ByteClass::new(&[(0x09, 0x0a), (0x0c, 0x0d), (0x20, 0x20)])),
        'w' => Some(ByteClass::new(WORD)),
        _ => None,
    }
}

/// Returns the set `[[:name:]]`.
pub(super) fn posix(name: &str) -> Option<ByteClass> {
    let ranges: &[(u8, u8)] = match name {
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
    Some(ByteClass::new(ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_sorted() {
        assert!(SCRIPTS.is_sorted());
    }

    #[test]
    fn every_byte_has_one_category() {
        for byte in 0..=255 {
            let count = CATEGORIES.iter().filter(|(_, ranges)| ByteClass::new(ranges).contains(byte)).count();
            assert_eq!(count, 1, "{byte:x}");
        }
    }

    #[test]
    fn names_are_case_sensitive_and_exact() {
        assert!(unicode("Greek").is_some_and(|class| class.is_empty()));
        assert!(unicode("L").is_some_and(|class| class.contains(b'a') && class.contains(0xc0)));
        for name in ["greek", "Grek", "Garay", "", "L&", "LC", "Letter", "Script=Greek", "X", "l"] {
            assert!(unicode(name).is_none(), "{name}");
        }
    }
}
