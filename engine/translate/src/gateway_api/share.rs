//! Shares of the requests of a rule: all of them, or one for each backend where a backend has filters that need an Envoy
//! route of their own.
//!
//! Envoy's weighted clusters only change headers. A share has the filters of its rule and those of its backend: of
//! redirects, rewrites and CORS, the backend's setting applies; authorization, mirrors and header changes add up.

use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::ext_auth::RouteExtAuth;
use holdfast_envoy::features::mirror::Mirror;
use holdfast_envoy::features::share::RouteShare;
use holdfast_envoy::model::Route;
use holdfast_graph::Origins;

use super::filters::Filters;
use super::rule::ReadRule;
use super::weighted::Resolved;
use crate::backend_policy::backend::Refused;
use crate::policy::route::{Attached, OfRule};
use crate::reader::Reader;

/// The requests of a rule that are served alike.
pub(super) struct RuleShare {
    /// The backend that all of these requests go to; unset for all requests of the rule.
    pub(super) only: Option<OnlyBackend>,
    /// The filters.
    pub(super) filters: Filters,
    /// The policies.
    pub(super) policies: OfRule,
    pub(super) mirrors: Vec<Mirror>,
    /// External authorization; an error if a server cannot be used.
    pub(super) auth: Result<Vec<RouteExtAuth>, Box<Refused>>,
}

/// The only backend of a share.
#[derive(Clone, Copy)]
pub(super) struct OnlyBackend {
    /// Its position among the backends with a weight.
    pub(super) position: usize,
    /// The index of its reference in the rule.
    pub(super) index: usize,
    /// Its part of the requests; unset if it gets all of them.
    range: Option<RouteShare>,
}

impl RuleShare {
    /// Returns the objects that the routes of the share come from.
    pub(super) fn origins(&self, object: &Object) -> Origins {
        let answer = self.policies.answer.as_ref().map(|(key, _)| key);
        let policies = self.policies.keys.iter().chain(&self.policies.secrets).chain(answer);
        policies.fold(Origins::one(object.key.clone()), |origins, key| origins.with(key.clone()))
    }

    /// Makes a route of the whole rule one of the share.
    pub(super) fn narrow(&self, object: &Object, route: &mut Route) {
        let Some(only) = self.only else { return };
        route.precedence.share = only.index;
        route.share = only.range;
        route.origins = self.origins(object);
        if only.range.is_some() {
            route.name = names::route_share(&route.name, only.index).into();
        }
    }
}

/// Reads the shares of a rule.
pub(super) fn read(
    object: &Object,
    section: &str,
    rule: &mut ReadRule<'_>,
    resolved: &mut Resolved,
    attached: &Attached<'_>,
    reader: &mut Reader<'_>,
) -> (Vec<RuleShare>, Vec<Fault>) {
    let mut faults = Vec::new();
    let mut shares = Vec::new();
    for (only, mut filters) in divided(std::mem::take(&mut rule.filters), resolved) {
        let policies = attached.of_rule(object, rule.index, rule.name, &filters.extensions, reader);
        let mirrors = filters.mirrors(&object.key, section, reader, &mut faults);
        let auth = filters.auth(&object.key, section, reader);
        let own = only.and_then(|only| resolved.backends.get(only.position));
        // Without a cluster, only the route itself can change headers of the response.
        if let Some(own) = own.filter(|_| filters.redirect.is_some() || policies.answer.is_some()) {
            filters.response_headers = filters.response_headers.followed_by(&own.response_headers);
        }
        shares.push(RuleShare { only, filters, policies, mirrors, auth });
    }
    (shares, faults)
}

/// Returns the filters of each share. Requests for a backend that does not exist get the same answer with any filters.
fn divided(rule: Filters, resolved: &mut Resolved) -> Vec<(Option<OnlyBackend>, Filters)> {
    let own = std::mem::take(&mut resolved.filters);
    let is_alike = !own.iter().any(|(_, filters)| filters.has_more_than_headers());
    if is_alike || resolved.backends.iter().all(|backend| backend.backend.is_none()) {
        return vec![(None, rule)];
    }
    let weights: Vec<u32> = resolved.backends.iter().map(|backend| backend.weight).collect();
    let ranges = RouteShare::of(&weights);
    let is_divided = own.len() > 1;
    let shares = own.into_iter().zip(ranges).enumerate();
    let share = |(position, ((index, own), range))| {
        let only = OnlyBackend { position, index, range: Some(range).filter(|_| is_divided) };
        (Some(only), rule.clone().with_backend(own))
    };
    shares.map(share).collect()
}
