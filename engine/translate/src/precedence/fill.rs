//! Application of merged settings to a route.

use std::sync::Arc;

use holdfast_envoy::features::filters::Filter;
use holdfast_envoy::features::guards::Guards;
use holdfast_envoy::model::Route;

use super::action::ActionSettings;
use super::merge::Merged;

/// Applies merged settings to a route. The route's own CORS settings come first, unless `is_cors_first`: then those of
/// the policies do.
pub(crate) fn fill(merged: &Merged, known: impl Fn(&str) -> Option<String>, is_cors_first: bool, route: &mut Route) {
    let mut filters = merged.filters();
    match is_cors_first {
        true => route.cors = None,
        false if route.cors.is_some() => drop(filters.remove(&Filter::Cors)),
        false => {}
    }
    route.filters = filters;
    route.guards = Guards { rule_auth: route.guards.rule_auth.clone(), ..merged.guards() }.into();
    let action = merged.action();
    let stat_prefix = action.stat_prefix.as_deref().and_then(|prefix| filled(prefix, &known)).map(Arc::from);
    ActionSettings { stat_prefix, ..action }.apply(route);
}

/// Substitutes names in a prefix of statistics; `None` if a name is unknown.
pub(crate) fn filled(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    const VARIABLES: [&str; 3] = ["route_name", "route_namespace", "rule_name"];
    holdfast_check::template::braces(text, |variable| known(VARIABLES.into_iter().find(|known| *known == variable)?))
}
