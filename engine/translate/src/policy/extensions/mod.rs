//! Fields that use an external service through a GatewayExtension: one file for each type of extension.

mod ext_auth;
mod jwt;
mod rate_limit;
mod used;

use holdfast_api::apis::Body;
use holdfast_api::apis::kgateway::GROUP;
use holdfast_api::apis::kgateway::extension::GatewayExtension;
use holdfast_api::apis::kgateway::traffic_policy::{ExtensionRef, TrafficSpec};
use holdfast_api::apis::kinds;
use holdfast_graph::{ObjectKey, Role};
pub(super) use used::Used;

use super::reading::Reading;

pub(super) fn read(spec: &TrafficSpec, reading: &mut Reading<'_, '_>) {
    ext_auth::read(spec, reading);
    jwt::read(spec, reading);
    rate_limit::read(spec, reading);
}

/// Returns the GatewayExtension that a field references.
pub(super) fn extension<'a>(
    field: &str,
    reference: &ExtensionRef,
    reading: &mut Reading<'_, 'a>,
) -> Option<(ObjectKey, &'a GatewayExtension)> {
    let namespace = reference.namespace.as_deref().unwrap_or(&reading.key.namespace);
    let key = ObjectKey::new(GROUP, kinds::GATEWAY_EXTENSION, namespace, &*reference.name);
    let field = format!("spec.{field}.extensionRef");
    reading.reader.edge(reading.key, "", &key, Role::Requires);
    if !reading.reader.granted((GROUP, &reading.key.kind, &reading.key.namespace), &key) {
        let message = format!(
            "GatewayExtension {} is in another namespace, and no ReferenceGrant there allows it to be used",
            key.namespaced_name()
        );
        reading.missing(field, "RefNotPermitted", message);
        return None;
    }
    match reading.reader.object(&key).map(|object| &object.body) {
        Some(Body::GatewayExtension(extension)) => {
            reading.read_from(&key);
            for unread in &extension.unread {
                reading.unread_extension(&field, &key, &format!("{}: {}", unread.field, unread.message));
            }
            extension.unread.is_empty().then_some((key, &**extension))
        }
        _ => {
            reading.lacks(field, "ExtensionNotFound", &key);
            None
        }
    }
}
