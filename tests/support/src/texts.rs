//! Texts that could cost more than linear work: regexes, conditions in CEL, formats, templates. A text consists of
//! pieces of its grammar. Numbers from the caller select the pieces, so that a fuzzer and a seeded test share the
//! generator.

use holdfast_check::meter::{OutOfSteps, STEPS_PER_BYTE_MAX};
use holdfast_check::re2::{
    Limits, OBJECT_STEPS_MAX, PATTERN_BYTES_MAX, RegexFault, Regexes, STEPS_MAX, check_substitution, literal_prefix,
};
use holdfast_check::{cel, format, log_format, template};
use holdfast_envoy::features::rbac::{self, Conditions};
use holdfast_test_objects::mutate::Choose;

/// Numbers of repetitions of a piece.
const TIMES: [usize; 8] = [1, 1, 2, 3, 17, 90, 400, 3000];
/// Maximum size of a text in bytes; slightly above the limit of every grammar.
const BYTES_MAX: usize = 18_000;
/// Steps for the beginning of a regex, in addition to the steps of its check: the beginning is searched in shorter and
/// shorter pieces.
const BEGINNING_STEPS_MAX: usize = 2 * STEPS_MAX + 20 * PATTERN_BYTES_MAX;

/// A grammar and the check of its texts.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// Name of the grammar.
    pub name: &'static str,
    pieces: &'static [&'static str],
    /// Opening and closing pieces.
    pairs: &'static [(&'static str, &'static str)],
    /// Checks a text; the error names the violated property.
    pub check: fn(&str) -> Result<(), String>,
}

/// All grammars.
pub const GRAMMARS: [Grammar; 4] = [
    Grammar {
        name: "regex",
        pieces: &[
            "a",
            "k",
            "/",
            "é",
            "\u{10ffff}",
            ".",
            "|",
            "*",
            "+",
            "?",
            "{2}",
            "{0,3}",
            "{3,}",
            "{1000}",
            "{5,1}",
            "[a-c]",
            "[^x]",
            "[[:alpha:]]",
            "[[:",
            "[",
            "]",
            r"\pL",
            r"\PN",
            r"\p{Greek}",
            r"\p{Cyrillic}",
            r"\d",
            r"\b",
            r"\x{",
            r"\Q",
            r"\E",
            "\\",
            "^",
            "$",
            "(?i)",
            "(?-s:",
            "(?P<n>",
            ")",
            "\0",
            "a?",
            "(a|b)",
            "x*y",
        ],
        pairs: &[("(", ")"), ("(?:", ")*"), ("(?:", "){2}"), ("(?i:", ")?"), ("(", "|b)"), ("[", "]")],
        check: regex,
    },
    Grammar {
        name: "cel",
        pieces: &[
            "true",
            "request.path",
            "request.headers",
            ".a",
            "['a']",
            "[0]",
            "'a'",
            "b'a'",
            "r'\\d'",
            "'''a\n'''",
            "'",
            "1",
            "1u",
            "1.5e3",
            "0x1f",
            "9223372036854775808",
            "-",
            "!",
            " + ",
            " && ",
            " || ",
            " == ",
            " in ",
            " ? ",
            " : ",
            ",",
            "// x\n",
            " ",
            "\\",
            "é",
            "rb",
            "..",
            "request.path.matches('[a-z]+x?')",
            "'x'.matches('(?:a?){30}')",
            "has(",
            "{1: 2}",
            "[1,",
            ".size()",
            "\n",
        ],
        pairs: &[("(", ")"), ("[", "]"), ("{1: ", "}"), ("!", ""), ("- ", ""), ("true ? true : ", ""), ("size(", ")")],
        check: condition,
    },
    Grammar {
        name: "template",
        pieces: &[
            "a",
            " ",
            "{",
            "}",
            "{{",
            "}}",
            "{{ route_name }}",
            "{{rule_name}}",
            "{{other}}",
            "%",
            "%%",
            "%NAME%",
            "%OTHER%",
            "%REQ(a)%",
            "é",
            "\n",
        ],
        pairs: &[("{{", "}}"), ("%", "%"), ("{", "}")],
        check: filled,
    },
    Grammar {
        name: "format",
        pieces: &[
            "a",
            "%",
            "%%",
            "%HOSTNAME%",
            "%PROTOCOL%",
            "%REQ(a?b):5%",
            "%REQ(",
            "):",
            ")",
            "):20",
            "?",
            ":",
            "(",
            "%DYNAMIC_METADATA(a:b:c)%",
            "%START_TIME(%Y-%m)%",
            "%CEL(",
            "REQ",
            "A",
            "_",
            "é",
            "\u{202e}",
            "\n",
            "12345",
        ],
        pairs: &[("%REQ(", ")%"), ("%DYNAMIC_METADATA(", "):3%"), ("(", ")"), ("%", "%")],
        check: formats,
    },
];

impl Grammar {
    /// Generates a text: sequences of pieces, nested, possibly truncated.
    pub fn text(&self, choose: &mut Choose<'_>) -> String {
        let mut text = String::new();
        for _ in 0..=choose(4) {
            if choose(3) == 0 {
                let (open, close) = pick(self.pairs, choose);
                let depth = pick(&TIMES, choose);
                let inner = self.run(choose);
                let closed = if choose(4) == 0 { choose(depth + 1) } else { depth };
                text.push_str(&format!("{}{inner}{}", open.repeat(depth), close.repeat(closed)));
            } else {
                text.push_str(&self.run(choose));
            }
        }
        // A regex above its limit is not checked as a whole, so most regexes are kept below the limit.
        let most = if self.name == "regex" && choose(4) > 0 { PATTERN_BYTES_MAX } else { BYTES_MAX };
        let cut = if choose(4) == 0 { choose(text.len() + 1) } else { text.len() };
        text.truncate(text.floor_char_boundary(cut.min(most)));
        text
    }

    /// Generates a sequence of pieces, possibly repeated.
    fn run(&self, choose: &mut Choose<'_>) -> String {
        let pieces: String = (0..=choose(4)).map(|_| pick(self.pieces, choose)).collect();
        pieces.repeat(pick(&TIMES, choose))
    }
}

fn pick<T: Copy + Default>(all: &[T], choose: &mut Choose<'_>) -> T {
    all.get(choose(all.len())).copied().unwrap_or_default()
}

/// Checks a regex: the number of steps is bounded, and repeated checks agree.
fn regex(pattern: &str) -> Result<(), String> {
    let regexes = Regexes::of_object(Limits::default());
    let verdict = regexes.check(pattern);
    holds(regexes.spent() <= STEPS_MAX + PATTERN_BYTES_MAX, "its check", regexes.spent())?;
    let checked = regexes.spent();
    let _ = regexes.beginning(pattern);
    let beginning = regexes.spent() - checked;
    holds(beginning <= BEGINNING_STEPS_MAX + pattern.len(), "its beginning", beginning)?;
    holds(regexes.check(pattern) == verdict, "the same again", regexes.spent())?;
    holds(literal_prefix(pattern).len() <= pattern.len(), "its literal beginning", 0)?;
    match verdict {
        Ok(program) => {
            let _ = check_substitution(pattern, program.captures);
            let within = |program_size| Regexes::of_object(Limits { program_size }).check(pattern);
            holds(within(program.size).is_ok(), "a limit that it has", 0)?;
            holds(program.size == 0 || within(program.size - 1).is_err(), "a limit below", 0)
        }
        Err(fault) => {
            holds(fault != RegexFault::Together, "the first of an object", 0)?;
            holds(fault.to_string().len() < 4096, "its fault", fault.to_string().len())
        }
    }
}

/// Checks a condition: the steps grow linearly with the text, and the limit of a policy applies to the sum of its
/// conditions.
fn condition(text: &str) -> Result<(), String> {
    let regexes = Regexes::of_object(Limits::default());
    let (verdict, steps) = cel::counted(text, &regexes);
    linear(text, steps)?;
    holds(regexes.spent() <= OBJECT_STEPS_MAX, "regexes of a condition", regexes.spent())?;
    match verdict {
        Ok(condition) => {
            holds(condition.steps() <= text.len(), "steps of the tree", condition.steps())?;
            let taken = Conditions::read(true, [text, text], &regexes).is_ok();
            holds(taken == (condition.steps() * 2 <= rbac::STEPS_MAX), "two of them", condition.steps())
        }
        Err(fault) => {
            holds(!fault.to_string().contains(&OutOfSteps.to_string()), "its bound", steps)?;
            holds(fault.to_string().len() < 4096, "its fault", fault.to_string().len())
        }
    }
}

/// Checks the substitution of names.
fn filled(text: &str) -> Result<(), String> {
    let known = |name: &str| ["NAME", "route_name", "rule_name"].contains(&name).then(|| "name".to_owned());
    linear(text, template::counted_braces(text, known).1)?;
    let (percents, steps) = template::counted_percents(text, known);
    holds(percents.is_ok(), "its bound", steps)?;
    linear(text, steps)
}

/// Checks formats of headers and of access logs.
fn formats(text: &str) -> Result<(), String> {
    for (verdict, steps) in [format::counted(text), log_format::counted(text)] {
        linear(text, steps)?;
        if let Err(fault) = verdict {
            let shown = fault.to_string();
            holds(shown.len() < 4096 && shown != OutOfSteps.to_string(), "its fault", steps)?;
        }
    }
    Ok(())
}

fn linear(text: &str, steps: usize) -> Result<(), String> {
    holds(steps <= STEPS_PER_BYTE_MAX * (text.len() + 1), "steps for each byte", steps)
}

fn holds(holds: bool, what: &str, steps: usize) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {steps}")) }
}
