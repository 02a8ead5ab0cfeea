//! Composition of the forms of route configurations, for comparisons.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use holdfast_envoy::features::redirect::ListenerContext;
use holdfast_graph::Content;
use holdfast_translate::fleet::Composition;
use holdfast_translate::outcome::setting::PolicySetting;
use holdfast_translate::policy::level::LevelPlan;
use holdfast_translate::route::Rendered;
use holdfast_xds::Version;
use imbl::ordmap::DiffItem;

/// Limit of forms of one resource that are remembered, the acknowledged one included.
pub(crate) const FORMS_MAX: usize = 64;
/// Limit of forms of one route configuration that are known from before the acknowledged one; beyond it, the oldest is
/// forgotten.
const PREVIOUS_FORMS_MAX: usize = 4;

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

/// The forms of the route configurations of a scope.
#[derive(Debug, Default)]
pub struct RouteForms {
    /// The forms by resource: the acknowledged form, then the newer ones.
    pub(crate) offered: BTreeMap<Arc<str>, Vec<Form>>,
    /// The acknowledged form by resource.
    pub(crate) acknowledged: BTreeMap<Arc<str>, Form>,
    /// The forms by resource that were acknowledged before, the newest last.
    previous: BTreeMap<Arc<str>, VecDeque<Form>>,
}

impl RouteForms {
    /// Records one form of a route configuration.
    pub(crate) fn note(&mut self, name: &Arc<str>, form: Form) {
        let forms = self.offered.entry(name.clone()).or_default();
        forms.push(form);
        if forms.len() > FORMS_MAX {
            forms.remove(0);
        }
    }

    /// Returns the form of a version of a route configuration.
    pub fn of(&self, name: &str, version: &Version) -> Option<&Form> {
        self.offered.get(name)?.iter().rev().find(|form| form.version == *version)
    }

    /// Returns the newest form of a route configuration.
    pub(super) fn newest(&self, name: &str) -> Option<&Form> {
        self.offered.get(name)?.last()
    }

    /// Returns the acknowledged form of a route configuration.
    pub fn acknowledged(&self, name: &str) -> Option<&Form> {
        self.acknowledged.get(name)
    }

    /// Returns the form of a version that was acknowledged before the newest one.
    pub(crate) fn previous(&self, name: &str, version: &Version) -> Option<&Form> {
        self.previous.get(name)?.iter().find(|form| form.version == *version)
    }

    /// Returns the form of a version that is offered, or that was acknowledged.
    pub(crate) fn known(&self, name: &str, version: &Version) -> Option<&Form> {
        let acknowledged = || self.acknowledged(name).filter(|form| form.version == *version);
        self.of(name, version).or_else(acknowledged).or_else(|| self.previous(name, version))
    }

    /// Records the acknowledgement of a form; older forms are not needed any more.
    pub(super) fn acknowledge(&mut self, name: &Arc<str>, form: Form) {
        if let Some(forms) = self.offered.get_mut(name)
            && let Some(at) = forms.iter().position(|known| known.version == form.version)
        {
            forms.drain(..at);
        }
        let version = form.version;
        let before = self.acknowledged.insert(name.clone(), form);
        if let Some(before) = before.filter(|before| before.version != version) {
            let previous = self.previous.entry(name.clone()).or_default();
            previous.retain(|known| known.version != before.version);
            previous.push_back(before);
            if previous.len() > PREVIOUS_FORMS_MAX {
                previous.pop_front();
            }
        }
    }
}

/// Returns the contents that an accepted part of a route configuration proves.
pub(crate) fn proven_with(rendered: &Rendered, context: ListenerContext) -> Vec<Content> {
    // A redirect to https has not all settings of the route.
    if rendered.policy_settings().is_empty() || rendered.route.secure_port_at(context).is_some() {
        return Vec::new();
    }
    let contents = rendered.policy_settings().iter().map(|setting| setting.content());
    contents.chain([rendered.bare_content(context)]).collect()
}

/// Returns the parts of the hosts that differ.
pub(super) fn changed(before: &Composition, now: &Composition) -> Vec<(Content, Arc<Rendered>)> {
    let parts = before.diff(now).filter_map(|item| match item {
        DiffItem::Add(_, parts) | DiffItem::Update { new: (_, parts), .. } => Some(parts.clone()),
        DiffItem::Remove(..) => None,
    });
    parts.flat_map(|parts| parts.to_vec()).collect()
}
