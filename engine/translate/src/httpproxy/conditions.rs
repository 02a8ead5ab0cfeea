//! Conditions of HTTPProxies: parsing, validation, and merge along the includes.

mod left;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use holdfast_api::apis::contour::condition::{HeaderCondition, MatchCondition, QueryCondition};
use holdfast_check::re2::Regexes;
use holdfast_envoy::model::{Like, MatchedPart, NamedMatch, ValueMatch};

use super::order::RouteOrigin;
use super::path::{self, Path};
use crate::narrowing;
use crate::outcome::addition::Addition;

/// Maximum number of header conditions and of query conditions of one route, including those of its includes.
pub(crate) const CONDITIONS_MAX: usize = 64;
/// Maximum length of a condition that a message contains in full, in bytes.
const SHOWN_BYTES_MAX: usize = 256;

/// Conditions of the includes above a proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Inherited {
    /// Path prefix; empty if no include sets one.
    pub prefix: String,
    /// The conditions that each include adds to the routes below it.
    pub(super) additions: Vec<Arc<Addition>>,
    headers: Vec<HeaderCondition>,
    query: Vec<QueryCondition>,
}

/// Conditions of a route; no two routes of a host may have equal conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// The path.
    pub path: Path,
    /// Headers, names in lower case.
    pub headers: BTreeSet<NamedMatch>,
    /// Query parameters.
    pub query: BTreeSet<NamedMatch>,
}

/// Pseudo headers that conditions may use, as in Contour.
const PSEUDO_HEADERS: [&str; 4] = [":authority", ":method", ":path", ":scheme"];

/// Reason why conditions cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Reason of the sub-condition.
    pub reason: &'static str,
    /// A sentence for users.
    pub message: String,
}

/// Reason for invalid paths.
const PATH: &str = "PathMatchConditionsNotValid";
/// Reason for invalid headers.
const HEADER: &str = "HeaderMatchConditionsNotValid";
/// Reason for invalid query parameters.
const QUERY: &str = "QueryParameterMatchConditionsNotValid";

impl Unusable {
    /// Returns the type of the sub-condition about an include with these conditions, as in Contour.
    pub(crate) fn kind_of_include(&self) -> &'static str {
        if self.reason == PATH { "IncludeError" } else { "RouteError" }
    }
}

impl Inherited {
    /// Adds the conditions of one more include. They are validated here, since they are a field of the including proxy
    /// and not of the proxies below it.
    pub(crate) fn under(&self, conditions: &[MatchCondition], regexes: &Regexes) -> Result<Self, Unusable> {
        let unusable = |message: String| Unusable { reason: PATH, message: format!("include: {message}") };
        let own = own_path(conditions, None).map_err(unusable)?;
        let prefix = match own {
            None => self.prefix.clone(),
            Some(Own::Prefix(prefix)) => path::join(&self.prefix, prefix),
            Some(Own::Exact(_)) => {
                return Err(unusable("exact conditions are not allowed in includes block".into()));
            }
            Some(Own::Regex(_)) => {
                return Err(unusable("regex conditions are not allowed in includes block".into()));
            }
        };
        if !prefix.is_empty() {
            holdfast_check::path::matched(&prefix).map_err(|fault| unusable(fault.to_string()))?;
        }
        let all = Self { prefix, ..self.with_values(conditions) };
        headers(&all.headers, regexes)?;
        query(&all.query, regexes)?;
        Ok(all)
    }

    /// Returns the conditions that the headers and query parameters of a usable include are.
    pub(super) fn added(conditions: &[MatchCondition], regexes: &Regexes) -> Result<Conditions, Unusable> {
        let own = Self::default().with_values(conditions);
        let path = Path::Prefix(path::or_root(""));
        Ok(Conditions { path, headers: headers(&own.headers, regexes)?, query: query(&own.query, regexes)? })
    }

    /// Adds the usable part of an include that cannot be used: its requests are still known to be below the prefix. With
    /// several paths, it is unknown which one is intended, so that each counts.
    pub(crate) fn narrowed(&self, conditions: &[MatchCondition]) -> Vec<Self> {
        let all = self.with_values(conditions);
        let found: Vec<Self> =
            self.prefixes(conditions).into_iter().map(|prefix| Self { prefix, ..all.clone() }).collect();
        if found.is_empty() { vec![all] } else { found }
    }

    /// Returns each path of a block as far as it can be read, below the prefix of the includes.
    fn prefixes(&self, conditions: &[MatchCondition]) -> Vec<String> {
        let texts = conditions.iter().flat_map(|condition| [&condition.prefix, &condition.exact]).flatten();
        readable(texts).iter().map(|text| path::join(&self.prefix, text)).collect()
    }

    fn with_values(&self, conditions: &[MatchCondition]) -> Self {
        let mut all = self.clone();
        all.headers.extend(conditions.iter().filter_map(|condition| condition.header.clone()));
        all.query.extend(conditions.iter().filter_map(|condition| condition.query_parameter.clone()));
        all
    }

    /// Returns the conditions of a route below the includes.
    pub(crate) fn route(&self, conditions: &[MatchCondition], regexes: &Regexes) -> Result<Conditions, Unusable> {
        let path = self.path(conditions, regexes)?;
        let all = self.with_values(conditions);
        Ok(Conditions { path, headers: headers(&all.headers, regexes)?, query: query(&all.query, regexes)? })
    }

    fn path(&self, conditions: &[MatchCondition], regexes: &Regexes) -> Result<Path, Unusable> {
        let unusable = |message: String| Unusable { reason: PATH, message: format!("route: {message}") };
        let path = match own_path(conditions, Some(regexes)).map_err(unusable)? {
            None => Path::Prefix(path::or_root(&self.prefix)),
            Some(Own::Prefix(prefix)) => Path::Prefix(path::or_root(&path::join(&self.prefix, prefix))),
            Some(Own::Exact(exact)) => Path::Exact(below(&self.prefix, exact)),
            Some(Own::Regex(pattern)) => {
                let pattern = path::join_regex(&self.prefix, pattern);
                if let Err(fault) = regexes.check(&pattern) {
                    return Err(unusable(format!("supplied regex: {} invalid. error: {fault}", shown(&pattern))));
                }
                Path::Regex(pattern.into())
            }
        };
        if let Path::Prefix(text) | Path::Exact(text) = &path
            && let Err(fault) = holdfast_check::path::matched(text)
        {
            return Err(unusable(fault.to_string()));
        }
        Ok(path)
    }

    /// Narrows the conditions of a route that cannot be used, and returns the rank of the placeholder. With several
    /// paths, there is a placeholder for each.
    pub(crate) fn salvaged(&self, conditions: &[MatchCondition], regexes: &Regexes) -> Vec<(Conditions, RouteOrigin)> {
        let all = self.with_values(conditions);
        let (headers, query) = (left::headers(&all.headers, regexes), left::query(&all.query, regexes));
        // The path is unknown, but not the other conditions: the placeholder comes before broader routes.
        let is_known = !(headers.is_empty() && query.is_empty());
        let placed = |(path, origin)| {
            let origin = if origin == RouteOrigin::Last && is_known { RouteOrigin::Placeholder } else { origin };
            (Conditions { path, headers: headers.clone(), query: query.clone() }, origin)
        };
        self.salvaged_paths(conditions, regexes).into_iter().map(placed).collect()
    }

    fn salvaged_paths(&self, conditions: &[MatchCondition], regexes: &Regexes) -> Vec<(Path, RouteOrigin)> {
        let rank = |is_known: bool| if is_known { RouteOrigin::Placeholder } else { RouteOrigin::Last };
        if let Ok(path) = self.path(conditions, regexes) {
            let is_written = own_path(conditions, None).is_ok_and(|own| own.is_some());
            return vec![(path, rank(is_written || !self.prefix.is_empty()))];
        }
        let prefixes = self.prefixes(conditions).into_iter().map(|prefix| Path::Prefix(prefix.into()));
        let paths = prefixes.map(|path| (path, RouteOrigin::Placeholder));
        let found: Vec<_> = paths.chain(self.left_of_regex(conditions, regexes)).collect();
        if !found.is_empty() {
            return found;
        }
        vec![(Path::Prefix(path::or_root(&self.prefix)), rank(!self.prefix.is_empty()))]
    }

    /// Narrows a path regex: returns the part of it that can be parsed, or its literal prefix.
    fn left_of_regex(&self, conditions: &[MatchCondition], regexes: &Regexes) -> Option<(Path, RouteOrigin)> {
        let pattern = conditions.iter().find_map(|condition| some(condition.regex.as_ref()))?;
        if let Some(read) = narrowing::readable_beginning(pattern, &path::join_regex(&self.prefix, pattern), regexes) {
            let path = Path::Regex(format!("{}.*", read.pattern).into());
            return Some((path, RouteOrigin::Beginning(read.min_chars)));
        }
        let literal = holdfast_check::re2::literal_prefix(pattern);
        let is_known = literal.len() > 1 && holdfast_check::path::matched(&literal).is_ok();
        is_known.then(|| {
            let path = path::or_root(&path::join(&self.prefix, &literal));
            (Path::Prefix(path), RouteOrigin::Placeholder)
        })
    }
}

/// Joins a prefix and an exact path: unlike with a prefix, the exact path `/` adds a slash.
fn below(prefix: &str, exact: &str) -> Arc<str> {
    match (prefix, exact) {
        ("" | "/", exact) => path::or_root(&path::join("", exact)),
        (prefix, "/") if !prefix.ends_with('/') => format!("{prefix}/").into(),
        (prefix, exact) => path::join(prefix, exact).into(),
    }
}

/// Returns a text as Contour shows it, or an excerpt of a long text.
fn shown(text: &str) -> Cow<'_, str> {
    if text.len() <= SHOWN_BYTES_MAX { text.into() } else { holdfast_check::Excerpt::new(text).to_string().into() }
}

enum Own<'a> {
    Prefix(&'a str),
    Exact(&'a str),
    Regex(&'a str),
}

/// Returns the path in a block of conditions.
fn own_path<'a>(conditions: &'a [MatchCondition], regexes: Option<&Regexes>) -> Result<Option<Own<'a>>, String> {
    let mut own = None;
    let mut count = 0;
    for condition in conditions {
        let texts = [("prefix", &condition.prefix), ("exact", &condition.exact), ("regex", &condition.regex)];
        for (kind, text) in texts {
            let Some(text) = text.as_deref().filter(|text| !text.is_empty()) else { continue };
            if !text.starts_with('/') {
                return Err(format!("{kind} conditions must start with /, {} was supplied", shown(text)));
            }
            if kind == "regex"
                && let Some(regexes) = regexes
                && let Err(fault) = regexes.check(text)
            {
                return Err(format!("supplied regex: {} invalid. error: {fault}", shown(text)));
            }
            count += 1;
            own = Some(match kind {
                "prefix" => Own::Prefix(text),
                "exact" => Own::Exact(text),
                _ => Own::Regex(text),
            });
        }
    }
    if count > 1 {
        return Err("more than one prefix, exact or regex is not allowed in a condition block".into());
    }
    Ok(own)
}

/// Returns the readable beginning of each path, without those that begin with nothing but a slash. A path without its
/// slash is read with one.
fn readable<'a>(paths: impl Iterator<Item = &'a Arc<str>>) -> BTreeSet<String> {
    let known = paths.filter_map(|text| narrowing::known_path(&narrowing::absolute(text)).map(str::to_owned));
    known.take(CONDITIONS_MAX).collect()
}

fn some(text: Option<&Arc<str>>) -> Option<&Arc<str>> {
    text.filter(|text| !text.is_empty())
}

fn like(part: MatchedPart, text: &Arc<str>, ignore_case: bool) -> ValueMatch {
    match part {
        MatchedPart::Whole if !ignore_case => ValueMatch::Exact(text.clone()),
        part => ValueMatch::Like(Like { part, text: text.clone(), ignore_case }),
    }
}

/// Parses conditions on headers, independent of a path; the error is a sentence.
pub(crate) fn read_headers(written: &[HeaderCondition], regexes: &Regexes) -> Result<Vec<NamedMatch>, String> {
    let read = headers(written, regexes).map_err(|unusable| unusable.message)?;
    Ok(read.into_iter().collect())
}

fn headers(written: &[HeaderCondition], regexes: &Regexes) -> Result<BTreeSet<NamedMatch>, Unusable> {
    let unusable = |message: &str| Unusable { reason: HEADER, message: message.to_owned() };
    if written.len() > CONDITIONS_MAX {
        return Err(unusable(&format!("more than {CONDITIONS_MAX} header conditions")));
    }
    let mut read: BTreeSet<NamedMatch> = BTreeSet::new();
    for condition in written {
        let name = match PSEUDO_HEADERS.contains(&&*condition.name) {
            true => condition.name.to_string(),
            false => holdfast_check::header::name(&condition.name).map_err(|fault| unusable(&fault.to_string()))?,
        };
        let ignore_case = condition.ignore_case.unwrap_or(false);
        let (part, value, inverted) = if condition.present == Some(true) {
            ("present", ValueMatch::Present, false)
        } else if condition.notpresent == Some(true) {
            ("present", ValueMatch::Present, true)
        } else if let Some(text) = some(condition.contains.as_ref()) {
            ("contains", like(MatchedPart::Contains, text, ignore_case), false)
        } else if let Some(text) = some(condition.notcontains.as_ref()) {
            ("contains", like(MatchedPart::Contains, text, ignore_case), true)
        } else if let Some(text) = some(condition.exact.as_ref()) {
            ("exact", like(MatchedPart::Whole, text, ignore_case), false)
        } else if let Some(text) = some(condition.notexact.as_ref()) {
            ("exact", like(MatchedPart::Whole, text, ignore_case), true)
        } else if let Some(pattern) = some(condition.regex.as_ref()) {
            regexes
                .check(pattern)
                .map_err(|_| unusable("invalid regular expression specified for 'regex' condition"))?;
            ("regex", ValueMatch::Regex(pattern.clone()), false)
        } else {
            // A condition without a value is ignored, as in Contour.
            continue;
        };
        if let ValueMatch::Exact(text) | ValueMatch::Like(Like { text, .. }) = &value {
            holdfast_check::header::value(text).map_err(|fault| unusable(&fault.to_string()))?;
        }
        let found = NamedMatch {
            name: name.into(),
            value,
            inverted,
            missing_is_empty: inverted && part != "present" && condition.treat_missing_as_empty == Some(true),
        };
        let same_header = || read.iter().filter(|other| other.name == found.name);
        let is_exact = |value: &ValueMatch| {
            matches!(value, ValueMatch::Exact(_) | ValueMatch::Like(Like { part: MatchedPart::Whole, .. }))
        };
        if same_header().any(|other| other.value == found.value && other.inverted != found.inverted) {
            return Err(unusable(&format!(
                "cannot specify contradictory '{part}' and 'not{part}' conditions for the same route and header"
            )));
        }
        let another = |other: &NamedMatch| !other.inverted && is_exact(&other.value) && other != &found;
        if !inverted && part == "exact" && same_header().any(another) {
            return Err(unusable("cannot specify duplicate header 'exact match' conditions in the same route"));
        }
        read.insert(found);
    }
    Ok(read)
}

fn query(written: &[QueryCondition], regexes: &Regexes) -> Result<BTreeSet<NamedMatch>, Unusable> {
    let unusable = |message: &str| Unusable { reason: QUERY, message: message.to_owned() };
    if written.len() > CONDITIONS_MAX {
        return Err(unusable(&format!("more than {CONDITIONS_MAX} query parameter conditions")));
    }
    let mut read: BTreeSet<NamedMatch> = BTreeSet::new();
    for condition in written {
        holdfast_check::header::query_name(&condition.name).map_err(|fault| unusable(&fault.to_string()))?;
        let ignore_case = condition.ignore_case.unwrap_or(false);
        let texts = [
            (MatchedPart::Whole, some(condition.exact.as_ref())),
            (MatchedPart::Prefix, some(condition.prefix.as_ref())),
            (MatchedPart::Suffix, some(condition.suffix.as_ref())),
            (MatchedPart::Contains, some(condition.contains.as_ref())),
        ];
        let parts = texts.into_iter().filter_map(|(part, text)| Some(like(part, text?, ignore_case)));
        let regex = some(condition.regex.as_ref()).map(|pattern| ValueMatch::Regex(pattern.clone()));
        let present = (condition.present == Some(true)).then_some(ValueMatch::Present);
        let mut values: Vec<ValueMatch> = parts.chain(regex).chain(present).collect();
        let (Some(value), None) = (values.pop(), values.pop()) else {
            return Err(unusable(if is_empty(condition) {
                "must specify at least one query parameter condition"
            } else {
                "cannot specify more than one condition in the same match condition branch"
            }));
        };
        match &value {
            ValueMatch::Regex(pattern) => {
                regexes
                    .check(pattern)
                    .map_err(|_| unusable("invalid regular expression specified for 'regex' condition"))?;
            }
            ValueMatch::Exact(text) | ValueMatch::Like(Like { text, .. }) => {
                holdfast_check::header::query_value(text).map_err(|fault| unusable(&fault.to_string()))?;
            }
            ValueMatch::Present => {}
        }
        let found = NamedMatch::new(condition.name.clone(), value);
        let is_exact = |value: &ValueMatch| {
            matches!(value, ValueMatch::Exact(_) | ValueMatch::Like(Like { part: MatchedPart::Whole, .. }))
        };
        let another =
            |other: &NamedMatch| other.name == found.name && is_exact(&other.value) && other.value != found.value;
        if is_exact(&found.value) && read.iter().any(another) {
            return Err(unusable(
                "cannot specify duplicate query parameter 'exact match' conditions in the same route",
            ));
        }
        read.insert(found);
    }
    Ok(read)
}

fn is_empty(condition: &QueryCondition) -> bool {
    let QueryCondition { exact, prefix, suffix, regex, contains, .. } = condition;
    let texts = [exact, prefix, suffix, regex, contains];
    texts.into_iter().all(|text| some(text.as_ref()).is_none()) && condition.present != Some(true)
}

/// Format: `path prefix: "/foo", header "x-a" exact "1", query parameter "q" present`.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)?;
        self.headers.iter().try_for_each(|header| write!(f, ", header {}", MatchDisplay(header)))?;
        self.query.iter().try_for_each(|parameter| write!(f, ", query parameter {}", MatchDisplay(parameter)))
    }
}

struct MatchDisplay<'a>(&'a NamedMatch);

impl fmt::Display for MatchDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NamedMatch { name, value, inverted, missing_is_empty } = self.0;
        let not = if *inverted { "not" } else { "" };
        write!(f, "{name:?} ")?;
        let ignore_case = match value {
            ValueMatch::Present => {
                write!(f, "{not}present")?;
                false
            }
            ValueMatch::Exact(text) => {
                write!(f, "{not}exact {text:?}")?;
                false
            }
            ValueMatch::Regex(pattern) => {
                write!(f, "{not}regex {pattern:?}")?;
                false
            }
            ValueMatch::Like(Like { part, text, ignore_case }) => {
                let part = match part {
                    MatchedPart::Whole => "exact",
                    MatchedPart::Prefix => "prefix",
                    MatchedPart::Suffix => "suffix",
                    MatchedPart::Contains => "contains",
                };
                write!(f, "{not}{part} {text:?}")?;
                *ignore_case
            }
        };
        if ignore_case {
            f.write_str(" ignoring case")?;
        }
        if *missing_is_empty {
            f.write_str(" missing as empty")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
