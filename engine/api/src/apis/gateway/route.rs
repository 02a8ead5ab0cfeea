//! Common form of the kinds of routes: parents, hostnames, and rules that are decoded one by one.
//!
//! A rule that does not decode must neither affect its sibling rules nor vanish: its readable matches are kept, so that
//! its requests are answered instead of falling to a broader route.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::default_scope::{self, USE_DEFAULT_GATEWAYS};
use super::filter::{FilterType, RouteFilter};
use super::references::{BackendRef, ParentRef};
use crate::apis::decode::Found;
use crate::apis::misspelt;
use crate::apis::protection::{Declare, Sheet, readable};
use crate::apis::typed::{self, UnknownField};
use crate::fault::at;

/// Number of rules of one route that are served; the limit of the CRD.
pub const RULES_MAX: usize = 16;
/// Number of matches of one rule that are served; the limit of the CRD.
pub const MATCHES_PER_RULE_MAX: usize = 64;
/// Number of matches in all rules of one route together; the limit of the CRD.
pub const MATCHES_MAX: usize = 128;
/// Number of matches of one route in rules over those limits that are closed at their own match; with more of them, all
/// rules of the route are closed.
pub const CLOSED_MATCHES_MAX: usize = 1024;
/// Number of hostnames of one HTTPRoute or GRPCRoute; the limit of the CRD.
pub const HOSTNAMES_MAX: usize = 16;
/// Number of parents of one route; the limit of the CRD.
pub const PARENTS_MAX: usize = 32;

const MATCHES: &str = "matches";
const BACKEND_REFS: &str = "backendRefs";

/// A route of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRoute<R> {
    /// `spec.parentRefs`.
    pub parents: Vec<ParentRef>,
    /// Whether `spec.useDefaultGateways` is `All`: all default Gateways are parents, too.
    pub uses_default_gateways: bool,
    /// `spec.hostnames`.
    pub hostnames: Vec<Arc<str>>,
    /// `spec.rules`.
    pub rules: Vec<RuleEntry<R>>,
}

/// A rule, or the readable part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleEntry<R> {
    /// The rule decoded.
    Decoded(R),
    /// The rule did not decode, or was over a limit; the fault is already reported.
    Broken {
        /// Name of the rule, where a name could be read.
        name: Option<Arc<str>>,
        /// The JSON of each match, from which the readable parts are taken; empty where nothing can be read.
        matches: Vec<Value>,
        /// Whether a match, or the list of matches, cannot be read as a whole.
        is_lost: bool,
        /// The error, in a sentence.
        why: Arc<str>,
        /// The fields that protect the rule; other fields have no meaning here. Unset where these fields cannot be read.
        guards: Option<Box<R>>,
        /// The references to backends that can be read.
        backends: Vec<BackendRef>,
        /// Whether there may be others, which cannot be read.
        may_have_more: bool,
    },
}

#[allow(private_bounds, reason = "the rules of routes, and no others")]
impl<R: RouteRule> RuleEntry<R> {
    /// Returns the name of the rule.
    pub fn name(&self) -> Option<&str> {
        match self {
            RuleEntry::Decoded(rule) => rule.name(),
            RuleEntry::Broken { name, .. } => name.as_deref(),
        }
    }

    /// Returns the references to backends, as far as they can be read.
    pub fn backends(&self) -> &[BackendRef] {
        match self {
            RuleEntry::Decoded(rule) => rule.backends(),
            RuleEntry::Broken { backends, .. } => backends,
        }
    }

    /// Returns whether the rule may have other references to backends than [`RuleEntry::backends`].
    pub fn may_have_more_backends(&self) -> bool {
        matches!(self, RuleEntry::Broken { may_have_more: true, .. })
    }

    fn is_lost(&self) -> bool {
        matches!(self, RuleEntry::Broken { is_lost: true, .. })
    }

    /// Returns the rule with the same matches, and without anything that can be served.
    fn closed(&self, why: &Arc<str>) -> Self {
        RuleEntry::Broken {
            name: self.name().map(Arc::from),
            matches: self.matches(),
            is_lost: self.is_lost(),
            why: why.clone(),
            guards: self.guards().cloned().map(Box::new),
            backends: self.backends().to_vec(),
            may_have_more: true,
        }
    }

    /// Returns the matches in JSON, as far as they can be read.
    fn matches(&self) -> Vec<Value> {
        match self {
            RuleEntry::Decoded(rule) => rule.written_matches(),
            RuleEntry::Broken { matches, .. } => matches.clone(),
        }
    }

    /// Returns the fields that protect the rule, or `None` where these fields cannot be read.
    pub fn guards(&self) -> Option<&R> {
        match self {
            RuleEntry::Decoded(rule) => Some(rule),
            RuleEntry::Broken { guards, .. } => guards.as_deref(),
        }
    }
}

/// A rule of a route.
pub trait RouteRule: DeserializeOwned + Clone + Default + Declare {
    /// Number of hostnames of one route; the limit of the CRD.
    const MOST_HOSTNAMES: usize = HOSTNAMES_MAX;

    /// Returns the name.
    fn name(&self) -> Option<&str>;

    /// Returns the filters.
    fn filters(&self) -> &[RouteFilter];

    /// Returns the backends.
    fn backends(&self) -> &[BackendRef];

    /// Returns the matches in JSON; a rule without matches has one that matches all requests.
    fn written_matches(&self) -> Vec<Value>;

    /// Returns whether both rules have the same matches.
    fn has_matches_of(&self, other: &Self) -> bool;
}

impl<R: RouteRule> GatewayRoute<R> {
    /// Returns the route with the same claims and without any rule that can be served: its current content cannot be
    /// read. `why` is the error, in a sentence.
    pub(in crate::apis) fn closed(&self, why: &Arc<str>) -> Self {
        Self {
            parents: self.parents.clone(),
            uses_default_gateways: self.uses_default_gateways,
            hostnames: self.hostnames.clone(),
            rules: self.rules.iter().map(|rule| rule.closed(why)).collect(),
        }
    }

    pub(in crate::apis) fn lost_matches(&self) -> bool {
        self.rules.iter().any(RuleEntry::is_lost)
    }

    /// Adds matches of the previous version to the rules with unreadable ones: those of the rule of the same name, else
    /// of the same position, else all that no rule has now.
    pub(in crate::apis) fn keep_matches(&mut self, before: &Self) {
        let known: Vec<Value> = self.rules.iter().flat_map(RuleEntry::matches).collect();
        let own = |rule: &RuleEntry<R>| rule.matches().into_iter().filter(|one| !known.contains(one)).collect();
        let gone: Vec<Vec<Value>> = before.rules.iter().map(own).collect();
        let mut room = MATCHES_MAX;
        for (index, entry) in self.rules.iter_mut().enumerate() {
            let RuleEntry::Broken { name, matches, is_lost: true, .. } = entry else { continue };
            let is_named = |rule: &RuleEntry<R>| name.is_some() && rule.name() == name.as_deref();
            // A rule with another name is another rule.
            let is_same = |rule: &RuleEntry<R>| name.is_none() || rule.name().is_none();
            let here = || before.rules.get(index).filter(|rule| is_same(rule)).map(|_| index);
            let same = before.rules.iter().position(is_named).or_else(here).and_then(|same| gone.get(same));
            let kept = same.filter(|own| !own.is_empty()).cloned().unwrap_or_else(|| gone.concat());
            if matches.is_empty() {
                // Still unknown: the rule also covers what no other route does.
                matches.push(Value::Null);
            }
            let kept: Vec<Value> = kept.into_iter().take(room).collect();
            room -= kept.len();
            matches.extend(kept);
        }
    }
}

/// Returns matches in JSON.
pub(super) fn written_matches<M: Serialize>(matches: &[M]) -> Vec<Value> {
    let everything = || vec![Value::Object(serde_json::Map::new())];
    let written = || matches.iter().map(|one| serde_json::to_value(one).unwrap_or_default()).collect();
    if matches.is_empty() { everything() } else { written() }
}

/// What all kinds of routes have in common.
pub trait RouteView {
    /// Returns `spec.parentRefs`.
    fn parents(&self) -> &[ParentRef];

    /// Returns whether all default Gateways are parents, too.
    fn uses_default_gateways(&self) -> bool;

    /// Returns `spec.hostnames`.
    fn hostnames(&self) -> &[Arc<str>];

    /// Returns the number of rules.
    fn rule_count(&self) -> usize;

    /// Returns the name of each rule, as far as it can be read.
    fn rule_names(&self) -> Vec<Option<&str>>;

    /// Returns whether the rule with this index, or any rule where `None`, names an extension that may guard it, such
    /// as authentication, or has external authorization.
    fn names_guard(&self, rule: Option<usize>) -> bool;
}

impl<R: RouteRule> RouteView for GatewayRoute<R> {
    fn parents(&self) -> &[ParentRef] {
        &self.parents
    }

    fn uses_default_gateways(&self) -> bool {
        self.uses_default_gateways
    }

    fn hostnames(&self) -> &[Arc<str>] {
        &self.hostnames
    }

    fn rule_count(&self) -> usize {
        self.rules.len()
    }

    fn rule_names(&self) -> Vec<Option<&str>> {
        self.rules.iter().map(RuleEntry::name).collect()
    }

    fn names_guard(&self, rule: Option<usize>) -> bool {
        let rules = self.rules.iter().enumerate().filter(|(index, _)| rule.is_none_or(|rule| rule == *index));
        rules.into_iter().any(|(_, entry)| match entry {
            RuleEntry::Decoded(rule) => {
                let at_backends = rule.backends().iter().flat_map(|backend| backend.filters.iter().flatten());
                let mut filters = rule.filters().iter().chain(at_backends);
                filters.any(|filter| {
                    let is_guard = matches!(filter.r#type, FilterType::ExtensionRef | FilterType::ExternalAuth);
                    is_guard || filter.external_auth.is_some()
                })
            }
            RuleEntry::Broken { .. } => false,
        })
    }
}

/// Returns the fields of a rule that protect it, or `None` where these fields cannot be read.
fn guards<R: RouteRule>(rule: &Value) -> Option<Box<R>> {
    let written = rule.as_object()?;
    // A backend reference protects requests only by its filters.
    let has_filters = |backend: &Value| {
        let is_set = backend.get("filters").is_some_and(|filters| !filters.is_null());
        // An unknown field may be meant as the filters.
        is_set || !typed::read::<BackendRef>(backend).unknown.is_empty()
    };
    let backends = written.get("backendRefs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_filtered = backends.iter().any(has_filters);
    let declared = Sheet::of(&R::default(), false);
    readable(written, |field| declared.is_free(field) && !(is_filtered && field == "backendRefs")).map(Box::new)
}

/// Decodes `spec` of a route.
pub(super) fn decode_spec<R: RouteRule>(document: &mut Value, found: &mut Found) -> Option<GatewayRoute<R>> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else {
        found.invalid("spec", "spec must be set to an object");
        return None;
    };
    let rules = fields.remove("rules");
    let parents = list(fields.remove("parentRefs"), "spec.parentRefs", PARENTS_MAX, found)?;
    let parents: Vec<Option<ParentRef>> = parents;
    let instead = "the route is not attached to default Gateways";
    let defaults = default_scope::is_all(fields.remove(USE_DEFAULT_GATEWAYS), USE_DEFAULT_GATEWAYS, instead, found);
    // Without any parent that can be read, it is unknown where the route belongs.
    let is_lost = if parents.is_empty() { defaults.is_none() } else { parents.iter().all(Option::is_none) };
    if is_lost {
        return None;
    }
    let parents = parents.into_iter().flatten().collect();
    let hostnames = list(fields.remove("hostnames"), "spec.hostnames", R::MOST_HOSTNAMES, found)?;
    let hostnames: Vec<Value> = hostnames.into_iter().flatten().collect();
    if !hostnames.iter().all(Value::is_string) {
        found.invalid("spec.hostnames", "must be a list of texts");
        return None;
    }
    let hostnames = hostnames.iter().filter_map(Value::as_str).map(Arc::from).collect();
    let wrong = found.unknown_in_spec(fields.keys(), &["hostnames", "parentRefs", "rules", USE_DEFAULT_GATEWAYS]);
    let rules = rules_of(rules, found)?;
    let uses_default_gateways = defaults.unwrap_or(false);
    wrong.is_empty().then_some(GatewayRoute { parents, uses_default_gateways, hostnames, rules })
}

/// Decodes a list. Entries that do not decode are reported as faults and unset; entries over the limit are reported and
/// left out.
fn list<T: DeserializeOwned>(
    value: Option<Value>,
    field: &str,
    max: usize,
    found: &mut Found,
) -> Option<Vec<Option<T>>> {
    let entries = match value {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(_) => {
            found.invalid(field, "must be a list");
            return None;
        }
    };
    if entries.len() > max {
        found.invalid(field, format!("must have at most {max} entries; the rest is not served"));
    }
    let entries = entries.into_iter().take(max).enumerate();
    Some(entries.map(|(index, entry)| found.typed(&at(field, index), &entry)).collect())
}

fn rules_of<R: RouteRule>(value: Option<Value>, found: &mut Found) -> Option<Vec<RuleEntry<R>>> {
    let values = match value {
        None | Some(Value::Null) => vec![Value::Object(serde_json::Map::new())],
        Some(Value::Array(values)) => values,
        Some(_) => {
            found.invalid("spec.rules", "must be a list of rules");
            return None;
        }
    };
    let mut left = Left { served: MATCHES_MAX, closed: CLOSED_MATCHES_MAX, is_over: false };
    let over = values.len().saturating_sub(RULES_MAX);
    let mut rules = Vec::new();
    let mut beyond: (Vec<Value>, bool) = (Vec::new(), false);
    for (index, value) in values.into_iter().enumerate() {
        if index < RULES_MAX {
            rules.push(rule_of(value, &at("spec.rules", index), &mut left, found));
        } else if !left.is_over {
            let (matches, is_lost) = closed_matches::<R>(&value, &mut left);
            beyond.0.extend(if matches.is_empty() { vec![Value::Null] } else { matches });
            beyond.1 |= is_lost;
        }
    }
    if over > 0 {
        // These rules are not served, but their requests are answered: they must not fall to a broader rule. They are one
        // rule, since each rule that is not served costs work.
        let ((matches, is_lost), why) = (beyond, too_many_rules().into());
        let (guards, backends) = (None, Vec::new());
        rules.push(RuleEntry::Broken { name: None, matches, is_lost, why, guards, backends, may_have_more: true });
        found.invalid("spec.rules", too_many_rules_in(RULES_MAX + over));
    }
    if left.is_over {
        let why = format!(
            "more than {CLOSED_MATCHES_MAX} matches are in rules over a limit, so that all requests of the route are \
             answered with an error"
        );
        found.invalid("spec.rules", &why);
        return Some(all_closed(&rules, &format!("spec.rules: {why}").into()));
    }
    if !rules.is_empty() {
        rules.shrink_to_fit();
        return Some(rules);
    }
    let why = "must have at least one rule; omit the field for a rule that matches all requests";
    found.invalid("spec.rules", why);
    // An empty list has no field that protects.
    rules.push(RuleEntry::Broken {
        name: None,
        matches: Vec::new(),
        is_lost: false,
        why: why.into(),
        guards: guards(&Value::Object(serde_json::Map::new())),
        backends: Vec::new(),
        may_have_more: false,
    });
    Some(rules)
}

/// Numbers of matches that the remaining rules of a route may have.
struct Left {
    served: usize,
    closed: usize,
    /// Whether rules over a limit have more matches than can be closed one by one.
    is_over: bool,
}

/// Closes all rules of a route of which some matches are not known: the last one covers all that no other route does.
fn all_closed<R: RouteRule>(rules: &[RuleEntry<R>], why: &Arc<str>) -> Vec<RuleEntry<R>> {
    let mut closed: Vec<RuleEntry<R>> = rules.iter().map(|rule| rule.closed(why)).collect();
    if let Some(RuleEntry::Broken { matches, guards, .. }) = closed.last_mut() {
        matches.push(Value::Null);
        *guards = None;
    }
    closed
}

fn too_many_rules() -> String {
    format!("a route may have at most {RULES_MAX} rules; split the route")
}

/// Returns the error of a route with this number of rules.
fn too_many_rules_in(count: usize) -> String {
    let which = match count - 1 {
        RULES_MAX => format!("rules[{RULES_MAX}]"),
        last => format!("rules[{RULES_MAX}] to rules[{last}]"),
    };
    format!("{}: it has {count}, and requests of {which} are answered with an error", too_many_rules())
}

fn name_of(rule: &Value) -> Option<Arc<str>> {
    rule.get("name").and_then(Value::as_str).map(Arc::from)
}

/// Returns the matches of a rule over a limit, as [`readable_matches`]; none where the route has too many of them.
fn closed_matches<R: RouteRule>(rule: &Value, left: &mut Left) -> (Vec<Value>, bool) {
    let count = rule.get(MATCHES).and_then(Value::as_array).map_or(1, |written| written.len().max(1));
    left.is_over |= count > left.closed;
    left.served = left.served.saturating_sub(count);
    left.closed = left.closed.saturating_sub(count);
    if left.is_over { (Vec::new(), true) } else { readable_matches::<R>(rule) }
}

/// Returns the matches of a rule that does not decode, of which only some parts may be readable, and whether a part of
/// them cannot be read; no match where it is unknown which requests the rule is for.
fn readable_matches<R: RouteRule>(rule: &Value) -> (Vec<Value>, bool) {
    let Some(fields) = rule.as_object() else { return (Vec::new(), true) };
    match fields.get(MATCHES) {
        Some(Value::Array(matches)) => {
            let alone = [(MATCHES.to_owned(), Value::from(matches.clone()))];
            let read = typed::read::<R>(&Value::Object(alone.into_iter().collect()));
            (matches.clone(), read.result.is_err() || !read.unknown.is_empty())
        }
        None | Some(Value::Null) => {
            // An unknown field may be meant as the matches.
            let is_own = |field: &UnknownField| !field.path.contains(['.', '[']);
            let is_lost = typed::read::<R>(rule).unknown.iter().any(is_own);
            let is_misspelt =
                |name: &String| name != MATCHES && misspelt::similar(name, [MATCHES].into_iter()).is_some();
            let everything = written_matches::<Value>(&[]);
            (if fields.keys().any(is_misspelt) { Vec::new() } else { everything }, is_lost)
        }
        Some(_) => (Vec::new(), true),
    }
}

/// Returns a rule that cannot be served, with the parts that can be read. `matches`: its matches, and whether a part of
/// them cannot be read.
fn broken<R: RouteRule>(rule: &Value, (matches, is_lost): (Vec<Value>, bool), why: Arc<str>) -> RuleEntry<R> {
    let (name, guards, (backends, may_have_more)) = (name_of(rule), guards(rule), readable_backends(rule));
    RuleEntry::Broken { name, matches, is_lost, why, guards, backends, may_have_more }
}

/// Returns the references to backends of a rule that can be read, and whether there may be others.
fn readable_backends(rule: &Value) -> (Vec<BackendRef>, bool) {
    let Some(fields) = rule.as_object() else { return (Vec::new(), true) };
    let written = match fields.get(BACKEND_REFS) {
        Some(Value::Array(written)) => written.as_slice(),
        Some(Value::Null) => &[],
        Some(_) => return (Vec::new(), true),
        None => {
            // An unknown field may be meant as the references.
            let is_meant = |name: &String| misspelt::similar(name, [BACKEND_REFS].into_iter()).is_some();
            return (Vec::new(), fields.keys().any(is_meant));
        }
    };
    let read: Vec<BackendRef> = written.iter().filter_map(|reference| typed::read(reference).result.ok()).collect();
    let may_have_more = read.len() < written.len();
    (read, may_have_more)
}

fn rule_of<R: RouteRule>(value: Value, field: &str, left: &mut Left, found: &mut Found) -> RuleEntry<R> {
    let written = value.get(MATCHES).and_then(Value::as_array).map_or(1, Vec::len);
    if written > MATCHES_PER_RULE_MAX || written > left.served {
        let why = format!(
            "{written} matches are too many: a rule may have {MATCHES_PER_RULE_MAX}, all rules of a route together \
             {MATCHES_MAX}; split the route"
        );
        found.invalid(format!("{field}.matches"), &why);
        return broken(&value, closed_matches::<R>(&value, left), why.into());
    }
    left.served -= written;
    match found.typed::<R>(field, &value) {
        // Cloning drops the spare capacity that decoding leaves in every list.
        Some(rule) => RuleEntry::Decoded(rule.clone()),
        None => broken(&value, readable_matches::<R>(&value), found.why().into()),
    }
}
