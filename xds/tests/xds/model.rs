//! Model of an Envoy and of frequent changes to its resources, driven by bytes.
//!
//! For any bytes, these properties must hold:
//!
//! - nothing is sent before the fleet is published, nothing without a subscription, nothing together with more
//!   resources than allowed;
//! - an Envoy that connects with a configuration is sent nothing while only Envoys without one are served;
//! - a refused content is never sent again on its stream, and the number of unanswered responses stays within its
//!   limit;
//! - a resource that is reported as acknowledged was applied, a resource that is reported as refused was not;
//! - once everything is answered, what is reported as acknowledged is what the Envoy has, except for secrets;
//! - no applied route names a cluster that the Envoy does not have;
//! - endpoints are sent again after their cluster was changed;
//! - once everything is answered, the Envoy has exactly the resources that it should have, except for refused ones,
//!   after a limited number of responses; publishing them again, or reconnecting with them, sends nothing.
//!
//! The Envoy should have the offer for its node, its build or everyone, and moves between these at any time.
//!
//! Used by the seeded test of this folder and by the fuzz target `xds_stream`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use holdfast_graph::Origins;
use holdfast_xds::connection::{ClientVerdict, Connection, Protocol};
use holdfast_xds::limits::UNANSWERED_MAX;
use holdfast_xds::response::{Form, Response};
use holdfast_xds::{Offers, Outcome, Resource, ResourceType, Snapshot, Version};

// The path is relative to this file, also where the fuzz target includes it.
#[path = "contents.rs"]
mod contents;
#[path = "moves.rs"]
mod moves;

use contents::{EDS, cluster_of, content, describe, good_content, is_bad_content, key, listed, status};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Upper limit of the number of responses while everything is answered.
const ROUNDS_MAX: usize = 2000;

/// Plays a sequence of events. `next` returns the bytes that select the events; the sequence ends with the bytes.
pub(crate) fn play(protocol: Protocol, mut next: impl FnMut() -> Option<u8>) {
    let mut play = Play::new(protocol);
    let manners = next().unwrap_or(0) % 4;
    play.is_strict = manners == 0;
    play.is_orderly = manners <= 1;
    if play.is_orderly {
        play.start_with_everything(ResourceType::Cluster);
    }
    while let Some(what) = next() {
        let mut choose = |of: usize| usize::from(next().unwrap_or(0)) % of;
        play.step(what, &mut choose);
        play.check_references();
    }
    play.finish();
}

type ContentByName = BTreeMap<String, Arc<Resource>>;

/// State of the Envoy for one type.
#[derive(Default)]
struct Subscription {
    subscribed: bool,
    wildcard: bool,
    names: BTreeSet<String>,
    has: ContentByName,
    /// State of the world: the version of the last accepted response, the nonce of the last answered one.
    version: String,
    nonce: String,
    pending: VecDeque<Pending>,
}

/// A response that was received and not answered.
struct Pending {
    nonce: String,
    error: Option<String>,
    applied: BTreeSet<(String, Version)>,
    refused: BTreeSet<(String, Version)>,
}

struct Play {
    protocol: Protocol,
    connection: Connection,
    is_published: bool,
    /// The offers to all Envoys; the target is the offer to this one.
    offers: Offers,
    target: Snapshot,
    /// Whether the Envoy connected with a configuration.
    resumes: bool,
    envoy: BTreeMap<ResourceType, Subscription>,
    /// Contents that the server of this stream knows to be refused.
    refused: BTreeSet<(ResourceType, String, Version)>,
    /// Whether the last offer was for clients without a configuration only.
    was_fresh_only: bool,
    /// Contents that this Envoy never accepts, on this stream or another.
    ever_refused: BTreeSet<(ResourceType, String, Version)>,
    /// Clusters that changed without a new response for their endpoints.
    cold: BTreeSet<String>,
    has_reconnected: bool,
    /// Clusters that once had a content that this Envoy does not accept.
    bad_clusters: BTreeSet<String>,
    /// Whether the Envoy subscribes to all clusters first and always, as a real Envoy does.
    is_orderly: bool,
    /// Whether, in addition, the Envoy subscribes to the endpoints of exactly its clusters, and does not answer
    /// clusters before it has these endpoints, as a real Envoy does. No cluster and no endpoint is refused, so that no
    /// route may name a missing cluster.
    is_strict: bool,
    contents: u32,
    /// The events, printed where the test fails.
    story: Vec<String>,
}

impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.story.join("\n"));
        }
    }
}

impl Play {
    fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            connection: Connection::new(protocol),
            is_published: false,
            offers: Offers::default(),
            target: Snapshot::default(),
            resumes: false,
            envoy: ResourceType::ALL.into_iter().map(|kind| (kind, Subscription::default())).collect(),
            refused: BTreeSet::new(),
            was_fresh_only: false,
            ever_refused: BTreeSet::new(),
            cold: BTreeSet::new(),
            has_reconnected: false,
            bad_clusters: BTreeSet::new(),
            is_orderly: false,
            is_strict: false,
            contents: 0,
            story: Vec::new(),
        }
    }

    fn step(&mut self, what: u8, choose: &mut dyn FnMut(usize) -> usize) {
        match what % 16 {
            0..=2 => self.publish(choose),
            3..=5 => self.subscribe(choose),
            6..=9 => {
                self.deliver(choose);
            }
            10..=13 => self.answer(choose),
            14 => self.talk_nonsense(choose),
            _ => match choose(16) {
                0 => self.reconnect(),
                1 => self.restart_server(choose),
                2..=7 => self.move_to_another_audience(choose),
                _ => self.publish_again(choose),
            },
        }
    }

    fn subscription(&mut self, kind: ResourceType) -> &mut Subscription {
        self.envoy.get_mut(&kind).unwrap()
    }

    /// Changes a few resources. A route always names an existing cluster.
    fn publish(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        for _ in 0..=choose(3) {
            let kind = ResourceType::ALL[choose(ResourceType::ALL.len())];
            let name = NAMES[choose(NAMES.len())];
            if self.is_strict && kind == ResourceType::Endpoints && self.target.get(kind, name).is_none() {
                continue;
            }
            match choose(4) {
                0 if self.is_strict && kind == ResourceType::Endpoints => {}
                0 => self.target.remove(kind, name),
                _ => {
                    self.contents += 1;
                    let number = if choose(3) == 0 { choose(4) as u32 } else { self.contents };
                    // A cluster that changes its kind serves its old form until it is warm: this is not modelled here.
                    let eds = if self.is_strict { name < "e" } else { choose(3) > 0 };
                    let is_named = matches!(kind, ResourceType::Cluster | ResourceType::Endpoints);
                    let resource = match kind {
                        ResourceType::Route => self.route(name, choose),
                        kind if self.is_strict && is_named => good_content(kind, name, number, eds),
                        kind => content(kind, name, number, eds),
                    };
                    self.target.insert(kind, resource);
                }
            }
        }
        let clusters = self.target.of(ResourceType::Cluster).clone();
        if self.is_strict {
            for name in NAMES {
                match (clusters.contains_key(name), self.target.get(ResourceType::Endpoints, name).is_some()) {
                    (true, false) => {
                        self.target
                            .insert(ResourceType::Endpoints, good_content(ResourceType::Endpoints, name, 0, false));
                    }
                    (false, true) => self.target.remove(ResourceType::Endpoints, name),
                    _ => {}
                }
            }
        }
        let routes = self.target.of(ResourceType::Route).clone();
        for (name, route) in routes {
            if !clusters.contains_key(cluster_of(&route)) {
                self.target.remove(ResourceType::Route, &name);
            }
        }
        let bad = clusters.values().filter(|cluster| is_bad_content(cluster.version));
        self.bad_clusters.extend(bad.map(|cluster| cluster.name.to_string()));
        self.forget_routes_that_are_gone();
        self.is_published = true;
        self.offer_target();
        self.on_snapshot();
    }

    /// Forgets removed routes: state of the world never removes a route, the Envoy forgets it with its listener.
    fn forget_routes_that_are_gone(&mut self) {
        if self.protocol == Protocol::Sotw {
            let routes = self.target.of(ResourceType::Route).clone();
            self.subscription(ResourceType::Route).has.retain(|name, _| routes.contains_key(name.as_str()));
        }
    }

    fn on_snapshot(&mut self) {
        let mut texts = Vec::new();
        for kind in ResourceType::ALL {
            texts.extend(self.target.of(kind).values().map(|resource| describe(kind, resource)));
        }
        self.story.push(format!("! {}", texts.join(" ")));
        match self.offers.fresh_only {
            true => self.connection.on_fresh_snapshot(self.target.clone()),
            false => {
                self.connection.on_snapshot(self.target.clone());
                if self.was_fresh_only {
                    // What was refused until now is sent once more, except for secrets.
                    self.refused.retain(|(kind, ..)| *kind == ResourceType::Secret);
                }
            }
        }
        self.was_fresh_only = self.offers.fresh_only;
    }

    fn route(&mut self, name: &str, choose: &mut dyn FnMut(usize) -> usize) -> Arc<Resource> {
        self.contents += 1;
        let clusters: Vec<&Arc<str>> = self.target.of(ResourceType::Cluster).keys().collect();
        let cluster = if clusters.is_empty() { "none" } else { clusters[choose(clusters.len())] };
        Arc::new(Resource::new(name, format!("{cluster} {}", self.contents).into_bytes(), Origins::default()))
    }

    /// Publishes equal content, made again or not.
    fn publish_again(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        if !self.is_published {
            return;
        }
        if choose(2) == 0 {
            let mut rebuilt = Snapshot::default();
            for kind in ResourceType::ALL {
                for resource in self.target.of(kind).values() {
                    let body = resource.body.to_vec();
                    rebuilt.insert(kind, Arc::new(Resource::new(resource.name.clone(), body, Origins::default())));
                }
            }
            self.target = rebuilt;
        }
        self.offer_target();
        self.on_snapshot();
    }

    /// Subscribes to something, or unsubscribes from something.
    fn subscribe(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        let kind = ResourceType::ALL[choose(ResourceType::ALL.len())];
        let is_settled = self.is_orderly && kind == ResourceType::Cluster;
        if is_settled || (self.is_strict && kind == ResourceType::Endpoints) {
            return;
        }
        let has_wildcard = matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let picks: BTreeSet<String> = (0..choose(4)).map(|_| NAMES[choose(NAMES.len())].to_owned()).collect();
        let is_first = !self.subscription(kind).subscribed;
        let star = choose(4);
        if is_first && has_wildcard && star > 0 {
            self.start_with_everything(kind);
            return;
        }
        match self.protocol {
            Protocol::Delta => self.subscribe_delta(kind, picks, is_first, star, choose),
            Protocol::Sotw => {
                let subscription = self.subscription(kind);
                if subscription.wildcard && (star > 0 || picks.is_empty()) {
                    return;
                }
                if is_first && picks.is_empty() {
                    return;
                }
                subscription.subscribed = true;
                subscription.wildcard = false;
                // An Envoy that unsubscribed from a name and reconnects must not report the version that it had before:
                // the protocol cannot express this.
                if !subscription.names.is_subset(&picks) {
                    subscription.version.clear();
                }
                subscription.names = picks;
                self.forget_unwanted(kind);
                self.send_sotw(kind, None);
            }
        }
    }

    fn start_with_everything(&mut self, kind: ResourceType) {
        let subscription = self.subscription(kind);
        subscription.subscribed = true;
        subscription.wildcard = true;
        match self.protocol {
            Protocol::Delta => {
                let request = DeltaDiscoveryRequest { type_url: kind.url().to_owned(), ..Default::default() };
                self.send_delta(request);
            }
            Protocol::Sotw => {
                self.send_sotw(kind, None);
            }
        }
    }

    fn subscribe_delta(
        &mut self,
        kind: ResourceType,
        picks: BTreeSet<String>,
        is_first: bool,
        star: usize,
        choose: &mut dyn FnMut(usize) -> usize,
    ) {
        let gives_up = !is_first && choose(3) == 0;
        let subscription = self.subscription(kind);
        let mut request = DeltaDiscoveryRequest { type_url: kind.url().to_owned(), ..Default::default() };
        if gives_up {
            if star == 0 && subscription.wildcard {
                subscription.wildcard = false;
                request.resource_names_unsubscribe.push("*".to_owned());
            }
            subscription.names.retain(|name| !picks.contains(name));
            request.resource_names_unsubscribe.extend(picks);
        } else {
            if picks.is_empty() {
                return;
            }
            if star == 0 {
                subscription.wildcard = true;
                request.resource_names_subscribe.push("*".to_owned());
            }
            subscription.subscribed = true;
            subscription.names.extend(picks.iter().cloned());
            request.resource_names_subscribe.extend(picks);
        }
        self.forget_unwanted(kind);
        self.send_delta(request);
    }

    fn forget_unwanted(&mut self, kind: ResourceType) {
        let subscription = self.subscription(kind);
        let (wildcard, names) = (subscription.wildcard, subscription.names.clone());
        subscription.has.retain(|name, _| wildcard || names.contains(name));
        if kind == ResourceType::Endpoints {
            self.cold.retain(|name| wildcard || names.contains(name));
        }
    }

    fn send_delta(&mut self, request: DeltaDiscoveryRequest) -> Vec<ClientVerdict> {
        self.story.push(format!(
            "> {} add={:?} del={:?} init={:?} n={} err={:?}",
            request.type_url.rsplit('.').next().unwrap(),
            request.resource_names_subscribe,
            request.resource_names_unsubscribe,
            request.initial_resource_versions,
            request.response_nonce,
            request.error_detail.as_ref().map(|error| &error.message)
        ));
        self.connection.on_delta_request(&request).unwrap()
    }

    fn send_sotw(&mut self, kind: ResourceType, answer: Option<&Pending>) -> Vec<ClientVerdict> {
        let subscription = self.subscription(kind);
        let mut request = DiscoveryRequest {
            type_url: kind.url().to_owned(),
            resource_names: subscription.names.iter().cloned().collect(),
            ..Default::default()
        };
        if let Some(pending) = answer {
            subscription.nonce.clone_from(&pending.nonce);
            request.error_detail = pending.error.clone().map(status);
        }
        request.version_info.clone_from(&subscription.version);
        request.response_nonce.clone_from(&subscription.nonce);
        self.story.push(format!(
            "> {kind:?} names={:?} version={} n={} err={:?}",
            request.resource_names,
            request.version_info,
            request.response_nonce,
            request.error_detail.as_ref().map(|error| &error.message)
        ));
        self.connection.on_sotw_request(&request).unwrap()
    }

    /// Receives the next response, if there is one.
    fn deliver(&mut self, choose: &mut dyn FnMut(usize) -> usize) -> bool {
        let Some(response) = self.connection.next_response() else { return false };
        let kind = response.kind;
        let texts: Vec<String> = response.resources.iter().map(|resource| describe(kind, resource)).collect();
        self.story.push(format!("< {} {kind:?} {} {:?}", response.nonce, texts.join(" "), response.form));
        self.check_response(&response);
        let removed: Vec<String> = match &response.form {
            Form::Delta { removed } => removed.iter().map(|name| name.to_string()).collect(),
            Form::Sotw { .. } => Vec::new(),
        };
        let is_bad = |resource: &Resource| self.is_bad(kind, resource);
        let bad: Vec<&Arc<Resource>> = response.resources.iter().filter(|resource| is_bad(resource)).collect();
        // Sometimes a good resource is refused too, where the refusal names its resource.
        let is_single = response.resources.len() == 1 && matches!(response.form, Form::Delta { .. });
        let is_named = matches!(kind, ResourceType::Cluster | ResourceType::Endpoints);
        let spite = is_single && !(self.is_strict && is_named) && choose(16) == 0;
        let is_listed = matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        let (error, applies, blamed) = if bad.is_empty() && !spite {
            (None, true, BTreeSet::new())
        } else if is_listed && response.resources.len() > 1 && choose(2) == 0 {
            let cut = choose(3) == 0;
            let named: Vec<&Arc<Resource>> = if cut { bad[..1].to_vec() } else { bad.clone() };
            (Some(listed(kind, &named, cut)), true, named.iter().map(|resource| key(resource)).collect())
        } else {
            let alone = if response.resources.len() == 1 {
                response.resources.iter().map(|r| key(r)).collect()
            } else {
                BTreeSet::new()
            };
            (Some("missing ]: [".to_owned()), false, alone)
        };
        let bad: BTreeSet<_> = bad.into_iter().map(|resource| key(resource)).collect();
        let applied = if applies { self.apply(&response, &removed, &bad) } else { BTreeSet::new() };
        let version = match response.form {
            Form::Sotw { version } => version,
            Form::Delta { .. } => String::new(),
        };
        let subscription = self.subscription(kind);
        if error.is_none() {
            subscription.version.clone_from(&version);
        } else if applies {
            // An Envoy that reconnects after it applied a part of a refused response cannot report what it has.
            subscription.version.clear();
        }
        let pending = Pending { nonce: response.nonce.to_string(), error, applied, refused: blamed };
        self.subscription(kind).pending.push_back(pending);
        if kind == ResourceType::Cluster && self.is_strict {
            self.follow_clusters();
        }
        true
    }

    /// Subscribes to the endpoints of its clusters.
    fn follow_clusters(&mut self) {
        let clusters = &self.envoy[&ResourceType::Cluster].has;
        let wanted: BTreeSet<String> =
            clusters.iter().filter(|(_, cluster)| cluster.body.ends_with(&EDS)).map(|(name, _)| name.clone()).collect();
        self.cold.retain(|name| wanted.contains(name));
        let endpoints = self.subscription(ResourceType::Endpoints);
        let before = std::mem::replace(&mut endpoints.names, wanted.clone());
        if before == wanted {
            return;
        }
        if !before.is_subset(&wanted) {
            endpoints.version.clear();
        }
        endpoints.subscribed = true;
        self.forget_unwanted(ResourceType::Endpoints);
        match self.protocol {
            Protocol::Delta => {
                self.send_delta(DeltaDiscoveryRequest {
                    type_url: ResourceType::Endpoints.url().to_owned(),
                    resource_names_subscribe: wanted.difference(&before).cloned().collect(),
                    resource_names_unsubscribe: before.difference(&wanted).cloned().collect(),
                    ..Default::default()
                });
            }
            Protocol::Sotw => {
                self.send_sotw(ResourceType::Endpoints, None);
            }
        }
    }

    fn is_bad(&self, kind: ResourceType, resource: &Resource) -> bool {
        let (name, version) = key(resource);
        is_bad_content(resource.version) || self.ever_refused.contains(&(kind, name, version))
    }

    fn apply(
        &mut self,
        response: &Response,
        removed: &[String],
        bad: &BTreeSet<(String, Version)>,
    ) -> BTreeSet<(String, Version)> {
        let kind = response.kind;
        let endpoints = self.envoy[&ResourceType::Endpoints].names.clone();
        let all_endpoints = self.envoy[&ResourceType::Endpoints].wildcard;
        let subscription = self.envoy.get_mut(&kind).unwrap();
        let is_complete =
            self.protocol == Protocol::Sotw && matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        if is_complete {
            let listed: BTreeSet<&str> = response.resources.iter().map(|resource| &*resource.name).collect();
            subscription.has.retain(|name, _| listed.contains(name.as_str()));
        }
        for name in removed {
            subscription.has.remove(name);
            self.cold.remove(name);
        }
        let mut applied = BTreeSet::new();
        for resource in response.resources.iter().filter(|resource| !bad.contains(&key(resource))) {
            // A resource without a subscription is ignored.
            if !subscription.wildcard && !subscription.names.contains(&*resource.name) {
                applied.insert(key(resource));
                continue;
            }
            applied.insert(key(resource));
            let before = subscription.has.insert(resource.name.to_string(), resource.clone());
            let changed = before.is_none_or(|before| before.version != resource.version);
            let needs_endpoints = kind == ResourceType::Cluster && changed && resource.body.ends_with(&EDS);
            if needs_endpoints && (self.is_strict || all_endpoints || endpoints.contains(&*resource.name)) {
                self.cold.insert(resource.name.to_string());
            }
            if kind == ResourceType::Endpoints {
                self.cold.remove(&*resource.name);
            }
        }
        applied
    }

    fn check_response(&self, response: &Response) {
        let kind = response.kind;
        let subscription = &self.envoy[&kind];
        assert!(self.is_published, "a response before the fleet was published");
        assert!(!(self.offers.fresh_only && self.resumes), "it has something, and this is for those that have nothing");
        assert!(subscription.subscribed, "{kind:?} was not asked for");
        let limit = match self.protocol {
            Protocol::Delta => UNANSWERED_MAX,
            Protocol::Sotw => 1,
        };
        assert!(subscription.pending.len() < limit, "{kind:?}: too many unanswered");
        for resource in &response.resources {
            let (name, version) = key(resource);
            assert!(subscription.wildcard || subscription.names.contains(&name), "{kind:?} {name} was not asked for");
            assert!(!self.refused.contains(&(kind, name.clone(), version)), "{kind:?} {name} was refused before");
        }
        let is_listed = matches!(kind, ResourceType::Cluster | ResourceType::Listener);
        if !is_listed && (self.protocol == Protocol::Delta || kind != ResourceType::Endpoints) {
            assert!(response.resources.len() <= 1, "{kind:?} in company");
        }
    }

    fn answer(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        let kind = ResourceType::ALL[choose(ResourceType::ALL.len())];
        if kind == ResourceType::Cluster && self.is_strict && !self.cold.is_empty() {
            return;
        }
        let pending = &mut self.subscription(kind).pending;
        let at = if choose(8) == 0 { pending.len().saturating_sub(1) } else { 0 };
        let Some(pending) = pending.remove(at) else { return };
        let verdicts = match self.protocol {
            Protocol::Delta => self.send_delta(DeltaDiscoveryRequest {
                type_url: kind.url().to_owned(),
                response_nonce: pending.nonce.clone(),
                error_detail: pending.error.clone().map(status),
                ..Default::default()
            }),
            Protocol::Sotw => self.send_sotw(kind, Some(&pending)),
        };
        for (name, version) in &pending.refused {
            self.refused.insert((kind, name.clone(), *version));
            self.ever_refused.insert((kind, name.clone(), *version));
        }
        for verdict in verdicts {
            for (name, version) in verdict.resources {
                let Some(version) = version else { continue };
                let item = (name.to_string(), version);
                match verdict.outcome {
                    Outcome::Acknowledged => {
                        assert!(pending.applied.contains(&item), "{kind:?} {name} was not applied")
                    }
                    Outcome::Refused { .. } => {
                        let is_guilty = pending.refused.contains(&item) || is_bad_content(version);
                        assert!(is_guilty && !pending.applied.contains(&item), "{kind:?} {name} was not refused");
                        self.refused.insert((kind, item.0, version));
                    }
                }
            }
        }
    }

    /// Answers a response that does not exist.
    fn talk_nonsense(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        let kind = ResourceType::ALL[choose(ResourceType::ALL.len())];
        let nonce = ["0", "99999999999999999999", "x", "18446744073709551615"][choose(4)].to_owned();
        let error_detail = (choose(2) == 0).then(|| status("nonsense".to_owned()));
        let subscribed = self.subscription(kind).subscribed;
        let type_url = if choose(4) == 0 { "type.googleapis.com/unknown".to_owned() } else { kind.url().to_owned() };
        if !subscribed && type_url == kind.url() {
            return;
        }
        let verdicts = match self.protocol {
            Protocol::Delta => self.send_delta(DeltaDiscoveryRequest {
                type_url,
                response_nonce: nonce,
                error_detail,
                ..Default::default()
            }),
            Protocol::Sotw => {
                let resource_names = self.subscription(kind).names.iter().cloned().collect();
                let request = DiscoveryRequest {
                    type_url,
                    resource_names,
                    response_nonce: nonce,
                    error_detail,
                    ..Default::default()
                };
                self.connection.on_sotw_request(&request).unwrap()
            }
        };
        assert!(verdicts.is_empty());
    }

    /// Checks that no route names a cluster that the Envoy does not have, unless the Envoy refused the cluster.
    fn check_references(&self) {
        let (clusters, routes) = (&self.envoy[&ResourceType::Cluster], &self.envoy[&ResourceType::Route]);
        // Where one version covers all resources, reconnecting with an older configuration breaks before it makes.
        if !self.is_orderly || (self.has_reconnected && self.protocol == Protocol::Sotw) {
            return;
        }
        for (name, route) in &routes.has {
            let cluster = cluster_of(route);
            if self.is_strict {
                let found = clusters.has.get(cluster);
                assert!(found.is_some(), "route {name} names cluster {cluster}, which is not there");
                let is_eds = found.is_some_and(|cluster| cluster.body.ends_with(&EDS));
                let is_warm = self.envoy[&ResourceType::Endpoints].has.contains_key(cluster);
                assert!(is_warm || !is_eds, "route {name} names cluster {cluster}, which has no endpoints");
                continue;
            }
            let is_there = clusters.has.contains_key(cluster) || self.bad_clusters.contains(cluster);
            let was_refused = clusters.pending.iter().any(|pending| pending.error.is_some())
                || self.ever_refused.iter().any(|(kind, name, _)| *kind == ResourceType::Cluster && name == cluster);
            assert!(is_there || was_refused, "route {name} names cluster {cluster}, which is not there");
        }
    }

    /// Answers everything until no response follows.
    fn settle(&mut self) {
        let mut choose = |of: usize| 1 % of;
        for _ in 0..ROUNDS_MAX {
            let mut moved = self.deliver(&mut choose);
            for (at, kind) in ResourceType::ALL.into_iter().enumerate() {
                while !self.envoy[&kind].pending.is_empty() {
                    let before = self.envoy[&kind].pending.len();
                    let mut turn = [at, 1].into_iter();
                    self.answer(&mut |of| turn.next().unwrap_or(1) % of);
                    if self.envoy[&kind].pending.len() == before {
                        break;
                    }
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
        panic!("this never ends");
    }

    fn finish(mut self) {
        if !self.is_published {
            assert!(self.connection.next_response().is_none());
            return;
        }
        if self.offers.fresh_only {
            self.settle();
            self.offer_target();
            self.on_snapshot();
        }
        self.settle();
        self.check_same(true);
        assert!(self.cold.iter().all(|name| !self.should_have(ResourceType::Endpoints, name)), "cold: {:?}", self.cold);
        // Every resource changes to a content that was never refused: now all of them must be accepted.
        for kind in ResourceType::ALL {
            for name in self.target.of(kind).keys().cloned().collect::<Vec<_>>() {
                let resource = (0u32..)
                    .map(|n| match kind {
                        ResourceType::Route => {
                            let cluster = cluster_of(&self.target.of(kind)[&name]).to_owned();
                            let body = format!("{cluster} last {n}").into_bytes();
                            Arc::new(Resource::new(name.clone(), body, Origins::default()))
                        }
                        kind => content(kind, &name, u32::MAX - n, n % 2 == 0),
                    })
                    .find(|resource| !is_bad_content(resource.version))
                    .unwrap();
                self.target.insert(kind, resource);
            }
        }
        self.on_snapshot();
        self.settle();
        self.check_same(false);
        self.on_snapshot();
        let more = self.connection.next_response();
        assert!(more.is_none(), "the same content again was sent: {more:?}");
        self.reconnect();
        if let Some(response) = self.connection.next_response() {
            // A client that reports to have nothing is informed once more that there is nothing; in the state of the
            // world, a shorter list has another version.
            let is_nothing = response.resources.is_empty() && self.envoy[&response.kind].has.is_empty();
            // Reported versions of Secrets are ignored.
            let is_secret = response.kind == ResourceType::Secret;
            assert!(
                is_nothing || is_secret || self.protocol == Protocol::Sotw || is_answer_about_nothing(&response),
                "{response:?}"
            );
        }
    }

    fn should_have(&self, kind: ResourceType, name: &str) -> bool {
        let Some(resource) = self.target.get(kind, name) else { return false };
        !self.is_bad(kind, resource)
    }

    /// Checks that the Envoy has the resources that it should have, except for refused ones.
    fn check_same(&self, but_for_refused: bool) {
        // An Envoy acknowledges the repeat of a refused secret without using it.
        for own in self.connection.resources().into_iter().filter(|own| own.kind != ResourceType::Secret) {
            let Some(acknowledged) = own.acknowledged else { continue };
            // The server does not know that a client has dropped endpoints, or in the state of the world any resource.
            let has = self.envoy[&own.kind].has.get(&*own.name).map(|has| has.version);
            let is_dropped = has.is_none() && (self.protocol == Protocol::Sotw || own.kind == ResourceType::Endpoints);
            assert!(is_dropped || has == Some(acknowledged.version), "{:?} {}: {has:?}", own.kind, own.name);
        }
        for kind in ResourceType::ALL {
            let subscription = &self.envoy[&kind];
            for (name, resource) in self.target.of(kind) {
                let is_wanted = subscription.wildcard || subscription.names.contains(&**name);
                if !is_wanted || !subscription.subscribed || (but_for_refused && self.is_bad(kind, resource)) {
                    continue;
                }
                let has = subscription.has.get(&**name).map(|has| has.version);
                assert_eq!(has, Some(resource.version), "{kind:?} {name}");
            }
            // State of the world never removes endpoints, routes and secrets; and in no variant a resource is removed
            // that a refused listener or route may still name.
            let takes_back =
                self.protocol == Protocol::Delta || matches!(kind, ResourceType::Cluster | ResourceType::Listener);
            if takes_back && !but_for_refused {
                let left: Vec<&String> =
                    subscription.has.keys().filter(|name| self.target.get(kind, name).is_none()).collect();
                assert!(left.is_empty(), "{kind:?} {left:?} should be gone");
            }
        }
    }
}

/// Returns whether a response only reports that names do not exist.
fn is_answer_about_nothing(response: &Response) -> bool {
    response.resources.is_empty()
}
