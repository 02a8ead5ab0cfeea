//! The requests of a route as a text: `/a` exactly, `/a/*` with all below, `POST /a for some values of header x-e`.

use holdfast_envoy::model::{NamedMatch, PathMatch, PathRank, Route};

/// The requests of a route after all other routes of its hosts.
const OTHER_REQUESTS: &str = "/* without another route";

/// Returns the path of a route, with its method and the names of its other conditions.
pub(super) fn of(route: &Route) -> String {
    if route.precedence.path == PathRank::Last {
        return OTHER_REQUESTS.to_owned();
    }
    let path = match &route.matches.path {
        PathMatch::Exact(path) => path.to_string(),
        PathMatch::Prefix(path) if path.ends_with('/') => format!("{path}*"),
        PathMatch::Prefix(path) => format!("{path}/*"),
        PathMatch::Text(path) => format!("{path}*"),
        PathMatch::Regex(regex) => format!("~{regex}"),
    };
    let method = route.matches.method.as_ref().map(|method| format!("{method} ")).unwrap_or_default();
    // A header such as `:authority` is a part of the host.
    let is_shown = |condition: &&NamedMatch| !condition.name.starts_with(':');
    let headers = route.matches.headers.iter().filter(is_shown).map(|header| format!("header {}", header.name));
    let query = route.matches.query.iter().map(|parameter| format!("query {}", parameter.name));
    let conditions: Vec<String> = headers.chain(query).collect();
    match conditions.is_empty() {
        true => format!("{method}{path}"),
        false => format!("{method}{path} for some values of {}", conditions.join(" and ")),
    }
}
