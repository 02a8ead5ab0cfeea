//! Policies of routes: policies attached to the object, policies attached to a rule by its name, and policies that a
//! rule references.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::direct_response::DirectResponse;
use holdfast_api::apis::kinds;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::section::ObjectSection;
use holdfast_envoy::features::body_format::ResponseBodyFormat;
use holdfast_envoy::model::{FixedResponse, Route};
use holdfast_graph::{ObjectKey, Role};

use super::inheritance::{InheritedPolicies, InheritedPriority, PolicyOrder};
use crate::outcome::policy::{PolicyPlan, Unenforceable};
use crate::outcome::setting::{self, PolicySetting};
use crate::precedence::attachment::Section;
use crate::precedence::fill::fill;
use crate::precedence::merge::{Merged, merge};
use crate::precedence::settings::CORS;
use crate::reader::Reader;

/// A policy or a direct response that a filter names.
#[derive(Clone, Debug)]
pub(crate) struct FilterExtension {
    /// The filter, as a field of the rule.
    pub(crate) field: Arc<str>,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// Policies attached to a route object, in the order of their ranks.
#[derive(Default)]
pub(crate) struct Attached<'a> {
    policies: Vec<(ObjectKey, &'a Arc<PolicyPlan>, Section)>,
    /// The policies of each HTTPRoute that delegates to the object, the nearest first.
    inherited: Vec<InheritedPolicies<'a>>,
}

/// Settings of policies for a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OfRule {
    /// Merged settings.
    pub(crate) merged: Merged,
    /// All policies that take part.
    pub(crate) keys: Vec<ObjectKey>,
    /// Secrets that the policies were read from.
    pub(crate) secrets: Vec<ObjectKey>,
    /// The first policy that cannot be enforced, with the reason.
    pub(crate) closed: Option<(ObjectKey, Unenforceable)>,
    /// Effective settings of the policies.
    pub(crate) policy_settings: BTreeSet<PolicySetting>,
    /// The direct response that the rule references.
    pub(crate) answer: Option<(ObjectKey, FixedResponse)>,
    /// Whether `cors` of a route above comes before the CORS filter of the rule.
    pub(crate) is_cors_first: bool,
    /// References of the rule to missing objects.
    pub(crate) faults: Vec<Fault>,
}

/// Returns the policies attached to a route object.
pub(crate) fn attached<'a>(object: &Object, reader: &mut Reader<'a>) -> Attached<'a> {
    Attached { policies: reader.policies_at(&object.key, &object.metadata.labels), inherited: Vec::new() }
}

impl<'a> Attached<'a> {
    /// Adds the policies of the next HTTPRoute above that delegates to the object: those of its rule with this name, then
    /// those of the whole route.
    pub(crate) fn inherit(
        &mut self,
        above: &Object,
        rule: Option<&str>,
        priority: InheritedPriority,
        reader: &mut Reader<'a>,
    ) {
        let all = reader.policies_at(&above.key, &above.metadata.labels);
        let of = |wanted: &dyn Fn(&Section) -> bool| -> Vec<(ObjectKey, &'a Arc<PolicyPlan>)> {
            all.iter().filter(|(_, _, at)| wanted(at)).map(|(key, plan, _)| (key.clone(), *plan)).collect()
        };
        let named = |at: &Section| matches!(at, Section::Named(name) if rule == Some(&**name));
        let mut policies = of(&named);
        policies.extend(of(&|at| *at == Section::Whole));
        self.inherited.push(InheritedPolicies { namespace: above.key.namespace.clone(), policies, priority });
    }
}

impl Attached<'_> {
    /// Returns whether a policy is attached to the object, or to its rule with this name, or is inherited.
    pub(crate) fn reach(&self, name: Option<&str>) -> bool {
        let is_inherited = self.inherited.iter().any(|level| !level.policies.is_empty());
        is_inherited
            || self.policies.iter().any(|(_, _, section)| match section {
                Section::Whole => true,
                Section::Named(of) => name.is_some_and(|name| **of == *name),
            })
    }

    /// Returns the settings for a rule: of the policies that it references, that are attached to it, and that are
    /// attached to its object.
    pub(crate) fn of_rule(
        &self,
        object: &Object,
        index: usize,
        name: Option<&str>,
        extensions: &[FilterExtension],
        reader: &mut Reader<'_>,
    ) -> OfRule {
        let section = ObjectSection::Rule(index).to_string();
        let mut rule = OfRule::default();
        let mut named: Vec<(ObjectKey, Arc<PolicyPlan>)> = Vec::new();
        for extension in extensions {
            named.extend(rule.read_reference(object, &section, extension, reader));
        }
        // Referenced policies come first, in the order of the references.
        let own = Section::Named(name.unwrap_or_default().into());
        let at = |wanted: &Section| {
            let wanted = wanted.clone();
            let policies = self.policies.iter().filter(move |(_, _, section)| *section == wanted);
            policies.map(|(key, plan, _)| (key.clone(), (*plan).clone()))
        };
        let of_rule = at(&own).filter(|_| name.is_some());
        let attached: Vec<(ObjectKey, Arc<PolicyPlan>)> = of_rule.chain(at(&Section::Whole)).collect();
        let inherited = self.inherited.iter().flat_map(|level| level.policies.iter().map(|(key, _)| key));
        let own = attached.iter().map(|(key, _)| (key, Role::Modifies));
        for (key, role) in own.chain(inherited.map(|key| (key, Role::Inherits))) {
            reader.edge(&object.key, section.as_str(), key, role);
        }
        let all = PolicyOrder::new(named.into_iter().chain(attached)).above(&self.inherited);
        for (key, plan) in all.policies() {
            if let Some(why) = &plan.unenforceable {
                rule.closed.get_or_insert_with(|| (key.clone(), why.clone()));
            }
            rule.secrets.extend(plan.secrets.iter().cloned());
        }
        // A policy that cannot be enforced contributes no settings: it closes the rule.
        rule.merged = merge(all.enforceable().iter().map(|(key, settings)| (*key, &**settings)));
        let plan = |wanted: &ObjectKey| all.policies().find(|(key, _)| *key == wanted).map(|(_, plan)| &plan.settings);
        rule.policy_settings = setting::in_scope(&rule.merged.origins, plan);
        rule.is_cors_first = self.inherited.iter().any(|level| level.precedes(&object.key.namespace, CORS));
        rule.keys = all.policies().map(|(key, _)| key.clone()).collect();
        rule
    }
}

impl OfRule {
    /// Reads an object that a rule references. Returns the object if it is a policy; a DirectResponse becomes the answer
    /// of the rule.
    fn read_reference(
        &mut self,
        object: &Object,
        section: &str,
        FilterExtension { field: filter, group, kind, name }: &FilterExtension,
        reader: &mut Reader<'_>,
    ) -> Option<(ObjectKey, Arc<PolicyPlan>)> {
        let key = ObjectKey::new(group.as_str(), kind.as_str(), &*object.key.namespace, name.as_str());
        reader.edge(&object.key, section, &key, Role::Requires);
        let field = format!("spec.{section}.{filter}.extensionRef");
        let wrong = |class: Class, reason: &'static str, message: &str, rule: &mut OfRule| {
            let text = format!("{kind} {} {message}", key.namespaced_name());
            rule.faults.push(Fault::new(&object.key, class, &field, reason, text));
            let kind = object.key.kind.clone();
            rule.closed.get_or_insert((key.clone(), Unenforceable { class, message: message.into(), kind }));
        };
        let missing = |rule: &mut OfRule| wrong(Class::Referential, "ExtensionNotFound", "does not exist", rule);
        if kind != kinds::DIRECT_RESPONSE {
            let plan = reader.policy(&key).cloned();
            if plan.is_none() {
                missing(self);
            }
            return plan.map(|plan| (key, plan));
        }
        let Some(Body::DirectResponse(written)) = reader.object(&key).map(|found| &found.body) else {
            missing(self);
            return None;
        };
        match answer(written) {
            Ok(_) if self.answer.is_some() => {
                let message = "is the second DirectResponse of the rule; a rule can have only one";
                wrong(Class::Invalid, "Invalid", message, self);
            }
            Ok(response) => self.answer = Some((key, response)),
            Err(message) => {
                let kind = key.kind.clone();
                let why = Unenforceable { class: Class::Invalid, message: message.into(), kind };
                self.closed.get_or_insert((key, why));
            }
        }
        None
    }

    /// Applies the settings to a route of the rule.
    pub(crate) fn apply(&self, object: &Object, index: usize, name: Option<&str>, route: &mut Route) {
        let rule = name.map_or_else(|| index.to_string(), str::to_owned);
        let known = |variable: &str| match variable {
            "route_name" => Some(object.key.name.to_string()),
            "route_namespace" => Some(object.key.namespace.to_string()),
            "rule_name" => Some(rule.clone()),
            _ => None,
        };
        fill(&self.merged, known, self.is_cors_first, route);
    }
}

/// Returns the response of a DirectResponse; or a message about its fault.
fn answer(written: &DirectResponse) -> Result<FixedResponse, String> {
    if let Some(unread) = written.unread.first() {
        return Err(format!("{}: {}", unread.field, unread.message));
    }
    let status = u16::try_from(written.status).map_err(|fault| format!("spec.status: {fault}"))?;
    let body = written.body.clone().unwrap_or_default();
    let format = written.body_format.as_ref().map(|written| {
        let (text, json, content_type) = (written.text.as_ref(), written.json.as_ref(), written.content_type.as_ref());
        Arc::new(ResponseBodyFormat::new(text, json, content_type))
    });
    Ok(FixedResponse { status, body, format })
}
