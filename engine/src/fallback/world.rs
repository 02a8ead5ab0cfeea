//! What derivation of a plan asks of one line's world: desired objects, last valid versions, what was refused.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_graph::{Content, Node, ObjectKey, Quarantine};

use super::hybrid::hybrid;
use super::last_valid::{LastValid, Version};
use super::proof::Proof;
use super::protection;
use crate::apis::Body;
use crate::apis::gateway::listener_set;
use crate::check;
use crate::fault::Class;
use crate::object::Object;
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
        !self.on_trial.contains(content)
            && self.quarantine.refuses(content, |witness| self.is_desired(witness)).is_some()
    }

    /// Does a route or a filter chain that is desired have this content? Asked of witnesses only, which are few.
    fn is_desired(&self, content: &Content) -> bool {
        self.translator.has_content(self.gateway, content)
            || self.translator.chains(self.gateway).iter().any(|(known, _)| known == content)
            || self.translator.filters(self.gateway).iter().any(|(known, _, _)| known == content)
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
        // No last valid version of a Gateway API route names one: what has one is not whole. Those of HTTPProxies are
        // served, and compared below.
        let guarded =
            self.is_guarded(key) || desired.is_some_and(|desired| !is_proxy(key) && desired.body.names_guard(None));
        let began = self.since.get(key).copied().unwrap_or(self.now());
        let max_age = self.settings.fallback.max_backfill_age;
        let policy = self.translator.policy(key);
        let waits_for =
            |plan: &Arc<PolicyPlan>| plan.unenforceable.as_ref().is_some_and(|why| why.class == Class::Referential);
        if guarded
            // What is missing is waited for, and what the policy guards stays closed until it is there.
            || policy.is_some_and(waits_for)
            || self.apart.is_some_and(|apart| apart.contains(key))
            || desired.is_some_and(|desired| !may_stand_in(desired))
            || max_age.is_some_and(|age| self.now().saturating_sub(began) > age)
        {
            return None;
        }
        let uid = desired.map(|object| &*object.metadata.uid);
        let protects = |last: &Object| {
            desired.is_none_or(|desired| protection::is_kept(desired, &last.body, self.host_is_filtered(key)))
        };
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
                !plan.replaced.iter().any(|replaced| replaced.class == Class::Invalid) && !self.is_refused(&plan, None)
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
                !plan.replaced.iter().any(invalid) && !contents.iter().any(refused)
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
                let Some(plan) = self.translator.try_policy(object, self.objects) else { return false };
                let contents = plan.contents().map(|(_, content)| content).chain(plan.filters());
                plan.unenforceable.is_none() && !contents.into_iter().any(|content| self.refuses(&content))
            }
            _ => false,
        }
    }

    /// Is a part of the plan refused, in a section or anywhere?
    fn is_refused(&self, plan: &RoutePlan, section: Option<&str>) -> bool {
        let contents = self.translator.contents(self.gateway, plan);
        contents
            .iter()
            .any(|(content, node)| section.is_none_or(|section| *node.section == *section) && self.refuses(content))
    }

    /// How a refused unit can be answered; the first manner that was not refused itself.
    pub(crate) fn manner(&self, node: &Node) -> Manner {
        let answers = |how: &Manner| {
            let closing = Closing { how: *how, message: "".into() };
            let closed = BTreeMap::from([(node.section.clone(), closing)]);
            let over = Overlay { closed: BTreeMap::from([(node.key.clone(), closed)]), ..Overlay::default() };
            let plan = self.translator.try_route(&node.key, &over, self.objects);
            plan.is_some_and(|plan| !self.is_refused(&plan, Some(&node.section)))
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
