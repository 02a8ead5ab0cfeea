//! The private words, each with the term of the field, and where they are looked for.

use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;

/// Private words as a regex, and what to write instead.
const PRIVATE: [(&str, &str); 17] = [
    ("told|tells?|telling", "report, record, send, describe"),
    ("say|says|said|saying", "report, state, specify; message"),
    ("hear|hears|heard|hearing", "receive; event, watch event"),
    ("ask|asks|asked|asking", "request, query, subscribe"),
    ("who|whom|whose|whoever", "the object, the policy, the client"),
    ("nobody|somebody|everybody", "no object, any client, all clients"),
    ("stand|stands|stood|standing", "is, applies, is served instead; stand-in version"),
    ("in the place of", "instead of"),
    ("anew", "again, recomputed"),
    ("troubles?", "problem, error"),
    ("strangers?", "unauthenticated peer, foreign store"),
    ("back ends?", "backend"),
    ("afar", "remote"),
    ("astray|strays?", "outlier"),
    ("comes? in|lets? in", "is allowed; access list"),
    ("in vain", "without success"),
    ("clerks?|keepers?|tellers?|doorkeepers?", "controller, recorder, authenticator, queue"),
];

static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let words: Vec<&str> = PRIVATE.iter().map(|(words, _)| *words).collect();
    Regex::new(&format!(r"(?i)\b(?:{})\b", words.join("|"))).unwrap()
});

/// Inline code and placeholders are identifiers or quotations, links have names of files, and `stand-in` is in the
/// glossary.
static PASSED_OVER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"`[^`]*`|\{[^{}]*\}|\S*\.(?:rs|md)\S*|\]\([^)]*\)|(?i:\bstand-ins?\b)").unwrap());

/// Whether a line of prose has a private word.
pub(super) fn is_private(prose: &str) -> bool {
    WORDS.is_match(&PASSED_OVER.replace_all(prose, ""))
}

/// The list, as a failure shows it.
pub(super) fn replacements() -> String {
    PRIVATE.iter().map(|(words, instead)| format!("\n  {} -> {instead}", words.replace('|', ", "))).collect()
}

/// Comment lines of a Rust file.
pub(super) fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| line.starts_with("//"))
}

/// Lines of prose of a Markdown file: without fenced code.
pub(super) fn prose(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

/// String literals of Rust code: messages, log lines, help. Doc comments are not among them.
pub(super) fn literals(tokens: TokenStream, found: &mut Vec<String>) {
    let mut after_doc = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), found),
            TokenTree::Literal(literal) if !after_doc => {
                found.extend(syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value()));
            }
            TokenTree::Punct(punct) if punct.as_char() == '=' => continue,
            TokenTree::Ident(name) if name == "doc" => {
                after_doc = true;
                continue;
            }
            _ => {}
        }
        after_doc = false;
    }
}

/// Identifiers of Rust code, inside macros as well.
pub(super) fn names(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => names(group.stream(), found),
            TokenTree::Ident(name) => found.push(name.to_string()),
            _ => {}
        }
    }
}

/// Whether a part of an identifier is a private word: `TellAll` and `tell_all` are read as `tell all`.
pub(super) fn is_private_name(name: &str) -> bool {
    static PART: LazyLock<Regex> = LazyLock::new(|| Regex::new("[A-Z]+(?:[a-z]+)?|[a-z]+").unwrap());
    let parts: Vec<String> = PART.find_iter(name).map(|part| part.as_str().to_lowercase()).collect();
    let prose = parts.join(" ").replace("stand ins", "").replace("stand in", "");
    WORDS.is_match(&prose)
}

#[test]
fn private_words_are_found_in_names() {
    for private in ["tell_all", "TellAll", "TOLD_MAX", "is_nobodys_or_nobody", "back_end", "stand_in_told"] {
        assert!(is_private_name(private), "{private}");
    }
    for plain in ["stand_in", "without_stand_ins", "standalone", "task", "DataPlane", "essay"] {
        assert!(!is_private_name(plain), "{plain}");
    }
    let mut found = Vec::new();
    names("fn f() { say!(told, [Teller]); }".parse().unwrap(), &mut found);
    assert_eq!(found, ["fn", "f", "say", "told", "Teller"]);
}

#[test]
fn private_words_are_found_in_prose_only() {
    for private in ["the status is told", "Whose route it is", "asks for it", "a stand-in stands there"] {
        assert!(is_private(private), "{private}");
    }
    for plain in [
        "a stand-in version",
        "`told` is reported",
        "standalone mode",
        "a task",
        "{told}: {said}",
        "[said.rs](a/said.rs#ask)",
    ] {
        assert!(!is_private(plain), "{plain}");
    }
    let mut found = Vec::new();
    literals("/// told\nfn f() { say!(\"a {b}\", [\"c\"]); }".parse().unwrap(), &mut found);
    assert_eq!(found, ["a {b}", "c"]);
    assert_eq!(prose("a\n\n```sh\nb\n```\nc"), ["a", "c"]);
}
