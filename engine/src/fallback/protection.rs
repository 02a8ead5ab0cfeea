//! The planner's answer to: does an earlier version of an object protect as much as the desired one?
//!
//! What protects is declared beside the fields (`apis/protection.rs`); here versions are compared by it, part by part:
//! the rules of a route, the ports of a listener, the routes of an HTTPProxy. A rule with a name is compared with the
//! one of that name, others with the one at their place.

use std::collections::BTreeSet;

use super::proxy_protection;
use super::world::FALLBACK_ANNOTATION;
use crate::apis::Body;
use crate::apis::gateway::route::{Route, Rule, RuleEntry};
use crate::apis::kgateway::listener_policy::ListenerPolicy;
use crate::apis::kgateway::policy::{Policy, Unread};
use crate::apis::protection::{Declare, Sheet};
use crate::object::Object;

/// The value of the annotation by which earlier lists of those who may enter are trusted.
const LAST_VALID: &str = "last-valid";
/// The field that is reported where not all of an object can be read.
const UNREAD: &str = "a field that cannot be read";
/// The field that is reported where a rule has no counterpart.
const RULES: &str = "rules";

/// What is attached to an object from outside, as far as it decides about versions.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// Has a host of an HTTPProxy a filter of addresses?
    pub(crate) host_is_filtered: bool,
    /// The rules of a route that policies which protect are attached to by name.
    pub(crate) guarded_rules: BTreeSet<String>,
}

/// The first field by which an earlier version protects less than the desired one; `None` where it protects as much.
pub(crate) fn lost(desired: &Object, last: &Body, context: &Context) -> Option<&'static str> {
    let trusted = trusts_earlier_lists(desired);
    match (&desired.body, last) {
        (Body::TrafficPolicy(now), Body::TrafficPolicy(last)) => policy(now, last, trusted),
        (Body::ListenerPolicy(now), Body::ListenerPolicy(last)) => listener_at_every_port(now, last, trusted),
        (Body::BackendConfigPolicy(now), Body::BackendConfigPolicy(last)) => policy(now, last, trusted),
        (Body::BackendTlsPolicy(now), Body::BackendTlsPolicy(last)) => policy(now, last, trusted),
        (Body::Backend(now), Body::Backend(last)) => spec(&**now, &now.unread, &**last, trusted),
        (Body::GatewayExtension(now), Body::GatewayExtension(last)) => spec(&**now, &now.unread, &**last, trusted),
        // What it refuses is defined by its status code, whatever else of it cannot be read.
        (Body::DirectResponse(now), Body::DirectResponse(last)) => spec(&**now, &[], &**last, trusted),
        (Body::HttpRoute(now), Body::HttpRoute(last)) => rules(now, last, context),
        (Body::GrpcRoute(now), Body::GrpcRoute(last)) => rules(now, last, context),
        (Body::HttpProxy(now), Body::HttpProxy(last)) => {
            (!proxy_protection::is_kept(now, last, context.host_is_filtered)).then_some("routes")
        }
        // What decides about those is in `hybrid.rs`, or they never go back.
        _ => None,
    }
}

/// Has the owner said that earlier lists of those who may enter may be served?
pub(crate) fn trusts_earlier_lists(object: &Object) -> bool {
    object.metadata.annotations.get(FALLBACK_ANNOTATION).is_some_and(|value| value == LAST_VALID)
}

/// Does an object protect requests or back ends: is it a security policy, as its fields are declared?
///
/// Where not all of it can be read, it may do so.
pub(crate) fn protects(body: &Body) -> bool {
    fn of<T: Declare>(policy: &Policy<T>) -> bool {
        !policy.unread.is_empty() || policy.spec.as_ref().is_none_or(|spec| Sheet::of(spec, false).protects())
    }
    match body {
        Body::TrafficPolicy(policy) => of(policy),
        Body::ListenerPolicy(policy) => {
            let at_ports = |spec: &crate::apis::kgateway::listener_policy::ListenerSpec| {
                spec.ports().into_iter().any(|port| spec.at(port, false).protects())
            };
            !policy.unread.is_empty() || policy.spec.as_ref().is_none_or(at_ports)
        }
        Body::BackendConfigPolicy(policy) => of(policy),
        Body::BackendTlsPolicy(policy) => of(policy),
        Body::GatewayExtension(extension) => !extension.unread.is_empty() || Sheet::of(&**extension, false).protects(),
        Body::DirectResponse(response) => Sheet::of(&**response, false).protects(),
        _ => false,
    }
}

fn policy<T: Declare>(now: &Policy<T>, last: &Policy<T>, trusted: bool) -> Option<&'static str> {
    of_specs(now, last, trusted, |now, then| Sheet::of(now, trusted).lost_in(&Sheet::of(then, trusted)))
}

fn listener_at_every_port(now: &ListenerPolicy, last: &ListenerPolicy, trusted: bool) -> Option<&'static str> {
    of_specs(now, last, trusted, |now, then| {
        let ports: BTreeSet<Option<i64>> = now.ports().union(&then.ports()).copied().collect();
        ports.into_iter().find_map(|port| now.at(port, trusted).lost_in(&then.at(port, trusted)))
    })
}

/// A field that cannot be read may be the one that protects.
fn of_specs<T>(
    now: &Policy<T>,
    last: &Policy<T>,
    trusted: bool,
    compare: impl FnOnce(&T, &T) -> Option<&'static str>,
) -> Option<&'static str> {
    match (&now.spec, &last.spec) {
        (_, None) => Some(UNREAD),
        (now_spec, _) if !trusted && (now_spec.is_none() || !now.unread.is_empty()) => Some(UNREAD),
        (None, _) => None,
        (Some(now), Some(then)) => compare(now, then),
    }
}

fn spec<T: Declare>(now: &T, unread: &[Unread], last: &T, trusted: bool) -> Option<&'static str> {
    if !trusted && !unread.is_empty() {
        return Some(UNREAD);
    }
    Sheet::of(now, trusted).lost_in(&Sheet::of(last, trusted))
}

fn rules<R: Rule + Declare>(now: &Route<R>, last: &Route<R>, context: &Context) -> Option<&'static str> {
    now.rules.iter().enumerate().find_map(|(index, entry)| {
        let counterpart = match entry.name() {
            Some(name) => last.rules.iter().find(|other| other.name() == Some(name)),
            None => last.rules.get(index).filter(|other| other.name().is_none()),
        };
        let is_targeted = entry.name().is_some_and(|name| context.guarded_rules.contains(name));
        let Some(sheet) = sheet(entry) else { return Some(UNREAD) };
        match counterpart {
            // What it no longer names it protects no less than a version without it.
            None => (is_targeted || sheet.protects()).then_some(RULES),
            Some(then) => self::sheet(then).map_or(Some(UNREAD), |then| sheet.lost_in(&then)),
        }
    })
}

/// The sheet of a rule; none where what protects it cannot be read.
fn sheet<R: Rule + Declare>(entry: &RuleEntry<R>) -> Option<Sheet> {
    Some(Sheet::of(entry.guards()?, false))
}

#[cfg(test)]
mod tests;
