//! Setup of the probe: responses with the slots for contents, and with the resources to which contents refer.
//!
//! References of contents are answered with minimal resources, so that the probe waits for nothing.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_envoy::encode::{names, slots};
use holdfast_xds::ResourceType;

use crate::push::{Nonces, Push, PushContent};

/// Maximum number of route configurations that are tried at a time.
pub(crate) const ROUTE_SLOTS: usize = 128;
/// Maximum number of certificates that are tried at a time, and of bundles of authorities.
pub(crate) const SECRET_SLOTS: usize = 16;
/// Maximum number of names of one request of the probe; further names are ignored.
const PROBE_NAMES_MAX: usize = 4096;

/// The state of the setup.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    subscribed: BTreeSet<ResourceType>,
    /// Slots to which the probe has not subscribed yet.
    unsubscribed: BTreeSet<String>,
    /// Responses without an answer; true if the answer must be an ACK.
    unanswered: BTreeMap<u64, bool>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let routes = (0..ROUTE_SLOTS).map(names::probe_routes);
        let secrets =
            (0..SECRET_SLOTS).flat_map(|number| [names::probe_certificate(number), names::probe_authorities(number)]);
        Self { unsubscribed: routes.chain(secrets).collect(), ..Self::default() }
    }

    /// Returns whether the probe has subscribed to every slot, and accepted it.
    pub(crate) fn is_done(&self) -> bool {
        self.unsubscribed.is_empty() && self.unanswered.is_empty()
    }

    /// Responds to a subscription to names of a type; the first request for clusters or listeners is a wildcard.
    pub(crate) fn on_subscription(&mut self, kind: ResourceType, names: &[String], nonces: &mut Nonces) -> Vec<Push> {
        let is_first = self.subscribed.insert(kind);
        let names = names.iter().take(PROBE_NAMES_MAX);
        match kind {
            ResourceType::Cluster if is_first => {
                let clusters = (0..SECRET_SLOTS).map(names::probe_authorities);
                let clusters = clusters.map(|name| (name.clone(), slots::authorities(&name, &name))).collect();
                vec![self.expect(nonces.push(kind, PushContent::Resources(clusters)), true)]
            }
            ResourceType::Listener if is_first => {
                let routes = slots::routes(names::PROBE_ROUTES_LISTENER, (0..ROUTE_SLOTS).map(names::probe_routes));
                let certificates = slots::certificates(
                    names::PROBE_CERTIFICATES_LISTENER,
                    (0..SECRET_SLOTS).map(names::probe_certificate),
                );
                let listeners = vec![
                    (names::PROBE_ROUTES_LISTENER.into(), routes),
                    (names::PROBE_CERTIFICATES_LISTENER.into(), certificates),
                ];
                vec![self.expect(nonces.push(kind, PushContent::Resources(listeners)), true)]
            }
            ResourceType::Cluster | ResourceType::Listener => Vec::new(),
            ResourceType::Route => {
                let slots: Vec<_> = names.filter(|name| self.unsubscribed.remove(*name)).collect();
                let one = |name: &String| (name.clone(), slots::no_routes(name));
                let push = (!slots.is_empty())
                    .then(|| nonces.push(kind, PushContent::Resources(slots.into_iter().map(one).collect())));
                push.into_iter().map(|push| self.expect(push, true)).collect()
            }
            ResourceType::Secret => names
                .map(|name| {
                    let is_slot = self.unsubscribed.remove(name);
                    let push = placeholder(name, nonces);
                    if is_slot { self.expect(push, false) } else { push }
                })
                .collect(),
            ResourceType::Endpoints => {
                names.map(|name| nonces.resource(kind, name.clone(), slots::no_endpoints(name))).collect()
            }
        }
    }

    /// Processes an answer. `None` if it does not belong to the setup; false if a slot was refused.
    pub(crate) fn answer(&mut self, nonce: u64, refused: bool) -> Option<bool> {
        self.unanswered.remove(&nonce).map(|must_be_taken| !(must_be_taken && refused))
    }

    fn expect(&mut self, push: Push, must_be_taken: bool) -> Push {
        self.unanswered.insert(push.nonce, must_be_taken);
        push
    }
}

/// The placeholder of a Secret's slot while no trial uses it: refused by Envoy, and different each time.
///
/// Envoy acknowledges a Secret that it has just refused if it receives the same content again, unless it received
/// another one in between. A refusal also ends the wait for the Secret.
pub(crate) fn placeholder(name: &str, nonces: &mut Nonces) -> Push {
    let mut push = nonces.push(ResourceType::Secret, PushContent::Resources(Vec::new()));
    let authorities = names::is_probe_authorities(name);
    push.content = PushContent::Resources(vec![(name.to_owned(), slots::placeholder(name, authorities, push.nonce))]);
    push
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    fn names(name: impl Fn(usize) -> String, count: usize) -> Vec<String> {
        (0..count).map(name).collect()
    }

    #[test]
    fn setup_is_done_when_every_slot_was_requested_and_answered() {
        let (mut setup, mut nonces) = (Setup::new(), Nonces::default());
        let mut pushes = setup.on_subscription(ResourceType::Cluster, &[], &mut nonces);
        pushes.extend(setup.on_subscription(
            ResourceType::Secret,
            &names(names::probe_authorities, SECRET_SLOTS),
            &mut nonces,
        ));
        pushes.extend(setup.on_subscription(ResourceType::Listener, &[], &mut nonces));
        pushes.extend(setup.on_subscription(
            ResourceType::Secret,
            &names(names::probe_certificate, SECRET_SLOTS),
            &mut nonces,
        ));
        let (first, second) = (names(names::probe_routes, ROUTE_SLOTS).split_off(1), vec![names::probe_routes(0)]);
        pushes.extend(setup.on_subscription(ResourceType::Route, &first, &mut nonces));
        for push in std::mem::take(&mut pushes) {
            assert_eq!(setup.answer(push.nonce, push.kind == ResourceType::Secret), Some(true));
        }
        assert!(!setup.is_done());
        for push in setup.on_subscription(ResourceType::Route, &second, &mut nonces) {
            assert!(!setup.is_done());
            assert_eq!(setup.answer(push.nonce, false), Some(true));
        }
        assert!(setup.is_done());
    }

    #[test]
    fn a_refused_slot_is_reported() {
        let (mut setup, mut nonces) = (Setup::new(), Nonces::default());
        let push = setup.on_subscription(ResourceType::Listener, &[], &mut nonces).remove(0);
        assert_eq!(setup.answer(push.nonce, true), Some(false));
        assert_eq!(setup.answer(push.nonce, true), None);
    }

    #[test]
    fn what_contents_name_is_answered_and_not_waited_for() {
        let (mut setup, mut nonces) = (Setup::new(), Nonces::default());
        let name = ["secret/a/b".to_owned()];
        assert_eq!(setup.on_subscription(ResourceType::Secret, &name, &mut nonces).len(), 1);
        assert_eq!(setup.on_subscription(ResourceType::Endpoints, &name, &mut nonces).len(), 1);
        assert_eq!(setup.on_subscription(ResourceType::Route, &name, &mut nonces), Vec::new());
        assert!(setup.unanswered.is_empty());
    }

    #[test]
    fn no_two_placeholders_are_equal() {
        let mut nonces = Nonces::default();
        let [first, second] = [placeholder("s", &mut nonces), placeholder("s", &mut nonces)];
        assert_ne!(first.content, second.content);
    }
}
