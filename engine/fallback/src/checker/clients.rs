//! Audit of client certificates: a TLS listener accepts only the clients that its Gateway accepts today, and a Gateway
//! presents to backends only the certificate that it names today. The code is independent of the translation.

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::gateway::frontend::{FrontendValidation, ValidationMode};
use holdfast_api::apis::{Body, kinds};
use holdfast_envoy::features::client_certificate::ClientCertificates;
use holdfast_envoy::features::upstream::ClientIdentity;
use holdfast_graph::ObjectKey;
use holdfast_translate::gateway::GatewayPlan;
use holdfast_translate::listener::ListenerPlan;

use super::today::Today;

/// The entry with certificate authorities.
const ENTRY: &str = "ca.crt";

/// Returns why the validation of a served TLS listener is not that of the current Gateway.
pub(super) fn wrong_validation(
    listener: &ListenerPlan,
    gateway: &ObjectKey,
    today: &Today<'_>,
) -> Option<&'static str> {
    let Some(Body::Gateway(written)) = today.object(gateway).map(|object| &object.body) else { return None };
    let frontend = written.tls.frontend.as_ref()?;
    let Some(frontend) = frontend else {
        return Some("the Gateway requires client certificates in a form that cannot be read");
    };
    if frontend.repeated(listener.declared_port).is_some() {
        return Some("the Gateway has two validations of client certificates for its port");
    }
    let (_, required) = frontend.at(listener.declared_port)?;
    match &listener.clients {
        None => Some("it would not request the client certificates that the Gateway requires"),
        Some(served) => weaker(required, served, gateway, today),
    }
}

/// Returns why a Gateway may not present its served client certificate to backends, or none.
pub(super) fn wrong_identity(served: &GatewayPlan, gateway: &ObjectKey, today: &Today<'_>) -> Option<&'static str> {
    let Some(Body::Gateway(written)) = today.object(gateway).map(|object| &object.body) else { return None };
    let reference = match &written.tls.backend {
        None => None,
        Some(None) => {
            let is_closed = *served.identity() == ClientIdentity::Unavailable;
            return (!is_closed).then_some("the client certificate of the Gateway for backends cannot be read");
        }
        Some(Some(backend)) => backend.client_certificate_ref.as_ref(),
    };
    match (served.identity(), reference) {
        (ClientIdentity::Unavailable, _) | (ClientIdentity::Anonymous, None) => None,
        (ClientIdentity::Anonymous, Some(_)) => {
            Some("it would connect to backends without the client certificate that the Gateway names")
        }
        (ClientIdentity::Certificate(_), None) => {
            Some("it would present a client certificate to backends that the Gateway does not name today")
        }
        (ClientIdentity::Certificate(secret), Some(reference)) => {
            let is_named = reference.group.as_deref().is_none_or(str::is_empty)
                && reference.kind.as_deref().is_none_or(|kind| kind == kinds::SECRET)
                && *reference.name == *secret.name
                && reference.namespace.as_deref().unwrap_or(&gateway.namespace) == &*secret.namespace;
            let may_present =
                is_named && today.exists(secret) && today.allows(GROUP, kinds::GATEWAY, &gateway.namespace, secret);
            (!may_present).then_some(
                "it would present a client certificate to backends that the Gateway does not name or may not use today",
            )
        }
    }
}

fn weaker(
    required: &FrontendValidation,
    served: &ClientCertificates,
    gateway: &ObjectKey,
    today: &Today<'_>,
) -> Option<&'static str> {
    let accepts_all = served.trust.unverified || !served.required;
    if accepts_all && required.mode.unwrap_or_default() == ValidationMode::AllowValidOnly {
        return Some("it would accept clients without a valid certificate");
    }
    let Some((first, text)) = &served.trust.authorities else {
        return Some("it would have no certificate authorities for clients");
    };
    let objects = || std::iter::once(first).chain(&served.trust.besides);
    if !objects().all(|object| may_use(required, object, gateway, today)) {
        return Some("it would accept certificate authorities that the Gateway does not name or may not use today");
    }
    let texts: Option<Vec<&[u8]>> = objects().map(|object| authorities(object, today)).collect();
    (texts.map(|texts| texts.join(&b"\n"[..])).as_deref() != Some(&text[..]))
        .then_some("it would accept other certificate authorities than those of today")
}

/// Checks whether the Gateway names an object with certificate authorities, and may use it.
fn may_use(required: &FrontendValidation, object: &ObjectKey, gateway: &ObjectKey, today: &Today<'_>) -> bool {
    let mut references = required.ca_certificate_refs.iter();
    let is_named = references.any(|reference| {
        reference.group.is_empty()
            && (&*reference.kind, &*reference.name) == (&*object.kind, &*object.name)
            && reference.namespace.as_deref().unwrap_or(&gateway.namespace) == &*object.namespace
    });
    is_named && today.allows(GROUP, kinds::GATEWAY, &gateway.namespace, object)
}

fn authorities<'a>(object: &ObjectKey, today: &'a Today<'_>) -> Option<&'a [u8]> {
    match today.object(object).map(|object| &object.body)? {
        Body::Secret(secret) => secret.data.get(ENTRY).map(|text| &text[..]),
        Body::ConfigMap(map) => map.data.get(ENTRY).map(|text| text.as_bytes()),
        _ => None,
    }
}
