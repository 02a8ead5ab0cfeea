//! Rules for objects that users of every gateway have: classes, Gateways, Services.

use holdfast_api::apis::{gateway, kinds};
use holdfast_api::settings::CONTROLLER_NAME;

use super::{MigrationRule, RuleCase, RuleCondition, RulePlace, RuleSubject};

const CLASSES: RuleSubject = RuleSubject::Kinds(gateway::GROUP, &[kinds::GATEWAY_CLASS]);
const GATEWAYS: RuleSubject = RuleSubject::Kinds(gateway::GROUP, &[kinds::GATEWAY]);
const SERVICES: RuleSubject = RuleSubject::Kinds("", &[kinds::SERVICE]);
/// The class that the chart of Holdfast creates.
const CLASS: &str = "holdfast";

/// The rules.
pub(in super::super) const RULES: &[MigrationRule] = &[
    MigrationRule::not_served(
        CLASSES,
        RulePlace::Field("spec.controllerName"),
        RuleCondition::If(is_of_another),
        "Holdfast serves only classes with its own controllerName",
    )
    .instead(
        "the controllerName of Holdfast, in a class of another name while both gateways run",
        "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: holdfast}, spec: \
         {controllerName: holdfast.dev/gateway-controller}}",
    ),
    MigrationRule::not_served(
        GATEWAYS,
        RulePlace::Field("spec.gatewayClassName"),
        RuleCondition::If(is_absent_class),
        "no GatewayClass of this name is among the manifests; Holdfast serves Gateways of classes with the \
         controllerName holdfast.dev/gateway-controller",
    )
    .instead("the class of Holdfast; the chart creates one named holdfast", "gatewayClassName: holdfast"),
    MigrationRule::not_served(
        SERVICES,
        RulePlace::Field("spec.type"),
        RuleCondition::Is(&["ExternalName"]),
        "a Service of type ExternalName counts as missing: its share of the requests of an HTTPRoute gets 500, and an \
         HTTPProxy leaves it out",
    )
    .instead(
        "a Backend with the name, as the backendRef of an HTTPRoute; HTTPProxies cannot reference one",
        "{apiVersion: gateway.kgateway.dev/v1alpha1, kind: Backend, metadata: {name: external}, spec: {static: {hosts: \
         [{host: api.example.com, port: 443}]}}}",
    ),
    MigrationRule::not_served(
        RuleSubject::Kinds("gateway.networking.x-k8s.io", &["XListenerSet"]),
        RulePlace::Object,
        RuleCondition::Always,
        "Holdfast does not read the experimental group",
    )
    .instead("a ListenerSet", "{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet}"),
];

fn is_of_another(case: &RuleCase<'_>) -> bool {
    case.value.as_str() != Some(CONTROLLER_NAME)
}

fn is_absent_class(case: &RuleCase<'_>) -> bool {
    case.value.as_str().is_some_and(|class| class != CLASS && !case.scene.classes.contains_key(class))
}
