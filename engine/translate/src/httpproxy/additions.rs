//! What HTTPProxies add to the routes of others: a root adds the policies of its virtual host, and each HTTPProxy adds
//! the conditions of its includes.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::section::{self, ObjectSection};
use holdfast_envoy::model::{Action, Match, Route};
use holdfast_graph::{Node, ObjectKey};

use super::action::Guard;
use super::conditions::Conditions;
use super::jwt;
use crate::outcome::addition::Addition;
use crate::outcome::route::Rendered;
use crate::outcome::setting::{self, PolicySetting};

/// Returns the policies that a virtual host adds to its routes, each by itself.
pub(super) fn of_host(key: &ObjectKey, guard: &Guard) -> Vec<Arc<Addition>> {
    let mut additions = Vec::new();
    let mut add = |field: &str, set: &dyn Fn(&mut Route)| {
        let mut route = setting::blank(key);
        set(&mut route);
        let node = Node::section(key.clone(), section::of_host(field));
        additions.push(Arc::new(Addition::new(node, route)));
    };
    if let Some(cors) = &guard.cors {
        add("corsPolicy", &|route| route.cors = Some(Box::new(cors.clone())));
    }
    if let Some(filter) = &guard.ip_filter {
        let field = if filter.allow { "ipAllowPolicy" } else { "ipDenyPolicy" };
        add(field, &|route| route.ip_filter = Some(filter.clone()));
    }
    let auth = guard.auth.as_ref().filter(|auth| auth.applies(None));
    if let Some(Ok(auth)) = auth.map(|auth| auth.of_route(None)) {
        add("authorization", &|route| route.guards.ext_auth = Some(auth.clone()));
    }
    if let Ok(Some(jwt)) = jwt::of_route(guard.jwt.as_ref(), None) {
        add("jwtProviders", &|route| route.guards.jwt = Some(jwt.clone()));
    }
    if let Some(limit) = &guard.global {
        add("rateLimitPolicy", &|route| route.guards.rate_limit = Some(limit.clone()));
    }
    additions
}

/// Returns the conditions on headers and query parameters that an include adds to the routes below it. Its path is a
/// part of theirs.
pub(super) fn of_include(key: &ObjectKey, index: usize, added: Conditions) -> Option<Arc<Addition>> {
    if added.headers.is_empty() && added.query.is_empty() {
        return None;
    }
    let (headers, query) = (added.headers.into_iter().collect(), added.query.into_iter().collect());
    let route = Route { matches: Match { headers, query, ..Match::any() }, ..setting::blank(key) };
    let node = Node::section(key.clone(), ObjectSection::Include(index).to_string());
    Some(Arc::new(Addition::new(node, route)))
}

/// Renders a route with the additions that it has, of those that can apply to it.
pub(super) fn rendered<'a>(route: Route, additions: impl Iterator<Item = &'a Arc<Addition>>) -> Rendered {
    let (mut bare, mut settings) = (None, BTreeSet::new());
    for addition in additions {
        if remove(&addition.route, bare.get_or_insert_with(|| route.clone())) {
            settings.insert(PolicySetting::added(addition.clone()));
        }
    }
    match bare.filter(|_| !settings.is_empty()) {
        Some(bare) => Rendered::with_policies(route, Arc::new(bare), Arc::new(settings)),
        None => Rendered::new(route),
    }
}

/// Removes an addition from a route. Returns whether the route had it: a route can have a policy of its own instead.
fn remove(added: &Route, route: &mut Route) -> bool {
    let had = take(&added.cors, &mut route.cors) || take(&added.ip_filter, &mut route.ip_filter);
    // Only routes that forward requests have rate limits.
    let limit = &added.guards.rate_limit;
    let limit = if matches!(route.action, Action::Forward(_)) { limit } else { &None };
    let has_guards = !route.guards.is_empty() && !added.guards.is_empty();
    let had_guard = has_guards
        && (take(&added.guards.ext_auth, &mut route.guards.ext_auth)
            || take(&added.guards.jwt, &mut route.guards.jwt)
            || take(limit, &mut route.guards.rate_limit));
    had || had_guard || remove_conditions(&added.matches, &mut route.matches)
}

/// Clears a setting that is set as added.
fn take<T: PartialEq>(added: &Option<T>, own: &mut Option<T>) -> bool {
    let has = added.is_some() && added == own;
    if has {
        *own = None;
    }
    has
}

fn remove_conditions(added: &Match, own: &mut Match) -> bool {
    let is_empty = added.headers.is_empty() && added.query.is_empty();
    let has_all = added.headers.iter().all(|one| own.headers.contains(one))
        && added.query.iter().all(|one| own.query.contains(one));
    if is_empty || !has_all {
        return false;
    }
    own.headers.retain(|one| !added.headers.contains(one));
    own.query.retain(|one| !added.query.contains(one));
    true
}
