//! Gateway. Listeners are decoded one by one, so that one that does not decode leaves the others serving.
//!
//! <https://gateway-api.sigs.k8s.io/reference/spec/#gateway>

use std::sync::Arc;

use gateway_api::gateways::{GatewayAddresses, GatewayAllowedListeners, GatewayInfrastructure, GatewayListeners};
use serde_json::Value;

use super::default_scope::{self, DEFAULT_SCOPE};
use super::frontend::{self, GatewayTlsSpec, is_of_tls};
use crate::apis::decode::Found;
use crate::apis::misspelt::similar;
use crate::apis::{Body, typed};
use crate::fault::at;

/// Number of listeners of one Gateway or ListenerSet; the limit of the CRDs.
pub const LISTENERS_MAX: usize = 64;

const ADDRESSES: &str = "addresses";
const TLS: &str = "tls";

/// A listener, or the readable part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct ListenerEntry {
    /// Name of the listener, empty where no name could be read.
    pub name: Arc<str>,
    /// The listener. Of a listener that did not decode: its port, protocol and hostname, as far as they could be read.
    pub written: Option<GatewayListeners>,
    /// Whether the whole listener decoded. If not, the fault is already reported.
    pub whole: bool,
}

/// A Gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// `spec.gatewayClassName`.
    pub class: Arc<str>,
    /// `spec.listeners`.
    pub listeners: Vec<ListenerEntry>,
    /// `spec.addresses`.
    pub addresses: Vec<GatewayAddresses>,
    /// `spec.tls`.
    pub tls: GatewayTlsSpec,
    /// `spec.infrastructure`: settings of the data plane.
    pub infrastructure: Option<GatewayInfrastructure>,
    /// `spec.allowedListeners`: the namespaces with ListenerSets that may add listeners; none where unset.
    pub allowed_listeners: Option<GatewayAllowedListeners>,
    /// Whether `spec.defaultScope` is `All`: routes that use default Gateways attach to the Gateway.
    pub is_default: bool,
    /// Whether `spec.defaultScope` cannot be read; then `is_default` is that of the version before.
    pub is_scope_lost: bool,
}

pub(in crate::apis) fn decode(mut document: Value, found: &mut Found) -> Option<Body> {
    let mut spec = document.get_mut("spec").map(Value::take).unwrap_or_default();
    let Some(fields) = spec.as_object_mut() else {
        found.invalid("spec", "spec must be set to an object");
        return None;
    };
    let class: String = found.typed("spec.gatewayClassName", &fields.remove("gatewayClassName").unwrap_or_default())?;
    let listeners = listeners(fields.remove("listeners"), found)?;
    let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
    let (addresses, tls, infrastructure) = (take("addresses"), take("tls"), take("infrastructure"));
    let allowed = take("allowedListeners");
    let instead = "the scope before the edit stays in effect, and a new Gateway is no default Gateway";
    let is_default = default_scope::is_all(take(DEFAULT_SCOPE), DEFAULT_SCOPE, instead, found);
    let known = [ADDRESSES, "allowedListeners", DEFAULT_SCOPE, "gatewayClassName", "infrastructure", "listeners", TLS];
    let wrong = found.unknown_in_spec(fields.keys(), &known);
    let addresses = addresses.map_or(Some(vec![]), |value| found.typed("spec.addresses", &value))?;
    if wrong.contains(&Some(ADDRESSES)) {
        // At the default address, other clients would reach the Gateway.
        return None;
    }
    let tls = tls.map(|value| frontend::tls(value, found)).unwrap_or_default();
    // Where unknown fields are errors: an API server keeps none of them.
    let rest = fields.iter().filter(|_| !wrong.is_empty());
    let mut misplaced =
        rest.filter(|(name, value)| similar(name, [TLS].into_iter()).is_some() || is_of_tls(name, value));
    let tls = match misplaced.next() {
        Some((name, _)) => {
            found.invalid("spec.tls", format!("cannot be read completely: spec.{name} may be meant as a part of it"));
            tls.or_unreadable()
        }
        None => tls,
    };
    Some(Body::Gateway(Arc::new(Gateway {
        class: class.into(),
        listeners,
        addresses,
        tls,
        infrastructure: infrastructure.and_then(|value| found.typed("spec.infrastructure", &value)),
        allowed_listeners: allowed.and_then(|value| found.typed("spec.allowedListeners", &value)),
        is_default: is_default.unwrap_or(false),
        is_scope_lost: is_default.is_none(),
    })))
}

/// Decodes `spec.listeners` of a Gateway or a ListenerSet. Returns `None` where it is not a list.
pub(super) fn listeners(written: Option<Value>, found: &mut Found) -> Option<Vec<ListenerEntry>> {
    let listeners = match written {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(listeners)) => listeners,
        Some(_) => {
            found.invalid("spec.listeners", "must be a list of listeners");
            return None;
        }
    };
    if listeners.len() > LISTENERS_MAX {
        let message = format!("must have at most {LISTENERS_MAX} listeners; the rest is not served");
        found.invalid("spec.listeners", message);
    }
    let listeners = listeners.into_iter().take(LISTENERS_MAX).enumerate().map(|(index, value)| {
        let field = at("spec.listeners", index);
        let name: Arc<str> = value.get("name").and_then(Value::as_str).unwrap_or_default().into();
        let claim = claim(&value);
        let mut written = found.typed(&field, &value);
        if written.is_some() && name.is_empty() {
            found.invalid(format!("{field}.name"), "must not be empty");
            written = None;
        }
        ListenerEntry { name, whole: written.is_some(), written: written.or(claim) }
    });
    Some(listeners.collect())
}

/// Returns the claim of a listener: its port, protocol and hostname. The claim is read separately, so that a listener
/// that does not decode still owns its hosts.
fn claim(listener: &Value) -> Option<GatewayListeners> {
    let fields = ["name", "port", "protocol", "hostname"];
    let kept = fields.into_iter().filter_map(|name| Some((name.to_owned(), listener.get(name)?.clone())));
    typed::read(&Value::Object(kept.collect())).result.ok()
}
