//! Names of missing objects that are probably misspelt.

use holdfast_api::apis::misspelt::similar;
use holdfast_api::apis::scheme::KINDS;
use holdfast_graph::ObjectKey;

/// The part of a message that follows the name of a missing object.
const MISSING: &str = " does not exist";
/// Maximum number of names that are compared with a missing one.
const COMPARED_NAMES_MAX: usize = 1000;

/// Returns the message of a fault about a missing object (`Service shop/pya does not exist`) with the existing object
/// of its kind and namespace that was probably intended, if there is one.
pub(super) fn explained(message: String, existing: &[&ObjectKey]) -> String {
    match meant(&message, existing) {
        Some(meant) => format!("{message}; did you mean {}?", meant.name),
        None => message,
    }
}

fn meant<'a>(message: &str, existing: &[&'a ObjectKey]) -> Option<&'a ObjectKey> {
    let (before, _) = message.split_once(MISSING)?;
    let mut words = before.rsplit(' ');
    let (name, kind) = (words.next()?, words.next()?);
    let kind = KINDS.iter().find(|known| known.kind == kind)?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let is_alike = |key: &&&ObjectKey| *key.kind == *kind.kind && *key.namespace == *namespace && *key.name != *name;
    let alike: Vec<&ObjectKey> = existing.iter().filter(is_alike).take(COMPARED_NAMES_MAX).copied().collect();
    let meant = similar(name, alike.iter().map(|key| &*key.name))?;
    alike.iter().find(|key| &*key.name == meant).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_is_compared_with_those_of_its_kind_and_namespace() {
        let key = |kind: &str, namespace: &str, name: &str| ObjectKey::new("", kind, namespace, name);
        let all = [
            key("Service", "shop", "payment"),
            key("Service", "other", "paymnet"),
            key("Secret", "shop", "payments"),
            key("GatewayClass", "", "holdfast"),
        ];
        let existing: Vec<&ObjectKey> = all.iter().collect();
        let explained = |message: &str| explained(message.to_owned(), &existing);
        let of = |message: &str| explained(message).strip_prefix(message).map(str::to_owned);
        assert_eq!(of("Service shop/paymnt does not exist").as_deref(), Some("; did you mean payment?"));
        assert_eq!(of("spec.x: Secret shop/payment does not exist").as_deref(), Some("; did you mean payments?"));
        assert_eq!(
            of("GatewayClass holdfsat does not exist, so that no controller serves the Gateway").as_deref(),
            Some("; did you mean holdfast?")
        );
        for other in ["Service shop/cart does not exist", "Service third/payment does not exist", "it does not exist"] {
            assert_eq!(of(other).as_deref(), Some(""), "{other}");
        }
    }
}
