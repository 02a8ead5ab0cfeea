//! The rules that delegate to a route, up to routes that are attached to a Gateway.

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::route::GatewayRoute;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_envoy::model::Match;
use holdfast_graph::{ObjectKey, Role};

use super::super::claims::claims;
use super::super::{http, rule};
use super::{
    ABOVE_MAX, DELEGATIONS_MAX, DEPTH_MAX, accepts, flaws, is_attached, is_within, regexes, rule_of, unserved,
};
use crate::outcome::claims::Parent;
use crate::outcome::delegation::{RouteDelegation, RouteSelection};
use crate::reader::Reader;

/// The field of faults about all rules above a route together.
const RULES: &str = "spec.rules";

/// Returns the matches that delegate to a route, in the order of their precedence, and reports what is left out.
pub(in super::super) fn of(
    object: &Object,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<RouteDelegation> {
    let Body::HttpRoute(route) = &object.body else { return Vec::new() };
    let key = &object.key;
    let mut walk = DelegationWalk {
        settings,
        reader,
        chain: vec![key.clone()],
        examined: 0,
        cycle: None,
        is_deep: false,
        is_many: false,
    };
    let mut found = walk.above(object, route);
    let DelegationWalk { cycle, is_deep, mut is_many, .. } = walk;
    found.sort_by(|one, other| one.precedence.cmp(&other.precedence));
    is_many |= found.len() > DELEGATIONS_MAX;
    found.truncate(DELEGATIONS_MAX);
    let mut report = |reason: &'static str, (field, message): (&'static str, String)| {
        faults.push(Fault::new(key, Class::Invalid, field, reason, message));
    };
    if let Some(chain) = cycle {
        let names: Vec<String> = chain.iter().map(ObjectKey::namespaced_name).collect();
        let message =
            format!("HTTPRoutes delegate to each other in a cycle, which is not served: {}", names.join(", "));
        report("DelegationCycle", (RULES, message));
    }
    if is_deep {
        let message = format!(
            "more than {DEPTH_MAX} HTTPRoutes delegate to each other above the route; \
             it is not served below these"
        );
        report("DelegationTooDeep", (RULES, message));
    }
    if is_many {
        let message = format!(
            "more than {DELEGATIONS_MAX} matches of other HTTPRoutes delegate to the route, or more than {ABOVE_MAX} \
             HTTPRoutes are above it; it is not served below the rest"
        );
        report("TooManyDelegations", (RULES, message));
    }
    if let Some(unserved) = unserved(object).filter(|_| !found.is_empty()) {
        report("UnsupportedValue", unserved);
        found.clear();
    }
    for delegation in &found {
        if let Some((above, _)) = delegation.chain.last() {
            reader.edge(key, "", above, Role::Attaches);
        }
    }
    found
}

struct DelegationWalk<'w, 'a> {
    settings: &'w Settings,
    reader: &'w mut Reader<'a>,
    /// The route, and the routes above it on the way that is followed.
    chain: Vec<ObjectKey>,
    examined: usize,
    cycle: Option<Vec<ObjectKey>>,
    is_deep: bool,
    is_many: bool,
}

/// What a delegating route has itself.
struct DelegatingBase {
    chain: Vec<(ObjectKey, usize)>,
    within: Option<Match>,
    parents: Vec<Parent>,
}

impl DelegationWalk<'_, '_> {
    /// Returns the matches that delegate to a route.
    fn above(&mut self, object: &Object, route: &GatewayRoute<HttpRule>) -> Vec<RouteDelegation> {
        let mut found = Vec::new();
        for key in self.reader.delegating(object) {
            if !accepts(object, route, &key) {
                continue;
            }
            if self.chain.contains(&key) {
                self.cycle.get_or_insert_with(|| self.chain.iter().chain([&key]).cloned().collect());
                continue;
            }
            self.examined += 1;
            if self.examined > ABOVE_MAX || found.len() > DELEGATIONS_MAX {
                self.is_many = true;
                break;
            }
            let Some(above) = self.reader.object(&key) else { continue };
            let bases = self.bases(above);
            if !bases.is_empty() {
                found.extend(delegations(object, above, &bases, self.settings));
                // Each of these is multiplied by the matches of every route further down.
                self.is_many |= found.len() > DELEGATIONS_MAX;
                found.truncate(DELEGATIONS_MAX + 1);
            }
        }
        found
    }

    /// Returns what a route has from its Gateways, or from the routes above it.
    fn bases(&mut self, object: &Object) -> Vec<DelegatingBase> {
        let Body::HttpRoute(route) = &object.body else { return Vec::new() };
        if is_attached(&**route) {
            // The edges of these claims belong to the other route.
            let edges = self.reader.edges.len();
            let claims = claims(&object.key, self.settings, self.reader);
            self.reader.edges.truncate(edges);
            let claims = claims.filter(|claims| !claims.anothers);
            let parents: Vec<Parent> = claims.into_iter().flat_map(|claims| claims.parents).collect();
            return match parents.iter().any(|parent| !parent.attachments.is_empty()) {
                true => vec![DelegatingBase { chain: Vec::new(), within: None, parents }],
                false => Vec::new(),
            };
        }
        if self.chain.len() >= DEPTH_MAX {
            self.is_deep = true;
            return Vec::new();
        }
        if unserved(object).is_some() {
            return Vec::new();
        }
        self.chain.push(object.key.clone());
        let above = self.above(object, route);
        self.chain.pop();
        let base = |RouteDelegation { chain, within, parents, .. }: RouteDelegation| DelegatingBase {
            chain,
            within: Some(within),
            parents,
        };
        above.into_iter().map(base).collect()
    }
}

/// Returns the matches of one route that delegate to another, with a few more than [`DELEGATIONS_MAX`] at most.
fn delegations(object: &Object, above: &Object, bases: &[DelegatingBase], settings: &Settings) -> Vec<RouteDelegation> {
    let selections = RouteSelection::containing(&object.key, &object.metadata.labels);
    let regexes = regexes(settings);
    let Body::HttpRoute(route) = &above.body else { return Vec::new() };
    let mut found = Vec::new();
    for index in 0..route.rules.len() {
        let Some(written) = rule_of(above, index) else { continue };
        let mut references = written.backend_refs.iter().flatten();
        let selects = references.any(|reference| {
            RouteSelection::of(reference, &above.key.namespace).is_some_and(|selection| selections.contains(&selection))
        });
        if !selects {
            continue;
        }
        let read = http::read(index, written, &regexes);
        if !read.flaws.is_empty() || !flaws(above, written, &read.matches).is_empty() {
            continue;
        }
        for (entry, ranked) in read.matches.iter().enumerate() {
            let inner =
                |base: &&DelegatingBase| base.within.as_ref().is_none_or(|outer| is_within(&ranked.matches, outer));
            if found.len() > DELEGATIONS_MAX {
                return found;
            }
            found.extend(bases.iter().filter(inner).map(|base| RouteDelegation {
                chain: base.chain.iter().cloned().chain([(above.key.clone(), index)]).collect(),
                within: ranked.matches.clone(),
                precedence: rule::precedence(above, index, entry, ranked),
                parents: base.parents.clone(),
            }));
        }
    }
    found
}
