//! Shared code of the fuzz targets of grammars.

use holdfast_test_support::texts::GRAMMARS;

/// Tries the bytes as a text, and as the choices that generate a text of the grammar.
pub fn fuzz(name: &str, bytes: &[u8]) {
    let grammar = GRAMMARS.iter().find(|grammar| grammar.name == name).expect("a grammar");
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!((grammar.check)(text), Ok(()));
    }
    let mut rest = bytes.iter().copied();
    let text = grammar.text(&mut |below| rest.next().map_or(0, |byte| usize::from(byte) % below.max(1)));
    assert_eq!((grammar.check)(&text), Ok(()), "{text:?}");
}
