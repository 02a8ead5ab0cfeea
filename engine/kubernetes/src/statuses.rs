//! Writer of statuses: sequential, skips unchanged statuses, and limits the rate.
//!
//! Only the leader writes. Current statuses are read again when a replica becomes leader, and one after the other when
//! there is nothing to write, so that changes by other clients are corrected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::apis::scheme;
use holdfast_api::status::{ObjectStatus, StatusMap, withdrawn, written};
use holdfast_graph::ObjectKey;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::denials::Denials;
use crate::leader::{Leadership, within};
use crate::served;
use crate::written::WrittenStatuses;

/// Minimum time between two writes: ten per second.
const PACE: Duration = Duration::from_millis(100);
/// Pause after an error of the API server.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// Pause in writing statuses of a kind after a denied request; it doubles with each denial up to the second value.
const AFTER_DENIAL: Duration = Duration::from_secs(5);
const AFTER_DENIAL_MAX: Duration = Duration::from_secs(60);
/// Interval at which the status of one object without events is checked.
const LOOK_OVER: Duration = Duration::from_secs(1);
/// Minimum interval between two collections of all statuses.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The field manager of written statuses.
const FIELD_OWNER: &str = "holdfast.dev/gateway-controller";

/// Receives the desired statuses; only the newest count.
#[derive(Clone, Debug)]
pub struct Statuses(watch::Sender<StatusMap>);

impl Statuses {
    /// Starts to write. `controller` is the name that marks our entries.
    pub fn start(client: Client, controller: String, leadership: Leadership, denials: Denials) -> Self {
        let (sender, receiver) = watch::channel(StatusMap::new());
        let writer = StatusWriter {
            client,
            controller,
            leadership,
            written: WrittenStatuses::default(),
            kinds: BTreeMap::new(),
            denials,
            denied: BTreeMap::new(),
            behind: false,
            failing: false,
        };
        tokio::spawn(writer.run(receiver));
        Self(sender)
    }

    /// Sets the statuses of all objects.
    pub fn set(&self, statuses: StatusMap) {
        self.0.send_replace(statuses);
    }
}

struct StatusWriter {
    client: Client,
    controller: String,
    leadership: Leadership,
    written: WrittenStatuses,
    kinds: BTreeMap<(String, String), ApiResource>,
    denials: Denials,
    /// Statuses with a missing permission, by kind and namespace.
    denied: BTreeMap<KindInNamespace, Denied>,
    /// Whether statuses are left to write.
    behind: bool,
    failing: bool,
}

/// Kind and namespace of objects.
type KindInNamespace = (String, String);

/// The time of the next attempt, and the length of the current pause.
struct Denied {
    until: Instant,
    rest: Duration,
}

/// The reason why a status was not written.
enum StatusRefusal {
    /// A missing permission, with the verb.
    Denied(&'static str),
    /// Any other error.
    Error(Error),
}

impl StatusRefusal {
    fn of(verb: &'static str, error: Error) -> Self {
        match error {
            Error::Api(answer) if answer.code == 403 => StatusRefusal::Denied(verb),
            error => StatusRefusal::Error(error),
        }
    }
}

/// The result for one object.
enum StatusOutcome {
    /// The status is as desired, or the API server rejects it, which a repetition would not change.
    Done,
    /// The object does not exist.
    Gone,
    /// The object has to be read again.
    Again,
    /// The API server is unavailable.
    Unavailable,
}

impl StatusWriter {
    async fn run(mut self, mut statuses: watch::Receiver<StatusMap>) {
        let mut led = false;
        // A point in time, not a pause: renewals of the Lease interrupt the wait, and must not prolong it.
        let mut again = Instant::now() + LOOK_OVER;
        loop {
            let mut looked_at = None;
            tokio::select! {
                changed = statuses.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.behind = true;
                }
                () = self.leadership.changed() => if led && self.leadership.leads() { continue },
                () = sleep_until(again) => looked_at = self.written.forget_next(),
            }
            let wanted = statuses.borrow_and_update().clone();
            let leads = self.leadership.leads();
            if leads != led {
                led = leads;
                // Another replica may have written meanwhile.
                self.written.forget_all();
                self.behind = true;
            }
            if !leads {
                if self.behind {
                    // Entries of objects that no longer have a status are removed once this replica leads.
                    self.written.add(&wanted);
                    self.behind = false;
                }
            } else if self.behind || looked_at.is_some() {
                let differing = self.written.differing(&wanted);
                self.behind = !self.write(differing, &statuses).await;
                if !self.behind {
                    self.written.record_all(&wanted);
                }
            }
            again = Instant::now() + if self.behind { AFTER_ERROR } else { LOOK_OVER };
        }
    }

    /// Writes statuses; returns true if nothing is left to write. Stops if newer statuses arrive.
    async fn write(
        &mut self,
        differing: BTreeMap<ObjectKey, Option<Arc<ObjectStatus>>>,
        statuses: &watch::Receiver<StatusMap>,
    ) -> bool {
        let mut all = true;
        for (key, status) in differing {
            if self.is_denied(&key) {
                all = false;
                continue;
            }
            let written = self.write_one(&key, status.as_deref()).await;
            match self.outcome(&key, written) {
                // An object that does not exist, but is still kept by Holdfast, has no status to write.
                StatusOutcome::Done | StatusOutcome::Gone => self.written.record(key, status),
                StatusOutcome::Again => all = false,
                StatusOutcome::Unavailable => return false,
            }
            if statuses.has_changed().unwrap_or(true) || !self.leadership.leads() {
                return false;
            }
        }
        all
    }

    /// Returns whether writing statuses of this kind was denied recently.
    fn is_denied(&self, key: &ObjectKey) -> bool {
        self.denied.get(&place(key)).is_some_and(|denied| Instant::now() < denied.until)
    }

    fn deny(&mut self, key: &ObjectKey, verb: &str) {
        let Some(kind) = scheme::find(&key.group, &key.kind) else { return };
        let before = self.denied.get(&place(key)).map_or(Duration::ZERO, |denied| denied.rest);
        let rest = (before * 2).clamp(AFTER_DENIAL, AFTER_DENIAL_MAX);
        self.denied.insert(place(key), Denied { until: Instant::now() + rest, rest });
        let (plural, group) = (kind.plural, kind.group);
        self.denials.denied(
            &right(key, plural),
            &format!(
                "the permission to {verb} {plural}/status of the API group {group} is missing: the status of each {} \
                 there is not written; the roles of the chart grant the permission",
                kind.kind
            ),
        );
    }

    fn allow(&mut self, key: &ObjectKey) {
        if self.denied.remove(&place(key)).is_some()
            && let Some(kind) = scheme::find(&key.group, &key.kind)
        {
            self.denials.allowed(&right(key, kind.plural));
        }
    }

    fn outcome(&mut self, key: &ObjectKey, written: Result<bool, StatusRefusal>) -> StatusOutcome {
        let written = match written {
            Err(StatusRefusal::Denied(verb)) => {
                self.deny(key, verb);
                return StatusOutcome::Again;
            }
            Err(StatusRefusal::Error(error)) => Err(error),
            Ok(done) => Ok(done),
        };
        match written {
            Ok(done) => {
                self.failing = false;
                self.allow(key);
                if done { StatusOutcome::Done } else { StatusOutcome::Again }
            }
            Err(Error::Api(answer)) if answer.code == 404 => StatusOutcome::Gone,
            // Another client wrote meanwhile.
            Err(Error::Api(answer)) if answer.code == 409 => StatusOutcome::Again,
            Err(Error::Api(answer)) if (400..500).contains(&answer.code) && answer.code != 429 => {
                tracing::warn!(object = %key, error = answer.message, "the API server rejected the status of this \
                                                                       object");
                StatusOutcome::Done
            }
            Err(error) => {
                if !self.failing {
                    tracing::warn!(object = %key, %error, "cannot write statuses now; Holdfast tries again");
                }
                self.failing = true;
                StatusOutcome::Unavailable
            }
        }
    }

    /// Writes the status of one object; returns false if this replica no longer leads.
    async fn write_one(&mut self, key: &ObjectKey, status: Option<&ObjectStatus>) -> Result<bool, StatusRefusal> {
        let Some(resource) = self.resource(key).await.map_err(StatusRefusal::Error)? else { return Ok(true) };
        let api: Api<DynamicObject> = match key.namespace.is_empty() {
            true => Api::all_with(self.client.clone(), &resource),
            false => Api::namespaced_with(self.client.clone(), &key.namespace, &resource),
        };
        let object = within(api.get_status(&key.name)).await.map_err(|error| StatusRefusal::of("get", error))?;
        // The status of a successor follows when its translation does.
        let is_another = |status: &ObjectStatus| {
            !status.uid.is_empty() && object.metadata.uid.as_deref().is_some_and(|uid| *uid != *status.uid)
        };
        if status.is_some_and(is_another) {
            return Ok(true);
        }
        let current = object.data.get("status").cloned().unwrap_or_default();
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let new = match status {
            Some(status) => written(&current, &status.status, &self.controller, &now),
            None => withdrawn(&current, &self.controller),
        };
        let Some(new) = new else { return Ok(true) };
        let patch = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            // Neither a successor of the object nor a concurrent change of another client is overwritten.
            "metadata": {"uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version},
            "status": new,
        });
        if !self.leadership.leads() {
            return Ok(false);
        }
        let params = PatchParams::apply(FIELD_OWNER).force();
        let applied = within(api.patch_status(&key.name, &params, &Patch::Apply(patch))).await;
        applied.map_err(|error| StatusRefusal::of("patch", error))?;
        sleep(PACE).await;
        Ok(true)
    }

    async fn resource(&mut self, key: &ObjectKey) -> Result<Option<ApiResource>, Error> {
        let named = (key.group.to_string(), key.kind.to_string());
        if let Some(known) = self.kinds.get(&named) {
            return Ok(Some(known.clone()));
        }
        let Some(kind) = scheme::find(&key.group, &key.kind) else { return Ok(None) };
        let served = within(served::version(&self.client, kind)).await?;
        if let Some(resource) = &served {
            self.kinds.insert(named, resource.clone());
        }
        Ok(served)
    }
}

fn place(key: &ObjectKey) -> KindInNamespace {
    (key.kind.to_string(), key.namespace.to_string())
}

/// The subject of a missing permission.
fn right(key: &ObjectKey, plural: &str) -> String {
    let place = if key.namespace.is_empty() { String::new() } else { format!(" in {}", key.namespace) };
    format!("{plural}/status{place}")
}
