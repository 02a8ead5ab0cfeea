//! Guards in force: the kinds of filters that reject requests of a route, by the settings at each level.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use crate::encode::names;
use crate::encode::route::CORS_FILTER;
use crate::features::filters::{Filter, Guarding};
use crate::features::{chain, cookies};

/// Checks whether settings include all desired kinds of guards.
pub(super) fn includes_kinds(settings: &HashMap<String, Any>, desired: &HashMap<String, Any>) -> bool {
    in_force([encoded(desired)]).is_subset(&in_force([encoded(settings)]))
}

/// Returns settings as they are compared.
pub(crate) fn encoded(settings: &HashMap<String, Any>) -> Guarding {
    settings.iter().map(|(name, config)| (name.clone(), config.encode_to_vec())).collect()
}

/// Returns the kinds of guards in force, by the settings at several levels, the closest first: only filters that reject
/// requests count, and the settings at the closest level win.
pub fn in_force<const N: usize>(levels: [Guarding; N]) -> BTreeSet<String> {
    let mut closest: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for (name, config) in levels.iter().flatten() {
        closest.entry(name).or_insert(config);
    }
    let in_force = closest.into_iter().filter(|(name, config)| turns_away(name) && !is_off(config));
    in_force.map(|(name, _)| names::kind_of_filter(name).to_owned()).collect()
}

/// Checks whether a filter rejects requests. Other filters change or report something, or carry the scope of a setting.
fn turns_away(filter: &str) -> bool {
    let changes = [
        Filter::Fault,
        Filter::DenyResponse,
        Filter::Transformation,
        Filter::Metadata,
        Filter::HeaderMutation,
        Filter::SecretHeaders,
        Filter::Session,
    ];
    let passive = [chain::GUARD, CORS_FILTER, cookies::FILTER];
    !passive.contains(&filter) && !changes.into_iter().any(|other| other.name() == filter)
}

fn is_off(config: &[u8]) -> bool {
    let config = Any::decode(config).ok().filter(|any| any.type_url.ends_with(".route.v3.FilterConfig"));
    config.and_then(|any| FilterConfig::decode(&*any.value).ok()).is_some_and(|config| config.disabled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::any;

    fn of(settings: &[(&str, bool)]) -> Guarding {
        let config = |disabled| any(&FilterConfig { disabled, ..Default::default() }).encode_to_vec();
        settings.iter().map(|(name, off)| ((*name).to_owned(), config(*off))).collect()
    }

    #[test]
    fn the_closest_level_is_in_force() {
        let (auth, other) = ("ext_authz/extension/shop/a", "ext_authz/extension/shop/b");
        let is = |levels, wanted: &[&str]| {
            assert_eq!(in_force(levels).iter().map(String::as_str).collect::<Vec<_>>(), wanted);
        };
        is([of(&[]), of(&[(auth, false)])], &["ext_authz"]);
        is([of(&[(auth, true)]), of(&[(auth, false)])], &[]);
        is([of(&[(auth, true), (other, false)]), of(&[(auth, false)])], &["ext_authz"]);
        is([of(&[(auth, false)]), of(&[(auth, true)])], &["ext_authz"]);
        let rbac = Filter::Rbac.name();
        is([of(&[(rbac, false), (chain::GUARD, false)]), of(&[(Filter::HeaderMutation.name(), false)])], &[rbac]);
    }
}
