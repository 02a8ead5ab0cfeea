//! Escaping of external text for terminals and logs: all printed text passes through this function.

use std::borrow::Cow;

/// Escapes every character that moves the cursor, ends the line, colours, hides or reorders text, except the characters
/// for which `kept` is true.
pub(crate) fn printable(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let acts = |character: char| acts(character) && !kept(character);
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Escapes a text of one line, without exceptions.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    printable(text, |_| false)
}

/// Returns whether a character has an effect when printed: control characters, and characters that change the direction
/// of text or have no width.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(plain("shop/cart é — “x”"), "shop/cart é — “x”");
        assert_eq!(plain("a\u{1b}[31mb\r\nc\u{7f}\u{9b}2J"), r"a\u{1b}[31mb\r\nc\u{7f}\u{9b}2J");
        assert_eq!(plain("\u{202e}gpj.exe\u{200b}"), r"\u{202e}gpj.exe\u{200b}");
        assert_eq!(printable("a\nb\t", |character| character == '\n'), "a\nb\\t");
    }
}
