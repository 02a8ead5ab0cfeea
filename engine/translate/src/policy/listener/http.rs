//! `httpSettings`: one part for each field.

use std::sync::Arc;

use holdfast_api::apis::kgateway::headers::{Header, HeaderFilter};
use holdfast_api::apis::kgateway::http_settings::{Http2ProtocolOptions, HttpSettings};
use holdfast_api::apis::kgateway::policy::Quantity;
use holdfast_envoy::features::buffer::BufferLimit;
use holdfast_envoy::features::connection::ListenerSetting;
use holdfast_envoy::features::connection::early_headers::EarlyHeaders;
use holdfast_envoy::features::connection::health_check::{HealthCheckEndpoint, PATH_BYTES_MAX};
use holdfast_envoy::features::connection::host_form::HostForm;
use holdfast_envoy::features::connection::http1::DownstreamHttp1;
use holdfast_envoy::features::connection::http2::{DownstreamHttp2, WINDOW_BYTES};
use holdfast_envoy::features::connection::limit::{HEADERS_KB_MAX, Limit};
use holdfast_envoy::features::connection::request_id::RequestId;
use holdfast_envoy::features::connection::server_header::ServerHeader;
use holdfast_envoy::features::connection::time_limit::TimeLimit;
use holdfast_envoy::features::connection::upgrades::UPGRADES_MAX;
use holdfast_envoy::features::headers::HeaderEdits;

use super::super::reading::Reading;
use super::super::traffic::{duration, number};
use super::{PortSettings, client, logs, replies, tracer};

pub(super) fn read(written: &HttpSettings, port_settings: &mut PortSettings<'_>, reading: &mut Reading<'_, '_>) {
    if let Some(logs) = &written.access_log {
        let logs = logs::read(&port_settings.below("httpSettings.accessLog"), logs, reading);
        port_settings.part("httpSettings.accessLog", ListenerSetting::AccessLogs(logs));
    }
    if let Some(tracing) = &written.tracing
        && let Some(tracer) =
            reading.observing(|reading| tracer::read(&port_settings.below("httpSettings.tracing"), tracing, reading))
    {
        port_settings.part("httpSettings.tracing", ListenerSetting::Tracer(tracer));
    }
    if let Some(replies) = &written.local_replies {
        let replies = replies::read(&port_settings.below("httpSettings.localReplies"), replies, reading);
        port_settings.part("httpSettings.localReplies", ListenerSetting::LocalReplies(replies));
    }
    if let Some(modifier) = &written.early_request_header_modifier {
        let field = "httpSettings.earlyRequestHeaderModifier";
        let edits = early(&port_settings.below(field), modifier, reading);
        port_settings.part(field, ListenerSetting::EarlyHeaders(EarlyHeaders(edits)));
    }
    client::read(written, port_settings, reading);
    limits(written, port_settings, reading);
    protocols(written, port_settings, reading);
    answers(written, port_settings, reading);
    if let Some(config) = &written.upgrade_config {
        let field = "httpSettings.upgradeConfig";
        let names = &config.enabled_upgrades;
        if names.is_empty() || names.len() > UPGRADES_MAX {
            let message = format!("must have from 1 to {UPGRADES_MAX} entries");
            reading.invalid(format!("spec.{}.enabledUpgrades", port_settings.below(field)), message);
        }
        for (index, name) in names.iter().enumerate().take(UPGRADES_MAX) {
            if holdfast_check::header::name(name).is_err() {
                let field = format!("spec.{}.enabledUpgrades[{index}]", port_settings.below(field));
                reading.invalid(field, format!("{name:?} is no name of a protocol"));
            }
        }
        port_settings.part(field, ListenerSetting::Upgrades(names.clone()));
    }
}

/// Reads changes to headers with literal values.
fn early(field: &str, written: &HeaderFilter, reading: &mut Reading<'_, '_>) -> HeaderEdits {
    let mut pairs = |list: &str, headers: &Option<Vec<Header>>| {
        let mut read: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (index, header) in headers.iter().flatten().enumerate() {
            match (&header.name, &header.value, &header.secret_ref) {
                (Some(name), Some(value), None) => read.push((name.clone(), value.clone())),
                _ => reading.invalid(format!("spec.{field}.{list}[{index}]"), "name and value must be set"),
            }
        }
        read
    };
    let (set, add) = (pairs("set", &written.set), pairs("add", &written.add));
    let mut flaws = Vec::new();
    let edits = HeaderEdits::read(
        set.iter().map(|(name, value)| (&**name, &**value)),
        add.iter().map(|(name, value)| (&**name, &**value)),
        written.remove.iter().flatten().map(|name| &**name),
        &mut flaws,
    );
    reading.flaws(field, flaws);
    edits
}

fn limits(written: &HttpSettings, port_settings: &mut PortSettings<'_>, reading: &mut Reading<'_, '_>) {
    type Row = (&'static str, Option<i64>, u32, fn(u32) -> Limit);
    let all: [Row; 3] = [
        ("httpSettings.maxRequestsPerConnection", written.max_requests_per_connection, 0, Limit::RequestsPerConnection),
        ("httpSettings.maxHeadersCount", written.max_headers_count, 1, Limit::Headers),
        ("httpSettings.maxRequestHeadersKb", written.max_request_headers_kb, 1, Limit::HeadersKb),
    ];
    for (field, value, least, limit) in all {
        let Some(value) = value else { continue };
        let value = number(&port_settings.below(field), value, least, reading);
        let limit = limit(value);
        if matches!(limit, Limit::HeadersKb(value) if value > HEADERS_KB_MAX) {
            reading
                .invalid(format!("spec.{}", port_settings.below(field)), format!("must be at most {HEADERS_KB_MAX}"));
        }
        port_settings.part(field, ListenerSetting::Limit(limit));
    }
    let field = "httpSettings.idleTimeout";
    if let Some(limit) = duration(&port_settings.below(field), written.idle_timeout.as_deref(), reading) {
        port_settings.part(field, ListenerSetting::Time(TimeLimit::Connection(limit)));
    }
    let field = "httpSettings.streamIdleTimeout";
    if let Some(limit) = duration(&port_settings.below(field), written.stream_idle_timeout.as_deref(), reading) {
        port_settings.part(field, ListenerSetting::Time(TimeLimit::Stream(limit)));
    }
}

fn protocols(written: &HttpSettings, port_settings: &mut PortSettings<'_>, reading: &mut Reading<'_, '_>) {
    if let Some(taken) = written.accept_http10 {
        port_settings.part("httpSettings.acceptHttp10", ListenerSetting::Http1(DownstreamHttp1::Version10(taken)));
    }
    if let Some(host) = &written.default_host_for_http10 {
        let field = "httpSettings.defaultHostForHttp10";
        if host.is_empty() || holdfast_check::header::value(host).is_err() {
            reading.invalid(format!("spec.{}", port_settings.below(field)), "must be a host");
        }
        port_settings.part(field, ListenerSetting::Http1(DownstreamHttp1::DefaultHost(host.clone())));
    }
    if let Some(keep) = written.preserve_http1_header_case {
        port_settings
            .part("httpSettings.preserveHttp1HeaderCase", ListenerSetting::Http1(DownstreamHttp1::KeepCase(keep)));
    }
    if let Some(options) = &written.http2_protocol_options {
        let field = "httpSettings.http2ProtocolOptions";
        let http2 = self::http2(&port_settings.below(field), options, reading);
        port_settings.part(field, ListenerSetting::Http2(http2));
    }
    if let Some(value) = written.generate_request_id {
        port_settings.part("httpSettings.generateRequestId", ListenerSetting::RequestId(RequestId::Generate(value)));
    }
    if let Some(value) = written.preserve_external_request_id {
        port_settings
            .part("httpSettings.preserveExternalRequestId", ListenerSetting::RequestId(RequestId::Preserve(value)));
    }
    if let Some(config) = &written.uuid_request_id_config {
        let uuid = RequestId::Uuid {
            pack_reason: config.pack_trace_reason.unwrap_or(true),
            sampling: config.use_request_id_for_trace_sampling.unwrap_or(true),
        };
        port_settings.part("httpSettings.uuidRequestIdConfig", ListenerSetting::RequestId(uuid));
    }
    if let Some(passed_on) = written.proxy_100_continue {
        port_settings.part("httpSettings.proxy100Continue", ListenerSetting::Expect(passed_on));
    }
    if let Some(mode) = &written.strip_host_port_mode {
        let field = "httpSettings.stripHostPortMode";
        match &**mode {
            "MatchingPort" => port_settings.part(field, ListenerSetting::Host(HostForm::MatchingPort)),
            "AnyPort" => port_settings.part(field, ListenerSetting::Host(HostForm::AnyPort)),
            _ => reading.invalid(format!("spec.{}", port_settings.below(field)), "must be MatchingPort or AnyPort"),
        }
    }
    if let Some(left_out) = written.strip_trailing_host_dot {
        port_settings.part("httpSettings.stripTrailingHostDot", ListenerSetting::Host(HostForm::TrailingDot(left_out)));
    }
}

fn http2(field: &str, written: &Http2ProtocolOptions, reading: &mut Reading<'_, '_>) -> DownstreamHttp2 {
    let mut window = |below: &str, size: &Option<Quantity>| {
        let text = match size.as_ref()? {
            Quantity::Number(number) => number.to_string(),
            Quantity::Text(text) => text.to_string(),
        };
        let bytes = BufferLimit::read(&text).map(|size| size.bytes).filter(|bytes| WINDOW_BYTES.contains(bytes));
        if bytes.is_none() {
            let message = format!(
                "{text:?} is not a size between {} and {} bytes, such as 64Ki",
                WINDOW_BYTES.start(),
                WINDOW_BYTES.end()
            );
            reading.invalid(format!("spec.{field}.{below}"), message);
        }
        bytes
    };
    let stream_window = window("initialStreamWindowSize", &written.initial_stream_window_size);
    let connection_window = window("initialConnectionWindowSize", &written.initial_connection_window_size);
    let streams = written.max_concurrent_streams.map(|streams| {
        let field = format!("{field}.maxConcurrentStreams");
        let streams = number(&field, streams, 1, reading);
        if streams > *WINDOW_BYTES.end() {
            reading.invalid(format!("spec.{field}"), format!("must be at most {}", WINDOW_BYTES.end()));
        }
        streams
    });
    DownstreamHttp2 { streams, stream_window, connection_window, allow_connect: written.allow_connect }
}

fn answers(written: &HttpSettings, port_settings: &mut PortSettings<'_>, reading: &mut Reading<'_, '_>) {
    if let Some(transformation) = &written.server_header_transformation {
        let field = "httpSettings.serverHeaderTransformation";
        let server = match &**transformation {
            "Overwrite" => Some(ServerHeader::Overwrite),
            "AppendIfAbsent" => Some(ServerHeader::AppendIfAbsent),
            "PassThrough" => Some(ServerHeader::PassThrough),
            _ => None,
        };
        match server {
            Some(server) => port_settings.part(field, ListenerSetting::Server(server)),
            None => {
                let message = "must be Overwrite, AppendIfAbsent or PassThrough";
                reading.invalid(format!("spec.{}", port_settings.below(field)), message);
            }
        }
    }
    if let Some(name) = &written.server_name {
        let field = "httpSettings.serverName";
        if name.is_empty() {
            reading.invalid(format!("spec.{}", port_settings.below(field)), "must not be empty");
        } else if let Err(fault) = holdfast_check::header::value(name) {
            reading.invalid(format!("spec.{}", port_settings.below(field)), fault);
        }
        port_settings.part(field, ListenerSetting::Server(ServerHeader::Name(name.clone())));
    }
    if let Some(check) = &written.health_check {
        let field = "httpSettings.healthCheck";
        let usable = |c: char| c.is_ascii_alphanumeric() || "-@:%.+~#?&/=_".contains(c);
        let path = check.path.clone();
        let rest = path.strip_prefix('/').filter(|rest| !rest.is_empty() && rest.chars().all(usable));
        if rest.is_none() || path.len() > PATH_BYTES_MAX {
            let message = format!("must be a path of at most {PATH_BYTES_MAX} bytes, as in /healthz");
            reading.invalid(format!("spec.{}.path", port_settings.below(field)), message);
        }
        port_settings.part(field, ListenerSetting::Health(HealthCheckEndpoint { path }));
    }
}
