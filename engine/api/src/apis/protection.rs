//! Protection of an object, field by field: the rules that decide whether an earlier version of the object may be
//! served.
//!
//! Each spec declares every one of its fields on a [`Sheet`], by exhaustive destructuring: a field without a
//! declaration does not compile. Two versions are compared by their sheets; a sheet of an empty spec is the table of
//! `docs/reference/protection.md`. The audit of `fallback/checker` has comparison code of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use holdfast_check::header;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use super::lack::Lack;
use super::typed::{self, TypedValue};

/// Condition on a field under which an earlier version may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The value equals the desired one.
    Equal,
    /// The value equals the desired one, unless the owner trusts earlier lists.
    Access,
    /// A guard that is on is on in both versions, and calls the same service.
    Guard,
    /// Headers that are removed or overwritten in the desired version are also removed or overwritten in the earlier
    /// one.
    Headers,
    /// A limit that is set is set in both versions, with any figure.
    Limit,
    /// The earlier version allows nothing that the desired version does not allow.
    Opening,
    /// Any value may be served.
    Free,
}

impl Rule {
    /// Returns the sentence for the table.
    pub fn sentence(self) -> &'static str {
        match self {
            Rule::Equal => "only an equal value",
            Rule::Access => "only an equal value; with `holdfast.dev/fallback: last-valid` any value that is set",
            Rule::Guard => "only if it is switched on in the earlier version as well",
            Rule::Headers => "only if the earlier version removes or overwrites each of these headers as well",
            Rule::Limit => "only if the earlier version has a limit as well; any value",
            Rule::Opening => "only if the earlier version allows nothing that is not allowed now",
            Rule::Free => "any value",
        }
    }
}

/// A field with its rule and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The field, relative to `spec` or to the part that the sheet describes.
    pub field: &'static str,
    /// The rule.
    pub rule: Rule,
    /// The reason.
    pub because: &'static str,
}

/// Direction of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Headers of requests, from clients.
    Request,
    /// Headers of responses, from backends.
    Response,
    /// Headers of requests, at each of the backends of a rule.
    BeforeBackends,
}

/// Names of headers, in lower case.
pub type Names = BTreeSet<String>;

/// The demands and effects of one version of an object, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// Every field, in the order of declaration.
    pub rows: Vec<Row>,
    /// The effects that another version needs in order to be served instead, each with the field that demands it.
    demanded: BTreeMap<String, &'static str>,
    /// The effects of this version.
    done: BTreeSet<String>,
    /// What this version allows, each entry with its field.
    opened: BTreeMap<String, &'static str>,
    /// Whether a field of this version protects requests or backends.
    protects: bool,
    /// Whether the owner trusts earlier lists.
    trusted: bool,
}

impl Sheet {
    /// Returns an empty sheet. `trusted`: the object carries `holdfast.dev/fallback: last-valid`.
    pub fn new(trusted: bool) -> Self {
        Self { trusted, ..Self::default() }
    }

    /// Returns the sheet of one spec.
    pub fn of(declares: &impl Declare, trusted: bool) -> Self {
        let mut sheet = Self::new(trusted);
        declares.declare(&mut sheet);
        sheet
    }

    /// Returns the first field by which `then` protects less than this version, or `None` where `then` protects as
    /// much.
    pub fn lost_in(&self, then: &Sheet) -> Option<Lack> {
        let lost = self.demanded.iter().find(|(token, _)| !then.done.contains(*token));
        let opened = || then.opened.iter().find(|(token, _)| !self.opened.contains_key(*token));
        let lost = lost.map(|(token, field)| Lack::of(token, field));
        lost.or_else(|| opened().map(|(_, field)| Lack::Allows(field)))
    }

    /// Returns whether any value of this field may be served.
    pub fn is_free(&self, field: &str) -> bool {
        self.rows.iter().any(|row| row.field == field && row.rule == Rule::Free)
    }

    /// Returns whether a field of this version protects requests or backends.
    pub fn protects(&self) -> bool {
        self.protects
    }

    fn row(&mut self, field: &'static str, rule: Rule, because: &'static str) {
        self.rows.push(Row { field, rule, because });
    }

    fn demand(&mut self, field: &'static str, token: String) {
        self.done.insert(token.clone());
        self.demanded.insert(token, field);
    }

    /// Declares a field of which any value may be served.
    pub fn free<T>(&mut self, field: &'static str, because: &'static str, _: &T) {
        self.row(field, Rule::Free, because);
    }

    /// Declares a field that must be equal. `Debug` is the canonical text: specs hold ordered maps and lists only.
    pub fn equal<T: Debug>(&mut self, field: &'static str, because: &'static str, value: &Option<T>) {
        self.row(field, Rule::Equal, because);
        self.protects |= value.is_some();
        self.demand(field, format!("{field}={value:?}"));
    }

    /// Declares an access list. `on`: the list restricts access.
    pub fn access<T: Debug>(&mut self, field: &'static str, because: &'static str, value: &Option<T>, on: bool) {
        self.row(field, Rule::Access, because);
        self.protects |= on;
        match (self.trusted, on) {
            (false, _) => self.demand(field, format!("{field}={value:?}")),
            (true, true) => self.demand(field, format!("{field} on")),
            (true, false) => {}
        }
    }

    /// Declares a guard. `on` is `None` where the field is unset, else whether the guard is on; `called` is the service
    /// that the guard calls and the data that the guard sends.
    ///
    /// An unset guard inherits the setting of less specific policies; an earlier version must not switch that off.
    pub fn guard<T: Debug>(&mut self, field: &'static str, because: &'static str, on: Option<bool>, called: &T) {
        self.row(field, Rule::Guard, because);
        self.protects |= on == Some(true);
        let not_off = format!("{field} not off");
        match on {
            Some(true) => {
                self.done.insert(not_off);
                self.demand(field, format!("{field} on"));
                if !self.trusted {
                    self.demand(field, format!("{field} calls {called:?}"));
                }
            }
            Some(false) => self.demand(field, format!("{field} off")),
            None => self.demand(field, not_off),
        }
    }

    /// Declares headers that are removed or overwritten: `gone` must be gone in both versions; `hidden` is also an
    /// effect of this version, but not a demand.
    pub fn headers(&mut self, field: &'static str, because: &'static str, way: Way, gone: Names, hidden: Names) {
        self.row(field, Rule::Headers, because);
        self.gone(field, way, gone, hidden);
    }

    /// Declares such headers without a row of their own: several fields of one direction count together.
    pub fn gone(&mut self, field: &'static str, way: Way, gone: Names, hidden: Names) {
        self.protects |= !gone.is_empty();
        self.done.extend(hidden.into_iter().map(|name| format!("{way:?} {name}")));
        gone.into_iter().for_each(|name| self.demand(field, format!("{way:?} {name}")));
    }

    /// Returns the names of the headers that this version removes or overwrites in one direction.
    pub fn hidden(&self, way: Way) -> Names {
        let prefix = format!("{way:?} ");
        self.done.iter().filter_map(|token| token.strip_prefix(&prefix).map(str::to_owned)).collect()
    }

    /// Declares a limit.
    pub fn limit(&mut self, field: &'static str, because: &'static str, is_set: bool) {
        self.row(field, Rule::Limit, because);
        self.protects |= is_set;
        if is_set {
            self.demand(field, format!("{field} limits"));
        }
    }

    /// Declares something that the field allows.
    pub fn opening(&mut self, field: &'static str, because: &'static str, allowed: impl IntoIterator<Item = String>) {
        self.row(field, Rule::Opening, because);
        self.opened.extend(allowed.into_iter().map(|what| (format!("{field} {what}"), field)));
    }

    /// Declares a demand on the part as a whole, which an earlier version meets with an equal token.
    pub fn demands(&mut self, field: &'static str, rule: Rule, because: &'static str, tokens: Names) {
        self.row(field, rule, because);
        self.protects |= !tokens.is_empty();
        tokens.into_iter().for_each(|token| self.demand(field, format!("{field} {token}")));
    }

    /// Declares an effect of this version that is not a demand on other versions.
    pub fn does(&mut self, field: &'static str, token: &str) {
        self.done.insert(format!("{field} {token}"));
    }

    /// Declares a demand on other versions that is not an effect of this version.
    pub fn requires(&mut self, field: &'static str, token: &str) {
        self.demanded.insert(format!("{field} {token}"), field);
    }
}

/// A spec that declares every one of its fields.
pub trait Declare {
    /// Declares all fields, by exhaustive destructuring.
    fn declare(&self, sheet: &mut Sheet);
}

/// Decodes the readable fields of a part that does not decode as a whole. Returns `None` where a field that may protect
/// cannot be read, or is not known.
pub fn readable<T: DeserializeOwned>(written: &Map<String, Value>, is_free: impl Fn(&str) -> bool) -> Option<T> {
    let mut read = Map::new();
    for (name, value) in written {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        let TypedValue { result, unknown } = typed::read::<T>(&Value::Object(alone));
        if result.is_ok() && unknown.is_empty() {
            read.insert(name.clone(), value.clone());
            continue;
        }
        // The whole field may be a misspelt one.
        let whole = unknown.first().filter(|field| field.path == *name);
        if !is_free(whole.and_then(|field| field.meant).unwrap_or(name)) {
            return None;
        }
    }
    typed::read(&Value::Object(read)).result.ok()
}

/// Returns `Some` text where a switch is on.
pub fn allowed(switch: Option<bool>) -> Option<String> {
    (switch == Some(true)).then(|| "allowed".to_owned())
}

/// Returns names of headers in lower case: clients may write them in any case. A name that no request can have protects
/// nothing; a blank before or after a name is a mistake.
pub fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> Names {
    names.into_iter().map(str::trim).filter(|name| is_possible(name)).map(str::to_ascii_lowercase).collect()
}

/// Returns whether a header can have this name. Pseudo headers can be rewritten by some policies.
pub fn is_possible(name: &str) -> bool {
    header::is_possible(name.strip_prefix(':').unwrap_or(name))
}

/// The header name under which a rewrite of the host is recorded.
pub const HOST: &str = "host";
