//! Outcomes: what units yield, as plain data that other units and later rooms read.
//!
//! A type is here if an earlier room than the one that computes it reads it, or if two APIs yield it. This room does not
//! read objects and makes no decisions: the folder of each API computes its outcomes, and `update` stores them.

pub mod addition;
pub mod claims;
pub mod delegation;
pub mod finding;
pub mod gateway;
pub(crate) mod host;
pub mod listener;
pub mod listener_set;
pub mod policy;
pub mod route;
pub mod setting;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_graph::ObjectKey;

use self::claims::Rivals;
use self::gateway::{GatewayPlan, LentListeners};
use self::host::{Claimants, HostClaim};
use self::listener_set::SetClaim;
use self::policy::PolicyPlan;

/// The outcomes that other units read.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) gateways: HashMap<ObjectKey, Arc<GatewayPlan>>,
    /// Hostnames of last valid versions, for listeners with an unusable hostname as written.
    pub(crate) lent: HashMap<ObjectKey, LentListeners>,
    /// Claims of ListenerSets, each read on its own.
    pub(crate) sets: BTreeMap<ObjectKey, Arc<SetClaim>>,
    /// Claims of root HTTPProxies.
    pub(crate) hosts: BTreeMap<ObjectKey, Arc<HostClaim>>,
    /// Hosts of Gateway API routes at the Gateway of HTTPProxies.
    pub(crate) claimants: Claimants,
    pub(crate) rivals: Rivals,
    /// Policies, independent of their targets.
    pub(crate) policies: HashMap<ObjectKey, Arc<PolicyPlan>>,
}

impl Outcomes {
    /// Returns the faults of all outcomes.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Fault> {
        let gateways = self.gateways.values().flat_map(|plan| &plan.faults);
        let sets = self.sets.values().flat_map(|claim| &claim.faults);
        let policies = self.policies.values().flat_map(|plan| &plan.faults);
        gateways.chain(sets).chain(policies)
    }
}

/// An outcome that other units read by the key of its object.
pub(crate) trait Outcome: PartialEq + Sized {
    /// Returns the outcome of an object.
    fn of<'o>(outcomes: &'o Outcomes, key: &ObjectKey) -> Option<&'o Arc<Self>>;

    /// Sets the outcome of an object; `None` removes it.
    fn set(outcomes: &mut Outcomes, key: &ObjectKey, outcome: Option<Arc<Self>>);
}
