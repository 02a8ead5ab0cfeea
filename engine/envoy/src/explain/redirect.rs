//! The location of a redirect.

use envoy_types::pb::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::{RedirectAction, Route};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatchAndSubstitute;
use regex::{Captures, Regex};

use super::matching::{self, ReceivedRequest};
use super::request::split_port;

/// Returns the status of a redirect.
pub(super) fn status(action: &RedirectAction) -> u16 {
    match action.response_code() {
        RedirectResponseCode::MovedPermanently => 301,
        RedirectResponseCode::Found => 302,
        RedirectResponseCode::SeeOther => 303,
        RedirectResponseCode::TemporaryRedirect => 307,
        RedirectResponseCode::PermanentRedirect => 308,
    }
}

/// Returns the location of a redirect.
///
/// # Errors
/// Returns a sentence if the rewrite of the path cannot be evaluated.
pub(super) fn location(action: &RedirectAction, route: &Route, request: &ReceivedRequest) -> Result<String, String> {
    let scheme = match &action.scheme_rewrite_specifier {
        Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) if !scheme.is_empty() => scheme.as_str(),
        Some(SchemeRewriteSpecifier::HttpsRedirect(true)) => "https",
        _ => request.scheme(),
    };
    let host = match action.host_redirect.as_str() {
        "" => kept_host(action, scheme, request),
        host => host,
    };
    let port = if action.port_redirect == 0 { String::new() } else { format!(":{}", action.port_redirect) };
    Ok(format!("{scheme}://{host}{port}{}", path(action, route, request)?))
}

/// Returns the host of the request, without its port if the redirect has a port, or if the port is the default one of a
/// scheme that changes.
fn kept_host<'r>(action: &RedirectAction, scheme: &str, request: &'r ReceivedRequest) -> &'r str {
    let (host, port) = split_port(&request.host);
    let default = if request.tls { "443" } else { "80" };
    let is_left_out = action.port_redirect != 0 || (scheme != request.scheme() && port == Some(default));
    if is_left_out { host } else { &request.host }
}

fn path(action: &RedirectAction, route: &Route, request: &ReceivedRequest) -> Result<String, String> {
    let query = request.query.as_ref().filter(|_| !action.strip_query);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let path = match &action.path_rewrite_specifier {
        None => request.path.clone(),
        Some(PathRewriteSpecifier::PathRedirect(path)) if path.is_empty() => request.path.clone(),
        Some(PathRewriteSpecifier::PathRedirect(path)) if path.contains('?') => return Ok(path.clone()),
        Some(PathRewriteSpecifier::PathRedirect(path)) => path.clone(),
        Some(PathRewriteSpecifier::PrefixRewrite(prefix)) => {
            let matched = route.r#match.as_ref().and_then(|wanted| matching::matched_bytes(wanted, request));
            let rest = request.path.get(matched.unwrap_or_default()..).unwrap_or_default();
            format!("{prefix}{rest}")
        }
        Some(PathRewriteSpecifier::RegexRewrite(rewrite)) => rewritten(rewrite, &request.path)?,
        Some(_) => return Err("the kind of path rewrite is not evaluated".into()),
    };
    Ok(format!("{path}{query}"))
}

/// Replaces all matches of a regex; `\1` is its first group.
fn rewritten(rewrite: &RegexMatchAndSubstitute, path: &str) -> Result<String, String> {
    let pattern = rewrite.pattern.as_ref().map_or("", |pattern| pattern.regex.as_str());
    let regex = Regex::new(pattern).map_err(|_| format!("the regex {pattern} cannot be evaluated here"))?;
    let substitute = |captures: &Captures<'_>| {
        let mut text = String::new();
        let mut chars = rewrite.substitution.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some(digit)) if digit.is_ascii_digit() => {
                    let group = digit.to_digit(10).and_then(|digit| captures.get(usize::try_from(digit).ok()?));
                    text.push_str(group.map_or("", |group| group.as_str()));
                }
                ('\\', Some(other)) => text.push(other),
                _ => text.push(c),
            }
        }
        text
    };
    Ok(regex.replace_all(path, substitute).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use envoy_types::pb::envoy::config::route::v3::RouteMatch;
    use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;

    use super::*;
    use crate::features::redirect::{ListenerContext, Redirect, Scheme};
    use crate::features::rewrite::PathRewrite;
    use crate::model::PathMatch;

    /// Returns status and location of a redirect below `/x`, for a request to `a.example:8080`.
    fn redirected(redirect: &Redirect) -> (u16, String) {
        let action = redirect.encode(&PathMatch::Prefix("/x".into()), ListenerContext { https: false, port: 8080 });
        let path = Some(PathSpecifier::PathSeparatedPrefix("/x".into()));
        let wanted = Some(RouteMatch { path_specifier: path, ..Default::default() });
        let request = ReceivedRequest {
            method: "GET".into(),
            tls: false,
            host: "a.example:8080".into(),
            path: "/x/y".into(),
            query: Some("q=1".into()),
            headers: Vec::new(),
        };
        let route = Route { r#match: wanted, ..Default::default() };
        (status(&action), location(&action, &route, &request).unwrap())
    }

    #[test]
    fn locations_have_scheme_host_port_path_and_query() {
        let plain = Redirect { scheme: None, host: None, port: None, path: None, status: 302 };
        let to = |text: &str| Some(Arc::<str>::from(text));
        let https = Redirect { scheme: Some(Scheme::Https), ..plain.clone() };
        let prefix = |new: &str| Redirect { path: Some(PathRewrite::Prefix(new.into())), ..plain.clone() };
        let full = Redirect { path: Some(PathRewrite::Full("/new".into())), status: 308, ..plain.clone() };
        let host = Redirect { host: to("b.example"), status: 301, ..plain.clone() };
        let port = Redirect { port: Some(81), ..plain.clone() };
        let cases = [
            (plain.clone(), (302, "http://a.example:8080/x/y?q=1")),
            (https, (302, "https://a.example:443/x/y?q=1")),
            (prefix("/z"), (302, "http://a.example:8080/z/y?q=1")),
            (prefix("/"), (302, "http://a.example:8080/y?q=1")),
            (full, (308, "http://a.example:8080/new?q=1")),
            (host, (301, "http://b.example:8080/x/y?q=1")),
            (port, (302, "http://a.example:81/x/y?q=1")),
        ];
        for (redirect, (status, expected)) in cases {
            let found = redirected(&redirect);
            assert_eq!((found.0, found.1.as_str()), (status, expected));
        }
    }
}
