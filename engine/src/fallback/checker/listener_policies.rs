//! What of today's ListenerPolicy an earlier version of it would lack, looked for in both as they are written.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::apis::kgateway::listener_policy::ListenerPolicy;

/// What decides who the client is and what is believed of it: today's.
const BELIEVED: [&str; 7] = [
    "/proxyProtocol",
    "/httpSettings/useRemoteAddress",
    "/httpSettings/xffNumTrustedHops",
    "/httpSettings/xffTrustedCIDRs",
    "/httpSettings/skipXFFAppend",
    "/httpSettings/earlyRequestHeaderModifier",
    "/httpSettings/forwardClientCertDetails",
];
/// What limits: what is there today is there then, and is no zero.
const LIMITS: [&str; 8] = [
    "/perConnectionBufferLimitBytes",
    "/transportSocketConnectTimeout",
    "/httpSettings/idleTimeout",
    "/httpSettings/streamIdleTimeout",
    "/httpSettings/maxHeadersCount",
    "/httpSettings/maxRequestHeadersKb",
    "/httpSettings/maxRequestsPerConnection",
    "/httpSettings/http2ProtocolOptions",
];
/// Whose certificates clients show.
const CLIENTS: &str = "/default/clientCertificateValidation";

/// What an earlier version lacks, in a sentence. `trusted`: may earlier authorities of clients stand in?
pub(super) fn weaker(today: &ListenerPolicy, then: &ListenerPolicy, trusted: bool) -> Option<String> {
    if !trusted && (!today.unread.is_empty() || today.spec.is_none()) {
        return Some("nobody can read all that it is to protect".into());
    }
    let written = |policy: &ListenerPolicy| serde_json::to_value(&policy.spec).unwrap_or_default();
    let (now, then) = (written(today), written(then));
    let clients = if trusted { format!("{CLIENTS}/mode") } else { CLIENTS.to_owned() };
    if at(&now, &clients) != at(&then, &clients) {
        return Some("clients would not have to show what they have to today".into());
    }
    let ports: BTreeSet<i64> = [&now, &then].into_iter().flat_map(ports).collect();
    for port in ports.into_iter().map(Some).chain([None]) {
        let (now, then) = (of_port(&now, port), of_port(&then, port));
        let (now, then) = (now.unwrap_or(&Value::Null), then.unwrap_or(&Value::Null));
        if let Some(field) = BELIEVED.into_iter().find(|field| at(now, field) != at(then, field)) {
            return Some(format!("who the client is would not be decided as it is today: {field}"));
        }
        let limits = |value: &Value, field: &str| at(value, field).is_some_and(|limit| !is_zero(limit));
        if let Some(field) = LIMITS.into_iter().find(|field| limits(now, field) && !limits(then, field)) {
            return Some(format!("what is limited today would not be: {field}"));
        }
        let http10 = |value: &Value| at(value, "/httpSettings/acceptHttp10") == Some(&Value::Bool(true));
        let upgrades = |value: &Value| -> BTreeSet<String> {
            let names = at(value, "/httpSettings/upgradeConfig/enabledUpgrades").and_then(Value::as_array);
            names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        if (http10(then) && !http10(now)) || !upgrades(then).is_subset(&upgrades(now)) {
            return Some("connections could become what they cannot today".into());
        }
    }
    None
}

fn at<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    value.pointer(field).filter(|value| !value.is_null())
}

fn ports(spec: &Value) -> Vec<i64> {
    let entries = at(spec, "/perPort").and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry.get("port")?.as_i64()).collect()
}

/// What is said for a port; what is said for all, where nothing is said for it.
fn of_port(spec: &Value, port: Option<i64>) -> Option<&Value> {
    let entries = at(spec, "/perPort").and_then(Value::as_array).into_iter().flatten();
    let mut own = entries.filter(|entry| port.is_some() && entry.get("port").and_then(Value::as_i64) == port);
    own.find_map(|entry| at(entry, "/listener")).or_else(|| at(spec, "/default"))
}

/// Is it a time that is none? Zero of anything else is a limit.
fn is_zero(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.contains(|c: char| ('1'..='9').contains(&c)))
}
