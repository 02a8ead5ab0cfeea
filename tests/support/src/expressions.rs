//! Regexes and CEL conditions that are nearly valid, so that the check and Envoy disagree if one of them is wrong:
//! repetitions, classes, Unicode, flags, anchors and nested groups, around the limits of program sizes.

use holdfast_test_objects::mutate::Choose;

const CHARACTERS: [&str; 24] = [
    "a",
    "k",
    "K",
    "s",
    "z",
    "9",
    "-",
    "/",
    "_",
    "é",
    "É",
    "ß",
    "ſ",
    "µ",
    "Σ",
    "ς",
    "ǅ",
    "\u{7ff}",
    "\u{800}",
    "\u{d7ff}",
    "\u{ffff}",
    "\u{10000}",
    "\u{1e921}",
    "\u{10ffff}",
];
const ESCAPES: [&str; 22] = [
    r"\n",
    r"\.",
    r"\377",
    r"\777",
    r"\0",
    r"\8",
    r"\e",
    r"\_",
    r"\x7f",
    r"\xff",
    r"\x{e9}",
    r"\x{100}",
    r"\x{d800}",
    r"\x{10ffff}",
    r"\x{110000}",
    r"\x{}",
    r"\x{",
    r"\C",
    r"\Qa.é\E",
    r"\Qa",
    r"\-",
    "\\",
];
const GROUPS: [&str; 20] = [
    r"\d",
    r"\W",
    r"\s",
    r"\S",
    r"\pN",
    r"\pL",
    r"\PN",
    r"\pZ",
    r"\pX",
    r"\p{Greek}",
    r"\p{^Greek}",
    r"\P{Han}",
    r"\p{Lu}",
    r"\p{Lt}",
    r"\p{Cs}",
    r"\p{Any}",
    r"\P{Any}",
    r"\p{greek}",
    r"\p{Zs",
    r"\pé",
];
const IN_CLASS: [&str; 8] = ["[:alpha:]", "[:^digit:]", "[:^ascii:]", "[:none:]", "[", "a-", "z-a", r"\-"];
const LOOKS: [&str; 12] = ["^", "$", r"\b", r"\B", r"\A", r"\z", "(?i)", "(?s)", "(?m)", "(?-i)", "(?U)", "(?x)"];
const OPENINGS: [&str; 10] = ["(", "(?:", "(?i:", "(?s:", "(?is-U:", "(?P<n>", "(?<é>", "(?P<a b>", "(?=", "("];
const OPERATORS: [&str; 22] = [
    "*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{0,1}", "{0,3}", "{1,}", "{3,}?", "{7}", "{30}", "{90}", "{100}",
    "{1000}", "{1001}", "{2,1}", "{,2}", "{2}{3}", "**",
];

/// Generates a regex.
pub fn regex(choose: &mut Choose<'_>) -> String {
    let depth = choose(4);
    let begin = pick(&["", "", "", "^", "(?i)", "(?s)"], choose);
    let end = pick(&["", "", "", "$", ".*"], choose);
    format!("{begin}{}{end}", alternatives(depth, choose))
}

fn pick<'a>(all: &[&'a str], choose: &mut Choose<'_>) -> &'a str {
    all.get(choose(all.len())).copied().unwrap_or_default()
}

fn alternatives(depth: usize, choose: &mut Choose<'_>) -> String {
    let count = pick(&["1", "1", "1", "2", "3"], choose).parse().unwrap_or(1);
    // A common beginning is taken out by RE2.
    let common = if choose(8) == 0 { sequence(0, choose) } else { String::new() };
    let all: Vec<String> = (0..count).map(|_| format!("{common}{}", sequence(depth, choose))).collect();
    all.join("|")
}

fn sequence(depth: usize, choose: &mut Choose<'_>) -> String {
    (0..choose(4)).map(|_| format!("{}{}", atom(depth, choose), operator(choose))).collect()
}

fn operator(choose: &mut Choose<'_>) -> &'static str {
    // Most regexes should be valid: the last operators are rare.
    match choose(12) {
        0..=7 => "",
        8..=10 => OPERATORS.get(choose(12)).copied().unwrap_or_default(),
        _ => OPERATORS.get(choose(OPERATORS.len())).copied().unwrap_or_default(),
    }
}

fn atom(depth: usize, choose: &mut Choose<'_>) -> String {
    match choose(20) {
        0..=6 => (0..=choose(3)).map(|_| pick(&CHARACTERS, choose)).collect(),
        7 => pick(&ESCAPES, choose).to_owned(),
        8..=9 => ".".to_owned(),
        10..=13 => class(choose),
        14 => pick(&GROUPS, choose).to_owned(),
        15 => pick(&LOOKS, choose).to_owned(),
        _ if depth > 0 => {
            let open = if choose(3) > 0 { pick(&["(", "(?:"], choose) } else { pick(&OPENINGS, choose) };
            let close = if choose(60) == 0 { "" } else { ")" };
            format!("{open}{}{close}", alternatives(depth - 1, choose))
        }
        _ => pick(&CHARACTERS, choose).to_owned(),
    }
}

fn class(choose: &mut Choose<'_>) -> String {
    let mut text = pick(&["[", "[", "[^"], choose).to_owned();
    for _ in 0..=choose(4) {
        match choose(12) {
            0..=5 => {
                let mut ends = [pick(&CHARACTERS, choose), pick(&CHARACTERS, choose)];
                ends.sort_unstable();
                text.push_str(&ends.map(|end| if end == "-" { r"\-" } else { end }).join("-"));
            }
            6..=8 => text.push_str(pick(&CHARACTERS, choose)),
            9 => text.push_str(pick(&GROUPS, choose)),
            10 => text.push_str(pick(&IN_CLASS, choose)),
            _ => text.push_str(pick(&ESCAPES, choose)),
        }
    }
    text.push_str(if choose(60) == 0 { "" } else { "]" });
    text
}

/// Generates a condition in CEL; the regexes in it come from `regex`.
pub fn condition(depth: usize, choose: &mut Choose<'_>) -> String {
    let part = |choose: &mut Choose<'_>| condition(depth.saturating_sub(1), choose);
    match choose(if depth == 0 { 6 } else { 12 }) {
        0 | 1 => {
            let pattern = text(&regex(choose));
            pick(
                &[
                    "request.path.matches(_)",
                    "matches(request.path, _)",
                    "re.extract(request.path, _, 'a') == 'a'",
                    "request.headers['a'].matches(_)",
                    "'a'.matches(_)",
                ],
                choose,
            )
            .replace('_', &pattern)
        }
        2..=5 => format!("{} {} {}", value(choose), pick(&["==", "!=", "<", ">=", "in"], choose), value(choose)),
        6 => format!("!({})", part(choose)),
        7 => format!("({}) ? ({}) : ({})", part(choose), part(choose), part(choose)),
        8 => format!("has(request.headers.{})", pick(&["a", "b"], choose)),
        _ => format!("({}) {} ({})", part(choose), pick(&["&&", "||"], choose), part(choose)),
    }
}

fn value(choose: &mut Choose<'_>) -> String {
    let simple = [
        "request.path",
        "request.headers",
        "request.headers['a']",
        "request.time",
        "source.address",
        "source.port",
        "connection.mtls",
        "xds.route_name",
        "metadata.filter_metadata['a']['b']",
        "filter_state['a']",
        "1",
        "-1",
        "2u",
        "1.5e3",
        "0x1f",
        "9223372036854775807",
        "'é'",
        "b'\\377'",
        "r'\\d'",
        "null",
        "true",
        "[1, 'a']",
        "{'a': 1}",
        "{1: [true]}",
        "[]",
        "{}",
        "type(1)",
        "string",
        "request.nosuch",
        "response.code",
    ];
    let one = pick(&simple, choose);
    match choose(10) {
        0 => format!("size({one})"),
        1 => format!(
            "{one}{}",
            pick(
                &[
                    ".size()",
                    ".a",
                    "[0]",
                    ".contains('a')",
                    ".startsWith('a')",
                    ".getHours('UTC')",
                    ".getDate()",
                    ".nobody()",
                    ".exists(x, x == 1)"
                ],
                choose
            )
        ),
        2 => format!(
            "{}({one})",
            pick(
                &["int", "uint", "double", "bool", "bytes", "string", "duration", "timestamp", "dyn", "type", "nobody"],
                choose
            )
        ),
        3 => format!("{one} {} {}", pick(&["+", "-", "*", "/", "%"], choose), pick(&simple, choose)),
        4 => format!("re.{}(request.path, 'a')", pick(&["capture", "captureN", "extract", "nobody"], choose)),
        _ => one.to_owned(),
    }
}

/// Returns a text literal of CEL.
pub fn text(content: &str) -> String {
    format!("'{}'", content.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
}
