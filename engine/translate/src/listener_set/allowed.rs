//! Namespaces of the ListenerSets that a Gateway allows.

use gateway_api::gateways::{
    GatewayAllowedListenersNamespacesFrom as From, GatewayAllowedListenersNamespacesSelector as Written,
    GatewayListenersAllowedRoutesNamespacesSelector as Selector,
    GatewayListenersAllowedRoutesNamespacesSelectorMatchExpressions as Expression,
};
use holdfast_api::apis::gateway::gateway::Gateway;
use holdfast_api::apis::kinds;
use holdfast_api::fault::Class;

use crate::listeners::namespaces::selected;
use crate::outcome::listener::Namespaces;

/// Reads `spec.allowedListeners`; no ListenerSet is allowed where it is unset.
pub(super) fn read(gateway: &Gateway, fault: &mut impl FnMut(String, Class, &'static str, String)) -> Namespaces {
    let Some(namespaces) = gateway.allowed_listeners.as_ref().and_then(|allowed| allowed.namespaces.as_ref()) else {
        return Namespaces::None;
    };
    match namespaces.from {
        None | Some(From::None) => Namespaces::None,
        Some(From::All) => Namespaces::All,
        Some(From::Same) => Namespaces::Same,
        Some(From::Selector) => {
            let selector = namespaces.selector.as_ref().map(selector);
            selected(selector.as_ref(), "spec.allowedListeners", kinds::LISTENER_SET, fault)
        }
    }
}

/// Converts the selector: the same schema has two types.
fn selector(written: &Written) -> Selector {
    let expressions = written.match_expressions.as_ref().map(|all| {
        let expression = all.iter().map(|expression| Expression {
            key: expression.key.clone(),
            operator: expression.operator.clone(),
            values: expression.values.clone(),
        });
        expression.collect()
    });
    Selector { match_labels: written.match_labels.clone(), match_expressions: expressions }
}
