//! Does an earlier version of an HTTPProxy protect as much as the desired one?
//!
//! What guards its host is the desired version's whatever happens; asked here is what its routes say themselves. A route
//! of then answers to the desired route with the same conditions; where none has them, and its own cannot be used, to
//! the one at its place. It answers besides to every desired route whose requests it would get: it must have the same
//! guards, open nothing that is closed now, and take away the headers that are taken away now.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::apis::contour::condition::MatchCondition;
use crate::apis::contour::http_proxy::{Entry, HttpProxy};
use crate::apis::contour::route::{Route, Service};
use crate::apis::contour::route_protection::{Protection, speaks_as_now};
use crate::check::re2::{self, Limits, Regexes};

/// See the module. `host_is_filtered`: has a host of it a filter of addresses, which one of a route would take the place
/// of?
pub(super) fn is_kept(desired: &HttpProxy, last: &HttpProxy, host_is_filtered: bool) -> bool {
    let (desired, last) = (Form::all(desired, host_is_filtered), Form::all(last, host_is_filtered));
    desired.iter().enumerate().all(|(index, wanted)| {
        let counterpart = wanted.counterpart(index, &desired, &last);
        // One that is guarded must not be left to a broader route of anybody.
        let covered = counterpart.map_or_else(|| wanted.is_open(), |then| then.covers(wanted));
        if !covered {
            return false;
        }
        let mut others = last.iter().filter(|then| then.meets(wanted));
        others.all(|then| {
            let is_after = || counterpart.is_some_and(|own| own.rank() < then.rank());
            // Whose requests go to a route of their own today does not answer to this one.
            let has_own = || desired.iter().any(|own| own.has_conditions_of(then) && own.rank() < wanted.rank());
            then.covers(wanted) || is_after() || has_own()
        })
    })
}

/// A route as it is written, as far as it matters here.
struct Form<'a> {
    conditions: Vec<&'a MatchCondition>,
    /// The route, with what protects it; nothing where not even its guards can be read.
    route: Option<(&'a Route, Protection)>,
    /// Can its conditions be used?
    usable: bool,
    path: Path<'a>,
}

/// Which paths a route is for.
enum Path<'a> {
    Exact(&'a str),
    /// The literal beginning of a regular expression, and its length.
    Regex(String, usize),
    Prefix(&'a str),
}

impl<'a> Form<'a> {
    /// Those of the routes of a proxy.
    fn all(proxy: &'a HttpProxy, host_is_filtered: bool) -> Vec<Self> {
        let regexes = Regexes::of_object(Limits::default());
        proxy.routes.iter().map(|entry| Self::new(entry, host_is_filtered, &regexes)).collect()
    }

    fn new(entry: &'a Entry<Route>, host_is_filtered: bool, regexes: &Regexes) -> Self {
        let conditions = match entry {
            Entry::Decoded(route) => route.conditions.as_deref().unwrap_or_default(),
            Entry::Broken { conditions, .. } => conditions.as_slice(),
        };
        let text = |text: &'a Option<Arc<str>>| text.as_deref().filter(|text| !text.is_empty());
        let mut path = Path::Prefix("/");
        let mut usable = matches!(entry, Entry::Decoded(_));
        for condition in conditions {
            if let Some(exact) = text(&condition.exact) {
                path = Path::Exact(exact);
            } else if let Some(pattern) = text(&condition.regex) {
                path = Path::Regex(re2::literal_prefix(pattern), pattern.len());
                usable &= regexes.check(pattern).is_ok();
            } else if let Some(prefix) = text(&condition.prefix) {
                path = Path::Prefix(prefix);
            }
        }
        let means_all = |condition: &MatchCondition| {
            let anything = MatchCondition { prefix: Some("/".into()), ..MatchCondition::default() };
            *condition == anything
        };
        let conditions = conditions.iter().filter(|condition| !means_all(condition)).collect();
        let route = entry.guards().map(|route| (route, route.protection(host_is_filtered)));
        Self { conditions, route, usable, path }
    }

    /// The route of then that stands for this one.
    fn counterpart<'b>(&self, index: usize, desired: &[Form<'_>], last: &'b [Form<'b>]) -> Option<&'b Form<'b>> {
        let same = last.iter().find(|then| then.has_conditions_of(self));
        same.or_else(|| {
            let place = last.get(index).filter(|_| !self.usable)?;
            let is_anothers = desired.iter().any(|other| other.has_conditions_of(place));
            (!is_anothers && place.meets(self)).then_some(place)
        })
    }

    fn has_conditions_of(&self, other: &Form<'_>) -> bool {
        self.conditions.len() == other.conditions.len()
            && self.conditions.iter().all(|condition| other.conditions.contains(condition))
    }

    /// Can one request match both? Of conditions only the path counts.
    fn meets(&self, other: &Form<'_>) -> bool {
        match (&self.path, &other.path) {
            (Path::Exact(a), Path::Exact(b)) => a == b,
            (Path::Exact(path), rest) | (rest, Path::Exact(path)) => path.starts_with(rest.text()),
            (a, b) => a.text().starts_with(b.text()) || b.text().starts_with(a.text()),
        }
    }

    /// The smaller, the earlier its requests are looked for.
    fn rank(&self) -> (u8, [Reverse<usize>; 3]) {
        let (kind, length) = match &self.path {
            Path::Exact(text) => (0, text.len()),
            Path::Regex(_, length) => (1, *length),
            Path::Prefix(text) => (2, text.len()),
        };
        let count = |is: fn(&MatchCondition) -> bool| self.conditions.iter().filter(|condition| is(condition)).count();
        let headers = count(|condition| condition.header.is_some());
        let query = count(|condition| condition.query_parameter.is_some());
        (kind, [length, headers, query].map(Reverse))
    }

    /// Does nothing that can be read guard it?
    fn is_open(&self) -> bool {
        let nothing = Route::default().protection(false);
        self.route.as_ref().is_some_and(|(_, now)| now.entering.lost_in(&nothing.entering).is_none())
    }

    /// Does this route of then protect as much as a desired one?
    fn covers(&self, wanted: &Form<'_>) -> bool {
        let (Some((route, then)), Some((wanted, now))) = (&self.route, &wanted.route) else { return false };
        let forwards_alike =
            || now.forwarding.lost_in(&then.forwarding).is_none() && speaks_as_now(services(route), services(wanted));
        now.entering.lost_in(&then.entering).is_none() && (services(route).is_empty() || forwards_alike())
    }
}

fn services(route: &Route) -> &[Service] {
    route.services.as_deref().unwrap_or_default()
}

impl Path<'_> {
    fn text(&self) -> &str {
        match self {
            Path::Exact(text) | Path::Prefix(text) => text,
            Path::Regex(text, _) => text,
        }
    }
}

#[cfg(test)]
mod tests;
