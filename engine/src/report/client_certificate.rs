//! The condition about the client certificate that a Gateway presents to backends.

use holdfast_api::status::Condition;
use holdfast_envoy::encode::names;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_envoy::hold::ResourceState;
use holdfast_fallback::scope::FallbackScope;
use holdfast_fallback::served_state::speaking;
use holdfast_graph::{Detected, Node, ObjectKey};
use holdfast_translate::gateway::{CLOSED_BACKENDS, GatewayPlan, INVALID_CLIENT_CERTIFICATE};
use holdfast_xds::ResourceType;

use crate::engine::Engine;

/// Returns `ResolvedRefs` of a Gateway with a client certificate: false also where the certificate looks usable and Envoy
/// refuses it.
pub(super) fn resolved_refs(engine: &Engine, plan: &GatewayPlan) -> Option<Condition> {
    let client = plan.client.as_ref()?;
    let by_translation = client.resolved_refs.clone();
    let Some(secret) = client.identity.secret().filter(|_| by_translation.status == "True") else {
        return Some(by_translation);
    };
    let refused = speaking(engine.scopes.of(&plan.name)).find_map(|scope| {
        let message = refusal(scope, secret)?;
        let served = engine.translator.served_gateway(&scope.id.fleet).map(GatewayPlan::identity);
        Some((message, served == Some(&ClientIdentity::Unavailable)))
    });
    let Some((message, is_closed)) = refused else { return Some(by_translation) };
    let effect = match is_closed {
        true => CLOSED_BACKENDS,
        false => "backends that are reached over TLS get the last certificate that Envoy accepted",
    };
    let message = format!("Envoy refused Secret {}: {message}; {effect}", secret.namespaced_name());
    Some(Condition::new("ResolvedRefs", false, INVALID_CLIENT_CERTIFICATE, message))
}

/// Returns Envoy's message if it refused the desired version of a Secret.
fn refusal(scope: &FallbackScope, secret: &ObjectKey) -> Option<String> {
    let broken = scope.derived.broken.get(&Node::whole(secret.clone()));
    let verdict = broken.filter(|broken| matches!(scope.detected_of(broken), Detected::Nack | Detected::Probe));
    verdict.map(|broken| scope.message_of(broken)).or_else(|| {
        match scope.hold.state(ResourceType::Secret, &names::secret(secret)) {
            Some(ResourceState::Refused(message)) => Some(message),
            _ => None,
        }
    })
}
