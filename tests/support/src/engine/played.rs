//! Simulated Envoys for tests: each acknowledges its offers, except resources that contain a text that it refuses.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_store::Batch;
use holdfast_xds::{Answer, EnvoyId, Offers, Outcome, ResourceType, Version};

use holdfast_engine::engine::{Action, Engine, Event};

/// Maximum number of rounds of answers until nothing is published any more.
const ROUNDS_MAX: usize = 100;

/// A simulated Envoy.
#[derive(Clone, Debug)]
pub struct PlayedEnvoy {
    /// Identity of the Envoy.
    pub id: EnvoyId,
    /// Texts that the Envoy refuses, each with the message of the refusal.
    pub refuses: Vec<(String, String)>,
    has: BTreeMap<(ResourceType, Arc<str>), Version>,
}

impl PlayedEnvoy {
    /// Creates an Envoy of a Gateway (`namespace/name`) that acknowledges everything.
    pub fn new(gateway: &str, node: &str) -> Self {
        let id = EnvoyId { fleet: gateway.into(), node: node.into(), build: "1.40.0".into() };
        Self { id, refuses: Vec::new(), has: BTreeMap::new() }
    }

    /// Makes the Envoy refuse resources that contain `words`, with this message.
    pub fn refusing(mut self, words: &str, message: &str) -> Self {
        self.refuses.push((words.to_owned(), message.to_owned()));
        self
    }

    /// Returns the answers to new offers, resource by resource.
    pub fn answers(&mut self, offers: &Offers) -> Vec<Event> {
        let mut answers = Vec::new();
        if offers.waits(&self.id.build, &self.id.node) {
            return answers;
        }
        let offered = offers.of(&self.id.build, &self.id.node);
        for kind in ResourceType::ALL {
            for (name, resource) in offered.of(kind) {
                if self.has.insert((kind, name.clone()), resource.version) == Some(resource.version) {
                    continue;
                }
                let holds = |words: &str| resource.body.windows(words.len()).any(|part| part == words.as_bytes());
                let refused = self.refuses.iter().find(|(words, _)| holds(words));
                let outcome =
                    refused.map_or(Outcome::Acknowledged, |(_, message)| Outcome::Refused { message: message.clone() });
                answers.push(Event::Answered(Answer {
                    fleet: self.id.fleet.clone(),
                    node: self.id.node.clone(),
                    build: self.id.build.clone(),
                    kind,
                    outcome,
                    resources: vec![(name.clone(), Some(resource.version))],
                }));
            }
        }
        answers
    }
}

/// Lets Envoys answer until nothing is published any more, and returns the records to be stored. Nothing is tried on a
/// probe.
///
/// # Panics If publishing does not end.
#[allow(clippy::panic, reason = "a test that would never end")]
pub fn settle(engine: &mut Engine, envoys: &mut [PlayedEnvoy], mut actions: Vec<Action>) -> Batch {
    let mut batch = Batch::default();
    for _ in 0..ROUNDS_MAX {
        let mut events = Vec::new();
        for action in actions {
            let (gateway, offers) = match action {
                Action::Publish { gateway, offers } => (gateway, offers),
                Action::Store(verdicts) => {
                    batch.append(verdicts);
                    continue;
                }
                Action::Try(_) | Action::Withdraw { .. } => continue,
            };
            for envoy in envoys.iter_mut().filter(|envoy| envoy.id.fleet == gateway) {
                events.extend(envoy.answers(&offers));
            }
        }
        if events.is_empty() {
            batch.append(engine.take_records());
            return batch;
        }
        actions = engine.handle(events);
    }
    panic!("Envoys and engine never come to an end");
}
