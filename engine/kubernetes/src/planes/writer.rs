//! Writer of data planes: applies desired objects that differ, one after the other, and reports each data plane's
//! state.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_api::apis::gateway::GROUP;
use holdfast_api::apis::kinds;
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use holdfast_translate::provision::{DataPlane, FIELD_OWNER, Provisioned, addresses, compare, names};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Error};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::owned::{Kind, Owned, OwnedKey};
use super::{DataPlaneInputs, Wanted};
use crate::leader::Leadership;

/// Minimum time between two writes.
const PACE: Duration = Duration::from_millis(20);
/// Interval of complete checks, independent of events.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Pause before a failed write is repeated.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// Maximum number of characters of an error that are reported.
const DATA_PLANE_ERROR_CHARS_MAX: usize = 400;

pub(crate) struct Writer {
    client: Client,
    plan: DataPlaneInputs,
    owned: Owned,
    leadership: Leadership,
    news: mpsc::Sender<Vec<Event>>,
    reported: BTreeMap<ObjectKey, Provisioned>,
}

impl Writer {
    pub(crate) fn new(
        client: Client,
        plan: DataPlaneInputs,
        owned: Owned,
        leadership: Leadership,
        news: mpsc::Sender<Vec<Event>>,
    ) -> Self {
        Self { client, plan, owned, leadership, news, reported: BTreeMap::new() }
    }

    /// Runs until the sender of the desired state is gone.
    pub(crate) async fn run(mut self, mut wanted: watch::Receiver<Option<Wanted>>) {
        let mut again = Instant::now();
        loop {
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                () = self.owned.changed() => {}
                () = self.leadership.changed() => {}
                () = tokio::time::sleep_until(again) => {}
            }
            let Some(now) = wanted.borrow_and_update().clone() else {
                again = Instant::now() + LOOK_EVERY;
                continue;
            };
            let well = self.bring_all(&now).await;
            again = Instant::now() + if well { LOOK_EVERY } else { AFTER_ERROR };
            if self.news.is_closed() {
                return;
            }
        }
    }

    /// Applies the desired state; returns true if everything matches it.
    async fn bring_all(&mut self, wanted: &Wanted) -> bool {
        self.plan.mark_dirty();
        let leads = self.leadership.leads();
        let (mut events, mut well) = (Vec::new(), true);
        for plane in &wanted.planes {
            let provisioned = self.bring(plane, leads).await;
            well &= provisioned.problem.is_none();
            if self.reported.get(&plane.gateway) != Some(&provisioned) {
                if let Some(problem) = &provisioned.problem {
                    tracing::warn!(gateway = %plane.gateway.namespaced_name(), trouble = problem, "cannot apply the objects of a Gateway's Envoys; Holdfast tries again");
                }
                self.reported.insert(plane.gateway.clone(), provisioned.clone());
                events.push(Event::Provisioned(plane.gateway.clone(), Some(provisioned)));
            }
        }
        let is_wanted = |key: &ObjectKey| wanted.planes.iter().any(|plane| plane.gateway == *key);
        let gone: Vec<ObjectKey> = self.reported.keys().filter(|key| !is_wanted(key)).cloned().collect();
        for key in gone {
            self.reported.remove(&key);
            events.push(Event::Provisioned(key, None));
        }
        if leads {
            for uid in &wanted.others {
                // The objects of deleted Gateways are garbage-collected; these Gateways exist and belong to another
                // controller.
                for (key, object) in self.owned.filter(|_, object| compare::is_ours(object, uid)) {
                    well &= self.delete(&key, &object).await;
                }
            }
        }
        if !events.is_empty() {
            // The main loop no longer receives events when it ends.
            let _ = self.news.send(events).await;
        }
        well
    }

    async fn bring(&mut self, plane: &DataPlane, leads: bool) -> Provisioned {
        let problem = if leads { self.apply_all(plane).await.err() } else { None };
        let name = names::name(&plane.gateway);
        let service = self.owned.get(&(kinds::SERVICE, plane.gateway.namespace.to_string(), name));
        let service = service.filter(|service| compare::is_ours(service, &plane.uid));
        Provisioned { addresses: service.as_ref().map(addresses::of_service).unwrap_or_default(), problem }
    }

    /// Applies the objects of a data plane. Nothing is written before all of them are known to be ours.
    async fn apply_all(&self, plane: &DataPlane) -> Result<(), String> {
        let mut wanted = Vec::new();
        for object in self.plan.desired(plane) {
            let Some(key) = key(&object) else { continue };
            let found = self.find(&key).await.map_err(|error| describe(&key, "cannot be read", &error))?;
            if let Some(found) = found.as_ref().filter(|found| !compare::is_ours(found, &plane.uid)) {
                return Err(foreign(&key, found));
            }
            wanted.push((key, object, found));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        // The desired state may be a second old, and a missing object may have been deleted together with its Gateway.
        if let Some((key, ..)) = wanted.iter().find(|(_, _, found)| found.is_none())
            && !self
                .lives(plane)
                .await
                .map_err(|error| describe(key, "is missing, and its Gateway cannot be read", &error))?
        {
            wanted.retain(|(_, _, found)| found.is_some());
        }
        for (key, object, found) in &wanted {
            if !found.as_ref().is_some_and(|found| compare::has(found, object)) {
                self.apply(key, object, found.as_ref())
                    .await
                    .map_err(|error| describe(key, "cannot be applied", &error))?;
            }
        }
        // Objects that parameters requested earlier and no longer request.
        let is_left = |key: &OwnedKey, object: &Value| {
            let optional = Kind::named(key.0).is_some_and(|kind| kind.optional);
            optional && compare::is_ours(object, &plane.uid) && !wanted.iter().any(|(wanted, _, _)| wanted == key)
        };
        for (key, object) in self.owned.filter(is_left) {
            self.delete(&key, &object).await;
        }
        Ok(())
    }

    /// Returns whether the Gateway of a data plane exists in the API server and is not being deleted. Checked before an
    /// object is created. Reads the status of the Gateway, for which the permission exists already.
    async fn lives(&self, plane: &DataPlane) -> Result<bool, Error> {
        let kind = GroupVersionKind::gvk(GROUP, "v1", kinds::GATEWAY);
        let resource = ApiResource::from_gvk_with_plural(&kind, "gateways");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &plane.gateway.namespace, &resource);
        match api.get_status(&plane.gateway.name).await {
            Ok(gateway) => {
                let metadata = gateway.metadata;
                Ok(metadata.uid.as_deref() == Some(&*plane.uid) && metadata.deletion_timestamp.is_none())
            }
            Err(Error::Api(answer)) if answer.code == 404 => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn api(&self, key: &OwnedKey) -> Option<Api<DynamicObject>> {
        let resource = Kind::named(key.0)?.resource();
        Some(Api::namespaced_with(self.client.clone(), &key.1, &resource))
    }

    /// The object of this name, whether it is ours or not.
    async fn find(&self, key: &OwnedKey) -> Result<Option<Value>, Error> {
        if let Some(known) = self.owned.get(key) {
            return Ok(Some(known));
        }
        let Some(api) = self.api(key) else { return Ok(None) };
        let found = api.get_opt(&key.2).await?;
        found.map(|found| serde_json::to_value(found).map_err(Error::SerdeError)).transpose()
    }

    async fn apply(&self, key: &OwnedKey, object: &Value, found: Option<&Value>) -> Result<(), Error> {
        let Some(api) = self.api(key) else { return Ok(()) };
        let mut object = object.clone();
        // If others set the number of Pods, an apply without this field would reset it to one.
        if let Some(replicas) = found.and_then(|found| found.pointer("/spec/replicas"))
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.entry("replicas").or_insert_with(|| replicas.clone());
        }
        // The UID prevents that a successor of the object is overwritten.
        if let Some(uid) = found.and_then(|found| found.pointer("/metadata/uid"))
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("uid".into(), uid.clone());
        }
        let answer = api.patch(&key.2, &PatchParams::apply(FIELD_OWNER).force(), &Patch::Apply(object)).await?;
        let made = if found.is_some() { "applied" } else { "made" };
        tracing::info!(kind = key.0, object = format!("{}/{}", key.1, key.2), "{made}");
        if let Ok(answer) = serde_json::to_value(answer) {
            self.owned.put(key.clone(), answer);
        }
        sleep(PACE).await;
        Ok(())
    }

    /// Deletes an object; returns true if it is gone.
    async fn delete(&self, key: &OwnedKey, object: &Value) -> bool {
        let Some(api) = self.api(key) else { return true };
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::background()
        };
        match api.delete(&key.2, &params).await {
            Ok(_) => {
                tracing::info!(kind = key.0, object = format!("{}/{}", key.1, key.2), "deleted");
                true
            }
            Err(Error::Api(answer)) if answer.code == 404 => true,
            Err(error) => {
                tracing::warn!(kind = key.0, object = format!("{}/{}", key.1, key.2), %error, "cannot be deleted");
                false
            }
        }
    }
}

fn key(object: &Value) -> Option<OwnedKey> {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str);
    let kind = Kind::named(text("/kind")?)?;
    Some((kind.kind, text("/metadata/namespace")?.to_owned(), text("/metadata/name")?.to_owned()))
}

fn foreign((kind, namespace, name): &OwnedKey, found: &Value) -> String {
    // An object of an earlier Gateway with this name is garbage-collected.
    let reason = if compare::has_label(found) && compare::owner(found).is_some() {
        "belongs to another Gateway, or to a deleted Gateway of the same name and is being deleted"
    } else {
        "exists, but Holdfast did not create it for this Gateway, and does not change it: delete it, or rename the \
         Gateway"
    };
    format!("{kind} {namespace}/{name} {reason}")
}

fn describe((kind, namespace, name): &OwnedKey, what: &str, error: &Error) -> String {
    let message = match error {
        Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    };
    let message: String = message.chars().take(DATA_PLANE_ERROR_CHARS_MAX).collect();
    format!("{kind} {namespace}/{name} {what}: {message}")
}
