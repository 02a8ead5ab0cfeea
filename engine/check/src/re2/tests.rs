//! Tests of regexes against the verdicts of RE2 and Envoy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

/// Rows of size or `-`, number of groups or error of RE2, and pattern; generated with `google-re2` 1.1.20251105 (RE2 of
/// 2025-11-05, default options but Latin-1, as in Envoy) from its `ProgramSize`, `NumberOfCapturingGroups` and `error`.
/// Envoy 1.40 gave the same verdict and size for every row.
const MEASURED: &str = include_str!("fixtures/google-re2-1.1.20251105.tsv");

fn check(pattern: &str, limits: Limits) -> Result<Program, RegexFault> {
    counted(pattern, limits, Encoding::Latin1).0
}

const NO_LIMIT: Limits = Limits { program_size: 1_000_000 };

fn size(pattern: &str) -> u32 {
    check(pattern, NO_LIMIT).unwrap().size
}

fn problem(pattern: &str) -> String {
    check(pattern, NO_LIMIT).unwrap_err().to_string()
}

/// Rows of the same form for UTF-8, the default of RE2.
const MEASURED_UTF8: &str = include_str!("fixtures/google-re2-1.1.20251105-utf8.tsv");

#[test]
fn verdicts_and_sizes_are_those_of_re2() {
    for (measured, encoding) in [(MEASURED, Encoding::Latin1), (MEASURED_UTF8, Encoding::Utf8)] {
        assert!(measured.lines().count() > 900);
        for row in measured.lines() {
            let mut columns = row.splitn(3, '\t');
            let [size, detail, pattern] = [(); 3].map(|()| columns.next().unwrap());
            match (counted(pattern, NO_LIMIT, encoding).0, size.parse::<u32>()) {
                (Ok(program), Ok(size)) => {
                    let captures = detail.parse().unwrap();
                    assert_eq!(program, Program { size, captures }, "{pattern}");
                }
                (Err(RegexFault::Syntax { problem, .. }), Err(_)) => {
                    // RE2 reports an escape sequence that ends too early as a broken encoding.
                    let expected = if detail == "invalid UTF-8" { "invalid escape sequence" } else { detail };
                    assert_eq!(problem.to_string(), expected, "{pattern}");
                }
                (ours, _) => panic!("{pattern}: RE2 {size} {detail}, here {ours:?}"),
            }
        }
    }
}

#[test]
fn faults_are_sentences_with_the_offending_part() {
    assert_eq!(problem("/path/bad["), r#"invalid regex: missing ]: "[""#);
    assert_eq!(problem("/path/(bad"), r#"invalid regex: missing ): "/path/(bad""#);
    assert_eq!(problem("a{2}{3}"), r#"invalid regex: bad repetition operator: "{2}{3}""#);
    assert_eq!(problem("a{1001}"), r#"invalid regex: invalid repetition size: "{1001}""#);
    assert_eq!(problem("*a"), r#"invalid regex: no argument for repetition operator: "*""#);
    assert_eq!(problem(r"a\d\u0041"), r#"invalid regex: invalid escape sequence: "\\u""#);
    assert_eq!(problem("(?x)"), r#"invalid regex: invalid perl operator: "(?x""#);
    assert_eq!(problem("(?P<a b>x)"), r#"invalid regex: invalid named capture group: "(?P<a b>""#);
    assert_eq!(problem(r"\p{Emoji}"), r#"invalid regex: invalid character class range: "\\p{Emoji}""#);
}

#[test]
fn the_program_size_is_limited() {
    let limits = Limits { program_size: 100 };
    assert_eq!(check("[a-z]{90}", limits).unwrap().size, 94);
    let fault = check("[a-z]{100}", limits).unwrap_err();
    assert_eq!(fault, RegexFault::Huge { least: 101, limit: 100 });
    assert_eq!(
        fault.to_string(),
        "the regex is too large: its compiled program has at least 101 instructions; at most 100 are allowed; \
         use smaller repetition counts or classes"
    );
    assert_eq!(
        check("[acegikmoqs]{1000}{1}", limits),
        Err(SyntaxProblem::RepetitionOperator.at("{1000}{1}", Encoding::Latin1))
    );
    assert_eq!(check("(?:[acegikmoqs]{1000}){1}", limits), Err(RegexFault::Huge { least: 10_001, limit: 100 }));
    // The size of a regex with few instructions but many branches is known only after compilation.
    assert!(matches!(check("(?:a?b?){49}", limits), Err(RegexFault::ProgramSize { size: 101.., limit: 100 })));
    // RE2 itself stops at some size: "pattern too large - compile failed".
    let enormous = "[acegikmoqs]{1000}".repeat(100);
    assert!(check(&enormous, Limits { program_size: u32::MAX }).is_err());
}

#[test]
fn length_and_depth_are_limited() {
    assert!(check(&"a".repeat(PATTERN_BYTES_MAX), NO_LIMIT).is_ok());
    assert_eq!(check(&"a".repeat(4097), NO_LIMIT), Err(RegexFault::Long { bytes: 4097 }));
    let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(size(&nested(200)), 405);
    assert_eq!(check(&nested(2000), NO_LIMIT), Err(RegexFault::Deep));
    assert_eq!(check(&format!("a*{}", "(?i)*(?-i)*".repeat(300)), NO_LIMIT), Err(RegexFault::Deep));
}

/// Patterns that make a careless implementation take very long, or exhaust stack or memory.
#[test]
fn costly_patterns_end() {
    let limits = Limits { program_size: 10_000 };
    let ladder: String = (1..85).map(|length| format!("{}|", "a".repeat(length))).collect();
    for pattern in [
        r"(?i)[\x{0}-\x{FF}]".repeat(200),
        format!("(?i){}", r"\pL".repeat(1300)),
        r"[\pL\PL]".repeat(500),
        format!("(?i)[{}]", r"\pL\PL".repeat(600)),
        r"\pL|".repeat(1000),
        "((((((((.{2}){2}){2}){2}){2}){2}){2}){2}){2}".to_owned(),
        "(?:a?){1000}".to_owned(),
        "(?:a?){1000}".repeat(300),
        "(a|b|c|d|e|f|g)*".repeat(250),
        "a?".repeat(2000),
        format!("({})*", "(a*)*".repeat(600)),
        "(?:(?:a*)*|b)*".repeat(290),
        ladder.clone(),
        format!("({}){{50}}", ladder),
        format!("{}x{}", "(?:".repeat(200), ")*".repeat(200)),
        format!("{}x{}", "(".repeat(120), "?)*".repeat(120)),
        "a{1000}".repeat(580),
        "(?:x{0,30}){30}".repeat(200),
    ] {
        for encoding in [Encoding::Latin1, Encoding::Utf8] {
            assert!(counted(&pattern, limits, encoding).1 <= STEPS_MAX + PATTERN_BYTES_MAX, "{pattern}");
        }
    }
}

/// Returns the steps of a check, including the search for a beginning where the check fails.
fn steps(pattern: &str) -> usize {
    let limits = Limits::default();
    let regexes = Regexes::of_object(limits);
    let verdict = regexes.check(pattern);
    if verdict.is_err() {
        let _ = regexes.beginning(pattern);
    }
    // A cached verdict counts as many steps as a computed one.
    assert_eq!(counted(pattern, limits, Encoding::Latin1), counted(pattern, limits, Encoding::Latin1), "{pattern}");
    regexes.spent()
}

#[test]
fn nothing_is_read_of_a_pattern_that_is_too_long() {
    for length in [100_000, 200_000, 1_000_000] {
        for pattern in [
            format!("/{}", "a?".repeat(length / 2)),
            format!("/{}", "[[:".repeat(length / 3)),
            format!("({}", "(a|b)?".repeat(length / 6)),
            "(".repeat(length),
            format!("{}|", "((a|".repeat(length / 4)),
            format!("({}", r"\Qa".repeat(length / 3)),
        ] {
            assert_eq!(counted(&pattern, Limits::default(), Encoding::Latin1).1, 1);
            let spent = steps(&pattern);
            assert!(spent <= pattern.len() + 20 * PATTERN_BYTES_MAX + STEPS_MAX, "{}: {spent}", &pattern[..20]);
            assert!(literal_prefix(&pattern).len() < 2);
        }
    }
}

#[test]
fn a_program_that_is_too_large_is_not_built() {
    for pattern in [
        r"/c(?:\pL{900}|\pN{900}|\pL{900})N",
        r"/(?:(?:\pL{10}){10}){10}\pN{900}",
        "/(?:[acegikm]{200}|[bdfhj]{200}){5}",
        r"(?i)/(?:\pL?\PN){1000}",
    ] {
        assert!(matches!(check(pattern, Limits::default()), Err(RegexFault::Huge { .. })), "{pattern}");
        let spent = counted(pattern, Limits::default(), Encoding::Latin1).1;
        assert!(spent <= 10 * pattern.len(), "{pattern}: {spent}");
    }
}

#[test]
fn regexes_of_one_object_have_a_budget() {
    let regexes = Regexes::of_object(Limits::default());
    let faults =
        (0..128).filter_map(|number| regexes.check(&format!("/{number}(?:[a-z]?[0-9]?[A-F]?x?){{900}}")).err());
    let faults: Vec<RegexFault> = faults.collect();
    assert!(faults.contains(&RegexFault::Together), "{}", regexes.spent());
    assert!(regexes.spent() <= OBJECT_STEPS_MAX);
    // A regex that was checked before keeps its verdict.
    assert!(regexes.check("/0(?:[a-z]?[0-9]?[A-F]?x?){900}").is_ok());
    assert_eq!(Regexes::of_object(Limits::default()).check("/127(?:[a-z]?[0-9]?[A-F]?x?){900}").map(drop), Ok(()));
    // The maximum number of ordinary regexes in an HTTPRoute is far below the limit.
    let regexes = Regexes::of_object(Limits::default());
    let ordinary = (0..4224).all(|number| regexes.check(&format!("/api/v[0-9]+/{number}/[a-z-]{{1,40}}")).is_ok());
    assert!(ordinary && regexes.spent() < OBJECT_STEPS_MAX, "{}", regexes.spent());
}

#[test]
fn common_beginnings_are_taken_out_within_the_depth() {
    let alternatives = |pieces: &str, count: usize| format!("/({0}x|{0}y)", pieces.repeat(count));
    for (pattern, fits) in [
        (alternatives(".", 60), true),
        (alternatives("a.", 30), true),
        (alternatives(".", 2000), false),
        (alternatives("a.", 1000), false),
    ] {
        let (verdict, steps) = counted(&pattern, Limits::default(), Encoding::Latin1);
        assert_eq!(verdict.is_ok(), fits, "{pattern} {verdict:?}");
        assert!(steps <= STEPS_MAX + PATTERN_BYTES_MAX, "{steps}");
    }
}

#[test]
fn groups_are_counted() {
    let captures = |pattern| check(pattern, NO_LIMIT).map(|program| program.captures);
    assert_eq!(captures("/a/(b)/(?:c)/(?P<d>e(f))"), Ok(3));
    assert_eq!(captures("/a"), Ok(0));
    assert!(captures("(").is_err());
}

/// The lower bound of a size is one also where ranges of characters share instructions.
#[test]
fn a_program_in_utf8_is_never_smaller_than_what_was_counted() {
    for row in MEASURED_UTF8.lines() {
        let pattern = row.splitn(3, '\t').last().unwrap();
        if let Ok(program) = counted(pattern, NO_LIMIT, Encoding::Utf8).0 {
            let limits = |program_size| Limits { program_size };
            if counted(pattern, limits(2 * program.size - 1), Encoding::Utf8).0.is_err() {
                // An empty group after a repetition counts twice.
                continue;
            }
            assert_eq!(counted(pattern, limits(program.size), Encoding::Utf8).0, Ok(program), "{pattern}");
            assert!(counted(pattern, limits(program.size - 1), Encoding::Utf8).0.is_err(), "{pattern}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_text_never_panics(pattern in "\\PC{0,40}") {
        let _ = check(&pattern, Limits { program_size: 2000 });
        let _ = counted(&pattern, Limits { program_size: 2000 }, Encoding::Utf8);
    }

    #[test]
    fn text_of_pieces_never_panics(
        pattern in r"(\(|\)|\(\?i\)|\(\?:|\||\*|\+|\?|\{2\}|\{0,3\}|\{3,\}|\[|\]|\^|\$|\\|\\d|\\p\{L\}|\\b|a|k|é|-|:|.){0,25}"
    ) {
        let _ = check(&pattern, Limits { program_size: 2000 });
    }

    /// Repeated and nested pieces are the input for which work grows.
    #[test]
    fn steps_are_bounded_whatever_is_repeated(
        pieces in prop::collection::vec(
            r"(\(|\)|\(\?:|\||\*|\+|\?|\{1,30\}|\{900\}|\[|\[:|\[a-c\]|\\pL|a|b|\.|\^|\\Q|\\E){1,6}", 1..5),
        times in prop::collection::vec(1_usize..700, 5),
    ) {
        let pattern: String = pieces.iter().zip(&times).map(|(piece, times)| piece.repeat(*times)).collect();
        prop_assert!(counted(&pattern, Limits::default(), Encoding::Latin1).1 <= STEPS_MAX + PATTERN_BYTES_MAX, "{pattern}");
        prop_assert!(steps(&pattern) <= 3 * STEPS_MAX + 20 * PATTERN_BYTES_MAX + pattern.len(), "{pattern}");
    }

    #[test]
    fn a_program_is_never_smaller_than_what_was_counted(
        pattern in r"(\(|\)|\(\?i\)|\(\?:|\||\*|\+|\?|\{2\}|\{0,3\}|\{3,\}|\[ab\]|\^|\$|\\d|\\p\{L\}|\\b|\\p\{Greek\}|a|k|.){0,25}"
    ) {
        if let Ok(program) = check(&pattern, NO_LIMIT) {
            prop_assert!(check(&pattern, Limits { program_size: program.size }).is_ok(), "{pattern} {program:?}");
        }
    }

    #[test]
    fn what_is_accepted_is_accepted_in_a_group(pattern in r"(a|b|[*+?|.]|\[ab\]|\\d|\{2\}|\(|\)){0,12}") {
        if let (Ok(alone), Ok(grouped)) = (check(&pattern, NO_LIMIT), check(&format!("(?:{pattern})x"), NO_LIMIT)) {
            prop_assert!(grouped.size + 2 >= alone.size);
            prop_assert_eq!(grouped.captures, alone.captures);
        }
    }
}

/// RE2 accepts an empty regex, but the validation of Envoy's message refuses it, and with it the whole
/// RouteConfiguration.
#[test]
fn an_empty_regex_is_refused() {
    assert_eq!(check("", Limits::default()), Err(RegexFault::Empty));
}
