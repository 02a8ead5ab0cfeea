//! ReferenceGrant: references into a namespace that are allowed.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#referencegrant>

use std::collections::BTreeSet;
use std::sync::Arc;

use gateway_api::referencegrants::ReferenceGrantSpec;
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;
use crate::fault::{Class, at};

/// What follows from a fault in an entry.
const NOTHING: &str = "; the entry allows nothing";

/// A ReferenceGrant. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceGrant(Arc<ReferenceGrantSpec>);

impl ReferenceGrant {
    /// Returns the grant as it is written.
    pub fn spec(&self) -> &ReferenceGrantSpec {
        &self.0
    }

    /// Returns whether the grant allows objects of `from` (group, kind, namespace) to refer to an object `to` (group,
    /// kind, name) in the namespace of the grant.
    pub fn allows(&self, from: (&str, &str, &str), to: (&str, &str, &str)) -> bool {
        let from_matches = self.0.from.iter().any(|f| (&*f.group, &*f.kind, &*f.namespace) == from);
        let to_matches = self
            .0
            .to
            .iter()
            .any(|t| (&*t.group, &*t.kind) == (to.0, to.1) && t.name.as_deref().is_none_or(|name| name == to.2));
        from_matches && to_matches
    }
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let before = found.faults.len();
    let spec: ReferenceGrantSpec =
        found.typed("spec", &document.get_mut("spec").map(Value::take).unwrap_or_default())?;
    let empty = spec.to.iter().enumerate().filter(|(_, to)| to.name.as_deref().is_some_and(str::is_empty));
    for index in empty.map(|(index, _)| index).collect::<Vec<_>>() {
        found.invalid(format!("{}.name", at("spec.to", index)), format!("must not be empty{NOTHING}"));
    }
    // An entry with an unknown field may be meant to allow less.
    let mut wrong = BTreeSet::new();
    for fault in found.faults.iter_mut().skip(before) {
        let Some((list, index)) = entry(&fault.field) else { continue };
        wrong.insert((list.to_owned(), index));
        fault.class = Class::Invalid;
        if !fault.message.ends_with(NOTHING) {
            fault.message.push_str(NOTHING);
        }
    }
    let is_whole = |list: &str, index: usize| !wrong.contains(&(list.to_owned(), index));
    let from = spec.from.into_iter().enumerate().filter(|(index, _)| is_whole("from", *index));
    let to = spec.to.into_iter().enumerate().filter(|(index, _)| is_whole("to", *index));
    let (from, to) = (from.map(|(_, entry)| entry).collect(), to.map(|(_, entry)| entry).collect());
    let spec = ReferenceGrantSpec { from, to };
    Some(Body::ReferenceGrant(ReferenceGrant(Arc::new(spec))))
}

/// Returns the list and the index of the entry that a field belongs to.
fn entry(field: &str) -> Option<(&str, usize)> {
    let (list, rest) = field.strip_prefix("spec.")?.split_once('[')?;
    Some((list, rest.split_once(']')?.0.parse().ok()?))
}
