//! Inputs of the derivation of a plan for one scope: desired objects, last valid versions, refused contents.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;
use holdfast_api::object::Object;
use holdfast_api::section::{ObjectSection, is_of_host};
use holdfast_api::settings::Settings;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_graph::{Content, Node, ObjectKey, Quarantine};
use holdfast_translate::Translator;
use holdfast_translate::fleet::FleetId;
use holdfast_translate::httpproxy::is_proxy;
use holdfast_translate::overlay::{Closing, Manner, Overlay};
use holdfast_translate::precedence::attachment::{self, Section};
use holdfast_translate::route::{Rendered, RoutePlan};

use super::derive::Broken;
use super::fairness::Fairness;
use super::fitness::{self, EarlierVersion};
use super::reachable::{self, DesiredRules};
use super::untried::AcknowledgedRoutes;
use super::why_not::WhyNot;
use crate::eligibility::annotation::may_stand_in;
use crate::eligibility::hybrid::hybrid;
use crate::eligibility::protection;
use crate::eligibility::served_now::why_not_now;
use crate::evidence::last_valid::LastValid;
use crate::evidence::proof::Proof;

/// All inputs for the decisions of a scope.
pub struct World<'a> {
    /// The Gateway.
    pub gateway: &'a ObjectKey,
    /// The Envoys of the scope in translation.
    pub fleet: &'a FleetId,
    /// The settings.
    pub settings: &'a Settings,
    /// The current objects.
    pub objects: &'a ObjectSnapshot,
    /// Objects that exist with content that cannot be used at all.
    pub unusable: &'a BTreeSet<ObjectKey>,
    /// The translation of the current objects.
    pub translator: &'a Translator,
    /// The contents that Envoys refused.
    pub quarantine: &'a Quarantine,
    /// The wait of owners for other owners.
    pub fairness: &'a Fairness,
    /// The broken nodes besides the ones that are tried separately, during such a trial.
    pub beside: Option<&'a BTreeMap<Node, Broken>>,
    /// Owners with suspects that wait for a trial.
    pub queued: BTreeSet<Arc<str>>,
    /// The last valid versions.
    pub last_valid: &'a LastValid,
    /// Set if everything is held as a whole: the objects with an unproven newest version. The faults that translation
    /// finds are then handled by translation only.
    pub held: Option<&'a BTreeSet<ObjectKey>>,
    /// What Envoys have.
    pub acknowledged: AcknowledgedRoutes<'a>,
    /// Contents that were acknowledged.
    pub proof: &'a Proof,
    /// Contents on trial: their verdicts do not count.
    pub on_trial: &'a BTreeSet<Content>,
    /// Objects with units that are tried separately: their last valid versions are not served instead.
    pub apart: Option<&'a BTreeSet<ObjectKey>>,
    /// The start of the fault of each broken object, in seconds of Unix time.
    pub since: &'a BTreeMap<ObjectKey, i64>,
    /// The current time, in milliseconds of Unix time.
    pub now_ms: u64,
    /// Results of the choice of a stand-in version: a plan is derived several times.
    pub candidates: RefCell<BTreeMap<ObjectKey, Result<StandIn, WhyNot>>>,
    /// The policies of stand-in versions, on their first use: each route costs a translation.
    pub of_stand_ins: OnceCell<BTreeSet<ObjectKey>>,
}

/// A version that can be served instead of an object.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// The object, with the current claims.
    pub object: Arc<Object>,
    /// The generation of the proven version.
    pub generation: i64,
    /// The time of the proof, in seconds of Unix time.
    pub since: i64,
    /// The desired rules that are in it instead of rules without a backend.
    pub desired_rules: DesiredRules,
}

impl World<'_> {
    /// The current time, in seconds of Unix time.
    pub fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Checks whether this content is refused now.
    pub fn refuses(&self, content: &Content) -> bool {
        let Some(verdict) = self.quarantine.get(content).filter(|_| !self.on_trial.contains(content)) else {
            return false;
        };
        let is_desired = |witness: &Content| self.translator.is_desired(self.fleet, &verdict.node.key, witness);
        self.quarantine.refuses(content, is_desired).is_some()
    }

    /// Checks whether the desired version differs from the last valid one, or whether there is no last valid version.
    pub(crate) fn has_no_or_another_last_valid(&self, key: &ObjectKey) -> bool {
        let uid = self.objects.get(key).map(|object| &*object.metadata.uid);
        self.last_valid.of(key, uid).next().is_none() || holdfast_graph::World::differs_from_last_valid(self, key)
    }

    /// Returns the time from which a last valid version of an object may no longer be served instead, in milliseconds
    /// of Unix time.
    pub(crate) fn backfill_ends(&self, key: &ObjectKey) -> Option<u64> {
        let age = self.settings.fallback.max_backfill_age?;
        let began = self.since.get(key).copied().unwrap_or(self.now());
        u64::try_from(began.saturating_add(age).saturating_add(1)).ok()?.checked_mul(1000)
    }

    /// Returns the time from which this version of an object may no longer be served instead, in milliseconds of Unix
    /// time. For a certificate, its expiry is included.
    pub(crate) fn stand_in_ends(&self, key: &ObjectKey, version: &Object) -> Option<u64> {
        let expires = match &version.body {
            Body::Secret(secret) => {
                secret.data.get("tls.crt").zip(secret.data.get("tls.key")).and_then(|(chain, key)| {
                    let ends = holdfast_check::certificate::check_pair(chain, key).ok()?.validity.ends();
                    u64::try_from(ends).ok()?.checked_mul(1000)
                })
            }
            _ => None,
        };
        self.backfill_ends(key).into_iter().chain(expires).min()
    }

    /// Returns the version that can be served instead of an object: the newest proven one that may be served now.
    pub fn candidate(&self, key: &ObjectKey) -> Option<StandIn> {
        self.choice(key).ok()
    }

    /// Returns this version, or why there is none.
    pub(crate) fn choice(&self, key: &ObjectKey) -> Result<StandIn, WhyNot> {
        if let Some(known) = self.candidates.borrow().get(key) {
            return known.clone();
        }
        let found = self.find(key);
        self.candidates.borrow_mut().insert(key.clone(), found.clone());
        found
    }

    fn find(&self, key: &ObjectKey) -> Result<StandIn, WhyNot> {
        let desired = self.objects.get(key).map(|object| &**object);
        let uid = desired.map(|object| &*object.metadata.uid);
        if (desired.is_none() && !self.unusable.contains(key)) || self.last_valid.of(key, uid).next().is_none() {
            return Err(WhyNot::NoVersion);
        }
        if let Some(why) = self.keeps_all(key, desired) {
            return Err(why);
        }
        let context = protection::Context {
            host_is_filtered: self.host_is_filtered(key),
            guarded_rules: self.guarded_rules(key),
        };
        let mut newest = None;
        for version in self.last_valid.of(key, uid) {
            let earlier = hybrid(desired, &version.object);
            let (object, desired_rules) = reachable::with_backends_of_today(earlier, self);
            let generation = version.object.metadata.generation;
            if desired.is_some_and(|desired| desired.body == object.body) {
                continue;
            }
            let unit =
                EarlierVersion { proven: &version.object, served: &object, desired, context: &context, world: self };
            match why_not_now(&unit) {
                Some(why) => newest.get_or_insert(WhyNot::Unfit { generation, why }),
                None => return Ok(StandIn { object, generation, since: version.since, desired_rules }),
            };
        }
        Err(newest.unwrap_or(WhyNot::SameContent))
    }

    /// Returns why no version of an object can be served instead, independent of the versions.
    fn keeps_all(&self, key: &ObjectKey, desired: Option<&Object>) -> Option<WhyNot> {
        let began = self.since.get(key).copied().unwrap_or(self.now());
        let max_age = self.settings.fallback.max_backfill_age;
        // A missing referenced object is awaited, and everything that the policy guards stays closed until it exists.
        let awaited = self.translator.policy(key).and_then(|plan| plan.unenforceable.as_ref());
        if let Some(why) = awaited.filter(|why| why.class == Class::Referential) {
            return Some(WhyNot::Awaits(why.message.to_string()));
        }
        if let Some((_, what)) = self.translator.backend(key).and_then(|plan| plan.unresolved.as_ref()) {
            return Some(WhyNot::Awaits(what.to_string()));
        }
        if desired.is_none() && !goes_back_unread(key) {
            // An extension that cannot be read may be stricter than all earlier versions.
            Some(WhyNot::MayBeStricter)
        } else if self.apart.is_some_and(|apart| apart.contains(key)) {
            Some(WhyNot::OnTrial)
        } else if desired.is_some_and(|desired| !may_stand_in(desired)) {
            Some(WhyNot::Annotation)
        } else if max_age.is_some_and(|age| self.now().saturating_sub(began) > age) {
            Some(WhyNot::TooOld)
        } else {
            None
        }
    }

    /// Checks whether a part is new only because of policy settings, and is not new itself.
    pub(crate) fn is_new_by_policies(&self, part: &Rendered, context: ListenerContext) -> bool {
        part.policy_settings().iter().any(|setting| !self.proof.is_known_good(&setting.content()))
            && self.proof.is_known_good(&part.bare_content(context))
    }

    /// Checks whether a host in which an HTTPProxy takes part has an address filter.
    fn host_is_filtered(&self, key: &ObjectKey) -> bool {
        let roots = self.translator.roots_of(key).filter_map(|root| self.objects.get(root));
        roots.into_iter().any(|root| match &root.body {
            Body::HttpProxy(proxy) => proxy.filters_addresses(),
            _ => false,
        })
    }

    /// Checks whether a route has a host again by a claim that only its last valid version makes.
    pub(crate) fn claims_again(&self, key: &ObjectKey) -> bool {
        let plan = self.stand_in_plan(key);
        plan.is_some_and(|plan| plan.lent.iter().any(|(gateway, _, _)| gateway == self.gateway))
    }

    /// Returns the plan of a route in its last valid version.
    fn stand_in_plan(&self, key: &ObjectKey) -> Option<RoutePlan> {
        self.translator.try_route(key, &fitness::alone(&self.candidate(key)?.object), self.objects)
    }

    /// Returns the policies of routes of the Gateway in their last valid version, for routes with a desired version to
    /// which the policies may not apply: a hostname cannot be used, the content cannot be read, or it is invalid and
    /// lacks the rules that the policies guard.
    pub(super) fn policies_of_stand_ins(&self) -> &BTreeSet<ObjectKey> {
        self.of_stand_ins.get_or_init(|| self.find_policies_of_stand_ins())
    }

    fn find_policies_of_stand_ins(&self) -> BTreeSet<ObjectKey> {
        let gates = &self.settings.fallback;
        if !gates.isolate || !gates.use_last_valid {
            return BTreeSet::new();
        }
        let unread = self.unusable.iter().filter(|key| self.objects.get(key).is_none());
        let routes: BTreeSet<&ObjectKey> =
            self.translator.unclaimed_routes().chain(self.translator.invalid_routes()).chain(unread).collect();
        let plans = routes.into_iter().filter_map(|route| self.stand_in_plan(route));
        plans.filter(|plan| plan.gateways().contains(self.gateway)).flat_map(|plan| plan.policies).collect()
    }

    /// Returns the rules of a route with an attached protecting policy, by rule name.
    fn guarded_rules(&self, key: &ObjectKey) -> BTreeSet<String> {
        let (Some(plan), Some(route)) = (self.translator.route(key), self.objects.get(key)) else {
            return BTreeSet::new();
        };
        let attached = plan.policies.iter().filter_map(|policy| self.objects.get(policy));
        let protecting = attached.filter(|policy| protection::protects(&policy.body));
        let sections = protecting.flat_map(|policy| match &policy.body {
            Body::TrafficPolicy(written) => {
                attachment::sections(&written.targets, &policy.key.namespace, key, &route.metadata.labels)
            }
            _ => BTreeSet::new(),
        });
        let named = sections.filter_map(|section| match section {
            Section::Named(name) => Some(name.to_string()),
            Section::Whole => None,
        });
        named.collect()
    }

    /// Checks whether a part of the plan is refused, in a section or anywhere.
    pub(crate) fn is_refused(&self, plan: &RoutePlan, section: Option<&str>) -> bool {
        let contents = self.translator.contents_under_any_levels(self.fleet, plan);
        contents
            .iter()
            .any(|(content, node)| section.is_none_or(|section| *node.section == *section) && self.refuses(content))
    }

    /// Returns how a refused unit can be answered: the first manner that was not refused itself. In two cases the
    /// response contains nothing that Envoy could refuse: while another unit of the object is on trial, because a
    /// refusal would count against the other unit, and while the unit waits for a trial, because its response would be
    /// tried without waiting. A response that is on trial itself is not restricted in this way.
    pub(crate) fn manner(&self, node: &Node) -> Manner {
        let beside_a_trial = self.apart.is_some_and(|apart| apart.contains(&node.key));
        let is_beyond_doubt = |plan: &RoutePlan| {
            let mut own = plan.routes.iter().filter(|rendered| rendered.node() == *node);
            let is_proven = || {
                let contents = self.translator.contents(self.gateway, plan);
                let is_tried = |content: &Content| self.proof.is_known_good(content) || self.on_trial.contains(content);
                contents.iter().all(|(content, of)| of != node || is_tried(content))
            };
            own.all(|rendered| rendered.route.is_plain_answer()) || is_proven()
        };
        let is_restricted = || beside_a_trial || self.waits_for_a_trial(node);
        let answers = |how: &Manner| {
            let closing = Closing { how: *how, message: "".into() };
            let closed = BTreeMap::from([(node.section.clone(), closing)]);
            let over = Overlay { closed: BTreeMap::from([(node.key.clone(), closed)]), ..Overlay::default() };
            let plan = self.translator.try_route(&node.key, &over, self.objects);
            plan.is_some_and(|plan| {
                let is_safe = *how == Manner::Narrowed || is_beyond_doubt(&plan) || !is_restricted();
                is_safe && !self.is_refused(&plan, Some(&node.section))
            })
        };
        [Manner::AsWritten, Manner::Narrowed].into_iter().find(answers).unwrap_or(Manner::LeftOut)
    }

    /// Checks whether a unit has content that waits, because of itself or because of its owner.
    pub(super) fn waits_for_a_trial(&self, node: &Node) -> bool {
        let waits = |content: &Content| !self.proof.is_known_good(content) && self.waits(node, content).is_some();
        let Some(plan) = self.translator.route(&node.key) else { return false };
        let contents = self.translator.contents(self.gateway, plan);
        let own = contents.iter().filter(|(_, of)| of == node).map(|(content, _)| content);
        let mut untried = own.filter(|content| !self.on_trial.contains(content));
        untried.any(waits)
    }

    /// Checks whether policies are attached to the route, or to rules of it. Earlier versions may lack the rules that
    /// they name.
    fn is_guarded(&self, key: &ObjectKey) -> bool {
        self.translator.route(key).is_some_and(|plan| !plan.policies.is_empty())
    }

    /// Checks whether a node is a listener, of the Gateway or of a ListenerSet that joined it, with policy settings.
    fn has_policies(&self, node: &Node) -> bool {
        let Some(levels) = self.translator.levels(self.gateway) else { return false };
        let listeners = self.translator.gateway(self.gateway).into_iter().flat_map(|plan| &plan.listeners);
        listeners.into_iter().filter(|listener| listener.unit(self.gateway) == *node).any(|listener| {
            levels.listeners.contains_key(&listener.name) || levels.tables.contains_key(&listener.table())
        })
    }

    /// Returns the number of references in the rules of a plan that cannot be resolved.
    fn unresolved(plan: &RoutePlan) -> usize {
        plan.faults.iter().filter(|fault| fault.class == Class::Referential).count()
    }
}

/// Checks whether an object is an HTTPProxy with a host, on which other objects depend.
fn is_root(object: &Object) -> bool {
    matches!(&object.body, Body::HttpProxy(proxy) if proxy.virtual_host.is_some())
}

/// Checks whether an object that cannot be read at all is backfilled. Objects that decide about requests of other
/// objects are not, because their intended protection is unknown.
fn goes_back_unread(key: &ObjectKey) -> bool {
    !matches!(&*key.kind, kinds::GATEWAY_EXTENSION | kinds::DIRECT_RESPONSE)
}

impl holdfast_graph::World for World<'_> {
    fn exists(&self, key: &ObjectKey) -> bool {
        self.objects.get(key).is_some() || self.unusable.contains(key)
    }

    fn last_valid(&self, key: &ObjectKey) -> bool {
        self.candidate(key).is_some()
    }

    fn last_valid_is_worse(&self, key: &ObjectKey) -> bool {
        let Some(version) = self.candidate(key) else { return true };
        let over = Overlay { objects: BTreeMap::from([(key.clone(), version.object)]), ..Overlay::default() };
        match (self.translator.try_route(key, &over, self.objects), self.translator.route(key)) {
            (Some(then), Some(now)) => Self::unresolved(&then) > Self::unresolved(now),
            _ => false,
        }
    }

    fn keeps_its_version(&self, key: &ObjectKey) -> bool {
        matches!(&*key.kind, kinds::GATEWAY | kinds::GATEWAY_CLASS | kinds::LISTENER_SET)
            || self.objects.get(key).is_some_and(|object| is_root(object))
    }

    fn comes_from_versions(&self, node: &Node) -> bool {
        let section = ObjectSection::parse(&node.section);
        !is_proxy(&node.key) || matches!(section, ObjectSection::Whole | ObjectSection::ProxyRoute(_))
    }

    fn differs_from_last_valid(&self, key: &ObjectKey) -> bool {
        let Some(desired) = self.objects.get(key) else { return true };
        let newest = self.last_valid.of(key, Some(&desired.metadata.uid)).next();
        newest.is_some_and(|newest| hybrid(Some(desired), &newest.object).body != desired.body)
    }

    fn must_replace(&self, node: &Node) -> bool {
        let section = ObjectSection::parse(&node.section);
        // As when translation finds the fault: a host answers 500, and an include 502.
        if is_proxy(&node.key) && (matches!(section, ObjectSection::Include(_)) || is_of_host(&node.section)) {
            return true;
        }
        let rule = match section {
            ObjectSection::Rule(index) => Some(index),
            _ => None,
        };
        // For an HTTPProxy, a root may contain the guard.
        let roots = self.translator.roots_of(&node.key).filter_map(|root| self.objects.get(root));
        // Policy settings of the Gateway protect everything below it.
        self.is_guarded(&node.key)
            || self.translator.levels(self.gateway).is_some()
            || self.objects.get(&node.key).is_some_and(|object| object.body.names_guard(rule))
            || roots.into_iter().any(|root| root.body.names_guard(None))
    }

    fn can_replace(&self, node: &Node) -> bool {
        // While everything is held, a new object was not part of the last valid configuration.
        let is_new = self.held.is_some() && self.last_valid.of(&node.key, None).next().is_none();
        // A refused chain is removed completely; a listener that a policy closes gets a direct response.
        let is_refused = || self.quarantine.of(&node.key).any(|(_, verdict)| verdict.node == *node);
        if self.has_policies(node) && !is_refused() {
            return !is_new;
        }
        !is_new && (node.section.is_empty() || self.manner(node) != Manner::LeftOut)
    }

    fn serves(&self, key: &ObjectKey) -> bool {
        let kind = &*key.kind;
        matches!(kind, kinds::GATEWAY | kinds::LISTENER_SET | kinds::HTTP_PROXY) || kinds::ROUTES.contains(&kind)
    }
}
