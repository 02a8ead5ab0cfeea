//! A root with its includes: its routes in order, and the findings about each of its HTTPProxies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::contour::http_proxy::{HttpProxy, ProxyEntry};
use holdfast_api::apis::contour::{self, condition::MatchCondition};
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::section::{ObjectSection, STREAM, is_of_host};
use holdfast_api::settings::{Replacement, Settings, body_for};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::rewrite::PathRewrite;
use holdfast_envoy::model::placeholder::{Placeholder, UNREADABLE_EXPRESSION};
use holdfast_envoy::model::table::TableName;
use holdfast_envoy::model::{
    Action, FixedResponse, Match, NamedMatch, PathMatch, PathRank, Precedence, Route, ValueMatch,
};
use holdfast_graph::{ObjectKey, Origins, Role};

use super::action::{self, Guard, Made, RouteFailure, Unit};
use super::{HOST, additions, host, is_ours, narrowed, policy};
use crate::annotations;
use crate::httpproxy::budgets::Budgets;
use crate::httpproxy::conditions::Conditions;
use crate::httpproxy::duplicates;
use crate::httpproxy::includes::{self, Leaf, Tree, What};
use crate::httpproxy::order::{Rank, RouteOrigin};
use crate::httpproxy::path::Path;
use crate::httpproxy::rewrite::{self, Served};
use crate::incremental::guard;
use crate::narrowing;
use crate::outcome::addition::Addition;
use crate::outcome::finding::{Finding, Level, NOT_READABLE};
use crate::outcome::host::HostClaim;
use crate::outcome::route::{Rendered, Replaced, RoutePlan};
use crate::overlay::{ClosedSections, Closing, Manner};
use crate::reader::{NOT_FOUND, Reader};

/// Response status of a route without any existing Service.
const SERVICE_MISSING: u16 = 503;
/// Response status without TLS of a host with a `tcpproxy` only.
const NOTHING_THERE: u16 = 404;
/// Response status of an include without a usable target.
const INCLUDE_MISSING: u16 = 502;

/// Closed units of all objects.
pub(crate) type ClosedUnits = BTreeMap<ObjectKey, ClosedSections>;

/// Translates a root; `None` if the object is not a root of a served class.
pub(crate) fn plan(
    key: &ObjectKey,
    closed: &ClosedUnits,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Option<RoutePlan> {
    let object = reader.object(key)?;
    let Body::HttpProxy(proxy) = &object.body else { return None };
    let claim = match reader.over {
        // The overlay may have another version of the certificate.
        Some(_) => Arc::new(host::claim(key, settings, reader)?),
        None => reader.outcome::<HostClaim>(key)?.clone(),
    };
    let claim = &*claim;
    let mut plan = RoutePlan { findings: claim.findings.clone(), ..RoutePlan::default() };
    let mut objects: BTreeMap<ObjectKey, Arc<Object>> = BTreeMap::from([(key.clone(), object.clone())]);
    let mut budgets = Budgets::new(narrowing::limits(settings));
    // The policies of the host are read first, so that routes cannot use up their budget.
    let mut of_host = Vec::new();
    let guard = policy::guard(key, proxy, &budgets.of(&[], key), settings, reader, &mut of_host);
    let tree = includes::read(key, proxy, closed, &mut budgets, &mut |child| {
        let object = reader.object(child).ok_or_else(|| reader.unfound(child))?;
        let Body::HttpProxy(proxy) = &object.body else { return Err(NOT_FOUND) };
        objects.insert(child.clone(), object.clone());
        is_ours(object, proxy, settings).then(|| proxy.clone()).ok_or(NOT_FOUND)
    });
    record_includes(key, &tree, reader);
    plan.findings.extend(tree.findings.into_iter().chain(objects.values().flat_map(about_annotations)));
    let (leaves, duplicates) = ranked(key, tree.leaves, &tree.members, settings, reader);
    plan.findings.extend(duplicates);
    plan.members = tree.members;
    if let Some(stream) = claim.tls.as_ref().and_then(|tls| tls.stream.as_ref()) {
        plan.members.extend(stream.members.iter().cloned());
        let backends = stream.to.iter().flat_map(|stream| &stream.backends);
        plan.backends.extend(backends.filter_map(|(backend, _)| backend.clone()));
    }
    place(&mut plan, claim);
    let context = Routes { objects: &objects, closed, guard: guard.as_ref().ok(), proxy, settings };
    let mut made = context.make(&leaves, &mut budgets, reader, &mut plan.findings);
    let replacements: Vec<_> =
        made.iter_mut().map(|one| one.as_mut().ok().and_then(|made| made.replacement.take())).collect();
    let mut served = rewrite::expand(&leaves, &replacements);
    for served in &mut served {
        let is_narrowed =
            matches!(made.get(served.index), Some(Err(RouteFailure::Closed(Closing { how: Manner::Narrowed, .. }))));
        // The conditions are all that an include can be refused for.
        if is_narrowed || context.is_closed_include(served.leaf) {
            narrowed::narrow(served);
        }
    }
    served.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let additions = guard.as_ref().map(|guard| additions::of_host(key, guard)).unwrap_or_default();
    let host = Host { key, object, settings, claim, wildcard: one_label(proxy), additions };
    let of_closed = closed.get(key).into_iter().flatten().find(|(section, _)| is_of_host(section));
    let shut = claim.closed || guard.is_err() || of_closed.is_some();
    if shut {
        let closing = of_closed.map(|(_, closing)| &*closing.message);
        host.close(closing, if claim.closed { &claim.findings } else { &of_host }, &mut plan);
    } else {
        plan.host.rate_limit = guard.ok().and_then(|guard| guard.local).map(Box::new);
    }
    for (place, served) in served.iter().enumerate().filter(|_| !shut) {
        let Some(made) = made.get(served.index) else { continue };
        let owner = objects.get(&served.leaf.owner).unwrap_or(object);
        host.route(place, served, owner, made, &mut plan);
    }
    if plan.routes.is_empty() && claim.tls.as_ref().is_some_and(|tls| tls.stream.is_some()) {
        host.keep(&mut plan);
    }
    plan.findings.extend(of_host);
    put_in_order(&mut plan);
    Some(plan)
}

/// Returns the warnings about annotations without effect.
fn about_annotations(object: &Arc<Object>) -> impl Iterator<Item = Finding> {
    let found = annotations::of_proxy(object).into_iter();
    found.map(|(field, message)| Finding::warning(&object.key, field, "SpecError", "IgnoredField", message))
}

/// Sorts the findings, and derives the faults from them.
fn put_in_order(plan: &mut RoutePlan) {
    plan.findings.sort_unstable();
    plan.findings.dedup();
    // Decoding has reported unreadable parts already.
    plan.faults = plan.findings.iter().filter(|finding| finding.reason != NOT_READABLE).map(Finding::fault).collect();
    plan.replaced.sort_unstable();
    plan.replaced.dedup();
}

/// Records the includes of a tree as edges.
fn record_includes(root: &ObjectKey, tree: &Tree, reader: &mut Reader<'_>) {
    for (includer, index, included) in &tree.includes {
        reader.edge(includer, ObjectSection::Include(*index).to_string(), included, Role::Mentions);
        // If the including HTTPProxy is closed, the included one is closed as well.
        if tree.members.contains(included) {
            match includer == root {
                true => reader.edge_to_section(included, includer, HOST, Role::Attaches),
                false => reader.edge(included, "", includer, Role::Attaches),
            }
        }
    }
}

/// Returns the leaves of a tree without duplicates, and the findings about duplicates. Leaves that only a stand-in
/// version of an HTTPProxy has yield to the leaves that are claimed today.
fn ranked(
    root: &ObjectKey,
    leaves: Vec<Leaf>,
    members: &BTreeSet<ObjectKey>,
    settings: &Settings,
    reader: &Reader<'_>,
) -> (Vec<Leaf>, Vec<Finding>) {
    let today = TodaysRoutes::of(root, members, settings, reader);
    let is_stand_in = |leaf: &Leaf| reader.over.is_some_and(|over| over.objects.contains_key(&leaf.owner));
    let is_claimed =
        |leaf: &Leaf| !is_stand_in(leaf) || today.written.contains(&(leaf.owner.clone(), leaf.conditions.clone()));
    let (mut leaves, duplicates) = duplicates::judge(leaves, is_claimed);
    for leaf in leaves.iter_mut().filter(|leaf| leaf.origin == RouteOrigin::Written && !is_claimed(leaf)) {
        leaf.origin = given_up(leaf, &today, reader);
    }
    (leaves, duplicates)
}

/// Context of the translation of the routes of a tree.
struct Routes<'a> {
    objects: &'a BTreeMap<ObjectKey, Arc<Object>>,
    closed: &'a ClosedUnits,
    /// Policies of the host; unset if they cannot be enforced.
    guard: Option<&'a Guard>,
    /// The root.
    proxy: &'a HttpProxy,
    settings: &'a Settings,
}

impl Routes<'_> {
    /// Translates the route of each leaf.
    fn make(
        &self,
        leaves: &[Leaf],
        budgets: &mut Budgets,
        reader: &mut Reader<'_>,
        findings: &mut Vec<Finding>,
    ) -> Vec<Result<Made, RouteFailure>> {
        let mut all = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let section = leaf.what.section().to_string();
            let made = self.readable(leaf, &section).and_then(|route| {
                let regexes = budgets.of(&leaf.ancestors, &leaf.owner);
                let unit = Unit { leaf, section: &section, regexes: &regexes };
                action::make(&unit, route, self.guard, self.settings, reader, findings)
            });
            all.push(made);
        }
        all
    }

    /// Checks whether a leaf is an include that is closed, whatever its target.
    fn is_closed_include(&self, leaf: &Leaf) -> bool {
        let units = self.closed.get(&leaf.owner);
        matches!(leaf.what, What::Include { .. })
            && units.is_some_and(|units| units.contains_key(&*leaf.what.section().to_string()))
    }

    /// Returns the route of a leaf, or why it cannot be translated.
    fn readable(&self, leaf: &Leaf, section: &str) -> Result<&contour::route::ProxyRoute, RouteFailure> {
        let closing = self.closed.get(&leaf.owner).and_then(|units| units.get(section));
        match (&leaf.what, closing) {
            // An include is left out only where even the answer for it was refused.
            (What::Include { .. }, Some(closing)) if closing.how != Manner::LeftOut => {
                Err(RouteFailure::Include(closing.message.clone(), Class::Invalid))
            }
            (_, Some(closing)) => Err(RouteFailure::Closed(closing.clone())),
            (What::Include { message, class, .. }, None) => Err(RouteFailure::Include(message.clone(), *class)),
            (What::Closed { why, .. }, None) => Err(RouteFailure::Guarded(why.clone())),
            (What::Route { index, broken: Some(why) }, None) => {
                let entry = entry(&leaf.owner, *index, self.objects);
                // A protected route must not be replaced by a broader route, even if replacement is disabled.
                match self.guard.is_none() || entry.is_none_or(ProxyEntry::names_guard) || self.proxy.host_names_guard()
                {
                    true => Err(RouteFailure::Guarded(why.clone())),
                    false => Err(RouteFailure::Invalid(why.clone())),
                }
            }
            (What::Route { broken: None, .. }, None) => {
                written(leaf, self.objects).ok_or_else(|| RouteFailure::Invalid("it could not be read".into()))
            }
        }
    }
}

/// The routes that HTTPProxies with a stand-in version have today.
#[derive(Default)]
struct TodaysRoutes {
    /// The conditions of the routes that can be read.
    written: HashSet<(ObjectKey, Conditions)>,
    /// The indexes of the routes that cannot be read as they are written.
    broken: HashSet<(ObjectKey, usize)>,
}

impl TodaysRoutes {
    fn of(key: &ObjectKey, members: &BTreeSet<ObjectKey>, settings: &Settings, reader: &Reader<'_>) -> Self {
        let Some(over) = reader.over else { return Self::default() };
        let is_stand_in = |owner: &ObjectKey| over.objects.contains_key(owner);
        let proxy = |key: &ObjectKey| match reader.objects.get(key).map(|object| (object, &object.body)) {
            Some((object, Body::HttpProxy(proxy))) if is_ours(object, proxy, settings) => Some(proxy.clone()),
            _ => None,
        };
        let Some(root) = proxy(key).filter(|_| members.iter().any(is_stand_in)) else { return Self::default() };
        let (open, mut budgets) = (ClosedUnits::new(), Budgets::new(narrowing::limits(settings)));
        let tree = includes::read(key, &root, &open, &mut budgets, &mut |child| proxy(child).ok_or(NOT_FOUND));
        let mut today = Self::default();
        for leaf in tree.leaves.into_iter().filter(|leaf| is_stand_in(&leaf.owner)) {
            if let What::Route { index, broken: Some(_) } = leaf.what {
                today.broken.insert((leaf.owner.clone(), index));
            }
            if leaf.origin == RouteOrigin::Written {
                today.written.insert((leaf.owner, leaf.conditions));
            }
        }
        today
    }
}

/// Returns the rank of a route that exists in the stand-in version of its HTTPProxy only: after all routes that are
/// claimed today. If the desired route at its index cannot be read, or has a regex that an Envoy may refuse, the rank
/// is after equal routes.
fn given_up(leaf: &Leaf, today: &TodaysRoutes, reader: &Reader<'_>) -> RouteOrigin {
    let What::Route { index, .. } = leaf.what else { return leaf.origin };
    let Some(Body::HttpProxy(desired)) = reader.objects.get(&leaf.owner).map(|object| &object.body) else {
        return RouteOrigin::Placeholder;
    };
    if today.broken.contains(&(leaf.owner.clone(), index)) {
        return RouteOrigin::Placeholder;
    }
    let has_regex = |condition: &MatchCondition| {
        let MatchCondition { prefix: _, exact: _, regex, header, query_parameter } = condition;
        let of_header = header.as_ref().and_then(|header| header.regex.as_ref());
        let of_query = query_parameter.as_ref().and_then(|query| query.regex.as_ref());
        regex.as_ref().or(of_header).or(of_query).is_some_and(|pattern| !pattern.is_empty())
    };
    match desired.routes.get(index) {
        Some(ProxyEntry::Broken { .. }) => RouteOrigin::Placeholder,
        Some(ProxyEntry::Decoded(route)) if route.conditions.iter().flatten().any(has_regex) => {
            RouteOrigin::Placeholder
        }
        Some(ProxyEntry::Decoded(_)) | None => RouteOrigin::Last,
    }
}

/// Returns the plan of a root after a failed translation: its host is closed.
pub(crate) fn failed(object: &Object, claim: Option<&HostClaim>, settings: &Settings) -> Option<RoutePlan> {
    let claim = claim?;
    let fault = guard::fault(&object.key);
    let found = Finding::error(&object.key, "", "VirtualHostError", "InternalError", &fault.message);
    let mut plan = RoutePlan { findings: vec![found], ..RoutePlan::default() };
    plan.members.insert(object.key.clone());
    place(&mut plan, claim);
    let host = Host { key: &object.key, object, settings, claim, wildcard: None, additions: Vec::new() };
    host.close(Some(&fault.message), &[], &mut plan);
    plan.faults.push(fault);
    Some(plan)
}

/// Adds the route tables that serve the host.
fn place(plan: &mut RoutePlan, claim: &HostClaim) {
    let (Some(host), Some(seats)) = (&claim.host, &claim.seats) else { return };
    let http = seats.http.map(TableName::Port);
    let tls = claim.tls.as_ref().filter(|tls| tls.has_routes());
    let https = seats.https.as_ref().zip(tls).map(|(seat, tls)| {
        let nameless = seat.nameless.iter().filter(|_| tls.is_served_to_nameless());
        nameless.chain([&seat.name]).map(|name| TableName::Listener(name.clone()))
    });
    let tables = http.into_iter().chain(https.into_iter().flatten());
    plan.places.extend(tables.map(|table| (seats.gateway.clone(), table, host.clone())));
}

fn rank<'a>(served: &'a Served<'_>) -> Rank<'a> {
    Rank { conditions: &served.conditions, origin: served.origin }
}

fn written<'a>(leaf: &Leaf, objects: &'a BTreeMap<ObjectKey, Arc<Object>>) -> Option<&'a contour::route::ProxyRoute> {
    let What::Route { index, .. } = leaf.what else { return None };
    match entry(&leaf.owner, index, objects)? {
        ProxyEntry::Decoded(route) => Some(route),
        ProxyEntry::Broken { .. } => None,
    }
}

fn entry<'a>(
    owner: &ObjectKey,
    index: usize,
    objects: &'a BTreeMap<ObjectKey, Arc<Object>>,
) -> Option<&'a ProxyEntry<contour::route::ProxyRoute>> {
    match &objects.get(owner)?.body {
        Body::HttpProxy(proxy) => proxy.routes.get(index),
        _ => None,
    }
}

/// Returns whether the path of a route is written as a regular expression.
fn has_expression(leaf: &Leaf, owner: &Object) -> bool {
    let What::Route { index, .. } = leaf.what else { return false };
    let Body::HttpProxy(proxy) = &owner.body else { return false };
    let conditions: &[MatchCondition] = match proxy.routes.get(index) {
        Some(ProxyEntry::Decoded(route)) => route.conditions.as_deref().unwrap_or_default(),
        Some(ProxyEntry::Broken { conditions, .. }) => conditions,
        None => return false,
    };
    conditions.iter().any(|condition| condition.regex.as_ref().is_some_and(|pattern| !pattern.is_empty()))
}

/// Returns the match of a wildcard host for one label only; Envoy's own wildcard matches several labels.
fn one_label(proxy: &HttpProxy) -> Option<NamedMatch> {
    let suffix = proxy.virtual_host.as_ref()?.fqdn.strip_prefix('*')?;
    let pattern = format!("(?i)[a-z0-9]([-a-z0-9]*[a-z0-9])?{}(:[0-9]+)?", regex_syntax::escape(suffix));
    Some(NamedMatch::new(":authority", ValueMatch::Regex(pattern.into())))
}

/// Context of the translation of a host's routes.
struct Host<'a> {
    key: &'a ObjectKey,
    object: &'a Object,
    settings: &'a Settings,
    claim: &'a HostClaim,
    wildcard: Option<NamedMatch>,
    /// What the host adds to its routes.
    additions: Vec<Arc<Addition>>,
}

impl Host<'_> {
    /// Closes the whole host, because of the fallback, or of the first error among the findings about the host.
    fn close(&self, closing: Option<&str>, of_host: &[Finding], plan: &mut RoutePlan) {
        let mut errors = of_host.iter().filter(|finding| finding.level == Level::Error);
        let message = closing.or_else(|| errors.next().map(|finding| &*finding.message));
        let message = message.unwrap_or("the host cannot be served").to_owned();
        plan.replaced.push(Replaced {
            policy: None,
            object: self.key.clone(),
            section: HOST.to_owned(),
            response: Some(self.settings.closed_status),
            class: Class::Invalid,
            message,
            lacks_backend: false,
        });
        let response = FixedResponse::new(
            self.settings.closed_status,
            body_for(&self.settings.missing_backend_body, &self.key.kind),
        );
        let name = names::proxy_route(self.key, HOST, 0, false);
        let route = self.bare(0, name, HOST, self.object, Match::any(), Action::Respond(response));
        plan.routes.push(Arc::new(Rendered::new(route)));
    }

    /// Keeps a host without routes, so that its requests without TLS are not served by a wildcard host.
    fn keep(&self, plan: &mut RoutePlan) {
        let name = names::proxy_route(self.key, STREAM, 0, false);
        let nothing = Action::Respond(FixedResponse::new(NOTHING_THERE, "".into()));
        let route = self.bare(0, name, STREAM, self.object, Match::any(), nothing);
        plan.routes.push(Arc::new(Rendered::new(route)));
    }

    fn route(
        &self,
        place: usize,
        served: &Served<'_>,
        owner: &Object,
        made: &Result<Made, RouteFailure>,
        plan: &mut RoutePlan,
    ) {
        let leaf = served.leaf;
        let section = leaf.what.section().to_string();
        let implicit = served.origin == RouteOrigin::Implicit;
        let name = names::proxy_route(&leaf.owner, &section, leaf.instance, implicit);
        let mut matches = self.matches(served);
        let mut placeholder = None;
        let action = match made {
            Ok(made) => {
                let mut action = made.action.clone();
                if let (Action::Forward(forward), Some(new)) = (&mut action, &served.replacement) {
                    forward.rewrite.path = Some(PathRewrite::Prefix(new.clone()));
                }
                plan.backends.extend(made.backends.iter().cloned());
                action
            }
            Err(problem) => {
                if let RouteFailure::Closed(Closing { how: Manner::Narrowed, .. }) = problem {
                    matches.headers.retain(|header| &*header.name != ":authority");
                }
                let (class, response, message) = self.answer(problem);
                plan.replaced.push(Replaced {
                    policy: None,
                    object: leaf.owner.clone(),
                    section: section.clone(),
                    response: response.as_ref().map(|response| response.status),
                    class,
                    message,
                    lacks_backend: matches!(problem, RouteFailure::NoService(_)),
                });
                placeholder = self.placeholder(served, owner, problem, &matches);
                let Some(response) = response else { return };
                Action::Respond(response)
            }
        };
        let mut route = self.bare(place, name, &section, owner, matches, action);
        let has_conditions = !(served.conditions.headers.is_empty() && served.conditions.query.is_empty());
        if served.origin == RouteOrigin::Last
            && matches!(&route.matches.path, PathMatch::Text(path) if **path == *"/")
            && !has_conditions
        {
            // Several such routes keep their order.
            (route.precedence.path, route.precedence.entry) = (PathRank::Last, place);
        }
        route.placeholder = placeholder;
        let ancestors: Origins = leaf.ancestors.iter().cloned().collect();
        route.origins = ancestors.with(leaf.owner.clone());
        if let Ok(made) = made {
            route.request_headers = made.request_headers.clone().into();
            route.response_headers = made.response_headers.clone().into();
            route.cors = made.cors.clone().map(Box::new);
            route.ip_filter.clone_from(&made.ip_filter);
            route.rate_limit = made.rate_limit.clone().map(Box::new);
            route.guards = made.guards.clone().into();
            route.cookies.clone_from(&made.cookies);
        }
        let insecure =
            made.as_ref().is_ok_and(|made| made.permit_insecure) || matches!(made, Err(RouteFailure::Include(..)));
        if self.claim.tls.is_some() && !insecure {
            route.secure_port = self.claim.seats.as_ref().and_then(|seats| Some(seats.https.as_ref()?.seen_port));
        }
        let rendered = additions::rendered(route, self.additions.iter().chain(&*leaf.additions));
        plan.routes.push(Arc::new(rendered));
    }

    /// Returns the facts about the conditions of a broken route as written; `None` if they are served as written.
    fn placeholder(
        &self,
        served: &Served<'_>,
        owner: &Object,
        problem: &RouteFailure,
        matches: &Match,
    ) -> Option<Placeholder> {
        let is_guarded = match problem {
            RouteFailure::Invalid(_) => false,
            RouteFailure::Guarded(_) | RouteFailure::Closed(_) => true,
            RouteFailure::Include(..) | RouteFailure::NoService(_) => return None,
        };
        let is_narrowed = matches!(served.origin, RouteOrigin::Placeholder | RouteOrigin::Beginning(_));
        let is_expression_kept =
            matches!(served.conditions.path, Path::Regex(_)) && !matches!(served.origin, RouteOrigin::Beginning(_));
        let path = match &matches.path {
            PathMatch::Text(text) if text.len() > 1 && has_expression(served.leaf, owner) => UNREADABLE_EXPRESSION,
            PathMatch::Regex(_) if !is_expression_kept => UNREADABLE_EXPRESSION,
            PathMatch::Regex(pattern) => PathRank::Regex(Reverse(pattern.chars().count())),
            PathMatch::Exact(_) => PathRank::Exact,
            PathMatch::Text(text) | PathMatch::Prefix(text) => PathRank::Prefix(Reverse(text.chars().count())),
        };
        is_narrowed.then_some(Placeholder { path, is_guarded })
    }

    /// Returns the response that replaces a route.
    fn answer(&self, problem: &RouteFailure) -> (Class, Option<FixedResponse>, String) {
        let fixed =
            |status| Some(FixedResponse::new(status, body_for(&self.settings.missing_backend_body, &self.key.kind)));
        let replaced = |replacement: &Option<Replacement>| {
            replacement
                .as_ref()
                .map(|replacement| FixedResponse::new(replacement.code, body_for(&replacement.body, &self.key.kind)))
        };
        match problem {
            RouteFailure::Include(message, class) => (*class, fixed(INCLUDE_MISSING), message.to_string()),
            RouteFailure::NoService(message) => (Class::Referential, fixed(SERVICE_MISSING), message.to_string()),
            RouteFailure::Invalid(message) => {
                (Class::Invalid, replaced(&self.settings.replacement), message.to_string())
            }
            // A protected route is answered even if replacement is disabled.
            RouteFailure::Guarded(message) => {
                let always = self.settings.replacement.clone().or_else(|| Some(Replacement::default()));
                (Class::Invalid, replaced(&always), message.to_string())
            }
            RouteFailure::Closed(closing) => {
                let always = self.settings.replacement.clone().or_else(|| Some(Replacement::default()));
                let response = if closing.how == Manner::LeftOut { None } else { replaced(&always) };
                (Class::Invalid, response, closing.message.to_string())
            }
        }
    }

    fn matches(&self, served: &Served<'_>) -> Match {
        let path = match &served.conditions.path {
            Path::Exact(path) => PathMatch::Exact(path.clone()),
            Path::Regex(pattern) => PathMatch::Regex(pattern.clone()),
            Path::Prefix(prefix) => PathMatch::Text(prefix.clone()),
        };
        let headers = self.wildcard.iter().chain(&served.conditions.headers).cloned().collect();
        let query = served.conditions.query.iter().cloned().collect();
        Match { path, method: None, headers, query, grpc: false }
    }

    fn bare(&self, place: usize, name: String, section: &str, owner: &Object, matches: Match, action: Action) -> Route {
        let precedence = Precedence {
            lent: false,
            above: Vec::new(),
            path: PathRank::Placed(place),
            any_method: true,
            headers: Reverse(0),
            query: Reverse(0),
            narrowed: false,
            age: owner.age(),
            rule: 0,
            entry: 0,
            share: 0,
            kind: owner.key.kind.clone(),
        };
        Route::bare(owner.key.clone(), name.into(), precedence, matches, action, section.into())
    }
}
