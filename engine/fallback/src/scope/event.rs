//! Events and actions: everything that the deciding code receives, and everything that it requests.
//!
//! Data only. Nothing here decides.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_api::object::Object;
use holdfast_api::watch_problem::WatchProblem;
use holdfast_graph::ObjectKey;
use holdfast_store::Batch;
use holdfast_store::shards::Observation;
use holdfast_translate::provision::Provisioned;
use holdfast_xds::{Answer, EnvoyId, Offers};

use crate::context::trial::{Trial, Tried};
use crate::persistence::restored::Restored;

/// The role of this replica; one of several replicas leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Convicts and promotes.
    #[default]
    Leader,
    /// Serves the same plan.
    Follower,
}

/// An external event.
#[derive(Clone, Debug)]
pub enum Event {
    /// An object was created or changed; the faults are those of decoding it.
    Applied(Box<Object>, Vec<Fault>),
    /// An object exists, but its content is unusable as a whole.
    Unusable(ObjectKey, Vec<Fault>),
    /// An object of an earlier run cannot be read now; its stored version stays in use.
    Unread(ObjectKey, String),
    /// An object in a file that does not parse, from which an earlier run read it; with the reason. The stored version
    /// stays in use; without one, this version is used.
    Uncertain(Box<Object>, Vec<Fault>, String),
    /// An object was deleted.
    Deleted(ObjectKey),
    /// An Envoy opened a stream; whether it reports resources that it received before.
    Connected(EnvoyId, bool),
    /// A stream of an Envoy ended.
    Disconnected(EnvoyId),
    /// An Envoy answered.
    Answered(Answer),
    /// A probe of this build is available, or no probe is available any longer.
    Probe(Option<Arc<str>>),
    /// Trials ended.
    Tried(Vec<Tried>),
    /// The state of a Gateway's data plane; `None` where there is none any longer.
    Provisioned(ObjectKey, Option<Provisioned>),
    /// All addresses on this host where foreign processes listen, with a description of each: in standalone mode their
    /// ports are unavailable.
    PortsTaken(BTreeMap<SocketAddr, Arc<str>>),
    /// All current problems of watches of the API server.
    WatchProblems(Vec<WatchProblem>),
    /// The state that an earlier run stored. Must come first, or not at all.
    Restored(Box<Restored>),
    /// The role of this replica. A replica that receives no such event leads.
    Role(Role),
    /// The state that the leader shared, which replaces all known state. Of use to followers only.
    Learned(Box<Restored>),
    /// All observations of the other current replicas. Of use to the leader only.
    Observed(Vec<Observation>),
    /// The time in milliseconds of Unix time. Comes before the events of that time.
    Clock(u64),
}

impl Event {
    /// Returns the object that the event is about.
    pub fn object(&self) -> Option<&ObjectKey> {
        match self {
            Self::Applied(object, _) | Self::Uncertain(object, ..) => Some(&object.key),
            Self::Unusable(key, _) | Self::Unread(key, _) | Self::Deleted(key) => Some(key),
            _ => None,
        }
    }
}

/// An external action.
#[derive(Clone, Debug)]
// Few actions exist at a time, and most of them are `Publish`.
#[allow(clippy::large_enum_variant)]
pub enum Action {
    /// Publishes the configuration that the Envoys of a Gateway should have from now on.
    Publish {
        /// `namespace/name` of the Gateway.
        gateway: Arc<str>,
        /// The configuration for all Envoys, and the configurations for single ones.
        offers: Offers,
    },
    /// Ends the service of a deleted Gateway's Envoys.
    Withdraw {
        /// `namespace/name` of the Gateway.
        gateway: Arc<str>,
    },
    /// Tries these contents on the probe.
    Try(Vec<Trial>),
    /// Stores these records before the following actions are published.
    Store(Batch),
}
