//! The state after a sequence of events, as the shortest sequence that leads to the same state.

use std::collections::BTreeMap;

use holdfast_api::apis::Body;
use holdfast_graph::ObjectKey;

use holdfast_fallback::scope::event::Event;

/// Existing objects, each with its relevant events.
#[derive(Clone, Debug, Default)]
pub struct Present(BTreeMap<ObjectKey, Vec<Event>>);

impl Present {
    /// Processes an event; events that do not concern objects are ignored.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Applied(object, _) => {
                let events = self.0.entry(object.key.clone()).or_default();
                // A policy that lost targets stays attached to its earlier targets, and a rule that lost matches keeps
                // its earlier ones, as a Gateway does with an unreadable default scope.
                let lost_host = object.body.lost_host().is_some();
                let lost_part = object.body.lost_targets() || object.body.lost_matches() || object.body.lost_scope();
                let depends = lost_part || lost_host;
                events.retain(|before| depends && matches!(before, Event::Applied(..)));
                events.push(event.clone());
            }
            Event::Unusable(key, _) => {
                let events = self.0.entry(key.clone()).or_default();
                // An object that other objects depend on is served in its last readable version, and a route keeps the
                // claims of that version.
                let is_kept = |body: &Body| body.is_anchor() || body.route().is_some();
                events.retain(|event| matches!(event, Event::Applied(object, _) if is_kept(&object.body)));
                events.push(event.clone());
            }
            Event::Uncertain(object, ..) => self.0.entry(object.key.clone()).or_default().push(event.clone()),
            Event::Unread(key, _) => self.0.entry(key.clone()).or_default().push(event.clone()),
            Event::Deleted(key) => {
                self.0.remove(key);
            }
            _ => {}
        }
    }

    /// Returns the keys of the objects, sorted.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.0.keys().cloned().collect()
    }

    /// Returns the events that lead from an empty state to this state.
    pub fn events(self) -> Vec<Event> {
        self.0.into_values().flatten().collect()
    }
}
