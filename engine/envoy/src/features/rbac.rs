//! Authorization of requests by conditions in CEL: model, validation, Envoy form.
//!
//! Envoy's RBAC filter enforces them. Envoy treats a condition that fails to evaluate (for example, a comparison with
//! an absent header) as false, so that a deny policy would allow such a request. Therefore deny conditions are
//! inverted: a request is allowed only where the conditions are known to be false. Decision 14 gives the reasons.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::rbac::v3::permission::Rule;
use envoy_types::pb::envoy::config::rbac::v3::principal::Identifier;
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac as Rules};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::google::api::expr::v1alpha1 as envoy;
use envoy_types::pb::google::api::expr::v1alpha1::constant::ConstantKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::create_struct::Entry;
use envoy_types::pb::google::api::expr::v1alpha1::expr::create_struct::entry::KeyKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::{Call, CreateList, CreateStruct, ExprKind, Ident, Select};
use holdfast_check::cel::{self, Constant, Expr, ExprNode};
use holdfast_check::re2::Regexes;

use super::Flaw;

/// Maximum number of conditions in one policy; equal to the limit in the CRD.
pub const CONDITIONS_MAX: usize = 256;
/// Maximum number of expression steps in all conditions of one policy.
pub const STEPS_MAX: usize = 10_000;

/// Name of the only RBAC policy.
const POLICY: &str = "rbac";

/// The conditions of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// True for requests that are allowed.
    allow: Expr,
}

impl Conditions {
    /// Parses and validates conditions, of which one must hold. A request for which one holds is allowed, or denied
    /// where `deny` is set. The regexes of the conditions count towards the budget of the policy.
    pub fn read<'a>(
        deny: bool,
        texts: impl IntoIterator<Item = &'a str>,
        regexes: &Regexes,
    ) -> Result<Self, Vec<Flaw>> {
        let (mut conditions, mut flaws) = (Vec::new(), Vec::new());
        let mut steps = 0usize;
        for (index, text) in texts.into_iter().enumerate() {
            if index >= CONDITIONS_MAX {
                flaws.push(Flaw::new("", format!("must have at most {CONDITIONS_MAX} entries")));
                break;
            }
            match cel::check(text, regexes) {
                Ok(condition) => {
                    steps = steps.saturating_add(condition.steps());
                    conditions.push(condition);
                }
                Err(fault) => flaws.push(Flaw::new(format!("[{index}]"), fault)),
            }
        }
        if steps > STEPS_MAX {
            flaws.push(Flaw::new(
                "",
                format!("are too complex together: they have {steps} steps; at most {STEPS_MAX} are allowed"),
            ));
        }
        match cel::any_of(conditions) {
            Some(any) if flaws.is_empty() => Ok(Self { allow: if deny { cel::not(any) } else { any } }),
            None if flaws.is_empty() => Err(vec![Flaw::new("", "must have a condition")]),
            _ => Err(flaws),
        }
    }

    /// Returns the per-route configuration.
    pub fn encode(&self) -> RbacPerRoute {
        let policy = Policy {
            permissions: vec![Permission { rule: Some(Rule::Any(true)) }],
            principals: vec![Principal { identifier: Some(Identifier::Any(true)) }],
            condition: Some(expr(&self.allow, &mut 0)),
            ..Default::default()
        };
        let policies = HashMap::from([(POLICY.to_owned(), policy)]);
        RbacPerRoute {
            rbac: Some(Rbac {
                rules: Some(Rules { action: Action::Allow.into(), policies, ..Default::default() }),
                ..Default::default()
            }),
        }
    }
}

/// Returns Envoy's form of an expression; each step has an ID of its own.
fn expr(step: &Expr, last: &mut i64) -> envoy::Expr {
    *last += 1;
    let id = *last;
    let mut all = |steps: &[Expr]| steps.iter().map(|step| expr(step, last)).collect::<Vec<_>>();
    let kind = match &step.kind {
        ExprNode::Name(name) => ExprKind::IdentExpr(Ident { name: name.to_string() }),
        ExprNode::Constant(value) => ExprKind::ConstExpr(envoy::Constant { constant_kind: Some(constant(value)) }),
        ExprNode::Field { of, name, only_test } => {
            let operand = Some(Box::new(expr(of, last)));
            ExprKind::SelectExpr(Box::new(Select { operand, field: name.to_string(), test_only: *only_test }))
        }
        ExprNode::Call { function, on, arguments } => {
            let args = all(arguments);
            let target = on.as_ref().map(|on| Box::new(expr(on, last)));
            ExprKind::CallExpr(Box::new(Call { target, function: function.to_string(), args }))
        }
        ExprNode::List(entries) => ExprKind::ListExpr(CreateList { elements: all(entries), ..Default::default() }),
        ExprNode::Map(entries) => {
            let entry = |(key, value): &(Expr, Expr)| {
                *last += 1;
                let id = *last;
                let key = expr(key, last);
                let value = Some(expr(value, last));
                Entry { id, value, key_kind: Some(KeyKind::MapKey(key)), ..Default::default() }
            };
            ExprKind::StructExpr(CreateStruct { entries: entries.iter().map(entry).collect(), ..Default::default() })
        }
    };
    envoy::Expr { id, expr_kind: Some(kind) }
}

fn constant(value: &Constant) -> ConstantKind {
    match value {
        Constant::Null => ConstantKind::NullValue(0),
        Constant::Bool(value) => ConstantKind::BoolValue(*value),
        Constant::Int(value) => ConstantKind::Int64Value(*value),
        Constant::Uint(value) => ConstantKind::Uint64Value(*value),
        Constant::Double(value) => ConstantKind::DoubleValue(*value),
        Constant::Text(value) => ConstantKind::StringValue(value.to_string()),
        Constant::Bytes(value) => ConstantKind::BytesValue(value.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_check::re2::Limits;
    use prost::Message;

    use super::*;

    fn regexes() -> Regexes {
        Regexes::of_object(Limits::default())
    }

    #[test]
    fn a_deny_condition_becomes_a_negated_allow_condition() {
        let action = |deny| {
            let conditions = Conditions::read(deny, ["request.method == 'GET'", "connection.mtls"], &regexes());
            let encoded = conditions.ok().map(|conditions| conditions.encode()).unwrap_or_default();
            let rules = encoded.rbac.and_then(|rbac| rbac.rules).unwrap_or_default();
            let condition = rules.policies.into_values().next().and_then(|policy| policy.condition);
            let function = match condition.and_then(|condition| condition.expr_kind) {
                Some(ExprKind::CallExpr(call)) => call.function,
                _ => String::new(),
            };
            (rules.action == i32::from(Action::Allow), function)
        };
        assert_eq!(action(false), (true, "_||_".to_owned()));
        assert_eq!(action(true), (true, "!_".to_owned()));
    }

    #[test]
    fn conditions_are_as_deep_together_as_decoders_take() {
        let mut depths = (1..40).map(|depth| format!("1 in {}1{}", "[".repeat(depth), "]".repeat(depth)));
        let deepest = depths.rfind(|text| cel::check(text, &regexes()).is_ok()).unwrap_or_default();
        let conditions = Conditions::read(true, std::iter::repeat_n(&*deepest, CONDITIONS_MAX), &regexes());
        let bytes = conditions.map(|conditions| conditions.encode().encode_to_vec());
        // Envoy's decoder and this one have the same depth limit.
        assert!(bytes.is_ok_and(|bytes| RbacPerRoute::decode(&*bytes).is_ok()));
    }

    #[test]
    fn limits_apply_and_every_flaw_is_reported() {
        let fields = |texts: &[&str]| {
            let flaws = Conditions::read(false, texts.iter().copied(), &regexes()).err().unwrap_or_default();
            flaws.into_iter().map(|flaw| flaw.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(&[]), [""]);
        assert_eq!(fields(&["true"; 256]), [""; 0]);
        assert_eq!(fields(&["true"; 257]), [""]);
        assert_eq!(fields(&["true", "(", "true", "nobody"]), ["[1]", "[3]"]);
        let large = format!("1 in [{}1]", "1,".repeat(2000));
        assert_eq!(fields(&[&*large; 4]), [""; 0]);
        assert_eq!(fields(&[&*large; 6]), [""]);
    }
}
