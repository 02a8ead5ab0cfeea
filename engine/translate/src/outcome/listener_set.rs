//! The outcome of a ListenerSet: its claim, before conflicts with other listeners.

use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_api::object::Age;
use holdfast_graph::ObjectKey;

use super::listener::ListenerPlan;
use super::{Outcome, Outcomes};

/// The claim of a ListenerSet.
#[derive(Clone, Debug, PartialEq)]
pub struct SetClaim {
    /// The age of the set: the older set takes precedence.
    pub age: Age,
    /// The Gateway, if it is one of this controller.
    pub gateway: Option<ObjectKey>,
    /// The listeners, before the resolution of conflicts with other listeners.
    pub listeners: Vec<ListenerPlan>,
    /// The faults, as far as the set alone determines them.
    pub faults: Vec<Fault>,
}

impl Outcome for SetClaim {
    fn of<'o>(outcomes: &'o Outcomes, key: &ObjectKey) -> Option<&'o Arc<Self>> {
        outcomes.sets.get(key)
    }

    fn set(outcomes: &mut Outcomes, key: &ObjectKey, outcome: Option<Arc<Self>>) {
        match outcome {
            Some(outcome) => drop(outcomes.sets.insert(key.clone(), outcome)),
            None => {
                outcomes.sets.remove(key);
                outcomes.lent.remove(key);
            }
        }
    }
}
