//! Durations in the format of Gateway API (GEP-2257): `1h2m3s`, `500ms`, `0s`.
//!
//! The grammar is `([0-9]{1,5}(h|m|s|ms)){1,4}`. The longest duration is `99999h` four times, 45 years, far below the
//! maximum of Envoy (292 years: nanoseconds in 64 bits). So every duration that parses here can be sent to Envoy.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-2257/>

use std::time::Duration;

use super::Excerpt;

/// Maximum number of components (`1h`, `2m`, …) in one duration.
pub const COMPONENTS_MAX: usize = 4;
/// Maximum number of digits of one component.
pub const DIGITS_MAX: usize = 5;

/// Reason why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationFault {
    /// The text is empty.
    #[error("the duration is empty: write one such as \"10s\", \"1m30s\" or \"500ms\"")]
    Empty,
    /// The duration starts with a sign.
    #[error("duration {text} has a sign: durations cannot be negative, write one such as \"10s\"")]
    Sign {
        /// The text.
        text: Excerpt,
    },
    /// A component does not start with a digit.
    #[error("duration {text}: a number is expected at character {position}, such as in \"1m30s\"")]
    Number {
        /// The text.
        text: Excerpt,
        /// Position of the invalid character, from 1.
        position: usize,
    },
    /// A fraction such as `1.5h`.
    #[error("duration {text} has a fraction: only whole numbers are allowed, write \"1h30m\" for \"1.5h\"")]
    Fraction {
        /// The text.
        text: Excerpt,
    },
    /// A number has more than [`DIGITS_MAX`] digits.
    #[error("duration {text}: a number may have at most 5 digits, use a larger unit")]
    Digits {
        /// The text.
        text: Excerpt,
    },
    /// A number without a unit, or with an unknown unit.
    #[error("duration {text}: a unit is expected at character {position}, one of h, m, s, ms")]
    Unit {
        /// The text.
        text: Excerpt,
        /// Position where the unit is expected, from 1.
        position: usize,
    },
    /// More than [`COMPONENTS_MAX`] components.
    #[error("duration {text} has more than 4 components such as \"1h\"")]
    Components {
        /// The text.
        text: Excerpt,
    },
}

/// Parses a GEP-2257 duration. A zero duration (`0s`) is valid.
pub fn duration(text: &str) -> Result<Duration, DurationFault> {
    if text.is_empty() {
        return Err(DurationFault::Empty);
    }
    if text.starts_with(['-', '+']) {
        return Err(DurationFault::Sign { text: Excerpt::new(text) });
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    let mut components = 0;
    while !rest.is_empty() {
        if components == COMPONENTS_MAX {
            return Err(DurationFault::Components { text: Excerpt::new(text) });
        }
        let (component, tail) = component(text, rest)?;
        // Four components of at most 99999 hours cannot overflow.
        total = total.saturating_add(component);
        rest = tail;
        components += 1;
    }
    Ok(total)
}

/// Parses the first component of `rest` and returns it with the remaining text; `text` is the whole text, for the
/// error.
fn component<'a>(text: &str, rest: &'a str) -> Result<(Duration, &'a str), DurationFault> {
    let position_of = |tail: &str| text.chars().count() - tail.chars().count() + 1;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, tail) = rest.split_at(digits);
    if number.is_empty() {
        return Err(DurationFault::Number { text: Excerpt::new(text), position: position_of(rest) });
    }
    if tail.starts_with('.') {
        return Err(DurationFault::Fraction { text: Excerpt::new(text) });
    }
    if digits > DIGITS_MAX {
        return Err(DurationFault::Digits { text: Excerpt::new(text) });
    }
    let number = number.bytes().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    // "ms" before "m": the longer unit wins.
    let units: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    for (unit, milliseconds) in units {
        if let Some(tail) = tail.strip_prefix(unit) {
            return Ok((Duration::from_millis(number * milliseconds), tail));
        }
    }
    Err(DurationFault::Unit { text: Excerpt::new(text), position: position_of(tail) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn milliseconds(text: &str) -> u128 {
        duration(text).unwrap().as_millis()
    }

    #[test]
    fn accepts_what_the_enhancement_proposal_lists_as_valid() {
        assert_eq!(milliseconds("0h"), 0);
        assert_eq!(milliseconds("0s"), 0);
        assert_eq!(milliseconds("0h0m0s"), 0);
        assert_eq!(milliseconds("1h"), 3_600_000);
        assert_eq!(milliseconds("30m"), 1_800_000);
        assert_eq!(milliseconds("10s"), 10_000);
        assert_eq!(milliseconds("500ms"), 500);
        assert_eq!(milliseconds("2h30m"), 9_000_000);
        assert_eq!(milliseconds("150m"), 9_000_000);
        assert_eq!(milliseconds("7230s"), 7_230_000);
        assert_eq!(milliseconds("1h30m10s"), 5_410_000);
        assert_eq!(milliseconds("10s30m1h"), 5_410_000);
        assert_eq!(milliseconds("100ms200ms300ms"), 600);
    }

    #[test]
    fn refuses_what_the_enhancement_proposal_lists_as_invalid() {
        for text in ["1", "1m1", "1h30m10s20ms50h", "999999h", "1.5h", "-15m", "", "1d", "h", "1 s", "1S", "1us", "１s"]
        {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn errors_show_the_valid_form() {
        assert_eq!(
            duration("10").unwrap_err().to_string(),
            "duration \"10\": a unit is expected at character 3, one of h, m, s, ms"
        );
        assert_eq!(
            duration("1.5h").unwrap_err().to_string(),
            "duration \"1.5h\" has a fraction: only whole numbers are allowed, write \"1h30m\" for \"1.5h\""
        );
    }

    #[test]
    fn longest_duration_is_below_the_limit_of_envoy() {
        assert!(duration("99999h99999h99999h99999h").unwrap().as_secs() < 9_223_372_036);
    }

    proptest! {
        #[test]
        fn agrees_with_the_published_pattern(text in "[0-9hms.]{0,14}|\\PC{0,8}") {
            let mut rest = text.as_str();
            let mut components = 0;
            let accepted = loop {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                if !(1..=5).contains(&digits) { break false; }
                let tail = &rest[digits..];
                let unit = if tail.starts_with("ms") { 2 } else if tail.starts_with(['h', 'm', 's']) { 1 } else { break false };
                components += 1;
                rest = &tail[unit..];
                if rest.is_empty() { break components <= 4; }
            };
            prop_assert_eq!(duration(&text).is_ok(), accepted);
        }
    }
}
