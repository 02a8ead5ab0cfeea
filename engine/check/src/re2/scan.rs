//! Scanner for the small pieces of RE2's grammar: escape sequences, repetition counts, character classes.
//!
//! For Latin-1, every character of the pattern is one byte of the written pattern. Each function takes the rest of the
//! pattern, moves it past the text that it has read, and leaves the tree to the parser.

use super::class::{ClassBuilder, RuneClass};
use super::encoding::Encoding;
use super::fault::{RegexFault, SyntaxProblem};
use super::group;

/// Returns the text between `start` and `rest`, which is a tail of `start`.
pub(super) fn between<'a>(start: &'a str, rest: &str) -> &'a str {
    start.get(..start.len().saturating_sub(rest.len())).unwrap_or(start)
}

/// Removes the first character.
pub(super) fn take(rest: &mut &str) -> Option<char> {
    let mut characters = rest.chars();
    let first = characters.next()?;
    *rest = characters.as_str();
    Some(first)
}

/// Removes the first character and returns its number.
pub(super) fn take_rune(rest: &mut &str) -> Option<u32> {
    take(rest).map(u32::from)
}

/// Parses `{2}`, `{2,}` or `{2,3}` at the start of `rest`; anything else is a literal brace, and nothing is removed.
pub(super) fn repetition(rest: &mut &str) -> Option<(u32, Option<u32>)> {
    let mut tail = rest.strip_prefix('{')?;
    let minimum = integer(&mut tail)?;
    let maximum = match tail.strip_prefix(',') {
        None => Some(minimum),
        Some(after) => {
            tail = after;
            if tail.starts_with('}') { None } else { Some(integer(&mut tail)?) }
        }
    };
    *rest = tail.strip_prefix('}')?;
    Some((minimum, maximum))
}

/// Parses a number without leading zeros; more than nine digits are not a number.
fn integer(rest: &mut &str) -> Option<u32> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, tail) = rest.split_at_checked(digits)?;
    if number.is_empty() || number.len() > 1 && number.starts_with('0') {
        return None;
    }
    // RE2 stops before a tenth digit.
    let number = if digits <= 9 { number.parse().ok()? } else { return None };
    *rest = tail;
    Some(number)
}

/// Parses an escape sequence for one character: `\n`, `\x{1F}`, `\.`. `rest` starts with the backslash.
pub(super) fn escape(rest: &mut &str, encoding: Encoding) -> Result<u32, RegexFault> {
    let start = *rest;
    take(rest);
    let Some(letter) = take(rest) else {
        return Err(SyntaxProblem::TrailingBackslash.at(start, encoding));
    };
    let rune = match letter {
        'n' => Some(0x0a),
        'r' => Some(0x0d),
        't' => Some(0x09),
        'a' => Some(0x07),
        'f' => Some(0x0c),
        'v' => Some(0x0b),
        'x' => hexadecimal(rest, encoding),
        '0'..='7' => octal(letter, rest, encoding),
        punctuation if punctuation.is_ascii() && !punctuation.is_ascii_alphanumeric() => Some(punctuation.into()),
        _ => None,
    };
    rune.ok_or_else(|| SyntaxProblem::Escape.at(between(start, rest), encoding))
}

/// Parses up to three octal digits; a single digit must be 0, since others are back references, which RE2 does not
/// have.
fn octal(first: char, rest: &mut &str, encoding: Encoding) -> Option<u32> {
    let mut code = first.to_digit(8)?;
    if code != 0 && !rest.starts_with(|next: char| next.is_digit(8)) {
        return None;
    }
    for _ in 0..2 {
        let Some(digit) = rest.chars().next().and_then(|next| next.to_digit(8)) else { break };
        code = code * 8 + digit;
        take(rest);
    }
    Some(code).filter(|code| *code <= encoding.rune_max())
}

/// Parses two hexadecimal digits, or any number of them in braces.
fn hexadecimal(rest: &mut &str, encoding: Encoding) -> Option<u32> {
    let first = take(rest)?;
    if first != '{' {
        return Some(first.to_digit(16)? * 16 + take(rest)?.to_digit(16)?);
    }
    let mut code = take(rest)?.to_digit(16)?;
    loop {
        match take(rest)? {
            '}' => return Some(code),
            digit => code = code * 16 + digit.to_digit(16)?,
        }
        if code > encoding.rune_max() {
            return None;
        }
    }
}

/// Parses `\d`, `\pN`, `\p{Greek}` and the like at the start of `rest`; `None` if there is none.
pub(super) fn escaped_class(rest: &mut &str, mut builder: ClassBuilder<'_>) -> Result<Option<RuneClass>, RegexFault> {
    Ok(if group_escape(rest, &mut builder, 2)? { Some(builder.built()) } else { None })
}

/// Adds `\d` or `\p{…}` at the start of `rest`. `\p` needs at least `bytes_min` bytes to count.
fn group_escape(rest: &mut &str, builder: &mut ClassBuilder<'_>, bytes_min: usize) -> Result<bool, RegexFault> {
    let start = *rest;
    let Some(letter) = rest.strip_prefix('\\').and_then(|tail| tail.chars().next()) else { return Ok(false) };
    if matches!(letter, 'p' | 'P') && start.len() >= bytes_min {
        unicode_group(rest, builder)?;
        return Ok(true);
    }
    let Some(members) = group::perl(letter) else { return Ok(false) };
    *rest = rest.get(2..).unwrap_or_default();
    builder.add(members, letter.is_ascii_uppercase())?;
    Ok(true)
}

/// Parses `\pN`, `\p{Greek}`, `\P{^Greek}`.
fn unicode_group(rest: &mut &str, builder: &mut ClassBuilder<'_>) -> Result<(), RegexFault> {
    let start = *rest;
    let mut negated = start.starts_with("\\P");
    *rest = rest.get(2..).unwrap_or_default();
    let encoding = builder.encoding;
    let fault = |rest: &str| SyntaxProblem::ClassRange.at(between(start, rest), encoding);
    let mut name = match rest.strip_prefix('{') {
        None => {
            let letter = *rest;
            take(rest);
            between(letter, rest)
        }
        Some(tail) => {
            let (name, tail) = tail.split_once('}').ok_or_else(|| SyntaxProblem::ClassRange.at(start, encoding))?;
            *rest = tail;
            name
        }
    };
    if let Some(positive) = name.strip_prefix('^') {
        negated = !negated;
        name = positive;
    }
    builder.add(group::unicode(name, encoding).ok_or_else(|| fault(rest))?, negated)
}

/// Parses `[…]` at the start of `rest`.
pub(super) fn bracket_class(rest: &mut &str, mut builder: ClassBuilder<'_>) -> Result<RuneClass, RegexFault> {
    let start = *rest;
    let encoding = builder.encoding;
    let missing = || SyntaxProblem::MissingBracket.at(start, encoding);
    take(rest);
    let negated = rest.starts_with('^');
    if negated {
        take(rest);
    }
    // A ] is an ordinary member at the first position.
    let (mut first, mut names) = (true, true);
    while first || !rest.starts_with(']') {
        if rest.is_empty() {
            return Err(missing());
        }
        first = false;
        // Where no name ends here, none ends later: the rest is scanned for an end once.
        names = names && (!rest.starts_with("[:") || rest.contains(":]"));
        if names && posix_class(rest, &mut builder)? || group_escape(rest, &mut builder, 3)? {
            continue;
        }
        let member = *rest;
        let low = class_character(rest, encoding).ok_or_else(missing)??;
        // [a-] means a or -.
        let is_range = rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]");
        let high = if is_range {
            take(rest);
            class_character(rest, encoding).ok_or_else(missing)??
        } else {
            low
        };
        if high < low {
            return Err(SyntaxProblem::ClassRange.at(between(member, rest), encoding));
        }
        builder.add(RuneClass::new([(low, high)]), false)?;
    }
    take(rest);
    let class = builder.built();
    Ok(if negated { class.negated(encoding) } else { class })
}

fn class_character(rest: &mut &str, encoding: Encoding) -> Option<Result<u32, RegexFault>> {
    if rest.starts_with('\\') { Some(escape(rest, encoding)) } else { Some(Ok(take_rune(rest)?)) }
}

/// Parses `[:name:]` or `[:^name:]` inside of brackets.
fn posix_class(rest: &mut &str, builder: &mut ClassBuilder<'_>) -> Result<bool, RegexFault> {
    let start = *rest;
    let Some((name, tail)) = rest.strip_prefix("[:").and_then(|tail| tail.split_once(":]")) else { return Ok(false) };
    let (name, negated) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let members =
        group::posix(name).ok_or_else(|| SyntaxProblem::ClassRange.at(between(start, tail), builder.encoding))?;
    *rest = tail;
    builder.add(members, negated)?;
    Ok(true)
}
