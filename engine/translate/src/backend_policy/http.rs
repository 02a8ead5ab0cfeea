//! HTTP settings of BackendConfigPolicy.

use holdfast_api::apis::kgateway::backend_http as written;
use holdfast_api::apis::kgateway::policy::Quantity;
use holdfast_envoy::features::buffer::BufferLimit;
use holdfast_envoy::features::upstream::{Pings, UpstreamHttp, UpstreamHttp1, UpstreamHttp2};

use super::notes::Notes;

/// The range of HTTP/2 windows, in bytes.
const WINDOWS: std::ops::RangeInclusive<u32> = 65_535..=2_147_483_647;
/// The most concurrent streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 2_147_483_647;

pub(super) fn common(written: &written::CommonHttp, notes: &mut Notes) -> UpstreamHttp {
    let field = "spec.commonHttpProtocolOptions";
    let requests = written.max_requests_per_connection;
    UpstreamHttp {
        idle: notes.duration(&format!("{field}.idleTimeout"), written.idle_timeout.as_deref()),
        headers: notes.number(&format!("{field}.maxHeadersCount"), written.max_headers_count, 1, u32::MAX),
        stream: notes.positive(&format!("{field}.maxStreamDuration"), written.max_stream_duration.as_deref()),
        // Zero means no limit.
        requests: notes
            .number(&format!("{field}.maxRequestsPerConnection"), requests, 0, u32::MAX)
            .filter(|requests| *requests > 0),
    }
}

pub(super) fn one(written: &written::Http1) -> UpstreamHttp1 {
    UpstreamHttp1 {
        trailers: written.enable_trailers.unwrap_or(false),
        lenient: written.override_stream_error_on_invalid_http_message,
        keep_case: written.preserve_http1_header_case.unwrap_or(false),
    }
}

pub(super) fn two(written: &written::Http2, notes: &mut Notes) -> UpstreamHttp2 {
    let field = "spec.http2ProtocolOptions";
    let connection = written.initial_connection_window_size.as_ref();
    let stream = written.initial_stream_window_size.as_ref();
    let streams = written.max_concurrent_streams;
    UpstreamHttp2 {
        connection_window: window(&format!("{field}.initialConnectionWindowSize"), connection, notes),
        stream_window: window(&format!("{field}.initialStreamWindowSize"), stream, notes),
        streams: notes.number(&format!("{field}.maxConcurrentStreams"), streams, 1, STREAMS_MAX),
        lenient: written.override_stream_error_on_invalid_http_message,
        pings: written.connection_keepalive.as_ref().map(|written| pings(written, notes)),
    }
}

fn pings(written: &written::Keepalive, notes: &mut Notes) -> Pings {
    let field = "spec.http2ProtocolOptions.connectionKeepalive";
    Pings {
        interval: notes.positive(&format!("{field}.interval"), written.interval.as_deref()),
        timeout: notes.positive(&format!("{field}.timeout"), Some(&written.timeout)).unwrap_or_default(),
        idle: notes.positive(&format!("{field}.connectionIdleInterval"), written.connection_idle_interval.as_deref()),
    }
}

fn window(field: &str, written: Option<&Quantity>, notes: &mut Notes) -> Option<u32> {
    let text = match written? {
        Quantity::Number(number) => number.to_string(),
        Quantity::Text(text) => text.to_string(),
    };
    let bytes = BufferLimit::read(&text).map(|buffer| buffer.bytes).filter(|bytes| WINDOWS.contains(bytes));
    if bytes.is_none() {
        let (from, to) = (WINDOWS.start(), WINDOWS.end());
        notes.invalid(
            field,
            format!("{text:?} is not a valid window size: it must be between {from} and {to} bytes, such as 64Ki"),
        );
    }
    bytes
}
