//! What derivation of a plan asks of one line's world: desired objects, last valid versions, what was refused.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Node, ObjectKey, Quarantine};

use super::clusters::share;
use super::derive::Broken;
use super::fairness::Fairness;
use super::hybrid::hybrid;
use super::last_valid::{LastValid, Version};
use super::proof::Proof;
use super::protection;
use crate::apis::Body;
use crate::apis::gateway::listener_set;
use crate::check;
use crate::fault::Class;
use crate::object::Object;
use crate::policies::attachment::{self, Section};
use crate::settings::Settings;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;
use crate::translate::overlay::{Closing, Manner, Overlay};
use crate::translate::policy::PolicyPlan;
use crate::translate::proxy::is_proxy;
use crate::translate::route::RoutePlan;
use crate::translate::rule::Replaced;

/// On an object: how it may be served when it is broken. `never` keeps it from being backfilled.
pub(crate) const FALLBACK_ANNOTATION: &str = "holdfast.dev/fallback";

/// Does an object let another version of it stand in, as far as it says?
pub(crate) fn may_stand_in(object: &Object) -> bool {
    object.metadata.annotations.get(FALLBACK_ANNOTATION).is_none_or(|value| value != "never")
}

/// Everything that a line decides from.
pub(crate) struct World<'a> {
    pub(crate) gateway: &'a ObjectKey,
    pub(crate) settings: &'a Settings,
    pub(crate) objects: &'a ObjectSnapshot,
    /// Objects that are there, and whose content cannot be used at all.
    pub(crate) unusable: &'a BTreeSet<ObjectKey>,
    pub(crate) translator: &'a Translator,
    pub(crate) quarantine: &'a Quarantine,
    pub(crate) fairness: &'a Fairness,
    /// While others are tried apart: what is broken beside them.
    pub(crate) beside: Option<&'a BTreeMap<Node, Broken>>,
    /// Owners of which suspects wait to be tried.
    pub(crate) queued: BTreeSet<Arc<str>>,
    pub(crate) last_valid: &'a LastValid,
    /// Where everything is held as a whole: the objects whose newest version is not proven. What translation finds is
    /// then left to translation.
    pub(crate) held: Option<&'a BTreeSet<ObjectKey>>,
    /// What was acknowledged.
    pub(crate) proof: &'a Proof,
    /// Contents that are on trial: their verdicts do not count.
    pub(crate) on_trial: &'a BTreeSet<Content>,
    /// Objects of which units are tried apart: their last valid versions do not stand in for them.
    pub(crate) apart: Option<&'a BTreeSet<ObjectKey>>,
    /// When each broken object began to be, in seconds of Unix time.
    pub(crate) since: &'a BTreeMap<ObjectKey, i64>,
    /// Now, in milliseconds of Unix time.
    pub(crate) now_ms: u64,
    pub(crate) candidates: RefCell<BTreeMap<ObjectKey, Option<Version>>>,
}

impl World<'_> {
    /// Now, in seconds of Unix time.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.now_ms / 1000).unwrap_or(i64::MAX)
    }

    /// Is this content refused now?
    pub(crate) fn refuses(&self, content: &Content) -> bool {
        let Some(verdict) = self.quarantine.get(content).filter(|_| !self.on_trial.contains(content)) else {
            return false;
        };
        let is_desired = |witness: &Content| self.translator.is_desired(self.gateway, &verdict.node.key, witness);
        self.quarantine.refuses(content, is_desired).is_some()
    }

    /// Is the desired version another than the last valid one, or is there none?
    pub(crate) fn has_no_or_another_last_valid(&self, key: &ObjectKey) -> bool {
        let uid = self.objects.get(key).map(|object| &*object.metadata.uid);
        self.last_valid.of(key, uid).next().is_none() || holdfast_graph::World::differs_from_last_valid(self, key)
    }

    /// When a last valid version of an object may stand in no more, in milliseconds of Unix time.
    pub(crate) fn backfill_ends(&self, key: &ObjectKey) -> Option<u64> {
        let age = self.settings.fallback.max_backfill_age?;
        let began = self.since.get(key).copied().unwrap_or(self.now());
        u64::try_from(began.saturating_add(age).saturating_add(1)).ok()?.checked_mul(1000)
    }

    /// When this version of an object may stand in no more, in milliseconds of Unix time: a certificate that expires is
    /// none any longer.
    pub(crate) fn stand_in_ends(&self, key: &ObjectKey, version: &Object) -> Option<u64> {
        let expires = match &version.body {
            Body::Secret(secret) => {
                secret.data.get("tls.crt").zip(secret.data.get("tls.key")).and_then(|(chain, key)| {
                    let not_after = check::certificate::check_pair(chain, key).ok()?.not_after;
                    u64::try_from(not_after).ok()?.checked_mul(1000)
                })
            }
            _ => None,
        };
        self.backfill_ends(key).into_iter().chain(expires).min()
    }

    /// The version that can stand in for an object: the newest proven one that may be served today.
    pub(crate) fn candidate(&self, key: &ObjectKey) -> Option<Version> {
        if let Some(known) = self.candidates.borrow().get(key) {
            return known.clone();
        }
        let found = self.find(key);
        self.candidates.borrow_mut().insert(key.clone(), found.clone());
        found
    }

    fn find(&self, key: &ObjectKey) -> Option<Version> {
        let desired = self.objects.get(key).map(|object| &**object);
        if desired.is_none() && !self.unusable.contains(key) {
            return None;
        }
        let began = self.since.get(key).copied().unwrap_or(self.now());
        let max_age = self.settings.fallback.max_backfill_age;
        let policy = self.translator.policy(key);
        let waits_for =
            |plan: &Arc<PolicyPlan>| plan.unenforceable.as_ref().is_some_and(|why| why.class == Class::Referential);
        // What is missing is waited for, and what the policy guards stays closed until it is there.
        if policy.is_some_and(waits_for)
            || self.translator.back_end(key).is_some_and(|plan| plan.unresolved.is_some())
            // An extension that cannot be read may be stricter than all before it.
            || (desired.is_none() && !goes_back_unread(key))
            || self.apart.is_some_and(|apart| apart.contains(key))
            || desired.is_some_and(|desired| !may_stand_in(desired))
            || max_age.is_some_and(|age| self.now().saturating_sub(began) > age)
        {
            return None;
        }
        let uid = desired.map(|object| &*object.metadata.uid);
        let context = protection::Context {
            host_is_filtered: self.host_is_filtered(key),
            guarded_rules: self.guarded_rules(key),
        };
        let protects =
            |last: &Object| desired.is_none_or(|desired| protection::lost(desired, &last.body, &context).is_none());
        let admissible = |version: &&Version| {
            may_stand_in(&version.object) && says_something(&version.object) && protects(&version.object)
        };
        self.last_valid.of(key, uid).filter(admissible).find_map(|version| {
            let object = hybrid(desired, &version.object);
            let same = desired.is_some_and(|desired| desired.body == object.body);
            (!same && self.may_be_served(&object)).then_some(Version { object, since: version.since })
        })
    }

    /// Has a host that an HTTPProxy takes part in a filter of addresses?
    fn host_is_filtered(&self, key: &ObjectKey) -> bool {
        let roots = self.translator.roots_of(key).filter_map(|root| self.objects.get(root));
        roots.into_iter().any(|root| match &root.body {
            Body::HttpProxy(proxy) => proxy.filters_addresses(),
            _ => false,
        })
    }

    /// Does a route get a host again by a claim that only its last valid version makes?
    pub(crate) fn claims_again(&self, key: &ObjectKey) -> bool {
        let Some(version) = self.candidate(key) else { return false };
        let over = Overlay { objects: BTreeMap::from([(key.clone(), version.object)]), ..Overlay::default() };
        let plan = self.translator.try_route(key, &over, self.objects);
        plan.is_some_and(|plan| plan.lent.iter().any(|(gateway, _, _)| gateway == self.gateway))
    }

    /// May this version be served today, as far as is known?
    fn may_be_served(&self, object: &Arc<Object>) -> bool {
        match &object.body {
            Body::HttpRoute(_) | Body::GrpcRoute(_) => {
                let over =
                    Overlay { objects: BTreeMap::from([(object.key.clone(), object.clone())]), ..Overlay::default() };
                let Some(plan) = self.translator.try_route(&object.key, &over, self.objects) else { return false };
                let plan = self.together(object, &plan).unwrap_or(plan);
                !plan.replaced.iter().any(|replaced| replaced.class == Class::Invalid)
                    && !self.is_refused(&plan, None)
                    && !self.uses_what_is_closed(&plan)
            }
            Body::HttpProxy(_) => {
                let over =
                    Overlay { objects: BTreeMap::from([(object.key.clone(), object.clone())]), ..Overlay::default() };
                let Some(plan) = self.translator.try_route(&object.key, &over, self.objects) else { return false };
                // Its includes are those of today, whatever becomes of them.
                let is_supplied = |section: &str| !section.starts_with("includes");
                let invalid = |replaced: &Replaced| replaced.class == Class::Invalid && is_supplied(&replaced.section);
                let contents = self.translator.contents(self.gateway, &plan);
                let refused = |(content, node): &(Content, Node)| is_supplied(&node.section) && self.refuses(content);
                !plan.replaced.iter().any(invalid) && !contents.iter().any(refused) && !self.uses_what_is_closed(&plan)
            }
            Body::Secret(secret) => {
                let (Some(chain), Some(key)) = (secret.data.get("tls.crt"), secret.data.get("tls.key")) else {
                    return false;
                };
                // An expired certificate proves nothing to anybody.
                check::certificate::check_pair(chain, key).is_ok_and(|pair| pair.not_after > self.now())
            }
            Body::Service(_) => true,
            Body::TrafficPolicy(_) | Body::ListenerPolicy(_) => {
                let plan = self.translator.try_policy(object, self.objects);
                plan.is_some_and(|plan| self.is_enforced(&plan))
            }
            Body::BackendConfigPolicy(_) | Body::BackendTlsPolicy(_) | Body::Backend(_) => {
                let plan = self.translator.try_back_end(object, self.objects);
                plan.is_some_and(|plan| plan.unenforceable.is_none()) && !self.makes_refused_clusters(object)
            }
            Body::DirectResponse(response) => response.unread.is_empty(),
            Body::GatewayExtension(extension) => {
                let over =
                    Overlay { objects: BTreeMap::from([(object.key.clone(), object.clone())]), ..Overlay::default() };
                let users = self.translator.policies_reading(&object.key);
                let users = users.iter().filter_map(|user| self.translator.try_policy_under(user, &over, self.objects));
                extension.unread.is_empty()
                    && !self.makes_refused_clusters(object)
                    // What else is wrong with a policy is its own matter.
                    && users.into_iter().all(|plan| !plan.blamed.contains_key(&object.key) && !self.asks_for_refused(&plan))
            }
            Body::GatewayClass(_)
            | Body::Gateway(_)
            | Body::ListenerSet(_)
            | Body::ReferenceGrant(_)
            | Body::CertificateDelegation(_)
            | Body::ExtensionService(_)
            | Body::EndpointSlice(_)
            | Body::ConfigMap(_)
            | Body::Namespace => false,
        }
    }

    /// Does a route use a filter or a cluster that is refused because of an object without an earlier version? An
    /// earlier version of the route that uses it as well is refused like the desired one.
    fn uses_what_is_closed(&self, plan: &RoutePlan) -> bool {
        let of_others = |key: &&ObjectKey| self.translator.route(key).is_none();
        let owners: BTreeSet<&ObjectKey> =
            self.quarantine.iter().map(|(_, verdict)| &verdict.node.key).filter(of_others).collect();
        if owners.is_empty() {
            return false;
        }
        let filters = self.translator.filters_of(plan);
        let is_filter_of = |owner: &ObjectKey, content: &Content| {
            self.refuses(content) && self.quarantine.get(content).is_some_and(|verdict| verdict.node.key == *owner)
        };
        let makes_refused = |owner: &ObjectKey| {
            let clusters = self.translator.clusters_of(plan, owner);
            filters.iter().any(|content| is_filter_of(owner, content))
                || clusters.into_iter().any(|cluster| self.refuses(&share(cluster, owner)))
        };
        let settings = &self.settings.fallback;
        let goes_back =
            |owner: &ObjectKey| settings.isolate && settings.use_last_valid && self.candidate(owner).is_some();
        owners.into_iter().any(|owner| makes_refused(owner) && !goes_back(owner))
    }

    /// Can everything that a policy says be enforced, as far as is known?
    fn is_enforced(&self, plan: &PolicyPlan) -> bool {
        plan.unenforceable.is_none()
            && !plan.contents().any(|(_, content)| self.refuses(&content))
            && !self.asks_for_refused(plan)
    }

    /// Is a filter refused that a policy asks for?
    fn asks_for_refused(&self, plan: &PolicyPlan) -> bool {
        plan.filters().iter().any(|content| self.refuses(content))
    }

    /// Is a cluster refused that this version of an object makes?
    fn makes_refused_clusters(&self, object: &Arc<Object>) -> bool {
        let over = Overlay { objects: BTreeMap::from([(object.key.clone(), object.clone())]), ..Overlay::default() };
        let made = self.translator.clusters_made_under(self.gateway, &object.key, &over, self.objects);
        made.iter().any(|(cluster, _)| self.refuses(&share(*cluster, &object.key)))
    }

    /// The rules of a route that policies which protect are attached to by name.
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

    /// Is a part of the plan refused, in a section or anywhere?
    pub(super) fn is_refused(&self, plan: &RoutePlan, section: Option<&str>) -> bool {
        let contents = self.translator.contents(self.gateway, plan);
        contents
            .iter()
            .any(|(content, node)| section.is_none_or(|section| *node.section == *section) && self.refuses(content))
    }

    /// How a refused unit can be answered; the first manner that was not refused itself. While another unit of the
    /// object is on trial the answer holds nothing that Envoy could refuse, since a refusal would count against the
    /// other unit; the answer that is on trial itself is as it is.
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
        let answers = |how: &Manner| {
            let closing = Closing { how: *how, message: "".into() };
            let closed = BTreeMap::from([(node.section.clone(), closing)]);
            let over = Overlay { closed: BTreeMap::from([(node.key.clone(), closed)]), ..Overlay::default() };
            let plan = self.translator.try_route(&node.key, &over, self.objects);
            plan.is_some_and(|plan| {
                let is_safe = !beside_a_trial || *how == Manner::Narrowed || is_beyond_doubt(&plan);
                is_safe && !self.is_refused(&plan, Some(&node.section))
            })
        };
        [Manner::AsWritten, Manner::Narrowed].into_iter().find(answers).unwrap_or(Manner::LeftOut)
    }

    /// Are policies attached to the route, or to rules of it? Versions from before may lack the rules that they name.
    fn is_guarded(&self, key: &ObjectKey) -> bool {
        self.translator.route(key).is_some_and(|plan| !plan.policies.is_empty())
    }

    /// Is it a listener, of the Gateway or of a set that joined it, to which policies say something?
    fn has_policies(&self, node: &Node) -> bool {
        let Some(levels) = self.translator.levels(self.gateway) else { return false };
        let listeners = self.translator.gateway(self.gateway).into_iter().flat_map(|plan| &plan.listeners);
        listeners.into_iter().filter(|listener| listener.unit(self.gateway) == *node).any(|listener| {
            levels.listeners.contains_key(&listener.name) || levels.tables.contains_key(&listener.table())
        })
    }

    /// References of its rules that a plan finds nobody for.
    fn unresolved(plan: &RoutePlan) -> usize {
        plan.faults.iter().filter(|fault| fault.class == Class::Referential).count()
    }
}

/// Is it an HTTPProxy that has a host, so that others hang on it?
fn is_root(object: &Object) -> bool {
    matches!(&object.body, Body::HttpProxy(proxy) if proxy.virtual_host.is_some())
}

/// Does an object of which nothing can be read go back? What decides about requests of others does not, since it is
/// not known what it was to protect.
fn goes_back_unread(key: &ObjectKey) -> bool {
    !matches!(&*key.kind, "GatewayExtension" | "DirectResponse")
}

/// Without a route an HTTPProxy has nothing that could stand in.
fn says_something(object: &Object) -> bool {
    !matches!(&object.body, Body::HttpProxy(proxy) if proxy.routes.is_empty())
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
        matches!(&*key.kind, "Gateway" | "GatewayClass" | listener_set::KIND)
            || self.objects.get(key).is_some_and(|object| is_root(object))
    }

    fn comes_from_versions(&self, node: &Node) -> bool {
        !is_proxy(&node.key) || node.section.is_empty() || node.section.starts_with("routes[")
    }

    fn differs_from_last_valid(&self, key: &ObjectKey) -> bool {
        let Some(desired) = self.objects.get(key) else { return true };
        let newest = self.last_valid.of(key, Some(&desired.metadata.uid)).next();
        newest.is_some_and(|newest| hybrid(Some(desired), &newest.object).body != desired.body)
    }

    fn must_replace(&self, node: &Node) -> bool {
        let rule = node.section.strip_prefix("rules[").and_then(|rest| rest.strip_suffix(']'));
        let rule = rule.and_then(|index| index.parse().ok());
        // Of an HTTPProxy the guard may stand in a root.
        let roots = self.translator.roots_of(&node.key).filter_map(|root| self.objects.get(root));
        // What policies say to the Gateway protects everything below it.
        self.is_guarded(&node.key)
            || self.translator.levels(self.gateway).is_some()
            || self.objects.get(&node.key).is_some_and(|object| object.body.names_guard(rule))
            || roots.into_iter().any(|root| root.body.names_guard(None))
    }

    fn can_replace(&self, node: &Node) -> bool {
        // Where everything is held, what is new was no part of the last valid configuration.
        let is_new = self.held.is_some() && self.last_valid.of(&node.key, None).next().is_none();
        // Of a chain that is refused nothing is left; what a policy closes is answered.
        let is_refused = || self.quarantine.of(&node.key).any(|(_, verdict)| verdict.node == *node);
        if self.has_policies(node) && !is_refused() {
            return !is_new;
        }
        !is_new && (node.section.is_empty() || self.manner(node) != Manner::LeftOut)
    }

    fn serves(&self, key: &ObjectKey) -> bool {
        matches!(&*key.kind, "Gateway" | listener_set::KIND | "HTTPRoute" | "GRPCRoute" | "HTTPProxy")
    }
}
