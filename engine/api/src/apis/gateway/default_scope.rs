//! Scopes of default Gateways, fields of the experimental channel: `spec.defaultScope` of a Gateway and
//! `spec.useDefaultGateways` of routes.
//!
//! <https://gateway-api.sigs.k8s.io/geps/gep-3793>

use serde_json::Value;

use crate::apis::decode::Found;

/// The field of a Gateway.
pub(super) const DEFAULT_SCOPE: &str = "defaultScope";
/// The field of a route.
pub(super) const USE_DEFAULT_GATEWAYS: &str = "useDefaultGateways";
/// The only scope; no scope has the value `None`.
pub(in crate::apis) const ALL: &str = "All";

/// Returns whether a scope is `All`. Returns `None` where the scope cannot be read, with a fault; `instead` is what is in
/// effect then.
pub(super) fn is_all(written: Option<Value>, name: &str, instead: &str, found: &mut Found) -> Option<bool> {
    match written {
        None | Some(Value::Null) => Some(false),
        Some(Value::String(scope)) if scope == ALL => Some(true),
        Some(Value::String(scope)) if scope == "None" => Some(false),
        Some(_) => {
            found.invalid(format!("spec.{name}"), format!("must be All or None; {instead}"));
            None
        }
    }
}
