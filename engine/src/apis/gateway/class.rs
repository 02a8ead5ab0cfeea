//! GatewayClass: which Gateways are ours.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#gatewayclass>

use std::sync::Arc;

use gateway_api::gatewayclasses::GatewayClassSpec;
use serde_json::Value;

use crate::apis::Body;
use crate::apis::decode::Found;

/// A GatewayClass.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayClass {
    /// `spec.controllerName`.
    pub controller_name: Arc<str>,
    /// Is `spec.parametersRef` set?
    pub has_parameters: bool,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let spec: GatewayClassSpec = found.typed("spec", &document.get_mut("spec").map(Value::take).unwrap_or_default())?;
    Some(Body::GatewayClass(GatewayClass {
        controller_name: spec.controller_name.into(),
        has_parameters: spec.parameters_ref.is_some(),
    }))
}
