//! Comparison of a ListenerPolicy with an earlier version, for the audit. The code is independent of the planner.
//! Exhaustive destructuring makes the compiler report a field that is not classified.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::kgateway::http_settings::HttpSettings;
use holdfast_api::apis::kgateway::listener_policy::{
    ClientCertificateValidation, DefaultConfig, ListenerConfig, ListenerPolicy, ListenerSpec,
};

/// Returns, in a sentence, what an earlier version lacks; `None` if it lacks nothing. `trusted`: whether earlier
/// certificate authorities of clients may be served.
pub(super) fn weaker(today: &ListenerPolicy, then: &ListenerPolicy, trusted: bool) -> Option<String> {
    if !trusted && (!today.unread.is_empty() || today.spec.is_none()) {
        return Some("not every field that protects can be decoded".into());
    }
    let (now, then) = (today.spec.clone().unwrap_or_default(), then.spec.clone().unwrap_or_default());
    let clients = |spec: &ListenerSpec| spec.default.as_ref()?.client_certificate_validation.clone();
    let (required, was_required) = (clients(&now), clients(&then));
    let is_same = match trusted {
        false => required == was_required,
        true => {
            let mode = |validation: &Option<ClientCertificateValidation>| {
                validation
                    .as_ref()
                    .map(|validation| (validation.mode.clone(), !validation.ca_certificate_refs.is_empty()))
            };
            mode(&required) == mode(&was_required)
        }
    };
    if !is_same {
        return Some("clients would not need the certificates that they need today".into());
    }
    let ports = |spec: &ListenerSpec| spec.per_port.iter().flatten().map(|entry| entry.port).collect::<BTreeSet<_>>();
    let all: BTreeSet<i64> = ports(&now).union(&ports(&then)).copied().collect();
    all.into_iter().map(Some).chain([None]).find_map(|port| at(&of_port(&now, port), &of_port(&then, port)))
}

/// Returns the settings for a port; if there are none, the default settings for all ports.
fn of_port(spec: &ListenerSpec, port: Option<i64>) -> ListenerConfig {
    let mut own = spec.per_port.iter().flatten().filter(|entry| port == Some(entry.port));
    let own = own.next().map(|entry| entry.listener.clone());
    own.or_else(|| spec.default.as_ref().map(DefaultConfig::listener)).unwrap_or_default()
}

fn at(now: &ListenerConfig, then: &ListenerConfig) -> Option<String> {
    let ListenerConfig {
        http_settings,
        per_connection_buffer_limit_bytes,
        proxy_protocol,
        tcp_keepalive: _,
        transport_socket_connect_timeout,
    } = now;
    if *proxy_protocol != then.proxy_protocol {
        return Some("clients would not be identified as they are today: proxyProtocol".into());
    }
    let limits = [
        (
            "perConnectionBufferLimitBytes",
            per_connection_buffer_limit_bytes.is_some(),
            then.per_connection_buffer_limit_bytes.is_some(),
        ),
        (
            "transportSocketConnectTimeout",
            is_time(transport_socket_connect_timeout),
            is_time(&then.transport_socket_connect_timeout),
        ),
    ];
    lost(limits).or_else(|| {
        let then = then.http_settings.clone().unwrap_or_default();
        http(&http_settings.clone().unwrap_or_default(), &then)
    })
}

fn lost(limits: impl IntoIterator<Item = (&'static str, bool, bool)>) -> Option<String> {
    let mut lost = limits.into_iter().filter(|(_, now, then)| *now && !then);
    lost.next().map(|(field, _, _)| format!("a limit of today would be missing: {field}"))
}

fn http(now: &HttpSettings, then: &HttpSettings) -> Option<String> {
    let HttpSettings {
        accept_http10,
        access_log: _,
        default_host_for_http10: _,
        early_request_header_modifier,
        forward_client_cert_details,
        generate_request_id: _,
        health_check: _,
        http2_protocol_options,
        idle_timeout,
        local_replies: _,
        max_headers_count,
        max_request_headers_kb,
        max_requests_per_connection,
        preserve_external_request_id,
        preserve_http1_header_case: _,
        proxy_100_continue: _,
        server_header_transformation: _,
        server_name: _,
        skip_xff_append,
        stream_idle_timeout,
        strip_host_port_mode: _,
        strip_trailing_host_dot: _,
        tracing: _,
        upgrade_config: _,
        use_remote_address,
        uuid_request_id_config: _,
        xff_num_trusted_hops,
        xff_trusted_cidrs,
    } = now;
    let believed = [
        ("useRemoteAddress", *use_remote_address == then.use_remote_address),
        ("xffNumTrustedHops", *xff_num_trusted_hops == then.xff_num_trusted_hops),
        ("xffTrustedCIDRs", *xff_trusted_cidrs == then.xff_trusted_cidrs),
        ("skipXFFAppend", *skip_xff_append == then.skip_xff_append),
        ("earlyRequestHeaderModifier", *early_request_header_modifier == then.early_request_header_modifier),
        ("forwardClientCertDetails", *forward_client_cert_details == then.forward_client_cert_details),
    ];
    if let Some((field, _)) = believed.into_iter().find(|(_, is_same)| !is_same) {
        return Some(format!("clients would not be identified as they are today: {field}"));
    }
    let limits = [
        ("idleTimeout", is_time(idle_timeout), is_time(&then.idle_timeout)),
        ("streamIdleTimeout", is_time(stream_idle_timeout), is_time(&then.stream_idle_timeout)),
        ("maxHeadersCount", max_headers_count.is_some(), then.max_headers_count.is_some()),
        ("maxRequestHeadersKb", max_request_headers_kb.is_some(), then.max_request_headers_kb.is_some()),
        ("maxRequestsPerConnection", max_requests_per_connection.is_some(), then.max_requests_per_connection.is_some()),
        ("http2ProtocolOptions", http2_protocol_options.is_some(), then.http2_protocol_options.is_some()),
    ];
    if let Some(why) = lost(limits) {
        return Some(why);
    }
    let tunnels = |http: &HttpSettings| {
        http.http2_protocol_options.as_ref().is_some_and(|options| options.allow_connect == Some(true))
    };
    let upgrades = |http: &HttpSettings| -> BTreeSet<Arc<str>> {
        http.upgrade_config.iter().flat_map(|config| config.enabled_upgrades.iter().cloned()).collect()
    };
    let opened = (then.accept_http10 == Some(true) && *accept_http10 != Some(true))
        || (then.preserve_external_request_id == Some(true) && *preserve_external_request_id != Some(true))
        || (tunnels(then) && !tunnels(now))
        || !upgrades(then).is_subset(&upgrades(now));
    opened.then(|| {
        "it would allow HTTP/1.0, upgrades, CONNECT or request IDs of clients, which are not allowed today".into()
    })
}

/// Checks whether a timeout is a limit: a zero timeout is not.
fn is_time(text: &Option<Arc<str>>) -> bool {
    text.as_ref().is_some_and(|text| text.contains(|c: char| ('1'..='9').contains(&c)))
}
