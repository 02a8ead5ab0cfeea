//! Regular expressions against what RE2 and Envoy said of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

/// Rows of size or `-`, number of groups or RE2's error, and pattern; written with `google-re2` 1.1.20251105
/// (RE2 of 2025-11-05, default options but Latin-1, as Envoy has them) from its `ProgramSize`,
/// `NumberOfCapturingGroups` and `error`. Envoy 1.40 gave the same verdict and size for every row.
const MEASURED: &str = include_str!("fixtures/google-re2-1.1.20251105.tsv");

const NO_LIMIT: Limits = Limits { program_size: 1_000_000 };

fn size(pattern: &str) -> u32 {
    check(pattern, NO_LIMIT).unwrap().size
}

fn problem(pattern: &str) -> String {
    check(pattern, NO_LIMIT).unwrap_err().to_string()
}

#[test]
fn verdicts_and_sizes_are_those_of_re2() {
    let mut rows = 0;
    for row in MEASURED.lines() {
        let mut columns = row.splitn(3, '\t');
        let [size, detail, pattern] = [(); 3].map(|()| columns.next().unwrap());
        rows += 1;
        match (check(pattern, NO_LIMIT), size.parse::<u32>()) {
            (Ok(program), Ok(size)) => {
                let captures = detail.parse().unwrap();
                assert_eq!(program, Program { size, captures }, "{pattern}");
            }
            (Err(RegexFault::Syntax { problem, .. }), Err(_)) => {
                // RE2 takes an escape that ends too early for a broken encoding.
                let words = if detail == "invalid UTF-8" { "invalid escape sequence" } else { detail };
                assert_eq!(problem.to_string(), words, "{pattern}");
            }
            (ours, _) => panic!("{pattern}: RE2 {size} {detail}, here {ours:?}"),
        }
    }
    assert!(rows > 900);
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
    assert_eq!(fault, RegexFault::ProgramSize { size: 104, limit: 100 });
    assert_eq!(
        fault.to_string(),
        "the regex is too large: its compiled program has 104 instructions; at most 100 are allowed; \
         use smaller repetition counts or classes"
    );
    assert_eq!(check("[acegikmoqs]{1000}{1}", limits), Err(SyntaxProblem::RepetitionOperator.at("{1000}{1}")));
    assert_eq!(check("(?:[acegikmoqs]{1000}){1}", limits), Err(RegexFault::Huge { limit: 100 }));
    // RE2 itself gives up at some point: "pattern too large - compile failed".
    let enormous = "[acegikmoqs]{1000}".repeat(100);
    assert_eq!(check(&enormous, Limits { program_size: u32::MAX }), Err(RegexFault::Huge { limit: u32::MAX }));
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

/// Patterns that make a careless implementation take very long, or run out of stack or memory.
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
        let _ = check(&pattern, limits);
    }
}

#[test]
fn groups_are_counted() {
    assert_eq!(capture_count("/a/(b)/(?:c)/(?P<d>e(f))"), Ok(3));
    assert_eq!(capture_count("/a"), Ok(0));
    assert!(capture_count("(").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_text_never_panics(pattern in "\\PC{0,40}") {
        let _ = check(&pattern, Limits { program_size: 2000 });
    }

    #[test]
    fn text_of_pieces_never_panics(
        pattern in r"(\(|\)|\(\?i\)|\(\?:|\||\*|\+|\?|\{2\}|\{0,3\}|\{3,\}|\[|\]|\^|\$|\\|\\d|\\p\{L\}|\\b|a|k|é|-|:|.){0,25}"
    ) {
        let _ = check(&pattern, Limits { program_size: 2000 });
    }

    #[test]
    fn what_is_accepted_is_accepted_in_a_group(pattern in r"(a|b|[*+?|.]|\[ab\]|\\d|\{2\}|\(|\)){0,12}") {
        if let (Ok(alone), Ok(grouped)) = (check(&pattern, NO_LIMIT), check(&format!("(?:{pattern})x"), NO_LIMIT)) {
            prop_assert!(grouped.size + 2 >= alone.size);
            prop_assert_eq!(grouped.captures, alone.captures);
        }
    }
}

/// Not RE2 but the constraint on Envoy's message refuses it, and with it the whole RouteConfiguration.
#[test]
fn an_empty_regex_is_refused() {
    assert_eq!(check("", Limits::default()), Err(RegexFault::Empty));
}
