//! Gateway API: Gateways with their listeners, the claims of routes, HTTPRoutes and GRPCRoutes.
//!
//! The functions here read objects through the `Reader` and return outcomes; they do not know where outcomes are stored.

pub mod claims;
pub(crate) mod conditions;
pub(crate) mod conflicts;
pub(crate) mod filters;
pub mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub mod infrastructure;
pub mod listener;
pub(crate) mod narrow;
pub(crate) mod narrow_calls;
pub(crate) mod parents;
pub mod route;
pub mod rule;
pub(crate) mod today;
pub(crate) mod weighted;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use claims::{Claims, ListenerId};
use gateway::GatewayPlan;
use holdfast_api::fault::Fault;
use holdfast_api::object::Age;
use holdfast_envoy::model::table::Host;
use holdfast_graph::{Edge, Graph, ObjectKey};

/// A route that claims hosts at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) age: Age,
    pub(crate) hosts: Vec<Host>,
}

/// Hostnames of the last valid version of a Gateway or ListenerSet, by listener; `None` means all hosts.
pub type LentHostnames = BTreeMap<Arc<str>, Option<Arc<str>>>;

/// Routes at a listener, by kind.
pub(crate) type Rivals = HashMap<(ListenerId, Arc<str>), HashMap<ObjectKey, Rival>>;

/// Outcomes of GatewayClasses and Gateways, and the claims of routes.
#[derive(Debug, Default)]
pub(crate) struct GatewayApi {
    pub(crate) plans: HashMap<ObjectKey, Arc<GatewayPlan>>,
    /// Faults of Gateways that are not served.
    pub(crate) unserved: BTreeMap<ObjectKey, Fault>,
    /// Faults of the GatewayClasses of this controller.
    pub(crate) classes: BTreeMap<ObjectKey, Fault>,
    pub(crate) claims: HashMap<ObjectKey, Arc<Claims>>,
    pub(crate) rivals: Rivals,
    /// Hostnames of last valid versions, for listeners with an unusable hostname as written.
    pub(crate) lent: HashMap<ObjectKey, LentHostnames>,
    /// Edges of Gateways: those that a Gateway reads itself, and those that its policies read.
    pub(crate) edges: HashMap<ObjectKey, (Vec<Edge>, Vec<Edge>)>,
}

impl GatewayApi {
    /// Writes the edges of a Gateway into the graph.
    pub(crate) fn link(&mut self, key: &ObjectKey, graph: &mut Graph) {
        let Some((own, of_policies)) = self.edges.get(key) else { return };
        let all: Vec<Edge> = own.iter().chain(of_policies).cloned().collect();
        if all.is_empty() {
            self.edges.remove(key);
        }
        graph.replace(key, all);
    }

    /// Replaces the claims of a route among those of its listeners. Returns the listeners where they changed.
    pub(crate) fn set_rivals(
        &mut self,
        key: &ObjectKey,
        age: Option<&Age>,
        old: Option<&Claims>,
        new: Option<&Claims>,
    ) -> Vec<(ListenerId, Arc<str>)> {
        let places = |claims: Option<&Claims>| -> BTreeSet<ListenerId> {
            let attachments = claims.into_iter().flat_map(|claims| claims.attachments());
            attachments.map(|attachment| attachment.listener.clone()).collect()
        };
        let mut changed = Vec::new();
        for listener in places(old).union(&places(new)) {
            let hosts = new.into_iter().flat_map(|claims| claims.attachments());
            let hosts =
                hosts.filter(|a| a.listener == *listener).flat_map(|a| a.hosts.iter().cloned()).collect::<Vec<_>>();
            let rival = age.cloned().filter(|_| !hosts.is_empty()).map(|age| Rival { age, hosts });
            let at = (listener.clone(), key.kind.clone());
            let routes = self.rivals.entry(at.clone()).or_default();
            let before = match rival.clone() {
                Some(rival) => routes.insert(key.clone(), rival),
                None => routes.remove(key),
            };
            if routes.is_empty() {
                self.rivals.remove(&at);
            }
            if before != rival {
                changed.push(at);
            }
        }
        changed
    }
}
