//! Evidence: what Envoys acknowledged, and what that proves.
//!
//! The room knows forms of resources, proven contents, last valid versions and their promotion, and the changes that
//! are to be stored. It does not decide what is served, and attributes no refusal.

pub(crate) mod accepted_by;
mod acknowledged;
pub mod forms;
pub mod last_valid;
pub(crate) mod listener_forms;
pub(crate) mod promotion;
pub mod proof;
pub(crate) mod records;
pub(crate) mod shares;
pub mod subject;
pub mod suspects;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_envoy::hold::Hold;
use holdfast_envoy::inspect::clusters::shape;
use holdfast_graph::{Content, ObjectKey};
use holdfast_store::Change;
use holdfast_translate::Translator;
use holdfast_translate::fleet::Composition;
use holdfast_translate::fleet::FleetId;
use holdfast_translate::route::Rendered;
use holdfast_xds::{Resource, ResourceType, Snapshot, Version};

use self::accepted_by::AcceptedBy;
use self::forms::{Form, RouteForms, proven_with};
use self::last_valid::{LastValid, to_store};
use self::listener_forms::ListenerForms;
use self::promotion::Promotion;
use self::proof::Proof;
use self::suspects::Suspects;
use crate::context::scope_id::ScopeId;
use crate::context::step_inputs::StepInputs;

/// What the Envoys of a scope acknowledged, and what that proves.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The contents that Envoys acknowledged.
    pub proof: Proof,
    /// The contents that each Envoy acknowledged itself.
    pub(crate) accepted_by: AcceptedBy,
    /// The contents of the listener versions that Envoys acknowledged last, by resource: each Envoy acknowledges the
    /// same version.
    accepted_listeners: BTreeMap<Arc<str>, (Version, Vec<Content>)>,
    /// The last valid versions.
    pub last_valid: LastValid,
    /// The forms of route configurations.
    pub forms: RouteForms,
    /// The forms of listeners.
    pub(crate) listener_forms: ListenerForms,
    /// The objects with a newest version that is not proven yet.
    pub(crate) promotion: Promotion,
    /// Resources that an Envoy left without an answer while it answered other resources: no answer of another Envoy
    /// about them is awaited either.
    pub(crate) unanswered: HashSet<Version>,
}

impl Evidence {
    /// Records the composition of the route configurations and listeners of a snapshot.
    pub(crate) fn note_forms(&mut self, hold: &Hold, fleet: &FleetId, snapshot: &Snapshot, translator: &Translator) {
        let proven = self.listener_forms.note(hold, fleet, snapshot, translator);
        proven.into_iter().for_each(|content| self.proof.prove(content));
        for (name, resource) in snapshot.of(ResourceType::Route) {
            if self.forms.of(name, &resource.version).is_some() {
                continue;
            }
            let Some((composition, context)) = translator.composition(fleet, name) else { continue };
            let before = self.forms.newest(name).map(|form| form.composition.clone()).unwrap_or_default();
            // Content that was acknowledged in an earlier run is known by its bytes only.
            let is_acknowledged = hold.was_acknowledged(ResourceType::Route, name, resource.version);
            for (content, rendered) in forms::changed(&before, composition) {
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
            self.forms.note(name, Form { version, composition, context, policy_settings, levels });
        }
    }

    /// Records what an accepted part proves: its policy settings, and the part without them.
    fn prove_with_policies(&mut self, content: Content, rendered: &Rendered, context: ListenerContext) {
        if !rendered.policy_settings().is_empty() && self.proof.is_first_time(content) {
            for content in proven_with(rendered, context) {
                self.proof.prove(content);
            }
        }
    }

    /// Records the parts of an acknowledged route configuration as proven.
    ///
    /// Returns the unpromoted objects with parts in the changes.
    pub(crate) fn prove(&mut self, name: &Arc<str>, version: Version) -> BTreeSet<ObjectKey> {
        let mut keys = BTreeSet::new();
        let Some(form) = self.forms.of(name, &version).cloned() else { return keys };
        let before = self.forms.acknowledged(name).map(|form| form.composition.clone()).unwrap_or_default();
        for (content, rendered) in forms::changed(&before, &form.composition) {
            self.proof.prove(content);
            self.prove_with_policies(content, &rendered, form.context);
            let behind = rendered.policy_settings().iter().map(|setting| setting.policy()).chain([&rendered.route.key]);
            keys.extend(behind.cloned());
        }
        keys.extend(form.policy_settings.iter().map(|setting| setting.policy()).cloned());
        keys.retain(|key| self.promotion.unpromoted.contains(key));
        form.policy_settings.iter().for_each(|setting| self.proof.prove(setting.content()));
        self.forms.acknowledge(name, form);
        self.proof.shrink(self.forms.acknowledged.values().map(|form| &form.composition));
        keys
    }

    /// Records the current version of an object as last valid, if it could be read completely. Returns the change that
    /// is to be stored.
    pub(crate) fn promote(&mut self, id: &ScopeId, key: &ObjectKey, inputs: &StepInputs<'_>) -> Option<Change> {
        if inputs.follows || !inputs.is_whole(key) {
            return None;
        }
        let now = inputs.now();
        let object = inputs.objects.get(key).filter(|object| self.last_valid.promote(object, now))?;
        let stored = to_store(object, now, inputs)?;
        Some(Change::Promote(id.stored(), stored))
    }

    /// Returns the suspects of a version of a route configuration.
    pub(crate) fn suspects(&self, name: &str, version: &Version) -> Option<(Suspects, ListenerContext)> {
        let form = self.forms.of(name, version)?;
        let before = self.forms.acknowledged(name).map(|form| &form.composition);
        Some((suspects::changed(before, &form.composition, &self.proof), form.context))
    }

    /// Checks whether an Envoy of the build, or the probe, has accepted everything in a resource.
    pub(crate) fn is_known_good(&self, hold: &Hold, kind: ResourceType, resource: &Resource) -> bool {
        if hold.is_acknowledged(kind, resource)
            || self.proof.was_tried(&resource.version)
            || hold.unavailable.excuses(kind, &resource.name, resource.version)
            || self.unanswered.contains(&resource.version)
        {
            return true;
        }
        if kind == ResourceType::Cluster {
            return self.is_good_cluster(hold, &resource.name, resource.version, &resource.body);
        }
        let (ResourceType::Route, Some(form)) = (kind, self.forms.of(&resource.name, &resource.version)) else {
            return false;
        };
        let before = self.forms.acknowledged(&resource.name);
        form.policy_settings.iter().all(|setting| self.proof.is_known_good(&setting.content()))
            && before.is_some_and(|before| {
                suspects::all_known_good(Some(&before.composition), &form.composition, &self.proof)
            })
    }

    /// Checks whether an Envoy of the build, or the probe, has accepted this cluster or one of the same shape.
    pub(crate) fn is_good_cluster(&self, hold: &Hold, name: &Arc<str>, version: Version, body: &[u8]) -> bool {
        hold.was_acknowledged(ResourceType::Cluster, name, version)
            || self.proof.was_tried(&version)
            || self.proof.is_known_good(&shape(body))
    }

    /// Records a listener or a route configuration that an Envoy accepted.
    pub(crate) fn note_accepted_by(&mut self, node: &Arc<str>, kind: ResourceType, resource: &Resource) {
        let form = self.forms.known(&resource.name, &resource.version).filter(|_| kind == ResourceType::Route);
        if let Some(form) = form {
            return self.accepted_by.note_routes(node, &resource.name, form);
        }
        let contents = self.contents_of(kind, resource);
        self.accepted_by.note(node, kind, resource, contents.iter().copied());
        if kind == ResourceType::Listener {
            self.accepted_listeners.insert(resource.name.clone(), (resource.version, contents));
        }
    }

    /// Checks whether a listener or a route configuration contains something that other Envoys of the build, or the
    /// probe, accepted, and that this Envoy has not accepted since it connected.
    pub(crate) fn has_untried_at(&self, node: &str, kind: ResourceType, resource: &Resource) -> bool {
        if self.accepted_by.has(node, kind, &resource.name, resource.version) {
            return false;
        }
        if kind == ResourceType::Route
            && let Some(form) = self.forms.known(&resource.name, &resource.version)
        {
            return self.has_untried_routes_at(node, &resource.name, form);
        }
        let contents = self.contents_of(kind, resource).into_iter();
        !self.accepted_by.has_all(node, contents.filter(|content| self.proof.is_known_good(content)))
    }

    /// Checks the same for the form of a version of a route configuration.
    pub(crate) fn has_untried_routes_at(&self, node: &str, name: &str, form: &Form) -> bool {
        let is_good = |content: &Content| self.proof.is_known_good(content);
        let nothing = Composition::new();
        let before = self.accepted_by.routes(node, name).unwrap_or(&nothing);
        let parts = forms::changed(before, &form.composition).into_iter().map(|(content, _)| content);
        let settings = form.policy_settings.iter().map(|setting| setting.content());
        !self.accepted_by.has_all(node, parts.chain(settings).filter(is_good))
    }

    /// Returns the contents of a resource, as far as they are known by their bytes and from its form.
    fn contents_of(&self, kind: ResourceType, resource: &Resource) -> Vec<Content> {
        let known = self.accepted_listeners.get(&resource.name).filter(|(version, _)| *version == resource.version);
        match (kind, known) {
            (ResourceType::Listener, Some((_, contents))) => contents.clone(),
            (ResourceType::Listener, None) => {
                self.listener_forms.proven_by(&resource.name, resource.version, &resource.body)
            }
            _ => acknowledged::proven(kind, resource),
        }
    }

    /// Records that the probe accepted a resource as a whole.
    pub(crate) fn note_tried(&mut self, kind: ResourceType, name: &Arc<str>, version: Version, body: Option<&Bytes>) {
        let tried = match (kind, body) {
            (ResourceType::Route, _) => self.tried_routes(name, &version),
            (ResourceType::Cluster, Some(body)) => vec![shape(body)],
            (ResourceType::Listener, Some(body)) => self.listener_forms.proven_by(name, version, body),
            _ => Vec::new(),
        };
        tried.into_iter().for_each(|content| self.proof.note_tried(content));
    }

    /// Returns the contents that an accepted version of a route configuration proves.
    fn tried_routes(&self, name: &str, version: &Version) -> Vec<Content> {
        let Some((suspects, context)) = self.suspects(name, version) else { return Vec::new() };
        let of_parts = suspects
            .values()
            .flatten()
            .flat_map(|(content, suspect)| std::iter::once(*content).chain(proven_with(&suspect.rendered, context)));
        let form = self.forms.of(name, version);
        let settings = form.into_iter().flat_map(|form| &form.policy_settings).map(|setting| setting.content());
        of_parts.chain(settings).collect()
    }
}
