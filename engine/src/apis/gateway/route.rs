//! What HTTPRoute and GRPCRoute have in common: parents, hostnames, and rules that are decoded one by one.
//!
//! A rule that does not decode must not take its siblings along, and must not vanish either: what can be told of the
//! requests it was meant for is salvaged, so that they can be answered instead of falling to a broader route.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::references::ParentRef;
use crate::apis::decode::Found;
use crate::fault::at;

/// Rules of one route that are served; the CRD allows as many.
pub const RULES_MAX: usize = 16;
/// Matches of one rule that are served; the CRD allows as many.
pub const MATCHES_PER_RULE_MAX: usize = 64;
/// Matches of all rules of one route together; the CRD allows as many.
pub const MATCHES_MAX: usize = 128;
/// Hostnames of one route; the CRD allows as many.
pub const HOSTNAMES_MAX: usize = 16;
/// Parents of one route; the CRD allows as many.
pub const PARENTS_MAX: usize = 32;

/// A route of either kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Route<R> {
    /// `spec.parentRefs`.
    pub parents: Vec<ParentRef>,
    /// `spec.hostnames`.
    pub hostnames: Vec<Arc<str>>,
    /// `spec.rules`.
    pub rules: Vec<RuleEntry<R>>,
}

/// One rule, or what could be saved of it.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleEntry<R> {
    /// The rule decoded.
    Decoded(R),
    /// The rule did not decode, or was over a limit; the fault is told already.
    Broken {
        /// Its name, where one could be read.
        name: Option<Arc<str>>,
        /// The JSON of each match, for what can be salvaged; empty where nothing can be told.
        matches: Vec<Value>,
    },
}

/// A rule of either kind.
pub(super) trait Rule: DeserializeOwned + Clone {}

/// Decodes `spec` of a route.
pub(super) fn decode_spec<R: Rule>(document: &mut Value, found: &mut Found) -> Option<Route<R>> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else {
        found.invalid("spec", "spec must be set to an object");
        return None;
    };
    let rules = fields.remove("rules");
    let parents = list(fields.remove("parentRefs"), "spec.parentRefs", PARENTS_MAX, found)?;
    let hostnames = list(fields.remove("hostnames"), "spec.hostnames", HOSTNAMES_MAX, found)?;
    for unknown in fields.keys() {
        found.unknown(format!("spec.{unknown}"));
    }
    Some(Route { parents, hostnames, rules: rules_of(rules, found)? })
}

fn list<T: DeserializeOwned>(value: Option<Value>, field: &str, max: usize, found: &mut Found) -> Option<Vec<T>> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Some(Vec::new()) };
    if value.as_array().is_some_and(|entries| entries.len() > max) {
        found.invalid(field, format!("must have at most {max} entries"));
        return None;
    }
    found.typed(field, &value)
}

fn rules_of<R: Rule>(value: Option<Value>, found: &mut Found) -> Option<Vec<RuleEntry<R>>> {
    let values = match value {
        None | Some(Value::Null) => vec![Value::Object(serde_json::Map::new())],
        Some(Value::Array(values)) if values.is_empty() => {
            found.invalid("spec.rules", "must have a rule; leave the field out for one that matches everything");
            return Some(vec![RuleEntry::Broken { name: None, matches: Vec::new() }]);
        }
        Some(Value::Array(values)) => values,
        Some(_) => {
            found.invalid("spec.rules", "must be a list of rules");
            return None;
        }
    };
    let over = values.len() > RULES_MAX;
    let mut matches_left = MATCHES_MAX;
    let mut rules: Vec<RuleEntry<R>> = values
        .into_iter()
        .take(RULES_MAX)
        .enumerate()
        .map(|(index, value)| rule_of(value, &at("spec.rules", index), &mut matches_left, found))
        .collect();
    if over {
        found.invalid("spec.rules", format!("must have at most {RULES_MAX} rules; split the route"));
        rules.push(RuleEntry::Broken { name: None, matches: Vec::new() });
    }
    Some(rules)
}

fn rule_of<R: Rule>(value: Value, field: &str, matches_left: &mut usize, found: &mut Found) -> RuleEntry<R> {
    let name = value.get("name").and_then(Value::as_str).map(Arc::from);
    let written = value.get("matches").and_then(Value::as_array).map_or(1, Vec::len);
    if written > MATCHES_PER_RULE_MAX || written > *matches_left {
        found.invalid(
            format!("{field}.matches"),
            format!(
                "{written} matches are too many: a rule may have {MATCHES_PER_RULE_MAX}, all rules of a route together \
                 {MATCHES_MAX}; split the route"
            ),
        );
        return RuleEntry::Broken { name, matches: Vec::new() };
    }
    *matches_left -= written;
    match found.typed::<R>(field, &value) {
        // Cloning drops the spare capacity that decoding leaves in every list.
        Some(rule) => RuleEntry::Decoded(rule.clone()),
        None => {
            let matches = value.get("matches").and_then(Value::as_array).cloned();
            RuleEntry::Broken { name, matches: matches.unwrap_or_default() }
        }
    }
}
