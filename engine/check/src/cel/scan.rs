//! Lexer for CEL conditions.

use std::sync::Arc;

use super::build::Flawed;
use super::fault::CelProblem;
use super::literal;
use super::tree::Constant;
use crate::Excerpt;
use crate::meter::Meter;

/// A token, and the byte where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: TokenKind,
}

/// The kind of a [`Token`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// A name, which may be a keyword.
    Name(Arc<str>),
    /// A literal.
    Literal(Constant),
    /// The whole number 2^63, which is valid only with a minus before it.
    LeastInt,
    /// A sign, such as an operator or a bracket.
    Sign(&'static str),
    /// The end of the text.
    End,
}

/// Signs, longer ones first.
const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "!", "+", "-", "*",
    "/", "%", "=", "|",
];

/// Returns the tokens of a text, including the end.
pub(super) fn tokenize(text: &str, meter: &Meter) -> Flawed<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(space) = space(rest) {
            meter.spend(space)?;
            at += space;
            continue;
        }
        let (kind, length) = token(rest).map_err(|(inside, problem)| (at + inside, problem))?;
        // Each byte is read as the beginning of a text, of a number and of a name.
        meter.spend(1 + 3 * length)?;
        tokens.push(Token { at, kind });
        at += length;
    }
    tokens.push(Token { at: text.trim_end().len(), kind: TokenKind::End });
    Ok(tokens)
}

/// Returns the length of the space or comment at the beginning; `None` where there is neither.
fn space(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').map_or(rest.len(), |end| end + 1));
    }
    let length = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
    (length > 0).then_some(length)
}

fn token(rest: &str) -> Flawed<(TokenKind, usize)> {
    if let Some((constant, length)) = literal::text(rest)? {
        return Ok((TokenKind::Literal(constant), length));
    }
    let first = rest.chars().next().unwrap_or_default();
    let digit_follows = rest.get(1..).is_some_and(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    if first.is_ascii_digit() || (first == '.' && digit_follows) {
        return literal::number(rest);
    }
    if first == '_' || first.is_ascii_alphabetic() {
        let length = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        return Ok((TokenKind::Name(rest.get(..length).unwrap_or_default().into()), length));
    }
    match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        Some("=" | "|") | None => {
            let mut buffer = [0; 4];
            Err((0, CelProblem::Character { found: Excerpt::new(first.encode_utf8(&mut buffer)) }))
        }
        Some(sign) => Ok((TokenKind::Sign(sign), sign.len())),
    }
}
