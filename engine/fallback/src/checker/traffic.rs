//! Comparison of two versions of a TrafficPolicy, field by field, for the audit. The code is independent of the
//! planner. Exhaustive destructuring makes the compiler report a field that is not classified.

use std::collections::BTreeSet;

use holdfast_api::apis::kgateway::headers::{
    Header, HeaderFilter, HeaderModifiers, MetadataTransform, Transform, Transformation,
};
use holdfast_api::apis::kgateway::traffic_policy::{RateLimit, TrafficSpec};
use holdfast_check::header;

/// Returns the first field by which `then` lets more requests pass than `now`. `trusted`: whether earlier access lists
/// may be served.
pub(super) fn weaker(now: &TrafficSpec, then: &TrafficSpec, trusted: bool) -> Option<String> {
    let TrafficSpec {
        transformation,
        ext_proc,
        ext_auth,
        rate_limit,
        cors,
        csrf,
        header_modifiers: _,
        request_mirror: _,
        auto_host_rewrite: _,
        buffer,
        timeouts: _,
        retry: _,
        internal_redirect: _,
        rbac,
        jwt_auth,
        url_rewrite: _,
        compression: _,
        basic_auth,
        api_key_auth,
        oauth2,
        tracing: _,
        fault_injection: _,
        acl,
        stat_prefix: _,
    } = now;
    let lists = [
        ("basicAuth", *basic_auth == then.basic_auth),
        ("apiKeyAuth", *api_key_auth == then.api_key_auth),
        ("rbac", *rbac == then.rbac),
        ("acl", *acl == then.acl),
        ("jwtAuth", *jwt_auth == then.jwt_auth),
        ("oauth2", *oauth2 == then.oauth2),
        ("cors", *cors == then.cors),
        ("csrf", *csrf == then.csrf),
    ];
    let same_or_trusted = |same: bool| trusted || same;
    let (limits_now, limits_then) = (limits(rate_limit), limits(&then.rate_limit));
    let guards = [
        (
            "extAuth",
            [ext_auth, &then.ext_auth].map(|auth| auth.as_ref().map(|auth| auth.disable.is_none())),
            same_or_trusted(*ext_auth == then.ext_auth),
        ),
        (
            "extProc",
            [ext_proc, &then.ext_proc].map(|proc| proc.as_ref().map(|proc| proc.disable.is_none())),
            same_or_trusted(*ext_proc == then.ext_proc),
        ),
        ("buffer", [buffer, &then.buffer].map(|buffer| buffer.as_ref().map(|buffer| buffer.disable.is_none())), true),
        ("rateLimit.local", [limits_now.0, limits_then.0], true),
        ("rateLimit.global", [limits_now.1, limits_then.1], true),
    ];
    if let Some(field) = other_list(&lists, now, then, trusted) {
        return Some(format!("other clients would be authorized than today: {field}"));
    }
    if let Some(field) = missing_guard(guards) {
        return Some(format!("a protection of today would be missing: {field}"));
    }
    if metadata(transformation) != metadata(&then.transformation) {
        return Some("filters would use other dynamic metadata than today".into());
    }
    shown_header(&Gone::of(now), &Gone::of(then))
}

/// Returns the first access list that differs. If earlier lists are trusted, it has to be in force now and not then.
fn other_list<'a>(lists: &[(&'a str, bool)], now: &TrafficSpec, then: &TrafficSpec, trusted: bool) -> Option<&'a str> {
    let (in_force, was_in_force) = (lists_in_force(now), lists_in_force(then));
    let is_new = |field: &str| in_force.contains(field) && !was_in_force.contains(field);
    let other = lists.iter().find(|(field, is_same)| !is_same && (!trusted || is_new(field)));
    other.map(|(field, _)| *field)
}

/// Returns the first guard that is missing. A guard has two states, now and then: on, off, or not set; and whether its
/// settings may differ.
fn missing_guard<const N: usize>(guards: [(&'static str, [Option<bool>; 2], bool); N]) -> Option<&'static str> {
    let is_missing = |(_, [now, then], is_same): &(&str, [Option<bool>; 2], bool)| match (now, then) {
        (Some(true), then) => *then != Some(true) || !is_same,
        (Some(false), then) => *then != Some(false),
        (None, then) => *then == Some(false),
    };
    guards.into_iter().find(is_missing).map(|(field, ..)| field)
}

/// Returns whether the local and the global rate limit are on.
fn limits(spec: &Option<RateLimit>) -> (Option<bool>, Option<bool>) {
    let RateLimit { local, global } = spec.clone().unwrap_or_default();
    (local.map(|local| local.token_bucket.is_some()), global.map(|_| true))
}

/// Returns the dynamic metadata that requests and responses get.
fn metadata(written: &Option<Transformation>) -> [Option<Vec<MetadataTransform>>; 2] {
    let written = written.clone().unwrap_or_default();
    [written.request, written.response].map(|one| one.and_then(|one| one.dynamic_metadata))
}

/// Returns a message about the first header that would be shown, and is hidden now.
fn shown_header(now: &Gone, then: &Gone) -> Option<String> {
    if let Some(name) = now.client.iter().find(|name| !then.client.contains(*name)) {
        return Some(format!(
            "the client's own header {name:?}, which is overwritten or removed today, would reach the backend"
        ));
    }
    let hidden = |name: &&String| then.removed.contains(*name) || then.set.contains(*name);
    let shown = now.removed.iter().find(|name| !hidden(name));
    shown.map(|name| format!("a response header that is removed today would reach clients: {name:?}"))
}

/// Returns the access lists that are in force, and so exclude some clients.
fn lists_in_force(spec: &TrafficSpec) -> BTreeSet<&'static str> {
    let on = [
        ("basicAuth", spec.basic_auth.as_ref().is_some_and(|auth| auth.disable.is_none())),
        ("apiKeyAuth", spec.api_key_auth.as_ref().is_some_and(|auth| auth.disable.is_none())),
        ("rbac", spec.rbac.is_some()),
        ("acl", spec.acl.is_some()),
        ("jwtAuth", spec.jwt_auth.as_ref().is_some_and(|auth| auth.disable.is_none())),
        ("oauth2", spec.oauth2.as_ref().is_some_and(|auth| auth.disable.is_none())),
        ("cors", spec.cors.as_ref().is_some_and(|cors| cors.disable.is_none())),
        ("csrf", spec.csrf.is_some()),
    ];
    on.into_iter().filter(|(_, on)| *on).map(|(field, _)| field).collect()
}

/// Checks whether a policy lets fewer requests pass, or removes parts of requests or responses.
pub(super) fn guards(spec: &TrafficSpec) -> bool {
    // A policy guards if an empty policy would be weaker.
    weaker(spec, &TrafficSpec::default(), false).is_some() && !only_switches_off(spec)
}

/// Checks whether a policy only disables settings of other policies. Such a policy guards nothing.
fn only_switches_off(spec: &TrafficSpec) -> bool {
    let limits = spec.rate_limit.clone().unwrap_or_default();
    let gone = Gone::of(spec);
    let metadata = spec.transformation.as_ref().is_some_and(|written| {
        [&written.request, &written.response].into_iter().flatten().any(|one| one.dynamic_metadata.is_some())
    });
    lists_in_force(spec).is_empty()
        && spec.ext_auth.as_ref().is_none_or(|auth| auth.disable.is_some())
        && spec.ext_proc.as_ref().is_none_or(|proc| proc.disable.is_some())
        && spec.buffer.as_ref().is_none_or(|buffer| buffer.disable.is_some())
        && limits.local.is_none_or(|local| local.token_bucket.is_none())
        && limits.global.is_none()
        && !metadata
        && gone.client.is_empty()
        && gone.removed.is_empty()
}

/// Names of headers, in lower case.
struct Gone {
    /// Request headers that are removed or overwritten.
    client: BTreeSet<String>,
    /// Response headers that are removed.
    removed: BTreeSet<String>,
    /// Response headers that are overwritten.
    set: BTreeSet<String>,
}

impl Gone {
    fn of(spec: &TrafficSpec) -> Self {
        let HeaderModifiers { request, response } = spec.header_modifiers.clone().unwrap_or_default();
        let Transformation { request: to, response: back } = spec.transformation.clone().unwrap_or_default();
        let (mut client, overwritten) = modified(request);
        client.extend(overwritten);
        let (names, overwritten) = transformed(to);
        client.extend(names.into_iter().chain(overwritten));
        client.extend(spec.auto_host_rewrite.filter(|on| *on).map(|_| "host".to_owned()));
        let (mut removed, mut set) = modified(response);
        let (names, overwritten) = transformed(back);
        removed.extend(names);
        set.extend(overwritten);
        Self { client, removed, set }
    }
}

/// Returns the names of the removed headers, and of the overwritten headers.
fn modified(filter: Option<HeaderFilter>) -> (BTreeSet<String>, BTreeSet<String>) {
    let HeaderFilter { set, add: _, remove } = filter.unwrap_or_default();
    let name = |Header { name, value: _, secret_ref }: Header| name.or_else(|| secret_ref?.key);
    let set = set.into_iter().flatten().filter_map(name);
    (lower(remove.into_iter().flatten()), lower(set))
}

fn transformed(transform: Option<Transform>) -> (BTreeSet<String>, BTreeSet<String>) {
    let Transform { set, add: _, remove, body: _, dynamic_metadata: _ } = transform.unwrap_or_default();
    (lower(remove.into_iter().flatten()), lower(set.into_iter().flatten().map(|template| template.name)))
}

fn lower(names: impl Iterator<Item = std::sync::Arc<str>>) -> BTreeSet<String> {
    // No request has a header with any other name.
    let is_possible = |name: &str| name.is_empty() || header::is_possible(name.trim_start_matches(':'));
    let names = names.map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| is_possible(name)).collect()
}
