//! Values of plain YAML scalars, resolved as by the YAML library of the Kubernetes tools.
//!
//! In that library `on`, `yes` and similar words are booleans, and `0o17` and `017` are octal, so a manifest means the
//! same here as in a cluster. <https://yaml.org/type/>

use serde_json::{Number, Value};

/// The value of a plain (unquoted) scalar; an error if JSON has no such value.
pub(super) fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Ok(Value::Bool(false)),
        _ => {}
    }
    // Most scalars are text: only those that begin like a number are examined further.
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(Value::String(text.to_owned()));
    }
    let unsigned = text.trim_start_matches(['+', '-']);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("{text} is a number that JSON cannot represent; quote it to use it as text"));
    }
    if let Some(number) = integer(text) {
        return Ok(Value::Number(number));
    }
    if is_float(text) {
        if let Some(number) = text.parse::<f64>().ok().and_then(Number::from_f64) {
            return Ok(Value::Number(number));
        }
        return Err(format!("{text} is out of the range of numbers; quote it to use it as text"));
    }
    Ok(Value::String(text.to_owned()))
}

/// Decimal, `0x`, `0o`, `0b` and, with a leading zero, octal; with underscores between digits.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (digits.get(2..)?, 16),
        Some("0o" | "0O") => (digits.get(2..)?, 8),
        Some("0b" | "0B") => (digits.get(2..)?, 2),
        Some(two) if two.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_') => (digits, 8),
        _ => (digits, 10),
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    if negative {
        i64::from_str_radix(&format!("-{digits}"), radix).ok().map(Number::from)
    } else {
        u64::from_str_radix(&digits, radix).ok().map(Number::from)
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (text, None),
    };
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let mantissa_good = match mantissa.split_once('.') {
        Some((whole, fraction)) => {
            all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty())
        }
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    mantissa_good && exponent.is_none_or(|digits| !digits.is_empty() && all_digits(digits))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use serde_json::json;

    use super::plain;

    #[test]
    fn scalars_mean_what_they_mean_to_kubernetes() {
        for (text, value) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("on", json!(true)),
            ("No", json!(false)),
            ("nope", json!("nope")),
            ("8080", json!(8080)),
            ("-3", json!(-3)),
            ("+3", json!(3)),
            ("1_000", json!(1000)),
            ("0x1f", json!(31)),
            ("0o17", json!(15)),
            ("017", json!(15)),
            ("0", json!(0)),
            ("089", json!(89.0)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("1.2.3.4", json!("1.2.3.4")),
            ("10.0.0.0/8", json!("10.0.0.0/8")),
            ("10s", json!("10s")),
            ("2026-01-01T00:00:00Z", json!("2026-01-01T00:00:00Z")),
            ("-", json!("-")),
            ("--", json!("--")),
            ("0x", json!("0x")),
            ("é", json!("é")),
            ("0é", json!("0é")),
        ] {
            assert_eq!(plain(text).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn numbers_without_a_json_form_are_errors() {
        for text in [".inf", "-.inf", ".nan", "1e999"] {
            assert!(plain(text).is_err(), "{text}");
        }
    }
}
