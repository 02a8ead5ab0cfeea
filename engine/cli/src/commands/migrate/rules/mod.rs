//! What the rules about objects of other gateways are made of: data, with the few conditions that are code.
//!
//! A rule describes one difference. The tables of each source are beside this file; this file applies none of them.

pub(super) mod common;
pub(super) mod contour;
pub(super) mod contour_settings;
pub(super) mod ingress;
pub(super) mod kgateway;
pub(super) mod kgateway_parameters;
pub(super) mod kong;
pub(super) mod kong_annotations;
pub(super) mod kong_plugins;

use std::collections::BTreeMap;

use holdfast_api::settings::Settings;
use serde::Serialize;
use serde_json::Value;

/// What is reported about a field or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum MigrationAspect {
    /// It is served, with another meaning.
    Differs,
    /// It has no effect.
    NotServed,
    /// It is refused: the part of the object that has it is not served as written.
    NotValid,
    /// The file or document cannot be read.
    Unreadable,
}

/// What to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct MigrationInstead {
    /// A phrase.
    pub(super) text: &'static str,
    /// An example in one line of YAML; empty if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) yaml: &'static str,
}

/// The objects of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleSubject {
    /// Kinds of one group.
    Kinds(&'static str, &'static [&'static str]),
    /// Every kind.
    Any,
}

/// The part of an object that a rule is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum RulePlace {
    /// The whole object.
    Object,
    /// A field, as in `spec.routes[].services[].port`: `[]` is each entry of a list, `*` each entry of a mapping.
    Field(&'static str),
    /// An annotation.
    Annotation(&'static str),
    /// The annotations of a domain and of the domains below it, except for some.
    Annotations {
        /// The domain.
        domain: &'static str,
        /// The annotations that Holdfast reads.
        except: &'static [&'static str],
    },
    /// A label.
    Label(&'static str),
}

/// When a rule applies to a value at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleCondition {
    /// To every value.
    Always,
    /// If the text is one of these.
    Is(&'static [&'static str]),
    /// If the function returns true.
    If(fn(&RuleCase<'_>) -> bool),
}

/// A value at the place of a rule.
#[derive(Clone, Copy)]
pub(super) struct RuleCase<'a> {
    /// The value.
    pub(super) value: &'a Value,
    /// The object that has it.
    pub(super) document: &'a Value,
    /// What the rules need to know besides the object.
    pub(super) scene: &'a MigrationScene,
}

impl RuleCase<'_> {
    /// Returns whether a field of the object is `true`, or another value than null and `false`.
    pub(super) fn has(&self, pointer: &str) -> bool {
        self.document.pointer(pointer).is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }
}

/// What the rules need to know besides an object.
#[derive(Debug)]
pub(super) struct MigrationScene {
    /// The settings of Holdfast.
    pub(super) settings: Settings,
    /// The `spec.controllerName` of each GatewayClass among the manifests.
    pub(super) classes: BTreeMap<String, String>,
}

/// A difference between another gateway and Holdfast.
#[derive(Clone, Copy, Debug)]
pub(super) struct MigrationRule {
    /// The objects.
    pub(super) of: RuleSubject,
    /// The place in the object.
    pub(super) at: RulePlace,
    /// The condition.
    pub(super) when: RuleCondition,
    /// What is reported.
    pub(super) aspect: MigrationAspect,
    /// A sentence: the effect there and the effect here.
    pub(super) message: &'static str,
    /// What to write instead, if anything.
    pub(super) instead: Option<MigrationInstead>,
}

impl MigrationRule {
    /// A rule about something that is served with another meaning.
    pub(super) const fn differs(of: RuleSubject, at: RulePlace, when: RuleCondition, message: &'static str) -> Self {
        Self { of, at, when, aspect: MigrationAspect::Differs, message, instead: None }
    }

    /// A rule about something that has no effect.
    pub(super) const fn not_served(of: RuleSubject, at: RulePlace, when: RuleCondition, message: &'static str) -> Self {
        Self { of, at, when, aspect: MigrationAspect::NotServed, message, instead: None }
    }

    /// The rule at another place.
    pub(super) const fn at(self, at: RulePlace) -> Self {
        Self { at, ..self }
    }

    /// The rule with what to write instead.
    pub(super) const fn instead(self, text: &'static str, yaml: &'static str) -> Self {
        Self { instead: Some(MigrationInstead { text, yaml }), ..self }
    }
}

/// A setting of another gateway, in its file or its object of settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettingRule {
    /// The path of the setting.
    pub(super) path: &'static str,
    /// What Holdfast has instead; empty if the setting needs nothing.
    pub(super) instead: &'static str,
}

/// The settings of one object, with what is reported about the settings that the table does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettingTable {
    /// The group and the kind of the object.
    pub(super) of: (&'static str, &'static str),
    /// The field with the settings.
    pub(super) field: &'static str,
    /// Whether the field is text in YAML.
    pub(super) is_text: bool,
    /// The settings, in parts.
    pub(super) parts: &'static [&'static [SettingRule]],
    /// The sentence about each setting of the table.
    pub(super) known: &'static str,
    /// The sentence about each other setting.
    pub(super) unknown: &'static str,
}

impl SettingTable {
    /// Returns the rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static SettingRule> + use<> {
        self.parts.iter().copied().flatten()
    }
}

/// A row of a table of settings.
pub(super) const fn setting(path: &'static str, instead: &'static str) -> SettingRule {
    SettingRule { path, instead }
}
