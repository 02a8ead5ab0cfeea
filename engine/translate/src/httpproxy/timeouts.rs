//! Go durations, and the timeouts made of them.

use std::time::Duration;

/// Maximum length of a duration, in characters.
const CHARS_MAX: usize = 64;
/// Maximum of a timeout, in seconds: ten years.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// A timeout as specified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The default.
    Default,
    /// No timeout.
    Off,
    /// This timeout.
    After(Duration),
}

/// Reads a timeout: a Go duration, `0` or an empty text for the default, `infinity` for none.
pub(super) fn limit(text: Option<&str>) -> Result<Limit, String> {
    match text.unwrap_or_default() {
        "" => Ok(Limit::Default),
        "infinity" | "infinite" => Ok(Limit::Off),
        text => {
            let duration = go_duration(text)?;
            Ok(if duration.is_zero() { Limit::Default } else { Limit::After(duration) })
        }
    }
}

/// Parses a Go duration such as `1h30m` or `1.5s`.
///
/// <https://pkg.go.dev/time#ParseDuration>
pub(super) fn go_duration(text: &str) -> Result<Duration, String> {
    let shown: String = text.chars().take(CHARS_MAX).collect();
    let wrong = || format!("time: invalid duration {shown:?}");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() || text.chars().count() > CHARS_MAX {
        return Err(wrong());
    }
    let mut nanoseconds: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(wrong());
        }
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let digits = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<u128>().map_err(|_| wrong()) };
        // Further digits are below a nanosecond, even in hours.
        let fraction = fraction.get(..fraction.len().min(13)).unwrap_or_default();
        let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
        let part = digits(fraction)? * unit / scale;
        let all = digits(whole)?.checked_mul(unit).and_then(|all| all.checked_add(part)).ok_or_else(wrong)?;
        nanoseconds = nanoseconds.checked_add(all).ok_or_else(wrong)?;
        rest = tail;
    }
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).ok().filter(|seconds| *seconds <= SECONDS_MAX);
    let remainder = u32::try_from(nanoseconds % 1_000_000_000).unwrap_or(0);
    seconds.map(|seconds| Duration::new(seconds, remainder)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let rows = [
            ("0", Some(0)),
            ("1s", Some(1_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            (".5s", Some(500)),
            ("250ms", Some(250)),
            ("2.5h", Some(9_000_000)),
            ("", None),
            ("1", None),
            ("-1s", None),
            ("1x", None),
            ("s", None),
            ("1.s.", None),
            (".s", None),
            ("1..5s", None),
            ("99999999999999999999999999999999999999999h", None),
        ];
        for (text, milliseconds) in rows {
            assert_eq!(go_duration(text).ok().map(|duration| duration.as_millis()), milliseconds, "{text:?}");
        }
        assert_eq!(limit(None), Ok(Limit::Default));
        assert_eq!(limit(Some("0s")), Ok(Limit::Default));
        assert_eq!(limit(Some("infinity")), Ok(Limit::Off));
    }
}
