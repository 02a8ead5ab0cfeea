//! Does an earlier version of a ListenerPolicy protect as much as the desired one?
//!
//! What decides who the client is, what clients must show and what of requests is believed is never taken from an earlier
//! version: it must be as it is desired today, at each port. What limits must limit then, and nothing may be open then
//! that is not today. How requests are told of, and what answers look like, is free.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::apis::kgateway::http_settings::HttpSettings;
use crate::apis::kgateway::listener_policy::{ListenerConfig, ListenerPolicy, ListenerSpec};

/// See the module. `trusted`: has the owner of the policy said that earlier authorities of clients may stand in?
pub(super) fn is_kept(desired: &ListenerPolicy, last: &ListenerPolicy, trusted: bool) -> bool {
    let Some(then) = &last.spec else { return false };
    // A field that nobody could read may be the one that protects.
    if !trusted && !desired.unread.is_empty() {
        return false;
    }
    let Some(now) = &desired.spec else { return trusted };
    let ports = [now, then].into_iter().flat_map(|spec| spec.per_port.iter().flatten()).map(|entry| entry.port);
    let ports: BTreeSet<Option<i64>> = ports.map(Some).chain([None]).collect();
    clients_are_kept(now, then, trusted) && ports.into_iter().all(|port| at_port(&at(now, port), &at(then, port)))
}

fn clients_are_kept(now: &ListenerSpec, then: &ListenerSpec, trusted: bool) -> bool {
    let clients = |spec: &ListenerSpec| spec.default.as_ref()?.client_certificate_validation.clone();
    let mode = |spec: &ListenerSpec| clients(spec).map(|clients| clients.mode);
    if trusted { mode(now) == mode(then) } else { clients(now) == clients(then) }
}

/// What is said to listeners of a port, or of those that nothing in particular is said to.
fn at(spec: &ListenerSpec, port: Option<i64>) -> ListenerConfig {
    let own = spec.per_port.iter().flatten().find(|entry| Some(entry.port) == port);
    own.map(|entry| entry.listener.clone())
        .or_else(|| spec.default.as_ref().map(|default| default.listener()))
        .unwrap_or_default()
}

fn at_port(now: &ListenerConfig, then: &ListenerConfig) -> bool {
    let nothing = HttpSettings::default();
    let http = |config: &ListenerConfig| config.http_settings.clone().unwrap_or_else(|| nothing.clone());
    let (now_http, then_http) = (http(now), http(then));
    let limits = limits(now, &now_http).into_iter().zip(limits(then, &then_http));
    now.proxy_protocol == then.proxy_protocol
        && believed(&now_http) == believed(&then_http)
        && limits.into_iter().all(|(now, then)| then || !now)
        && (now_http.accept_http10 == Some(true) || then_http.accept_http10 != Some(true))
        && upgrades(&then_http).is_subset(&upgrades(&now_http))
}

/// Who the client is, and what of its requests is believed.
fn believed(http: &HttpSettings) -> HttpSettings {
    HttpSettings {
        use_remote_address: http.use_remote_address,
        xff_num_trusted_hops: http.xff_num_trusted_hops,
        xff_trusted_cidrs: http.xff_trusted_cidrs.clone(),
        skip_xff_append: http.skip_xff_append,
        early_request_header_modifier: http.early_request_header_modifier.clone(),
        forward_client_cert_details: http.forward_client_cert_details.clone(),
        ..HttpSettings::default()
    }
}

/// What is limited.
fn limits(config: &ListenerConfig, http: &HttpSettings) -> [bool; 8] {
    // Zero is no limit.
    let time =
        |text: &Option<Arc<str>>| text.as_ref().is_some_and(|text| text.chars().any(|c| ('1'..='9').contains(&c)));
    [
        config.per_connection_buffer_limit_bytes.is_some(),
        time(&config.transport_socket_connect_timeout),
        time(&http.idle_timeout),
        time(&http.stream_idle_timeout),
        http.max_headers_count.is_some(),
        http.max_request_headers_kb.is_some(),
        http.max_requests_per_connection.is_some(),
        http.http2_protocol_options.is_some(),
    ]
}

fn upgrades(http: &HttpSettings) -> BTreeSet<Arc<str>> {
    let named = http.upgrade_config.iter().flat_map(|config| config.enabled_upgrades.iter());
    named.cloned().collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(spec: &Value) -> ListenerPolicy {
        ListenerPolicy { spec: Some(serde_json::from_value(spec.clone()).unwrap()), ..ListenerPolicy::default() }
    }

    #[test]
    fn an_earlier_version_may_stand_in_that_protects_as_much() {
        let http = |settings: Value| json!({"default": {"httpSettings": settings}});
        let clients = |mode: &str, name: &str| json!({"default": {"clientCertificateValidation": {"mode": mode, "caCertificateRefs": [{"kind": "Secret", "name": name}]}}});
        let port = |settings: Value| json!({"perPort": [{"port": 80, "listener": {"httpSettings": settings}}]});
        let trusts = json!({"useRemoteAddress": true, "xffNumTrustedHops": 1});
        let rows = [
            (http(json!({"serverName": "now"})), http(json!({"serverName": "then"})), true),
            (http(json!({"idleTimeout": "soon1"})), http(json!({"idleTimeout": "1s"})), true),
            (http(json!({"idleTimeout": "1s"})), http(json!({"idleTimeout": "0s"})), false),
            (http(json!({"idleTimeout": "1s"})), json!({}), false),
            (json!({}), http(json!({"idleTimeout": "1s"})), true),
            (http(json!({"maxHeadersCount": 1})), http(json!({"maxHeadersCount": 9})), true),
            (http(json!({"maxHeadersCount": 1})), json!({}), false),
            (http(trusts.clone()), http(trusts.clone()), true),
            (http(trusts.clone()), json!({}), false),
            (json!({}), http(trusts.clone()), false),
            (http(trusts.clone()), port(trusts.clone()), false),
            (json!({}), port(trusts.clone()), false),
            (port(trusts.clone()), port(trusts.clone()), true),
            (json!({"default": {"proxyProtocol": {}}}), json!({}), false),
            (json!({}), json!({"default": {"proxyProtocol": {}}}), false),
            (
                http(json!({"earlyRequestHeaderModifier": {"remove": ["x-user"]}})),
                http(json!({"earlyRequestHeaderModifier": {"remove": ["x-other"]}})),
                false,
            ),
            (http(json!({})), http(json!({"upgradeConfig": {"enabledUpgrades": ["CONNECT"]}})), false),
            (http(json!({"upgradeConfig": {"enabledUpgrades": ["CONNECT"]}})), http(json!({})), true),
            (http(json!({})), http(json!({"acceptHttp10": true})), false),
            (clients("Require", "a"), clients("Require", "a"), true),
            (clients("Require", "a"), clients("Require", "b"), false),
            (clients("Require", "a"), json!({}), false),
            (json!({}), clients("Require", "a"), false),
        ];
        for (now, then, kept) in rows {
            assert_eq!(is_kept(&policy(&now), &policy(&then), false), kept, "{now} after {then}");
        }
        // Its owner trusts earlier authorities, and nothing else.
        let trusted = |now: &Value, then: &Value| is_kept(&policy(now), &policy(then), true);
        assert!(trusted(&clients("Require", "a"), &clients("Require", "b")));
        assert!(!trusted(&clients("Require", "a"), &clients("Optional", "b")));
        assert!(!trusted(&clients("Require", "a"), &json!({})));
        assert!(!trusted(&http(trusts), &json!({})));
        let unread = ListenerPolicy { unread: vec![Default::default()], ..policy(&json!({})) };
        assert!(!is_kept(&unread, &policy(&json!({})), false));
        assert!(is_kept(&unread, &policy(&json!({})), true));
    }
}
