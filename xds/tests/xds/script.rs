//! The protocol written as a script, one message in each line:
//!
//! ```text
//! ! CDS a=1 b=eds1; RDS r=1       everyone is offered exactly this (content by name)
//! !build CDS a=2                  offer to the build of this client; !node its node, !others another build and node
//! !-build                         the build has no offer of its own any more; likewise !-node
//! !fresh CDS a=1                  offer to all Envoys without a configuration, until the next `!`
//! ? LDS a=1                       this content was refused for a reason outside of it, and is sent once more
//! > CDS                           a request; add=a,b del=a,b init=a:1,b:2 in delta; names=a,b version= in SotW, where
//!                                 `same` is the version of another client that has it all
//! > CDS n=1 err=why not           the answer to response 1; err= extends to the end of the line
//! < 1 CDS +a=1 +b=eds1 -c         a response with its nonce; SotW has no signs
//! = ACK CDS a=1                   the report of an answer; NACK has `: why` at the end
//! ```
//!
//! After a `!` or `>`, all messages that follow from it are expected, exactly and in order: both an unexpected message
//! and a missing message fail the test. A cluster with a content that starts with `eds` gets its endpoints over EDS.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::EdsClusterConfig;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::rpc::Status;
use holdfast_graph::Origins;
use holdfast_xds::connection::{Connection, Protocol, Verdict};
use holdfast_xds::response::{Form, Response};
use holdfast_xds::{Offers, Outcome, Resource, ResourceType, Snapshot, Version};
use prost::Message;

/// Identity of the client.
const BUILD: &str = "1.40.0";
const NODE: &str = "envoy-1";

/// Runs a script in the incremental variant.
pub(crate) fn delta(script: &str) {
    Talk::new(Protocol::Delta).hold(script);
}

/// Runs a script in the state-of-the-world variant.
pub(crate) fn sotw(script: &str) {
    Talk::new(Protocol::Sotw).hold(script);
}

/// Returns a resource with a content that is described by a word.
pub(crate) fn resource(kind: ResourceType, name: &str, content: &str) -> Arc<Resource> {
    let body = match kind {
        ResourceType::Cluster => Cluster {
            name: name.to_owned(),
            alt_stat_name: content.to_owned(),
            eds_cluster_config: content.starts_with("eds").then(EdsClusterConfig::default),
            ..Default::default()
        }
        .encode_to_vec(),
        _ => content.as_bytes().to_vec(),
    };
    Arc::new(Resource::new(name, body, Origins::default()))
}

/// Returns the type with this abbreviation.
pub(crate) fn kind(short: &str) -> ResourceType {
    let found = ResourceType::ALL.into_iter().find(|kind| kind.short_name() == short);
    found.unwrap_or_else(|| panic!("no type {short}"))
}

struct Talk {
    connection: Connection,
    offers: Offers,
    /// Contents by version, for the description of responses.
    contents: HashMap<Version, String>,
    pending: VecDeque<String>,
}

impl Talk {
    fn new(protocol: Protocol) -> Self {
        let connection = Connection::new(protocol);
        Self { connection, offers: Offers::default(), contents: HashMap::new(), pending: VecDeque::new() }
    }

    fn hold(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (sign, words) = line.split_at(1);
            match sign {
                "!" | ">" | "?" => {
                    assert!(self.pending.is_empty(), "before `{line}` nobody expected {:?}", self.pending);
                    if sign == "?" {
                        for kind in ResourceType::ALL {
                            for (name, resource) in self.snapshot(words).of(kind) {
                                self.connection.try_again(kind, name, resource.version);
                            }
                        }
                    } else if sign == "!" {
                        let (audience, words) = words.split_once(' ').unwrap_or((words, ""));
                        self.publish(audience, words)
                    } else {
                        self.send_request(words.trim())
                    }
                    while let Some(response) = self.connection.next_response() {
                        let response = self.response(&response);
                        self.pending.push_back(response);
                    }
                }
                "<" | "=" => {
                    let next = self.pending.pop_front();
                    assert_eq!(next.as_deref().map(str::trim), Some(line), "then {:?}", self.pending);
                }
                _ => panic!("what does `{line}` mean?"),
            }
        }
        assert!(self.pending.is_empty(), "at the end nobody expected {:?}", self.pending);
    }

    fn publish(&mut self, audience: &str, words: &str) {
        let snapshot = self.snapshot(words);
        let Offers { everyone, builds, nodes, fresh_only, .. } = &mut self.offers;
        *fresh_only = audience == "fresh";
        match audience {
            "" | "fresh" => *everyone = snapshot,
            "build" => drop(builds.insert(BUILD.into(), snapshot)),
            "node" => drop(nodes.insert(NODE.into(), snapshot)),
            "others" => {
                builds.insert("another".into(), snapshot.clone());
                nodes.insert("another".into(), snapshot);
            }
            "-build" => drop(builds.remove(BUILD)),
            "-node" => drop(nodes.remove(NODE)),
            _ => panic!("who is `{audience}`?"),
        }
        let snapshot = self.offers.of(BUILD, NODE).clone();
        match self.offers.fresh_only {
            true => self.connection.on_fresh_snapshot(snapshot),
            false => self.connection.on_snapshot(snapshot),
        }
    }

    fn snapshot(&mut self, words: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for part in words.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let mut words = part.split_whitespace();
            let kind = kind(words.next().unwrap());
            for word in words {
                let (name, content) = word.split_once('=').unwrap();
                let resource = resource(kind, name, content);
                self.contents.insert(resource.version, content.to_owned());
                snapshot.insert(kind, resource);
            }
        }
        snapshot
    }

    fn send_request(&mut self, words: &str) {
        let (short, rest) = words.split_once(' ').unwrap_or((words, ""));
        let kind = kind(short);
        let (fields, error) = match rest.split_once("err=") {
            Some((fields, error)) => (fields, Some(error.replace("\\n", "\n"))),
            None => (rest, None),
        };
        let fields: HashMap<&str, &str> = fields.split_whitespace().filter_map(|field| field.split_once('=')).collect();
        let list = |key: &str| {
            let names = fields.get(key).map_or(Vec::new(), |names| names.split(',').collect());
            names.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let nonce = fields.get("n").copied().unwrap_or_default().to_owned();
        let error_detail = error.map(|message| Status { code: 13, message, ..Default::default() });
        let verdicts = match self.connection.protocol() {
            Protocol::Delta => self.connection.on_delta_request(&DeltaDiscoveryRequest {
                type_url: kind.url().to_owned(),
                resource_names_subscribe: list("add"),
                resource_names_unsubscribe: list("del"),
                initial_resource_versions: list("init").iter().map(|had| self.initial(kind, had)).collect(),
                response_nonce: nonce,
                error_detail,
                ..Default::default()
            }),
            Protocol::Sotw => self.connection.on_sotw_request(&DiscoveryRequest {
                type_url: kind.url().to_owned(),
                resource_names: list("names"),
                version_info: match fields.get("version") {
                    Some(&"same") => self.version_of_another(kind, list("names")),
                    version => version.copied().unwrap_or_default().to_owned(),
                },
                response_nonce: nonce,
                error_detail,
                ..Default::default()
            }),
        };
        for verdict in verdicts.unwrap() {
            let verdict = self.verdict(&verdict);
            self.pending.push_back(verdict);
        }
    }

    fn initial(&self, kind: ResourceType, had: &str) -> (String, String) {
        let (name, content) = had.split_once(':').unwrap();
        (name.to_owned(), resource(kind, name, content).version.to_string())
    }

    /// Returns the version of another client that was sent the whole current snapshot.
    fn version_of_another(&self, kind: ResourceType, names: Vec<String>) -> String {
        let mut connection = Connection::new(Protocol::Sotw);
        connection.on_snapshot(self.offers.of(BUILD, NODE).clone());
        let type_url = kind.url().to_owned();
        let request = DiscoveryRequest { type_url, resource_names: names, ..Default::default() };
        connection.on_sotw_request(&request).unwrap();
        match connection.next_response().unwrap().form {
            Form::Sotw { version } => version,
            Form::Delta { .. } => panic!("not the variant that was asked for"),
        }
    }

    fn response(&self, response: &Response) -> String {
        let is_delta = matches!(response.form, Form::Delta { .. });
        let sign = if is_delta { "+" } else { "" };
        let mut words = vec![format!("< {} {}", response.nonce, response.kind.short_name())];
        for resource in &response.resources {
            words.push(format!("{sign}{}={}", resource.name, self.contents[&resource.version]));
        }
        if let Form::Delta { removed } = &response.form {
            words.extend(removed.iter().map(|name| format!("-{name}")));
        }
        words.join(" ")
    }

    fn verdict(&self, verdict: &Verdict) -> String {
        let (word, reason) = match &verdict.outcome {
            Outcome::Acknowledged => ("ACK", String::new()),
            Outcome::Refused { message } => ("NACK", format!(" : {message}")),
        };
        let mut words = vec![format!("= {word} {}", verdict.kind.short_name())];
        for (name, version) in &verdict.resources {
            words.push(match version {
                Some(version) => format!("{name}={}", self.contents[version]),
                None => format!("-{name}"),
            });
        }
        format!("{}{reason}", words.join(" "))
    }
}
