//! Suspects of a refused route configuration, where policies take part in it.
//!
//! A policy is suspected for its settings, field by field; a route is suspected for its content without policies. An
//! edit of a policy therefore accuses the policy and not the routes below it. Where both are new, trials separate them.
//! Without a probe, the routes are suspected for both, because no route may be served without its policies.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_graph::{Content, Node, ObjectKey};
use holdfast_xds::Version;

use super::around::Around;
use super::line::Line;
use super::readmission::Subject;
use super::suspects::{Suspect, Suspects, without_stand_ins};
use super::trials;
use crate::features::redirect::ListenerContext;
use crate::translate::overlay::Overlay;
use crate::translate::policy::PolicyPlan;
use crate::translate::policy::said::Said;
use crate::translate::route::Rendered;

/// The suspects of a refused route configuration.
pub(super) struct Accused {
    /// Policies, each with those of its settings that no Envoy has accepted.
    pub(super) policies: Vec<Subject>,
    /// Parts of routes.
    pub(super) parts: Suspects,
    /// The part of the listeners in the bytes of the suspects.
    pub(super) context: ListenerContext,
}

/// Returns the desired version of a policy, or its stand-in version.
pub(super) fn plan<'a>(key: &ObjectKey, over: &'a Overlay, around: &'a Around<'_>) -> Option<&'a Arc<PolicyPlan>> {
    over.policies.get(key).or_else(|| around.translator.policy(key))
}

/// Checks whether the desired version or the stand-in version of a policy has a setting for which the policy is
/// suspected.
pub(super) fn is_said(subject: &Subject, over: &Overlay, around: &Around<'_>) -> bool {
    let key = &subject.node.key;
    let plans = over.policies.get(key).into_iter().chain(around.translator.policy(key));
    plans.flat_map(|plan| plan.contents()).any(|(_, content)| subject.contents.contains_key(&content))
}

impl Line {
    /// Returns the suspects of a version of a route configuration. `apart`: whether each suspect can be tried alone.
    pub(super) fn accused(&self, name: &str, version: &Version, apart: bool) -> Option<Accused> {
        let (parts, context) = self.suspects(name, version)?;
        let mut policies: BTreeMap<Node, BTreeSet<Content>> = BTreeMap::new();
        let mut note = |said: &Said| {
            policies.entry(said.node()).or_default().insert(said.content());
        };
        let form = self.form(name, version)?;
        form.said.iter().filter(|said| self.is_unproven(said)).for_each(&mut note);
        let parts = parts.into_iter().map(|(node, mut parts)| {
            parts.retain(|_, suspect: &mut Suspect| {
                let rendered = &suspect.rendered;
                if !self.is_told_anew(rendered) {
                    return true;
                }
                let innocent = self.proof.is_known_good(&rendered.bare_content(context));
                if innocent || apart {
                    rendered.said().iter().filter(|said| self.is_unproven(said)).for_each(&mut note);
                }
                !innocent
            });
            (node, parts)
        });
        let parts: Suspects = parts.filter(|(_, parts)| !parts.is_empty()).collect();
        let subject = |(node, contents): (Node, BTreeSet<Content>)| Subject {
            contents: contents.into_iter().map(|content| (content, node.clone())).collect(),
            node,
        };
        Some(Accused { policies: policies.into_iter().map(subject).collect(), parts, context })
    }

    /// Returns the suspects in the groups that are served or closed together. Stand-in versions are omitted as long as
    /// other suspects remain.
    pub(super) fn accused_subjects(&self, name: &str, version: &Version, by_object: bool) -> Vec<Subject> {
        let Some(Accused { policies, parts, .. }) = self.accused(name, version, false) else { return Vec::new() };
        let stands_in = |key: &ObjectKey| self.derived.overlay.objects.contains_key(key);
        let (lent, policies): (Vec<_>, Vec<_>) = policies.into_iter().partition(|policy| stands_in(&policy.node.key));
        let parts = without_stand_ins(parts, stands_in);
        let plain = |suspect: &Suspect| suspect.rendered.route.is_plain_answer();
        let only_stand_ins = parts.iter().all(|(node, parts)| stands_in(&node.key) || parts.values().all(&plain));
        let mut subjects = match only_stand_ins && !policies.is_empty() {
            true => Vec::new(),
            false => super::blame::subjects(parts, by_object),
        };
        if subjects.is_empty() && policies.is_empty() {
            return lent;
        }
        subjects.extend(policies);
        subjects
    }

    /// Returns the contents in a version of a route configuration that no Envoy has accepted: parts of routes, and
    /// settings of policies.
    pub(super) fn unproven_in(&self, name: &str, version: &Version) -> HashSet<Content> {
        let Some(Accused { policies, parts, .. }) = self.accused(name, version, false) else { return HashSet::new() };
        let policies = policies.into_iter().flat_map(|policy| policy.contents.into_keys());
        policies.chain(parts.into_values().flat_map(BTreeMap::into_keys)).collect()
    }

    fn is_unproven(&self, said: &Said) -> bool {
        !self.proof.is_known_good(&said.content())
    }

    /// Checks whether a policy applies a setting to the route that no Envoy has accepted.
    fn is_told_anew(&self, rendered: &Rendered) -> bool {
        rendered.said().iter().any(|said| self.is_unproven(said))
    }

    /// Returns a part in the form in which it is tried alone: without the settings of policies that no Envoy has
    /// accepted, because these are tried separately.
    pub(super) fn alone(&self, rendered: &Rendered, context: ListenerContext) -> Bytes {
        match self.is_told_anew(rendered) {
            true => trials::alone(&rendered.without_policies(), context),
            false => trials::alone(rendered, context),
        }
    }

    /// Returns the contents that an accepted part of a route configuration proves.
    pub(super) fn proven_with(rendered: &Rendered, context: ListenerContext) -> Vec<Content> {
        if rendered.said().is_empty() {
            return Vec::new();
        }
        let said = rendered.said().iter().map(|said| said.content());
        said.chain([rendered.bare_content(context)]).collect()
    }

    /// Returns the names of the policies that may have contributed to a refusal for which routes are suspected.
    pub(super) fn unheard(&self, name: &str, version: &Version) -> Option<String> {
        let (parts, _) = self.suspects(name, version)?;
        let told = parts.values().flat_map(|parts| parts.values()).flat_map(|part| part.rendered.said().iter());
        let policies: BTreeSet<String> =
            told.filter(|said| self.is_unproven(said)).map(|said| said.policy().to_string()).collect();
        let names = policies.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then_some(names)
    }
}
