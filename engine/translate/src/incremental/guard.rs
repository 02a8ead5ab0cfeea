//! Containment of panics in translation: only the affected object is closed and reported.
//!
//! Translation must not panic on any input. If it does, one object must not keep other objects from being served.

use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast_api::fault::{Class, Fault};
use holdfast_graph::ObjectKey;

/// The message about an object after failed translation.
const MESSAGE: &str = "internal error: Holdfast failed to translate this version of the object and does not serve it; \
                       please report this bug";

/// Runs a piece of translation; returns `None` if it panics. Reads that the piece recorded before the panic stay.
pub(crate) fn guarded<T>(piece: impl FnOnce() -> T) -> Option<T> {
    // The piece only reads, and its output is dropped if it panics.
    catch_unwind(AssertUnwindSafe(piece)).ok()
}

/// Returns the fault of an object after failed translation.
pub(crate) fn fault(key: &ObjectKey) -> Fault {
    Fault::new(key, Class::Invalid, "", "InternalError", MESSAGE)
}

/// Panics on objects that a test has marked.
#[cfg(test)]
pub(crate) fn poison(object: Option<&holdfast_api::object::Object>) {
    assert!(
        !object.is_some_and(|object| object.metadata.annotations.contains_key("holdfast.dev/testing-poison")),
        "a test requests this panic"
    );
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use holdfast_api::object::Object;
    use holdfast_api::settings::Settings;
    use holdfast_api::snapshot::ObjectSnapshot;
    use holdfast_graph::{Graph, ObjectKey};
    use holdfast_test_objects::{documents, object};
    use serde_json::Value;

    use crate::Translator;
    use crate::route::RoutePlan;

    const ROUTES: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: shop}
spec: {gatewayClassName: holdfast, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec: {parentRefs: [{name: public}], rules: [{backendRefs: [{name: cart, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: shop}
spec: {parentRefs: [{name: public}], rules: [{backendRefs: [{name: other, port: 80}]}]}
";

    #[derive(Default)]
    struct World {
        objects: ObjectSnapshot,
        graph: Graph,
    }

    impl World {
        fn apply(&mut self, translator: &mut Translator, document: Value) -> Arc<Object> {
            let object = Arc::new(*object(document).unwrap().0);
            let old = self.objects.insert(object.clone());
            translator.changed(&object.key, old.as_deref(), Some(&object));
            translator.translate(&self.objects, &mut self.graph);
            object
        }
    }

    fn routes(translator: &Translator) -> BTreeMap<ObjectKey, RoutePlan> {
        translator.routes().into_iter().map(|(key, plan)| (key.clone(), plan.clone())).collect()
    }

    #[test]
    fn a_panic_closes_one_route_until_it_is_edited() {
        let (mut translator, mut world) = (Translator::new(Settings::standalone()), World::default());
        let documents = documents(ROUTES);
        for document in &documents {
            world.apply(&mut translator, document.clone());
        }
        let whole = routes(&translator);
        let mut poisoned = documents[1].clone();
        poisoned["metadata"]["annotations"] = serde_json::json!({"holdfast.dev/testing-poison": ""});
        let key = world.apply(&mut translator, poisoned).key.clone();
        let reports = |fault: &super::Fault| fault.object == key && fault.reason == "InternalError";
        assert!(translator.faults().iter().any(reports));
        assert!(translator.invalid_routes().any(|route| *route == key));
        let mut now = routes(&translator);
        assert_ne!(now.remove(&key), whole.get(&key).cloned());
        assert_eq!(
            now,
            whole.iter().filter(|(route, _)| **route != key).map(|(k, v)| (k.clone(), v.clone())).collect()
        );
        world.apply(&mut translator, documents[1].clone());
        assert_eq!(routes(&translator), whole, "it heals");
        assert!(!translator.faults().iter().any(reports));
    }
}
