//! The order in which the policies of a route and those of the HTTPRoutes above it are merged.
//!
//! A route of another namespace must not weaken what protects the route above it, unless that route allows it by its
//! annotation. The order is decided here, and fields are merged in `precedence/merge.rs`. No object is read.

use std::borrow::Cow;
use std::sync::Arc;

use holdfast_graph::ObjectKey;

use crate::outcome::policy::PolicyPlan;
use crate::precedence::settings::{ACL, Field, Piece, Settings};

/// Where the policies of a route are among those of the routes below it; the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InheritedPriority {
    /// After them.
    Child,
    /// After them, except for fields that protect, which come before policies of other namespaces.
    Protections,
    /// Before them.
    Parent,
}

/// Policies that a route has from a rule of another one that delegates to it.
pub(super) struct InheritedPolicies<'a> {
    /// The namespace of the delegating route.
    pub(super) namespace: Arc<str>,
    pub(super) policies: Vec<(ObjectKey, &'a Arc<PolicyPlan>)>,
    pub(super) priority: InheritedPriority,
}

impl InheritedPolicies<'_> {
    /// Returns whether the policies set a field that comes before what a route of this namespace sets itself.
    pub(super) fn precedes(&self, namespace: &str, field: Field) -> bool {
        let is_first = |piece: &Piece| match self.priority {
            InheritedPriority::Child => false,
            InheritedPriority::Protections => *self.namespace != *namespace && PolicyPart::Protections.contains(piece),
            InheritedPriority::Parent => true,
        };
        let enforceable = self.policies.iter().filter(|(_, plan)| plan.unenforceable.is_none());
        enforceable.filter_map(|(_, plan)| plan.settings.get(field)).any(is_first)
    }
}

/// The fields of a policy at one position of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyPart {
    Whole,
    Protections,
    Rest,
}

impl PolicyPart {
    fn contains(self, piece: &Piece) -> bool {
        let is_protection = piece.protects() && !piece.disables();
        match self {
            Self::Whole => true,
            Self::Protections => is_protection,
            Self::Rest => !is_protection,
        }
    }
}

#[derive(Clone)]
struct OrderedPolicy {
    key: ObjectKey,
    plan: Arc<PolicyPlan>,
    part: PolicyPart,
    /// The number of routes from the translated one up to the one that has the policy.
    level: usize,
}

/// Policies that apply to a rule, in the order in which they are merged.
pub(super) struct PolicyOrder(Vec<OrderedPolicy>);

impl PolicyOrder {
    /// Creates the order of the policies that a route has itself.
    pub(super) fn new(own: impl Iterator<Item = (ObjectKey, Arc<PolicyPlan>)>) -> Self {
        Self(own.map(|(key, plan)| OrderedPolicy { key, plan, part: PolicyPart::Whole, level: 0 }).collect())
    }

    /// Adds the policies of the routes above, the nearest first.
    pub(super) fn above(self, inherited: &[InheritedPolicies<'_>]) -> Self {
        let Self(mut all) = self;
        for (distance, from) in inherited.iter().enumerate() {
            let part = |part| {
                let one = move |(key, plan): &(ObjectKey, &Arc<PolicyPlan>)| {
                    let (key, plan) = (key.clone(), Arc::clone(plan));
                    OrderedPolicy { key, plan, part, level: distance + 1 }
                };
                from.policies.iter().map(one).collect::<Vec<_>>()
            };
            let of_others = all.iter().position(|policy| policy.key.namespace != from.namespace);
            match (from.priority, of_others) {
                (InheritedPriority::Parent, _) => drop(all.splice(0..0, part(PolicyPart::Whole))),
                (InheritedPriority::Protections, Some(first)) => {
                    drop(all.splice(first..first, part(PolicyPart::Protections)));
                    all.extend(part(PolicyPart::Rest));
                }
                (InheritedPriority::Protections, None) | (InheritedPriority::Child, _) => {
                    all.extend(part(PolicyPart::Whole));
                }
            }
        }
        Self(all)
    }

    /// Returns each policy once, in the order of its first position.
    pub(super) fn policies(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<PolicyPlan>)> {
        let is_first = |index: usize, key: &ObjectKey| !self.0.iter().take(index).any(|other| other.key == *key);
        let all = self.0.iter().enumerate().filter(move |(index, policy)| is_first(*index, &policy.key));
        all.map(|(_, policy)| (&policy.key, &policy.plan))
    }

    /// Returns the settings to merge, of the policies that can be enforced.
    pub(super) fn enforceable(&self) -> Vec<(&ObjectKey, Cow<'_, Settings>)> {
        let all = self.0.iter().enumerate().filter(|(_, policy)| policy.plan.unenforceable.is_none());
        all.map(|(index, policy)| (&policy.key, self.settings(index, policy))).collect()
    }

    fn settings<'p>(&self, index: usize, policy: &'p OrderedPolicy) -> Cow<'p, Settings> {
        let all: &Settings = &policy.plan.settings;
        // A range that a policy of another namespace allows would be joined with the list that comes first.
        let is_over = |first: &OrderedPolicy| {
            first.part == PolicyPart::Protections
                && first.level > policy.level
                && first.key.namespace != policy.key.namespace
                && first.plan.settings.contains_key(ACL)
        };
        let is_joined = !self.0.iter().take(index).any(is_over);
        if policy.part == PolicyPart::Whole && is_joined {
            return Cow::Borrowed(all);
        }
        let own = all.iter().filter(|(field, piece)| policy.part.contains(piece) && (is_joined || **field != ACL));
        Cow::Owned(own.map(|(field, piece)| (*field, piece.clone())).collect())
    }
}
