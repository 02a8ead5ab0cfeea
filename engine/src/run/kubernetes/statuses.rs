//! Writes statuses: one after the other, what stands there already is not written, and nothing is written too often.
//!
//! Only the leader writes. What stands there is looked at anew when a replica takes the lead, and one after the other in
//! quiet times, so that what somebody else wrote over it does not stay.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use holdfast_graph::ObjectKey;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, Error};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::denials::Denials;
use super::leader::{Leadership, within};
use super::served;
use crate::apis::scheme;
use crate::status::{ObjectStatus, withdrawn, written};

/// The least time between two writes: ten a second.
const PACE: Duration = Duration::from_millis(100);
/// How long to wait after an error of the API server.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// How long no status of a kind is written after it was found out that it may not be; twice as long each time, up to the
/// second.
const AFTER_DENIAL: Duration = Duration::from_secs(5);
const AFTER_DENIAL_MAX: Duration = Duration::from_secs(60);
/// How often the status of one object is looked at that nothing was heard of.
const LOOK_OVER: Duration = Duration::from_secs(1);
/// How long the time between two looks at all statuses is at least.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who owns what is written.
const FIELD_OWNER: &str = "holdfast.dev/gateway-controller";

/// Takes statuses as they are to be; only the newest count.
#[derive(Clone, Debug)]
pub(crate) struct Statuses(watch::Sender<Vec<ObjectStatus>>);

impl Statuses {
    /// Starts to write. `controller` is the name under which entries are ours.
    pub(crate) fn start(client: Client, controller: String, leadership: Leadership, denials: Denials) -> Self {
        let (sender, receiver) = watch::channel(Vec::new());
        let writer = Writer {
            client,
            controller,
            leadership,
            written: BTreeMap::new(),
            kinds: BTreeMap::new(),
            denials,
            denied: BTreeMap::new(),
            behind: false,
            looked_at: None,
            trouble: false,
        };
        tokio::spawn(writer.run(receiver));
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
    leadership: Leadership,
    /// What was written last, or stood there; nothing where that is to be looked at.
    written: BTreeMap<ObjectKey, Option<Value>>,
    kinds: BTreeMap<(String, String), ApiResource>,
    denials: Denials,
    /// Statuses that may not be written, by kind and namespace.
    denied: BTreeMap<Place, Denied>,
    /// Is there something left to write?
    behind: bool,
    /// The object that was looked over last.
    looked_at: Option<ObjectKey>,
    trouble: bool,
}

/// Kind and namespace of objects.
type Place = (String, String);

/// When it is tried again, and how long that was put off.
struct Denied {
    until: Instant,
    rest: Duration,
}

/// Why a status was not written.
enum Refusal {
    /// A right is missing: the verb.
    Denied(&'static str),
    /// Anything else.
    Error(Error),
}

impl Refusal {
    fn of(verb: &'static str, error: Error) -> Self {
        match error {
            Error::Api(answer) if answer.code == 403 => Refusal::Denied(verb),
            error => Refusal::Error(error),
        }
    }
}

/// What came of one object.
enum Outcome {
    /// It says what it is to say; or the API server will not take it, and asking again changes nothing.
    Done,
    /// It is not there.
    Gone,
    /// It is to be looked at once more.
    Again,
    /// The API server cannot be asked now.
    Trouble,
}

impl Writer {
    async fn run(mut self, mut statuses: watch::Receiver<Vec<ObjectStatus>>) {
        let mut led = false;
        loop {
            let rest = if self.behind { AFTER_ERROR } else { LOOK_OVER };
            tokio::select! {
                changed = statuses.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.behind = true;
                }
                () = self.leadership.changed() => if led && self.leadership.leads() { continue },
                () = sleep(rest) => self.look_over(),
            }
            let wanted = statuses.borrow_and_update().clone();
            let leads = self.leadership.leads();
            if leads != led {
                led = leads;
                // What another wrote meanwhile is not known.
                self.written.values_mut().for_each(|written| *written = None);
                self.behind = true;
            }
            if !leads {
                // So that entries of objects that have no status by the time it leads are taken away.
                for status in &wanted {
                    self.written.entry(status.object.clone()).or_default();
                }
            } else if self.behind {
                self.behind = !self.write(&wanted, &statuses).await;
            }
        }
    }

    /// The status of the next object is to be looked at.
    fn look_over(&mut self) {
        let after = self.looked_at.take().map_or(Bound::Unbounded, Bound::Excluded);
        if let Some((key, written)) = self.written.range_mut((after, Bound::Unbounded)).next() {
            (*written, self.behind) = (None, true);
            self.looked_at = Some(key.clone());
        }
    }

    /// Writes what differs; true where nothing is left to write. Gives up where newer statuses came meanwhile.
    async fn write(&mut self, wanted: &[ObjectStatus], statuses: &watch::Receiver<Vec<ObjectStatus>>) -> bool {
        let present: BTreeSet<&ObjectKey> = wanted.iter().map(|status| &status.object).collect();
        let gone: Vec<ObjectKey> = self.written.keys().filter(|key| !present.contains(key)).cloned().collect();
        let withdrawals = gone.into_iter().map(|key| (key, None));
        let says = |status: &ObjectStatus| {
            self.written.get(&status.object).is_some_and(|written| written.as_ref() == Some(&status.status))
        };
        let changed = wanted.iter().filter(|status| !says(status));
        let news: Vec<(ObjectKey, Option<Value>)> =
            changed.map(|status| (status.object.clone(), Some(status.status.clone()))).chain(withdrawals).collect();
        let mut all = true;
        for (key, status) in news {
            if self.is_denied(&key) {
                all = false;
                continue;
            }
            let written = self.write_one(&key, status.as_ref()).await;
            match self.outcome(&key, written) {
                Outcome::Done => match status {
                    Some(status) => drop(self.written.insert(key, Some(status))),
                    None => drop(self.written.remove(&key)),
                },
                // Of an object that is held though nobody has it there is nothing to write to.
                Outcome::Gone => match status {
                    Some(status) => drop(self.written.insert(key, Some(status))),
                    None => drop(self.written.remove(&key)),
                },
                Outcome::Again => all = false,
                Outcome::Trouble => return false,
            }
            if statuses.has_changed().unwrap_or(true) || !self.leadership.leads() {
                return false;
            }
        }
        all
    }

    /// May statuses of this kind not be written, as far as was found out lately?
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
                "the right to {verb} {plural}/status of the API group {group} is missing: no status of a {} is written \
                 there; the chart's roles give it",
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

    fn outcome(&mut self, key: &ObjectKey, written: Result<bool, Refusal>) -> Outcome {
        let written = match written {
            Err(Refusal::Denied(verb)) => {
                self.deny(key, verb);
                return Outcome::Again;
            }
            Err(Refusal::Error(error)) => Err(error),
            Ok(done) => Ok(done),
        };
        match written {
            Ok(done) => {
                self.trouble = false;
                self.allow(key);
                if done { Outcome::Done } else { Outcome::Again }
            }
            Err(Error::Api(answer)) if answer.code == 404 => Outcome::Gone,
            // Somebody wrote meanwhile.
            Err(Error::Api(answer)) if answer.code == 409 => Outcome::Again,
            Err(Error::Api(answer)) if (400..500).contains(&answer.code) && answer.code != 429 => {
                tracing::warn!(object = %key, error = answer.message, "its status is not taken");
                Outcome::Done
            }
            Err(error) => {
                if !self.trouble {
                    tracing::warn!(object = %key, %error, "statuses cannot be written now; they wait");
                }
                self.trouble = true;
                Outcome::Trouble
            }
        }
    }

    /// False where it was not written because this replica does not lead any more.
    async fn write_one(&mut self, key: &ObjectKey, status: Option<&Value>) -> Result<bool, Refusal> {
        let Some(resource) = self.resource(key).await.map_err(Refusal::Error)? else { return Ok(true) };
        let api: Api<DynamicObject> = match key.namespace.is_empty() {
            true => Api::all_with(self.client.clone(), &resource),
            false => Api::namespaced_with(self.client.clone(), &key.namespace, &resource),
        };
        let object = within(api.get_status(&key.name)).await.map_err(|error| Refusal::of("get", error))?;
        let current = object.data.get("status").cloned().unwrap_or_default();
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let new = match status {
            Some(status) => written(&current, status, &self.controller, &now),
            None => withdrawn(&current, &self.controller),
        };
        let Some(new) = new else { return Ok(true) };
        let patch = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            // Neither a successor of the object nor what somebody else writes at the same time is written over.
            "metadata": {"uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version},
            "status": new,
        });
        if !self.leadership.leads() {
            return Ok(false);
        }
        let params = PatchParams::apply(FIELD_OWNER).force();
        let applied = within(api.patch_status(&key.name, &params, &Patch::Apply(patch))).await;
        applied.map_err(|error| Refusal::of("patch", error))?;
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

fn place(key: &ObjectKey) -> Place {
    (key.kind.to_string(), key.namespace.to_string())
}

/// What is told of a right that is missing.
fn right(key: &ObjectKey, plural: &str) -> String {
    let place = if key.namespace.is_empty() { String::new() } else { format!(" in {}", key.namespace) };
    format!("{plural}/status{place}")
}
