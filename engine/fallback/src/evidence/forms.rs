//! Composition of the forms of route configurations, for comparisons; and the proof by an acknowledged form.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_graph::{Content, ObjectKey};
use holdfast_translate::Translator;
use holdfast_translate::fleet::{Composition, FleetId};
use holdfast_translate::outcome::setting::PolicySetting;
use holdfast_translate::policy::level::LevelPlan;
use holdfast_translate::route::Rendered;
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};
use imbl::ordmap::DiffItem;

use crate::scope::FallbackScope;

/// Limit of forms of one resource that are remembered, the acknowledged one included.
pub(crate) const FORMS_MAX: usize = 64;

/// An offered route configuration, with its composition.
#[derive(Clone, Debug)]
pub struct Form {
    /// The version.
    pub version: Version,
    /// The parts.
    pub(crate) composition: Composition,
    /// The part of the listeners in the bytes of the route configuration.
    pub context: ListenerContext,
    /// The policy settings of the route configuration as a whole and of its hosts.
    pub(crate) policy_settings: BTreeSet<PolicySetting>,
    /// The policy settings by level.
    pub levels: Arc<LevelPlan>,
}

impl FallbackScope {
    /// Records the composition of the route configurations and listeners of a snapshot.
    pub(crate) fn note_forms(&mut self, fleet: &FleetId, snapshot: &Snapshot, translator: &Translator) {
        self.note_listener_forms(fleet, snapshot, translator);
        for (name, resource) in snapshot.of(ResourceType::Route) {
            let known = self.forms.get(name);
            if known.is_some_and(|forms| forms.iter().any(|form| form.version == resource.version)) {
                continue;
            }
            let Some((composition, context)) = translator.composition(fleet, name) else { continue };
            let before = known.and_then(|forms| forms.last()).map(|form| form.composition.clone()).unwrap_or_default();
            // Content that was acknowledged in an earlier run is known by its bytes only.
            let is_acknowledged = self.hold.was_acknowledged(ResourceType::Route, name, resource.version);
            for (content, rendered) in changed(&before, composition) {
                if is_acknowledged || self.proof.is_proven(&content) {
                    self.prove_with_policies(content, &rendered, context);
                }
            }
            let policy_settings = translator.settings_in_force(fleet, name);
            if is_acknowledged {
                policy_settings.iter().for_each(|setting| self.proof.prove(setting.content()));
            }
            let levels = translator.served_levels(fleet).cloned().unwrap_or_default();
            let (version, composition) = (resource.version, composition.clone());
            self.note_form(name, Form { version, composition, context, policy_settings, levels });
        }
    }

    /// Records the composition of one form of a route configuration.
    pub(crate) fn note_form(&mut self, name: &Arc<str>, form: Form) {
        let forms = self.forms.entry(name.clone()).or_default();
        forms.push(form);
        if forms.len() > FORMS_MAX {
            forms.remove(0);
        }
    }

    /// Records what an accepted part proves: its policy settings, and the part without them.
    fn prove_with_policies(&mut self, content: Content, rendered: &Rendered, context: ListenerContext) {
        if !rendered.policy_settings().is_empty() && self.proof.is_first_time(content) {
            for content in Self::proven_with(rendered, context) {
                self.proof.prove(content);
            }
        }
    }

    /// Returns a version of a resource that is wanted, or that is offered to an Envoy.
    pub(crate) fn form_of(&self, kind: ResourceType, name: &str, version: Version) -> Option<&Arc<Resource>> {
        let on_trial = self.trial.as_ref().and_then(|trial| trial.snapshot.get(kind, name));
        let known = [self.hold.desired(kind, name), self.wanted.get(kind, name), on_trial, self.newest.get(kind, name)];
        known.into_iter().flatten().find(|resource| resource.version == version)
    }

    /// Returns the form of a version of a route configuration.
    pub fn form(&self, name: &str, version: &Version) -> Option<&Form> {
        self.forms.get(name)?.iter().rev().find(|form| form.version == *version)
    }

    /// Returns the acknowledged form of a route configuration.
    pub fn acknowledged(&self, name: &str) -> Option<&Form> {
        self.acknowledged.get(name)
    }

    /// Records the parts of an acknowledged route configuration as proven.
    ///
    /// Returns the objects with parts in the changes.
    pub fn prove(&mut self, name: &Arc<str>, version: Version) -> BTreeSet<ObjectKey> {
        self.configuration_changed = true;
        let mut keys = BTreeSet::new();
        let Some(form) = self.form(name, &version).cloned() else { return keys };
        let before = self.acknowledged.get(name).map(|form| form.composition.clone()).unwrap_or_default();
        for (content, rendered) in changed(&before, &form.composition) {
            self.proof.prove(content);
            self.prove_with_policies(content, &rendered, form.context);
            let behind = rendered.policy_settings().iter().map(|setting| setting.policy()).chain([&rendered.route.key]);
            keys.extend(behind.filter(|key| self.unpromoted.contains(*key)).cloned());
        }
        let policies = form.policy_settings.iter().map(|setting| setting.policy());
        keys.extend(policies.filter(|key| self.unpromoted.contains(*key)).cloned());
        form.policy_settings.iter().for_each(|setting| self.proof.prove(setting.content()));
        if let Some(forms) = self.forms.get_mut(name)
            && let Some(at) = forms.iter().position(|form| form.version == version)
        {
            forms.drain(..at);
        }
        self.acknowledged.insert(name.clone(), form);
        self.proof.shrink(self.acknowledged.values().map(|form| &form.composition));
        keys
    }
}

/// Returns the parts of the hosts that differ.
fn changed(before: &Composition, now: &Composition) -> Vec<(Content, Arc<Rendered>)> {
    let parts = before.diff(now).filter_map(|item| match item {
        DiffItem::Add(_, parts) | DiffItem::Update { new: (_, parts), .. } => Some(parts.clone()),
        DiffItem::Remove(..) => None,
    });
    parts.flat_map(|parts| parts.to_vec()).collect()
}
