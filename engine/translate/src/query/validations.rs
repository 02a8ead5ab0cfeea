//! The desired validation of client certificates, for the attribution of refusals.

use std::collections::BTreeMap;

use holdfast_graph::{Content, Node, ObjectKey};

use crate::Translator;

/// A validation context that a Gateway requires of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredValidation {
    /// The objects that contain the certificate authorities.
    pub objects: Vec<ObjectKey>,
    /// The units of the listeners that use the context.
    pub listeners: Vec<Node>,
}

/// Returns the desired validation contexts that a Gateway requires of clients (`spec.tls.frontend`), by content.
pub fn required_validations(translator: &Translator, gateway: &ObjectKey) -> BTreeMap<Content, RequiredValidation> {
    let mut found = BTreeMap::<Content, RequiredValidation>::new();
    for listener in translator.outcomes.gateways.get(gateway).into_iter().flat_map(|plan| &plan.listeners) {
        let Some(context) = listener.clients.as_ref().map(|clients| &clients.trust) else { continue };
        let entry = found.entry(Content(*context.resource().version.as_bytes())).or_default();
        let first = context.authorities.iter().map(|(object, _)| object);
        entry.objects = first.chain(&context.besides).cloned().collect();
        entry.listeners.push(listener.unit(gateway));
    }
    found
}
