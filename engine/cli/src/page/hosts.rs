//! The hosts of the Gateways, each with what its clients get.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::gateway::route::RouteView;
use holdfast_api::apis::{Body, kinds};
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_engine::health::view::{Gets, Health, HealthFinding, ServedInstead, Severity};
use holdfast_envoy::listing::hosts;
use holdfast_fallback::view::Identity;
use holdfast_graph::ObjectKey;
use holdfast_xds::Snapshot;
use maud::{Markup, html};

use super::article::{SHOWN, link, subject};
use super::diagram::identity;
use super::filter::OverviewFilter;
use super::paging::ListPage;
use super::text::in_list;
use crate::finding::{described, plain};

/// Maximum number of facts of one host in the list.
const HOST_FACTS_MAX: usize = 3;
/// Maximum number of objects of one host in the list.
const HOST_OBJECTS_MAX: usize = 3;

/// The Gateway of a host that no Gateway serves.
const NO_GATEWAY: &str = "none";

/// What the clients of a host get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostService {
    /// Some requests get an error, or no connection.
    Error,
    /// An earlier version than desired is served for some requests, or by some Envoys.
    Earlier,
    /// Every request is served as desired.
    Served,
}

impl HostService {
    /// Returns the value of the filter, which is also the class of the colour.
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Earlier => "earlier",
            Self::Served => "served",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Error => "errors",
            Self::Earlier => "earlier version",
            Self::Served => "served",
        }
    }
}

impl From<&Gets> for HostService {
    fn from(gets: &Gets) -> Self {
        match gets {
            // The routes of the other listener are served as their owners wrote them.
            Gets::AnotherListener => Self::Served,
            gets => gets.severity().into(),
        }
    }
}

impl From<Severity> for HostService {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Outage => Self::Error,
            Severity::Degraded => Self::Earlier,
            Severity::Warning => Self::Served,
        }
    }
}

/// A host of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostRow {
    /// What its clients get.
    pub(super) state: HostService,
    /// The domain; `*` for every other host.
    pub(super) host: String,
    /// The Gateway, as `namespace/name`.
    pub(super) gateway: Arc<str>,
    /// The objects with routes of it.
    owners: BTreeSet<ObjectKey>,
    /// What clients get instead of the desired version: the object, and a fact about it.
    facts: BTreeSet<(HostService, Identity, String)>,
}

/// Every host, by Gateway and domain.
struct HostTable(BTreeMap<(Arc<str>, String), HostRow>);

/// What the hosts are read from.
pub(super) struct HostFacts<'a> {
    /// Health of everything.
    pub(super) health: &'a Health,
    /// The published resources, by Gateway.
    pub(super) published: &'a BTreeMap<Arc<str>, Snapshot>,
    /// The objects, for the hosts of routes that no Gateway serves.
    pub(super) objects: &'a ObjectSnapshot,
    /// Objects with content that cannot be read now: what was read last is served.
    pub(super) not_read: &'a BTreeMap<ObjectKey, ReadEarlier>,
}

/// An object with content that cannot be read now.
pub(super) struct ReadEarlier {
    /// The file, and why it cannot be read.
    pub(super) why: String,
    /// The objects that depend on the object, such as the routes of a Service.
    pub(super) affected: BTreeSet<ObjectKey>,
}

/// Returns the hosts, those with errors first.
pub(super) fn rows(facts: &HostFacts<'_>) -> Vec<HostRow> {
    let HostFacts { health, published, objects, not_read } = *facts;
    let mut table = HostTable(BTreeMap::new());
    for (gateway, snapshot) in published {
        for (host, owners) in hosts(snapshot) {
            table.row(gateway, &host).owners = owners;
        }
    }
    let owned = table.owned();
    for severity in [Severity::Outage, Severity::Degraded] {
        health.of(severity).iter().for_each(|finding| table.add(finding, severity, &owned, objects));
    }
    for (key, ReadEarlier { why, affected }) in not_read {
        for (gateway, host) in affected.iter().chain([key]).filter_map(|concerned| owned.get(concerned)).flatten() {
            table.row(gateway, host).add(HostService::Earlier, &identity(key), &in_list(why));
        }
    }
    // A virtual host without routes is only there to answer 404.
    let mut rows: Vec<HostRow> =
        table.0.into_values().filter(|row| !row.owners.is_empty() || !row.facts.is_empty()).collect();
    rows.sort_by(|a, b| (a.state, &a.host, &a.gateway).cmp(&(b.state, &b.host, &b.gateway)));
    rows
}

/// The hosts of each object.
type OwnedHosts = BTreeMap<ObjectKey, Vec<(Arc<str>, String)>>;

impl HostTable {
    fn row(&mut self, gateway: &Arc<str>, host: &str) -> &mut HostRow {
        self.0.entry((gateway.clone(), host.to_owned())).or_insert_with(|| HostRow {
            state: HostService::Served,
            host: host.to_owned(),
            gateway: gateway.clone(),
            owners: BTreeSet::new(),
            facts: BTreeSet::new(),
        })
    }

    fn owned(&self) -> OwnedHosts {
        let mut owned = OwnedHosts::new();
        for (place, row) in &self.0 {
            for owner in &row.owners {
                owned.entry(owner.clone()).or_default().push(place.clone());
            }
        }
        owned
    }

    /// Adds a finding to the hosts that it is about.
    fn add(&mut self, finding: &HealthFinding, severity: Severity, owned: &OwnedHosts, objects: &ObjectSnapshot) {
        for served in &finding.served {
            let state = HostService::from(&served.gets);
            let fact = fact(finding, served);
            for (gateway, host) in self.places(served, owned) {
                self.row(&gateway, &host).add(state, &served.object, &fact);
            }
        }
        if !finding.served.is_empty() {
            return;
        }
        // A finding about an Envoy is about every host of the Gateway; of a route, about the hosts that have it.
        for object in finding.objects.iter().map(|subject| &subject.object).chain(&finding.affected) {
            let places = match &*object.kind {
                kinds::GATEWAY => finding.gateways.iter().flat_map(|gateway| self.of_gateway(gateway)).collect(),
                _ => {
                    let owned = owned.get(&object.key()).into_iter().flatten();
                    let is_here = |gateway| finding.gateways.is_empty() || finding.gateways.contains(gateway);
                    let served: Vec<_> = owned.filter(|(gateway, _)| is_here(gateway)).cloned().collect();
                    if served.is_empty() { declared(finding, object, objects) } else { served }
                }
            };
            for (gateway, host) in places {
                self.row(&gateway, &host).add(severity.into(), object, &in_list(&finding.message));
            }
        }
    }

    /// Returns the hosts where clients get something else.
    fn places(&self, served: &ServedInstead, owned: &OwnedHosts) -> Vec<(Arc<str>, String)> {
        // A part without effect changes the answer to no request.
        if served.gets == Gets::LeftOut {
            return Vec::new();
        }
        if !served.hosts.is_empty() {
            return served.hosts.iter().map(|host| (served.gateway.clone(), host.to_string())).collect();
        }
        if &*served.object.kind == kinds::GATEWAY && served.section.is_empty() {
            return self.of_gateway(&served.gateway);
        }
        // A listener without a hostname.
        if [kinds::GATEWAY, kinds::LISTENER_SET].contains(&&*served.object.kind) {
            return vec![(served.gateway.clone(), "*".to_owned())];
        }
        let owned = owned.get(&served.object.key()).into_iter().flatten();
        let is_here = |gateway: &Arc<str>| *gateway == served.gateway || served.gets == Gets::ReadLast;
        owned.filter(|(gateway, _)| is_here(gateway)).cloned().collect()
    }

    fn of_gateway(&self, gateway: &str) -> Vec<(Arc<str>, String)> {
        self.0.keys().filter(|(known, _)| **known == *gateway).cloned().collect()
    }
}

/// Returns the hosts that a route declares and that no Gateway serves.
fn declared(finding: &HealthFinding, object: &Identity, objects: &ObjectSnapshot) -> Vec<(Arc<str>, String)> {
    let object = objects.get(&object.key());
    let hosts: Vec<String> = match object.map(|object| &object.body) {
        Some(Body::HttpProxy(proxy)) => proxy.virtual_host.iter().map(|host| host.fqdn.to_string()).collect(),
        body => {
            let hostnames = body.and_then(Body::route).map(RouteView::hostnames).unwrap_or_default();
            hostnames.iter().map(ToString::to_string).collect()
        }
    };
    let gateways = finding.gateways.iter().cloned();
    let gateways: Vec<Arc<str>> = gateways.chain(finding.gateways.is_empty().then(|| NO_GATEWAY.into())).collect();
    hosts.iter().flat_map(|host| gateways.iter().map(|gateway| (gateway.clone(), host.clone()))).collect()
}

impl HostRow {
    fn add(&mut self, state: HostService, object: &Identity, fact: &str) {
        self.state = self.state.min(state);
        self.facts.insert((state, object.clone(), fact.to_owned()));
    }

    /// Returns whether the filter shows the host.
    pub(super) fn is_in(&self, filter: &OverviewFilter) -> bool {
        let in_namespace = |namespace: &str| {
            self.owners.iter().any(|owner| &*owner.namespace == namespace)
                || self.facts.iter().any(|(_, object, _)| &*object.namespace == namespace)
        };
        let has_text = || {
            filter.is_in(&self.host)
                || self.owners.iter().any(|owner| filter.is_in(&format!("{} {}", owner.kind, owner.namespaced_name())))
                || self.facts.iter().any(|(_, _, fact)| filter.is_in(fact))
        };
        (filter.namespace.is_empty() || in_namespace(&filter.namespace))
            && (filter.gateway.is_empty() || *self.gateway == *filter.gateway)
            && filter.has_host_state(self.state)
            && has_text()
    }
}

/// Returns what clients get of an object, after its desired generation.
fn fact(finding: &HealthFinding, served: &ServedInstead) -> String {
    let gets = in_list(&described(&[served], false, SHOWN).concat());
    let is_earlier = matches!(served.gets, Gets::LastValid { .. } | Gets::AsBefore | Gets::ReadLast);
    let desired = subject(finding, &served.object).filter(|_| is_earlier).and_then(|subject| {
        let (generation, since) = (subject.generation?, subject.since.or(finding.since)?);
        Some(format!("generation {generation} desired since {since}; "))
    });
    format!("{}{gets}", desired.unwrap_or_default())
}

/// Returns the list of the hosts.
pub(super) fn list(rows: &[HostRow], filter: &OverviewFilter) -> Markup {
    let page = ListPage::new(rows, filter.hosts);
    html! {
        section aria-labelledby="hosts" {
            h2 #hosts { "Hosts" }
            @if rows.is_empty() {
                p { "No host" @if !filter.is_all() { " with this filter" } "." }
            } @else {
                div class="wide" tabindex="0" role="group" aria-label="Table of the hosts" {
                    table {
                        thead { tr { th scope="col" { "Host" } th scope="col" { (kinds::GATEWAY) } th scope="col" { "State" } th scope="col" { "What clients get" } th scope="col" { "Routes" } } }
                        tbody { @for row in &page.rows { (line(row)) } }
                    }
                }
                (page.links("hosts", "hosts", filter))
            }
        }
    }
}

fn line(row: &HostRow) -> Markup {
    let host = if row.host == "*" { "any other host" } else { &row.host };
    let (facts, owners) = (row.facts.iter().take(HOST_FACTS_MAX), row.owners.iter().take(HOST_OBJECTS_MAX));
    html! {
        tr class=(row.state.filter()) {
            th scope="row" { (plain(host)) }
            td { (plain(&row.gateway)) }
            td { span class={ "state " (row.state.filter()) } { (row.state.words()) } }
            td {
                @if row.facts.is_empty() { "as written" } @else {
                    ul { @for (_, object, fact) in facts { li { (link(object)) ": " (fact) } } }
                    (more(row.facts.len(), HOST_FACTS_MAX))
                }
            }
            td {
                @for owner in owners { (link(&identity(owner))) " " }
                (more(row.owners.len(), HOST_OBJECTS_MAX))
            }
        }
    }
}

fn more(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { "and " (all - shown) " more" } }
}
