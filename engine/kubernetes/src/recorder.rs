//! Kubernetes Events (`events.k8s.io`), on each object concerned and on the Pod of the controller.
//!
//! Only the leader writes Events. Those of a follower wait until the leader is seen alive after them, and are written
//! by the next leader otherwise: no Event is lost between two leaders, though a few may be written twice.

use std::collections::VecDeque;
use std::time::Duration;

use holdfast_engine::report::events::{FallbackEvent, Reason, Regarding};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::denials::Denials;
use crate::leader::{Leadership, within};
use crate::series::{EventForm, Same, Series};

/// Maximum number of events that wait to be written; further events are only in the log.
const WAITING_EVENTS_MAX: usize = 1024;
/// Minimum time between two writes.
const PACE: Duration = Duration::from_millis(50);
/// Pause after an error of the API server.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// Maximum number of characters of a note; slightly below the limit of the API server.
const NOTE_CHARS_MAX: usize = 1000;
/// Characters reserved in a note for the number of omitted findings.
const MORE_CHARS_MAX: usize = 60;
/// Maximum number of characters of a reporting instance, set by the API server.
const INSTANCE_CHARS_MAX: usize = 128;
/// The reporting controller.
const CONTROLLER: &str = "holdfast.dev/gateway-controller";

/// Writes events to the API server.
pub struct KubernetesRecorder {
    events: mpsc::Sender<PendingEvent>,
    pod: Option<ObjectReference>,
}

/// An event, with the object that it regards.
struct PendingEvent {
    reason: Reason,
    note: String,
    regarding: ObjectReference,
}

impl KubernetesRecorder {
    /// Starts to write. The Pod is the one that `POD_NAME`, `POD_NAMESPACE` and `POD_UID` name; `me` is the reporting
    /// instance.
    pub fn start(client: Client, leadership: Leadership, me: &str, denials: Denials) -> Self {
        let (events, waiting) = mpsc::channel(WAITING_EVENTS_MAX);
        let writer = EventWriter {
            client,
            me: me.to_owned(),
            leadership,
            denials,
            queue: VecDeque::new(),
            series: Series::default(),
            started: Instant::now(),
            failing: false,
        };
        tokio::spawn(writer.run(waiting));
        Self { events, pod: pod() }
    }

    /// Writes new events, as far as there is room for them in the queue.
    pub fn write(&self, events: &[FallbackEvent]) {
        for event in events {
            let Some(regarding) = self.reference(&event.regarding) else { continue };
            let note = shortened(&event.note);
            // If the queue is full, the event is left out: the caller logs every event.
            let _ = self.events.try_send(PendingEvent { reason: event.reason, note, regarding });
        }
    }
}

/// Shortens a note to the limit: findings as far as there is room, then the number of omitted ones and where to find
/// them.
fn shortened(note: &str) -> String {
    if note.chars().count() <= NOTE_CHARS_MAX {
        return note.to_owned();
    }
    let room = NOTE_CHARS_MAX - MORE_CHARS_MAX;
    let (mut short, mut left) = (String::new(), 0_usize);
    for finding in note.split("; ") {
        let gap = if short.is_empty() { "" } else { "; " };
        if left == 0 && (short.chars().count() + gap.len() + finding.chars().count()) <= room {
            short.push_str(gap);
            short.push_str(finding);
        } else {
            left += 1;
        }
    }
    if short.is_empty() {
        short = note.chars().take(room).collect();
    }
    format!("{short}; and {left} more: `holdfast status` shows all")
}

impl KubernetesRecorder {
    fn reference(&self, regarding: &Regarding) -> Option<ObjectReference> {
        let object = match regarding {
            Regarding::Controller => return self.pod.clone(),
            Regarding::Object(object) => object,
            Regarding::Deleted(_) => return None,
        };
        let group = if object.group.is_empty() { String::new() } else { format!("{}/", object.group) };
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Some(ObjectReference {
            api_version: Some(format!("{group}{}", object.version)),
            kind: given(&object.kind),
            name: given(&object.name),
            namespace: given(&object.namespace),
            uid: given(&object.id),
            ..ObjectReference::default()
        })
    }
}

fn pod() -> Option<ObjectReference> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    Some(ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(named("POD_NAME")?),
        namespace: Some(named("POD_NAMESPACE")?),
        uid: named("POD_UID"),
        ..ObjectReference::default()
    })
}

struct EventWriter {
    client: Client,
    me: String,
    leadership: Leadership,
    denials: Denials,
    queue: VecDeque<PendingEvent>,
    series: Series,
    started: Instant,
    failing: bool,
}

impl EventWriter {
    async fn run(mut self, mut waiting: mpsc::Receiver<PendingEvent>) {
        loop {
            if self.leadership.leads()
                && let Some(pending) = self.queue.pop_front()
            {
                let rest = self.deliver(pending).await;
                sleep(rest).await;
                // Events that arrived meanwhile are written in their order.
                while let Ok(pending) = waiting.try_recv() {
                    self.push(pending);
                }
                continue;
            }
            tokio::select! {
                pending = waiting.recv() => {
                    let Some(pending) = pending else { return };
                    self.push(pending);
                }
                () = self.leadership.changed() => {
                    if self.leadership.follows() {
                        self.queue.clear();
                    }
                }
            }
        }
    }

    fn push(&mut self, pending: PendingEvent) {
        if self.queue.len() >= WAITING_EVENTS_MAX {
            self.queue.pop_front();
        }
        self.queue.push_back(pending);
    }

    /// Writes an event; returns the time to wait afterwards.
    async fn deliver(&mut self, pending: PendingEvent) -> Duration {
        match self.write(&pending).await {
            Ok(()) => {
                self.failing = false;
                self.denials.allowed(&right(&pending));
                PACE
            }
            Err(Error::Api(status)) if status.code == 403 => {
                let message = "the permission to create and patch events of the API group events.k8s.io is missing: \
                               Events on objects of this namespace are only logged; the roles of the chart grant the \
                               permission";
                self.denials.denied(&right(&pending), message);
                PACE
            }
            // A repetition would be rejected too, for example because the namespace is being deleted.
            Err(Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                let reason = pending.reason;
                tracing::debug!(%reason, error = status.message, "the API server rejected an Event");
                PACE
            }
            Err(error) => {
                if !self.failing {
                    tracing::warn!(%error, "cannot write Events now; Holdfast tries again");
                }
                self.failing = true;
                self.queue.push_front(pending);
                AFTER_ERROR
            }
        }
    }

    async fn write(&mut self, pending: &PendingEvent) -> Result<(), Error> {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = Timestamp::now();
        let PendingEvent { reason, note, regarding } = pending;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let same = Same {
            reason: reason.to_string(),
            regarding: [&regarding.kind, &regarding.namespace, &regarding.name, &regarding.uid].map(text).join("/"),
            note: note.clone(),
        };
        let namespace = namespace(pending);
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let EventForm::Again { name, count } = self.series.form(&same, now_ms) {
            let series = EventSeries { count, last_observed_time: MicroTime(now) };
            let patch = Patch::Merge(json!({ "series": series }));
            match within(events.patch(&name, &PatchParams::default(), &patch)).await {
                Ok(_) => {
                    self.series.record(same, name, count, now_ms);
                    return Ok(());
                }
                Err(Error::Api(status)) if status.code == 404 => self.series.forget(&same),
                Err(error) => return Err(error),
            }
        }
        let name = format!("{}.{:x}", text(&regarding.name), now.as_nanosecond());
        let event = Event {
            metadata: ObjectMeta { name: Some(name.clone()), namespace: Some(namespace), ..ObjectMeta::default() },
            type_: Some(if reason.is_warning() { "Warning" } else { "Normal" }.into()),
            action: Some(reason.to_string()),
            reason: Some(reason.to_string()),
            note: Some(note.clone()),
            event_time: Some(MicroTime(now)),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(CONTROLLER.into()),
            reporting_instance: Some(self.me.chars().take(INSTANCE_CHARS_MAX).collect()),
            ..Event::default()
        };
        within(events.create(&PostParams::default(), &event)).await?;
        self.series.record(same, name, 1, now_ms);
        Ok(())
    }
}

/// Events about objects without a namespace belong to the namespace `default`.
fn namespace(pending: &PendingEvent) -> String {
    pending.regarding.namespace.clone().unwrap_or_else(|| "default".into())
}

/// The subject of a missing permission.
fn right(pending: &PendingEvent) -> String {
    format!("events in {}", namespace(pending))
}

#[cfg(test)]
mod tests {
    use super::{NOTE_CHARS_MAX, shortened};

    #[test]
    fn a_note_counts_the_findings_that_it_omits() {
        assert_eq!(shortened("a; b"), "a; b");
        let finding = "spec.rules[0].matches[0].path.value: ".to_owned() + &"x".repeat(200);
        let note = shortened(&[finding.as_str(); 10].join("; "));
        assert!(note.chars().count() <= NOTE_CHARS_MAX, "{note}");
        assert!(note.ends_with("; and 7 more: `holdfast status` shows all"), "{note}");
        let one = shortened(&"x".repeat(5000));
        assert!(
            one.chars().count() <= NOTE_CHARS_MAX && one.ends_with("; and 1 more: `holdfast status` shows all"),
            "{one}"
        );
    }
}
