//! Excerpt of a text from outside, made safe for error messages.

use std::fmt;

/// Longest excerpt, in characters of the original text.
const EXCERPT_CHARS_MAX: usize = 80;

/// A quoted, escaped and shortened copy of text that came from outside.
///
/// Errors appear in statuses, logs and terminals: control characters are escaped and the length is bounded.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt(String);

impl Excerpt {
    /// Returns the first characters of `text`; "…" marks text that is left out.
    pub fn new(text: &str) -> Self {
        let mut quoted = String::from("\"");
        let mut characters = text.chars();
        for character in characters.by_ref().take(EXCERPT_CHARS_MAX) {
            quoted.extend(character.escape_debug());
        }
        if characters.next().is_some() {
            quoted.push('…');
        }
        quoted.push('"');
        Self(quoted)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_control_characters_and_quotes() {
        assert_eq!(Excerpt::new("a\"\n\u{1b}[31m").to_string(), r#""a\"\n\u{1b}[31m""#);
    }

    #[test]
    fn shortens_long_text() {
        let text = Excerpt::new(&"é".repeat(1000)).to_string();
        assert_eq!(text.chars().count(), EXCERPT_CHARS_MAX + 3);
        assert!(text.ends_with("…\""));
    }
}
