//! Events of Kubernetes (`events.k8s.io`): on each object concerned, and on the Pod of the controller.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use crate::apis::scheme;
use crate::fallback::events::{FallbackEvent, Regarding};
use crate::run::events::{EventRecorder, LogRecorder};

/// How many events may wait to be written; those that find no place are in the log only.
const EVENTS_MAX: usize = 1024;
/// Characters of a note that the API server takes, less a little.
const NOTE_CHARS_MAX: usize = 1000;
/// Who tells.
const CONTROLLER: &str = "holdfast.dev/gateway-controller";

/// Writes events to the API server, and to the log.
pub(crate) struct KubernetesRecorder {
    events: mpsc::Sender<(Event, ObjectReference)>,
    log: LogRecorder,
    pod: Option<ObjectReference>,
}

impl KubernetesRecorder {
    /// Starts to write. The Pod is the one that `POD_NAME` and `POD_NAMESPACE` name.
    pub(crate) fn start(client: Client) -> Self {
        let (events, mut waiting) = mpsc::channel::<(Event, ObjectReference)>(EVENTS_MAX);
        let recorder = Recorder::new(client, Reporter::from(CONTROLLER));
        tokio::spawn(async move {
            while let Some((event, regarding)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    tracing::debug!(reason = event.reason, %error, "an Event cannot be written");
                }
            }
        });
        Self { events, log: LogRecorder, pod: pod() }
    }
}

impl EventRecorder for KubernetesRecorder {
    fn record(&mut self, events: &[FallbackEvent]) {
        self.log.record(events);
        for event in events {
            let Some(regarding) = self.reference(&event.regarding) else { continue };
            let reason = event.reason.to_string();
            let told = Event {
                type_: if event.reason.is_warning() { EventType::Warning } else { EventType::Normal },
                action: reason.clone(),
                reason,
                note: Some(event.note.chars().take(NOTE_CHARS_MAX).collect()),
                secondary: None,
            };
            // The log has it.
            let _ = self.events.try_send((told, regarding));
        }
    }
}

impl KubernetesRecorder {
    fn reference(&self, regarding: &Regarding) -> Option<ObjectReference> {
        match regarding {
            Regarding::Controller => self.pod.clone(),
            Regarding::Object(object) => {
                let key = object.key();
                let kind = scheme::find(&key.group, &key.kind)?;
                let version = kind.versions.first()?;
                let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
                let namespace = Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty());
                Some(ObjectReference {
                    api_version: Some(format!("{group}{version}")),
                    kind: Some(kind.kind.to_owned()),
                    name: Some(key.name.to_string()),
                    namespace,
                    ..ObjectReference::default()
                })
            }
            Regarding::Deleted(_) => None,
        }
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
