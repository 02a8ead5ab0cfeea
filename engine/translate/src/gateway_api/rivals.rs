//! Conflicts of HTTPRoutes and GRPCRoutes about hosts of a listener: routes of the two kinds must not share a host, and
//! the older route has it. A route that lost its hosts to a still older one takes no hosts from others.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#grpcroute> (hostnames)

use std::collections::BTreeMap;

use holdfast_api::apis::kinds;
use holdfast_api::object::Age;
use holdfast_envoy::model::table::Host;
use holdfast_graph::ObjectKey;

use crate::outcome::claims::{ListenerId, Rival};
use crate::reader::Reader;

/// Maximum number of routes that are examined for one conflict; routes beyond it count as served.
pub(crate) const CONFLICT_ROUTES_MAX: usize = 256;

/// Returns the other one of the two kinds.
pub(super) fn other_kind(kind: &str) -> &'static str {
    if kind == kinds::GRPC_ROUTE { kinds::HTTP_ROUTE } else { kinds::GRPC_ROUTE }
}

/// Returns the oldest route of the other kind that has hosts of a claim at a listener.
pub(super) fn winner<'a>(
    kind: &str,
    claim: (&Age, &[Host]),
    listener: &ListenerId,
    reader: &mut Reader<'a>,
) -> Option<&'a ObjectKey> {
    let mut conflict = Conflict { listener, reader, served: BTreeMap::new() };
    let older = conflict.older(kind, claim);
    older.into_iter().find(|(key, rival)| conflict.is_served(key, rival)).map(|(key, _)| key)
}

struct Conflict<'r, 'a> {
    listener: &'r ListenerId,
    reader: &'r mut Reader<'a>,
    served: BTreeMap<&'a ObjectKey, bool>,
}

impl<'a> Conflict<'_, 'a> {
    /// Returns the older routes of the other kind with hosts of a claim, the oldest first.
    fn older(&mut self, kind: &str, (age, hosts): (&Age, &[Host])) -> Vec<(&'a ObjectKey, &'a Rival)> {
        let other = other_kind(kind);
        let meets = |host: &Host| hosts.iter().any(|own| own.intersection(host).is_some());
        let is_older = |rival: &Rival| (&rival.age, other) < (age, kind) && rival.hosts.iter().any(meets);
        let all = self.reader.rivals(self.listener, other).filter(|(_, rival)| is_older(rival));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(key, rival)| (&rival.age, *key));
        all
    }

    /// Returns whether a route has its hosts at the listener.
    fn is_served(&mut self, key: &'a ObjectKey, rival: &Rival) -> bool {
        if let Some(known) = self.served.get(key) {
            return *known;
        }
        if self.served.len() >= CONFLICT_ROUTES_MAX {
            return true;
        }
        self.served.insert(key, true);
        let older = self.older(&key.kind, (&rival.age, &rival.hosts));
        let is_served = !older.into_iter().any(|(key, rival)| self.is_served(key, rival));
        self.served.insert(key, is_served);
        is_served
    }
}
