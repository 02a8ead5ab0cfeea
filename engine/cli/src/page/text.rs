//! Text from outside: escaped, and cut to a length that a page can show. The JSON pages have all of it.

use crate::finding::plain;

/// Maximum number of characters of one text.
const PAGE_TEXT_CHARACTERS_MAX: usize = 2_000;

/// Maximum number of characters of one text in a list. The page of an object has more.
const LIST_TEXT_CHARACTERS_MAX: usize = 240;

/// Returns a text from outside for a list.
pub(super) fn in_list(text: &str) -> String {
    shortened(&plain(text), LIST_TEXT_CHARACTERS_MAX)
}

/// Returns a text from outside.
pub(super) fn text(text: &str) -> String {
    shortened(&plain(text), PAGE_TEXT_CHARACTERS_MAX)
}

/// Returns at most `characters` of a text.
pub(super) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
