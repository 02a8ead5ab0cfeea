//! Data plane settings of a Gateway and its class: parameters, labels, annotations.
//!
//! Errors in these settings do not stop serving: running Envoys stay as they are, and the error is reported on the
//! object.

use std::sync::Arc;

use gateway_api::gatewayclasses::GatewayClassParametersRef;
use holdfast_api::apis::Body;
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::kinds;
use holdfast_api::apis::scheme::config_map_key;
use holdfast_api::fault::{Class, Fault};
use holdfast_api::object::Object;
use holdfast_api::settings::Settings;
use holdfast_graph::{ObjectKey, Role};
use serde_json::Value;

use crate::outcome::gateway::Infrastructure;
use crate::outcome::gateway::class_key;
use crate::provision::parameters::{self, KEY};
use crate::reader::Reader;

/// The reason for unusable parameters.
const REASON: &str = "InvalidParameters";

/// Returns the fault in the parameters of a GatewayClass of this controller.
pub(crate) fn flawed(key: &ObjectKey, settings: &Settings, reader: &mut Reader<'_>) -> Option<Fault> {
    match &reader.object(key)?.body {
        Body::GatewayClass(class) if class.controller_name == settings.controller_name => {
            let reference = class.parameters.as_ref()?;
            of_class(key, reference, reader).err().map(|fault| *fault)
        }
        _ => None,
    }
}

fn of_class(
    key: &ObjectKey,
    reference: &GatewayClassParametersRef,
    reader: &mut Reader<'_>,
) -> Result<Value, Box<Fault>> {
    let GatewayClassParametersRef { group, kind, name, namespace } = reference;
    let field = "spec.parametersRef";
    let map = config_map_key(namespace.as_deref().unwrap_or_default(), name);
    read_map(key, field, (group, kind), &map, reader)
}

/// Reads the parameters in a ConfigMap that an object names.
fn read_map(
    key: &ObjectKey,
    field: &str,
    (group, kind): (&str, &str),
    map: &ObjectKey,
    reader: &mut Reader<'_>,
) -> Result<Value, Box<Fault>> {
    let fault = |class: Class, message: String| Box::new(Fault::new(key, class, field, REASON, message));
    if !group.is_empty() || kind != kinds::CONFIG_MAP {
        let message = format!("parametersRef of kind {group}/{kind} is not supported: use a ConfigMap");
        return Err(fault(Class::Invalid, message));
    }
    if map.namespace.is_empty() {
        return Err(fault(Class::Invalid, "namespace must be set for a ConfigMap".into()));
    }
    reader.edge(key, "", map, Role::Mentions);
    let name = map.namespaced_name();
    let Some(Body::ConfigMap(found)) = reader.object(map).map(|object| &object.body) else {
        return Err(fault(Class::Referential, format!("ConfigMap {name} {}", reader.lacking(map))));
    };
    let Some(text) = found.data.get(KEY) else {
        return Err(fault(Class::Invalid, format!("ConfigMap {name} has no {KEY:?}")));
    };
    parameters::read(text).map_err(|flaw| fault(Class::Invalid, format!("ConfigMap {name}: {KEY}: {flaw}")))
}

/// Reads the data plane settings of a Gateway and its class. Also returns the message about unusable parameters of the
/// Gateway itself.
pub(crate) fn read(
    object: &Object,
    gateway: &Gateway,
    settings: &Settings,
    reader: &mut Reader<'_>,
    faults: &mut Vec<Fault>,
) -> (Infrastructure, Option<String>) {
    let key = &object.key;
    let written = gateway.infrastructure.as_ref();
    let labels = written.and_then(|written| written.labels.clone()).unwrap_or_default();
    let annotations = written.and_then(|written| written.annotations.clone()).unwrap_or_default();
    if !settings.provision {
        for (name, entries) in [("labels", &labels), ("annotations", &annotations)] {
            if !entries.is_empty() {
                let field = format!("spec.infrastructure.{name}");
                let message = format!(
                    "{field} has no effect: this Holdfast does not create Deployments and Services for Gateways"
                );
                faults.push(Fault::new(key, Class::Ignored, field, "NotServed", message));
            }
        }
    }
    let field = "spec.infrastructure.parametersRef";
    let own = written.and_then(|written| written.parameters_ref.as_ref()).map(|reference| {
        let map = config_map_key(&key.namespace, &reference.name);
        read_map(key, field, (&reference.group, &reference.kind), &map, reader)
    });
    let class_key = class_key(&gateway.class);
    let class = match reader.object(&class_key).map(|object| &object.body) {
        Some(Body::GatewayClass(class)) => class.parameters.as_ref(),
        _ => None,
    };
    // Faults of a class are not reported on its Gateways: the class has another owner.
    let class = class.map(|reference| of_class(&class_key, reference, reader).ok());
    let all = match (class, own.transpose()) {
        (_, Err(fault)) => Err(Some(fault)),
        (Some(None), Ok(_)) => Err(None),
        (class, Ok(own)) => parameters::together(class.flatten().as_ref(), own.as_ref()).map_err(|flaw| {
            let message = format!("after merging with the parameters of GatewayClass {}: {flaw}", gateway.class);
            Some(Box::new(Fault::new(key, Class::Invalid, field, REASON, message)))
        }),
    };
    match all {
        Ok(all) => (Infrastructure { labels, annotations, parameters: Some(Arc::new(all)) }, None),
        Err(fault) => {
            let message = fault.as_ref().map(|fault| format!("{field}: {}", fault.message));
            faults.extend(fault.map(|fault| *fault));
            (Infrastructure { labels, annotations, parameters: None }, message)
        }
    }
}
