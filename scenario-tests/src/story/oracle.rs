//! Refusals of simulated Envoys and their messages.

use envoy_types::pb::envoy::config::route::v3::{Route, RouteConfiguration};
use holdfast_xds::ResourceType;
use prost::Message;

use super::language::{How, Refuse};

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedRefusal {
    /// The reaction of the Envoy.
    pub how: How,
    /// The message.
    pub message: String,
}

/// The Envoy or probe that judges a resource.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// The build.
    pub build: &'a str,
    /// The node; none for the probe.
    pub node: Option<&'a str>,
}

/// Returns the refusal by the first oracle that matches a resource.
pub fn judge(
    oracles: &[Refuse],
    receiver: Judge<'_>,
    kind: ResourceType,
    body: &[u8],
    certificate: impl Fn(&[u8]) -> Option<String>,
) -> Option<SimulatedRefusal> {
    let concerned = oracles.iter().filter(|oracle| {
        (oracle.builds.is_empty() || oracle.builds.iter().any(|build| build == receiver.build))
            && (oracle.nodes.is_empty() || receiver.node.is_some_and(|node| oracle.nodes.iter().any(|own| own == node)))
    });
    let routes = match kind {
        ResourceType::Route => routes(body),
        _ => Vec::new(),
    };
    let refuses = |oracle: &&Refuse| match kind {
        ResourceType::Route => {
            let written = String::from_utf8_lossy(body);
            let anywhere = || oracle.anywhere.iter().all(|text| written.contains(text.as_str()));
            refuses_routes(oracle, &routes) || (!oracle.anywhere.is_empty() && anywhere())
        }
        ResourceType::Secret => oracle.certificate.is_some() && certificate(body) == oracle.certificate,
        ResourceType::Listener => {
            oracle.listener.as_ref().is_some_and(|text| String::from_utf8_lossy(body).contains(text))
        }
        ResourceType::Cluster => {
            let written = String::from_utf8_lossy(body);
            !oracle.cluster.is_empty() && oracle.cluster.iter().all(|text| written.contains(text.as_str()))
        }
        ResourceType::Endpoints => false,
    };
    concerned.into_iter().find(refuses).map(|oracle| SimulatedRefusal {
        how: oracle.how,
        message: oracle.message.clone().unwrap_or_else(|| "refused by the story".to_owned()),
    })
}

fn routes(body: &[u8]) -> Vec<(String, String)> {
    let configuration = RouteConfiguration::decode(body).unwrap_or_default();
    let routes = configuration.virtual_hosts.into_iter().flat_map(|host| host.routes);
    routes.map(|route| (format!("{:?}", route.r#match), written(&route))).collect()
}

fn written(route: &Route) -> String {
    format!("{route:?}")
}

fn refuses_routes(oracle: &Refuse, routes: &[(String, String)]) -> bool {
    let all = |texts: &[String], within: &str| texts.iter().all(|text| within.contains(text.as_str()));
    let one = !oracle.route.is_empty() || !oracle.matching.is_empty();
    let by_one =
        one && routes.iter().any(|(matching, route)| all(&oracle.route, route) && all(&oracle.matching, matching));
    let together = !oracle.together.is_empty()
        && oracle.together.iter().all(|text| routes.iter().any(|(_, route)| route.contains(text.as_str())));
    let lacks = !oracle.without.is_empty()
        && !routes.is_empty()
        && !oracle.without.iter().any(|text| routes.iter().any(|(_, route)| route.contains(text.as_str())));
    by_one || together || lacks
}
