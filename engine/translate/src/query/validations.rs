//! The desired validation of client certificates, for the attribution of refusals.

use std::collections::BTreeMap;

use holdfast_graph::{Content, Node, ObjectKey};

use crate::Translator;

/// A validation context of a Gateway's listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredValidation {
    /// The objects that contain the certificate authorities.
    pub objects: Vec<ObjectKey>,
    /// The units of the listeners that use the context.
    pub listeners: Vec<Node>,
}

/// Returns the desired validation contexts of client certificates at a Gateway's listeners, by content: those that the
/// Gateway requires (`spec.tls.frontend`), and those of policies.
pub fn required_validations(translator: &Translator, gateway: &ObjectKey) -> BTreeMap<Content, RequiredValidation> {
    let mut found = BTreeMap::<Content, RequiredValidation>::new();
    let policies = translator.levels(gateway).map(|levels| &levels.connections.tables);
    for listener in translator.outcomes.gateways.get(gateway).into_iter().flat_map(|plan| &plan.listeners) {
        let of_policy = || policies?.get(&listener.table())?.settings.clients();
        let Some(clients) = listener.clients.as_ref().or_else(of_policy).filter(|_| listener.https) else { continue };
        let context = &clients.trust;
        let entry = found.entry(Content(*context.resource().version.as_bytes())).or_default();
        let first = context.authorities.iter().map(|(object, _)| object);
        entry.objects = first.chain(&context.besides).cloned().collect();
        entry.listeners.push(listener.unit(gateway));
    }
    found
}
