//! Status of an HTTPProxy: the condition `Valid` with its errors and warnings, and a description.

use std::collections::BTreeSet;

use holdfast_api::status::{Condition, MESSAGE_CHARS_MAX};
use serde_json::{Value, json};

use crate::outcome::finding::{Finding, Level, SubCondition};

/// Description of an HTTPProxy that no root includes.
pub(crate) const ORPHANED: &str = "this HTTPProxy is not part of a delegation chain from a root HTTPProxy";

/// Maximum number of sub-conditions of one level in a status; the report has all of them.
pub(crate) const SUB_CONDITIONS_MAX: usize = 64;

/// Returns the status of an HTTPProxy with these findings; `fallback` is the condition about what is served instead.
pub fn status<'a>(findings: impl Iterator<Item = &'a Finding>, fallback: Option<&Condition>, generation: i64) -> Value {
    let summary = FindingsByLevel::of(findings);
    let orphaned = summary.errors.iter().any(|error| error.kind == "Orphaned");
    let (current, description) = match (summary.errors.is_empty(), orphaned) {
        (true, _) => ("valid", "Valid HTTPProxy"),
        (false, true) => ("orphaned", ORPHANED),
        (false, false) => ("invalid", ERRORS),
    };
    let condition = summary.condition("Valid HTTPProxy", generation);
    let conditions: Vec<Value> = std::iter::once(condition).chain(fallback.map(|condition| json!(condition))).collect();
    json!({ "conditions": conditions, "currentStatus": current, "description": description })
}

/// Returns the status of an ExtensionService with these findings.
pub fn of_extension<'a>(findings: impl Iterator<Item = &'a Finding>, generation: i64) -> Value {
    json!({ "conditions": [FindingsByLevel::of(findings).condition("Valid ExtensionService", generation)] })
}

/// Message of `Valid` if there are errors.
const ERRORS: &str = "At least one error present, see Errors for details";

/// Findings by level.
struct FindingsByLevel {
    errors: BTreeSet<SubCondition>,
    warnings: BTreeSet<SubCondition>,
}

impl FindingsByLevel {
    fn of<'a>(findings: impl Iterator<Item = &'a Finding>) -> Self {
        let (mut errors, mut warnings) = (BTreeSet::new(), BTreeSet::new());
        for finding in findings {
            let of = if finding.level == Level::Error { &mut errors } else { &mut warnings };
            of.insert(finding.sub_condition());
        }
        Self { errors, warnings }
    }

    fn condition(self, valid: &str, generation: i64) -> Value {
        let (holds, reason, message) = match self.errors.is_empty() {
            true => ("True", "Valid", valid),
            false => ("False", "ErrorPresent", ERRORS),
        };
        let mut condition = json!({
            "type": "Valid",
            "status": holds,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
        });
        if let Some(fields) = condition.as_object_mut() {
            for (name, list) in [("errors", self.errors), ("warnings", self.warnings)] {
                if !list.is_empty() {
                    fields.insert(name.into(), json!(shown(list)));
                }
            }
        }
        condition
    }
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
