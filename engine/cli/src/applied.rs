//! Manifests over the objects of a cluster: the objects that exist after `kubectl apply` of the manifests.
//!
//! An object of a manifest replaces that of the cluster with the same key as a whole. Fields that only the cluster has
//! are not kept: the manager of each of them is not known.

use std::collections::BTreeMap;

use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;

/// The objects of a cluster, each as the event for the engine.
pub(crate) type ClusterObjects = BTreeMap<ObjectKey, Event>;

/// Takes the objects from the cluster that manifests replace, and gives those of the manifests the identity that they
/// would have in the cluster.
pub(crate) fn apply(manifests: &mut [Event], cluster: &mut ClusterObjects) {
    for event in manifests {
        match event {
            Event::Applied(object, _) => {
                // The API server sets the creation time. A new object is younger than all others.
                object.metadata.created = None;
                if let Some(Event::Applied(before, _)) = cluster.remove(&object.key) {
                    let changed = i64::from(object.body != before.body);
                    object.metadata.generation = before.metadata.generation + changed;
                    object.metadata.uid = before.metadata.uid;
                    object.metadata.created = before.metadata.created;
                    object.metadata.incarnation = before.metadata.incarnation;
                }
            }
            Event::Unusable(key, _) => drop(cluster.remove(key)),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use holdfast_api::object::Metadata;
    use holdfast_test_support as testing;

    use super::*;

    /// The events of documents, with metadata as an API server sets them, or as files have them.
    fn events(documents: &str, metadata: impl Fn(&mut Metadata)) -> Vec<Event> {
        let mut events: Vec<Event> = testing::documents(documents).into_iter().filter_map(testing::event).collect();
        for event in &mut events {
            let Event::Applied(object, _) = event else { panic!("{event:?}") };
            metadata(&mut object.metadata);
        }
        events
    }

    fn service(name: &str, port: u16) -> String {
        format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: a}}, spec: {{ports: [{{port: {port}}}]}}}}\n---\n"
        )
    }

    #[test]
    fn an_applied_object_keeps_the_identity_that_it_has_in_the_cluster() {
        let old = service("same", 80) + &service("edited", 80) + &service("other", 80);
        let old = events(&old, |it| (it.uid, it.generation, it.created) = ("server".into(), 7, Some(1_000)));
        let key = |event: &Event| match event {
            Event::Applied(object, _) => object.key.clone(),
            other => panic!("{other:?}"),
        };
        let mut cluster: ClusterObjects = old.into_iter().map(|event| (key(&event), event)).collect();
        let new = service("same", 80) + &service("edited", 81) + &service("new", 80);
        let mut new = events(&new, |it| (it.uid, it.generation, it.created) = ("file".into(), 1, Some(1)));
        apply(&mut new, &mut cluster);
        let names: Vec<_> = cluster.keys().map(|key| &*key.name).collect();
        assert_eq!(names, ["other"]);
        let found: Vec<_> = new
            .iter()
            .map(|event| match event {
                Event::Applied(object, _) => {
                    let Metadata { uid, generation, created, .. } = &object.metadata;
                    (&*object.key.name, &**uid, *generation, *created)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected =
            [("same", "server", 7, Some(1_000)), ("edited", "server", 8, Some(1_000)), ("new", "file", 1, None)];
        assert_eq!(found, expected);
    }
}
