//! Filters that are in a filter chain only because its routes use them, and the guard of the chain.
//!
//! Listeners and routes reach an Envoy one after the other, and a connection keeps the filter chain that it was
//! accepted with. Envoy accepts per-route settings for a filter that is not in the chain, and enforces nothing.
//! Therefore every chain names its filters, and the guard, a filter that is in every chain, refuses (403) every request
//! to a route unless all filters of the route are in the chain.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::{Identifier, Set};
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::envoy::extensions::filters::http::set_filter_state::v3::Config as SetFilterState;
use envoy_types::pb::envoy::r#type::matcher::v3::filter_state_matcher::Matcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{FilterStateMatcher, StringMatcher};
use envoy_types::pb::google::protobuf::Any;
use holdfast_graph::ObjectKey;
use holdfast_xds::Resource;

use super::ext_auth::AuthServer;
use super::ext_proc::{FilterPlace, ProcessingService};
use super::filter_state;
use super::jwt::JwtFilter;
use super::oauth2::Login;
use super::rate_limit::RateLimitService;
use super::remote::Remote;
use crate::encode::any;

/// Name of the guard in every chain, and key of its per-route settings.
pub const GUARD: &str = "holdfast.guard";
/// Name of the filter that publishes the names of the chain's filters, and the filter state key of these names.
pub(crate) const NAMES: &str = "holdfast.filters";

/// A filter that routes use. The order of the variants is the order of the filters in a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChainFilter {
    /// External authorization.
    ExtAuth(Arc<AuthServer>),
    /// OAuth 2.0 login.
    OAuth2(Arc<Login>),
    /// JWT authentication.
    Jwt(Arc<JwtFilter>),
    /// Global rate limiting.
    RateLimit(Arc<RateLimitService>),
    /// External processing of requests and responses.
    ExtProc(Arc<ProcessingService>),
}

impl ChainFilter {
    /// Returns the filter's name in the chain.
    pub fn name(&self) -> &str {
        match self {
            ChainFilter::ExtAuth(server) => &server.name,
            ChainFilter::Jwt(filter) => &filter.name,
            ChainFilter::RateLimit(service) => &service.name,
            ChainFilter::OAuth2(login) => &login.name,
            ChainFilter::ExtProc(service) => &service.name,
        }
    }

    /// Returns the filter's place, where its kind has no fixed place in the chain.
    pub fn place(&self) -> Option<FilterPlace> {
        if let ChainFilter::ExtProc(service) = self { Some(service.place) } else { None }
    }

    /// Returns the external services that the filter calls.
    pub fn remotes(&self) -> Vec<&Remote> {
        match self {
            ChainFilter::ExtAuth(server) => vec![&server.remote],
            ChainFilter::Jwt(filter) => filter.remotes(),
            ChainFilter::RateLimit(service) => vec![&service.remote],
            ChainFilter::OAuth2(login) => vec![&login.remote],
            ChainFilter::ExtProc(service) => vec![&service.remote],
        }
    }

    /// Returns the objects that configure the filter.
    pub fn owners(&self) -> &[ObjectKey] {
        match self {
            ChainFilter::ExtAuth(server) => &server.owners,
            ChainFilter::Jwt(filter) => &filter.owners,
            ChainFilter::RateLimit(service) => &service.owners,
            ChainFilter::OAuth2(login) => std::slice::from_ref(&login.owner),
            ChainFilter::ExtProc(service) => &service.owners,
        }
    }

    /// Returns the Secrets that Envoy needs for the filter.
    pub fn secrets(&self) -> Vec<Resource> {
        if let ChainFilter::OAuth2(login) = self { login.secrets().into() } else { Vec::new() }
    }

    /// Returns the Envoy configuration, and whether the filter is disabled until a route enables it.
    pub fn encode(&self) -> (Any, bool) {
        match self {
            ChainFilter::ExtAuth(server) => (any(&server.encode()), true),
            // Without per-route settings these two filters let every request pass.
            ChainFilter::Jwt(filter) => (filter.encode(), false),
            ChainFilter::RateLimit(service) => (any(&service.encode()), false),
            ChainFilter::OAuth2(login) => (any(&login.encode()), true),
            ChainFilter::ExtProc(service) => (any(&service.encode()), true),
        }
    }
}

/// Returns the filters of a chain, one for each name. Two different filters with the same name are both left out: the
/// guard refuses requests to the routes that use them, until the two agree.
pub fn agreed<'a>(filters: impl IntoIterator<Item = &'a ChainFilter>) -> Vec<ChainFilter> {
    let mut by_name: BTreeMap<&str, Option<&ChainFilter>> = BTreeMap::new();
    for filter in filters {
        by_name
            .entry(filter.name())
            .and_modify(|known| *known = known.filter(|known| *known == filter))
            .or_insert(Some(filter));
    }
    let mut agreed: Vec<ChainFilter> = by_name.into_values().flatten().cloned().collect();
    agreed.sort_unstable();
    agreed
}

/// Returns the guard's per-route settings, which require that the chain names all of these filters.
pub fn demand(filters: &[&str]) -> RbacPerRoute {
    let named = |name: &&str| Principal {
        identifier: Some(Identifier::FilterState(FilterStateMatcher {
            key: NAMES.into(),
            matcher: Some(Matcher::StringMatch(StringMatcher {
                match_pattern: Some(MatchPattern::Contains(format!("|{name}|"))),
                ..Default::default()
            })),
        })),
    };
    let all = Identifier::AndIds(Set { ids: filters.iter().map(named).collect() });
    let policy = Policy {
        permissions: vec![Permission { rule: Some(Rule::Any(true)) }],
        principals: vec![Principal { identifier: Some(all) }],
        ..Default::default()
    };
    RbacPerRoute {
        rbac: Some(Rbac {
            rules: Some(Rules {
                action: Action::Allow.into(),
                policies: HashMap::from([("filters".to_owned(), policy)]),
                ..Default::default()
            }),
            ..Default::default()
        }),
    }
}

/// Returns the filter that publishes the names of the chain's filters to the guard.
pub fn naming(filters: &[ChainFilter]) -> SetFilterState {
    let names: String = filters.iter().map(|filter| format!("{}|", filter.name())).collect();
    filter_state::keeps(NAMES, format!("|{}", names.replace('%', "%%")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::call_options::CallOptions;
    use crate::features::ext_auth::AuthProtocol;
    use crate::features::remote::{DnsHost, Family};

    fn server(name: &str, fail_open: bool) -> Arc<AuthServer> {
        let remote =
            DnsHost { host: "auth.example.com".into(), port: 80, family: Family::Auto, tls: None, loopback: false };
        Arc::new(AuthServer {
            name: name.into(),
            owners: vec![],
            remote: Remote::Host(Arc::new(remote)),
            call_options: CallOptions::default(),
            spoken: AuthProtocol::Grpc,
            timeout: std::time::Duration::from_secs(1),
            fail_open,
            body: None,
            headers: vec![],
            status_on_error: None,
            stat_prefix: None,
        })
    }

    #[test]
    fn of_two_filters_of_one_name_that_differ_neither_is_there() {
        let [a, b, laxer] = [("a", false), ("b", false), ("b", true)]
            .map(|(name, fail_open)| ChainFilter::ExtAuth(server(name, fail_open)));
        assert_eq!(agreed([&b, &a, &b]), [a.clone(), b.clone()]);
        assert_eq!(agreed([&b, &a, &laxer, &b]), [a]);
    }
}
