//! The status of a proxy: `Valid` with what is wrong, and the words that stand beside it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::finding::{Finding, Level, SubCondition};
use crate::status::{Condition, MESSAGE_CHARS_MAX};

/// What is said of a proxy that no root includes.
pub(crate) const ORPHANED: &str = "this HTTPProxy is not part of a delegation chain from a root HTTPProxy";

/// Sub-conditions of one level that a status has; the rest stands in the report.
pub(crate) const SUB_CONDITIONS_MAX: usize = 64;

/// The status of a proxy of this generation of which this was found out; `fallback` says what is served instead of it.
pub(crate) fn status<'a>(
    findings: impl Iterator<Item = &'a Finding>,
    fallback: Option<&Condition>,
    generation: i64,
) -> Value {
    let (mut errors, mut warnings) = (BTreeSet::new(), BTreeSet::new());
    for finding in findings {
        let of = if finding.level == Level::Error { &mut errors } else { &mut warnings };
        of.insert(finding.sub_condition());
    }
    let orphaned = errors.iter().any(|error| error.kind == "Orphaned");
    let (current, description) = match (errors.is_empty(), orphaned) {
        (true, _) => ("valid", "Valid HTTPProxy"),
        (false, true) => ("orphaned", ORPHANED),
        (false, false) => ("invalid", "At least one error present, see Errors for details"),
    };
    let (holds, reason, message) = match errors.is_empty() {
        true => ("True", "Valid", "Valid HTTPProxy"),
        false => ("False", "ErrorPresent", "At least one error present, see Errors for details"),
    };
    let mut condition = json!({
        "type": "Valid",
        "status": holds,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    });
    if let Some(fields) = condition.as_object_mut() {
        for (name, list) in [("errors", errors), ("warnings", warnings)] {
            if !list.is_empty() {
                fields.insert(name.into(), json!(shown(list)));
            }
        }
    }
    let conditions: Vec<Value> = std::iter::once(condition).chain(fallback.map(|condition| json!(condition))).collect();
    json!({ "conditions": conditions, "currentStatus": current, "description": description })
}

fn shown(list: BTreeSet<SubCondition>) -> Vec<SubCondition> {
    let shorten = |mut sub: SubCondition| {
        if let Some((end, _)) = sub.message.char_indices().nth(MESSAGE_CHARS_MAX) {
            sub.message.truncate(end);
        }
        sub
    };
    list.into_iter().take(SUB_CONDITIONS_MAX).map(shorten).collect()
}
