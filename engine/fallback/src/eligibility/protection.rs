//! Comparison of the protection of an earlier version with the desired one, for the planner.
//!
//! Protecting fields are declared beside the fields (`apis/protection.rs`). This module compares versions by these
//! declarations, part by part: the rules of a route, the ports of a listener, the routes of an HTTPProxy. A named rule
//! is compared with the rule of the same name, other rules with the one at the same index.

use std::collections::BTreeSet;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::route::{GatewayRoute, RouteRule, RuleEntry};
use holdfast_api::apis::kgateway::listener_policy::ListenerPolicy;
use holdfast_api::apis::kgateway::policy::{Policy, Unread};
use holdfast_api::apis::protection::{Declare, Lack, Sheet};
use holdfast_api::object::Object;

use super::annotation::FALLBACK_ANNOTATION;
use super::proxy_protection;

/// The value of the annotation by which earlier access lists are trusted.
const LAST_VALID: &str = "last-valid";

/// External attachments of an object that decide about its versions.
#[derive(Debug, Default)]
pub struct Context {
    /// Whether a host of an HTTPProxy has an address filter.
    pub(crate) host_is_filtered: bool,
    /// The rules of a route with an attached protecting policy, by rule name.
    pub(crate) guarded_rules: BTreeSet<String>,
}

/// Returns the first lack of protection of an earlier version, compared with the desired one; `None` if it protects as
/// much.
pub fn lost(desired: &Object, last: &Body, context: &Context) -> Option<Lack> {
    let trusted = trusts_earlier_lists(desired);
    match (&desired.body, last) {
        (Body::TrafficPolicy(now), Body::TrafficPolicy(last)) => policy(now, last, trusted),
        (Body::ListenerPolicy(now), Body::ListenerPolicy(last)) => listener_at_every_port(now, last, trusted),
        (Body::BackendConfigPolicy(now), Body::BackendConfigPolicy(last)) => policy(now, last, trusted),
        (Body::BackendTlsPolicy(now), Body::BackendTlsPolicy(last)) => policy(now, last, trusted),
        (Body::Backend(now), Body::Backend(last)) => spec(&**now, &now.unread, &**last, trusted),
        (Body::GatewayExtension(now), Body::GatewayExtension(last)) => spec(&**now, &now.unread, &**last, trusted),
        // The status code alone defines the refusal, even if other fields cannot be read.
        (Body::DirectResponse(now), Body::DirectResponse(last)) => spec(&**now, &[], &**last, trusted),
        (Body::HttpRoute(now), Body::HttpRoute(last)) => rules(now, last, context),
        (Body::GrpcRoute(now), Body::GrpcRoute(last)) => rules(now, last, context),
        (Body::StreamRoute(now), Body::StreamRoute(last)) => rules(now, last, context),
        (Body::HttpProxy(now), Body::HttpProxy(last)) => proxy_protection::lost(now, last, context.host_is_filtered),
        // `hybrid.rs` decides about other kinds, or they are never backfilled.
        _ => None,
    }
}

/// Checks whether the owner allows earlier access lists to be served.
pub(crate) fn trusts_earlier_lists(object: &Object) -> bool {
    object.metadata.annotations.get(FALLBACK_ANNOTATION).is_some_and(|value| value == LAST_VALID)
}

/// Checks whether an object protects requests or backends, according to the declarations of its fields: whether it is
/// a security policy.
///
/// An object that cannot be read completely may be one.
pub fn protects(body: &Body) -> bool {
    fn of<T: Declare>(policy: &Policy<T>) -> bool {
        !policy.unread.is_empty() || policy.spec.as_ref().is_none_or(|spec| Sheet::of(spec, false).protects())
    }
    match body {
        Body::TrafficPolicy(policy) => of(policy),
        Body::ListenerPolicy(policy) => {
            let at_ports = |spec: &holdfast_api::apis::kgateway::listener_policy::ListenerSpec| {
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

fn policy<T: Declare>(now: &Policy<T>, last: &Policy<T>, trusted: bool) -> Option<Lack> {
    of_specs(now, last, trusted, |now, then| Sheet::of(now, trusted).lost_in(&Sheet::of(then, trusted)))
}

fn listener_at_every_port(now: &ListenerPolicy, last: &ListenerPolicy, trusted: bool) -> Option<Lack> {
    of_specs(now, last, trusted, |now, then| {
        let ports: BTreeSet<Option<i64>> = now.ports().union(&then.ports()).copied().collect();
        ports.into_iter().find_map(|port| now.at(port, trusted).lost_in(&then.at(port, trusted)))
    })
}

/// Compares two versions of a policy. A field that cannot be read may be the protecting one.
fn of_specs<T>(
    now: &Policy<T>,
    last: &Policy<T>,
    trusted: bool,
    compare: impl FnOnce(&T, &T) -> Option<Lack>,
) -> Option<Lack> {
    match (&now.spec, &last.spec) {
        (_, None) => Some(Lack::Unread),
        (now_spec, _) if !trusted && (now_spec.is_none() || !now.unread.is_empty()) => Some(Lack::Unread),
        (None, _) => None,
        (Some(now), Some(then)) => compare(now, then),
    }
}

fn spec<T: Declare>(now: &T, unread: &[Unread], last: &T, trusted: bool) -> Option<Lack> {
    if !trusted && !unread.is_empty() {
        return Some(Lack::Unread);
    }
    Sheet::of(now, trusted).lost_in(&Sheet::of(last, trusted))
}

fn rules<R: RouteRule + Declare>(now: &GatewayRoute<R>, last: &GatewayRoute<R>, context: &Context) -> Option<Lack> {
    now.rules.iter().enumerate().find_map(|(index, entry)| {
        let counterpart = match entry.name() {
            Some(name) => last.rules.iter().find(|other| other.name() == Some(name)),
            None => last.rules.get(index).filter(|other| other.name().is_none()),
        };
        let is_targeted = entry.name().is_some_and(|name| context.guarded_rules.contains(name));
        let Some(sheet) = sheet(entry) else { return Some(Lack::Unread) };
        match counterpart {
            // An earlier version without the rule protects as much, unless a policy targets the rule or the rule itself
            // protects requests.
            None => (is_targeted || sheet.protects()).then_some(Lack::Rule),
            Some(then) => self::sheet(then).map_or(Some(Lack::Unread), |then| sheet.lost_in(&then)),
        }
    })
}

/// Returns the declared protection of a rule; `None` if its protecting fields cannot be read.
fn sheet<R: RouteRule + Declare>(entry: &RuleEntry<R>) -> Option<Sheet> {
    Some(Sheet::of(entry.guards()?, false))
}

#[cfg(test)]
mod tests;
