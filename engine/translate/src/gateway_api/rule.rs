//! Rules of routes: conversion of matches, filters and backends to routes, or to a replacement.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault, at};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::{Settings, body_for};
use holdfast_envoy::encode::names;
use holdfast_envoy::features::Flaw;
use holdfast_envoy::features::retry::RouteRetryPolicy;
use holdfast_envoy::features::session::PersistentSession;
use holdfast_envoy::features::timeout::RouteTimeouts;
use holdfast_envoy::model::{Action, BackendCluster, FixedResponse, Forward, PathMatch, PathRank, Precedence, Route};
use holdfast_graph::{ObjectKey, Origins};

use super::filters::{Allowed, Filters, ReadFor};
use super::session::{self, ReadSession};
use super::share::{self, RuleShare};
use super::weighted::{self, Resolved};
use crate::backend_policy::backend::{Refused, Sent};
use crate::narrowing;
use crate::narrowing::Ranked;
use crate::outcome::policy::Unenforceable;
use crate::outcome::route::Replaced;
use crate::outcome::setting::PolicySetting;
use crate::overlay::{Closing, Manner};
use crate::policy::route::{Attached, OfRule};
use crate::precedence::NOT_ENFORCED;
use crate::precedence::merge::Origins as PolicyOrigins;
use crate::reader::Reader;

/// A rule of an HTTPRoute or GRPCRoute, read.
pub(crate) struct ReadRule<'a> {
    /// The index of the rule.
    pub(crate) index: usize,
    /// The name of the rule.
    pub(crate) name: Option<&'a str>,
    /// The matches, never empty.
    pub(crate) matches: Vec<Ranked>,
    /// The filters that the kind of route supports.
    pub(crate) allowed: Allowed,
    /// The filters.
    pub(crate) filters: Filters,
    /// The backends as written.
    pub(crate) backends: &'a [BackendRef],
    /// The timeouts.
    pub(crate) timeouts: RouteTimeouts,
    /// The retries.
    pub(crate) retry: Option<RouteRetryPolicy>,
    /// The session persistence.
    pub(crate) session: Option<ReadSession>,
    /// The flaws that keep the rule from being served.
    pub(crate) flaws: Vec<Flaw>,
    /// The flaws of what is not served in a rule that is served.
    pub(crate) ignored: Vec<Flaw>,
}

/// The outcome of a rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) routes: Vec<Route>,
    /// The same routes without policy settings; empty where no policy applies.
    pub(crate) bare: Vec<Route>,
    /// The policy fields that apply to the routes.
    pub(crate) policy_settings: BTreeSet<PolicySetting>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) replaced: Option<Replaced>,
    pub(crate) backends: BTreeSet<BackendCluster>,
    /// The origin of each merged field, where policies are attached to the rule.
    pub(crate) of_policies: Option<PolicyOrigins>,
    /// The policies that are attached to the rule.
    pub(crate) policies: BTreeSet<ObjectKey>,
}

/// Returns the status that Gateway API requires for missing backends: 500; for gRPC calls `UNAVAILABLE`, which Envoy
/// derives from 503.
fn missing_backend_status(route: &Object) -> u16 {
    if &*route.key.kind == kinds::GRPC_ROUTE { 503 } else { 500 }
}

/// Translates a rule.
pub(crate) fn translate(
    object: &Object,
    mut rule: ReadRule<'_>,
    attached: &Attached<'_>,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> Outcome {
    let section = ObjectSection::Rule(rule.index).to_string();
    let field = format!("spec.{section}");
    let mut resolved = backends_of(object, &section, &rule, reader);
    let answers = rule.filters.extensions.iter().any(|named| named.kind == kinds::DIRECT_RESPONSE);
    let (shares, faults) = share::read(object, &section, &mut rule, &mut resolved, attached, reader);
    let mut outcome = Outcome { faults, ..Outcome::default() };
    let (session, mut flawed) = session_and_flaws(object, &field, &mut rule, &mut resolved, &mut outcome.faults);
    note(&shares, &resolved, &mut outcome);
    let origins: Vec<Origins> = shares.iter().map(|share| share.origins(object)).collect();
    let origins = Origins::union(&origins);
    let guarded = object.body.names_guard(Some(rule.index)) || !outcome.policies.is_empty();
    let place = Place { object, index: rule.index, name: rule.name, origins, is_guarded: guarded };
    let flaws = answer_flaws(&shares, answers && !rule.backends.is_empty());
    flawed = flawed.or(reported(object, &field, &flaws, &mut outcome.faults));
    // Requests must not pass without their protection, whatever the operator has configured.
    let settings = if guarded { &answering(settings) } else { settings };
    if let Some(message) = flawed {
        return broken(place, &rule.matches, section, message, settings, outcome);
    }
    if let Some((share, (policy, why))) =
        shares.iter().find_map(|share| share.policies.closed.as_ref().map(|closed| (share, closed)))
    {
        return not_enforced(place, &rule.matches, &share.policies, (policy, why), settings, outcome);
    }
    let forward = Forward { timeouts: rule.timeouts, retry: rule.retry, session, ..Forward::default() };
    let is_without_backends = rule.backends.is_empty();
    let shares: Vec<(RuleShare, ServedShare)> = shares
        .into_iter()
        .map(|mut share| {
            let served =
                serve(&place, &mut share, &mut resolved, (&forward, is_without_backends), settings, &mut outcome);
            (share, served)
        })
        .collect();
    let has_settings = shares.iter().filter(|(_, served)| !served.is_cleared);
    outcome.policy_settings = has_settings.flat_map(|(share, _)| share.policies.policy_settings.clone()).collect();
    for (entry, ranked) in rule.matches.iter().enumerate() {
        for (share, served) in &shares {
            let route = place.route(entry, ranked, served.action.clone());
            add(route, share, served, &place, &mut outcome);
        }
    }
    outcome
}

/// Resolves the backends of a rule with their filters.
fn backends_of(object: &Object, section: &str, rule: &ReadRule<'_>, reader: &mut Reader<'_>) -> Resolved {
    let paths: Vec<&PathMatch> = rule.matches.iter().map(|ranked| &ranked.matches.path).collect();
    let context = ReadFor { allowed: rule.allowed, paths: &paths };
    weighted::resolve(&object.key, section, rule.backends, (Sent::Requests, Some(context)), reader)
}

/// Adds the faults of references, and the policies, to the outcome of a rule.
fn note(shares: &[RuleShare], resolved: &Resolved, outcome: &mut Outcome) {
    let servers = shares.iter().filter_map(|share| share.auth.as_ref().err()).map(|refused| &refused.fault);
    let policies = shares.iter().flat_map(|share| &share.policies.faults);
    // What the rule itself names is the same for all shares.
    for fault in resolved.faults.iter().chain(servers).chain(policies) {
        if !outcome.faults.contains(fault) {
            outcome.faults.push(fault.clone());
        }
    }
    for share in shares.iter().filter(|share| !share.policies.keys.is_empty()) {
        let all = outcome.of_policies.get_or_insert_default();
        for (field, origins) in &share.policies.merged.origins {
            let known = all.entry(*field).or_default();
            known.extend(origins.iter().filter(|key| !known.contains(key)).cloned().collect::<Vec<_>>());
        }
        outcome.policies.extend(share.policies.keys.iter().cloned());
    }
}

/// Returns the flaws of DirectResponses beside what else would answer the same requests.
fn answer_flaws(shares: &[RuleShare], is_beside_backends: bool) -> Vec<Flaw> {
    let both = |share: &&RuleShare| share.policies.answer.is_some() && share.filters.redirect.is_some();
    let mut flaws: Vec<Flaw> = shares
        .iter()
        .filter_map(|share| Some((share.only?, share)))
        .filter(|(_, share)| both(share))
        .map(|(only, _)| {
            let message = "a backendRef that names a DirectResponse can have no redirect";
            Flaw::new(format!("{}.filters", at("backendRefs", only.index)), message)
        })
        .collect();
    let has_answer = shares.iter().any(|share| share.policies.answer.is_some());
    if has_answer && (is_beside_backends || shares.iter().any(|share| share.only.is_none() && both(&share))) {
        let message = "a rule that names a DirectResponse can have neither backendRefs nor a redirect";
        flaws.push(Flaw::new("filters", message));
    }
    flaws
}

/// How a share of requests is served.
struct ServedShare {
    action: Action,
    /// Whether the action replaces what the share would get, so that no filter applies.
    is_cleared: bool,
}

/// Returns how a share of the requests of a rule is served.
fn serve(
    place: &Place<'_>,
    share: &mut RuleShare,
    resolved: &mut Resolved,
    (forward, is_without_backends): (&Forward, bool),
    settings: &Settings,
    outcome: &mut Outcome,
) -> ServedShare {
    if let Err(refused) = &share.auth {
        return ServedShare { action: without_server(place, refused, settings, outcome), is_cleared: true };
    }
    let backends = match share.only {
        None => std::mem::take(&mut resolved.backends),
        Some(only) => resolved.backends.get(only.position).cloned().into_iter().collect(),
    };
    let is_missing = share.only.is_some() && backends.iter().all(|backend| backend.backend.is_none());
    let own = match (share.filters.redirect.take(), &share.policies.answer) {
        _ if is_missing => None,
        (Some(redirect), _) => Some(Action::Redirect(redirect)),
        (None, Some((_, response))) => Some(Action::Respond(response.clone())),
        (None, None) => None,
    };
    if let Some(action) = own {
        return ServedShare { action, is_cleared: false };
    }
    let (rewrite, mirrors) = (share.filters.rewrite.clone(), std::mem::take(&mut share.mirrors));
    let forward = Forward { rewrite, mirrors, backends, ..forward.clone() };
    let action = forward_or_answer(place, resolved, forward, is_without_backends, settings, outcome);
    ServedShare { is_cleared: matches!(action, Action::Respond(_)), action }
}

/// Adds a route of a share to the outcome of its rule.
fn add(mut route: Route, share: &RuleShare, served: &ServedShare, place: &Place<'_>, outcome: &mut Outcome) {
    let has_policies = !outcome.policy_settings.is_empty();
    share.narrow(place.object, &mut route);
    if !served.is_cleared {
        route.request_headers = share.filters.request_headers.clone().into();
        route.response_headers = share.filters.response_headers.clone().into();
        route.cors = share.filters.cors.clone().map(Box::new);
        if let Ok(auth) = &share.auth
            && !auth.is_empty()
        {
            route.guards.rule_auth.clone_from(auth);
        }
    }
    // Each route has one without policy settings, or none of the rule has.
    outcome.bare.extend(has_policies.then(|| route.clone()));
    if !served.is_cleared {
        share.policies.apply(place.object, place.index, place.name, &mut route);
    }
    outcome.routes.push(route);
}

/// Reports the flaws of a rule and its backends. Returns the session persistence, and the first flaw as a sentence.
fn session_and_flaws(
    object: &Object,
    field: &str,
    rule: &mut ReadRule<'_>,
    resolved: &mut Resolved,
    faults: &mut Vec<Fault>,
) -> (Option<PersistentSession>, Option<String>) {
    let (mut flaws, mut ignored) = (std::mem::take(&mut rule.flaws), std::mem::take(&mut rule.ignored));
    flaws.append(&mut resolved.flaws);
    let default_name = || names::session(&object.key, rule.index, rule.name);
    let read = rule.session.take();
    let session = read.and_then(|read| session::of_rule(read, &resolved.backends, default_name, &mut ignored));
    let flawed = reported(object, field, &flaws, faults);
    if flawed.is_none() {
        let not_served = (Class::Ignored, "NotServed");
        faults.extend(ignored.iter().map(|flaw| fault_of(object, field, flaw, not_served)));
    }
    (session, flawed)
}

/// Reports the flaws of a rule, and returns the first one as a sentence.
pub(super) fn reported(object: &Object, field: &str, flaws: &[Flaw], faults: &mut Vec<Fault>) -> Option<String> {
    let before = faults.len();
    let unsupported = (Class::Invalid, "UnsupportedValue");
    faults.extend(flaws.iter().map(|flaw| fault_of(object, field, flaw, unsupported)));
    faults.get(before).map(Fault::sentence)
}

/// Returns the fault of a field of a rule, of this class and reason.
fn fault_of(object: &Object, rule: &str, flaw: &Flaw, (class, reason): (Class, &'static str)) -> Fault {
    Fault::new(&object.key, class, format!("{rule}.{}", flaw.field), reason, flaw.message.clone())
}

/// Returns the response to requests with an authorization server that cannot be used: that of a rule without a backend.
fn without_server(place: &Place<'_>, refused: &Refused, settings: &Settings, outcome: &mut Outcome) -> Action {
    let Refused { fault, policy } = refused;
    // The setting for invalid routes does not change this status.
    let status = missing_backend_status(place.object);
    let kind = &policy.as_ref().unwrap_or(&fault.object).kind;
    outcome.replaced.get_or_insert_with(|| Replaced {
        object: place.object.key.clone(),
        section: place.section(),
        response: Some(status),
        class: fault.class,
        message: fault.sentence(),
        lacks_backend: fault.is_missing_backend(),
        policy: policy.clone(),
    });
    Action::Respond(FixedResponse::new(status, body_for(&settings.missing_backend_body, kind)))
}

/// Translates a rule with a policy that cannot be enforced: it is replaced by a direct response.
pub(super) fn not_enforced(
    place: Place<'_>,
    matches: &[Ranked],
    attached: &OfRule,
    (policy, why): (&ObjectKey, &Unenforceable),
    settings: &Settings,
    mut outcome: Outcome,
) -> Outcome {
    let message = format!("{} {}: {}", policy.kind, policy.namespaced_name(), why.message);
    let section = place.section();
    if attached.faults.is_empty() {
        let field = format!("spec.{section}");
        let fault = Fault::new(&place.object.key, why.class, field, NOT_ENFORCED, &message);
        outcome.faults.push(fault.caused_by(Some(policy.clone())));
    }
    let settings = answering(settings);
    let fault = Replaced {
        object: place.object.key.clone(),
        section,
        response: None,
        class: why.class,
        message,
        policy: Some(policy.clone()),
        lacks_backend: false,
    };
    replaced(place, matches, fault, &why.kind, &settings, outcome)
}

/// Returns the action of a rule that forwards requests; without any usable backend, a direct response.
fn forward_or_answer(
    place: &Place<'_>,
    resolved: &Resolved,
    forward: Forward,
    is_without_backends: bool,
    settings: &Settings,
    outcome: &mut Outcome,
) -> Action {
    let (object, section) = (place.object, place.section());
    let missing = resolved.faults.first().map(|fault| format!("{}: {}", fault.field, fault.message));
    let lacks_backend = resolved.faults.iter().filter(|fault| fault.is_error()).all(Fault::is_missing_backend);
    let status = missing_backend_status(object);
    let answered = |message: String| Replaced {
        object: object.key.clone(),
        section: section.clone(),
        response: Some(status),
        class: Class::Referential,
        message,
        policy: resolved.policy.clone(),
        lacks_backend,
    };
    if forward.backends.iter().any(|backend| backend.backend.is_some()) {
        let gets_requests = forward.backends.iter().any(|backend| backend.backend.is_none());
        if let Some(message) = missing.filter(|_| gets_requests) {
            outcome.replaced.get_or_insert_with(|| answered(message));
        }
        outcome.backends.extend(forward.backends.iter().filter_map(|backend| backend.backend.clone()));
        outcome.backends.extend(forward.mirrors.iter().map(|mirror| mirror.backend.clone()));
        return Action::Forward(Box::new(forward));
    }
    // The setting for invalid routes does not change this status. A missing backend with weight 0 is not the cause.
    let message = missing.filter(|_| !forward.backends.is_empty()).unwrap_or_else(|| {
        let why = if is_without_backends { "the rule has no backendRefs" } else { "all backendRefs have weight 0" };
        let message = format!("{why}, so that requests are answered with status {status}");
        let field = format!("spec.{section}");
        let full_message = format!("{field}: {message}");
        outcome.faults.push(Fault::new(&object.key, Class::Ignored, field, "NoBackends", message));
        full_message
    });
    let kind = resolved.policy.as_ref().unwrap_or(&object.key).kind.clone();
    outcome.replaced.get_or_insert_with(|| answered(message));
    Action::Respond(FixedResponse::new(status, body_for(&settings.missing_backend_body, &kind)))
}

/// Translates an unreadable rule: it is replaced by a direct response at the same matches, or left out.
pub(crate) fn unreadable(
    object: &Object,
    index: usize,
    name: Option<&str>,
    matches: &[Ranked],
    message: String,
    (is_guarded, settings): (bool, &Settings),
) -> Outcome {
    let answering = is_guarded.then(|| answering(settings));
    let settings = answering.as_ref().unwrap_or(settings);
    // Nothing is known of the filters that protect it.
    let place = Place { object, index, name, origins: Origins::one(object.key.clone()), is_guarded: true };
    broken(place, matches, ObjectSection::Rule(index).to_string(), message, settings, Outcome::default())
}

/// Returns a rule with nothing readable but its index and name.
pub(crate) fn nothing_known<'a>(index: usize, name: Option<&'a str>) -> ReadRule<'a> {
    let (filters, timeouts) = (Filters::default(), RouteTimeouts::default());
    ReadRule {
        index,
        name,
        matches: vec![Ranked::last()],
        allowed: Allowed::Http,
        filters,
        backends: &[],
        timeouts,
        retry: None,
        session: None,
        flaws: Vec::new(),
        ignored: Vec::new(),
    }
}

/// Translates a rule that Envoy refuses as written: it is replaced by a direct response, or left out.
pub(crate) fn closed(
    object: &Object,
    rule: &ReadRule<'_>,
    closing: &Closing,
    has_policies: bool,
    settings: &Settings,
) -> Outcome {
    let origins = Origins::one(object.key.clone());
    let is_guarded = has_policies || object.body.names_guard(Some(rule.index));
    let place = Place { object, index: rule.index, name: rule.name, origins, is_guarded };
    let section = ObjectSection::Rule(rule.index).to_string();
    let narrowed: Vec<Ranked>;
    let matches = match closing.how {
        Manner::AsWritten => &rule.matches,
        Manner::Narrowed => {
            narrowed = rule.matches.iter().map(narrowing::narrowed).collect();
            &narrowed
        }
        Manner::LeftOut => &Vec::new(),
    };
    let answering = answering(settings);
    let mut outcome = broken(place, matches, section, closing.message.to_string(), &answering, Outcome::default());
    if let (Manner::LeftOut, Some(replaced)) = (closing.how, &mut outcome.replaced) {
        replaced.response = None;
    }
    outcome
}

/// Returns settings for a unit that must not be left out: it is answered even where replacement is disabled.
pub(super) fn answering(settings: &Settings) -> Settings {
    let replacement = settings.replacement.clone().unwrap_or_default();
    Settings { replacement: Some(replacement), ..settings.clone() }
}

pub(super) fn broken(
    place: Place<'_>,
    matches: &[Ranked],
    section: String,
    message: String,
    settings: &Settings,
    outcome: Outcome,
) -> Outcome {
    let (object, class) = (place.object.key.clone(), Class::Invalid);
    let fault = Replaced { object, section, response: None, class, message, policy: None, lacks_backend: false };
    let kind = fault.object.kind.clone();
    replaced(place, matches, fault, &kind, settings, outcome)
}

/// Replaces a rule by a direct response. Its body names the kind of the object to edit.
fn replaced(
    place: Place<'_>,
    matches: &[Ranked],
    fault: Replaced,
    kind: &str,
    settings: &Settings,
    mut outcome: Outcome,
) -> Outcome {
    let response = settings
        .replacement
        .as_ref()
        .map(|replacement| FixedResponse::new(replacement.code, body_for(&replacement.body, kind)));
    let code = response.as_ref().map(|response| response.status);
    outcome.replaced = Some(Replaced { response: code, ..fault });
    for (entry, ranked) in matches.iter().enumerate() {
        let Some(response) = response.clone() else { break };
        outcome.routes.push(place.route(entry, ranked, Action::Respond(response)));
    }
    outcome
}

/// The position of a rule in its object.
pub(super) struct Place<'a> {
    pub(super) object: &'a Object,
    pub(super) index: usize,
    pub(super) name: Option<&'a str>,
    pub(super) origins: Origins,
    /// Whether a policy or a filter protects the rule, or may protect it.
    pub(super) is_guarded: bool,
}

impl Place<'_> {
    fn section(&self) -> String {
        ObjectSection::Rule(self.index).to_string()
    }

    pub(super) fn route(&self, entry: usize, ranked: &Ranked, action: Action) -> Route {
        let precedence = precedence(self.object, self.index, entry, ranked);
        let (key, matches) = (self.object.key.clone(), ranked.matches.clone());
        let name = names::route(&key, self.index, self.name, entry).into();
        let section = self.section().into();
        let (origins, placeholder) = (self.origins.clone(), ranked.placeholder(self.is_guarded));
        Route { origins, placeholder, ..Route::bare(key, name, precedence, matches, action, section) }
    }
}

/// Returns the precedence of a match of a rule.
pub(super) fn precedence(object: &Object, rule: usize, entry: usize, ranked: &Ranked) -> Precedence {
    Precedence {
        lent: false,
        above: Vec::new(),
        path: ranked.rank,
        any_method: ranked.matches.method.is_none(),
        headers: Reverse(ranked.matches.headers.len()),
        query: Reverse(ranked.matches.query.len()),
        narrowed: ranked.narrowed,
        age: object.age(),
        rule,
        entry,
        share: 0,
        kind: object.key.kind.clone(),
    }
}

/// Returns the rank of a path in the order of Gateway API; regular expressions rank between exact paths and prefixes.
pub(crate) fn rank(path: &PathMatch) -> PathRank {
    match path {
        PathMatch::Exact(_) => PathRank::Exact,
        PathMatch::Regex(pattern) => PathRank::Regex(Reverse(pattern.chars().count())),
        PathMatch::Prefix(prefix) | PathMatch::Text(prefix) => {
            PathRank::Prefix(Reverse(prefix.trim_end_matches('/').chars().count()))
        }
    }
}
