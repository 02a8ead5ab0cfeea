//! Does an earlier version of a policy protect as much as the desired one?
//!
//! What says who may enter is never taken from an earlier version: it must be as it is desired today, or the policy closes
//! what it is attached to, unless its owner has said otherwise. Everything else that protects must be there as well, and
//! must not be switched off. What only changes how requests are forwarded is free.

use std::collections::BTreeSet;

use crate::apis::kgateway::headers::{HeaderFilter, HeaderModifiers, Transform, Transformation};
use crate::apis::kgateway::policy::Policy;
use crate::apis::kgateway::traffic_policy::TrafficSpec;

/// See the module. `trusted`: has the owner of the policy said that earlier lists may stand in?
pub(super) fn is_kept(desired: &Policy<TrafficSpec>, last: &Policy<TrafficSpec>, trusted: bool) -> bool {
    let Some(then) = &last.spec else { return false };
    // A field that nobody could read may be the one that protects.
    if !trusted && !desired.unread.is_empty() {
        return false;
    }
    let Some(now) = &desired.spec else { return trusted };
    let same_lists = who_may_enter_is_same(now, then) || (trusted && somebody_is_asked(now, then));
    same_lists && guards_are_kept(now, then) && removals(now).is_subset(&removals(then))
}

/// Does whatever says today who may enter say so then, whoever that was?
fn somebody_is_asked(now: &TrafficSpec, then: &TrafficSpec) -> bool {
    let asks = |spec: &TrafficSpec| {
        [
            spec.basic_auth.as_ref().is_some_and(|auth| auth.disable.is_none()),
            spec.api_key_auth.as_ref().is_some_and(|auth| auth.disable.is_none()),
            spec.jwt_auth.as_ref().is_some_and(|auth| auth.disable.is_none()),
            spec.rbac.is_some(),
            spec.acl.is_some(),
            spec.oauth2.is_some(),
            spec.cors.is_some(),
            spec.csrf.is_some(),
        ]
    };
    asks(now).into_iter().zip(asks(then)).all(|(now, then)| then || !now)
}

fn who_may_enter_is_same(now: &TrafficSpec, then: &TrafficSpec) -> bool {
    now.basic_auth == then.basic_auth
        && now.api_key_auth == then.api_key_auth
        && now.rbac == then.rbac
        && now.acl == then.acl
        && now.jwt_auth == then.jwt_auth
        && now.oauth2 == then.oauth2
        && now.cors == then.cors
        && now.csrf == then.csrf
}

/// Whatever is asked or limited today was asked or limited then.
fn guards_are_kept(now: &TrafficSpec, then: &TrafficSpec) -> bool {
    let switched = |now: Option<bool>, then: Option<bool>| match (now, then) {
        // Then it was on, or not spoken of; or both say the same.
        (None, then) => then != Some(false),
        (now, then) => now == then,
    };
    let limits = |spec: &TrafficSpec| {
        let limits = spec.rate_limit.as_ref();
        let local = limits.and_then(|limits| limits.local.as_ref()).map(|local| local.token_bucket.is_some());
        (local, limits.and_then(|limits| limits.global.as_ref()).map(|_| true))
    };
    let (now_limits, then_limits) = (limits(now), limits(then));
    let ext_auth = |spec: &TrafficSpec| spec.ext_auth.as_ref().map(|auth| auth.disable.is_none());
    let ext_proc = |spec: &TrafficSpec| spec.ext_proc.as_ref().map(|proc| proc.disable.is_none());
    let buffer = |spec: &TrafficSpec| spec.buffer.as_ref().map(|buffer| buffer.disable.is_none());
    switched(ext_auth(now), ext_auth(then))
        && switched(ext_proc(now), ext_proc(then))
        && switched(buffer(now), buffer(then))
        && switched(now_limits.0, then_limits.0)
        && switched(now_limits.1, then_limits.1)
}

/// Headers that are taken away: of requests and of responses.
fn removals(spec: &TrafficSpec) -> BTreeSet<(&'static str, String)> {
    let modifiers = spec.header_modifiers.clone().unwrap_or_default();
    let HeaderModifiers { request, response } = &modifiers;
    let of_filter = |filter: &Option<HeaderFilter>| filter.clone().and_then(|filter| filter.remove).unwrap_or_default();
    let transformation = spec.transformation.clone().unwrap_or_default();
    let Transformation { request: to, response: back } = &transformation;
    let of_transform = |one: &Option<Transform>| one.clone().and_then(|one| one.remove).unwrap_or_default();
    let requests = of_filter(request).into_iter().chain(of_transform(to)).map(|name| ("request", name));
    let responses = of_filter(response).into_iter().chain(of_transform(back)).map(|name| ("response", name));
    requests.chain(responses).map(|(way, name)| (way, name.to_ascii_lowercase())).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(spec: &Value) -> Policy<TrafficSpec> {
        Policy { spec: Some(serde_json::from_value(spec.clone()).unwrap()), ..Policy::default() }
    }

    #[test]
    fn an_earlier_version_may_stand_in_that_protects_as_much() {
        let acl = |cidr: &str| json!({"defaultAction": "deny", "rules": [{"cidrs": [cidr], "action": "allow"}]});
        let auth = json!({"extensionRef": {"name": "auth"}});
        let remove = |name: &str| json!({"request": {"remove": [name]}});
        let rows = [
            (json!({"timeouts": {"request": "x"}}), json!({"timeouts": {"request": "1s"}}), true),
            (json!({"acl": acl("10.0.0.0/8")}), json!({"acl": acl("10.0.0.0/8"), "retry": {"attempts": 1}}), true),
            (json!({"acl": acl("10.0.0.0/8")}), json!({"acl": acl("0.0.0.0/0")}), false),
            (json!({"acl": acl("10.0.0.0/8")}), json!({}), false),
            (json!({}), json!({"acl": acl("10.0.0.0/8")}), false),
            (json!({"extAuth": auth}), json!({"extAuth": {"extensionRef": {"name": "other"}}}), true),
            (json!({"extAuth": auth}), json!({}), false),
            (json!({"extAuth": auth}), json!({"extAuth": {"disable": {}}}), false),
            (json!({}), json!({"extAuth": {"disable": {}}}), false),
            (json!({}), json!({"extAuth": auth}), true),
            (
                json!({"rateLimit": {"local": {"tokenBucket": {"maxTokens": 1, "fillInterval": "1s"}}}}),
                json!({}),
                false,
            ),
            (json!({"cors": {"allowOrigins": ["https://a.test"]}}), json!({"cors": {"allowOrigins": ["*"]}}), false),
            (json!({"headerModifiers": remove("X-User")}), json!({"headerModifiers": remove("x-user")}), true),
            (json!({"headerModifiers": remove("x-user")}), json!({"headerModifiers": remove("x-other")}), false),
        ];
        for (now, then, kept) in rows {
            assert_eq!(is_kept(&policy(&now), &policy(&then), false), kept, "{now} after {then}");
        }
        // Its owner trusts earlier lists, and nothing else.
        let trusted = |now: &Value, then: &Value| is_kept(&policy(now), &policy(then), true);
        assert!(trusted(&json!({"acl": acl("10.0.0.0/8")}), &json!({"acl": acl("0.0.0.0/0")})));
        assert!(!trusted(&json!({"acl": acl("10.0.0.0/8")}), &json!({})));
        assert!(!trusted(&json!({"extAuth": auth}), &json!({})));
        let unread = Policy { unread: vec![Default::default()], ..policy(&json!({})) };
        assert!(!is_kept(&unread, &policy(&json!({})), false));
        assert!(is_kept(&unread, &policy(&json!({})), true));
    }
}
