//! What the forms of listeners are made of: what policies say to them, and what their chains are without that.
//!
//! So an edit of a policy accuses the policy and not the listener of the Gateway that it speaks to.

use std::sync::Arc;

use holdfast_graph::Content;
use holdfast_xds::{ResourceType, Snapshot, Version};

use super::chains;
use super::forms::FORMS_MAX;
use super::line::Line;
use crate::translate::Translator;
use crate::translate::fleet::FleetId;
use crate::translate::fleet::connections::ToldListener;
use crate::translate::policy::level::LevelPlan;

/// A listener that was offered.
#[derive(Clone, Debug)]
pub(crate) struct ListenerForm {
    version: Version,
    /// What policies said to the Gateway when it was noted: they may come to say the same in other words.
    levels: Arc<LevelPlan>,
    /// What policies say to it.
    pub(crate) told: ToldListener,
}

impl Line {
    /// Remembers what policies say to the listeners of a snapshot.
    pub(super) fn note_listener_forms(&mut self, fleet: &FleetId, snapshot: &Snapshot, translator: &Translator) {
        let levels = translator.served_levels(fleet).cloned().unwrap_or_default();
        for (name, resource) in snapshot.of(ResourceType::Listener) {
            let version = resource.version;
            if self.listener_form(name, version).is_some_and(|form| Arc::ptr_eq(&form.levels, &levels)) {
                continue;
            }
            let told = translator.told_listener(fleet, name);
            let form = ListenerForm { version, levels: levels.clone(), told };
            // What was acknowledged in an earlier run is known by its bytes only.
            if self.hold.was_acknowledged(ResourceType::Listener, name, resource.version) {
                form.proven().for_each(|content| self.proof.prove(content));
            }
            let forms = self.listener_forms.entry(name.clone()).or_default();
            forms.retain(|known| known.version != version);
            forms.push(form);
            if forms.len() > FORMS_MAX {
                forms.remove(0);
            }
        }
        self.listener_forms.retain(|name, _| snapshot.get(ResourceType::Listener, name).is_some());
    }

    /// What policies say to a version of a listener.
    pub(super) fn listener_form(&self, name: &str, version: Version) -> Option<&ListenerForm> {
        self.listener_forms.get(name)?.iter().rev().find(|form| form.version == version)
    }

    /// What is proven by a version of a listener that was taken.
    pub(super) fn proven_by_listener(&self, name: &Arc<str>, version: Version, body: &[u8]) -> Vec<Content> {
        let told = self.listener_form(name, version).into_iter().flat_map(ListenerForm::proven);
        chains::proven(body).into_iter().chain(told).collect()
    }
}

impl ListenerForm {
    fn proven(&self) -> impl Iterator<Item = Content> {
        self.told.said.keys().map(|said| said.content()).chain(self.told.bare.values().copied())
    }
}
