//! The page `/debug/diff`: its query and its answer.

use serde_json::{Value, json};

use crate::diff::{DiffFacts, DiffReport, DiffTarget, format};

/// Reads the parameters of the page: the object, or none for all.
pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Option<DiffTarget>, String> {
    let mut wanted = None;
    for (name, value) in parameters {
        match (&*name, &wanted) {
            ("object", None) => wanted = Some(value.parse().map_err(|why| format!("object: {why}"))?),
            ("object", Some(_)) => return Err("object is given twice".into()),
            _ => return Err(format!("unknown parameter {name}: the parameter is object")),
        }
    }
    Ok(wanted)
}

/// Returns the differences, for programs and for people.
pub(super) fn answer(facts: &DiffFacts) -> Value {
    let report = DiffReport::new(facts);
    let text = format(&report);
    json!({ "report": report, "text": text })
}
