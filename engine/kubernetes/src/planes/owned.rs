//! Objects that Holdfast created for Gateways, as the API server has them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use holdfast_api::apis::kinds;
use holdfast_translate::provision::OWNED_LABEL;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::Notify;

use crate::rest::Rest;

/// A kind of created objects.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    /// Whether objects of this kind are created only if parameters request them.
    pub(crate) optional: bool,
}

/// All kinds of created objects.
pub(crate) const KINDS: [Kind; 6] = [
    Kind { group: "", version: "v1", kind: kinds::CONFIG_MAP, plural: "configmaps", optional: false },
    Kind { group: "", version: "v1", kind: kinds::SERVICE, plural: "services", optional: false },
    Kind { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts", optional: false },
    Kind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments", optional: false },
    Kind {
        group: "autoscaling",
        version: "v2",
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
        optional: true,
    },
    Kind {
        group: "policy",
        version: "v1",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        optional: true,
    },
];

impl Kind {
    pub(crate) fn resource(&self) -> ApiResource {
        let named = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&named, self.plural)
    }

    /// The kind with this name.
    pub(crate) fn named(kind: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|known| known.kind == kind)
    }
}

/// Kind, namespace and name.
pub(crate) type OwnedKey = (&'static str, String, String);

/// All objects with our label.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned {
    objects: Arc<Mutex<BTreeMap<OwnedKey, Value>>>,
    changed: Arc<Notify>,
}

impl Owned {
    /// Starts to watch, in these namespaces or in all.
    pub(crate) fn watch(client: &Client, namespaces: &[String]) -> Self {
        let owned = Self::default();
        for kind in &KINDS {
            let (resource, all) = (kind.resource(), namespaces.is_empty());
            let of_all = all.then(|| (None, Api::all_with(client.clone(), &resource)));
            let of_each = namespaces
                .iter()
                .map(|namespace| (Some(namespace.clone()), Api::namespaced_with(client.clone(), namespace, &resource)));
            for (namespace, api) in of_all.into_iter().chain(of_each) {
                tokio::spawn(owned.clone().run(kind, namespace, api));
            }
        }
        owned
    }

    async fn run(self, kind: &'static Kind, namespace: Option<String>, api: Api<DynamicObject>) {
        let (name, value) = OWNED_LABEL;
        let config = watcher::Config::default().labels(&format!("{name}={value}"));
        let mut events = watcher(api, config).backoff(Rest::default()).boxed();
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed.clear(),
                Ok(watcher::Event::InitApply(object)) => listed.extend(entry(kind, object)),
                Ok(watcher::Event::InitDone) => {
                    let mut objects = self.lock();
                    let is_of = |key: &OwnedKey| key.0 == kind.kind && namespace.as_ref().is_none_or(|of| *of == key.1);
                    objects.retain(|key, _| !is_of(key));
                    objects.append(&mut listed);
                }
                Ok(watcher::Event::Apply(object)) => self.lock().extend(entry(kind, object)),
                Ok(watcher::Event::Delete(object)) => {
                    if let Some((key, _)) = entry(kind, object) {
                        self.lock().remove(&key);
                    }
                }
                Err(error) => {
                    tracing::debug!(kind = kind.kind, %error, "cannot watch the objects that Holdfast created for \
                                                               Gateways; Holdfast tries again");
                    continue;
                }
            }
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OwnedKey, Value>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an object changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns an object.
    pub(crate) fn get(&self, key: &OwnedKey) -> Option<Value> {
        self.lock().get(key).cloned()
    }

    /// Stores an object that the API server returned, before the watch event arrives.
    pub(crate) fn put(&self, key: OwnedKey, object: Value) {
        self.lock().insert(key, object);
    }

    /// The objects that match.
    pub(crate) fn filter(&self, wanted: impl Fn(&OwnedKey, &Value) -> bool) -> Vec<(OwnedKey, Value)> {
        let objects = self.lock();
        let found = objects.iter().filter(|(key, object)| wanted(key, object));
        found.map(|(key, object)| (key.clone(), object.clone())).collect()
    }
}

fn entry(kind: &'static Kind, mut object: DynamicObject) -> Option<(OwnedKey, Value)> {
    object.managed_fields_mut().clear();
    let key = (kind.kind, object.namespace().unwrap_or_default(), object.name_any());
    Some((key, serde_json::to_value(object).ok()?))
}
