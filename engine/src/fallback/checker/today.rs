//! The objects of today, and who may refer to whom: read from the objects themselves.
//!
//! Not through translation's reader, and not through what earlier translations made of them.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::apis::Body;
use crate::apis::core::service::Service;
use crate::apis::kgateway::policy::Targets;
use crate::fallback::world::World;
use crate::object::Object;
use crate::snapshot::ObjectSnapshot;
use crate::translate::Translator;

/// See the module.
pub(super) struct Today<'a> {
    objects: &'a ObjectSnapshot,
    unusable: &'a BTreeSet<ObjectKey>,
    translator: &'a Translator,
    /// Looked for when it is first asked for.
    policies: OnceCell<Vec<&'a Arc<Object>>>,
}

impl<'a> Today<'a> {
    pub(super) fn new(world: &World<'a>) -> Self {
        let policies = OnceCell::new();
        Self { objects: world.objects, unusable: world.unusable, translator: world.translator, policies }
    }

    /// The desired version of an object.
    pub(super) fn object(&self, key: &ObjectKey) -> Option<&'a Arc<Object>> {
        self.objects.get(key)
    }

    /// The policies attached to an object, and to which part of it, as all are written.
    pub(super) fn attached(&self, object: &Object) -> Vec<(&'a ObjectKey, Option<&'a str>)> {
        let is_policy = |object: &&Arc<Object>| targets(&object.body).is_some();
        let policies = self.policies.get_or_init(|| self.objects.iter().filter(is_policy).collect());
        let mut found = Vec::new();
        for policy in policies.iter().filter(|policy| policy.key.namespace == object.key.namespace) {
            let Some(targets) = targets(&policy.body) else { continue };
            // Those of listeners hold for Gateways and nothing else.
            if matches!(policy.body, Body::ListenerPolicy(_)) && &*object.key.kind != "Gateway" {
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

    /// Is it there, and of its content nothing can be told?
    pub(super) fn is_unusable(&self, key: &ObjectKey) -> bool {
        self.unusable.contains(key)
    }

    /// Is it there, in whatever state?
    pub(super) fn exists(&self, key: &ObjectKey) -> bool {
        self.object(key).is_some() || self.is_unusable(key)
    }

    /// A Service that is there.
    pub(super) fn service(&self, key: &ObjectKey) -> Option<&'a Service> {
        match &self.object(key)?.body {
            Body::Service(service) => Some(service),
            _ => None,
        }
    }

    /// May objects of a kind and namespace refer to this one?
    ///
    /// "References within a namespace are always allowed"; others need a ReferenceGrant in the namespace of what is
    /// referred to, one of whose `from` has the group, kind and namespace of who refers, and one of whose `to` has group
    /// and kind of what is referred to, and its name or none.
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
                let named = target.name.as_deref().unwrap_or_default();
                if target.group == *to.group && target.kind == *to.kind && (named.is_empty() || named == &*to.name) {
                    return true;
                }
            }
        }
        false
    }
}

/// What a policy of routes, listeners or Gateways is attached to; none of other objects.
fn targets(body: &Body) -> Option<&Targets> {
    match body {
        Body::TrafficPolicy(policy) => Some(&policy.targets),
        Body::ListenerPolicy(policy) => Some(&policy.targets),
        _ => None,
    }
}
