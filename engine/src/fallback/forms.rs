//! What the forms of route configurations are made of, so that it can be told what changed; and what an acknowledged
//! form proves.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_graph::{Content, ObjectKey};
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};
use imbl::ordmap::DiffItem;

use super::line::Line;
use crate::features::redirect::ListenerContext;
use crate::translate::Translator;
use crate::translate::fleet::{Composition, FleetId};
use crate::translate::policy::said::Said;
use crate::translate::route::Rendered;

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
    /// What policies say to it as a whole and to its hosts.
    pub(crate) said: BTreeSet<Said>,
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
            let said = translator.said_at(fleet, name);
            let form = Form { version: resource.version, composition: composition.clone(), context, said };
            // What was acknowledged in an earlier run is known by its bytes only.
            let is_acknowledged = self.hold.was_acknowledged(ResourceType::Route, name, resource.version);
            let nothing = Composition::new();
            let before = forms.last().map_or(&nothing, |form| &form.composition);
            for (content, rendered) in changed(before, &form.composition) {
                if is_acknowledged || self.proof.is_proven(&content) {
                    Self::proven_with(&rendered, context).into_iter().for_each(|content| self.proof.prove(content));
                }
            }
            if is_acknowledged {
                form.said.iter().for_each(|said| self.proof.prove(said.content));
            }
            forms.push(form);
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
        for (content, rendered) in changed(&before, &form.composition) {
            self.proof.prove(content);
            Self::proven_with(&rendered, form.context).into_iter().for_each(|content| self.proof.prove(content));
            keys.extend(rendered.said().iter().map(|said| said.policy.clone()));
            keys.insert(rendered.route.key.clone());
        }
        keys.extend(form.said.iter().map(|said| said.policy.clone()));
        keys.retain(|key| self.unpromoted.contains(key));
        form.said.iter().for_each(|said| self.proof.prove(said.content));
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

/// The parts of hosts that differ.
fn changed(before: &Composition, now: &Composition) -> Vec<(Content, Arc<Rendered>)> {
    let parts = before.diff(now).filter_map(|item| match item {
        DiffItem::Add(_, parts) | DiffItem::Update { new: (_, parts), .. } => Some(parts.clone()),
        DiffItem::Remove(..) => None,
    });
    parts.flat_map(|parts| parts.to_vec()).collect()
}
