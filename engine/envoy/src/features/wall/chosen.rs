//! An address filter for every request to hosts that Envoy resolves by DNS, including requests without a client
//! connection: only a request with a known address that is not refused is forwarded.
//!
//! No other address filter of Envoy applies without a client connection: `upstream_rbac` lets such requests pass, and
//! logs a warning for each. So this is a filter that refuses every request, and that is skipped where the attribute
//! `upstream.address` is an allowed address; without an address, or where the condition fails to evaluate, the request
//! is refused. The refusing filter calls an external processor in a cluster that never exists.

use envoy_types::pb::cel::expr::constant::ConstantKind;
use envoy_types::pb::cel::expr::expr::{Call, ExprKind, Ident, Select};
use envoy_types::pb::cel::expr::{Constant, Expr, ParsedExpr};
use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{GrpcService, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::common::matching::v3::ExtensionWithMatcher;
use envoy_types::pb::envoy::extensions::filters::common::matcher::action::v3::SkipFilter;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ExternalProcessor;
use envoy_types::pb::envoy::r#type::v3::{HttpStatus, StatusCode};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig as XdsExtension;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::single_predicate::Matcher as By;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{MatchType, SinglePredicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::on_match::OnMatch as Then;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{MatcherList, MatcherType, OnMatch};
use envoy_types::pb::xds::r#type::v3::CelExpression;
use holdfast_check::refused_text;
use prost::Message;

use crate::encode::{any, names};

/// The filter that skips another filter on a match.
const FILTER: &str = "envoy.filters.http.match_delegate";
/// The filter that refuses requests.
const REFUSING: &str = "envoy.filters.http.ext_proc";
/// The attributes of a request, as the input of CEL conditions; the message has no fields.
const ATTRIBUTES: &str = "type.googleapis.com/xds.type.matcher.v3.HttpAttributesCelMatchInput";
/// A CEL condition.
const CONDITION: &str = "type.googleapis.com/xds.type.matcher.v3.CelMatcher";

/// `xds.type.matcher.v3.CelMatcher`, which `envoy-types` lacks.
#[derive(Clone, PartialEq, Message)]
struct CelMatcher {
    #[prost(message, optional, tag = "1")]
    expr_match: Option<CelExpression>,
}

/// Returns the filter with its name. It allows loopback where operators allow that.
pub(super) fn filter(allow_loopback: bool) -> (&'static str, Any) {
    let condition = CelMatcher {
        expr_match: Some(CelExpression {
            cel_expr_parsed: Some(ParsedExpr { expr: Some(allowed(allow_loopback)), source_info: None }),
            ..Default::default()
        }),
    };
    let condition = Any { type_url: CONDITION.into(), value: condition.encode_to_vec() };
    let is_allowed = SinglePredicate {
        input: Some(extension("attributes", Any { type_url: ATTRIBUTES.into(), value: Vec::new() })),
        matcher: Some(By::CustomMatch(extension("cel", condition))),
    };
    let skip = FieldMatcher {
        predicate: Some(Predicate { match_type: Some(MatchType::SinglePredicate(is_allowed)) }),
        on_match: Some(OnMatch {
            on_match: Some(Then::Action(extension("skip", any(&SkipFilter {})))),
            ..Default::default()
        }),
    };
    let delegate = ExtensionWithMatcher {
        xds_matcher: Some(Matcher {
            matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers: vec![skip] })),
            ..Default::default()
        }),
        extension_config: Some(TypedExtensionConfig { name: REFUSING.into(), typed_config: Some(any(&refusing())) }),
        ..Default::default()
    };
    (FILTER, any(&delegate))
}

fn extension(name: &str, config: Any) -> XdsExtension {
    XdsExtension { name: name.into(), typed_config: Some(config) }
}

/// Returns a filter that refuses each request at once.
fn refusing() -> ExternalProcessor {
    let target = EnvoyGrpc { cluster_name: names::MISSING_BACKEND.into(), ..Default::default() };
    ExternalProcessor {
        grpc_service: Some(GrpcService {
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(target)),
            ..Default::default()
        }),
        status_on_error: Some(HttpStatus { code: StatusCode::Forbidden.into() }),
        ..Default::default()
    }
}

/// Returns an expression that is true for a known address that is not refused.
fn allowed(allow_loopback: bool) -> Expr {
    let mut steps = ConditionSteps::default();
    let mut conditions = vec![steps.matches(refused_text::ANY.to_owned())];
    for refused in refused_text::refused(allow_loopback) {
        let is_refused = steps.matches(refused);
        conditions.push(steps.call("!_", vec![is_refused]));
    }
    steps.all(conditions)
}

/// Builds the steps of a condition, each with an ID of its own.
#[derive(Default)]
struct ConditionSteps {
    last: i64,
}

impl ConditionSteps {
    fn step(&mut self, kind: ExprKind) -> Expr {
        self.last += 1;
        Expr { id: self.last, expr_kind: Some(kind) }
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.step(ExprKind::CallExpr(Box::new(Call { target: None, function: function.into(), args })))
    }

    /// Returns a step that is true where all conditions are, joined in pairs, so that the tree stays flat; false
    /// without conditions.
    fn all(&mut self, mut conditions: Vec<Expr>) -> Expr {
        while conditions.len() > 1 {
            let mut rest = conditions.into_iter();
            conditions = Vec::new();
            while let Some(one) = rest.next() {
                conditions.push(match rest.next() {
                    Some(other) => self.call("_&&_", vec![one, other]),
                    None => one,
                });
            }
        }
        let never = Constant { constant_kind: Some(ConstantKind::BoolValue(false)) };
        conditions.pop().unwrap_or_else(|| self.step(ExprKind::ConstExpr(never)))
    }

    fn matches(&mut self, regex: String) -> Expr {
        let upstream = self.step(ExprKind::IdentExpr(Ident { name: "upstream".into() }));
        let address = Select { operand: Some(Box::new(upstream)), field: "address".into(), test_only: false };
        let address = self.step(ExprKind::SelectExpr(Box::new(address)));
        let regex = Constant { constant_kind: Some(ConstantKind::StringValue(regex)) };
        let regex = self.step(ExprKind::ConstExpr(regex));
        self.call("matches", vec![address, regex])
    }
}
