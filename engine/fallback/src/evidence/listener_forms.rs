//! Composition of the forms of listeners: policy settings, and the chains without these settings.
//!
//! With this, the edit of a policy accuses the policy and not the listener of the Gateway to which the policy applies.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_envoy::hold::Hold;
use holdfast_graph::Content;
use holdfast_translate::Translator;
use holdfast_translate::fleet::FleetId;
use holdfast_translate::fleet::connections::ListenerPolicySettings;
use holdfast_translate::policy::level::LevelPlan;
use holdfast_xds::{ResourceType, Snapshot, Version};

use super::acknowledged::listener_contents;
use super::forms::FORMS_MAX;

/// An offered listener.
#[derive(Clone, Debug)]
pub(crate) struct ListenerForm {
    version: Version,
    /// The policy settings of the Gateway when the form was recorded: later, other settings may produce the same
    /// listener.
    levels: Arc<LevelPlan>,
    /// The policy settings of the listener.
    pub(crate) policy_settings: ListenerPolicySettings,
}

/// The forms of the listeners of a scope, by resource.
#[derive(Debug, Default)]
pub(crate) struct ListenerForms {
    offered: BTreeMap<Arc<str>, Vec<ListenerForm>>,
}

impl ListenerForms {
    /// Records the policy settings of the listeners of a snapshot. Returns the contents of those that are acknowledged
    /// already.
    pub(super) fn note(
        &mut self,
        hold: &Hold,
        fleet: &FleetId,
        snapshot: &Snapshot,
        translator: &Translator,
    ) -> Vec<Content> {
        let levels = translator.served_levels(fleet).cloned().unwrap_or_default();
        let mut proven = Vec::new();
        for (name, resource) in snapshot.of(ResourceType::Listener) {
            let version = resource.version;
            if self.of(name, version).is_some_and(|form| Arc::ptr_eq(&form.levels, &levels)) {
                continue;
            }
            let policy_settings = translator.listener_policy_settings(fleet, name);
            let form = ListenerForm { version, levels: levels.clone(), policy_settings };
            // Content that was acknowledged in an earlier run is known by its bytes only.
            if hold.was_acknowledged(ResourceType::Listener, name, resource.version) {
                proven.extend(form.proven());
            }
            let forms = self.offered.entry(name.clone()).or_default();
            forms.retain(|known| known.version != version);
            forms.push(form);
            if forms.len() > FORMS_MAX {
                forms.remove(0);
            }
        }
        self.offered.retain(|name, _| snapshot.get(ResourceType::Listener, name).is_some());
        proven
    }

    /// Returns the policy settings of a version of a listener.
    pub(crate) fn of(&self, name: &str, version: Version) -> Option<&ListenerForm> {
        self.offered.get(name)?.iter().rev().find(|form| form.version == version)
    }

    /// Returns the contents that an accepted version of a listener proves.
    pub(crate) fn proven_by(&self, name: &Arc<str>, version: Version, body: &[u8]) -> Vec<Content> {
        let of_policies = self.of(name, version).into_iter().flat_map(ListenerForm::proven);
        listener_contents(body).into_iter().chain(of_policies).collect()
    }
}

impl ListenerForm {
    fn proven(&self) -> impl Iterator<Item = Content> {
        self.policy_settings
            .settings
            .keys()
            .map(|setting| setting.content())
            .chain(self.policy_settings.bare.values().copied())
    }
}
