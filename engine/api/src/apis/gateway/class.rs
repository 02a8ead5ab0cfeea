//! GatewayClass: decides which Gateways Holdfast serves.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#gatewayclass>

use std::sync::Arc;

use gateway_api::gatewayclasses::{GatewayClassParametersRef, GatewayClassSpec};
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// A GatewayClass.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayClass {
    /// `spec.controllerName`.
    pub controller_name: Arc<str>,
    /// `spec.parametersRef`.
    pub parameters: Option<GatewayClassParametersRef>,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let spec: GatewayClassSpec = found.typed("spec", &document.get_mut("spec").map(Value::take).unwrap_or_default())?;
    Some(Body::GatewayClass(GatewayClass {
        controller_name: spec.controller_name.into(),
        parameters: spec.parameters_ref,
    }))
}
