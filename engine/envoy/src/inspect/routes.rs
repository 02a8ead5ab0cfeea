//! Routes of encoded route configurations: their settings, their contents, and their closing.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3 as envoy;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::google::protobuf::Any;
use holdfast_graph::Content;
use prost::Message;

use super::{content, guards, headers};
use crate::encode::names;
use crate::encode::route::{direct_response, encode, for_everything};
use crate::features::filters::Guarding;
use crate::features::redirect::{ListenerContext, Scheme};
use crate::model::table::Host;
use crate::model::{Action as ModelAction, FixedResponse, Route};

/// A route of a published route configuration.
pub struct PublishedRoute<'a> {
    /// The name of the route configuration.
    pub configuration: &'a str,
    /// The first domain of the virtual host.
    pub domain: &'a str,
    /// The filter settings of the route configuration.
    of_configuration: &'a HashMap<String, Any>,
    /// The filter settings of the virtual host.
    of_host: &'a HashMap<String, Any>,
    route: &'a envoy::Route,
}

impl PublishedRoute<'_> {
    /// Returns the name of the route.
    pub fn name(&self) -> &str {
        &self.route.name
    }

    /// Returns whether the route redirects requests.
    pub fn redirects(&self) -> bool {
        matches!(self.route.action, Some(Action::Redirect(_)))
    }

    /// Returns the names of the clusters that requests are forwarded to.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        let specifier = match &self.route.action {
            Some(Action::Route(action)) => action.cluster_specifier.as_ref(),
            _ => None,
        };
        let (one, several) = match specifier {
            Some(ClusterSpecifier::Cluster(name)) => (Some(name.as_str()), None),
            Some(ClusterSpecifier::WeightedClusters(weighted)) => (None, Some(&weighted.clusters)),
            _ => (None, None),
        };
        one.into_iter().chain(several.into_iter().flatten().map(|cluster| cluster.name.as_str()))
    }

    /// Returns the filter settings of the route, its host and its route configuration.
    fn levels(&self) -> [&HashMap<String, Any>; 3] {
        [&self.route.typed_per_filter_config, self.of_host, self.of_configuration]
    }

    /// Returns whether each filter with desired settings at the route, its host or its route configuration has exactly
    /// the desired settings at all three levels. Other filters do not count.
    pub fn has_settings(&self, desired: [&Guarding; 3]) -> bool {
        let filters: BTreeSet<&String> = desired.iter().flat_map(|settings| settings.keys()).collect();
        filters.into_iter().all(|filter| {
            desired.iter().zip(self.levels()).all(|(desired, own)| {
                desired.get(filter).map(Vec::as_slice) == own.get(filter).map(Message::encode_to_vec).as_deref()
            })
        })
    }

    /// Returns whether the route protects as the rule of a desired route does: it passes on no headers of clients that
    /// the rule removes or overwrites for every backend, and no headers of responses that the rule removes, and forwards
    /// nothing that the rule redirects to https.
    pub fn protects_as(&self, desired: &Route) -> bool {
        let to_https = matches!(&desired.action, ModelAction::Redirect(to) if to.scheme == Some(Scheme::Https));
        self.redirects()
            || (!to_https
                && headers::hidden_from_backends(desired).is_subset(&headers::hidden_by(self.route))
                && headers::hidden_from_clients(desired).all(|name| headers::is_hidden_from_clients(self.route, name)))
    }

    /// Returns the kinds of guards in force for requests of the route.
    pub fn guards_in_force(&self) -> BTreeSet<String> {
        guards::in_force(self.levels().map(guards::encoded))
    }

    /// Returns whether the route matches the requests of a desired route and has its filter settings, for plain or TLS
    /// connections. `other_settings`: filters of the same kinds suffice, with any settings.
    pub fn is_guarded_as(&self, desired: &Route, other_settings: bool) -> bool {
        [false, true].into_iter().any(|https| {
            let bytes = encode(desired, ListenerContext { https, port: 0 });
            envoy::Route::decode(&*bytes).is_ok_and(|desired| {
                let is_open = !matches!(desired.action, Some(Action::DirectResponse(_)));
                let (now, then) = (&desired.typed_per_filter_config, &self.route.typed_per_filter_config);
                let guarded = now == then || (other_settings && guards::includes_kinds(then, now));
                is_open && desired.r#match == self.route.r#match && guarded
            })
        })
    }
}

/// Returns the route configuration with routes replaced by direct responses; `None` if no route is to be closed. Routes
/// with a direct response stay as they are.
pub fn close(body: &[u8], closed: &dyn Fn(&PublishedRoute<'_>) -> Option<FixedResponse>) -> Option<Bytes> {
    let mut configuration = envoy::RouteConfiguration::decode(body).ok()?;
    let mut any = false;
    let envoy::RouteConfiguration { name, typed_per_filter_config: of_configuration, virtual_hosts, .. } =
        &mut configuration;
    for host in virtual_hosts {
        let domain = host.domains.first().map_or("", String::as_str);
        let of_host = &host.typed_per_filter_config;
        let closed = |route: &envoy::Route| {
            closed(&PublishedRoute { configuration: name, domain, of_configuration, of_host, route })
        };
        let open = host.routes.iter_mut().filter(|route| !matches!(route.action, Some(Action::DirectResponse(_))));
        for (route, response) in open.filter_map(|route| closed(route).map(|response| (route, response))) {
            any = true;
            *route = envoy::Route {
                name: std::mem::take(&mut route.name),
                r#match: route.r#match.take(),
                action: Some(Action::DirectResponse(direct_response(&response))),
                ..Default::default()
            };
        }
    }
    any.then(|| configuration.encode_to_vec().into())
}

/// Returns a route configuration that gives every request this response.
pub fn close_all(name: &str, response: &FixedResponse) -> Bytes {
    let everything = Host::any();
    let host = envoy::VirtualHost {
        name: names::virtual_host(&everything),
        domains: vec![everything.domain().to_owned()],
        routes: vec![for_everything(response)],
        ..Default::default()
    };
    let configuration =
        envoy::RouteConfiguration { name: name.into(), virtual_hosts: vec![host], ..Default::default() };
    configuration.encode_to_vec().into()
}

/// Returns the route configuration with these routes only, and without virtual hosts that have none of them. Bytes that
/// cannot be decoded are returned as they are.
pub fn only(body: &Bytes, keeps: &dyn Fn(&str) -> bool) -> Bytes {
    let Ok(mut configuration) = envoy::RouteConfiguration::decode(&**body) else { return body.clone() };
    for host in &mut configuration.virtual_hosts {
        host.routes.retain(|route| keeps(&route.name));
    }
    configuration.virtual_hosts.retain(|host| !host.routes.is_empty());
    configuration.encode_to_vec().into()
}

/// Returns the contents of the routes of a route configuration.
pub fn contents(body: &[u8]) -> Vec<Content> {
    routes(body).map(|route| content(&route.encode_to_vec())).collect()
}

/// Returns the names of the routes of a route configuration, each with the status of its direct response; without a
/// status if the route has another action.
pub fn direct_responses(body: &[u8]) -> Vec<(String, Option<u16>)> {
    let status = |action: Option<Action>| match action {
        Some(Action::DirectResponse(response)) => u16::try_from(response.status).ok(),
        _ => None,
    };
    routes(body).map(|route| (route.name, status(route.action))).collect()
}

fn routes(body: &[u8]) -> impl Iterator<Item = envoy::Route> {
    let configuration = envoy::RouteConfiguration::decode(body).unwrap_or_default();
    configuration.virtual_hosts.into_iter().flat_map(|host| host.routes)
}
