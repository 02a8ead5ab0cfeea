//! The rules that delegate to a route, up to routes that are attached to a Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::http_route::HttpRule;
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::gateway::route::{GatewayRoute, RuleEntry};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::Settings;
use holdfast_check::re2::Regexes;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::model::containment::RequestSet;
use holdfast_envoy::model::{Match, Precedence};
use holdfast_graph::{ObjectKey, Role};

use super::super::claims;
use super::super::today::DesiredClaims;
use super::super::{http, rule};
use super::given::{self, PreparedMatches};
use super::{
    ABOVE_MAX, ALL_DELEGATIONS_MAX, DELEGATIONS_MAX, DEPTH_MAX, accepts, flaws, is_attached, priority, regexes,
    rule_of, unserved,
};
use crate::outcome::claims::Parent;
use crate::outcome::delegation::{CYCLE, RouteDelegation, RouteSelection, TOO_DEEP, TOO_MANY, selections};
use crate::reader::Reader;

/// The field of faults about the routes above a route. Other objects are the cause, so that no rule is at fault, and the
/// route is served without them: a route of another namespace must not keep it from becoming last valid.
pub(super) const ABOVE: &str = "spec.parentRefs";

/// What is above a route.
#[derive(Default)]
pub(super) struct RoutesAbove {
    /// The matches that delegate to the route, in the order of their precedence.
    pub(super) delegations: Vec<RouteDelegation>,
    /// The matches that would delegate to the route without the field that keeps it from being served below others.
    pub(super) refused: Vec<RouteDelegation>,
    /// Whether the route is below HTTPRoutes of other controllers only.
    pub(super) is_anothers: bool,
    /// The HTTPRoutes that select the route and give it no requests: those of its namespace first, then by age.
    pub(super) idle: Vec<IdleAbove>,
}

/// An HTTPRoute that selects a route and gives it no requests.
pub(super) struct IdleAbove {
    pub(super) key: ObjectKey,
    /// The rule that keeps the requests; unset if the HTTPRoute is attached to no Gateway that is served.
    closed: Option<ClosedAbove>,
    withheld: WithheldRequests,
}

/// The requests that an HTTPRoute has for a route that it selects, and does not give to it.
#[derive(Clone, Debug, Default)]
struct WithheldRequests {
    /// The field that keeps a rule from delegating to the route.
    field: Option<String>,
    /// Whether a match of the route is within such a rule. Otherwise the rule may select it together with others only.
    is_meant: bool,
}

impl IdleAbove {
    /// Returns the reason, as the rest of a sentence about this HTTPRoute.
    pub(super) fn why(&self) -> String {
        match &self.closed {
            None => "is attached to no Gateway that is served".to_owned(),
            Some(closed) if closed.above == self.key => {
                let place =
                    self.withheld.field.as_ref().map_or("the status there".to_owned(), |field| format!("its {field}"));
                format!("has no rule for it that can delegate (see {place})")
            }
            Some(closed) => {
                format!("gets no requests itself (see the status of HTTPRoute {})", closed.above.namespaced_name())
            }
        }
    }

    /// Returns whether the HTTPRoute is attached to a served Gateway, and keeps requests that the route has a match for.
    pub(super) fn is_missed(&self) -> bool {
        self.closed.is_some() && self.withheld.is_meant
    }

    /// Returns the HTTPRoute to edit; `None` if it is unknown.
    pub(super) fn cause(&self) -> Option<&ObjectKey> {
        self.closed.as_ref().map(|closed| &closed.above)
    }

    /// Returns the Gateways at which the route would be served.
    pub(super) fn gateways(&self) -> impl Iterator<Item = &ObjectKey> {
        self.closed.iter().flat_map(|closed| &closed.gateways)
    }
}

/// An HTTPRoute that is attached to Gateways, or below HTTPRoutes that are, and gives no requests to a route that it
/// selects.
#[derive(Clone)]
struct ClosedAbove {
    above: ObjectKey,
    /// The Gateways above it.
    gateways: BTreeSet<ObjectKey>,
}

/// Returns what is above a route, and reports what is left out.
pub(super) fn of(
    object: &Object,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> RoutesAbove {
    let Body::HttpRoute(route) = &object.body else { return RoutesAbove::default() };
    let key = &object.key;
    let mut walk = DelegationWalk::new(key, 0, settings, reader);
    let mut above = RoutesAbove::default();
    let found = walk.above(object, route);
    (above.delegations, above.is_anothers) = (found.delegations, found.is_anothers);
    above.idle = std::mem::take(&mut walk.idle);
    walk.report(object, faults);
    if let Some((field, message)) = unserved(object).filter(|_| !above.delegations.is_empty()) {
        faults.push(Fault::new(key, Class::Invalid, field, "UnsupportedValue", message));
        above.refused = std::mem::take(&mut above.delegations);
    }
    above.delegations.sort_by(|one, other| one.precedence.cmp(&other.precedence));
    for delegation in &above.delegations {
        if let Some((above, _)) = delegation.chain.last() {
            reader.edge(key, "", above, Role::Attaches);
        }
    }
    above
}

/// The Gateways above a route that delegates.
pub(super) enum GatewaysAbove {
    /// These are served.
    Served(BTreeSet<ObjectKey>),
    /// All belong to other controllers.
    Anothers,
    /// There are none.
    Unattached,
}

/// Returns the Gateways above a route that is above another one.
pub(super) fn gateways_above(
    above: &Object,
    below: &ObjectKey,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> GatewaysAbove {
    let bases = DelegationWalk::new(below, ABOVE_MAX, settings, reader).bases(above);
    match (bases.served.is_empty(), bases.is_anothers) {
        (false, _) => GatewaysAbove::Served(bases.gateways()),
        (true, true) => GatewaysAbove::Anothers,
        (true, false) => GatewaysAbove::Unattached,
    }
}

/// Returns the first HTTPRoute with a served rule that selects a route by its label.
pub(super) fn selecting_by_label(object: &Object, settings: &Settings, reader: &mut Reader<'_>) -> Option<ObjectKey> {
    let labelled = RouteSelection::by_label(&object.key, &object.metadata.labels);
    if labelled.is_empty() {
        return None;
    }
    let all = reader.delegating(object).into_iter();
    let mut all: Vec<&Arc<Object>> = all.filter_map(|key| reader.object(&key)).collect();
    all.retain(|above| {
        let Body::HttpRoute(route) = &above.body else { return false };
        selections(route, &above.key.namespace).any(|selection| labelled.contains(&selection))
    });
    all.sort_by_cached_key(|above| (above.key.namespace != object.key.namespace, above.age()));
    let mut all = all.into_iter().take(ABOVE_MAX);
    let found =
        all.find(|above| matches!(gateways_above(above, &object.key, settings, reader), GatewaysAbove::Served(_)));
    found.map(|above| above.key.clone())
}

struct DelegationWalk<'w, 'a> {
    settings: &'w Settings,
    reader: &'w mut Reader<'a>,
    /// The route, and the routes above it on the way that is followed.
    chain: Vec<ObjectKey>,
    /// The number of routes that may still be examined above the route at the beginning of this way.
    left: usize,
    cycle: Option<Vec<ObjectKey>>,
    is_deep: bool,
    is_many: bool,
    /// The HTTPRoutes that select the route at the beginning and give it nothing.
    idle: Vec<IdleAbove>,
}

/// What a route has from the HTTPRoutes above it.
#[derive(Default)]
struct FoundAbove {
    delegations: Vec<RouteDelegation>,
    /// The first HTTPRoute that keeps requests from it.
    closed: Option<ClosedAbove>,
    /// Whether all that delegate to it belong to other controllers.
    is_anothers: bool,
}

/// What a route has from its Gateways, or from the HTTPRoutes above it.
#[derive(Default)]
struct FoundBases {
    served: Vec<DelegatingBase>,
    /// The first HTTPRoute, this one or one above it, that keeps requests from it.
    closed: Option<ClosedAbove>,
    /// Whether all of these belong to other controllers.
    is_anothers: bool,
}

/// What a delegating route has itself.
struct DelegatingBase {
    chain: Vec<(ObjectKey, usize)>,
    /// The match that delegates to it; unset for an attached route.
    from: Option<RouteDelegation>,
    parents: Vec<Parent>,
}

impl<'w, 'a> DelegationWalk<'w, 'a> {
    fn new(start: &ObjectKey, left: usize, settings: &'w Settings, reader: &'w mut Reader<'a>) -> Self {
        let chain = vec![start.clone()];
        Self { settings, reader, chain, left, cycle: None, is_deep: false, is_many: false, idle: Vec::new() }
    }

    /// Returns the matches that delegate to a route. Routes of others cannot displace what is above it already: each route
    /// above has its own share of the limits, and those of its namespace and the older ones come first.
    fn above(&mut self, object: &Object, route: &GatewayRoute<HttpRule>) -> FoundAbove {
        let is_start = self.chain.len() == 1;
        let all = self.reader.delegating(object);
        let accepted = all.into_iter().filter(|key| accepts(object, route, key));
        let mut all: Vec<&Arc<Object>> = accepted.filter_map(|key| self.reader.object(&key)).collect();
        all.sort_by_cached_key(|above| (above.key.namespace != object.key.namespace, above.age()));
        self.is_many |= all.len() > ABOVE_MAX;
        all.truncate(ABOVE_MAX);
        let share = (ABOVE_MAX / all.len().max(1)).max(DEPTH_MAX);
        let (mut found, mut is_full) = (FoundAbove::default(), false);
        for above in all {
            if self.chain.contains(&above.key) {
                // A cycle further above is reported at its members.
                if self.chain.first() == Some(&above.key) {
                    self.cycle.get_or_insert_with(|| self.chain.iter().chain([&above.key]).cloned().collect());
                }
                continue;
            }
            if is_start {
                self.left = share;
            }
            let Some(left) = self.left.checked_sub(1) else {
                self.is_many = true;
                break;
            };
            self.left = left;
            if is_full {
                continue;
            }
            let bases = self.bases(above);
            found.is_anothers |= bases.is_anothers;
            let desired = self.reader.replaced(&above.key).map(|desired| &**desired);
            let FoundBelow { delegations: mut more, is_cut, withheld } =
                delegations(object, (above, desired), &bases.served, self.settings);
            // A match that is only reported is no reason to leave out what the route misses.
            if is_start && withheld.is_meant && more.iter().all(|delegation| delegation.is_empty) {
                more.clear();
            }
            if more.is_empty() {
                let closed = bases.closed(&above.key);
                if is_start {
                    self.idle.push(IdleAbove { key: above.key.clone(), closed: closed.clone(), withheld });
                }
                found.closed = found.closed.or(closed);
            }
            found.delegations.extend(more);
            // Each of these is multiplied by the matches of every route further down.
            is_full = found.delegations.len() > ALL_DELEGATIONS_MAX;
            self.is_many |= is_cut || is_full;
            found.delegations.truncate(ALL_DELEGATIONS_MAX);
        }
        found.is_anothers &= found.delegations.is_empty();
        found
    }

    /// Returns what a route has from its Gateways, or from the HTTPRoutes above it.
    fn bases(&mut self, object: &Object) -> FoundBases {
        let Body::HttpRoute(route) = &object.body else { return FoundBases::default() };
        if is_attached(&**route) {
            return self.bases_at_gateways(object);
        }
        if self.chain.len() >= DEPTH_MAX {
            self.is_deep = true;
            return FoundBases::default();
        }
        self.chain.push(object.key.clone());
        let FoundAbove { delegations, closed, is_anothers } = self.above(object, route);
        self.chain.pop();
        let base = |from: RouteDelegation| DelegatingBase {
            chain: from.chain.clone(),
            parents: from.parents.clone(),
            from: Some(from),
        };
        let bases = FoundBases { served: delegations.into_iter().map(base).collect(), closed, is_anothers };
        match unserved(object) {
            Some(_) => FoundBases { closed: bases.closed(&object.key), served: Vec::new(), is_anothers },
            None => bases,
        }
    }

    /// Returns what a route has that is attached to Gateways.
    fn bases_at_gateways(&mut self, object: &Object) -> FoundBases {
        // The edges of these claims belong to the other route.
        let edges = self.reader.edges.len();
        let claims = claims::of_itself(&object.key, self.settings, self.reader);
        self.reader.edges.truncate(edges);
        let is_anothers = claims.as_ref().is_some_and(|claims| claims.anothers);
        let claims = claims.filter(|_| !is_anothers);
        let parents: Vec<Parent> = claims.into_iter().flat_map(|claims| claims.parents).collect();
        let served = match parents.iter().any(|parent| !parent.attachments.is_empty()) {
            true => vec![DelegatingBase { chain: Vec::new(), from: None, parents }],
            false => Vec::new(),
        };
        FoundBases { served, closed: None, is_anothers }
    }

    /// Reports what is left out above a route.
    fn report(self, object: &Object, faults: &mut Vec<Fault>) {
        let mut report = |reason: &'static str, message: String| {
            faults.push(Fault::new(&object.key, Class::Ignored, ABOVE, reason, message));
        };
        if let Some(chain) = self.cycle {
            let names: Vec<String> = chain.iter().map(ObjectKey::namespaced_name).collect();
            let message =
                format!("HTTPRoutes delegate to each other in a cycle, which is not served: {}", names.join(", "));
            report(CYCLE, message);
        }
        if self.is_deep {
            let message = format!(
                "more than {DEPTH_MAX} HTTPRoutes delegate to each other above the route; \
                 it is not served below these"
            );
            report(TOO_DEEP, message);
        }
        if self.is_many {
            let message = format!(
                "more than {DELEGATIONS_MAX} matches of one HTTPRoute, or {ALL_DELEGATIONS_MAX} of all, delegate to \
                 the route, or more than {ABOVE_MAX} HTTPRoutes are above it; it is not served below the rest: name \
                 the routes above in spec.parentRefs to exclude others"
            );
            report(TOO_MANY, message);
        }
    }
}

impl FoundBases {
    /// Returns what keeps requests from a route that the HTTPRoute `above`, which has these, selects.
    fn closed(&self, above: &ObjectKey) -> Option<ClosedAbove> {
        let gateways = self.gateways();
        let own = (!gateways.is_empty()).then(|| ClosedAbove { above: above.clone(), gateways });
        own.or_else(|| self.closed.clone())
    }

    /// Returns the Gateways above.
    fn gateways(&self) -> BTreeSet<ObjectKey> {
        let parents = self.served.iter().flat_map(|base| &base.parents);
        let gateways: BTreeSet<&ObjectKey> = parents.map(|parent| &parent.gateway).collect();
        gateways.into_iter().cloned().collect()
    }
}

/// Returns the matches of a route; `None` if some rules cannot be read.
fn written(object: &Object, regexes: &Regexes) -> Option<Vec<Match>> {
    let Body::HttpRoute(route) = &object.body else { return None };
    let rules = (0..route.rules.len()).map(|index| Some(http::read(index, rule_of(object, index)?, regexes).matches));
    let rules = rules.collect::<Option<Vec<_>>>()?;
    Some(rules.into_iter().flatten().map(|ranked| ranked.matches).collect())
}

/// What one route above has for another one.
#[derive(Default)]
struct FoundBelow {
    /// Its matches that delegate to the other one.
    delegations: Vec<RouteDelegation>,
    /// Whether some of these are left out.
    is_cut: bool,
    withheld: WithheldRequests,
}

/// Returns the matches of one route that delegate to another, [`DELEGATIONS_MAX`] at most for each way to that route.
/// Those without a match of the other route do not count; one of them is returned if there are no others, so that it can be
/// reported. `desired` is the desired version of that route if an earlier one is served.
fn delegations(
    object: &Object,
    (above, desired): (&Object, Option<&Object>),
    bases: &[DelegatingBase],
    settings: &Settings,
) -> FoundBelow {
    let all = matches_of(above, desired, settings);
    let selecting = all.selecting(object);
    let own = written(object, &regexes(settings));
    let with_rules = || all.matches.iter().map(|(precedence, matches)| (precedence.rule, &**matches));
    let giving = own.as_ref().map(|own| given::giving(with_rules(), own));
    let withheld = all.withheld(&selecting, (own.as_deref(), giving.as_ref()), !bases.is_empty());
    let (mut found, mut empty, mut is_cut) = (Vec::new(), None, false);
    let delegating = delegating(&all, &selecting);
    let prepared = PreparedMatches::of(bases.iter().filter_map(|base| base.from.as_ref()));
    let within = delegating.iter().map(|matched| RequestSet::new(&matched.within)).collect::<Vec<_>>();
    for base in bases {
        let at = found.len();
        // What the delegating route itself has; unset for an attached route, which has all its requests.
        let given = base.from.as_ref().and_then(|from| prepared.given(from));
        let is_given = |requests: &RequestSet<'_>| given.as_ref().is_none_or(|given| given.contain(requests));
        for (matched, _) in delegating.iter().zip(&within).filter(|(_, requests)| is_given(requests)) {
            let precedence = match &base.from {
                Some(from) => matched.precedence.clone().below(&from.precedence),
                None => matched.precedence.clone(),
            };
            let is_empty = giving.as_ref().is_some_and(|giving| !giving.contains(&matched.at));
            let delegation = || RouteDelegation {
                chain: base.chain.iter().cloned().chain([(above.key.clone(), matched.precedence.rule)]).collect(),
                within: matched.within.clone(),
                kept: matched.kept.clone(),
                precedence,
                is_empty,
                parents: base.parents.clone(),
            };
            match is_empty {
                true => drop(empty.get_or_insert_with(delegation)),
                false if found.len() - at >= DELEGATIONS_MAX => {
                    is_cut = true;
                    break;
                }
                false => found.push(delegation()),
            }
        }
        is_cut |= found.len() > ALL_DELEGATIONS_MAX;
        if is_cut && found.len() > ALL_DELEGATIONS_MAX {
            break;
        }
    }
    found.extend(empty.filter(|_| found.is_empty()));
    FoundBelow { delegations: found, is_cut, withheld }
}

/// The matches of a route with rules that delegate.
struct DelegatingRoute<'a> {
    above: &'a Object,
    /// The rules that cannot delegate, each with the field that keeps it from that.
    closed: BTreeMap<usize, String>,
    /// The rules of these with matches that cannot be used: it is unknown which requests they mean.
    unknown: BTreeSet<usize>,
    /// The matches of all rules that can be read, in the order of their precedence.
    matches: Vec<(Precedence, Arc<Match>)>,
    /// The matches of the other rules, as far as they can be read.
    unreadable: Vec<(usize, Match)>,
}

/// Returns the matches of a route with rules that delegate. Those of an earlier version yield where the desired version
/// does not claim them, as the rules of the route itself do.
fn matches_of<'a>(above: &'a Object, desired: Option<&Object>, settings: &Settings) -> DelegatingRoute<'a> {
    let today = desired.and_then(|desired| DesiredClaims::of(desired, settings));
    let (closed, unknown) = (BTreeMap::new(), BTreeSet::new());
    let mut all = DelegatingRoute { above, closed, unknown, matches: Vec::new(), unreadable: Vec::new() };
    let Body::HttpRoute(route) = &above.body else { return all };
    let regexes = regexes(settings);
    let unserved = || unserved(above).filter(|_| !is_attached(&**route)).map(|(field, _)| field.to_owned());
    let of_all = priority(above).err().map(|fault| fault.field).or_else(unserved);
    for (index, entry) in route.rules.iter().enumerate() {
        let section = format!("spec.{}", ObjectSection::Rule(index));
        let rule = match entry {
            RuleEntry::Decoded(rule) => rule,
            RuleEntry::Broken { matches, .. } => {
                let salvaged = http::salvage(matches, &regexes).into_iter();
                all.unreadable.extend(salvaged.map(|ranked| (index, ranked.matches)));
                all.closed.insert(index, section);
                continue;
            }
        };
        let read = http::read(index, rule, &regexes);
        let flaws: Vec<Flaw> = read.flaws.into_iter().chain(flaws(above, rule, &read.matches)).collect();
        let field = flaws.first().map(|flaw| format!("{section}.{}", flaw.field));
        all.closed.extend(of_all.clone().or(field).map(|field| (index, field)));
        all.unknown.extend(flaws.iter().any(|flaw| flaw.field.starts_with("matches")).then_some(index));
        for (entry, ranked) in read.matches.into_iter().enumerate() {
            let mut precedence = rule::precedence(above, index, entry, &ranked);
            if let Some(today) = &today {
                today.rank(index, &ranked.matches, &mut precedence);
            }
            all.matches.push((precedence, Arc::new(ranked.matches)));
        }
    }
    all.matches.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

impl DelegatingRoute<'_> {
    /// Returns the rules that select another route, whether they can delegate to it or not.
    fn selecting(&self, object: &Object) -> BTreeSet<usize> {
        let Body::HttpRoute(route) = &self.above.body else { return BTreeSet::new() };
        let selections = RouteSelection::containing(&object.key, &object.metadata.labels);
        let selects = |reference: &BackendRef| {
            let selection = RouteSelection::of(reference, &self.above.key.namespace);
            selection.is_some_and(|selection| selections.contains(&selection))
        };
        let rules = route.rules.iter().enumerate().filter(|(_, entry)| entry.backends().iter().any(selects));
        rules.map(|(index, _)| index).collect()
    }

    /// Returns the requests that the route does not give to another one with these matches, because a rule that selects it
    /// cannot delegate, or because the route gets no requests itself. `giving` are the matches that would give any.
    fn withheld(
        &self,
        selecting: &BTreeSet<usize>,
        (own, giving): (Option<&[Match]>, Option<&BTreeSet<usize>>),
        has_requests: bool,
    ) -> WithheldRequests {
        let is_withheld = |rule: &usize| selecting.contains(rule) && (!has_requests || self.closed.contains_key(rule));
        let field = selecting.iter().find_map(|rule| self.closed.get(rule)).cloned();
        let mut unknown = selecting.iter().filter(|rule| self.unknown.contains(rule));
        let (Some(own), Some(giving), None) = (own, giving, unknown.next()) else {
            return WithheldRequests { field, is_meant: selecting.iter().any(is_withheld) };
        };
        let own: Vec<RequestSet<'_>> = own.iter().map(RequestSet::new).collect();
        let is_within = |(rule, outer): &(usize, Match)| {
            let outer = RequestSet::new(outer);
            is_withheld(rule) && own.iter().any(|inner| inner.is_within(&outer))
        };
        let mut rules = giving.iter().filter_map(|index| self.matches.get(*index)).map(|(of, _)| &of.rule);
        let is_meant = rules.any(is_withheld) || self.unreadable.iter().any(is_within);
        WithheldRequests { field, is_meant }
    }
}

/// A match that delegates, without what is above its route.
struct DelegatingMatch {
    /// The index among all matches of the route.
    at: usize,
    within: Arc<Match>,
    kept: Arc<[Arc<Match>]>,
    precedence: Precedence,
}

/// Returns the matches of the rules that select another route and can delegate to it.
fn delegating(all: &DelegatingRoute<'_>, selecting: &BTreeSet<usize>) -> Vec<DelegatingMatch> {
    let can_delegate = |rule: usize| selecting.contains(&rule) && !all.closed.contains_key(&rule);
    let of_rules = all.matches.iter().enumerate().filter(|(_, (precedence, _))| can_delegate(precedence.rule));
    let found = of_rules.map(|(at, (precedence, within))| {
        let before = all.matches.iter().take(at).filter(|(other, _)| other.rule != precedence.rule);
        let kept = before.map(|(_, matches)| matches.clone()).collect();
        DelegatingMatch { at, within: within.clone(), kept, precedence: precedence.clone() }
    });
    found.collect()
}
