//! Comparison of the protection of an earlier version of an HTTPProxy with the desired one.
//!
//! The guards of its host are always those of the desired version; this module compares the guards of its routes. An
//! earlier route is compared with the desired route with the same conditions. If no earlier route has the conditions of
//! a desired route, and these conditions cannot be used, the desired route is compared with the earlier route at the
//! same index. An earlier route is also compared with every desired route that would lose requests to it: it must have
//! the same guards, must not allow what is forbidden now, and must remove the headers that are removed now.

use std::cmp::Reverse;
use std::sync::Arc;

use holdfast_api::apis::contour::condition::MatchCondition;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, ProxyEntry};
use holdfast_api::apis::contour::route::{ProxyRoute, ProxyService};
use holdfast_api::apis::contour::route_protection::{Protection, protection, speaks_as_now};
use holdfast_api::apis::protection::Lack;
use holdfast_check::re2::{self, Limits, Regexes};

/// Returns what an earlier version of an HTTPProxy lacks; `None` if it protects as much as the desired one.
/// `host_is_filtered`: whether a host of the proxy has an address filter, which the address filter of a route would
/// replace.
pub(crate) fn lost(desired: &HttpProxy, last: &HttpProxy, host_is_filtered: bool) -> Option<Lack> {
    let (desired, last) = (Form::all(desired, host_is_filtered), Form::all(last, host_is_filtered));
    desired.iter().enumerate().find_map(|(index, wanted)| {
        let counterpart = wanted.counterpart(index, &desired, &last);
        // A guarded route must not be left to a broader route of any proxy.
        let uncovered = match counterpart {
            None => (!wanted.is_open()).then_some(Lack::Route),
            Some(then) => then.lacks(wanted),
        };
        if uncovered.is_some() {
            return uncovered;
        }
        let mut others = last.iter().filter(|then| then.meets(wanted));
        others.find_map(|then| {
            let is_after = || counterpart.is_some_and(|own| own.rank() < then.rank());
            // An earlier route with requests that go to a desired route of their own is not compared with this one.
            let has_own = || desired.iter().any(|own| own.has_conditions_of(then) && own.rank() < wanted.rank());
            then.lacks(wanted).filter(|_| !is_after() && !has_own())
        })
    })
}

/// The field of a Service that is reached over TLS.
const TLS: &str = "services[].protocol, validation";

/// A route in its written form, as far as it matters here.
struct Form<'a> {
    conditions: Vec<&'a MatchCondition>,
    /// The route with its declared protection; `None` if not even its guards can be read.
    route: Option<(&'a ProxyRoute, Protection)>,
    /// Whether its conditions can be used.
    usable: bool,
    path: Path<'a>,
}

/// The paths of a route.
enum Path<'a> {
    Exact(&'a str),
    /// The literal prefix of a regular expression, and the length of the expression.
    Regex(String, usize),
    Prefix(&'a str),
}

impl<'a> Form<'a> {
    /// Returns the routes of a proxy.
    fn all(proxy: &'a HttpProxy, host_is_filtered: bool) -> Vec<Self> {
        let regexes = Regexes::of_object(Limits::default());
        proxy.routes.iter().map(|entry| Self::new(entry, host_is_filtered, &regexes)).collect()
    }

    fn new(entry: &'a ProxyEntry<ProxyRoute>, host_is_filtered: bool, regexes: &Regexes) -> Self {
        let conditions = match entry {
            ProxyEntry::Decoded(route) => route.conditions.as_deref().unwrap_or_default(),
            ProxyEntry::Broken { conditions, .. } => conditions.as_slice(),
        };
        let text = |text: &'a Option<Arc<str>>| text.as_deref().filter(|text| !text.is_empty());
        let mut path = Path::Prefix("/");
        let mut usable = matches!(entry, ProxyEntry::Decoded(_));
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
        let route = entry.guards().map(|route| (route, protection(route, host_is_filtered)));
        Self { conditions, route, usable, path }
    }

    /// Returns the earlier route that corresponds to this one.
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

    /// Checks whether one request can match both routes. Of the conditions, only the path is compared.
    fn meets(&self, other: &Form<'_>) -> bool {
        match (&self.path, &other.path) {
            (Path::Exact(a), Path::Exact(b)) => a == b,
            (Path::Exact(path), rest) | (rest, Path::Exact(path)) => path.starts_with(rest.text()),
            (a, b) => a.text().starts_with(b.text()) || b.text().starts_with(a.text()),
        }
    }

    /// Returns the rank of the route: requests are matched against routes with a smaller rank first.
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

    /// Checks whether the route has no guard that can be read.
    fn is_open(&self) -> bool {
        let nothing = protection(&ProxyRoute::default(), false);
        self.route.as_ref().is_some_and(|(_, now)| now.entering.lost_in(&nothing.entering).is_none())
    }

    /// Returns what this earlier route lacks of the protection of a desired one.
    fn lacks(&self, wanted: &Form<'_>) -> Option<Lack> {
        let (Some((route, then)), Some((wanted, now))) = (&self.route, &wanted.route) else {
            return Some(Lack::Unread);
        };
        let lost = now.entering.lost_in(&then.entering);
        if lost.is_some() || services(route).is_empty() {
            return lost;
        }
        let is_plain = || (!speaks_as_now(services(route), services(wanted))).then_some(Lack::Field(TLS));
        now.forwarding.lost_in(&then.forwarding).or_else(is_plain)
    }
}

fn services(route: &ProxyRoute) -> &[ProxyService] {
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
