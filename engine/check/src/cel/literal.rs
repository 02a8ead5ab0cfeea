//! Literals of CEL: numbers, texts and bytes.

use super::build::Flawed;
use super::fault::CelProblem;
use super::scan::TokenKind;
use super::tree::Constant;

/// Quotes of texts, longer ones first.
const QUOTES: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

/// Parses a text or bytes literal at the beginning and returns it with its length; `None` where there is none.
pub(super) fn text(rest: &str) -> Flawed<Option<(Constant, usize)>> {
    let prefix = rest.len() - rest.trim_start_matches(['r', 'R', 'b', 'B']).len();
    let (Some(marks), Some(after)) = (rest.get(..prefix), rest.get(prefix..)) else { return Ok(None) };
    let (bytes, raw) = match marks.to_ascii_lowercase().as_str() {
        "" => (false, false),
        "r" => (false, true),
        "b" => (true, false),
        "br" | "rb" => (true, true),
        _ => return Ok(None),
    };
    let Some(quote) = QUOTES.into_iter().find(|quote| after.starts_with(quote)) else { return Ok(None) };
    let mut read = Read { content: Vec::new(), bytes };
    let mut at = prefix + quote.len();
    loop {
        let Some(rest) = rest.get(at..).filter(|rest| !rest.is_empty()) else {
            return Err((0, CelProblem::Literal("the string that begins here is not terminated")));
        };
        if rest.starts_with(quote) {
            at += quote.len();
            break;
        }
        let first = rest.chars().next().unwrap_or_default();
        if quote.len() == 1 && matches!(first, '\n' | '\r') {
            return Err((0, CelProblem::Literal("the string that begins here is not terminated on its line")));
        }
        at += match (first, raw) {
            ('\\', false) => read.escape(rest).map_err(|problem| (at, problem))?,
            _ => {
                read.character(first);
                first.len_utf8()
            }
        };
    }
    let constant = if bytes {
        Constant::Bytes(read.content.into())
    } else {
        // Escape sequences of a text are characters.
        Constant::Text(String::from_utf8_lossy(&read.content).into())
    };
    Ok(Some((constant, at)))
}

struct Read {
    content: Vec<u8>,
    bytes: bool,
}

impl Read {
    fn character(&mut self, character: char) {
        self.content.extend(character.encode_utf8(&mut [0; 4]).bytes());
    }

    /// Parses an escape sequence at the beginning and returns its length.
    fn escape(&mut self, rest: &str) -> Result<usize, CelProblem> {
        const WRONG: CelProblem = CelProblem::Literal("this is not an escape sequence of CEL");
        let letter = rest.chars().nth(1).ok_or(WRONG)?;
        let plain = match letter {
            'a' => Some('\u{7}'),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            '\\' | '?' | '"' | '\'' | '`' => Some(letter),
            _ => None,
        };
        if let Some(plain) = plain {
            self.character(plain);
            return Ok(2);
        }
        let (from, digits, base) = match letter {
            'x' | 'X' => (2, 2, 16),
            'u' if !self.bytes => (2, 4, 16),
            'U' if !self.bytes => (2, 8, 16),
            '0'..='3' => (1, 3, 8),
            _ => return Err(WRONG),
        };
        let number = rest.get(from..from + digits).filter(|digits| digits.bytes().all(|digit| digit != b'+'));
        let number = number.and_then(|digits| u32::from_str_radix(digits, base).ok()).ok_or(WRONG)?;
        match (self.bytes, u8::try_from(number), char::from_u32(number)) {
            (true, Ok(byte), _) => self.content.push(byte),
            (false, _, Some(character)) => self.character(character),
            _ => return Err(WRONG),
        }
        Ok(from + digits)
    }
}

/// Parses a number at the beginning and returns it with its length.
pub(super) fn number(rest: &str) -> Flawed<(TokenKind, usize)> {
    const WRONG: (usize, CelProblem) = (0, CelProblem::Literal("this is no number, or too large"));
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let tail = |at: usize| rest.get(at..).unwrap_or_default();
    let (value, length) = if rest.starts_with("0x") || rest.starts_with("0X") {
        let length = tail(2).len() - tail(2).trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
        (u64::from_str_radix(tail(2).get(..length).unwrap_or_default(), 16), 2 + length)
    } else {
        let whole = digits(rest);
        let mut length = whole;
        if tail(length).starts_with('.') && digits(tail(length + 1)) > 0 {
            length += 1 + digits(tail(length + 1));
        }
        if tail(length).starts_with(['e', 'E']) {
            let sign = usize::from(tail(length + 1).starts_with(['+', '-']));
            let exponent = digits(tail(length + 1 + sign));
            if exponent > 0 {
                length += 1 + sign + exponent;
            }
        }
        if length > whole {
            let double = rest.get(..length).and_then(|text| text.parse().ok());
            let double = double.filter(|double: &f64| double.is_finite()).ok_or(WRONG)?;
            return ended(tail(length)).map(|()| (TokenKind::Literal(Constant::Double(double)), length));
        }
        (rest.get(..whole).unwrap_or_default().parse(), whole)
    };
    let value = value.map_err(|_| WRONG)?;
    if tail(length).starts_with(['u', 'U']) {
        return ended(tail(length + 1)).map(|()| (TokenKind::Literal(Constant::Uint(value)), length + 1));
    }
    ended(tail(length))?;
    match i64::try_from(value) {
        Ok(value) => Ok((TokenKind::Literal(Constant::Int(value)), length)),
        Err(_) if value == i64::MIN.unsigned_abs() => Ok((TokenKind::LeastInt, length)),
        Err(_) => Err(WRONG),
    }
}

/// Checks that no letter follows a number directly.
fn ended(after: &str) -> Flawed<()> {
    if after.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric()) {
        return Err((0, CelProblem::Literal("this is no number")));
    }
    Ok(())
}
