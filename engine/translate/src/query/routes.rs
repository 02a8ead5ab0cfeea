//! Plans of routes: as desired, as served to a fleet, and under an overlay; and their contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Snapshot;

use crate::assembly::fleet::{Composition, FleetId};
use crate::incremental::guard;
use crate::listeners::at_secret;
use crate::outcome::route::{Rendered, RoutePlan};
use crate::overlay::Overlay;
use crate::reader::Input;
use crate::update::variants::plan_over;
use crate::{Translator, Unit, httpproxy};

impl Translator {
    /// Returns the plan of a route under an overlay, without applying the overlay.
    pub fn try_route(&self, key: &ObjectKey, over: &Overlay, objects: &ObjectSnapshot) -> Option<RoutePlan> {
        if httpproxy::is_proxy(key) {
            return self.try_share(key, over, objects);
        }
        let mut reader = self.reader(Some(over), objects);
        guard::guarded(|| plan_over(key, over, &self.settings, &mut reader)).flatten()
    }

    /// Returns the contents of a route under an overlay, with any policy settings of the Gateway; empty where the overlay
    /// changes nothing that the route reads.
    pub fn contents_under(
        &self,
        fleet: &FleetId,
        key: &ObjectKey,
        overlay: &Overlay,
        objects: &ObjectSnapshot,
    ) -> Vec<(Content, Node)> {
        let units = match httpproxy::is_proxy(key) {
            // The unit of an HTTPProxy is its root with all included HTTPProxies.
            true => self.roots_reading(key).into_iter().map(Unit::Route).collect(),
            false => vec![Unit::Claims(key.clone()), Unit::Route(key.clone())],
        };
        let mut reads = units.iter().flat_map(|unit| self.units.reads(unit));
        let altered = |input: &Input| match input {
            Input::Object(key) => overlay.alters(key),
            Input::Outcome(key) => overlay.policies.contains_key(key),
            _ => false,
        };
        if !reads.any(altered) {
            return Vec::new();
        }
        let over = Overlay { closed: BTreeMap::new(), ..overlay.clone() };
        let plan = self.try_route(key, &over, objects);
        plan.map(|plan| self.contents_under_any_levels(fleet, &plan)).unwrap_or_default()
    }

    /// Returns whether an object may currently use another one.
    pub fn is_granted(&self, from: &ObjectKey, to: &ObjectKey, objects: &ObjectSnapshot) -> bool {
        self.reader(None, objects).granted((&from.group, &from.kind, &from.namespace), to)
    }

    /// Returns the contents of a route's plan in the main fleet of a Gateway.
    pub fn contents(&self, gateway: &ObjectKey, plan: &RoutePlan) -> Vec<(Content, Node)> {
        self.assembly.fleets.get(&FleetId::main(gateway)).map(|fleet| fleet.contents(plan)).unwrap_or_default()
    }

    /// Returns the contents of a route's plan with the desired policy settings of the Gateway and its listeners, and with
    /// those that a fleet applies instead of them. Which of both a refused content was made with depends on the time of
    /// the refusal.
    pub fn contents_under_any_levels(&self, fleet: &FleetId, plan: &RoutePlan) -> Vec<(Content, Node)> {
        let Some(main) = self.assembly.fleets.get(&FleetId::main(&fleet.gateway)) else { return Vec::new() };
        let served = self.assembly.fleets.get(fleet).unwrap_or(main).levels();
        let desired = self.policy.levels.get(&fleet.gateway).cloned().unwrap_or_default();
        let mut contents = main.contents_under_levels(plan, &desired);
        if **served != *desired {
            contents.extend(main.contents_under_levels(plan, served));
        }
        // Of a chain, either content can be refused, also while the chain itself is replaced.
        contents.extend(main.named_stream_contents(plan));
        contents.sort_unstable();
        contents.dedup();
        contents
    }

    /// Returns the contents of a route of connections in the main fleet of a Gateway; empty for other routes.
    pub fn streams_of(&self, gateway: &ObjectKey, plan: &RoutePlan) -> Vec<(Content, Node)> {
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway)).filter(|_| plan.stream.is_some());
        fleet.map(|fleet| fleet.stream_contents(plan, &fleet.levels().connections)).unwrap_or_default()
    }

    /// Returns the contents of the routes of a plan that a predicate selects.
    pub fn parts_of(
        &self,
        gateway: &ObjectKey,
        plan: &RoutePlan,
        wanted: impl Fn(&Rendered, ListenerContext) -> bool,
    ) -> Vec<(Content, Node)> {
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        fleet.map(|fleet| fleet.parts_of(plan, wanted)).unwrap_or_default()
    }

    /// Returns the contents of the routes of a plan that a predicate selects, as if the Gateway had this client
    /// certificate.
    pub fn parts_with_identity(
        &self,
        gateway: &ObjectKey,
        plan: &RoutePlan,
        identity: &ClientIdentity,
        wanted: impl Fn(&Rendered, ListenerContext) -> bool,
    ) -> Vec<(Content, Node)> {
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        fleet.map(|fleet| fleet.parts_with(plan, identity, wanted)).unwrap_or_default()
    }

    /// Returns the routes of a plan in the tables of a Gateway that have one of these contents, by route configuration.
    pub fn parts_with(
        &self,
        gateway: &ObjectKey,
        plan: &RoutePlan,
        contents: &BTreeSet<Content>,
    ) -> BTreeMap<String, BTreeMap<Content, Arc<Rendered>>> {
        let mut parts: BTreeMap<String, BTreeMap<Content, Arc<Rendered>>> = BTreeMap::new();
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        for (table, context, served) in fleet.into_iter().flat_map(|fleet| fleet.placed(plan)) {
            let content = served.encoded(context).1;
            if contents.contains(&content) {
                parts.entry(names::route_configuration(table)).or_default().insert(content, served);
            }
        }
        parts
    }

    /// Returns whether a route in the Gateway's main fleet has this content. Scans all routes: for rare queries only.
    pub fn has_content(&self, gateway: &ObjectKey, content: &Content) -> bool {
        self.assembly.fleets.get(&FleetId::main(gateway)).is_some_and(|fleet| fleet.has_content(content))
    }

    /// Returns the routes with at least one rule that is not served as written.
    pub fn invalid_routes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.routes.replaced.iter()
    }

    /// Returns the routes with an unusable hostname.
    pub fn unclaimed_routes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.routes.unclaimed.iter()
    }

    /// Returns the desired certificates of a Gateway's listeners and the client certificates presented to backends,
    /// each with its hash.
    pub fn certificates(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, Content> {
        let listeners = self.outcomes.gateways.get(gateway).into_iter().flat_map(|plan| plan.all());
        let fleet = self.assembly.fleets.get(&FleetId::main(gateway));
        let shown = fleet.map(|fleet| fleet.certificates()).unwrap_or_default();
        let keys = listeners.flat_map(|listener| &listener.certificates).chain(&shown);
        keys.filter_map(|key| Some((key.clone(), Content(*self.assembly.secrets.get(key)?.version.as_bytes()))))
            .collect()
    }

    /// Returns the snapshot of a fleet.
    pub fn snapshot(&self, id: &FleetId) -> Option<&Snapshot> {
        self.assembly.fleets.get(id).map(crate::assembly::fleet::Fleet::snapshot)
    }

    /// Returns the existing but unusable certificates of a Gateway's listeners, and its client certificate for backends
    /// if that is one of them, each with the reason.
    pub fn broken_certificates(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, String> {
        let Some(plan) = self.outcomes.gateways.get(gateway) else { return BTreeMap::new() };
        let of_listeners = plan.all().flat_map(|listener| &listener.broken_certificates);
        let client = plan.client.iter().filter_map(|client| client.broken.as_ref());
        of_listeners.chain(client).cloned().collect()
    }

    /// Returns the usable certificates of a Gateway that clients or backends refuse now, outside of their validity, each
    /// with the reason.
    pub fn outdated_certificates(&self, gateway: &ObjectKey) -> BTreeMap<ObjectKey, String> {
        let Some(plan) = self.outcomes.gateways.get(gateway) else { return BTreeMap::new() };
        let of_listeners = plan.all().flat_map(|listener| listener.outdated_certificates());
        let outdated = of_listeners.chain(plan.client.iter().filter_map(|client| client.outdated()));
        outdated.map(|(key, fault)| (key.clone(), at_secret(key, fault))).collect()
    }

    /// Returns every route object.
    pub fn route_keys(&self) -> BTreeSet<ObjectKey> {
        self.routes
            .each()
            .map(|(key, _)| key)
            .filter(|key| !httpproxy::is_proxy(key))
            .chain(self.httpproxy.shares.keys())
            .cloned()
            .collect()
    }

    /// Returns the desired plan of a route; for an HTTPProxy, its part of the plans of its roots.
    pub fn route(&self, key: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        if httpproxy::is_proxy(key) { self.httpproxy.shares.get(key) } else { self.routes.get(key) }
    }

    /// Returns the plan of a route as served to a fleet.
    pub fn served_route(&self, id: &FleetId, key: &ObjectKey) -> Option<&Arc<RoutePlan>> {
        self.variants.routes.get(&(id.clone(), key.clone())).or_else(|| self.routes.get(key))
    }

    /// Returns the plan of a route object as served to a fleet; for an HTTPProxy, its part of the plans of its roots.
    pub fn served_share(&self, id: &FleetId, key: &ObjectKey) -> Option<Arc<RoutePlan>> {
        if !httpproxy::is_proxy(key) {
            return self.served_route(id, key).cloned();
        }
        let roots = self.roots_reading(key);
        self.share_of(key, roots.iter().filter_map(|root| self.served_route(id, root))).map(Arc::new)
    }

    /// Returns the parts of the named route configuration of a fleet.
    pub fn composition(&self, id: &FleetId, resource: &str) -> Option<(&Composition, ListenerContext)> {
        self.assembly.fleets.get(id)?.composition(resource)
    }
}
