//! What a connection manager changes or rejects before it routes a request: the path, the host, header names.

use envoy_types::pb::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    PathWithEscapedSlashesAction, StripPortMode,
};

use super::answer::ExplainedAnswer;
use super::grpc;
use super::matching::ReceivedRequest;
use super::request::{ExplainRequest, split_port};

/// The methods that Envoy accepts over HTTP/1.1, without CONNECT, and without QUERY, for which more conditions apply.
const HTTP1_METHODS: [&str; 33] = [
    "ACL",
    "BIND",
    "CHECKOUT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MOVE",
    "MSEARCH",
    "NOTIFY",
    "OPTIONS",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "REBIND",
    "REPORT",
    "SEARCH",
    "SOURCE",
    "SUBSCRIBE",
    "TRACE",
    "UNBIND",
    "UNLINK",
    "UNLOCK",
    "UNSUBSCRIBE",
];

/// Returns the request as the router receives it, and records the changes.
///
/// # Errors
/// Returns the answer to a request that is not routed.
pub(super) fn receive(
    manager: &HttpConnectionManager,
    request: &ExplainRequest,
    changes: &mut Vec<String>,
) -> Result<ReceivedRequest, ExplainedAnswer> {
    let options = manager.common_http_protocol_options.as_ref();
    let action = options.map(|options| options.headers_with_underscores_action());
    let is_odd = |(name, _): &&(String, String)| name.contains('_');
    if action == Some(HeadersWithUnderscoresAction::RejectRequest)
        && let Some((name, _)) = request.headers.iter().find(is_odd)
    {
        let why = format!("the name of the header {name} has an underscore; over HTTP/2, the stream is reset instead");
        return Err(ExplainedAnswer::Rejected { status: 400, why, grpc_status: None });
    }
    of_method(request)?;
    let (path, query) = match request.path.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (&*request.path, None),
    };
    if path.split(['/', '\\']).any(has_parameters_after_dots) {
        let why = "the path has a segment of dots with parameters (..;), which Envoy normalizes by rules of its own";
        return Err(ExplainedAnswer::Unknown { why: why.into() });
    }
    let received = path;
    let (path, escaped) = unescaped(path, manager.path_with_escaped_slashes_action());
    let path = if manager.normalize_path.is_some_and(|on| on.value) { normalized(&path) } else { path };
    let path = if manager.merge_slashes { merged(&path) } else { path };
    let host = host(manager, request);
    for (what, before, after) in [("path", received, &path), ("host", &*request.authority, &host)] {
        if before != after {
            changes.push(format!("the {what} {before} becomes {after}"));
        }
    }
    let ExplainRequest { method, tls, headers, .. } = request;
    let routed = ReceivedRequest { method: method.clone(), tls: *tls, host, path, query, headers: headers.clone() };
    let is_call = grpc::is_call(&routed.content_type());
    match (escaped, is_call) {
        (EscapedSlashes::None, _) => Ok(routed),
        (EscapedSlashes::Redirect, false) => {
            Err(ExplainedAnswer::Redirect { status: 307, location: routed.path_and_query(), grpc_status: None })
        }
        (_, is_call) => {
            let why = "the path has an escaped slash".into();
            let answer = ExplainedAnswer::Rejected { status: 400, why, grpc_status: None };
            Err(if is_call { answer.of_call() } else { answer })
        }
    }
}

/// Checks the method: the HTTP/1.1 codec of Envoy rejects methods that it does not know, and HTTP/2 has any.
fn of_method(request: &ExplainRequest) -> Result<(), ExplainedAnswer> {
    let method = &*request.method;
    let unknown = format!("the method {method} is unknown to Envoy over HTTP/1.1");
    match method {
        method if HTTP1_METHODS.contains(&method) => Ok(()),
        "QUERY" => Err(ExplainedAnswer::Unknown { why: "the method QUERY is not evaluated".into() }),
        _ if request.tls => {
            let why = format!("{unknown} and answered 400; over HTTP/2, the request is routed");
            Err(ExplainedAnswer::Unknown { why })
        }
        _ => Err(ExplainedAnswer::Rejected { status: 400, why: unknown, grpc_status: None }),
    }
}

/// Returns whether a segment of a path is `.` or `..`, followed by parameters.
fn has_parameters_after_dots(segment: &str) -> bool {
    let dots = segment.replace("%2e", ".").replace("%2E", ".").replace("%3b", ";").replace("%3B", ";");
    dots.split_once(';').is_some_and(|(before, _)| matches!(before, "." | ".."))
}

/// What escaped slashes of a path cause. Of a gRPC call, Envoy rejects what it would redirect.
enum EscapedSlashes {
    None,
    Redirect,
    Reject,
}

/// Returns the path without escaped slashes, if they are decoded, and what they cause.
fn unescaped(path: &str, action: PathWithEscapedSlashesAction) -> (String, EscapedSlashes) {
    let is_escaped = ["%2F", "%2f", "%5C", "%5c"].iter().any(|escaped| path.contains(escaped));
    let plain = || path.replace("%2F", "/").replace("%2f", "/").replace("%5C", "\\").replace("%5c", "\\");
    match action {
        PathWithEscapedSlashesAction::RejectRequest if is_escaped => (path.to_owned(), EscapedSlashes::Reject),
        PathWithEscapedSlashesAction::UnescapeAndRedirect if is_escaped => (plain(), EscapedSlashes::Redirect),
        PathWithEscapedSlashesAction::UnescapeAndForward => (plain(), EscapedSlashes::None),
        _ => (path.to_owned(), EscapedSlashes::None),
    }
}

/// Decodes percent-encoded letters, digits, `-`, `.`, `_` and `~`, and resolves `.` and `..` as RFC 3986 does, after
/// backslashes became slashes.
fn normalized(path: &str) -> String {
    let path = decoded(&path.replace('\\', "/"));
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." => {}
            ".." => {
                segments.pop();
            }
            _ => {
                segments.push(part);
                continue;
            }
        }
        if is_last {
            segments.push("");
        }
    }
    format!("/{}", segments.join("/"))
}

/// Decodes the percent-encoded characters that have no special meaning.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        match (byte.filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c)), part.get(2..)) {
            (Some(c), Some(rest)) => {
                text.push(c);
                text.push_str(rest);
            }
            _ => {
                text.push('%');
                text.push_str(part);
            }
        }
    }
    text
}

fn merged(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !merged.ends_with('/') {
            merged.push(c);
        }
    }
    merged
}

fn host(manager: &HttpConnectionManager, request: &ExplainRequest) -> String {
    let authority = &request.authority;
    let (host, port) = split_port(authority);
    let host = if manager.strip_trailing_host_dot { host.strip_suffix('.').unwrap_or(host) } else { host };
    let is_own = |port: &str| port.parse() == Ok(request.port);
    let strips_any = matches!(manager.strip_port_mode, Some(StripPortMode::StripAnyHostPort(true)));
    match port {
        Some(port) if !(strips_any || manager.strip_matching_host_port && is_own(port)) => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::HttpProtocolOptions;
    use envoy_types::pb::google::protobuf::BoolValue;

    use super::*;

    fn manager() -> HttpConnectionManager {
        HttpConnectionManager {
            normalize_path: Some(BoolValue { value: true }),
            merge_slashes: true,
            strip_trailing_host_dot: true,
            path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndRedirect.into(),
            ..Default::default()
        }
    }

    fn received(manager: &HttpConnectionManager, url: &str) -> Result<ReceivedRequest, ExplainedAnswer> {
        let headers = [("x_a".to_owned(), "1".to_owned())];
        receive(manager, &ExplainRequest::read("GET", url, &headers).unwrap(), &mut Vec::new())
    }

    #[test]
    fn paths_are_normalized_before_they_are_routed() {
        let cases = [
            ("/a/b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../a", "/a"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a/%2e%2E/b", "/b"),
            ("/a//b///", "/a/b/"),
            ("/a\\b", "/a/b"),
            ("/a/.b", "/a/.b"),
            ("/%41%7a%2D%20%ff%4", "/Az-%20%ff%4"),
        ];
        for (path, expected) in cases {
            let routed = received(&manager(), &format!("http://a.example{path}?q=//")).unwrap();
            assert_eq!((&*routed.path, routed.query.as_deref()), (expected, Some("q=//")), "{path}");
        }
        for path in ["/a/..;/b", "/a/.;x", "/%2e%2E;v=1/b"] {
            let answer = received(&manager(), &format!("http://a.example{path}"));
            assert!(matches!(answer, Err(ExplainedAnswer::Unknown { .. })), "{path}");
        }
        assert!(received(&manager(), "http://a.example/a/..b;x/c;").is_ok());
        let as_sent = received(&HttpConnectionManager::default(), "http://a.example/a//./b").unwrap();
        assert_eq!(as_sent.path, "/a//./b");
    }

    #[test]
    fn escaped_slashes_redirect_reject_or_stay() {
        let redirect = ExplainedAnswer::Redirect { status: 307, location: "/a/b?q".into(), grpc_status: None };
        assert_eq!(received(&manager(), "http://a.example/a%2Fb?q"), Err(redirect));
        let headers = [("content-type".to_owned(), "application/grpc".to_owned())];
        let call = ExplainRequest::read("POST", "http://a.example/a%2Fb", &headers).unwrap();
        let answer = receive(&manager(), &call, &mut Vec::new());
        assert!(matches!(answer, Err(ExplainedAnswer::Rejected { grpc_status: Some(13), .. })), "{answer:?}");
        let action = |action: PathWithEscapedSlashesAction| {
            let manager = HttpConnectionManager { path_with_escaped_slashes_action: action.into(), ..manager() };
            received(&manager, "http://a.example/a%2Fb").map(|routed| routed.path)
        };
        assert_eq!(action(PathWithEscapedSlashesAction::KeepUnchanged).unwrap(), "/a%2Fb");
        assert_eq!(action(PathWithEscapedSlashesAction::UnescapeAndForward).unwrap(), "/a/b");
        let rejected = action(PathWithEscapedSlashesAction::RejectRequest);
        assert!(matches!(rejected, Err(ExplainedAnswer::Rejected { status: 400, .. })), "{rejected:?}");
    }

    #[test]
    fn hosts_lose_a_dot_and_a_port_as_configured() {
        let host = |manager: &HttpConnectionManager, url| received(manager, url).unwrap().host;
        assert_eq!(host(&manager(), "http://a.example.:81/"), "a.example:81");
        assert_eq!(host(&HttpConnectionManager::default(), "http://a.example./"), "a.example.");
        let own = HttpConnectionManager { strip_matching_host_port: true, ..manager() };
        assert_eq!(host(&own, "http://a.example:81/"), "a.example");
        let any = Some(StripPortMode::StripAnyHostPort(true));
        assert_eq!(
            host(&HttpConnectionManager { strip_port_mode: any, ..manager() }, "http://a.example:81/"),
            "a.example"
        );
    }

    #[test]
    fn underscores_in_names_of_headers_are_rejected_as_configured() {
        let options = HttpProtocolOptions {
            headers_with_underscores_action: HeadersWithUnderscoresAction::RejectRequest.into(),
            ..Default::default()
        };
        let strict = HttpConnectionManager { common_http_protocol_options: Some(options), ..manager() };
        let answer = received(&strict, "http://a.example/");
        assert!(matches!(answer, Err(ExplainedAnswer::Rejected { status: 400, .. })), "{answer:?}");
    }

    #[test]
    fn unknown_methods_depend_on_the_version_of_http() {
        let received =
            |method, url| receive(&manager(), &ExplainRequest::read(method, url, &[]).unwrap(), &mut Vec::new());
        assert!(received("PURGE", "http://a.example/").is_ok());
        let answer = received("BREW", "http://a.example/");
        assert!(matches!(answer, Err(ExplainedAnswer::Rejected { status: 400, .. })), "{answer:?}");
        for method in ["BREW", "get", "QUERY"] {
            let answer = received(method, "https://a.example/");
            assert!(matches!(answer, Err(ExplainedAnswer::Unknown { .. })), "{answer:?}");
        }
    }
}
