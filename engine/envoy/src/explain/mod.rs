//! What happens to one request and why, computed from published resources alone: listener, filter chain, virtual host,
//! routes and answer, in the order in which a request travels.
//!
//! The rules are those of Envoy's router, evaluated over the messages that Envoy receives. Of what Envoy decides in HTTP
//! filters, only conditions on requests are evaluated; other filters that may answer the request are named. Where a condition cannot be evaluated, the result is
//! unknown and never a guess. Regular expressions are evaluated by the crate `regex`: its syntax includes most of the
//! syntax of RE2, and the result is unknown for the rest. `\d`, `\w`, `\s` and `\b` differ for characters outside of
//! ASCII.

pub mod answer;
pub mod chain;
mod condition;
pub mod connection;
pub mod grpc;
mod guards;
pub mod host;
pub mod matching;
pub mod redirect;
pub mod request;
pub mod shares;
pub mod text;

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use holdfast_graph::ObjectKey;
use holdfast_xds::{ResourceType, Snapshot};
use prost::Message;
use serde::Serialize;

use self::answer::ExplainedAnswer;
use self::chain::{ChainCandidate, ChainEnd};
use self::host::ChosenHost;
use self::matching::{Fit, ReceivedRequest};
use self::request::ExplainRequest;
use self::shares::FoundShares;
use crate::encode::names;
use crate::inspect::chains;

/// The way of a request through published resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The listener, if there is one at the port.
    pub listener: Option<String>,
    /// The filter chains of the listener.
    pub chains: Vec<ChainCandidate>,
    /// Whether the filter chain that is used connects only clients with a certificate that it accepts. Such a certificate
    /// is assumed.
    pub requires_client_certificate: bool,
    /// Changes of the request before it is routed: its host, its path.
    pub changes: Vec<String>,
    /// The route configuration.
    pub route_configuration: Option<String>,
    /// The virtual host.
    pub virtual_host: Option<ChosenHost>,
    /// The routes of the virtual host in Envoy's order, up to the route that matches.
    pub routes: Vec<RouteCandidate>,
    /// The number of routes after the route that matches.
    pub later_routes: usize,
    /// The kinds of HTTP filters that may answer the request before the route that matches does, such as `ext_authz`; they
    /// are not evaluated.
    pub may_answer: BTreeSet<String>,
    /// The result.
    pub answer: ExplainedAnswer,
}

/// A route that was compared with the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteCandidate {
    /// The name of the route.
    pub name: String,
    /// The object that owns the route.
    pub object: Option<ObjectKey>,
    /// The rule of the object: `rules[1]`, the name of a rule, or `routes[1]` of an HTTPProxy.
    pub rule: Option<String>,
    /// The conditions of the match.
    pub conditions: String,
    /// The first reason why the route does not match; unset if it matches.
    pub why_not: Option<String>,
}

/// Returns the way of a request through the resources of one Gateway.
pub fn explain(resources: &Snapshot, request: &ExplainRequest) -> Explanation {
    let mut way = Explanation {
        listener: None,
        chains: Vec::new(),
        requires_client_certificate: false,
        changes: Vec::new(),
        route_configuration: None,
        virtual_host: None,
        routes: Vec::new(),
        later_routes: 0,
        may_answer: BTreeSet::new(),
        answer: ExplainedAnswer::NoConnection { why: format!("no listener has port {}", request.port) },
    };
    let listeners = resources.of(ResourceType::Listener).values();
    let mut listeners = listeners.filter_map(|resource| Listener::decode(&*resource.body).ok());
    let Some(listener) = listeners.find(|listener| chain::port(listener) == Some(request.port.into())) else {
        return way;
    };
    way.listener = Some(listener.name.clone());
    let (chains, chosen) = chain::choose(&listener, request);
    way.chains = chains;
    way.requires_client_certificate = chosen.as_ref().is_ok_and(|chain| chains::requires_client_certificate(chain));
    way.answer = match chosen.map_or_else(ChainEnd::Closed, |chain| chain::end(chain, request)) {
        ChainEnd::Closed(why) => ExplainedAnswer::NoConnection { why },
        ChainEnd::Stream(clusters) => answer::stream(&clusters, resources),
        ChainEnd::Http(manager) => match connection::receive(&manager, request, &mut way.changes) {
            Ok(routed) if grpc::is_call(&routed.content_type()) => {
                routed_by(&manager, &routed, resources, &mut way).of_call()
            }
            Ok(routed) => routed_by(&manager, &routed, resources, &mut way),
            Err(answer) => answer,
        },
    };
    way
}

/// Returns the answer of the routes of a connection manager.
fn routed_by(
    manager: &HttpConnectionManager,
    routed: &ReceivedRequest,
    resources: &Snapshot,
    way: &mut Explanation,
) -> ExplainedAnswer {
    let published;
    let configuration = match &manager.route_specifier {
        Some(RouteSpecifier::RouteConfig(configuration)) => configuration,
        Some(RouteSpecifier::Rds(rds)) => {
            way.route_configuration = Some(rds.route_config_name.clone());
            let resource = resources.get(ResourceType::Route, &rds.route_config_name);
            match resource.and_then(|resource| RouteConfiguration::decode(&*resource.body).ok()) {
                Some(found) => {
                    published = found;
                    &published
                }
                None => return ExplainedAnswer::not_found("the route configuration is not published".into()),
            }
        }
        _ => return ExplainedAnswer::Unknown { why: "routes are selected by scope, which is not evaluated".into() },
    };
    let Some((host, chosen)) = host::choose(configuration, &routed.host) else {
        return ExplainedAnswer::not_found(format!("no virtual host is for {}", routed.host));
    };
    way.virtual_host = Some(chosen);
    let mut shares = FoundShares::default();
    for (index, route) in host.routes.iter().enumerate() {
        let fit = route
            .r#match
            .as_ref()
            .map_or_else(|| Fit::No("the route has no match".into()), |wanted| matching::fit(wanted, routed));
        let (why_not, answer) = match fit {
            Fit::No(why) => (Some(why), None),
            Fit::Yes => {
                let levels = [
                    &route.typed_per_filter_config,
                    &host.typed_per_filter_config,
                    &configuration.typed_per_filter_config,
                ];
                let may_answer = guards::may_answer(levels);
                let has_its_headers = may_answer.is_empty() && manager.early_header_mutation_extensions.is_empty();
                let verdict = guards::verdict(levels, routed, has_its_headers);
                way.may_answer.extend(may_answer);
                let answer = verdict.applied(answer::of_route(route, routed, resources));
                (None, shares.add(&route.name, route.r#match.as_ref().and_then(shares::end), answer))
            }
            Fit::Unknown(why) => (Some(why.clone()), Some(ExplainedAnswer::Unknown { why })),
        };
        way.routes.push(candidate(route, why_not));
        if let Some(answer) = answer {
            way.later_routes = host.routes.len() - index - 1;
            return answer;
        }
    }
    let nothing = ExplainedAnswer::not_found("no route of the virtual host matches".into());
    shares.add("", None, nothing.clone()).unwrap_or(nothing)
}

fn candidate(route: &Route, why_not: Option<String>) -> RouteCandidate {
    RouteCandidate {
        name: route.name.clone(),
        object: names::object_of_route(&route.name),
        rule: names::rule_of_route(&route.name),
        conditions: route.r#match.as_ref().map(matching::conditions).unwrap_or_default(),
        why_not,
    }
}
