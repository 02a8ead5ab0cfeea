//! Templates: texts with names between double braces or percent signs.

use super::meter::{Meter, OutOfSteps};

/// Replaces the names between double braces (`{{ route_name }}`) in a text. Returns `None` where a name is unknown, or
/// where braces or spaces remain.
pub fn braces(text: &str, known: impl Fn(&str) -> Option<String>) -> Option<String> {
    counted_braces(text, known).0
}

/// Replaces the names like [`braces`], and returns the number of steps: at most
/// [`STEPS_PER_BYTE_MAX`](super::meter::STEPS_PER_BYTE_MAX) for each byte.
pub fn counted_braces(text: &str, known: impl Fn(&str) -> Option<String>) -> (Option<String>, usize) {
    let meter = Meter::linear(text);
    let filled = fill_braces(text, &known, &meter).unwrap_or_default();
    (filled, meter.spent())
}

fn fill_braces(
    text: &str,
    known: &dyn Fn(&str) -> Option<String>,
    meter: &Meter,
) -> Result<Option<String>, OutOfSteps> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let split = after.split_once("}}");
        meter.spend(before.len() + split.map_or(after, |(name, _)| name).len() + 4)?;
        let Some((name, tail)) = split else { return Ok(None) };
        let Some(value) = known(name.trim()) else { return Ok(None) };
        filled.push_str(before);
        filled.push_str(&value);
        rest = tail;
    }
    meter.spend(rest.len())?;
    filled.push_str(rest);
    Ok((!filled.contains(['{', '}', ' '])).then_some(filled))
}

/// Converts a text to an Envoy format string: `known` returns the format for a name between percent signs, and every
/// other percent sign is literal. Returns `None` where no name is replaced.
pub fn percents(text: &str, known: impl Fn(&str) -> Option<String>) -> Result<Option<String>, OutOfSteps> {
    counted_percents(text, known).0
}

/// Converts a text like [`percents`], and returns the number of steps: at most
/// [`STEPS_PER_BYTE_MAX`](super::meter::STEPS_PER_BYTE_MAX) for each byte.
pub fn counted_percents(
    text: &str,
    known: impl Fn(&str) -> Option<String>,
) -> (Result<Option<String>, OutOfSteps>, usize) {
    let meter = Meter::linear(text);
    (fill_percents(text, &known, &meter), meter.spent())
}

fn fill_percents(
    text: &str,
    known: &dyn Fn(&str) -> Option<String>,
    meter: &Meter,
) -> Result<Option<String>, OutOfSteps> {
    let (mut format, mut rest, mut found) = (String::new(), text, false);
    while let Some((before, after)) = rest.split_once('%') {
        format.push_str(before);
        // The text between two percent signs is read once as a name, and again as plain text where the name is unknown.
        let split = after.split_once('%');
        meter.spend(before.len() + 1 + 2 * split.map_or(after, |(name, _)| name).len())?;
        if let Some((name, tail)) = split
            && let Some(value) = known(name)
        {
            format.push_str(&value);
            (rest, found) = (tail, true);
            continue;
        }
        format.push_str("%%");
        rest = after;
    }
    meter.spend(rest.len())?;
    format.push_str(rest);
    Ok(found.then_some(format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_braces_are_filled_in() {
        let known = |name: &str| (name == "name").then(|| "shop".to_owned());
        let rows = [
            ("plain", Some("plain")),
            ("a.{{name}}.{{ name }}", Some("a.shop.shop")),
            ("{{other}}", None),
            ("{{name", None),
            ("{name}", None),
            ("a b", None),
        ];
        for (text, filled) in rows {
            assert_eq!(braces(text, known).as_deref(), filled, "{text}");
        }
    }

    #[test]
    fn steps_grow_with_the_text_and_not_faster() {
        let known = |name: &str| ["name", " name "].contains(&name).then(|| "%NAME%".to_owned());
        for piece in ["a", "%", "%%", "%name%", "%other", "{{", "}}", "{{name}}", "{{ name }}{", "{", " "] {
            for begin in ["", "%", "{{"] {
                let text = |times: usize| format!("{begin}{}", piece.repeat(times));
                let steps = |times| (counted_braces(&text(times), known).1, counted_percents(&text(times), known).1);
                let (once, twice) = (steps(1000), steps(2000));
                assert!(twice.0 <= 2 * once.0 + 100 && twice.1 <= 2 * once.1 + 100, "{begin}{piece}");
                assert!(percents(&text(1000), known).is_ok(), "{begin}{piece}");
            }
        }
    }
}
