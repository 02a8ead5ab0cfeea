//! Fields that change headers.

use std::sync::Arc;

use super::super::proxy::headers::is_command;
use super::reading::Reading;
use crate::apis::kgateway::headers::{Header, HeaderFilter, Template, Transform};
use crate::apis::kgateway::traffic_policy::TrafficSpec;
use crate::check;
use crate::features::filters::{Filter, Setting};
use crate::features::header_mutation::HeaderMutations;
use crate::features::headers::{ENTRIES_MAX, HeaderEdits};
use crate::policies::settings::Piece;

/// What a template of Inja begins with; Envoy knows none.
const TEMPLATES: [&str; 3] = ["{{", "{%", "{#"];

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    if let Some(written) = &spec.header_modifiers {
        let request = edits("headerModifiers.request", written.request.as_ref(), reading);
        let response = edits("headerModifiers.response", written.response.as_ref(), reading);
        let setting = Setting::Headers(HeaderMutations { request, response });
        reading.piece("headerModifiers", Piece::Filters(vec![(Filter::HeaderMutation, Arc::new(setting))]));
    }
    if let Some(written) = &spec.transformation {
        let request = transform("transformation.request", written.request.as_ref(), reading);
        let response = transform("transformation.response", written.response.as_ref(), reading);
        let setting = Setting::Headers(HeaderMutations { request, response });
        reading.piece("transformation", Piece::Filters(vec![(Filter::Transformation, Arc::new(setting))]));
    }
}

pub(super) fn edits(field: &str, written: Option<&HeaderFilter>, reading: &mut Reading<'_, '_>) -> HeaderEdits {
    let mut edits = HeaderEdits::default();
    let Some(written) = written else { return edits };
    for (list, entries) in [("set", &written.set), ("add", &written.add)] {
        for (index, header) in entries.iter().flatten().enumerate() {
            let (below, field) = (format!("{field}.{list}[{index}]"), format!("spec.{field}.{list}[{index}]"));
            if index >= ENTRIES_MAX {
                reading.invalid(field, format!("must have at most {ENTRIES_MAX} entries"));
                break;
            }
            match header {
                // Routes are shown to people, with the headers that they set.
                Header { secret_ref: Some(_), .. } => reading.unsupported(format!("{below}.secretRef")),
                Header { name: Some(name), value: Some(value), .. } => {
                    put(&mut edits, list, &field, name, value, reading);
                }
                _ => reading.invalid(field, "name and value must be set"),
            }
        }
    }
    remove(&mut edits, field, written.remove.as_deref(), reading);
    edits
}

fn transform(field: &str, written: Option<&Transform>, reading: &mut Reading<'_, '_>) -> HeaderEdits {
    let mut edits = HeaderEdits::default();
    let Some(written) = written else { return edits };
    // Envoy's own filters leave bodies alone.
    if written.body.as_ref().is_some_and(|body| body.parse_as.as_deref() != Some("None") || body.value.is_some()) {
        reading.unsupported(format!("{field}.body"));
    }
    if written.dynamic_metadata.as_ref().is_some_and(|metadata| !metadata.is_empty()) {
        reading.unsupported(format!("{field}.dynamicMetadata"));
    }
    for (list, entries) in [("set", &written.set), ("add", &written.add)] {
        for (index, Template { name, value }) in entries.iter().flatten().enumerate() {
            let entry = format!("{field}.{list}[{index}]");
            if index >= ENTRIES_MAX {
                reading.invalid(format!("spec.{field}.{list}"), format!("must have at most {ENTRIES_MAX} entries"));
                break;
            }
            let value = value.as_deref().unwrap_or_default();
            if TEMPLATES.iter().any(|template| value.contains(template)) {
                reading.unsupported(format!("{entry}.value"));
                continue;
            }
            put(&mut edits, list, &format!("spec.{entry}"), name, value, reading);
        }
    }
    remove(&mut edits, field, written.remove.as_deref(), reading);
    edits
}

fn put(edits: &mut HeaderEdits, list: &str, field: &str, name: &str, value: &str, reading: &mut Reading<'_, '_>) {
    let name: Arc<str> = match check::header::modifiable_name(name) {
        Ok(name) => name.into(),
        Err(fault) => return reading.invalid(format!("{field}.name"), fault),
    };
    if let Err(fault) = check::header::value(value) {
        return reading.invalid(format!("{field}.value"), fault);
    }
    let formatted = value.contains('%');
    if formatted && let Some(word) = strange_command(value) {
        let message = format!("%{word}% is nothing that Envoy fills in; write %% for a percent sign");
        return reading.invalid(format!("{field}.value"), message);
    }
    let entry = (name, Arc::from(value));
    match (list, formatted) {
        ("set", false) => edits.set.push(entry),
        ("set", true) => edits.set_formatted.push(entry),
        (_, false) => edits.add.push(entry),
        (_, true) => edits.add_formatted.push(entry),
    }
}

/// The first thing between percent signs that Envoy does not know.
fn strange_command(value: &str) -> Option<String> {
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(tail) = after.strip_prefix('%') {
            rest = tail;
            continue;
        }
        match after.split_once('%') {
            Some((word, tail)) if is_command(word) => rest = tail,
            Some((word, _)) => return Some(word.chars().take(64).collect()),
            None => return Some(after.chars().take(64).collect()),
        }
    }
    None
}

fn remove(edits: &mut HeaderEdits, field: &str, names: Option<&[Arc<str>]>, reading: &mut Reading<'_, '_>) {
    let names = names.unwrap_or_default();
    if names.len() > ENTRIES_MAX {
        reading.invalid(format!("spec.{field}.remove"), format!("must have at most {ENTRIES_MAX} entries"));
    }
    for (index, name) in names.iter().enumerate().take(ENTRIES_MAX) {
        match check::header::modifiable_name(name) {
            Ok(name) => edits.remove.push(name.into()),
            Err(fault) => reading.invalid(format!("spec.{field}.remove[{index}]"), fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_envoy_fills_in_may_stand_between_percent_signs() {
        for fine in ["plain", "100%%", "%REQ(x-a)%", "a %HOSTNAME% %% b", "%%%PROTOCOL%%%"] {
            assert_eq!(strange_command(fine), None, "{fine}");
        }
        for (value, word) in [("100%", ""), ("%REQ(x", "REQ(x"), ("%NOBODY%", "NOBODY"), ("%%%", "")] {
            assert_eq!(strange_command(value).as_deref(), Some(word), "{value}");
        }
    }
}
