//! The page `/debug/config/entries`: a part of the published configuration, or of what an Envoy has acknowledged, with the
//! objects beside each entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_envoy::listing::{ConfigPart, ListedEntry, entries};
use holdfast_xds::{EnvoyResource, Fleets, ResourceStatus, Snapshot};
use serde::Serialize;
use serde_json::{Value, json};

/// The query of the page.
#[derive(Debug)]
pub(super) struct EntriesQuery {
    part: ConfigPart,
    gateway: Option<String>,
    host: Option<String>,
    envoy: Option<String>,
}

/// A resource at the Envoy of the query.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AtEnvoy {
    /// The state of the version that the Envoy should have; unset if it has not subscribed to the resource.
    status: Option<ResourceStatus>,
    /// The version that the Envoy should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Whether that is the published version: an Envoy may have a configuration of its own.
    is_published: bool,
    /// The version that the Envoy has acknowledged, which the entry is of; unset if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    acknowledged: Option<String>,
}

/// An entry with its Gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryOfGateway {
    gateway: Arc<str>,
    #[serde(flatten)]
    entry: ListedEntry,
    #[serde(skip_serializing_if = "Option::is_none")]
    envoy: Option<AtEnvoy>,
}

impl EntriesQuery {
    /// Reads the parameters of the page.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let (mut part, mut gateway, mut host, mut envoy) = (None, None, None, None);
        for (name, value) in parameters {
            let place = match &*name {
                "part" => {
                    part = Some(value.parse().map_err(|why| format!("part: {why}"))?);
                    continue;
                }
                "gateway" => &mut gateway,
                "host" => &mut host,
                "envoy" => &mut envoy,
                _ => {
                    return Err(format!("unknown parameter {name}: the parameters are part, gateway, host and envoy"));
                }
            };
            if place.replace(value).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        let part = part.ok_or("part is missing: ?part=routes")?;
        if host.is_some() && part != ConfigPart::Routes {
            return Err("host selects routes only".into());
        }
        Ok(Self { part, gateway, host, envoy })
    }

    /// Returns the entries.
    ///
    /// # Errors
    /// Returns an error if the Gateway is not served, or the Envoy is not connected.
    pub(super) fn answer(self, published: &BTreeMap<Arc<str>, Snapshot>, fleets: &Fleets) -> Result<Value, String> {
        let envoy = self.envoy.as_deref().map(|node| connected(node, self.gateway.as_deref(), fleets)).transpose()?;
        let gateway = envoy.as_ref().map(|(fleet, _)| &**fleet).or(self.gateway.as_deref());
        if let Some(unknown) = gateway.filter(|wanted| !published.contains_key(*wanted)) {
            let known: Vec<&str> = published.keys().map(|name| &**name).collect();
            return Err(format!("nothing is published for Gateway {unknown}; Gateways: {}", known.join(", ")));
        }
        let wanted = published.iter().filter(|(name, _)| gateway.is_none_or(|wanted| wanted == &***name));
        let of_gateway = |(name, snapshot): (&Arc<str>, &Snapshot)| match &envoy {
            Some((_, resources)) => self.at_envoy(name, snapshot, resources),
            None => {
                let entries = entries(self.part, snapshot, self.host.as_deref()).into_iter();
                entries.map(|entry| EntryOfGateway { gateway: name.clone(), entry, envoy: None }).collect()
            }
        };
        Ok(json!({ "part": self.part.name(), "entries": wanted.flat_map(of_gateway).collect::<Vec<_>>() }))
    }

    /// Returns the entries of what an Envoy has acknowledged. A resource of which nothing is known there has one entry
    /// without content.
    fn at_envoy(&self, gateway: &Arc<str>, published: &Snapshot, resources: &[EnvoyResource]) -> Vec<EntryOfGateway> {
        let kind = self.part.kind();
        let own: BTreeMap<&str, &EnvoyResource> =
            resources.iter().filter(|resource| resource.kind == kind).map(|own| (&*own.name, own)).collect();
        let published_names = published.of(kind).keys().map(|name| &**name);
        let names: BTreeSet<&str> = published_names.chain(own.keys().copied()).collect();
        let of_name = |name: &str| {
            let (own, published) = (own.get(name).copied(), published.get(kind, name));
            let at = AtEnvoy::new(own, published.map(|resource| resource.version.to_string()));
            let all = match own.and_then(|own| own.acknowledged.as_ref()) {
                Some(acknowledged) => {
                    let mut snapshot = Snapshot::default();
                    snapshot.insert(kind, acknowledged.clone());
                    entries(self.part, &snapshot, self.host.as_deref())
                }
                None if self.host.is_some() => Vec::new(),
                None => vec![ListedEntry::unknown(name, published.map(|resource| &**resource))],
            };
            all.into_iter()
                .map(|entry| EntryOfGateway { gateway: gateway.clone(), entry, envoy: Some(at.clone()) })
                .collect::<Vec<_>>()
        };
        names.into_iter().flat_map(of_name).collect()
    }
}

impl AtEnvoy {
    fn new(own: Option<&EnvoyResource>, published: Option<String>) -> Self {
        let version = own.map(|own| own.version.clone());
        Self {
            status: own.map(|own| own.status),
            is_published: version.is_some() && version == published,
            version,
            acknowledged: own.and_then(|own| own.acknowledged.as_ref()).map(|resource| resource.version.to_string()),
        }
    }
}

/// Returns the fleet of a connected Envoy, and its resources.
fn connected(node: &str, gateway: Option<&str>, fleets: &Fleets) -> Result<(Arc<str>, Vec<EnvoyResource>), String> {
    let mut found = fleets.resources_of(node);
    found.retain(|(fleet, _)| gateway.is_none_or(|wanted| **fleet == *wanted));
    let fleets: Vec<String> = found.iter().map(|(fleet, _)| fleet.to_string()).collect();
    match found.pop() {
        None => Err(format!("no Envoy {node} is connected; holdfast envoys lists the connected ones")),
        // Of several streams of one Envoy, the newest is the last.
        Some(newest) if fleets.iter().all(|fleet| **fleet == *newest.0) => Ok(newest),
        Some(_) => Err(format!("Envoys {node} are connected for several Gateways, select one: {}", fleets.join(", "))),
    }
}
