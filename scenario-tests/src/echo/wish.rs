//! Options of a request to an echo server: a delay, a status, response headers. Invalid options are ignored, since an
//! echo server must respond to any request.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, StatusCode};

/// Header that delays the response, in milliseconds. The query parameter `delay` has the same effect: `?delay=250` is
/// in milliseconds, `?delay=250ms` and `?delay=2s` have a unit.
pub const DELAY_HEADER: &str = "x-echo-delay-ms";
/// Header that sets the status of the response, 200 to 599. The default is 200.
pub const STATUS_HEADER: &str = "x-echo-status";
/// Header that sets headers of the response: `Name:value` pairs separated by commas.
pub const SET_HEADER_HEADER: &str = "x-echo-set-header";
/// Header that sets the `grpc-status` of a gRPC response, 0 to 16. The default is 0.
pub const GRPC_STATUS_HEADER: &str = "x-echo-grpc-status";
/// Maximum delay; a longer delay is reduced to it.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
/// The highest status of gRPC (`UNAUTHENTICATED`).
const GRPC_STATUS_MAX: u16 = 16;

/// The options of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResponseOptions {
    pub(super) delay: Duration,
    pub(super) status: StatusCode,
    pub(super) grpc_status: u16,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl ResponseOptions {
    pub(super) fn of(request: &Parts) -> Self {
        let number = |name: &str| text(&request.headers, name).and_then(|text| text.trim().parse::<u16>().ok());
        let delay = text(&request.headers, DELAY_HEADER).or_else(|| query_parameter(request.uri.query()?, "delay"));
        Self {
            delay: delay.and_then(duration).unwrap_or(Duration::ZERO).min(DELAY_MAX),
            status: number(STATUS_HEADER).and_then(status).unwrap_or(StatusCode::OK),
            grpc_status: number(GRPC_STATUS_HEADER).filter(|status| *status <= GRPC_STATUS_MAX).unwrap_or(0),
            headers: text(&request.headers, SET_HEADER_HEADER).map(header_list).unwrap_or_default(),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Informational statuses are not final responses, so they are not accepted.
fn status(number: u16) -> Option<StatusCode> {
    StatusCode::from_u16(number).ok().filter(|status| (200..600).contains(&status.as_u16()))
}

fn query_parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Some(number) = text.strip_suffix("ms") {
        return number.parse().ok().map(Duration::from_millis);
    }
    if let Some(number) = text.strip_suffix('s') {
        return number.parse().ok().map(Duration::from_secs);
    }
    text.parse().ok().map(Duration::from_millis)
}

fn header_list(list: &str) -> Vec<(HeaderName, HeaderValue)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once(':')?;
        let name = HeaderName::try_from(name.trim()).ok()?;
        Some((name, HeaderValue::try_from(value.trim()).ok()?))
    };
    list.split(',').filter_map(pair).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn wish(uri: &str, headers: &[(&str, &str)]) -> ResponseOptions {
        let mut request = hyper::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        ResponseOptions::of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_request_without_wishes_is_answered_at_once_with_200() {
        let wish = wish("/a?delay", &[]);
        assert_eq!((wish.delay, wish.status, wish.grpc_status), (Duration::ZERO, StatusCode::OK, 0));
        assert!(wish.headers.is_empty());
    }

    #[test]
    fn delays_have_units_and_a_limit() {
        assert_eq!(wish("/?a=1&delay=250", &[]).delay, Duration::from_millis(250));
        assert_eq!(wish("/?delay=250ms", &[]).delay, Duration::from_millis(250));
        assert_eq!(wish("/?delay=2s", &[]).delay, Duration::from_secs(2));
        assert_eq!(wish("/?delay=9999999s", &[]).delay, DELAY_MAX);
        assert_eq!(wish("/?delay=2s", &[(DELAY_HEADER, "7")]).delay, Duration::from_millis(7));
        assert_eq!(wish("/?delay=-1", &[]).delay, Duration::ZERO);
    }

    #[test]
    fn unreadable_wishes_are_ignored() {
        let wish =
            wish("/", &[(STATUS_HEADER, "100"), (GRPC_STATUS_HEADER, "17"), (SET_HEADER_HEADER, "a b:c,ok:1,x")]);
        assert_eq!((wish.status, wish.grpc_status), (StatusCode::OK, 0));
        assert_eq!(wish.headers, [(HeaderName::from_static("ok"), HeaderValue::from_static("1"))]);
    }
}
