//! The protocol written as a script, one message in each line, in the words of `vocabulary.rs`:
//!
//! ```text
//! ! CDS a=1 b=eds1; RDS r=1       everyone is offered exactly this snapshot
//! !build CDS a=2                  offer to the build of this client; !node its node, !others another build and node
//! !-build                         the build has no offer of its own any more; likewise !-node
//! !fresh CDS a=1                  offer to all Envoys without a configuration, until the next `!`
//! ? LDS a=1                       this content was refused for a reason outside of it, and is sent once more
//! > CDS                           a request; version=same is the version of another client that has it all
//! < 1 CDS +a=1 +b=eds1 -c         a response with its nonce
//! = ACK CDS a=1                   the report of an answer
//! ```
//!
//! After a `!` or `>`, all messages that follow from it are expected, exactly and in order: both an unexpected message
//! and a missing message fail the test.

use std::collections::{HashMap, VecDeque};

use holdfast_xds::connection::{ClientVerdict, Connection, Protocol};
use holdfast_xds::response::{Form, Response};
use holdfast_xds::{Offers, Outcome, ResourceType, Snapshot, Version};

use crate::vocabulary::{EnvoyRequest, request, resources, snapshot};

/// Identity of the client.
const BUILD: &str = "1.40.0";
const NODE: &str = "envoy-1";

/// Runs a script in the incremental variant.
pub(crate) fn delta(script: &str) {
    Dialogue::new(Protocol::Delta).play(script);
}

/// Runs a script in the state-of-the-world variant.
pub(crate) fn sotw(script: &str) {
    Dialogue::new(Protocol::Sotw).play(script);
}

struct Dialogue {
    connection: Connection,
    offers: Offers,
    /// Contents by version, for the description of responses.
    contents: HashMap<Version, String>,
    pending: VecDeque<String>,
}

impl Dialogue {
    fn new(protocol: Protocol) -> Self {
        let connection = Connection::new(protocol);
        Self { connection, offers: Offers::default(), contents: HashMap::new(), pending: VecDeque::new() }
    }

    fn play(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (sign, words) = line.split_at(1);
            match sign {
                "!" | ">" | "?" => {
                    assert!(self.pending.is_empty(), "unexpected before `{line}`: {:?}", self.pending);
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
                _ => panic!("`{line}` has no known sign"),
            }
        }
        assert!(self.pending.is_empty(), "unexpected at the end: {:?}", self.pending);
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
            _ => panic!("no audience `{audience}`"),
        }
        let snapshot = self.offers.of(BUILD, NODE).clone();
        match self.offers.fresh_only {
            true => self.connection.on_fresh_snapshot(snapshot),
            false => self.connection.on_snapshot(snapshot),
        }
    }

    fn snapshot(&mut self, words: &str) -> Snapshot {
        let contents =
            resources(words).into_iter().map(|(_, content, resource)| (resource.version, content.to_owned()));
        self.contents.extend(contents);
        snapshot(words)
    }

    fn send_request(&mut self, words: &str) {
        let mut request = request(words);
        if request.version == "same" {
            request.version = self.version_of_another(&request);
        }
        for verdict in request.send_to(&mut self.connection).unwrap() {
            let verdict = self.verdict(&verdict);
            self.pending.push_back(verdict);
        }
    }

    /// Returns the version of another client that was sent the whole current snapshot.
    fn version_of_another(&self, request: &EnvoyRequest) -> String {
        let mut connection = Connection::new(Protocol::Sotw);
        connection.on_snapshot(self.offers.of(BUILD, NODE).clone());
        let request = EnvoyRequest { version: String::new(), nonce: String::new(), ..request.clone() };
        request.send_to(&mut connection).unwrap();
        match connection.next_response().unwrap().form {
            Form::Sotw { version } => version,
            Form::Delta { .. } => panic!("a response of the other variant"),
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

    fn verdict(&self, verdict: &ClientVerdict) -> String {
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
