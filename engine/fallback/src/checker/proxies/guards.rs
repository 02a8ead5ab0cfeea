//! Audit of the guards of a host: every route that would receive the requests of a current route must have the guards
//! of that route.
//!
//! Required guards are read from the written form of the current proxies, even if these cannot be translated. Actual
//! guards are read from the routes as they would be served, and from the stand-in version of the proxy. A new guard is
//! a condition in [`Demand::lacking`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::contour::policy::{AuthorizationPolicy, HeadersPolicy, IpFilterPolicy, RateLimitPolicy};
use holdfast_api::apis::contour::route::{JwtVerificationPolicy, ProxyRoute as Written};
use holdfast_api::section::ObjectSection;
use holdfast_check::header;
use holdfast_envoy::features::headers::HeaderEdits;
use holdfast_envoy::features::ip_filter::{IpFilter, IpRange};
use holdfast_envoy::model::{Action, Route};
use holdfast_graph::Node;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;

use super::super::meeting::may_meet;
use super::super::today::Today;
use super::super::{About, Objection};
use super::proxy;

/// Returns objections to routes of stand-in versions that would answer requests without the guards that the desired
/// routes have.
pub(super) fn check(
    root: &HttpProxy,
    desired: &RoutePlan,
    served: &RoutePlan,
    overlay: &Overlay,
    today: &Today<'_>,
) -> BTreeSet<Objection> {
    let mut found = BTreeSet::new();
    let is_stand_in = |route: &Route| overlay.objects.contains_key(&route.key);
    let routes = served.routes.iter().map(|rendered| &rendered.route);
    let routes: Vec<&Route> = routes.filter(|route| matches!(route.action, Action::Forward(_))).collect();
    if !served.members.iter().any(|member| overlay.objects.contains_key(member)) {
        return found;
    }
    let host = Guarded::of(root);
    let both = Both { desired, served };
    for rendered in &desired.routes {
        let wanted = &rendered.route;
        let demand = Demand { written: written(wanted, today), wanted, host: &host };
        if demand.is_empty() {
            continue;
        }
        for route in routes.iter().filter(|route| is_stand_in(route) || is_stand_in(wanted)) {
            let then = match overlay.objects.get(&route.key).map(|object| &object.body) {
                Some(Body::HttpProxy(proxy)) => entry(proxy, &route.section),
                _ => written(route, today),
            };
            let Some(lost) = demand.lacking(route, then) else { continue };
            let meet = may_meet(&route.matches, &wanted.matches);
            if meet && (both.is_form_of(route, wanted) || both.gets_requests_of(route, wanted)) {
                // A proxy that gives up a guarded route leaves its requests to other proxies, which are not at fault.
                let node = match is_stand_in(route) {
                    true => Node::section(route.key.clone(), route.section.clone()),
                    false => Node::whole(wanted.key.clone()),
                };
                let why = format!("it lacks {lost}, which {} of {} requires today", wanted.section, wanted.key);
                found.insert(Objection::new(node, About::Security, why));
            }
        }
    }
    found
}

/// A route in its written form.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Known(&'a Written),
    /// The guards of the route cannot be read.
    Unknown,
    /// No route is written: it is a direct response for an include or a host.
    None,
}

fn written<'a>(route: &Route, today: &Today<'a>) -> Entry<'a> {
    // A proxy that cannot be read at all requires nothing that could be compared.
    proxy(&route.key, today).map_or(Entry::None, |proxy| entry(proxy, &route.section))
}

fn entry<'a>(proxy: &'a HttpProxy, section: &str) -> Entry<'a> {
    let ObjectSection::ProxyRoute(index) = ObjectSection::parse(section) else { return Entry::None };
    match proxy.routes.get(index).map(|entry| entry.guards()) {
        Some(Some(route)) => Entry::Known(route),
        Some(None) => Entry::Unknown,
        None => Entry::None,
    }
}

/// The guards of a host.
struct Guarded {
    addresses: Addresses,
    tls: bool,
}

impl Guarded {
    fn of(root: &HttpProxy) -> Self {
        let host = root.virtual_host.as_ref().and_then(|host| host.written.as_ref());
        let nothing = None;
        let (allow, deny) = host.map_or((&nothing, &nothing), |host| (&host.ip_allow_policy, &host.ip_deny_policy));
        Self { addresses: addresses(allow, deny), tls: host.is_some_and(|host| host.tls.is_some()) }
    }
}

/// The access list by address.
#[derive(PartialEq)]
enum Addresses {
    Any,
    Some(IpFilter),
    /// The list cannot be read.
    Unknown,
}

fn addresses(allow: &Option<Vec<IpFilterPolicy>>, deny: &Option<Vec<IpFilterPolicy>>) -> Addresses {
    let entries = |list: &Option<Vec<IpFilterPolicy>>| list.clone().unwrap_or_default();
    let (allow, deny) = (entries(allow), entries(deny));
    let list = match (allow.is_empty(), deny.is_empty()) {
        (true, true) => return Addresses::Any,
        (false, false) => return Addresses::Unknown,
        (false, true) => &allow,
        (true, false) => &deny,
    };
    let range = |entry: &IpFilterPolicy| match &*entry.source {
        "Remote" => IpRange::read(true, &entry.cidr),
        "Peer" => IpRange::read(false, &entry.cidr),
        _ => None,
    };
    match list.iter().map(range).collect() {
        Some(ranges) => Addresses::Some(IpFilter { allow: !allow.is_empty(), ranges }),
        None => Addresses::Unknown,
    }
}

/// The guards that one current route requires.
struct Demand<'a> {
    written: Entry<'a>,
    /// The desired form of the route, which may be closed.
    wanted: &'a Route,
    host: &'a Guarded,
}

impl Demand<'_> {
    /// Checks whether no route can lack any of these guards. A written route may also forbid what other routes allow.
    fn is_empty(&self) -> bool {
        matches!(self.written, Entry::None)
            && self.wanted.guards.is_empty()
            && self.host.addresses == Addresses::Any
            && !self.host.tls
    }

    /// Returns, in a word, the guard that a forwarding route lacks; `None` if it lacks none.
    fn lacking(&self, route: &Route, then: Entry<'_>) -> Option<String> {
        let (wanted, then) = match (self.written, then) {
            (Entry::None, _) => (&Written::default(), None),
            (Entry::Unknown, _) | (_, Entry::Unknown) => return Some("settings that cannot be decoded".into()),
            (Entry::Known(wanted), Entry::Known(then)) => (wanted, Some(then)),
            (Entry::Known(wanted), Entry::None) => (wanted, None),
        };
        // Exhaustive: a new field does not compile before it is classified here.
        let Written {
            conditions: _,
            services: _,
            enable_websockets,
            permit_insecure,
            auth_policy,
            timeout_policy: _,
            retry_policy: _,
            health_check_policy: _,
            load_balancer_policy: _,
            path_rewrite_policy: _,
            request_headers_policy,
            response_headers_policy,
            cookie_rewrite_policies: _,
            rate_limit_policy,
            request_redirect_policy: _,
            direct_response_policy,
            internal_redirect_policy: _,
            jwt_verification_policy,
            ip_allow_policy,
            ip_deny_policy,
        } = wanted;
        if direct_response_policy.is_some() {
            return Some("the direct response".into());
        }
        let upgrades = |route: &Written| route.enable_websockets == Some(true);
        if then.is_some_and(upgrades) && *enable_websockets != Some(true) {
            return Some("the refusal of WebSocket upgrades".into());
        }
        if !self.has_address_filter(route, &addresses(ip_allow_policy, ip_deny_policy)) {
            return Some("the IP address filter".into());
        }
        if matches!(self.wanted.action, Action::Forward(_)) && self.wanted.guards != route.guards {
            return Some("the authorization, tokens or shared limits".into());
        }
        if self.host.tls && *permit_insecure != Some(true) && route.secure_port.is_none() {
            return Some("the redirect to https".into());
        }
        let empty = Written::default();
        let then = then.unwrap_or(&empty);
        if lacks_rate_limit(rate_limit_policy, route, &then.rate_limit_policy) {
            return Some("the rate limit".into());
        }
        if token(jwt_verification_policy) != token(&then.jwt_verification_policy) {
            return Some("the verification of tokens".into());
        }
        if authorization(auth_policy) != authorization(&then.auth_policy) {
            return Some("the authorization".into());
        }
        let passes = |name: &Arc<str>| !(rewrites_host(route) && name.eq_ignore_ascii_case("host"));
        if let Some(name) = kept(&route.request_headers, request_headers_policy, true).filter(passes) {
            return Some(format!("the removal of request header {name:?}"));
        }
        let name = kept(&route.response_headers, response_headers_policy, false)?;
        Some(format!("the removal of response header {name:?}"))
    }

    /// Checks whether a route has the access list by address of the desired route, or of its host.
    fn has_address_filter(&self, route: &Route, own: &Addresses) -> bool {
        let expected = if *own == Addresses::Any { &self.host.addresses } else { own };
        match expected {
            Addresses::Any => true,
            Addresses::Some(filter) => route.ip_filter.as_ref() == Some(filter),
            Addresses::Unknown => false,
        }
    }
}

fn lacks_rate_limit(wanted: &Option<RateLimitPolicy>, route: &Route, then: &Option<RateLimitPolicy>) -> bool {
    let (limited, was) = (wanted.clone().unwrap_or_default(), then.clone().unwrap_or_default());
    let has_other_local = limited.local.is_some() && (route.rate_limit.is_none() || limited.local != was.local);
    has_other_local || limited.global != was.global
}

/// Returns the required tokens, and whether the verification is off.
fn token(policy: &Option<JwtVerificationPolicy>) -> (Arc<str>, bool) {
    let policy = policy.clone().unwrap_or_default();
    (policy.require.unwrap_or_default(), policy.disabled.unwrap_or_default())
}

/// Returns whether the authorization is off, and its context.
fn authorization(policy: &Option<AuthorizationPolicy>) -> (bool, BTreeMap<String, String>) {
    let policy = policy.clone().unwrap_or_default();
    (policy.disabled.unwrap_or_default(), policy.context.unwrap_or_default())
}

/// Checks whether a route overwrites the host. This is a property of forwarding, and not a header edit.
fn rewrites_host(route: &Route) -> bool {
    match &route.action {
        Action::Forward(forward) => forward.rewrite.host.is_some(),
        Action::Redirect(_) | Action::Respond(_) => false,
    }
}

/// Returns the first header that a policy removes and that the edits of a route keep. `is_client`: whether the header
/// comes from the client, so that overwriting removes it as well.
fn kept(edits: &HeaderEdits, policy: &Option<HeadersPolicy>, is_client: bool) -> Option<Arc<str>> {
    let set = edits.set.iter().chain(&edits.set_formatted).map(|(name, _)| name);
    let gone: Vec<&Arc<str>> = edits.remove.iter().chain(set).collect();
    let removed = policy.iter().flat_map(|policy| policy.remove.iter().flatten());
    let overwritten = policy.iter().filter(|_| is_client).flat_map(|policy| policy.set.iter().flatten());
    // A host that is copied from another header is the client's own choice, and keeps nothing from backends.
    let overwritten = overwritten.filter(|header| header.host_source().is_none());
    let wanted = removed.chain(overwritten.map(|header| &header.name)).map(|name| name.trim());
    // No request or response has a header with any other name.
    let mut wanted = wanted.filter(|name| header::is_possible(name.trim_start_matches(':')));
    wanted.find(|wanted| !gone.iter().any(|name| name.eq_ignore_ascii_case(wanted))).map(Arc::from)
}

/// A host in its desired form, and in the form in which it would be served.
struct Both<'a> {
    desired: &'a RoutePlan,
    served: &'a RoutePlan,
}

impl Both<'_> {
    /// Checks whether a served route is a form of this desired one: it has the same matches, or it has the same section
    /// and neither plan has the other's matches. A placeholder can have the matches of a route that is desired itself.
    fn is_form_of(&self, route: &Route, wanted: &Route) -> bool {
        let has = |plan: &RoutePlan, of: &Route| {
            plan.routes.iter().any(|other| other.route.key == of.key && other.route.matches == of.matches)
        };
        let at_its_place = || route.key == wanted.key && route.section == wanted.section;
        let is_another = || wanted.placeholder.is_some() && has(self.desired, route);
        (route.matches == wanted.matches && !is_another())
            || (at_its_place() && !has(self.desired, route) && !has(self.served, wanted))
    }

    /// Checks whether a served route would receive requests of this desired one.
    fn gets_requests_of(&self, route: &Route, wanted: &Route) -> bool {
        let is_own = |other: &Route| {
            other.matches == route.matches
                || (other.key == route.key
                    && other.section == route.section
                    && may_meet(&other.matches, &route.matches))
        };
        let is_wanteds = |other: &Route| {
            other.matches == wanted.matches || (other.key == wanted.key && other.section == wanted.section)
        };
        let own_today = self
            .desired
            .routes
            .iter()
            .map(|rendered| &rendered.route)
            .any(|other| other.precedence < wanted.precedence && is_own(other));
        let own_served = self.served.routes.iter().map(|rendered| &rendered.route).any(|other| {
            other.precedence < route.precedence && is_wanteds(other) && may_meet(&other.matches, &wanted.matches)
        });
        !own_today && !own_served
    }
}
