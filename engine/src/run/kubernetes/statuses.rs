//! Writes statuses: one after the other, what stands there already is not written, and nothing is written too often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_graph::ObjectKey;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, Error};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::served;
use crate::apis::scheme;
use crate::status::{ObjectStatus, withdrawn, written};

/// The least time between two writes of one kind of news: ten writes a second.
const PACE: Duration = Duration::from_millis(100);
/// How long to wait after an error of the API server.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// How long the time between two looks at all statuses is at least.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who owns what is written.
const FIELD_OWNER: &str = "holdfast.dev/gateway-controller";

/// Takes statuses as they are to be; only the newest count.
#[derive(Clone, Debug)]
pub(crate) struct Statuses(watch::Sender<Vec<ObjectStatus>>);

impl Statuses {
    /// Starts to write. `controller` is the name under which entries are ours.
    pub(crate) fn start(client: Client, controller: String) -> Self {
        let (sender, receiver) = watch::channel(Vec::new());
        tokio::spawn(Writer { client, controller, written: BTreeMap::new(), kinds: BTreeMap::new() }.run(receiver));
        Self(sender)
    }

    /// These are the statuses of all objects.
    pub(crate) fn tell(&self, statuses: Vec<ObjectStatus>) {
        self.0.send_replace(statuses);
    }
}

struct Writer {
    client: Client,
    controller: String,
    /// What was written last, or stood there.
    written: BTreeMap<ObjectKey, Value>,
    kinds: BTreeMap<(String, String), ApiResource>,
}

impl Writer {
    async fn run(mut self, mut statuses: watch::Receiver<Vec<ObjectStatus>>) {
        while statuses.changed().await.is_ok() {
            let wanted = statuses.borrow_and_update().clone();
            self.write(&wanted, &statuses).await;
        }
    }

    /// Writes what differs; gives up where newer statuses came meanwhile, which say what is left to write.
    async fn write(&mut self, wanted: &[ObjectStatus], statuses: &watch::Receiver<Vec<ObjectStatus>>) {
        let present: BTreeSet<&ObjectKey> = wanted.iter().map(|status| &status.object).collect();
        let gone: Vec<ObjectKey> = self.written.keys().filter(|key| !present.contains(key)).cloned().collect();
        let withdrawals = gone.into_iter().map(|key| (key, None));
        let changed = wanted.iter().filter(|status| self.written.get(&status.object) != Some(&status.status));
        let news: Vec<(ObjectKey, Option<Value>)> =
            changed.map(|status| (status.object.clone(), Some(status.status.clone()))).chain(withdrawals).collect();
        for (key, status) in news {
            let outcome = self.write_one(&key, status.as_ref()).await;
            match outcome {
                Ok(()) => match status {
                    Some(status) => drop(self.written.insert(key, status)),
                    None => drop(self.written.remove(&key)),
                },
                // Whoever is gone has no status.
                Err(Error::Api(answer)) if answer.code == 404 => drop(self.written.remove(&key)),
                // Somebody wrote meanwhile: it is looked at once more with the next news.
                Err(Error::Api(answer)) if answer.code == 409 => {}
                Err(error) => {
                    tracing::warn!(object = %key, %error, "its status cannot be written");
                    sleep(AFTER_ERROR).await;
                }
            }
            if statuses.has_changed().unwrap_or(true) {
                return;
            }
        }
    }

    async fn write_one(&mut self, key: &ObjectKey, status: Option<&Value>) -> Result<(), Error> {
        let Some(resource) = self.resource(key).await? else { return Ok(()) };
        let api: Api<DynamicObject> = match key.namespace.is_empty() {
            true => Api::all_with(self.client.clone(), &resource),
            false => Api::namespaced_with(self.client.clone(), &key.namespace, &resource),
        };
        let object = api.get_status(&key.name).await?;
        let current = object.data.get("status").cloned().unwrap_or_default();
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let new = match status {
            Some(status) => written(&current, status, &self.controller, &now),
            None => withdrawn(&current, &self.controller),
        };
        let Some(new) = new else { return Ok(()) };
        let patch = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            // Neither a successor of the object nor what somebody else writes at the same time is written over.
            "metadata": {"uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version},
            "status": new,
        });
        api.patch_status(&key.name, &PatchParams::apply(FIELD_OWNER).force(), &Patch::Apply(patch)).await?;
        sleep(PACE).await;
        Ok(())
    }

    async fn resource(&mut self, key: &ObjectKey) -> Result<Option<ApiResource>, Error> {
        let named = (key.group.to_string(), key.kind.to_string());
        if let Some(known) = self.kinds.get(&named) {
            return Ok(Some(known.clone()));
        }
        let Some(kind) = scheme::find(&key.group, &key.kind) else { return Ok(None) };
        let served = served::version(&self.client, kind).await?;
        if let Some(resource) = &served {
            self.kinds.insert(named, resource.clone());
        }
        Ok(served)
    }
}
