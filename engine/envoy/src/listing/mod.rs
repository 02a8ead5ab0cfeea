//! Published configuration as a list of entries, each with the objects that it was made from, read from the resources
//! themselves. No value of a Secret, and no header value that is a credential, appears.

mod clusters;
mod hosts;
mod listeners;
mod routes;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use holdfast_graph::{ObjectKey, Origins};
use holdfast_xds::{Resource, ResourceType, Snapshot};
use serde::Serialize;

pub use self::hosts::hosts;

/// Maximum number of objects that are listed with one entry.
const ENTRY_OWNERS_MAX: usize = 20;

/// A part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigPart {
    /// Listeners, with an entry for each filter chain.
    Listeners,
    /// Route configurations, with an entry for each route.
    Routes,
    /// Clusters.
    Clusters,
    /// Endpoints.
    Endpoints,
    /// Certificates and other secrets, without their values.
    Secrets,
}

impl ConfigPart {
    /// All parts, in the order in which a request meets them.
    pub const ALL: [Self; 5] = [Self::Listeners, Self::Routes, Self::Clusters, Self::Endpoints, Self::Secrets];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Listeners => "listeners",
            Self::Routes => "routes",
            Self::Clusters => "clusters",
            Self::Endpoints => "endpoints",
            Self::Secrets => "secrets",
        }
    }

    /// The type of its resources.
    pub fn kind(self) -> ResourceType {
        match self {
            Self::Listeners => ResourceType::Listener,
            Self::Routes => ResourceType::Route,
            Self::Clusters => ResourceType::Cluster,
            Self::Endpoints => ResourceType::Endpoints,
            Self::Secrets => ResourceType::Secret,
        }
    }
}

impl FromStr for ConfigPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

/// An entry of the published configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedEntry {
    /// The name of the resource.
    pub resource: Arc<str>,
    /// The version of the resource.
    pub version: String,
    /// The virtual host of a route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What it is for: server names and protocol of a filter chain, the conditions of a route.
    pub matches: String,
    /// What it does: the route configuration of a filter chain, the backends of a route, the addresses of endpoints.
    pub action: String,
    /// The objects that it was made from. Of a listener, without its routes.
    pub owners: BTreeSet<ObjectKey>,
}

/// Returns the entries of a part. `host` selects the virtual host that Envoy chooses for requests to that host; only
/// routes have one.
pub fn entries(part: ConfigPart, snapshot: &Snapshot, host: Option<&str>) -> Vec<ListedEntry> {
    let resources = snapshot.of(part.kind()).values();
    let of_one = |resource: &Arc<Resource>| match part {
        ConfigPart::Listeners => listeners::entries(resource),
        ConfigPart::Routes => routes::entries(resource, host),
        ConfigPart::Clusters => clusters::clusters(resource),
        ConfigPart::Endpoints => clusters::endpoints(resource),
        ConfigPart::Secrets => clusters::secrets(resource),
    };
    resources.flat_map(of_one).collect()
}

impl ListedEntry {
    fn new(resource: &Resource, matches: impl Into<String>, action: impl Into<String>) -> Self {
        Self {
            resource: resource.name.clone(),
            version: resource.version.to_string(),
            host: None,
            matches: matches.into(),
            action: action.into(),
            owners: BTreeSet::new(),
        }
    }

    /// A resource without its content.
    pub fn unknown(name: &str, resource: Option<&Resource>) -> Self {
        Self {
            resource: name.into(),
            version: resource.map(|resource| resource.version.to_string()).unwrap_or_default(),
            host: None,
            matches: String::new(),
            action: String::new(),
            owners: resource.into_iter().flat_map(|resource| origins(&resource.origins)).collect(),
        }
    }

    /// A resource that cannot be decoded, which no resource of Holdfast is known to be.
    fn undecodable(resource: &Resource) -> Vec<Self> {
        vec![Self::new(resource, "", "cannot be decoded")]
    }

    fn owned_by(self, owners: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self { owners: owners.into_iter().collect(), ..self }
    }
}

fn origins(origins: &Origins) -> impl Iterator<Item = ObjectKey> + '_ {
    origins.iter().take(ENTRY_OWNERS_MAX).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_as_they_are_read() {
        for part in ConfigPart::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        let error = "expected one of listeners, routes, clusters, endpoints, secrets".to_owned();
        assert_eq!("route".parse::<ConfigPart>(), Err(error));
    }
}
