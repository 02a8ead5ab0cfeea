//! Tests of each kind of match, with the reason why it does not match.

use envoy_types::pb::envoy::config::route::v3::CookieMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use envoy_types::pb::google::protobuf::BoolValue;

use super::*;

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> ReceivedRequest {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query.to_owned())));
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (method, path, host) = (method.to_owned(), path.to_owned(), "a.example".to_owned());
    ReceivedRequest { method, tls: false, host, path, query, headers }
}

fn regex(pattern: &str) -> RegexMatcher {
    RegexMatcher { regex: pattern.to_owned(), ..Default::default() }
}

fn exact(text: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::Exact(text.to_owned())), ..Default::default() }
}

fn by_regex(pattern: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::SafeRegex(regex(pattern))), ..Default::default() }
}

fn header(name: &str, specifier: HeaderMatchSpecifier) -> HeaderMatcher {
    HeaderMatcher { name: name.into(), header_match_specifier: Some(specifier), ..Default::default() }
}

fn path(specifier: PathSpecifier) -> RouteMatch {
    RouteMatch { path_specifier: Some(specifier), ..Default::default() }
}

fn with_header(header: HeaderMatcher) -> RouteMatch {
    RouteMatch { headers: vec![header], ..path(PathSpecifier::Prefix("/".into())) }
}

fn with_parameter(name: &str, specifier: QueryParameterMatchSpecifier) -> RouteMatch {
    let parameter = QueryParameterMatcher { name: name.into(), query_parameter_match_specifier: Some(specifier) };
    RouteMatch { query_parameters: vec![parameter], ..path(PathSpecifier::Prefix("/".into())) }
}

/// Compares a match with requests; the reason is empty if the request matches.
fn check(wanted: &RouteMatch, cases: &[(ReceivedRequest, &str)]) {
    for (request, why_not) in cases {
        let expected = if why_not.is_empty() { Fit::Yes } else { Fit::No((*why_not).to_owned()) };
        assert_eq!(fit(wanted, request), expected, "{request:?}");
    }
}

#[test]
fn paths() {
    let get = |path| request("GET", path, &[]);
    let specifier = PathSpecifier::Path("/a".into());
    check(&path(specifier), &[(get("/a"), ""), (get("/a?q"), ""), (get("/a/"), "the path /a/ is not exactly /a")]);
    let specifier = PathSpecifier::Prefix("/a".into());
    let why = "the path /b is not a path that begins with /a";
    check(&path(specifier), &[(get("/a"), ""), (get("/ab"), ""), (get("/b"), why)]);
    let specifier = PathSpecifier::PathSeparatedPrefix("/a".into());
    let why = "the path /ab is not /a or below";
    check(&path(specifier), &[(get("/a"), ""), (get("/a/b"), ""), (get("/ab"), why)]);
    let specifier = PathSpecifier::SafeRegex(regex("/a|/b[0-9]"));
    let why = "the path /b1/ is not the regex /a|/b[0-9]";
    check(&path(specifier), &[(get("/a"), ""), (get("/b1"), ""), (get("/b1/"), why)]);
    let any_case =
        RouteMatch { case_sensitive: Some(BoolValue { value: false }), ..path(PathSpecifier::Path("/a".into())) };
    check(&any_case, &[(get("/A"), "")]);
}

#[test]
fn methods() {
    let wanted = with_header(header(":method", HeaderMatchSpecifier::StringMatch(exact("GET"))));
    let why = "the method is \"POST\"; the match requires exactly \"GET\"";
    check(&wanted, &[(request("GET", "/", &[]), ""), (request("POST", "/", &[]), why)]);
}

#[test]
fn headers() {
    let get = |headers: &[(&str, &str)]| request("GET", "/", headers);
    let wanted = with_header(header("x-a", HeaderMatchSpecifier::StringMatch(exact("1"))));
    let cases = [
        (get(&[("x-a", "1")]), ""),
        (get(&[("x-a", "2")]), "the header x-a is \"2\"; the match requires exactly \"1\""),
        (get(&[("x-a", "2"), ("x-a", "1")]), ""),
        (get(&[("x-a", "2"), ("x-a", "3")]), "the header x-a is \"2\" and \"3\"; the match requires exactly \"1\""),
        (get(&[("x-a", "1,1")]), "the header x-a is \"1,1\"; the match requires exactly \"1\""),
        (get(&[]), "the header x-a is missing; the match requires exactly \"1\""),
    ];
    check(&wanted, &cases);
    let wanted = with_header(header("x-a", HeaderMatchSpecifier::StringMatch(by_regex("[0-9]+"))));
    let why = "the header x-a is \"1a\"; the match requires the regex [0-9]+";
    check(&wanted, &[(get(&[("x-a", "12")]), ""), (get(&[("x-a", "1a")]), why)]);
    let wanted = with_header(header("x-a", HeaderMatchSpecifier::PresentMatch(true)));
    check(&wanted, &[(get(&[("x-a", "")]), ""), (get(&[]), "the header x-a is missing")]);
}

#[test]
fn inverted_headers_and_headers_that_may_be_missing() {
    let get = |headers: &[(&str, &str)]| request("GET", "/", headers);
    let one = header("x-a", HeaderMatchSpecifier::StringMatch(exact("1")));
    let wanted = with_header(HeaderMatcher { invert_match: true, ..one.clone() });
    let cases = [
        (get(&[("x-a", "2")]), ""),
        (get(&[("x-a", "1")]), "the header x-a is \"1\"; the match requires anything but exactly \"1\""),
        (
            get(&[("x-a", "1"), ("x-a", "2")]),
            "the header x-a is \"1\" and \"2\"; the match requires anything but exactly \"1\"",
        ),
        (get(&[]), "the header x-a is missing; the match requires anything but exactly \"1\""),
    ];
    check(&wanted, &cases);
    let wanted = with_header(HeaderMatcher { invert_match: true, treat_missing_header_as_empty: true, ..one });
    check(&wanted, &[(get(&[]), "")]);
    let present = header("x-a", HeaderMatchSpecifier::PresentMatch(true));
    let wanted = with_header(HeaderMatcher { invert_match: true, ..present });
    check(&wanted, &[(get(&[]), ""), (get(&[("x-a", "1")]), "the header x-a is present")]);
}

#[test]
fn credentials_are_not_shown() {
    let wanted = with_header(header("authorization", HeaderMatchSpecifier::StringMatch(exact("Bearer canary"))));
    let Fit::No(why) = fit(&wanted, &request("GET", "/", &[("authorization", "Bearer private")])) else {
        unreachable!()
    };
    assert!(!why.contains("canary") && !why.contains("private"), "{why}");
    assert!(!conditions(&wanted).contains("canary"));
}

#[test]
fn query_parameters() {
    let get = |path| request("GET", path, &[]);
    let wanted = with_parameter("q", QueryParameterMatchSpecifier::StringMatch(exact("1")));
    let cases = [
        (get("/?q=1"), ""),
        (get("/?p&q=1&q=2"), ""),
        (get("/?q=2&q=1"), "the query parameter q is \"2\"; the match requires exactly \"1\""),
        (get("/?q"), "the query parameter q is \"\"; the match requires exactly \"1\""),
        (get("/"), "the query parameter q is missing; the match requires exactly \"1\""),
    ];
    check(&wanted, &cases);
    let wanted = with_parameter("q", QueryParameterMatchSpecifier::PresentMatch(true));
    check(&wanted, &[(get("/?q"), ""), (get("/?p"), "the query parameter q is missing; the match requires any value")]);
}

#[test]
fn calls_of_grpc() {
    let wanted = RouteMatch { grpc: Some(Default::default()), ..path(PathSpecifier::Prefix("/".into())) };
    let call = |kind| request("POST", "/", &[("content-type", kind)]);
    let why = "the content type \"application/grpc-web\" is not of a gRPC call";
    let cases =
        [(call("application/grpc"), ""), (call("application/grpc+proto"), ""), (call("application/grpc-web"), why)];
    check(&wanted, &cases);
}

#[test]
fn the_first_reason_is_the_path_then_the_method_then_others() {
    let mut wanted = with_header(header("x-a", HeaderMatchSpecifier::PresentMatch(true)));
    wanted.headers.push(header(":method", HeaderMatchSpecifier::StringMatch(exact("GET"))));
    wanted.path_specifier = Some(PathSpecifier::Path("/a".into()));
    let reason = |method, path| match fit(&wanted, &request(method, path, &[])) {
        Fit::No(why) => why,
        other => unreachable!("{other:?}"),
    };
    assert!(reason("POST", "/b").starts_with("the path"));
    assert!(reason("POST", "/a").starts_with("the method"));
    assert!(reason("GET", "/a").starts_with("the header"));
}

#[test]
fn what_cannot_be_evaluated_is_unknown_unless_another_condition_decides() {
    let cookies = vec![CookieMatcher::default()];
    let wanted = RouteMatch { cookies, ..path(PathSpecifier::Path("/a".into())) };
    assert!(matches!(fit(&wanted, &request("GET", "/a", &[])), Fit::Unknown(_)));
    assert!(matches!(fit(&wanted, &request("GET", "/b", &[])), Fit::No(_)));
    let wanted = path(PathSpecifier::SafeRegex(regex(r"\C")));
    assert!(matches!(fit(&wanted, &request("GET", "/a", &[])), Fit::Unknown(_)));
}
