//! Does an earlier version of an HTTPProxy protect as much as the desired one?
//!
//! What guards its host is the desired version's whatever happens; asked here is what its routes say themselves. A route
//! of then answers to the desired route with the same conditions; where none has them, and its own cannot be used, to
//! the one at its place. It answers besides to every desired route whose requests it would get: it must have the same
//! guards, open nothing that is closed now, and take away the headers that are taken away now.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::apis::contour::condition::MatchCondition;
use crate::apis::contour::http_proxy::{Entry, HttpProxy};
use crate::apis::contour::policy::{HeadersPolicy, IpFilterPolicy, RateLimitPolicy};
use crate::apis::contour::route::{CookieRewritePolicy, Route, Service};
use crate::check::{self, re2};

/// See the module. `host_is_filtered`: has a host of it a filter of addresses, which one of a route would take the place
/// of?
pub(super) fn is_kept(desired: &HttpProxy, last: &HttpProxy, host_is_filtered: bool) -> bool {
    let desired: Vec<Form<'_>> = desired.routes.iter().map(Form::new).collect();
    let last: Vec<Form<'_>> = last.routes.iter().map(Form::new).collect();
    desired.iter().enumerate().all(|(index, wanted)| {
        let counterpart = wanted.counterpart(index, &desired, &last);
        // One that is guarded must not be left to a broader route of anybody.
        let covered = counterpart.map_or_else(|| wanted.is_open(), |then| then.covers(wanted, host_is_filtered));
        if !covered {
            return false;
        }
        let mut others = last.iter().filter(|then| then.meets(wanted));
        others.all(|then| {
            let is_after = || counterpart.is_some_and(|own| own.rank() < then.rank());
            // Whose requests go to a route of their own today does not answer to this one.
            let has_own = || desired.iter().any(|own| own.has_conditions_of(then) && own.rank() < wanted.rank());
            then.covers(wanted, host_is_filtered) || is_after() || has_own()
        })
    })
}

/// A route as it is written, as far as it matters here.
struct Form<'a> {
    conditions: Vec<&'a MatchCondition>,
    /// The route; nothing where not even its guards can be told.
    route: Option<&'a Route>,
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
    fn new(entry: &'a Entry<Route>) -> Self {
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
                usable &= check::re2::check(pattern, re2::Limits::default()).is_ok();
            } else if let Some(prefix) = text(&condition.prefix) {
                path = Path::Prefix(prefix);
            }
        }
        let means_all = |condition: &MatchCondition| {
            let anything = MatchCondition { prefix: Some("/".into()), ..MatchCondition::default() };
            *condition == anything
        };
        let conditions = conditions.iter().filter(|condition| !means_all(condition)).collect();
        Self { conditions, route: entry.guards(), usable, path }
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

    /// Does nothing that can be told guard it?
    fn is_open(&self) -> bool {
        let nothing = Route::default();
        self.route.is_some_and(|now| is_guarded_alike(&nothing, now, false))
    }

    /// Does this route of then protect as much as a desired one?
    fn covers(&self, wanted: &Form<'_>, host_is_filtered: bool) -> bool {
        let (Some(then), Some(now)) = (self.route, wanted.route) else { return false };
        is_guarded_alike(then, now, host_is_filtered) && (!serves(then) || serves_as_closed(then, now))
    }
}

impl Path<'_> {
    fn text(&self) -> &str {
        match self {
            Path::Exact(text) | Path::Prefix(text) => text,
            Path::Regex(text, _) => text,
        }
    }
}

/// Is a route of then for the same people as a desired one, or fewer?
fn is_guarded_alike(then: &Route, now: &Route, host_is_filtered: bool) -> bool {
    let list = |list: &Option<Vec<IpFilterPolicy>>| list.clone().unwrap_or_default();
    let token = |route: &Route| {
        let policy = route.jwt_verification_policy.clone().unwrap_or_default();
        (policy.require.filter(|provider| !provider.is_empty()), policy.disabled == Some(true))
    };
    let asked = |route: &Route| {
        let policy = route.auth_policy.clone().unwrap_or_default();
        (policy.disabled == Some(true), policy.context.unwrap_or_default())
    };
    let lists = |route: &Route| (list(&route.ip_allow_policy), list(&route.ip_deny_policy));
    let (then_lists, now_lists) = (lists(then), lists(now));
    let unfiltered = now_lists.0.is_empty() && now_lists.1.is_empty() && !host_is_filtered;
    let limit = |route: &Route| route.rate_limit_policy.clone().unwrap_or_default();
    let unlimited = limit(now) == RateLimitPolicy::default() && limit(then).global.is_none();
    (then_lists == now_lists || unfiltered)
        && (limit(then) == limit(now) || unlimited)
        && token(then) == token(now)
        && asked(then) == asked(now)
        && (then.permit_insecure != Some(true) || now.permit_insecure == Some(true))
}

fn services(route: &Route) -> &[Service] {
    route.services.as_deref().unwrap_or_default()
}

fn serves(route: &Route) -> bool {
    !services(route).is_empty()
}

/// What matters only where a Service answers: headers that do not pass, cookies, TLS on the way to it.
fn serves_as_closed(then: &Route, now: &Route) -> bool {
    let removed =
        |policy: &Option<HeadersPolicy>| names(policy.iter().flat_map(|policy| policy.remove.iter().flatten()));
    let gone = |policy: &Option<HeadersPolicy>| {
        let set = policy.iter().flat_map(|policy| policy.set.iter().flatten().map(|header| &header.name));
        let mut gone = removed(policy);
        gone.extend(names(set));
        gone
    };
    let guarded_cookies = |list: &Option<Vec<CookieRewritePolicy>>| -> Vec<CookieRewritePolicy> {
        let guarded = |policy: &&CookieRewritePolicy| policy.secure == Some(true) || policy.same_site.is_some();
        list.iter().flatten().filter(guarded).cloned().collect()
    };
    let speaks_as_now = |service: &Service| {
        let mut same = services(now).iter().filter(|other| other.name == service.name && other.port == service.port);
        let is_secure = |other: &Service| other.validation.is_some() || other.protocol.as_deref() == Some("tls");
        let as_written = |other: &Service| other.validation == service.validation && other.protocol == service.protocol;
        !same.clone().any(is_secure) || same.any(as_written)
    };
    removed(&now.request_headers_policy).is_subset(&gone(&then.request_headers_policy))
        && removed(&now.response_headers_policy).is_subset(&gone(&then.response_headers_policy))
        && guarded_cookies(&now.cookie_rewrite_policies)
            .iter()
            .all(|policy| then.cookie_rewrite_policies.iter().flatten().any(|other| other == policy))
        && services(then).iter().all(speaks_as_now)
}

fn names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> BTreeSet<String> {
    names.map(|name| name.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests;
