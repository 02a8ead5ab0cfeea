//! Virtual hosts one by one (VHDS): a model of an Envoy that takes them, driven by many seeds.
//!
//! For any sequence of changes, answers, reconnections and subscriptions:
//!
//! - an acknowledged route configuration is what the Envoy has, and a refused one changed nothing;
//! - once everything is answered, the Envoy has the hosts that it should have, except in refused versions;
//! - an edit of one host sends this host only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::google::rpc::Status;
use holdfast_graph::Origins;
use holdfast_xds::connection::{ClientVerdict, Connection, Protocol};
use holdfast_xds::response::{Form, Response};
use holdfast_xds::{Outcome, Resource, ResourceType, Snapshot, Version};
use prost::Message;

const HOSTS: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
const TABLES: [&str; 3] = ["http/80", "http/80/more", "https/a"];
/// Upper limit of the number of responses until everything is answered.
const ROUNDS_MAX: usize = 200;

/// Pseudorandom numbers that depend only on the seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, of: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % of
    }
}

/// The hosts of a route configuration, each with a number as its content; `guarded` has settings for all hosts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table {
    hosts: BTreeMap<String, u64>,
    guarded: bool,
}

impl Table {
    fn resource(&self, name: &str) -> Arc<Resource> {
        let host = |(name, content): (&String, &u64)| VirtualHost {
            name: name.clone(),
            domains: vec![format!("{content}.{name}")],
            ..Default::default()
        };
        let mut routes = RouteConfiguration {
            name: name.to_owned(),
            virtual_hosts: self.hosts.iter().map(host).collect(),
            ..Default::default()
        };
        if self.guarded {
            routes.typed_per_filter_config.insert("guard".to_owned(), Any::default());
        }
        Arc::new(Resource::new(name, routes.encode_to_vec(), Origins::default()))
    }
}

fn content_of(host: &VirtualHost) -> u64 {
    host.domains[0].split('.').next().unwrap().parse().unwrap()
}

/// Contents that the Envoy never accepts.
fn is_bad(content: u64) -> bool {
    content.is_multiple_of(7)
}

/// What the Envoy has under one name.
#[derive(Clone, Debug, Default)]
struct Held {
    table: Table,
    /// The version of the resource, as the Envoy reports it.
    version: String,
    /// The versions of separate hosts; unset where the route configuration is whole.
    hosts: Option<BTreeMap<String, String>>,
}

struct Envoy {
    connection: Connection,
    names: BTreeSet<String>,
    held: BTreeMap<String, Held>,
    /// Whether it subscribed to hosts on this stream.
    takes_hosts: bool,
    /// The versions of all hosts that it was sent, as it reports them: also those without a route configuration, which it
    /// does not use.
    hosts: BTreeMap<String, String>,
    answers: VecDeque<DeltaDiscoveryRequest>,
    /// What each published version contains.
    contents: BTreeMap<Version, (String, Table)>,
    sent_hosts: usize,
    story: Vec<String>,
}

impl Envoy {
    fn new() -> Self {
        Self {
            connection: Connection::new(Protocol::Delta).with_separate_hosts(),
            names: BTreeSet::new(),
            held: BTreeMap::new(),
            takes_hosts: false,
            hosts: BTreeMap::new(),
            answers: VecDeque::new(),
            contents: BTreeMap::new(),
            sent_hosts: 0,
            story: Vec::new(),
        }
    }

    fn send(&mut self, request: DeltaDiscoveryRequest) {
        self.story.push(format!("> {} {request:?}", request.response_nonce));
        let verdicts = self.connection.on_delta_request(&request).unwrap();
        verdicts.iter().for_each(|verdict| self.check(verdict));
    }

    fn check(&mut self, verdict: &ClientVerdict) {
        self.story.push(format!("= {verdict:?}"));
        for (name, version) in &verdict.resources {
            // A client also reports the versions of route configurations without hosts.
            let Some((_, table)) = version.and_then(|version| self.contents.get(&version)) else { continue };
            let has = self.held.get(&**name).map(|held| &held.table);
            match verdict.outcome {
                // The Envoy may have forgotten the name since it answered.
                Outcome::Acknowledged => {
                    assert!(has.is_none_or(|has| has == table), "{name}: {has:?} is not {table:?}")
                }
                Outcome::Refused { .. } => {
                    assert!(table.hosts.values().any(|content| is_bad(*content)), "{name}: {table:?} is good");
                }
            }
        }
    }

    fn publish(&mut self, tables: &BTreeMap<&str, Table>) {
        let mut snapshot = Snapshot::default();
        for (name, table) in tables {
            let resource = table.resource(name);
            self.contents.insert(resource.version, ((*name).to_owned(), table.clone()));
            snapshot.insert(ResourceType::Route, resource);
        }
        self.connection.on_snapshot(snapshot);
    }

    fn subscribe(&mut self, name: &str) {
        self.names.insert(name.to_owned());
        self.send(DeltaDiscoveryRequest {
            type_url: ResourceType::Route.url().to_owned(),
            resource_names_subscribe: vec![name.to_owned()],
            ..Default::default()
        });
    }

    fn unsubscribe(&mut self, name: &str) {
        if self.names.remove(name) {
            self.held.remove(name);
            self.send(DeltaDiscoveryRequest {
                type_url: ResourceType::Route.url().to_owned(),
                resource_names_unsubscribe: vec![name.to_owned()],
                ..Default::default()
            });
        }
    }

    /// Replaces the listener: the new subscription has nothing yet.
    fn subscribe_again(&mut self, name: &str) {
        if self.names.contains(name) {
            self.held.remove(name);
            self.subscribe(name);
        }
    }

    fn reconnect(&mut self) {
        self.story.push("reconnect".to_owned());
        self.connection = Connection::new(Protocol::Delta).with_separate_hosts();
        self.answers.clear();
        let known = self.held.iter().filter(|(_, held)| !held.version.is_empty());
        let versions = known.map(|(name, held)| (name.clone(), held.version.clone())).collect();
        self.send(DeltaDiscoveryRequest {
            type_url: ResourceType::Route.url().to_owned(),
            resource_names_subscribe: self.names.iter().cloned().collect(),
            initial_resource_versions: versions,
            ..Default::default()
        });
        if std::mem::take(&mut self.takes_hosts) {
            self.take_hosts();
        }
    }

    fn take_hosts(&mut self) {
        self.takes_hosts = true;
        let initial_resource_versions =
            self.hosts.iter().map(|(name, version)| (name.clone(), version.clone())).collect();
        self.send(DeltaDiscoveryRequest {
            type_url: HOSTS.to_owned(),
            initial_resource_versions,
            ..Default::default()
        });
    }

    /// Receives the next response, if there is one; its answer is sent later.
    fn receive(&mut self) -> bool {
        let response = self.connection.next_response();
        self.connection.take_met().iter().for_each(|verdict| self.check(verdict));
        let Some(response) = response else { return false };
        self.story.push(format!("< {} {} {:?}", response.nonce, response.url(), response.form));
        let error = if response.are_hosts { self.apply_hosts(&response) } else { self.apply_routes(&response) };
        self.answers.push_back(DeltaDiscoveryRequest {
            type_url: response.url().to_owned(),
            response_nonce: response.nonce.to_string(),
            error_detail: error.map(|message| Status { code: 13, message, ..Default::default() }),
            ..Default::default()
        });
        true
    }

    fn apply_routes(&mut self, response: &Response) -> Option<String> {
        let Form::Delta { removed } = &response.form else { panic!("routes are incremental") };
        for name in removed {
            // An Envoy uses a removed route configuration until no listener names it, and reports it no more.
            if let Some(held) = self.held.get_mut(&**name) {
                held.version.clear();
            }
        }
        for resource in response.resources.iter().filter(|resource| self.names.contains(&*resource.name)) {
            let routes = RouteConfiguration::decode(resource.body.clone()).unwrap();
            if routes.virtual_hosts.iter().any(|host| is_bad(content_of(host))) {
                return Some("bad route configuration".to_owned());
            }
            let version = resource.wire_version();
            let hosts = routes.virtual_hosts.iter().map(|host| (host.name.clone(), content_of(host))).collect();
            let guarded = !routes.typed_per_filter_config.is_empty();
            let whole = Held { table: Table { hosts, guarded }, version: version.clone(), hosts: None };
            let before = self.held.remove(&*resource.name).filter(|held| held.hosts.is_some());
            let is_separate = routes.vhds.is_some();
            let held = match before.filter(|_| is_separate) {
                Some(before) => Held { version, ..before },
                None => Held { hosts: is_separate.then(BTreeMap::new), ..whole },
            };
            self.held.insert(resource.name.to_string(), held);
        }
        None
    }

    fn apply_hosts(&mut self, response: &Response) -> Option<String> {
        assert!(self.takes_hosts, "hosts without a subscription");
        self.sent_hosts += response.resources.len();
        let hosts: Vec<(String, VirtualHost, String)> = response
            .resources
            .iter()
            .map(|resource| {
                let (table, _) = resource.name.rsplit_once('/').unwrap();
                let host = VirtualHost::decode(resource.body.clone()).unwrap();
                assert_eq!(*host.name, *resource.name);
                (table.to_owned(), host, resource.wire_version())
            })
            .collect();
        if hosts.iter().any(|(_, host, _)| is_bad(content_of(host))) {
            return Some("bad host".to_owned());
        }
        let Form::Delta { removed } = &response.form else { panic!("hosts are incremental") };
        let mut names: Vec<&str> = removed.iter().map(|name| &**name).collect();
        names.extend(response.resources.iter().map(|resource| &*resource.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "an Envoy refuses a response with a name twice");
        for name in removed {
            self.hosts.remove(&**name);
            let (table, host) = name.rsplit_once('/').unwrap();
            let held = self.held.get_mut(table).and_then(|held| Some((&mut held.table.hosts, held.hosts.as_mut()?)));
            if let Some((contents, versions)) = held {
                contents.remove(host);
                versions.remove(host);
            }
        }
        for (table, host, version) in hosts {
            self.hosts.insert(host.name.clone(), version.clone());
            let held = self.held.get_mut(&table).and_then(|held| Some((&mut held.table.hosts, held.hosts.as_mut()?)));
            if let Some((contents, versions)) = held {
                let name = host.name.rsplit_once('/').unwrap().1.to_owned();
                contents.insert(name.clone(), content_of(&host));
                versions.insert(name, version);
            }
        }
        None
    }

    /// Sends the oldest answer. An Envoy subscribes to hosts before it answers the first route configuration with them.
    fn answer(&mut self) -> bool {
        let Some(answer) = self.answers.pop_front() else { return false };
        if !self.takes_hosts && self.held.values().any(|held| held.hosts.is_some()) {
            self.take_hosts();
        }
        self.send(answer);
        true
    }

    fn finish(&mut self, tables: &BTreeMap<&str, Table>) {
        for _ in 0..ROUNDS_MAX {
            if !self.receive() & !self.answer() {
                break;
            }
        }
        assert!(!self.receive(), "it never ends");
        for name in &self.names {
            let (held, wanted) = (self.held.get(name).map(|held| &held.table), tables.get(name.as_str()));
            if let Some(wanted) = wanted.filter(|wanted| !wanted.hosts.values().any(|content| is_bad(*content))) {
                assert_eq!(held, Some(wanted), "{name}");
            }
        }
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story.join("\n"));
        }
    }
}

fn edit(dice: &mut Dice, tables: &mut BTreeMap<&str, Table>) {
    let name = TABLES[dice.roll(3) as usize];
    let table = tables.entry(name).or_default();
    let host = format!("host-{}", dice.roll(5));
    match dice.roll(8) {
        0 => {
            table.hosts.remove(&host);
        }
        1 => table.guarded = dice.roll(3) == 0,
        2 => {
            tables.remove(name);
        }
        _ => {
            table.hosts.insert(host, dice.roll(100));
        }
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut envoy, mut tables) = (Envoy::new(), BTreeMap::new());
    for _ in 0..20 + dice.roll(200) {
        let name = TABLES[dice.roll(3) as usize];
        match dice.roll(16) {
            0..=3 => {
                (0..=dice.roll(3)).for_each(|_| edit(&mut dice, &mut tables));
                envoy.publish(&tables);
            }
            4 if !envoy.names.contains(name) => envoy.subscribe(name),
            5 => envoy.unsubscribe(name),
            6 => envoy.subscribe_again(name),
            7 if !envoy.names.is_empty() => {
                envoy.reconnect();
                envoy.publish(&tables);
            }
            8..=11 => drop(envoy.answer()),
            _ => drop(envoy.receive()),
        }
    }
    envoy.publish(&tables);
    envoy.finish(&tables);
}

#[test]
fn an_envoy_ends_with_the_hosts_that_it_should_have_whatever_happens() {
    for seed in 0..400 {
        let played = std::panic::catch_unwind(|| play(seed));
        assert!(played.is_ok(), "seed {seed}");
    }
}

fn table(contents: impl IntoIterator<Item = u64>) -> Table {
    let hosts = contents.into_iter().enumerate().map(|(index, content)| (format!("host-{index}"), content));
    Table { hosts: hosts.collect(), guarded: false }
}

#[test]
fn an_edit_of_one_host_sends_one_host() {
    let mut envoy = Envoy::new();
    envoy.publish(&[(TABLES[0], table([1; 100]))].into());
    envoy.subscribe(TABLES[0]);
    envoy.finish(&BTreeMap::new());
    assert_eq!(envoy.sent_hosts, 100);
    let edited: BTreeMap<&str, Table> = [(TABLES[0], table([[1; 50], [2; 50]].concat().into_iter().take(51)))].into();
    envoy.publish(&edited);
    envoy.finish(&edited);
    assert_eq!(envoy.sent_hosts, 101, "49 hosts are removed, and one is different");
    envoy.reconnect();
    envoy.publish(&edited);
    assert!(!envoy.receive(), "an Envoy that has all hosts is sent nothing");
    assert!(envoy.story.last().is_some_and(|last| last.contains("Acknowledged")), "{:?}", envoy.story.last());
}

#[test]
fn a_refused_host_leaves_all_others_of_its_response_unchanged() {
    let mut envoy = Envoy::new();
    let good: BTreeMap<&str, Table> = [(TABLES[0], table([1, 1]))].into();
    envoy.publish(&good);
    envoy.subscribe(TABLES[0]);
    envoy.finish(&good);
    envoy.publish(&[(TABLES[0], table([2, 7]))].into());
    envoy.finish(&[(TABLES[0], table([2, 7]))].into());
    assert_eq!(envoy.held[TABLES[0]].table, good[TABLES[0]]);
    envoy.publish(&good);
    envoy.finish(&good);
    let fixed: BTreeMap<&str, Table> = [(TABLES[0], table([2, 3]))].into();
    envoy.publish(&fixed);
    envoy.finish(&fixed);
}

#[test]
fn settings_for_all_hosts_are_sent_together_with_the_hosts_and_stay_whole() {
    let mut envoy = Envoy::new();
    let open: BTreeMap<&str, Table> = [(TABLES[0], table([1, 2]))].into();
    envoy.publish(&open);
    envoy.subscribe(TABLES[0]);
    envoy.finish(&open);
    let guarded: BTreeMap<&str, Table> = [(TABLES[0], Table { guarded: true, ..table([3, 2]) })].into();
    envoy.publish(&guarded);
    envoy.finish(&guarded);
    assert!(envoy.held[TABLES[0]].hosts.is_none());
    envoy.publish(&open);
    envoy.finish(&open);
    assert!(envoy.held[TABLES[0]].hosts.is_none(), "a change to separate hosts would have a moment without any host");
}

#[test]
fn hosts_stay_together_where_a_listener_reads_their_names() {
    let mut envoy = Envoy::new();
    let open: BTreeMap<&str, Table> = [(TABLES[0], table([1, 2]))].into();
    let publish = |envoy: &mut Envoy, listener: &str| {
        let mut snapshot = Snapshot::default();
        let resource = open[TABLES[0]].resource(TABLES[0]);
        envoy.contents.insert(resource.version, (TABLES[0].to_owned(), open[TABLES[0]].clone()));
        snapshot.insert(ResourceType::Route, resource);
        let listener = Resource::new("l", listener.as_bytes().to_vec(), Origins::default());
        snapshot.insert(ResourceType::Listener, Arc::new(listener));
        envoy.connection.on_snapshot(snapshot);
    };
    publish(&mut envoy, "log if xds.virtual_host_name == 'a'");
    envoy.subscribe(TABLES[0]);
    envoy.finish(&open);
    assert!(envoy.held[TABLES[0]].hosts.is_none());
    let mut other = Envoy::new();
    publish(&mut other, "log if xds.route_name == 'a'");
    other.subscribe(TABLES[0]);
    other.finish(&open);
    assert!(other.held[TABLES[0]].hosts.is_some());
    publish(&mut other, "log if xds.virtual_host_name == 'a'");
    other.finish(&open);
    assert!(other.held[TABLES[0]].hosts.is_none(), "a listener that begins to read names makes them whole");
}

#[test]
fn an_envoy_that_reports_no_hosts_is_sent_a_response_with_hosts_in_any_case() {
    let mut envoy = Envoy::new();
    let empty: BTreeMap<&str, Table> = [(TABLES[0], Table::default())].into();
    envoy.publish(&empty);
    envoy.subscribe(TABLES[0]);
    assert!(envoy.receive() && envoy.answer(), "the route configuration without hosts");
    // The stream ends before the response that ends the wait of an Envoy.
    envoy.reconnect();
    envoy.publish(&empty);
    let response = envoy.connection.next_response().unwrap();
    assert!(response.are_hosts && response.removals() == 1, "{response:?}");
}
