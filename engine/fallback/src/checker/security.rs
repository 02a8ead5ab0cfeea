//! Audit of protecting filters: every such filter that the desired version names is in the served route, or the
//! requests of the route get a direct response.
//!
//! Required filters are read from the written form of the desired object, even if it cannot be translated; actual
//! filters are read from the routes as they would be served. Filters are destructured exhaustively: a new filter does
//! not compile before it is classified here.

use std::collections::BTreeSet;

use gateway_api::httproutes::HttpRouteRulesFiltersRequestRedirectScheme as Written;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::filter::{FilterType as Kind, RouteFilter as Filter};
use holdfast_api::apis::gateway::references::BackendRef;
use holdfast_api::apis::gateway::route::{RouteRule as Filtered, RuleEntry};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_api::settings::Settings;
use holdfast_check::header;
use holdfast_envoy::features::redirect::Scheme;
use holdfast_envoy::model::table::TableName;
use holdfast_envoy::model::{Action, Route};
use holdfast_graph::{Node, ObjectKey};
use holdfast_translate::route::RoutePlan;

use super::meeting::may_meet;
use super::{About, Objection};

/// The protection of the backends and clients of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Security {
    /// The CORS filter with the origins that may read responses, in its written form.
    cors: Option<String>,
    /// The filter for external authorization, in its written form.
    auth: Option<String>,
    /// Whether the host header of clients is overwritten.
    rewrites_host: bool,
    /// Headers that clients cannot supply.
    cleansed: BTreeSet<String>,
    /// Headers that no backend receives from clients, because the filters of each backend remove or overwrite them.
    cleansed_at_backends: BTreeSet<String>,
    /// Headers that clients do not receive.
    withheld: BTreeSet<String>,
    /// Whether requests without TLS are redirected.
    tls_only: bool,
    /// Extensions that may be guards.
    extensions: BTreeSet<String>,
    /// The backends with the protection of their own filters, in order; empty if none has any.
    at_backends: Vec<(String, BackendSecurity)>,
    /// The indexes of the backends with weight 0, which have no share.
    without_share: BTreeSet<usize>,
    /// Policies that are attached to the rule by its name, or that the rule names.
    policies: BTreeSet<ObjectKey>,
    /// Whether the rule has filters that cannot be read.
    unreadable: bool,
}

/// The protection of the share of requests of one backend, by filters of this backend alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BackendSecurity {
    cors: Option<String>,
    auth: Option<String>,
    extensions: BTreeSet<String>,
    tls_only: bool,
    rewrites_host: bool,
}

impl Security {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the protection that filters require in their written form. A header that cannot be changed is no part of
    /// any version.
    fn written(filters: &[Filter]) -> Self {
        let mut security = Self::default();
        for filter in filters {
            let Filter {
                cors,
                extension_ref,
                external_auth,
                request_header_modifier,
                request_mirror: _,
                request_redirect,
                response_header_modifier,
                r#type,
                url_rewrite,
            } = filter;
            security.cors = cors.as_ref().map(|cors| format!("{cors:?}")).or(security.cors);
            let has_auth = external_auth.is_some() || *r#type == Kind::ExternalAuth;
            security.auth = has_auth.then(|| format!("{external_auth:?}")).or(security.auth);
            if let Some(edits) = request_header_modifier {
                let removed = edits.remove.iter().flatten().map(String::as_str);
                let overwritten = edits.set.iter().flatten().map(|header| header.name.as_str());
                let names = removed.chain(overwritten).map(str::trim);
                let names = names.filter(|name| header::modifiable_name(name).is_ok());
                security.cleansed.extend(names.map(str::to_ascii_lowercase));
            }
            if let Some(edits) = response_header_modifier {
                let names = edits.remove.iter().flatten().map(|name| name.trim());
                let names = names.filter(|name| header::modifiable_name(name).is_ok());
                security.withheld.extend(names.map(|name| name.to_ascii_lowercase()));
            }
            let name = extension_ref.as_ref().map(|named| format!("{} {}", named.kind, named.name));
            security.extensions.extend(name.or_else(|| (*r#type == Kind::ExtensionRef).then(String::new)));
            security.tls_only |= request_redirect.as_ref().is_some_and(|to| to.scheme == Some(Written::Https));
            security.rewrites_host |= url_rewrite.as_ref().is_some_and(|rewrite| rewrite.hostname.is_some());
        }
        security
    }

    /// Adds the protection that the filters of backends require in addition to those of their rule.
    fn with_backends(mut self, backends: &[BackendRef]) -> Self {
        let mut of_all: Option<BTreeSet<String>> = None;
        for (index, backend) in backends.iter().enumerate() {
            let BackendRef { group, kind, namespace, name, port, weight, filters } = backend;
            if *weight == Some(0) {
                self.without_share.insert(index);
            }
            let own = Self::written(filters.as_deref().unwrap_or_default());
            let Self { cors, auth, extensions, tls_only, rewrites_host, .. } = own;
            let filters = BackendSecurity { cors, auth, extensions, tls_only, rewrites_host };
            self.at_backends.push((format!("{group:?} {kind:?} {namespace:?} {name} {port:?}"), filters));
            of_all = Some(match of_all {
                Some(known) => known.intersection(&own.cleansed).cloned().collect(),
                None => own.cleansed,
            });
        }
        self.cleansed_at_backends = of_all.unwrap_or_default();
        if self.at_backends.iter().all(|(_, own)| *own == BackendSecurity::default()) {
            self.at_backends.clear();
            self.without_share.clear();
        }
        self
    }

    /// Returns the protection that a route with the share of one backend lacks. The backends of both versions must have
    /// the same filters, and the route must have those of its own backend.
    fn lacking_at_backend(&self, route: &Route, then: &Carried<'_>, plain: bool) -> Option<&'static str> {
        if self.at_backends.is_empty() {
            // The filter of a backend comes before that of the rule, and can allow more.
            let mut then = then.written.at_backends.iter();
            let allows = then.any(|(_, own)| own.cors.is_some() || !own.extensions.is_empty());
            return allows.then_some("the filters of each backendRef");
        }
        if self.at_backends != then.written.at_backends {
            return Some("the filters of each backendRef");
        }
        if then.written.without_share.contains(&route.precedence.share) {
            return None;
        }
        let (_, own) = then.written.at_backends.get(route.precedence.share)?;
        let to_tls = matches!(&route.action, Action::Redirect(to) if to.scheme == Some(Scheme::Https));
        let servers = usize::from(then.written.auth.is_some() && then.written.auth != own.auth) + 1;
        if own.auth.is_some() && !(is_authorized(route) && route.guards.rule_auth.len() >= servers) {
            return Some("external authorization of the backendRef");
        }
        if own.tls_only && plain && !to_tls {
            return Some("the redirect to https of the backendRef");
        }
        let Action::Forward(forward) = &route.action else { return None };
        if own.cors.is_some() && route.cors.is_none() {
            return Some("the filter CORS of the backendRef");
        }
        let keeps_host = own.rewrites_host && forward.rewrite.host.is_none();
        keeps_host.then_some("the host of the backendRef")
    }

    /// Returns, in a word, the protection that a route lacks; `None` if it lacks none. A route without a response from
    /// a backend needs less.
    fn lacking(&self, route: &Route, then: &Carried<'_>, plain: bool, settings: &Settings) -> Option<String> {
        let to_tls = match &route.action {
            Action::Respond(response) if is_closing(response.status, settings) => return None,
            Action::Redirect(redirect) => redirect.scheme == Some(Scheme::Https),
            Action::Respond(_) | Action::Forward(_) => false,
        };
        if self.tls_only && plain && !to_tls {
            return Some("the redirect to https".into());
        }
        // A redirect is for authorized requests only, too.
        if self.auth.is_some() && !(self.auth == then.written.auth && is_authorized(route)) {
            return Some("external authorization".into());
        }
        if let Some(lost) = self.lacking_at_backend(route, then, plain) {
            return Some(lost.into());
        }
        if !matches!(route.action, Action::Forward(_)) {
            return None;
        }
        if self.unreadable {
            return Some("settings that cannot be decoded".into());
        }
        if !self.extensions.is_subset(&then.written.extensions) {
            return Some("the extension".into());
        }
        if let Some(policy) = self.policies.iter().find(|policy| !then.policies.contains(*policy)) {
            return Some(format!("the policy {policy}"));
        }
        if self.cors.is_some() && (route.cors.is_none() || self.cors != then.written.cors) {
            return Some("the filter CORS".into());
        }
        let overwrites = |set: &[(std::sync::Arc<str>, std::sync::Arc<str>)], wanted: &str| {
            set.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        let removes = |removed: &[std::sync::Arc<str>], wanted: &str| {
            removed.iter().any(|name| name.eq_ignore_ascii_case(wanted))
        };
        let kept = |edits: &holdfast_envoy::features::headers::HeaderEdits, wanted: &&String| {
            !removes(&edits.remove, wanted) && !overwrites(&edits.set, wanted)
        };
        let Action::Forward(forward) = &route.action else { return None };
        let keeps_host = |name: &str| name == "host" && (forward.rewrite.host.is_some() || forward.rewrite.auto_host);
        let passes_rule = |name: &&String| kept(&route.request_headers, name) && !keeps_host(name);
        let host = "host".to_owned();
        let cleansed = self.cleansed.iter().chain(self.rewrites_host.then_some(&host));
        if let Some(name) = cleansed.into_iter().find(|name| passes_rule(name)) {
            return Some(format!("the removal of request header {name:?}"));
        }
        let passes = |name: &&String| {
            let to = forward.backends.iter().filter(|backend| backend.backend.is_some());
            kept(&route.request_headers, name) && to.into_iter().any(|backend| kept(&backend.request_headers, name))
        };
        if let Some(name) = self.cleansed_at_backends.iter().find(passes) {
            return Some(format!("the removal of request header {name:?} before any backend"));
        }
        let name = self.withheld.iter().find(|name| kept(&route.response_headers, name))?;
        Some(format!("the removal of response header {name:?}"))
    }
}

/// Checks whether a server has to allow each request of a route, as a filter of its rule.
fn is_authorized(route: &Route) -> bool {
    let servers = &route.guards.rule_auth;
    !servers.is_empty() && servers.iter().all(|auth| !auth.server.fail_open)
}

/// Properties of a served route besides its own content.
struct Carried<'r> {
    /// The protection that its rule requires in its written form.
    written: &'r Security,
    /// The policies that take part in the route.
    policies: &'r BTreeSet<ObjectKey>,
}

/// Checks whether a direct response exposes nothing. The response that operators configure for replaced rules counts as
/// such.
fn is_closing(status: u16, settings: &Settings) -> bool {
    status >= 400 || settings.replacement.as_ref().is_some_and(|replacement| replacement.code == status)
}

/// A version of a route object, in its written and its translated form.
pub(super) struct Form<'a> {
    plan: &'a RoutePlan,
    rules: Vec<Rule<'a>>,
}

struct Rule<'a> {
    name: Option<&'a str>,
    security: Security,
}

impl<'a> Form<'a> {
    pub(super) fn new(object: &'a Object, plan: &'a RoutePlan) -> Self {
        let rules = match &object.body {
            Body::HttpRoute(route) => rules(&route.rules, |rule| rule.name.as_deref()),
            Body::GrpcRoute(route) => rules(&route.rules, |rule| rule.name.as_deref()),
            _ => Vec::new(),
        };
        Self { plan, rules }
    }

    /// Adds the policies that guard each rule by its name.
    pub(super) fn guarded(mut self, policies: Vec<BTreeSet<ObjectKey>>) -> Self {
        self.rules.iter_mut().zip(policies).for_each(|(rule, policies)| rule.security.policies = policies);
        self
    }

    fn routes(&self) -> impl Iterator<Item = &'a Route> + use<'a> {
        self.plan.routes.iter().map(|rendered| &rendered.route)
    }

    fn name(&self, rule: usize) -> Option<&'a str> {
        self.rules.get(rule).and_then(|rule| rule.name)
    }
}

/// Returns the protection of each rule. Of a rule that does not decode, only the filters are read.
fn rules<'a, R: Filtered>(entries: &'a [RuleEntry<R>], name: impl Fn(&'a R) -> Option<&'a str>) -> Vec<Rule<'a>> {
    let rule = |entry: &'a RuleEntry<R>| match entry {
        RuleEntry::Decoded(rule) => {
            Rule { name: name(rule), security: Security::written(rule.filters()).with_backends(rule.backends()) }
        }
        RuleEntry::Broken { name, guards, .. } => {
            let security = guards.as_ref();
            let security = security.map(|rule| Security::written(rule.filters()).with_backends(rule.backends()));
            let security = security.unwrap_or_else(|| Security { unreadable: true, ..Security::default() });
            Rule { name: name.as_deref(), security }
        }
    };
    entries.iter().map(rule).collect()
}

/// Returns objections to units with requests that would pass without a filter that the desired version names for them.
///
/// A served route must have the protection of the rule that it is a form of, and of every other rule that would lose
/// requests to it.
pub(super) fn check(
    key: &ObjectKey,
    desired: &Form<'_>,
    served: &Form<'_>,
    settings: &Settings,
) -> BTreeSet<Objection> {
    let mut found = BTreeSet::new();
    if desired.rules.iter().all(|rule| rule.security.is_empty()) {
        return found;
    }
    let plain = served.plan.places.iter().any(|(_, table, _)| matches!(table, TableName::Port(_)));
    let both = Both { desired, served };
    let nothing = (Security::default(), BTreeSet::new());
    for route in served.routes() {
        let carried = Carried {
            written: served.rules.get(route.precedence.rule).map_or(&nothing.0, |rule| &rule.security),
            policies: served.plan.merged.get(&route.section).map_or(&nothing.1, |(policies, _)| policies),
        };
        for (index, rule) in desired.rules.iter().enumerate().filter(|(_, rule)| !rule.security.is_empty()) {
            let Some(lost) = rule.security.lacking(route, &carried, plain, settings) else { continue };
            if both.is_form_of(route, index) || both.gets_requests_of(route, index) {
                let node = Node::section(key.clone(), ObjectSection::Rule(route.precedence.rule).to_string());
                let why = format!("it lacks {lost}, which rule {index} of the current object requires");
                found.insert(Objection::new(node, About::Security, why));
            }
        }
    }
    found
}

/// Returns the protection of a desired rule that a route of another object lacks. `own`: the served form of that object;
/// `policies`: those that take part in the route.
pub(super) fn lacking_of_rule(
    (desired, index): (&Form<'_>, usize),
    own: &Form<'_>,
    route: &Route,
    policies: &BTreeSet<ObjectKey>,
    settings: &Settings,
) -> Option<String> {
    let nothing = Security::default();
    let written = own.rules.get(route.precedence.rule).map_or(&nothing, |rule| &rule.security);
    let plain = own.plan.places.iter().any(|(_, table, _)| matches!(table, TableName::Port(_)));
    let security = &desired.rules.get(index)?.security;
    security.lacking(route, &Carried { written, policies }, plain, settings)
}

/// Two versions of one route object.
struct Both<'a> {
    desired: &'a Form<'a>,
    served: &'a Form<'a>,
}

impl Both<'_> {
    /// Checks whether a served route is a form of this desired rule. Named rules are matched by name, others by index.
    fn is_form_of(&self, served: &Route, desired: usize) -> bool {
        match (self.served.name(served.precedence.rule), self.desired.name(desired)) {
            (None, None) => served.precedence.rule == desired,
            (served, desired) => served == desired,
        }
    }

    /// Checks whether a served route would receive requests of this desired rule, without being a form of it.
    fn gets_requests_of(&self, route: &Route, index: usize) -> bool {
        let mut wanted = self.desired.routes().filter(|wanted| wanted.precedence.rule == index);
        wanted.any(|wanted| {
            let own_today = || {
                self.is_left_out(route) && route.precedence < wanted.precedence
                    || self.desired.routes().any(|other| self.goes_before(other, wanted, route))
            };
            let own_served = || self.served.routes().any(|other| self.has_them_first(other, wanted, route));
            may_meet(&route.matches, &wanted.matches) && !own_today() && !own_served()
        })
    }

    /// Checks whether the requests of a served route go to another desired rule first: to an equal match, or to the
    /// route's own rule.
    fn goes_before(&self, other: &Route, wanted: &Route, route: &Route) -> bool {
        let own = self.is_form_of(route, other.precedence.rule) && may_meet(&other.matches, &route.matches);
        // For a match that cannot be served as written, only the placeholder ranks after other routes.
        let rank = if own && other.precedence.narrowed { &route.precedence } else { &other.precedence };
        (own || other.matches == route.matches)
            && other.precedence.rule != wanted.precedence.rule
            && *rank < wanted.precedence
    }

    /// Checks whether the desired version serves nothing for the rule that a served route is a form of. The matches of
    /// such a rule are unknown.
    fn is_left_out(&self, route: &Route) -> bool {
        let is_served = |rule: usize| self.desired.routes().any(|other| other.precedence.rule == rule);
        (0..self.desired.rules.len()).any(|rule| self.is_form_of(route, rule) && !is_served(rule))
    }

    /// Checks whether, in the served version, a form of the wanted rule or an equal match receives its requests first.
    fn has_them_first(&self, other: &Route, wanted: &Route, route: &Route) -> bool {
        other.precedence < route.precedence
            && may_meet(&other.matches, &wanted.matches)
            && (other.matches == wanted.matches || self.is_form_of(other, wanted.precedence.rule))
    }
}
