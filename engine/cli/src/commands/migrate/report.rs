//! The report of `holdfast migrate`: rules applied to documents, and what the translation refuses or ignores.

use std::collections::BTreeMap;

use holdfast_api::apis::{KINDS, ResourceScope, gateway, kinds, unserved};
use holdfast_api::fault::{Class, Fault};
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;
use serde::Serialize;
use serde_json::Value;

use super::places::{self, PlacedValue};
use super::rules::{MigrationAspect, MigrationInstead, MigrationRule, MigrationScene};
use super::rules::{RuleCase, RuleCondition, RulePlace, RuleSubject};
use super::settings;
use super::source::MigrationSource;
use crate::manifests::{ManifestDocument, Problem};
use crate::offline::Offline;

/// All contents of the report.
#[derive(Debug, Serialize)]
pub(super) struct MigrationReport {
    /// The gateway that the manifests were written for.
    pub(super) source: MigrationSource,
    /// The number of files that were read.
    pub(super) files: usize,
    /// The number of objects, of all kinds.
    pub(super) objects: usize,
    /// The number of entries of each sort.
    pub(super) summary: MigrationSummary,
    /// The objects with entries, in the order of their places.
    pub(super) entries: Vec<MigratedObject>,
}

/// The number of entries of each sort.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MigrationSummary {
    pub(super) differs: usize,
    pub(super) not_served: usize,
    pub(super) not_valid: usize,
    pub(super) unreadable: usize,
    /// The number of entries that need a change.
    pub(super) to_change: usize,
}

/// An object, or a file that cannot be read, with its entries.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct MigratedObject {
    /// The file.
    pub(super) file: String,
    /// The line of the object, from 1; 0 for the file as a whole.
    pub(super) line: u32,
    /// `group/Kind:namespace/name`; empty if it is unknown.
    pub(super) object: String,
    /// The entries, in the order of their places.
    pub(super) entries: Vec<MigrationEntry>,
}

/// One thing to know about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct MigrationEntry {
    /// The line, from 1; 0 for the file as a whole.
    pub(super) line: u32,
    /// The column, from 1; 0 for the line as a whole.
    pub(super) column: u32,
    /// The field; empty for the object as a whole.
    pub(super) field: String,
    /// The sort of entry.
    pub(super) aspect: MigrationAspect,
    /// A sentence.
    pub(super) message: String,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) instead: Option<MigrationInstead>,
}

impl MigrationEntry {
    /// Returns whether the user must change something: everything but a difference without an alternative.
    fn is_to_change(&self) -> bool {
        self.aspect != MigrationAspect::Differs || self.instead.is_some()
    }
}

impl MigrationReport {
    pub(super) fn new(source: MigrationSource, offline: &Offline, settings: Settings) -> Self {
        let documents: Vec<&ManifestDocument> = offline.manifests.documents().collect();
        let scene = MigrationScene { settings, classes: classes(&documents) };
        let mut entries: Vec<MigratedObject> =
            documents.iter().map(|document| object(source, document, &scene)).collect();
        add_faults(&mut entries, offline);
        entries.retain(|object| !object.entries.is_empty());
        entries.extend(unreadable(offline));
        for object in &mut entries {
            object.entries.sort();
        }
        entries.sort();
        let summary = MigrationSummary::of(&entries);
        Self { source, files: offline.reading.files, objects: documents.len(), summary, entries }
    }
}

impl MigrationSummary {
    fn of(objects: &[MigratedObject]) -> Self {
        let mut summary = Self::default();
        for entry in objects.iter().flat_map(|object| &object.entries) {
            let count = match entry.aspect {
                MigrationAspect::Differs => &mut summary.differs,
                MigrationAspect::NotServed => &mut summary.not_served,
                MigrationAspect::NotValid => &mut summary.not_valid,
                MigrationAspect::Unreadable => &mut summary.unreadable,
            };
            *count += 1;
            summary.to_change += usize::from(entry.is_to_change());
        }
        summary
    }
}

/// The controller of each GatewayClass.
fn classes(documents: &[&ManifestDocument]) -> BTreeMap<String, String> {
    let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let class = |document: &&ManifestDocument| {
        let (group, kind) = group_and_kind(&document.value);
        if (group, kind) != (gateway::GROUP, kinds::GATEWAY_CLASS) {
            return None;
        }
        let controller = text(&document.value, "/spec/controllerName").unwrap_or_default();
        Some((text(&document.value, "/metadata/name")?, controller))
    };
    documents.iter().filter_map(class).collect()
}

fn group_and_kind(document: &Value) -> (&str, &str) {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    (group, text("kind"))
}

/// The name of an object, as faults have it.
fn name(group: &str, kind: &str, document: &Value) -> String {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let known = KINDS.iter().find(|known| known.group == group && known.kind == kind);
    let namespace = match (known.map(|known| known.scope), text("/metadata/namespace")) {
        (Some(ResourceScope::Cluster), _) => "",
        (Some(ResourceScope::Namespaced), "") => "default",
        (_, namespace) => namespace,
    };
    ObjectKey::new(group, kind, namespace, text("/metadata/name")).to_string()
}

/// The entries of a document, from the tables.
fn object(source: MigrationSource, document: &ManifestDocument, scene: &MigrationScene) -> MigratedObject {
    let (group, kind) = group_and_kind(&document.value);
    let mut entries: Vec<MigrationEntry> = Vec::new();
    for rule in source.rules().filter(|rule| is_subject(rule.of, group, kind)) {
        for placed in places::values(&document.value, rule.at) {
            let case = RuleCase { value: placed.value, document: &document.value, scene };
            let is_new = entries.iter().all(|entry| entry.field != placed.field);
            if is_new && applies(rule.when, &case) {
                entries.push(of_rule(rule, &placed, document));
            }
        }
    }
    for table in source.settings() {
        for setting in settings::written(table, group, kind, &document.value) {
            let (line, column) = document.marks.find(&setting.field);
            let (field, message, instead) = (setting.field, setting.message, setting.instead);
            let aspect = MigrationAspect::NotServed;
            entries.push(MigrationEntry { line, column, field, aspect, message, instead });
        }
    }
    let is_known = KINDS.iter().any(|known| known.group == group && known.kind == kind);
    if entries.is_empty() && !is_known && source.has_group(group) {
        entries.push(unknown_kind(group, kind, document));
    }
    let file = document.file.to_string();
    MigratedObject { file, line: document.marks.line, object: name(group, kind, &document.value), entries }
}

/// The entry for a kind that no table has.
fn unknown_kind(group: &str, kind: &str, document: &ManifestDocument) -> MigrationEntry {
    let (line, column) = document.marks.find("kind");
    let message = format!("Holdfast does not read the kind {kind}");
    let (field, aspect) = (String::new(), MigrationAspect::NotServed);
    let instead = unserved::instead(group, kind).map(|text| MigrationInstead { text, yaml: "" });
    MigrationEntry { line, column, field, aspect, message, instead }
}

fn of_rule(rule: &MigrationRule, placed: &PlacedValue<'_>, document: &ManifestDocument) -> MigrationEntry {
    let (line, column) = document.marks.find(&PlacedValue::path(&placed.field));
    let message = match (rule.at, placed.value) {
        (RulePlace::Field("plugin"), Value::String(plugin)) => format!("{plugin}: {}", rule.message),
        _ => rule.message.to_owned(),
    };
    let (field, aspect, instead) = (placed.field.clone(), rule.aspect, rule.instead);
    MigrationEntry { line, column, field, aspect, message, instead }
}

fn is_subject(of: RuleSubject, group: &str, kind: &str) -> bool {
    match of {
        RuleSubject::Any => true,
        RuleSubject::Kinds(in_group, kinds) => in_group == group && kinds.contains(&kind),
    }
}

fn applies(when: RuleCondition, case: &RuleCase<'_>) -> bool {
    match when {
        RuleCondition::Always => true,
        RuleCondition::Is(texts) => case.value.as_str().is_some_and(|text| texts.contains(&text)),
        RuleCondition::If(applies) => applies(case),
    }
}

/// Adds what the translation refuses or ignores. Missing objects and conflicts do not depend on the gateway: `check`
/// reports them.
fn add_faults(objects: &mut [MigratedObject], offline: &Offline) {
    let index: BTreeMap<(String, u32, String), usize> = objects
        .iter()
        .enumerate()
        .map(|(index, object)| ((object.file.clone(), object.line, object.object.clone()), index))
        .collect();
    let own = |fault: &&Fault| {
        let is_missing = fault.reason.ends_with("NotFound");
        // Kinds that cannot be referenced are not missing.
        let is_of_translation = match fault.class {
            Class::Invalid | Class::Ignored => true,
            Class::Referential => fault.reason == "InvalidKind",
            _ => false,
        };
        fault.cause.is_none() && !is_missing && is_of_translation
    };
    for fault in offline.engine.faults().iter().filter(own) {
        let Some(entry) = offline.manifests.entry(&fault.object) else { continue };
        let place = (entry.source.file.to_string(), entry.source.line, fault.object.to_string());
        let Some(object) = index.get(&place).and_then(|index| objects.get_mut(*index)) else { continue };
        if object.entries.iter().any(|entry| covers(entry, &fault.field)) {
            continue;
        }
        let marks = entry.marks.as_ref();
        let (line, column) = marks.map(|marks| marks.find(&PlacedValue::path(&fault.field))).unwrap_or_default();
        let is_ignored = fault.class == Class::Ignored;
        let aspect = if is_ignored { MigrationAspect::NotServed } else { MigrationAspect::NotValid };
        let (field, message) = (fault.field.clone(), fault.message.clone());
        object.entries.push(MigrationEntry { line, column, field, aspect, message, instead: None });
    }
}

/// Returns whether an entry of a table describes the fault of a field: at the field, or at an entry of it.
fn covers(entry: &MigrationEntry, field: &str) -> bool {
    let above = entry.field.rsplit_once('.').map_or("", |(above, _)| above);
    let is_above = entry.aspect == MigrationAspect::NotServed && !above.is_empty() && above == field;
    entry.field == field && !field.is_empty() || is_above
}

/// The files and documents that cannot be read, and the paths without objects.
fn unreadable(offline: &Offline) -> Vec<MigratedObject> {
    let problems = &offline.reading.problems;
    let mut found: Vec<Problem> = problems.clone();
    for root in offline.manifests.empty_roots() {
        if !problems.iter().any(|problem| std::path::Path::new(&*problem.file).starts_with(&root.path)) {
            let message = "the path contains no objects: check the path";
            found.push(Problem::of_file(root.path.display().to_string(), message));
        }
    }
    let entry = |Problem { file, line, column, message }: Problem| {
        let (field, aspect) = (String::new(), MigrationAspect::Unreadable);
        let entries = vec![MigrationEntry { line, column, field, aspect, message, instead: None }];
        MigratedObject { file: file.to_string(), line, object: String::new(), entries }
    };
    found.into_iter().map(entry).collect()
}
