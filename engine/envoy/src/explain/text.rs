//! String matchers.

use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use regex::Regex;

/// Returns whether a regex matches the whole text, as Envoy's `safe_regex` does.
///
/// # Errors
/// Returns a sentence if the regex cannot be evaluated.
pub(super) fn is_whole(pattern: &str, text: &str) -> Result<bool, String> {
    match Regex::new(&format!(r"\A(?:{pattern})\z")) {
        Ok(regex) => Ok(regex.is_match(text)),
        Err(_) => Err(format!("the regex {pattern} cannot be evaluated here")),
    }
}

/// Returns whether a text matches.
///
/// # Errors
/// Returns a sentence if the matcher cannot be evaluated.
pub(super) fn is_match(matcher: &StringMatcher, text: &str) -> Result<bool, String> {
    let fold = |text: &str| if matcher.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() };
    let value = fold(text);
    match &matcher.match_pattern {
        Some(MatchPattern::Exact(wanted)) => Ok(value == fold(wanted)),
        Some(MatchPattern::Prefix(wanted)) => Ok(value.starts_with(&fold(wanted))),
        Some(MatchPattern::Suffix(wanted)) => Ok(value.ends_with(&fold(wanted))),
        Some(MatchPattern::Contains(wanted)) => Ok(value.contains(&fold(wanted))),
        Some(MatchPattern::SafeRegex(regex)) => is_whole(&regex.regex, text),
        _ => Err("the kind of text match is not evaluated".into()),
    }
}

/// Returns what a matcher requires, as in `exactly "a"`.
pub(super) fn wanted(matcher: &StringMatcher) -> String {
    let text = match &matcher.match_pattern {
        Some(MatchPattern::Exact(wanted)) => format!("exactly {wanted:?}"),
        Some(MatchPattern::Prefix(wanted)) => format!("a text that begins with {wanted:?}"),
        Some(MatchPattern::Suffix(wanted)) => format!("a text that ends with {wanted:?}"),
        Some(MatchPattern::Contains(wanted)) => format!("a text that contains {wanted:?}"),
        Some(MatchPattern::SafeRegex(regex)) => format!("the regex {}", regex.regex),
        _ => "a text match of another kind".into(),
    };
    if matcher.ignore_case { format!("{text} in any case") } else { text }
}
