//! The current objects, and the references that are allowed between them, read from the objects themselves.
//!
//! Neither translation's reader nor the results of earlier translations are used.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::core::service::Service;
use holdfast_api::apis::kgateway::targets::Targets;
use holdfast_api::apis::kinds;
use holdfast_api::object::Object;
use holdfast_api::snapshot::ObjectSnapshot;
use holdfast_graph::ObjectKey;
use holdfast_translate::Translator;
use holdfast_translate::overlay::Overlay;
use holdfast_translate::route::RoutePlan;

use crate::plan::world::World;

/// The current objects.
pub(super) struct Today<'a> {
    objects: &'a ObjectSnapshot,
    unusable: &'a BTreeSet<ObjectKey>,
    translator: &'a Translator,
    /// The policies; collected on first use.
    policies: OnceCell<Vec<&'a Arc<Object>>>,
    /// Plans of HTTPRoutes that delegate and would be served in an earlier version, made from their current versions;
    /// collected on first use.
    plans: RefCell<BTreeMap<ObjectKey, Option<Arc<RoutePlan>>>>,
}

impl<'a> Today<'a> {
    pub(super) fn new(world: &World<'a>) -> Self {
        Self {
            objects: world.objects,
            unusable: world.unusable,
            translator: world.translator,
            policies: OnceCell::new(),
            plans: RefCell::default(),
        }
    }

    /// Returns the plan of an HTTPRoute in its current version, with everything else as it would be served.
    pub(super) fn current_plan(&self, key: &ObjectKey, overlay: &Overlay) -> Option<Arc<RoutePlan>> {
        if let Some(known) = self.plans.borrow().get(key) {
            return known.clone();
        }
        let mut objects = overlay.objects.clone();
        objects.remove(key);
        let others = Overlay { objects, ..overlay.clone() };
        let found = self.translator.try_route(key, &others, self.objects).map(Arc::new);
        self.plans.borrow_mut().insert(key.clone(), found.clone());
        found
    }

    /// Returns the desired version of an object.
    pub(super) fn object(&self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.objects.get(key)
    }

    /// Returns the policies that are attached to an object, and the attached section, according to the written form of
    /// all policies.
    pub(super) fn attached(&self, object: &Object) -> Vec<(&'a ObjectKey, Option<&'a str>)> {
        let is_policy = |object: &&Arc<Object>| targets(&object.body).is_some();
        let policies = self.policies.get_or_init(|| self.objects.iter().filter(is_policy).collect());
        let mut found = Vec::new();
        for policy in policies.iter().filter(|policy| policy.key.namespace == object.key.namespace) {
            let Some(targets) = targets(&policy.body) else { continue };
            // ListenerPolicies apply to Gateways only.
            if matches!(policy.body, Body::ListenerPolicy(_)) && &*object.key.kind != kinds::GATEWAY {
                continue;
            }
            let is_kind = |group: &str, kind: &str| *group == *object.key.group && *kind == *object.key.kind;
            for (_, target) in &targets.references {
                if is_kind(&target.group, &target.kind) && target.name == object.key.name {
                    found.push((&policy.key, target.section_name.as_deref()));
                }
            }
            for (_, target) in &targets.selectors {
                let has = |(name, value): (&String, &String)| object.metadata.labels.get(name) == Some(value);
                let selects = !target.match_labels.is_empty() && target.match_labels.iter().all(has);
                if is_kind(&target.group, &target.kind) && selects {
                    found.push((&policy.key, target.section_name.as_deref()));
                }
            }
        }
        found
    }

    /// Checks whether an object exists with content that cannot be read.
    pub(super) fn is_unusable(&self, key: &ObjectKey) -> bool {
        self.unusable.contains(key)
    }

    /// Checks whether an object exists, even if it cannot be read.
    pub(super) fn exists(&self, key: &ObjectKey) -> bool {
        self.object(key).is_some() || self.is_unusable(key)
    }

    /// Returns a Service, if it exists.
    pub(super) fn service(&self, key: &ObjectKey) -> Option<&'a Service> {
        match &self.object(key)?.body {
            Body::Service(service) => Some(service),
            _ => None,
        }
    }

    /// Checks whether objects of a kind and namespace may refer to this object.
    ///
    /// "References within a namespace are always allowed"; other references need a ReferenceGrant in the namespace of
    /// the target. One of its `from` entries must have the group, kind and namespace of the referrer; one of its `to`
    /// entries must have the group and kind of the target, and its name or no name.
    ///
    /// <https://gateway-api.sigs.k8s.io/reference/spec/#referencegrantspec>
    pub(super) fn allows(&self, group: &str, kind: &str, namespace: &str, to: &ObjectKey) -> bool {
        if *to.namespace == *namespace {
            return true;
        }
        for key in self.translator.grants_in(&to.namespace) {
            let Some(object) = self.object(key) else { continue };
            let Body::ReferenceGrant(grant) = &object.body else { continue };
            if object.key.namespace != to.namespace {
                continue;
            }
            let spec = grant.spec();
            let mut from = spec.from.iter();
            if !from.any(|from| from.group == group && from.kind == kind && from.namespace == namespace) {
                continue;
            }
            for target in &spec.to {
                let is_named = target.name.as_deref().is_none_or(|name| *name == *to.name);
                if target.group == *to.group && target.kind == *to.kind && is_named {
                    return true;
                }
            }
        }
        false
    }
}

/// Returns the targets of a policy of routes, listeners or Gateways; `None` for other objects.
fn targets(body: &Body) -> Option<&Targets> {
    match body {
        Body::TrafficPolicy(policy) => Some(&policy.targets),
        Body::ListenerPolicy(policy) => Some(&policy.targets),
        _ => None,
    }
}
