//! Gateway API: Gateways with their listeners, the claims of routes, HTTPRoutes and GRPCRoutes.
//!
//! The functions here read objects through the `Reader` and return outcomes; they do not know where outcomes are stored.

pub(crate) mod claims;
mod client;
pub(crate) mod conditions;
mod default_gateways;
mod delegation;
mod external_auth;
pub(crate) mod filters;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod infrastructure;
pub(crate) mod parents;
mod retry;
mod rivals;
pub(crate) mod route;
pub(crate) mod rule;
pub(crate) mod session;
mod share;
mod stream;
pub(crate) mod today;
pub(crate) mod weighted;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use holdfast_api::fault::Fault;
use holdfast_graph::{Edge, Graph, ObjectKey};

use crate::outcome::claims::Claims;

/// Outcomes of GatewayClasses and Gateways, and the claims of routes, that no other unit reads.
#[derive(Debug, Default)]
pub(crate) struct GatewayApi {
    /// Faults of Gateways that are not served.
    pub(crate) unserved: BTreeMap<ObjectKey, Fault>,
    /// Faults of the GatewayClasses of this controller.
    pub(crate) classes: BTreeMap<ObjectKey, Fault>,
    pub(crate) claims: HashMap<ObjectKey, Arc<Claims>>,
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
}
