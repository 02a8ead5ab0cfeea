//! The match of a route, with the first reason why it does not match.

use std::fmt::Write;

use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher, RouteMatch};

use holdfast_xds::credentials::{is_credential, is_credential_header};

use super::{grpc, shares, text};

/// The pseudo header of the method.
const METHOD: &str = ":method";

/// A request as the router receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Method.
    pub method: String,
    /// Whether the connection has TLS.
    pub tls: bool,
    /// `:authority`.
    pub host: String,
    /// Path without query.
    pub path: String,
    /// Query, if the path has one.
    pub query: Option<String>,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
}

/// Whether a request matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It matches.
    Yes,
    /// It does not match, for this reason.
    No(String),
    /// A condition cannot be evaluated.
    Unknown(String),
}

impl Fit {
    fn of(found: Result<bool, String>, why_not: impl FnOnce() -> String) -> Self {
        match found {
            Ok(true) => Self::Yes,
            Ok(false) => Self::No(why_not()),
            Err(why) => Self::Unknown(why),
        }
    }
}

impl ReceivedRequest {
    /// Returns whether this is a preflight request of CORS.
    pub(super) fn is_preflight(&self) -> bool {
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name == wanted);
        self.method == "OPTIONS" && has("origin") && has("access-control-request-method")
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Returns path and query.
    pub fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// Returns the values of a header.
    fn header(&self, name: &str) -> Vec<String> {
        match name {
            METHOD => return vec![self.method.clone()],
            ":authority" | "host" => return vec![self.host.clone()],
            ":path" => return vec![self.path_and_query()],
            ":scheme" => return vec![self.scheme().to_owned()],
            _ => {}
        }
        let own = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        own.map(|(_, value)| value.clone()).collect()
    }

    /// Returns all content types, joined by commas.
    pub(super) fn content_type(&self) -> String {
        self.header("content-type").join(",")
    }

    /// Returns the first value of a query parameter, as written.
    fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.as_deref()?.split('&').filter(|pair| !pair.is_empty());
        let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(own, _)| *own == name).map(|(_, value)| value)
    }
}

/// Compares a request with the match of a route: the path, then the method, other headers and query parameters.
///
/// A condition that is known not to match decides before a condition that cannot be evaluated.
pub fn fit(wanted: &RouteMatch, request: &ReceivedRequest) -> Fit {
    let (methods, headers): (Vec<_>, Vec<_>) = wanted.headers.iter().partition(|header| header.name == METHOD);
    let all = [of_path(wanted, request)]
        .into_iter()
        .chain(methods.into_iter().map(|header| of_header(header, request)))
        .chain([of_call(wanted, request)])
        .chain(headers.into_iter().map(|header| of_header(header, request)))
        .chain(wanted.query_parameters.iter().map(|parameter| of_parameter(parameter, request)))
        .chain([of_others(wanted)]);
    let mut unknown = None;
    for fit in all {
        match fit {
            Fit::Yes => {}
            Fit::No(_) => return fit,
            Fit::Unknown(_) => unknown = unknown.or(Some(fit)),
        }
    }
    unknown.unwrap_or(Fit::Yes)
}

/// Returns the number of bytes of the path that the match of a path covers; `None` if it does not match.
pub(super) fn matched_bytes(wanted: &RouteMatch, request: &ReceivedRequest) -> Option<usize> {
    match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(prefix) | PathSpecifier::PathSeparatedPrefix(prefix)) => Some(prefix.len()),
        Some(PathSpecifier::Path(_) | PathSpecifier::SafeRegex(_)) => Some(request.path.len()),
        _ => None,
    }
}

fn of_path(wanted: &RouteMatch, request: &ReceivedRequest) -> Fit {
    let exact_case = wanted.case_sensitive.is_none_or(|sensitive| sensitive.value);
    let fold = |text: &str| if exact_case { text.to_owned() } else { text.to_ascii_lowercase() };
    let path = fold(&request.path);
    let found = match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => Ok(path.starts_with(&fold(prefix))),
        Some(PathSpecifier::Path(exact)) => Ok(path == fold(exact)),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
            Ok(path.strip_prefix(&fold(prefix)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        }
        Some(PathSpecifier::SafeRegex(regex)) => text::is_whole(&regex.regex, &request.path),
        Some(PathSpecifier::ConnectMatcher(_)) => Ok(false),
        _ => Err("the kind of path match is not evaluated".into()),
    };
    Fit::of(found, || format!("the path {} is not {}", request.path, path_text(wanted)))
}

fn of_call(wanted: &RouteMatch, request: &ReceivedRequest) -> Fit {
    let kind = request.content_type();
    let is_call = grpc::is_call(&kind);
    Fit::of(Ok(wanted.grpc.is_none() || is_call), || format!("the content type {kind:?} is not of a gRPC call"))
}

/// Compares each value of a header separately, as Envoy does since 1.39.
fn of_header(wanted: &HeaderMatcher, request: &ReceivedRequest) -> Fit {
    let name = &wanted.name;
    let mut values = request.header(name);
    let subject = if name == METHOD { "the method".to_owned() } else { format!("the header {name}") };
    let required = header_text(wanted);
    let matcher = match &wanted.header_match_specifier {
        None | Some(HeaderMatchSpecifier::PresentMatch(_)) => {
            let is = if values.is_empty() { "missing" } else { "present" };
            let absent = wanted.header_match_specifier == Some(HeaderMatchSpecifier::PresentMatch(false));
            let found = (values.is_empty() == absent) != wanted.invert_match;
            return Fit::of(Ok(found), || format!("{subject} is {is}"));
        }
        Some(HeaderMatchSpecifier::StringMatch(matcher)) => matcher,
        Some(_) => return Fit::Unknown(format!("the kind of match of the header {name} is not evaluated")),
    };
    if values.is_empty() && wanted.treat_missing_header_as_empty {
        values.push(String::new());
    }
    if values.is_empty() {
        return Fit::No(format!("{subject} is missing; the match requires {required}"));
    }
    let found: Result<Vec<bool>, String> = values.iter().map(|value| text::is_match(matcher, value)).collect();
    let found = found.map(|found| found.contains(&true) != wanted.invert_match);
    Fit::of(found, || match values.iter().any(|value| is_credential(name, value)) {
        true => format!("{subject} has another value; the match requires {required}"),
        false => {
            let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
            format!("{subject} is {}; the match requires {required}", shown.join(" and "))
        }
    })
}

fn of_parameter(wanted: &QueryParameterMatcher, request: &ReceivedRequest) -> Fit {
    let name = &wanted.name;
    let value = request.parameter(name);
    let found = match (&wanted.query_parameter_match_specifier, value) {
        (None, _) => Ok(value.is_some()),
        (Some(QueryParameterMatchSpecifier::PresentMatch(present)), _) => Ok(value.is_some() == *present),
        (Some(QueryParameterMatchSpecifier::StringMatch(_)), None) => Ok(false),
        (Some(QueryParameterMatchSpecifier::StringMatch(matcher)), Some(value)) => text::is_match(matcher, value),
    };
    Fit::of(found, || {
        let is = value.map_or_else(|| "missing".to_owned(), |value| format!("{value:?}"));
        format!("the query parameter {name} is {is}; the match requires {}", parameter_text(wanted))
    })
}

/// Conditions that Holdfast does not publish. A condition on chance has a share of the requests, see [`shares`].
fn of_others(wanted: &RouteMatch) -> Fit {
    let is_plain = (wanted.runtime_fraction.is_none() || shares::end(wanted).is_some())
        && wanted.tls_context.is_none()
        && wanted.cookies.is_empty()
        && wanted.dynamic_metadata.is_empty()
        && wanted.filter_state.is_empty();
    let why = "the match has conditions on cookies, certificates, metadata or chance, which are not evaluated";
    if is_plain { Fit::Yes } else { Fit::Unknown(why.into()) }
}

/// Returns the conditions of a match as text.
pub fn conditions(wanted: &RouteMatch) -> String {
    let mut text = match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(_)) => path_text(wanted),
        _ => format!("path {}", path_text(wanted)),
    };
    if wanted.grpc.is_some() {
        text.push_str(", gRPC call");
    }
    for header in &wanted.headers {
        let subject = if header.name == METHOD { "method".to_owned() } else { format!("header {}", header.name) };
        let _ = write!(text, ", {subject} {}", header_text(header));
    }
    for parameter in &wanted.query_parameters {
        let _ = write!(text, ", query parameter {} {}", parameter.name, parameter_text(parameter));
    }
    if let Some(end) = shares::end(wanted) {
        let _ = write!(text, ", up to {} of the requests", shares::percent(end));
    }
    text
}

fn path_text(wanted: &RouteMatch) -> String {
    match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) if prefix == "/" => "any path".into(),
        Some(PathSpecifier::Prefix(prefix)) => format!("a path that begins with {prefix}"),
        Some(PathSpecifier::Path(path)) => format!("exactly {path}"),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => format!("{prefix} or below"),
        Some(PathSpecifier::SafeRegex(regex)) => format!("the regex {}", regex.regex),
        _ => "a match of another kind".into(),
    }
}

fn header_text(wanted: &HeaderMatcher) -> String {
    let text = match &wanted.header_match_specifier {
        None | Some(HeaderMatchSpecifier::PresentMatch(true)) => "any value".to_owned(),
        Some(HeaderMatchSpecifier::PresentMatch(false)) => "no value".to_owned(),
        Some(HeaderMatchSpecifier::StringMatch(_)) if is_credential_header(&wanted.name) => {
            "a value that is not shown".to_owned()
        }
        Some(HeaderMatchSpecifier::StringMatch(matcher)) => text::wanted(matcher),
        _ => "a match of another kind".into(),
    };
    if wanted.invert_match { format!("anything but {text}") } else { text }
}

fn parameter_text(wanted: &QueryParameterMatcher) -> String {
    match &wanted.query_parameter_match_specifier {
        None | Some(QueryParameterMatchSpecifier::PresentMatch(true)) => "any value".into(),
        Some(QueryParameterMatchSpecifier::PresentMatch(false)) => "no value".into(),
        Some(QueryParameterMatchSpecifier::StringMatch(_)) if is_credential_header(&wanted.name) => {
            "a value that is not shown".into()
        }
        Some(QueryParameterMatchSpecifier::StringMatch(matcher)) => text::wanted(matcher),
    }
}

#[cfg(test)]
mod tests;
