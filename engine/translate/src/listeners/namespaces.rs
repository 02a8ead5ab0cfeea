//! Namespaces that a Gateway or ListenerSet allows: of routes at a listener, and of ListenerSets at a Gateway.

use std::collections::BTreeMap;

use gateway_api::gateways::GatewayListenersAllowedRoutesNamespacesSelector as Selector;
use holdfast_api::apis::scheme;
use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use holdfast_graph::ObjectKey;

use crate::outcome::listener::{ListenerPlan, Namespaces};
use crate::reader::Reader;

/// The label of a namespace that contains its name; every namespace has it.
///
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name>
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// The supported operators of label selectors.
const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// Returns the namespaces of a selector below a field. `kind` is the kind of object that the selector is for.
pub(crate) fn selected(
    selector: Option<&Selector>,
    field: &str,
    kind: &str,
    fault: &mut impl FnMut(String, Class, &'static str, String),
) -> Namespaces {
    let Some(selector) = selector else {
        let message = format!("from is Selector, but no selector is set: no {kind} can attach");
        fault(format!("{field}.namespaces.selector"), Class::Invalid, "Invalid", message);
        return Namespaces::None;
    };
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        if !OPERATORS.contains(&&*expression.operator) {
            let message = format!(
                "{:?} is not an operator, so that no namespace is selected; the operators are {}",
                expression.operator,
                OPERATORS.join(", ")
            );
            let field = format!("{field}.namespaces.selector.matchExpressions[{index}].operator");
            fault(field, Class::Invalid, "Invalid", message);
        }
    }
    Namespaces::Selected(Box::new(selector.clone()))
}

/// Returns whether a listener allows routes of the route's namespace.
pub(crate) fn allows_route(
    listener: &ListenerPlan,
    gateway: &ObjectKey,
    route: &ObjectKey,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> bool {
    is_among(&listener.namespaces, &listener.owner(gateway).namespace, &route.namespace, settings, reader)
}

/// Returns whether a namespace is allowed. `own` is the namespace of the object with the `allowed` field.
pub(crate) fn is_among(
    allowed: &Namespaces,
    own: &str,
    namespace: &str,
    settings: &Settings,
    reader: &mut Reader<'_>,
) -> bool {
    match allowed {
        Namespaces::All => true,
        Namespaces::Same => own == namespace,
        Namespaces::None => false,
        Namespaces::Selected(selector) => {
            let key = scheme::namespace_key(namespace);
            let found = reader.object(&key);
            let is_known = found.is_some();
            let mut labels = match found {
                Some(namespace) => BTreeMap::clone(&namespace.metadata.labels),
                // Its labels are not known.
                None if reader.is_unreadable(&key) => return false,
                // Manifest files need not contain every namespace, so in standalone mode a missing namespace has only
                // the label with its name, and others are unknown. In a cluster every namespace exists, and a namespace
                // that is not known yet is not allowed by labels that it may have.
                None if settings.listen_address.is_some() => BTreeMap::new(),
                None => return false,
            };
            // The API server sets this label on every namespace.
            labels.entry(NAMESPACE_LABEL.to_owned()).or_insert_with(|| namespace.to_owned());
            selects(selector, &labels, is_known)
        }
    }
}

/// Returns whether the labels match a selector. An unknown operator matches nothing. If other labels may exist
/// (`is_known` is false), it is not certain that one is absent.
fn selects(selector: &Selector, labels: &BTreeMap<String, String>, is_known: bool) -> bool {
    let by_label = selector.match_labels.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    let by_expression = selector.match_expressions.iter().flatten().all(|expression| {
        let value = labels.get(&expression.key);
        let listed = |value: &String| expression.values.as_ref().is_some_and(|values| values.contains(value));
        match &*expression.operator {
            "In" => value.is_some_and(listed),
            "NotIn" => value.map_or(is_known, |value| !listed(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => is_known && value.is_none(),
            _ => false,
        }
    });
    by_label && by_expression
}
