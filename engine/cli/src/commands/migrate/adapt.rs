//! Classes of other gateways, as Holdfast would serve them: the Gateways of a user are translated as they will be when
//! their class is one of Holdfast.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::apis::{Body, Decoded, decode, gateway, kinds};
use holdfast_api::settings::CONTROLLER_NAME;
use holdfast_engine::engine::Event;
use serde_json::json;

/// Replaces the controllers and parameters of all classes, and adds the classes of Gateways that are missing.
pub(super) fn classes(events: &mut Vec<Event>) {
    let mut named: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut present: BTreeSet<Arc<str>> = BTreeSet::new();
    for event in events.iter_mut() {
        let Event::Applied(object, _) = event else { continue };
        match &mut object.body {
            Body::GatewayClass(class) => {
                present.insert(object.key.name.clone());
                if *class.controller_name != *CONTROLLER_NAME {
                    class.controller_name = CONTROLLER_NAME.into();
                    class.parameters = None;
                }
            }
            Body::Gateway(gateway) => drop(named.insert(gateway.class.clone())),
            _ => {}
        }
    }
    for name in named.difference(&present) {
        let class = json!({
            "apiVersion": format!("{}/v1", gateway::GROUP),
            "kind": kinds::GATEWAY_CLASS,
            "metadata": {"name": &**name},
            "spec": {"controllerName": CONTROLLER_NAME},
        });
        if let Decoded::Object(object, faults) = decode(class, None) {
            events.push(Event::Applied(object, faults));
        }
    }
}
