//! Tests of conditions that Envoy accepts or refuses; no input causes a panic.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::meter::STEPS_PER_BYTE_MAX;
use super::super::re2::Limits;
use super::*;

fn check(text: &str) -> Result<Expr, CelFault> {
    super::check(text, &Regexes::of_object(Limits::default()))
}

/// Returns a tree as text with all parentheses.
fn shown(expr: &Expr) -> String {
    let all = |entries: &[Expr]| entries.iter().map(shown).collect::<Vec<_>>().join(" ");
    match &expr.kind {
        ExprNode::Name(name) => name.to_string(),
        ExprNode::Constant(Constant::Text(text)) => format!("{text:?}"),
        ExprNode::Constant(Constant::Bytes(bytes)) => format!("b{bytes:?}"),
        ExprNode::Constant(Constant::Null) => "null".into(),
        ExprNode::Constant(Constant::Bool(value)) => value.to_string(),
        ExprNode::Constant(Constant::Int(value)) => value.to_string(),
        ExprNode::Constant(Constant::Uint(value)) => format!("{value}u"),
        ExprNode::Constant(Constant::Double(value)) => format!("{value:?}"),
        ExprNode::Field { of, name, only_test } => format!("{}.{name}{}", shown(of), if *only_test { "?" } else { "" }),
        ExprNode::Call { function, on: Some(on), arguments } => {
            format!("({}).{function}({})", shown(on), all(arguments))
        }
        ExprNode::Call { function, on: None, arguments } => format!("({function} {})", all(arguments)),
        ExprNode::List(entries) => format!("[{}]", all(entries)),
        ExprNode::Map(entries) => {
            let entry = |(key, value): &(Expr, Expr)| format!("{}: {}", shown(key), shown(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

fn tree(text: &str) -> String {
    match parse::parse(text, &Meter::linear(text)) {
        Ok(expr) => shown(&expr),
        Err((at, problem)) => CelFault::new(text, at, problem).to_string(),
    }
}

fn wrong(text: &str) -> String {
    check(text).err().map(|fault| fault.to_string()).unwrap_or_default()
}

#[test]
fn operators_bind_as_in_cel() {
    let rows = [
        ("a || b && c", "(_||_ a (_&&_ b c))"),
        ("(a || b) && c", "(_&&_ (_||_ a b) c)"),
        ("a || b || c || d", "(_||_ (_||_ a b) (_||_ c d))"),
        ("!a == b", "(_==_ (!_ a) b)"),
        ("a + b * c - d", "(_-_ (_+_ a (_*_ b c)) d)"),
        ("a - b - c", "(_-_ (_-_ a b) c)"),
        ("a % b / c", "(_/_ (_%_ a b) c)"),
        ("a < b == c", "(_==_ (_<_ a b) c)"),
        ("a in b || c in d", "(_||_ (@in a b) (@in c d))"),
        ("a ? b : c ? d : e", "(_?_:_ a b (_?_:_ c d e))"),
        ("-a.b[1].c(2, 3)", "(-_ ((_[_] a.b 1)).c(2 3))"),
        ("!!a", "(!_ (!_ a))"),
        ("- -1", "(-_ -1)"),
        ("-1.size()", "(-1).size()"),
        ("f()", "(f )"),
        (".a.b", "a.b"),
        ("has(a.b.c)", "a.b.c?"),
        ("a.function", "a.function"),
        ("[1, 2,] == {1: 'a', b: [],}", "(_==_ [1 2] {1: \"a\", b: []})"),
        ("a // and that is all", "a"),
        ("a\n  && // both\n b", "(_&&_ a b)"),
    ];
    for (text, expected) in rows {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn literals_are_read_as_in_cel() {
    let rows = [
        ("0", "0"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("0x1F", "31"),
        ("-0x1f", "-31"),
        ("18446744073709551615u", "18446744073709551615u"),
        ("0xFFU", "255u"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("1e3", "1000.0"),
        ("-2.5E-1", "-0.25"),
        ("'a\"b'", "\"a\\\"b\""),
        ("\"a'b\"", "\"a'b\""),
        ("'''a\n'b'''", "\"a\\n'b\""),
        ("\"\"\"a\"b\"\"\"", "\"a\\\"b\""),
        ("''", "\"\""),
        (r"'\a\b\f\n\r\t\v\\\?\`\'\x41\u00e9\U0001F600\101'", "\"\\u{7}\\u{8}\\u{c}\\n\\r\\t\\u{b}\\\\?`'Aé😀A\""),
        (r"r'\d+\'", r#""\\d+\\""#),
        ("R\"a\"", "\"a\""),
        (r"b'é\xff\377'", "b[195, 169, 255, 255]"),
        ("bR'a'", "b[97]"),
        ("rb'a'", "b[97]"),
        ("'\\xff'", "\"ÿ\""),
    ];
    for (text, expected) in rows {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn syntax_errors_are_reported_with_their_column() {
    let rows = [
        ("", "column 1: the condition is empty"),
        (" // nothing", "column 1: the condition is empty"),
        ("a ==", "column 5: the condition ends where a value is expected"),
        ("a b", "column 3: \"b\" where an operator or the end is expected"),
        ("a = b", "column 3: \"=\" is not valid in CEL"),
        ("a | b", "column 3: \"|\" is not valid in CEL"),
        ("a & b", "column 3: \"&\" is not valid in CEL"),
        ("ä && a", "column 1: \"ä\" is not valid in CEL"),
        ("'é' + §", "column 7: \"§\" is not valid in CEL"),
        ("(a", "column 3: the condition ends where ) is expected"),
        ("a)", "column 2: \")\" where an operator or the end is expected"),
        ("[1, 2", "column 6: the condition ends where ] or , is expected"),
        ("f(1,)", "column 5: \")\" where a value is expected"),
        ("{1}", "column 3: \"}\" where the : between key and value is expected"),
        ("a ? b", "column 6: the condition ends where the : of a conditional expression is expected"),
        ("a.", "column 3: the condition ends where the name of a field or function is expected"),
        ("a.1", "column 2: \".1\" where an operator or the end is expected"),
        ("'a", "column 1: the string that begins here is not terminated"),
        ("'a\nb'", "line 1, column 1: the string that begins here is not terminated on its line"),
        ("a &&\n  b &&\n  ?", "line 3, column 3: \"?\" where a value is expected"),
        (r"'\q'", "column 2: this is not an escape sequence of CEL"),
        (r"'\u12'", "column 2: this is not an escape sequence of CEL"),
        (r"'\ud800'", "column 2: this is not an escape sequence of CEL"),
        (r"b'\u0041'", "column 3: this is not an escape sequence of CEL"),
        (r"'\9'", "column 2: this is not an escape sequence of CEL"),
        (r"'\x+1'", "column 2: this is not an escape sequence of CEL"),
        ("9223372036854775808", "column 1: this is no number, or too large"),
        ("18446744073709551616u", "column 1: this is no number, or too large"),
        ("1e999", "column 1: this is no number, or too large"),
        ("0x", "column 1: this is no number, or too large"),
        ("1a", "column 1: this is no number"),
        ("for == 1", "column 1: \"for\" is a reserved word"),
        ("a.in", "column 3: \"in\" is a reserved word"),
        ("has(a)", "column 1: has() takes one field, as in has(request.headers.role)"),
        ("has(a.b, c.d)", "column 1: has() takes one field, as in has(request.headers.role)"),
        ("Point{x: 1}", "column 1: messages cannot be made in a condition"),
        ("a.b{}", "column 1: messages cannot be made in a condition"),
        (
            "a.exists(x, x == 1)",
            "column 3: Envoy does not evaluate list macros: write each case of exists separately, joined by || or &&",
        ),
    ];
    for (text, expected) in rows {
        let actual = tree(text);
        assert_eq!(actual, expected, "{text}");
    }
}

/// All these conditions were sent to Envoy 1.40, which accepted them.
#[test]
fn what_envoy_evaluates_is_taken() {
    let conditions = [
        "request.path == '/a'",
        "request.headers['role'] == 'admin'",
        "request.headers.role == 'admin'",
        "'role' in request.headers && request.headers['role'] in ['admin', 'root']",
        "has(request.headers.role)",
        "request.path.startsWith('/a') || startsWith(request.path, '/b')",
        "request.url_path.matches('^/(users|teams)/[0-9]+$')",
        "matches(request.path, r'^/\\d+$')",
        "size(request.path) > 1 && request.path.size() < 100",
        "request.time > timestamp('2020-01-01T00:00:00Z') && request.time.getHours('UTC') >= 8",
        "duration('1s') == duration('1000ms')",
        "source.address.startsWith('10.') && destination.port == 443",
        "connection.mtls",
        "connection.mtls ? connection.uri_san_peer_certificate == 'spiffe://a' : false",
        "metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['sub'] == 'alice'",
        "filter_state['x'] == 'y'",
        "{'admin': true}[request.headers['role']]",
        "type(request.path) == string",
        "re.extract(request.path, '/(.*)', r'\\1') == 'a'",
        "int('1') + 1 == 2 && double(1) < 1.5 && uint(1) == 1u && bool('true') && bytes('a') == b'a'",
        "xds.route_name == 'a'",
        "dyn(true)",
        "1 == 1.0",
    ];
    for condition in conditions {
        assert_eq!(wrong(condition), "", "{condition}");
    }
}

#[test]
fn what_envoy_refuses_is_reported() {
    let rows = [
        ("nobody(request.path)", "column 1: Envoy does not support the function \"nobody\" with 1 argument"),
        ("request.path.nobody()", "\"nobody\" as a method without arguments"),
        ("request.path.lowerAscii() == 'a'", "does not support the function \"lowerAscii\""),
        ("request.path.startsWith() || true", "does not support the function \"startsWith\" as a method"),
        ("request.path.matches('a', 'b')", "with 2 arguments"),
        ("re.nobody('a')", "does not support the function \"re.nobody\" with 1 argument"),
        ("string(1) == '1'", "conversion of values to strings"),
        ("[1].exists(x, x == 1)", "does not evaluate list macros: write each case of exists separately"),
        ("[1].all(x, x == 1)", "each case of all separately"),
        ("['a'].map(x, x) == ['a']", "each case of map separately"),
        ("true && request.path.matches('(')", "column 30: "),
        ("request.path.matches('[a-z]{1,300}')", "100"),
        ("request.path.matches(r'(abc|def|ghi|jkl|mno|pqr|stu|vwx|yz){5}')", "100"),
    ];
    for (text, expected) in rows {
        let message = wrong(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn conditions_that_never_hold_are_reported() {
    let rows = [
        (
            "reqest.path == '/a'",
            "column 1: \"reqest\" is not an attribute that Envoy supports; the attributes are request, ",
        ),
        ("request.header['a'] == 'b'", "\"request.header\" is not an attribute"),
        ("has(request.nosuch)", "\"request.nosuch\""),
        ("response.code == 200", "not available yet"),
        ("true || upstream.address == 'a'", "column 9: this attribute is not available yet"),
        ("'a'", "column 1: this is neither true nor false"),
        ("1 + 1", "neither true"),
        ("true && request.path", "column 9: this is neither"),
        ("!request.headers", "column 2: this is neither"),
        ("connection.mtls ? 1 : true", "column 19: this is neither"),
        ("size(request.path)", "neither"),
        ("request", "neither"),
        ("request.path + '/' == '/a/'", "concatenation of strings or lists"),
        ("[1] + [2] == [1, 2]", "concatenation"),
    ];
    for (text, expected) in rows {
        let message = wrong(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

/// Regexes of CEL are UTF-8, and smaller than those of routes.
#[test]
fn regexes_are_checked_as_utf8() {
    let rows = [
        (
            r"matches(request.path, '/\\pN')",
            "column 23: the regex is too large: its compiled program has 238 instructions; at most 100",
        ),
        (r"request.path.matches('\\x{110000}')", "invalid escape sequence"),
        ("request.path.matches('(?:a|b{100}){100}')", "invalid repetition size: \"{100}\""),
        ("request.path.matches('.{20}')", "164 instructions"),
        ("request.path.matches('[é-ž]{50}')", "at most 100"),
        ("request.path.matches('[é')", "missing ]: \"[é\""),
        // Envoy needs more instructions for an empty group after a repetition.
        ("request.path.matches('a{60}b+(?:)')", "at most 100"),
    ];
    for (text, expected) in rows {
        let message = wrong(text);
        assert!(message.contains(expected), "{text}: {message}");
    }
    for text in [
        r"request.path.matches('\\x{100}')",
        r"request.path.matches('\\p{Greek}+')",
        "request.path.matches('é.*')",
        "request.path.matches('a{60}b+')",
    ] {
        assert_eq!(wrong(text), "");
    }
}

#[test]
fn conditions_of_logs_know_the_response() {
    let of_log = |text: &str| check_of_log(text, &Regexes::of_object(Limits::default()));
    assert_eq!(of_log("response.code >= 400"), Ok(()));
    assert!(!wrong("response.code >= 400").is_empty(), "a request has no response yet");
    for text in ["((", "request.nosuch == 'a'", r"request.path.matches('/\\pN')", "response.nosuch()"] {
        assert!(of_log(text).is_err(), "{text}");
    }
}

#[test]
fn nothing_is_too_deep_or_too_long() {
    let deep = |text: String| wrong(&text).contains("nested too deeply");
    for count in [100, 900] {
        let open = |open: &str, close: &str| format!("{}true{}", open.repeat(count), close.repeat(count));
        assert!(deep(open("(", ")")));
        assert!(deep(open("[", "]")));
        assert!(deep(open("!", "")));
        assert!(deep(open("- ", "")));
        assert!(deep(open("true ? true : ", "")));
        assert!(deep(format!("{}1{} == 1", "{1: ".repeat(count), "}".repeat(count))));
        assert!(deep(format!("request.headers{} == 1", ".a".repeat(count))));
        assert!(deep(format!("request.headers{} == 1", "[0]".repeat(count))));
        assert!(deep(format!("1{} == 1", " + 1".repeat(count))));
        assert!(deep(format!("1{}", " == 1".repeat(count))));
        // A chain of logical operators stays flat.
        assert_eq!(wrong(&open("", " && true || false").replacen("truetrue", "true", 1)), "");
    }
    assert!(wrong(&format!("{}true", "!".repeat(30))).is_empty());
    assert!(wrong(&" ".repeat(TEXT_BYTES_MAX + 1)).contains("16385 bytes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_accepted_or_reported(text in any::<String>()) {
        let _ = check(&text);
    }

    /// Tokens of CEL in any order: accepted text has a tree, and the tree is not deeper than allowed.
    #[test]
    fn any_tokens_are_accepted_or_reported(tokens in prop::collection::vec(prop::sample::select(vec![
        "request", ".", "path", "headers", "[", "]", "(", ")", "{", "}", "'a'", "b'a'", "r'\\d'", "1", "1u", "1.5",
        "==", "!=", "in", "&&", "||", "!", "-", "+", "?", ":", ",", "has", "matches", "size", "true", "null", "\n",
        "// x\n", "'", "\\", "0x", "9223372036854775808", "connection.mtls", "re", "é",
    ]), 0..40), spaced in any::<bool>()) {
        let text = tokens.join(if spaced { " " } else { "" });
        if let Ok(expr) = check(&text) {
            prop_assert!(expr.depth <= DEPTH_MAX && expr.steps >= 1);
        }
    }
}

/// Returns a text of a condition for each kind of repetition.
fn grown(times: usize) -> [String; 9] {
    [
        format!("true{}", " && true".repeat(times)),
        format!("1 in [{}1]", "1,".repeat(times)),
        format!("1 in [{}1]", "[".repeat(times)),
        "(".repeat(times),
        format!("'{}' == request.path", "a".repeat(times)),
        "rb".repeat(times),
        " ".repeat(times),
        format!("request.headers{}", "['a'].b".repeat(times)),
        format!("{}true", "true ? true : ".repeat(times)),
    ]
}

#[test]
fn steps_grow_with_the_text_and_not_faster() {
    let regexes = Regexes::of_object(Limits::default());
    let steps = |text: &str| counted(text, &regexes).1;
    for (once, twice) in grown(250).iter().zip(&grown(500)) {
        assert!(steps(twice) <= 2 * steps(once) + 100, "{once}: {} and {}", steps(once), steps(twice));
        assert!(steps(twice) <= STEPS_PER_BYTE_MAX * twice.len() * 3 / 4, "{once}: {}", steps(twice));
    }
}

#[test]
fn regexes_of_a_condition_are_charged_to_its_object() {
    let regexes = Regexes::of_object(Limits::default());
    assert_eq!(super::check("request.path.matches('/a[0-9]+')", &regexes).map(drop), Ok(()));
    let spent = regexes.spent();
    assert!(spent > 0);
    // The verdict about the regex under the limits of routes is a separate one.
    assert_eq!(regexes.check("/a[0-9]+").map(drop), Ok(()));
    assert!(regexes.spent() > spent);
}
