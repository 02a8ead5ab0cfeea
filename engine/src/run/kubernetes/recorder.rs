//! Events of Kubernetes (`events.k8s.io`): on each object concerned, and on the Pod of the controller.
//!
//! Only the leader writes them. What others have to tell waits until the leader is seen to be alive after it, and is told
//! by who leads next otherwise: nothing is lost between two leaders, though a few may be told twice.

use std::collections::VecDeque;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::denials::Denials;
use super::leader::{Leadership, within};
use super::series::{Form, Same, Series};
use crate::fallback::events::{FallbackEvent, Reason, Regarding};
use crate::run::events::{EventRecorder, LogRecorder};

/// How many events may wait to be written; those that find no place are in the log only.
const EVENTS_MAX: usize = 1024;
/// The least time between two writes.
const PACE: Duration = Duration::from_millis(50);
/// How long to wait after an error of the API server.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// Characters of a note that the API server takes, less a little.
const NOTE_CHARS_MAX: usize = 1000;
/// Characters of a note that say how much more there is.
const MORE_CHARS_MAX: usize = 60;
/// Characters of a reporting instance that the API server takes.
const INSTANCE_CHARS_MAX: usize = 128;
/// Who tells.
const CONTROLLER: &str = "holdfast.dev/gateway-controller";

/// Writes events to the API server, and to the log.
pub(crate) struct KubernetesRecorder {
    events: mpsc::Sender<Told>,
    log: LogRecorder,
    pod: Option<ObjectReference>,
}

/// One event, with what it is about.
struct Told {
    reason: Reason,
    note: String,
    regarding: ObjectReference,
}

impl KubernetesRecorder {
    /// Starts to write. The Pod is the one that `POD_NAME`, `POD_NAMESPACE` and `POD_UID` name; `me` is who tells.
    pub(crate) fn start(client: Client, leadership: Leadership, me: &str, denials: Denials) -> Self {
        let (events, waiting) = mpsc::channel(EVENTS_MAX);
        let clerk = Writer {
            client,
            me: me.to_owned(),
            leadership,
            denials,
            queue: VecDeque::new(),
            series: Series::default(),
            started: Instant::now(),
            trouble: false,
        };
        tokio::spawn(clerk.run(waiting));
        Self { events, log: LogRecorder, pod: pod() }
    }
}

impl EventRecorder for KubernetesRecorder {
    fn record(&mut self, events: &[FallbackEvent]) {
        self.log.record(events);
        for event in events {
            let Some(regarding) = self.reference(&event.regarding) else { continue };
            let note = shortened(&event.note);
            // The log has it.
            let _ = self.events.try_send(Told { reason: event.reason, note, regarding });
        }
    }
}

/// A note as the API server takes it: findings as far as there is room, and how many there are more, and where.
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

struct Writer {
    client: Client,
    me: String,
    leadership: Leadership,
    denials: Denials,
    queue: VecDeque<Told>,
    series: Series,
    started: Instant,
    trouble: bool,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Told>) {
        loop {
            if self.leadership.leads()
                && let Some(told) = self.queue.pop_front()
            {
                let rest = self.tell(told).await;
                sleep(rest).await;
                // What came meanwhile is told in its order.
                while let Ok(told) = waiting.try_recv() {
                    self.push(told);
                }
                continue;
            }
            tokio::select! {
                told = waiting.recv() => {
                    let Some(told) = told else { return };
                    self.push(told);
                }
                () = self.leadership.changed() => {
                    if self.leadership.follows() {
                        self.queue.clear();
                    }
                }
            }
        }
    }

    fn push(&mut self, told: Told) {
        if self.queue.len() >= EVENTS_MAX {
            self.queue.pop_front();
        }
        self.queue.push_back(told);
    }

    /// Writes one; how long to wait then.
    async fn tell(&mut self, told: Told) -> Duration {
        match self.write(&told).await {
            Ok(()) => {
                self.trouble = false;
                self.denials.allowed(&right(&told));
                PACE
            }
            Err(Error::Api(status)) if status.code == 403 => {
                let message = "the right to create and patch events of the API group events.k8s.io is missing: Events on \
                               objects there are in the log only; the chart's roles give it";
                self.denials.denied(&right(&told), message);
                PACE
            }
            // It will not be taken another time either, as where the namespace is about to go.
            Err(Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                let reason = told.reason;
                tracing::debug!(%reason, error = status.message, "an Event is not taken");
                PACE
            }
            Err(error) => {
                if !self.trouble {
                    tracing::warn!(%error, "Events cannot be written now; they wait");
                }
                self.trouble = true;
                self.queue.push_front(told);
                AFTER_ERROR
            }
        }
    }

    async fn write(&mut self, told: &Told) -> Result<(), Error> {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = Timestamp::now();
        let Told { reason, note, regarding } = told;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let same = Same {
            reason: reason.to_string(),
            regarding: [&regarding.kind, &regarding.namespace, &regarding.name, &regarding.uid].map(text).join("/"),
            note: note.clone(),
        };
        let namespace = namespace(told);
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Form::Again { name, count } = self.series.form(&same, now_ms) {
            let series = EventSeries { count, last_observed_time: MicroTime(now) };
            let patch = Patch::Merge(json!({ "series": series }));
            match within(events.patch(&name, &PatchParams::default(), &patch)).await {
                Ok(_) => {
                    self.series.told(same, name, count, now_ms);
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
        self.series.told(same, name, 1, now_ms);
        Ok(())
    }
}

/// Of objects without a namespace Events stand in `default`.
fn namespace(told: &Told) -> String {
    told.regarding.namespace.clone().unwrap_or_else(|| "default".into())
}

/// What is told of a right that is missing.
fn right(told: &Told) -> String {
    format!("events in {}", namespace(told))
}

#[cfg(test)]
mod tests {
    use super::{NOTE_CHARS_MAX, shortened};

    #[test]
    fn a_note_says_how_many_findings_it_has_no_room_for() {
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
