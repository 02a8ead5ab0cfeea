//! What is there after a sequence of events, as the shortest sequence that leads to the same.

use std::collections::BTreeMap;

use holdfast_graph::ObjectKey;

use crate::engine::Event;

/// Objects that are there, each with the events that matter for it.
#[derive(Clone, Debug, Default)]
pub struct Present(BTreeMap<ObjectKey, Vec<Event>>);

impl Present {
    /// Takes in an event; those that are not about objects are passed over.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Applied(object, _) => {
                let events = self.0.entry(object.key.clone()).or_default();
                // A policy that lost targets stays attached to those that it had.
                events.retain(|before| object.body.lost_targets() && matches!(before, Event::Applied(..)));
                events.push(event.clone());
            }
            Event::Unusable(key, _) => {
                let events = self.0.entry(key.clone()).or_default();
                // What others hang on is served as it was read last.
                events.retain(|event| matches!(event, Event::Applied(object, _) if object.body.is_anchor()));
                events.push(event.clone());
            }
            Event::Unread(key, _) => self.0.entry(key.clone()).or_default().push(event.clone()),
            Event::Deleted(key) => {
                self.0.remove(key);
            }
            _ => {}
        }
    }

    /// The objects, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.0.keys().cloned().collect()
    }

    /// Events that lead from nothing to what is there.
    pub fn events(self) -> Vec<Event> {
        self.0.into_values().flatten().collect()
    }
}
