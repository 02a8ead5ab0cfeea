//! The lines of an answer, within the limits of Kubernetes for warnings.

use holdfast_engine::review::{EffectKind, Review, ReviewEffect};
use holdfast_graph::ObjectKey;

use super::admission::name;
use crate::printable::plain;

/// Maximum length of a warning, in bytes: an API server may cut one of more than 256 characters, and its end is what
/// clients get.
pub(super) const WARNING_BYTES_MAX: usize = 256;
/// Maximum number of warnings about faults of one object. With at most three more lines, all warnings are shorter than
/// the 4096 bytes that an API server passes on.
pub(super) const WARNINGS_MAX: usize = 12;
/// Maximum number of other objects that are named.
const OTHERS_NAMED_MAX: usize = 3;

/// Returns a line for each fault with what clients get, then what other objects get.
pub(super) fn lines(key: &ObjectKey, review: &Review) -> Vec<String> {
    let (own, others): (Vec<_>, Vec<_>) = review.served.iter().partition(|effect| effect.object == *key);
    let mut lines = Vec::new();
    if let Some(why) = &review.refused {
        let effect = own.first().map(|served| effect(served));
        lines.push(line(key, "", &format!("Envoy has refused this content: {why}"), effect.as_deref()));
    }
    for fault in &review.faults {
        let effect = fault.is_error().then(|| effects(&own, &fault.field)).flatten();
        lines.push(line(key, &fault.field, &fault.message, effect.as_deref()));
    }
    if lines.is_empty() {
        return lines;
    }
    lines.dedup();
    let more = lines.len().saturating_sub(WARNINGS_MAX);
    if more > 0 {
        lines.truncate(WARNINGS_MAX);
        lines.push(line(key, "", &format!("{more} more faults; `holdfast check` lists them"), None));
    }
    if !others.is_empty() {
        lines.push(line(key, "", &affected(&others), None));
    }
    lines
}

/// What clients get because of a fault of this field.
fn effects(own: &[&ReviewEffect], field: &str) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for served in own.iter().filter(|served| concerns(served, field)).take(OTHERS_NAMED_MAX) {
        let effect = effect(served);
        if !all.contains(&effect) {
            all.push(effect);
        }
    }
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns whether a fault of this field is why a part of the object is served otherwise.
fn concerns(effect: &ReviewEffect, field: &str) -> bool {
    effect.field.is_empty() || ["", "spec"].contains(&field) || is_in(field, &effect.field)
}

/// Returns whether a field is the other one, or a part of it.
fn is_in(field: &str, other: &str) -> bool {
    field.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What clients get, for the mode that stores the object and for the one that does not.
fn effect(effect: &ReviewEffect) -> String {
    let (section, of) = (&*effect.section, if effect.section.is_empty() { "" } else { " of " });
    let part = if section.is_empty() { "it" } else { section };
    match effect.kind {
        EffectKind::Earlier(generation) => format!("generation {generation}{of}{section} goes on being served"),
        EffectKind::Response(status) => format!("requests for {part} would get response {status}"),
        EffectKind::Nothing => format!("{part} would be left out"),
    }
}

fn affected(others: &[&ReviewEffect]) -> String {
    let mut named: Vec<String> =
        others.iter().map(|served| format!("{}: {}", name(&served.object), effect(served))).collect();
    named.dedup();
    let more = named.len().saturating_sub(OTHERS_NAMED_MAX);
    named.truncate(OTHERS_NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("because of it, {}{more}", named.join("; "))
}

/// Returns a line: the object, the field, the message, and what clients get.
pub(super) fn line(key: &ObjectKey, field: &str, message: &str, effect: Option<&str>) -> String {
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    cut(format!("{}: {field}{message}", name(key)), effect)
}

/// Cuts a text so that it fits with its end, which is kept.
pub(super) fn cut(text: String, end: Option<&str>) -> String {
    let text = plain(&text).into_owned();
    let end = end.map(|end| format!("; {}", plain(end))).unwrap_or_default();
    let free = WARNING_BYTES_MAX.saturating_sub(end.len());
    if text.len() <= free {
        return text + &end;
    }
    let kept = &text[..text.floor_char_boundary(free.saturating_sub('…'.len_utf8()))];
    let mut line = format!("{kept}…{end}");
    line.truncate(line.floor_char_boundary(WARNING_BYTES_MAX));
    line
}
