//! Envoy's matching: filter chains by server name, virtual hosts by domain, routes in order.
//!
//! Written from Envoy's documentation and independent of the code under test: an error remains undetected only if both
//! contain it.
//!
//! <https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto>

use holdfast_test_support::matches::whole;
use regex::Regex;
use serde_json::Value;

use super::trace::RoutedRequest;

/// Returns the filter chain for a server name: the exact name, else the longest suffix, else a chain without names.
pub(super) fn chain<'a>(listener: &'a Value, sni: &str) -> Result<&'a Value, String> {
    let chains = list(&listener["filterChains"]);
    let rank = |chain: &Value| -> Option<usize> {
        let names = list(&chain["filterChainMatch"]["serverNames"]);
        if names.is_empty() {
            return Some(0);
        }
        names.iter().filter_map(|name| covers(name.as_str().unwrap(), sni)).max()
    };
    let best = chains.iter().filter_map(|chain| rank(chain).map(|rank| (rank, chain))).max_by_key(|(rank, _)| *rank);
    best.map(|(_, chain)| chain).ok_or_else(|| format!("no filter chain for {sni}: connection closed"))
}

/// Returns the rank of a pattern that covers a host, `None` if it does not. A more specific pattern has a higher rank.
fn covers(pattern: &str, host: &str) -> Option<usize> {
    match pattern.strip_prefix('*') {
        None if pattern == host => Some(usize::MAX),
        None => None,
        Some(suffix) => (host.len() > suffix.len() && host.ends_with(suffix)).then_some(1 + suffix.len()),
    }
}

/// Returns the answer of a route configuration to a request.
pub(super) fn answer(table: &Value, request: &RoutedRequest, tls: bool, port: u64) -> String {
    let hosts = list(&table["virtualHosts"]).iter().filter_map(|host| {
        let domains = list(&host["domains"]).iter();
        domains.filter_map(|domain| covers(domain.as_str().unwrap(), &request.host)).max().map(|rank| (rank, host))
    });
    let Some((_, host)) = hosts.max_by_key(|(rank, _)| *rank) else { return "404: no such host".into() };
    let Some(route) = list(&host["routes"]).iter().find(|route| matches(&route["match"], request)) else {
        return format!("404: no route at {}", host["name"].as_str().unwrap_or_default());
    };
    let name = route["name"].as_str().unwrap_or("unnamed");
    if let Some(response) = route.get("directResponse") {
        return format!("{}: {name}", response["status"]);
    }
    if let Some(redirect) = route.get("redirect") {
        return format!("{}: {name}", location(redirect, &route["match"], request, tls, port));
    }
    let action = &route["route"];
    let mut text = format!("{}: {name}", clusters(action));
    let rewritten = rewritten(action, &route["match"], request);
    if rewritten != request.path {
        text += &format!(", path {rewritten}");
    }
    if let Some(host) = action.get("hostRewriteLiteral").and_then(Value::as_str) {
        text += &format!(", host {host}");
    }
    text
}

/// Returns the clusters of a route or of a TCP proxy filter, with their weights.
pub(super) fn clusters(action: &Value) -> String {
    if let Some(cluster) = action["cluster"].as_str() {
        return cluster.to_owned();
    }
    let shares = list(&action["weightedClusters"]["clusters"]).iter();
    let shares = shares.map(|share| format!("{} of {}", share["weight"], share["name"].as_str().unwrap()));
    shares.collect::<Vec<_>>().join(", ")
}

fn matches(wanted: &Value, request: &RoutedRequest) -> bool {
    let path = &*request.path;
    let path_matches = if let Some(prefix) = wanted["prefix"].as_str() {
        path.starts_with(prefix)
    } else if let Some(exact) = wanted["path"].as_str() {
        path == exact
    } else if let Some(prefix) = wanted["pathSeparatedPrefix"].as_str() {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    } else {
        whole(wanted["safeRegex"]["regex"].as_str().unwrap(), path)
    };
    // The header includes the query.
    let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let full_path = if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) };
    let header = |name: &str| match name {
        ":path" => Some(&*full_path),
        ":method" => Some(&*request.method),
        ":authority" => Some(&*request.host),
        name => request.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value),
    };
    let headers_match = list(&wanted["headers"]).iter().all(|m| value_matches(m, header(m["name"].as_str().unwrap())));
    let query = |name: &str| request.query.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
    let query_matches =
        list(&wanted["queryParameters"]).iter().all(|m| value_matches(m, query(m["name"].as_str().unwrap())));
    let is_grpc = || header("content-type").is_some_and(|value| value.starts_with("application/grpc"));
    path_matches && headers_match && query_matches && (wanted.get("grpc").is_none() || is_grpc())
}

fn value_matches(wanted: &Value, value: Option<&str>) -> bool {
    let missing_is_empty = wanted["treatMissingHeaderAsEmpty"] == Value::Bool(true);
    let Some(value) = value.or(missing_is_empty.then_some("")) else {
        // Envoy's inverted match of a missing header: a presence match is inverted, a value match never matches.
        return wanted["invertMatch"] == Value::Bool(true) && wanted["presentMatch"] == Value::Bool(true);
    };
    let text = &wanted["stringMatch"];
    let fold = |text: &str| {
        if wanted["stringMatch"]["ignoreCase"] == Value::Bool(true) { text.to_lowercase() } else { text.to_owned() }
    };
    let part = |kind: &str| text[kind].as_str().map(fold);
    let folded = fold(value);
    let matches = if wanted["presentMatch"] == Value::Bool(true) {
        true
    } else if let Some(pattern) = text["safeRegex"]["regex"].as_str() {
        whole(pattern, value)
    } else if let Some(exact) = part("exact") {
        folded == exact
    } else if let Some(prefix) = part("prefix") {
        folded.starts_with(&prefix)
    } else if let Some(suffix) = part("suffix") {
        folded.ends_with(&suffix)
    } else if let Some(contained) = part("contains") {
        folded.contains(&contained)
    } else {
        panic!("no such match: {wanted}")
    };
    matches != (wanted["invertMatch"] == Value::Bool(true))
}

fn rewritten(action: &Value, matched: &Value, request: &RoutedRequest) -> String {
    let path = &*request.path;
    if let Some(new) = action["prefixRewrite"].as_str().filter(|new| !new.is_empty()) {
        let old = ["prefix", "pathSeparatedPrefix", "path"].iter().find_map(|kind| matched[*kind].as_str());
        return format!("{new}{}", path.strip_prefix(old.unwrap()).unwrap());
    }
    if let Some(pattern) = action["regexRewrite"]["pattern"]["regex"].as_str() {
        let substitution = action["regexRewrite"]["substitution"].as_str().unwrap_or_default();
        let substitution = substitution.replace('$', "$$").replace("\\\\", "\\");
        return Regex::new(pattern).unwrap().replace_all(path, &*substitution).into_owned();
    }
    path.to_owned()
}

fn location(redirect: &Value, matched: &Value, request: &RoutedRequest, tls: bool, own_port: u64) -> String {
    let status = match redirect["responseCode"].as_str() {
        None | Some("MOVED_PERMANENTLY") => 301,
        Some("FOUND") => 302,
        Some("SEE_OTHER") => 303,
        Some("TEMPORARY_REDIRECT") => 307,
        Some("PERMANENT_REDIRECT") => 308,
        Some(other) => panic!("no such code: {other}"),
    };
    let scheme = redirect["schemeRedirect"].as_str().unwrap_or(if tls { "https" } else { "http" });
    let host = redirect["hostRedirect"].as_str().filter(|host| !host.is_empty());
    // The authority of the request keeps its port unless the redirect sets a host or a port.
    let kept = if host.is_none() && own_port != if tls { 443 } else { 80 } { Some(own_port) } else { None };
    let port = redirect["portRedirect"].as_u64().filter(|port| *port > 0).or(kept);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = match redirect["pathRedirect"].as_str().filter(|path| !path.is_empty()) {
        Some(path) => path.to_owned(),
        None => rewritten(redirect, matched, request),
    };
    format!("{status} {scheme}://{}{port}{path}", host.unwrap_or(&request.host))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
