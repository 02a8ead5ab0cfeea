//! What the forms of route configurations are made of, so that it can be told what changed; and what an acknowledged
//! form proves.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::ObjectKey;
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};
use imbl::ordmap::DiffItem;

use super::line::Line;
use crate::features::redirect::ListenerContext;
use crate::translate::Translator;
use crate::translate::fleet::{Composition, FleetId};

/// Forms of one resource that are remembered, the acknowledged one among them.
pub(crate) const FORMS_MAX: usize = 64;

/// A route configuration that was offered, and what it was made of.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// Its version.
    pub(crate) version: Version,
    /// Its parts.
    pub(crate) composition: Composition,
    /// The listeners' part in its bytes.
    pub(crate) context: ListenerContext,
}

impl Line {
    /// Remembers what the route configurations of a snapshot are made of.
    pub(crate) fn note_forms(&mut self, fleet: &FleetId, snapshot: &Snapshot, translator: &Translator) {
        for (name, resource) in snapshot.of(ResourceType::Route) {
            let forms = self.forms.entry(name.clone()).or_default();
            if forms.iter().any(|form| form.version == resource.version) {
                continue;
            }
            let Some((composition, context)) = translator.composition(fleet, name) else { continue };
            forms.push(Form { version: resource.version, composition: composition.clone(), context });
            if forms.len() > FORMS_MAX {
                forms.remove(0);
            }
        }
    }

    /// A version of a resource that is wanted, or that is on its way to somebody.
    pub(super) fn form_of(&self, kind: ResourceType, name: &str, version: Version) -> Option<&Arc<Resource>> {
        let on_trial = self.trial.as_ref().and_then(|trial| trial.snapshot.get(kind, name));
        let known = [self.hold.desired(kind, name), self.wanted.get(kind, name), on_trial];
        known.into_iter().flatten().find(|resource| resource.version == version)
    }

    /// What a version of a route configuration was made of.
    pub(crate) fn form(&self, name: &str, version: &Version) -> Option<&Form> {
        self.forms.get(name)?.iter().rev().find(|form| form.version == *version)
    }

    /// What the acknowledged form of a route configuration is made of.
    pub(crate) fn acknowledged(&self, name: &str) -> Option<&Form> {
        self.acknowledged.get(name)
    }

    /// An Envoy acknowledged a route configuration: its parts are proven.
    ///
    /// Gives back the objects that had parts among what changed.
    pub(crate) fn prove(&mut self, name: &Arc<str>, version: Version) -> BTreeSet<ObjectKey> {
        self.configuration_changed = true;
        let mut keys = BTreeSet::new();
        let Some(form) = self.form(name, &version).cloned() else { return keys };
        let before = self.acknowledged.get(name).map(|form| form.composition.clone()).unwrap_or_default();
        let changed = before.diff(&form.composition).filter_map(|item| match item {
            DiffItem::Add(_, parts) | DiffItem::Update { new: (_, parts), .. } => Some(parts.clone()),
            DiffItem::Remove(..) => None,
        });
        for parts in changed.collect::<Vec<_>>() {
            for (content, rendered) in parts.iter() {
                self.proof.prove(*content);
                if self.unpromoted.contains(&rendered.route.key) {
                    keys.insert(rendered.route.key.clone());
                }
            }
        }
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
