//! What would be served instead of an object under review, or because of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_fallback::view::{FallbackReport, Identity};
use holdfast_graph::ObjectKey;

use crate::engine::Engine;
use crate::report::ReplacementView;

/// An object, or a section of it, that would not be served as written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReviewEffect {
    /// The object under review, or an object that goes back together with it or depends on it.
    pub object: ObjectKey,
    /// The section, such as `rules[0]` or `listeners[https]`; empty for the object as a whole.
    pub section: Arc<str>,
    /// The field of the section, such as `spec.listeners[1]`; empty for the object as a whole.
    pub field: String,
    /// What is served.
    pub kind: EffectKind,
}

/// What is served instead of an object or a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKind {
    /// An earlier generation.
    Earlier(i64),
    /// A direct response with this status code to its requests.
    Response(u16),
    /// Nothing: it is left out.
    Nothing,
}

/// Returns the steps of a plan about an object, or because of it: first those about the object itself.
pub(super) fn served(engine: &Engine, report: &FallbackReport, key: &ObjectKey) -> Vec<ReviewEffect> {
    let name = key.to_string();
    let mut effects = Vec::new();
    let mut add = |object: &Identity, section: &Arc<str>, causing: &BTreeSet<String>, kind: EffectKind| {
        if object.is(key) || causing.contains(&name) {
            let (object, section) = (object.key(), section.clone());
            effects.push(ReviewEffect { field: field(engine, &object, &section), object, section, kind });
        }
    };
    for it in &report.backfilled_objects {
        add(&it.object, &it.section, &it.causing_objects, EffectKind::Earlier(it.served_generation));
    }
    for it in &report.replaced_objects {
        add(&it.object, &it.section, &it.causing_objects, EffectKind::Response(it.response));
    }
    for it in &report.excluded_objects {
        add(&it.object, &it.section, &it.causing_objects, EffectKind::Nothing);
    }
    effects.extend(answered(engine, key));
    effects.sort();
    effects.dedup();
    effects.sort_by_key(|it| it.object != *key);
    effects
}

/// Returns the sections of routes that translation replaces because of a fault of the object, such as the use of a backend
/// that cannot be served.
fn answered(engine: &Engine, key: &ObjectKey) -> Vec<ReviewEffect> {
    let faults = engine.faults();
    let is_cause = |effect: &ReviewEffect| {
        let mut of_object = faults.iter().filter(|fault| fault.object == effect.object && fault.is_error());
        of_object.any(|fault| fault.cause.as_ref() == Some(key) && fault.field.starts_with(&effect.field))
    };
    let effect = |it: ReplacementView| {
        let kind = it.response.map_or(EffectKind::Nothing, EffectKind::Response);
        let field = field(engine, &it.object, &it.section);
        ReviewEffect { object: it.object, field, section: it.section.into(), kind }
    };
    engine.replacements().into_iter().map(effect).filter(is_cause).collect()
}

/// Returns the field of a section. Listeners are sections by name, and fields by their place in the list.
fn field(engine: &Engine, object: &ObjectKey, section: &str) -> String {
    let written = engine.objects().get(object);
    let listeners = match written.map(|object| &object.body) {
        Some(Body::Gateway(gateway)) => &gateway.listeners[..],
        Some(Body::ListenerSet(set)) => &set.listeners[..],
        _ => &[],
    };
    let name = section.strip_prefix("listeners[").and_then(|rest| rest.strip_suffix(']'));
    match name.and_then(|name| listeners.iter().position(|listener| *listener.name == *name)) {
        Some(index) => format!("spec.listeners[{index}]"),
        None if section.is_empty() => String::new(),
        None => format!("spec.{section}"),
    }
}
