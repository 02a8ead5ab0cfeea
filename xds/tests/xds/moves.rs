//! Moves of the model's Envoy between audiences, and reconnections after its stream or its server has ended.

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use holdfast_xds::connection::{Connection, Protocol};
use holdfast_xds::{Offers, ResourceType};

use super::Play;

/// Identity of the Envoy.
const BUILD: &str = "1.40.0";
const NODE: &str = "envoy-1";

impl Play {
    /// Offers the target to the audience of the Envoy.
    pub(super) fn offer_target(&mut self) {
        let Offers { everyone, builds, nodes, fresh_only, .. } = &mut self.offers;
        *fresh_only = false;
        let audience = nodes.get_mut(NODE).or_else(|| builds.get_mut(BUILD)).unwrap_or(everyone);
        *audience = self.target.clone();
    }

    /// Adds or removes an offer of the Envoy's own for its node or its build.
    pub(super) fn move_to_another_audience(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        if !self.is_published {
            return;
        }
        let Offers { everyone, builds, nodes, fresh_only, .. } = &mut self.offers;
        *fresh_only = false;
        let now = self.target.clone();
        match choose(8) {
            0 => drop(nodes.insert(NODE.into(), now)),
            1 => drop(builds.insert(BUILD.into(), now)),
            2 => drop(nodes.insert(NODE.into(), everyone.clone())),
            3 => drop(builds.insert(BUILD.into(), everyone.clone())),
            4 => *everyone = now,
            5 | 6 => drop(nodes.remove(NODE)),
            _ => drop(builds.remove(BUILD)),
        }
        self.target = self.offers.of(BUILD, NODE).clone();
        self.story.push("is of another audience".to_owned());
        self.forget_routes_that_are_gone();
        self.on_snapshot();
    }

    /// Restarts the server with its stored configuration, which is that of some audience: for Envoys without a
    /// configuration.
    pub(super) fn restart_server(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        if !self.is_published {
            return;
        }
        let stored = [&self.offers.everyone, self.offers.of(BUILD, ""), self.offers.of("", NODE)][choose(3)].clone();
        self.target = stored.clone();
        self.offers = Offers { fresh_only: true, ..Offers::everyone(stored) };
        self.reconnect();
    }

    /// Breaks the stream; the Envoy reconnects with the resources that it has.
    pub(super) fn reconnect(&mut self) {
        self.has_reconnected = true;
        self.connection = Connection::new(self.protocol);
        self.resumes = false;
        self.refused.clear();
        self.cold.clear();
        self.story.push("reconnects".to_owned());
        if self.is_published {
            self.on_snapshot();
        }
        for kind in ResourceType::ALL {
            let protocol = self.protocol;
            let subscription = self.subscription(kind);
            subscription.pending.clear();
            subscription.nonce.clear();
            if !subscription.subscribed {
                continue;
            }
            match protocol {
                Protocol::Delta => {
                    let subscription = self.subscription(kind);
                    let mut names: Vec<String> = subscription.names.iter().cloned().collect();
                    if subscription.wildcard {
                        names.push("*".to_owned());
                    }
                    let has = subscription.has.iter();
                    let initial = has.map(|(name, resource)| (name.clone(), resource.version.to_string())).collect();
                    if names.is_empty() {
                        subscription.subscribed = false;
                        continue;
                    }
                    self.resumes |= !subscription.has.is_empty();
                    self.send_delta(DeltaDiscoveryRequest {
                        type_url: kind.url().to_owned(),
                        resource_names_subscribe: names,
                        initial_resource_versions: initial,
                        ..Default::default()
                    });
                }
                Protocol::Sotw => {
                    let subscription = self.subscription(kind);
                    if !subscription.wildcard && subscription.names.is_empty() {
                        subscription.subscribed = false;
                        continue;
                    }
                    let has_version = !subscription.version.is_empty();
                    self.resumes |= has_version;
                    self.send_sotw(kind, None);
                }
            }
        }
    }
}
