//! Who can be at fault for a refused route configuration, where policies take part in it.
//!
//! A policy is at fault with what it says, field by field, and a route with what it is without policies. So an edit of a
//! policy accuses the policy and not the routes below it. Where both are new they are told apart by trials; without a
//! probe the routes answer for both, since none may be served without its policies.

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

/// Who is accused.
pub(super) struct Accused {
    /// Policies, each with what it says that nobody has taken.
    pub(super) policies: Vec<Subject>,
    /// Parts of routes.
    pub(super) parts: Suspects,
    /// The listeners' part in their bytes.
    pub(super) context: ListenerContext,
}

/// A policy as it is desired, or as it stands in.
pub(super) fn plan<'a>(key: &ObjectKey, over: &'a Overlay, around: &'a Around<'_>) -> Option<&'a Arc<PolicyPlan>> {
    over.policies.get(key).or_else(|| around.translator.policy(key))
}

/// Does a policy say what it is suspected of, as it is desired or as it stands in?
pub(super) fn is_said(subject: &Subject, over: &Overlay, around: &Around<'_>) -> bool {
    let key = &subject.node.key;
    let plans = over.policies.get(key).into_iter().chain(around.translator.policy(key));
    plans.flat_map(|plan| plan.contents()).any(|(_, content)| subject.contents.contains_key(&content))
}

impl Line {
    /// Who can be at fault for a version of a route configuration. `apart`: can each be tried alone?
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

    /// The same as they are taken in or left out together, without those who only stand in where others are left.
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

    /// What nobody has taken in a version of a route configuration: parts of routes, and what policies say.
    pub(super) fn unproven_in(&self, name: &str, version: &Version) -> HashSet<Content> {
        let Some(Accused { policies, parts, .. }) = self.accused(name, version, false) else { return HashSet::new() };
        let policies = policies.into_iter().flat_map(|policy| policy.contents.into_keys());
        policies.chain(parts.into_values().flat_map(BTreeMap::into_keys)).collect()
    }

    fn is_unproven(&self, said: &Said) -> bool {
        !self.proof.is_known_good(&said.content())
    }

    /// Do policies say something to a route that nobody has taken?
    fn is_told_anew(&self, rendered: &Rendered) -> bool {
        rendered.said().iter().any(|said| self.is_unproven(said))
    }

    /// A part as it is tried alone: without what policies say to it that nobody has taken, since that is tried apart.
    pub(super) fn alone(&self, rendered: &Rendered, context: ListenerContext) -> Bytes {
        match self.is_told_anew(rendered) {
            true => trials::alone(&rendered.without_policies(), context),
            false => trials::alone(rendered, context),
        }
    }

    /// What is proven with a part of a route configuration that was taken.
    pub(super) fn proven_with(rendered: &Rendered, context: ListenerContext) -> Vec<Content> {
        if rendered.said().is_empty() {
            return Vec::new();
        }
        let said = rendered.said().iter().map(|said| said.content());
        said.chain([rendered.bare_content(context)]).collect()
    }

    /// The policies whose part in a refusal is not known, where routes answer for both.
    pub(super) fn unheard(&self, name: &str, version: &Version) -> Option<String> {
        let (parts, _) = self.suspects(name, version)?;
        let told = parts.values().flat_map(|parts| parts.values()).flat_map(|part| part.rendered.said().iter());
        let policies: BTreeSet<String> =
            told.filter(|said| self.is_unproven(said)).map(|said| said.policy().to_string()).collect();
        let names = policies.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then_some(names)
    }
}
