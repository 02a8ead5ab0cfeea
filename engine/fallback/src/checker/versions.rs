//! Audit of stand-in versions: whether a version of an object may be served instead of the desired one.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::HttpProxy;
use holdfast_api::apis::gateway::route::RouteView;
use holdfast_api::object::Object;
use holdfast_check::{certificate, host};
use holdfast_graph::ObjectKey;

use super::today::Today;
use super::{About, Objection, upstream};
use crate::eligibility::annotation::FALLBACK_ANNOTATION;
use crate::plan::world::World;

/// Returns all objections to serving an object in this version.
pub(super) fn check(key: &ObjectKey, served: &Arc<Object>, world: &World<'_>, today: &Today<'_>) -> Vec<Objection> {
    #[cfg(test)]
    assert!(
        !served.metadata.annotations.contains_key("holdfast.dev/testing-poison-checker"),
        "a test requests this panic"
    );
    let mut found = Vec::new();
    let mut object = |about: About, why: &str| found.push(Objection::whole(key, about, why));
    if served.key != *key {
        object(About::Existence, "the object that is served instead has another key");
    }
    let desired = today.object(key);
    if !today.exists(key) {
        object(About::Existence, "it was deleted, and would be served again");
        return found;
    }
    if let Some(desired) = desired {
        if desired.metadata.uid != served.metadata.uid {
            object(About::Existence, "the version belongs to a deleted object with the same name");
        }
        let (now, then) = (&desired.metadata, &served.metadata);
        if now.labels != then.labels || now.annotations != then.annotations || now.created != then.created {
            object(About::Version, "its labels, annotations or creation time are not those of the current object");
        }
        if !may_claim(key, desired, served, world) {
            object(About::Version, "it claims parents, hostnames or includes that the current object does not claim");
        }
    }
    let today_others = desired.map(|desired| beside_certificate(&desired.body)).unwrap_or_default();
    if matches!(served.body, Body::Secret(_)) && beside_certificate(&served.body) != today_others {
        object(About::Credential, "the other entries beside the certificate are not those of today");
    }
    let trusted = desired.is_some_and(|desired| {
        desired.metadata.annotations.get(FALLBACK_ANNOTATION).is_some_and(|value| value == "last-valid")
    });
    if let Some(why) = desired.and_then(|desired| upstream::weaker(&desired.body, &served.body, trusted)) {
        object(About::Security, &why);
    }
    if desired.is_none() && matches!(served.body, Body::GatewayExtension(_) | Body::DirectResponse(_)) {
        object(About::Security, "the fields that protect cannot be decoded");
    }
    if desired.is_some_and(|desired| is_never(desired)) {
        object(About::Version, "the object's annotation forbids that another version is served");
    }
    if !may_be_served_in_another_version(&served.body) {
        object(About::Version, "objects of its kind are served in the current version only");
    }
    if let Some(why) = without_origin(key, desired.map(|desired| &**desired), served, world) {
        object(About::Version, why);
    }
    if let (Some(age), Some(since)) = (world.settings.fallback.max_backfill_age, world.since.get(key))
        && world.now().saturating_sub(*since) > age
    {
        object(About::Version, "it has been the stand-in version for longer than the maximum age");
    }
    if let Some(why) = unusable_certificate(&served.body, world.now()) {
        object(About::Credential, why);
    }
    found
}

/// Returns the reason why no acknowledged version allows this content to be served.
fn without_origin(
    key: &ObjectKey,
    desired: Option<&Object>,
    served: &Object,
    world: &World<'_>,
) -> Option<&'static str> {
    let versions = world.last_valid.of(key, desired.map(|desired| &*desired.metadata.uid));
    let now = desired.map(|desired| &desired.body);
    let mut origins = versions.filter(|version| same_content(&version.object.body, &served.body, now));
    match origins.next() {
        None => Some("no Envoy has acknowledged this version of this object"),
        Some(version) if is_never(&version.object) => {
            Some("that version's annotation forbids that it is served instead of another")
        }
        Some(_) => None,
    }
}

/// Returns the reason why a Secret is not a server certificate that can be used now.
fn unusable_certificate(body: &Body, now: i64) -> Option<&'static str> {
    let Body::Secret(secret) = body else { return None };
    let part = |name: &str| secret.data.get(name).map(|bytes| &bytes[..]).unwrap_or_default();
    match certificate::check_pair(part("tls.crt"), part("tls.key")) {
        Err(_) => Some("it has no server certificate with a matching key"),
        Ok(pair) if now > pair.validity.not_after => Some("the certificate has expired"),
        Ok(pair) if now < pair.validity.not_before => Some("the certificate is not valid yet"),
        Ok(_) => None,
    }
}

/// The entries of a Secret that are a certificate and its key.
const CERTIFICATE: [&str; 2] = ["tls.crt", "tls.key"];

/// Returns the entries of a Secret other than a certificate and its key: certificate authorities, lists, passwords.
fn beside_certificate(body: &Body) -> BTreeMap<&str, &[u8]> {
    let Body::Secret(secret) = body else { return BTreeMap::new() };
    let others = secret.data.iter().filter(|(name, _)| !CERTIFICATE.contains(&&***name));
    others.map(|(name, bytes)| (&**name, &bytes[..])).collect()
}

fn is_never(object: &Object) -> bool {
    object.metadata.annotations.iter().any(|(name, value)| name == FALLBACK_ANNOTATION && value == "never")
}

/// Checks the kind of an object. Grants, namespaces, endpoints, ConfigMaps, Gateways and GatewayClasses are always
/// served in their current version.
fn may_be_served_in_another_version(body: &Body) -> bool {
    match body {
        Body::HttpRoute(_) | Body::GrpcRoute(_) | Body::StreamRoute(_) | Body::HttpProxy(_) => true,
        Body::Service(_) | Body::Secret(_) => true,
        // For policies, a separate check compares the protection.
        Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => true,
        Body::BackendConfigPolicy(_)
        | Body::BackendTlsPolicy(_)
        | Body::Backend(_)
        | Body::GatewayExtension(_)
        | Body::DirectResponse(_) => true,
        Body::GatewayClass(_)
        | Body::Gateway(_)
        | Body::ListenerSet(_)
        | Body::ReferenceGrant(_)
        | Body::EndpointSlice(_)
        | Body::ConfigMap(_)
        | Body::CertificateDelegation(_)
        | Body::ExtensionService(_)
        | Body::Namespace => false,
    }
}

/// Checks that the served version makes the desired claims. Only a hostname that cannot be used may be replaced, by a
/// hostname of a proven version.
fn may_claim(key: &ObjectKey, desired: &Object, served: &Object, world: &World<'_>) -> bool {
    match (&desired.body, &served.body) {
        (Body::HttpRoute(_), Body::HttpRoute(_))
        | (Body::GrpcRoute(_), Body::GrpcRoute(_))
        | (Body::StreamRoute(_), Body::StreamRoute(_)) => {
            let (now, then) = (hostnames(desired), hostnames(served));
            let uses_defaults = |object: &Object| object.body.route().map(RouteView::uses_default_gateways);
            let has_parents = desired.body.route().map(RouteView::parents)
                == served.body.route().map(RouteView::parents)
                && uses_defaults(desired) == uses_defaults(served);
            has_parents && (now == then || may_be_lent(now, then, key, &desired.metadata.uid, world))
        }
        (Body::HttpProxy(now), Body::HttpProxy(then)) => {
            let claims = |proxy: &HttpProxy| HttpProxy { routes: Vec::new(), ..proxy.clone() };
            claims(now) == claims(then)
        }
        (Body::TrafficPolicy(now), Body::TrafficPolicy(then)) => now.targets == then.targets,
        (Body::ListenerPolicy(now), Body::ListenerPolicy(then)) => now.targets == then.targets,
        (Body::BackendConfigPolicy(now), Body::BackendConfigPolicy(then)) => now.targets == then.targets,
        (Body::BackendTlsPolicy(now), Body::BackendTlsPolicy(then)) => now.targets == then.targets,
        (Body::TrafficPolicy(_) | Body::ListenerPolicy(_), _) => false,
        (Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_), _) => false,
        (Body::HttpRoute(_) | Body::GrpcRoute(_) | Body::StreamRoute(_) | Body::HttpProxy(_), _)
        | (_, Body::HttpRoute(_) | Body::GrpcRoute(_) | Body::StreamRoute(_) | Body::HttpProxy(_)) => false,
        _ => true,
    }
}

fn may_be_lent(now: &[Arc<str>], then: &[Arc<str>], key: &ObjectKey, uid: &str, world: &World<'_>) -> bool {
    let (good, bad): (Vec<&Arc<str>>, Vec<&Arc<str>>) = now.iter().partition(|name| host::hostname(name).is_ok());
    let keeps = good.iter().all(|name| then.contains(name));
    let added: Vec<&Arc<str>> = then.iter().filter(|name| !good.contains(name)).collect();
    // If no current hostname can be used, the hostnames of one proven version are used as a whole.
    let few = good.is_empty() || (!added.is_empty() && added.len() <= bad.len());
    let mut proven = world.last_valid.of(key, Some(uid)).map(|version| hostnames(&version.object));
    let known = match good.is_empty() {
        true => proven.any(|names| *names == *then),
        false => proven.any(|names| added.iter().all(|name| names.contains(name))),
    };
    !bad.is_empty() && keeps && few && known
}

/// Returns the hostnames of a route in their written form.
pub(super) fn hostnames(object: &Object) -> &[Arc<str>] {
    object.body.route().map(RouteView::hostnames).unwrap_or_default()
}

/// Compares the content of two versions. Of routes, only the rules come from an earlier version, and each of them may be
/// a rule of the desired version.
fn same_content(proven: &Body, served: &Body, desired: Option<&Body>) -> bool {
    match (proven, served) {
        (Body::HttpRoute(proven), Body::HttpRoute(served)) => {
            let now = desired.and_then(|now| if let Body::HttpRoute(now) = now { Some(&now.rules[..]) } else { None });
            of_either(&proven.rules, &served.rules, now)
        }
        (Body::GrpcRoute(proven), Body::GrpcRoute(served)) => {
            let now = desired.and_then(|now| if let Body::GrpcRoute(now) = now { Some(&now.rules[..]) } else { None });
            of_either(&proven.rules, &served.rules, now)
        }
        (Body::StreamRoute(proven), Body::StreamRoute(served)) => {
            let now =
                desired.and_then(|now| if let Body::StreamRoute(now) = now { Some(&now.rules[..]) } else { None });
            of_either(&proven.rules, &served.rules, now)
        }
        (Body::HttpProxy(proven), Body::HttpProxy(served)) => {
            let now = desired.and_then(|now| if let Body::HttpProxy(now) = now { Some(&now.routes[..]) } else { None });
            of_either(&proven.routes, &served.routes, now)
        }
        (Body::TrafficPolicy(proven), Body::TrafficPolicy(served)) => {
            (&proven.spec, &proven.unread) == (&served.spec, &served.unread)
        }
        (Body::ListenerPolicy(proven), Body::ListenerPolicy(served)) => {
            (&proven.spec, &proven.unread) == (&served.spec, &served.unread)
        }
        (Body::BackendConfigPolicy(proven), Body::BackendConfigPolicy(served)) => {
            (&proven.spec, &proven.unread) == (&served.spec, &served.unread)
        }
        (Body::BackendTlsPolicy(proven), Body::BackendTlsPolicy(served)) => {
            (&proven.spec, &proven.unread) == (&served.spec, &served.unread)
        }
        (Body::Secret(proven), Body::Secret(served)) => {
            CERTIFICATE.iter().all(|name| proven.data.get(*name) == served.data.get(*name))
        }
        _ => proven == served,
    }
}

/// Checks whether each served rule is the proven one, or a desired one.
fn of_either<T: PartialEq>(proven: &[T], served: &[T], desired: Option<&[T]>) -> bool {
    let is_desired = |rule: &T| desired.is_some_and(|desired| desired.contains(rule));
    proven.len() == served.len() && proven.iter().zip(served).all(|(proven, rule)| proven == rule || is_desired(rule))
}
