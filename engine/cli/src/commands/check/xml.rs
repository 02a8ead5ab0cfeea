//! Text in XML 1.0: escaped, without the characters that no XML document may contain.

use std::fmt;

use crate::printable::plain;

/// Text for an element or for an attribute in double quotes. Control characters appear as in the text report: as
/// `\u{1b}`, or `\n` for a line break.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in plain(self.0).chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                // Noncharacters, which are no control characters and yet are forbidden.
                '\u{fffe}' | '\u{ffff}' => write!(f, "{}", character.escape_unicode())?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Escaped;

    #[test]
    fn text_stays_in_its_place_and_no_forbidden_character_is_left() {
        let escaped = Escaped("a<b> & \"c\" 'd' ]]>\n\u{0}\u{1b}\u{ffff}\u{fffe}ü\u{1f600}").to_string();
        let expected = "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos; ]]&gt;";
        assert_eq!(escaped, format!(r"{expected}\n\u{{0}}\u{{1b}}\u{{ffff}}\u{{fffe}}ü😀"));
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            let allowed = |c: char| {
                matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') || c > '\u{ffff}'
            };
            let text = Escaped(character.encode_utf8(&mut [0; 4])).to_string();
            assert!(text.chars().all(allowed), "{character:?}");
        }
    }
}
