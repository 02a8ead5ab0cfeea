//! Watch of one kind, in one namespace or in all: lists, watches, restarts, and forwards watch events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use holdfast_api::apis::kinds;
use holdfast_api::apis::{Decoded, Kind, ResourceScope, decode};
use holdfast_api::fault::Fault;
use holdfast_engine::engine::Event;
use holdfast_graph::ObjectKey;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta, TypeMeta};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Error};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::rest::{Rest, WATCH_PAUSE_MAX};
use crate::served::{self, Definition};
use crate::watching::{ListedObject, WatchEvent, WatchedObject};

/// Interval of requests for a kind that the API server does not serve, or for which the request failed.
const RETRY_EVERY: Duration = WATCH_PAUSE_MAX;
/// Maximum number of events that are processed at once; the CRD of their kind is checked once for all of them.
const EVENTS_AT_ONCE: usize = 256;
/// Page size of a list, in objects.
pub(crate) const PAGE: u32 = 500;
/// How long a streaming list may be silent before the list is read page by page: some servers begin a streaming list
/// and never mark its end.
const STREAMED_LIST_MAX: Duration = Duration::from_secs(20);
/// Interval of complete lists, since watch events may be lost.
const LIST_AGAIN: Duration = Duration::from_secs(30 * 60);
/// Excludes the Secrets of Helm releases, which are large and never referenced, and the Secrets that replicas share.
const SECRETS_READ: &str = "type!=helm.sh/release.v1,type!=holdfast.dev/shared-store";
/// Maximum number of characters of an error that are reported.
const WATCH_ERROR_CHARS_MAX: usize = 300;

/// The kind and namespace to watch.
pub(crate) struct WatchTarget {
    pub(crate) kind: &'static Kind,
    pub(crate) namespace: Option<Arc<str>>,
}

/// The channel on which a confirmation list is requested.
pub(crate) type ConfirmSender = mpsc::Sender<()>;

impl WatchTarget {
    /// `gateway.networking.k8s.io/HTTPRoute`, followed by the namespace if the watch is for one.
    pub(crate) fn name(&self) -> Arc<str> {
        let Kind { group, kind, .. } = self.kind;
        let name = if group.is_empty() { (*kind).to_owned() } else { format!("{group}/{kind}") };
        self.namespace
            .as_ref()
            .map_or_else(|| name.as_str().into(), |namespace| format!("{name} in {namespace}").into())
    }

    /// Returns whether the watch covers this object.
    pub(crate) fn is_of(&self, key: &ObjectKey) -> bool {
        let is_there = self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace);
        *key.group == *self.kind.group && *key.kind == *self.kind.kind && is_there
    }

    /// The API of the objects.
    pub(crate) fn api(&self, client: &Client, resource: &ApiResource) -> Api<DynamicObject> {
        match (&self.namespace, self.kind.scope) {
            (Some(namespace), ResourceScope::Namespaced) => Api::namespaced_with(client.clone(), namespace, resource),
            _ => Api::all_with(client.clone(), resource),
        }
    }

    /// The field selector of lists and watches.
    pub(crate) fn fields(&self) -> Option<&'static str> {
        (self.kind.kind == kinds::SECRET).then_some(SECRETS_READ)
    }

    /// Watches until the receiver of watch events is closed.
    pub(crate) fn start(
        self,
        index: usize,
        client: Client,
        sender: mpsc::Sender<(usize, WatchEvent)>,
    ) -> ConfirmSender {
        let (confirm, confirm_requests) = mpsc::channel(1);
        let definition = Definition::There("".into());
        let running = RunningWatch {
            watch: self,
            index,
            client,
            sender,
            confirm_requests,
            streams: true,
            definition,
            was_listed: false,
        };
        tokio::spawn(running.run());
        confirm
    }
}

/// The receiver of watch events is closed.
struct Ended;

/// The watch has ended, and another one begins.
enum NextWatch {
    /// At once.
    AtOnce,
    /// After a pause: the cause of the end would probably end the next watch as fast.
    Soon,
}

struct RunningWatch {
    watch: WatchTarget,
    index: usize,
    client: Client,
    sender: mpsc::Sender<(usize, WatchEvent)>,
    confirm_requests: mpsc::Receiver<()>,
    /// Whether the server supports streaming lists, as far as is known.
    streams: bool,
    /// The state of the kind's CRD at the last list.
    definition: Definition,
    was_listed: bool,
}

/// The state of a kind's CRD when objects of the kind disappear.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CrdState {
    /// The CRD stays: the objects were deleted.
    Stays,
    /// The CRD is being removed, and the objects with it.
    Goes,
    /// The state is unknown, or there is another CRD by now: the events must not be forwarded.
    Unclear,
}

impl RunningWatch {
    async fn run(mut self) {
        while self.round().await.is_ok() {}
    }

    async fn send(&self, event: WatchEvent) -> Result<(), Ended> {
        self.sender.send((self.index, event)).await.map_err(|_| Ended)
    }

    /// Finds the version under which the kind is served, and watches the kind until the version may have changed.
    async fn round(&mut self) -> Result<(), Ended> {
        match self.served().await {
            // A watch of this kind would stay open for minutes without any event.
            Ok(Some(_)) if self.was_listed && self.definition == Definition::Leaving => {
                self.send(WatchEvent::Leaving).await?
            }
            Ok(Some(resource)) => {
                if let NextWatch::Soon = self.watch(&resource).await? {
                    sleep(Duration::from_secs(1)).await;
                }
                return Ok(());
            }
            Ok(None) => self.send(WatchEvent::NoKind).await?,
            Err(error) => self.send(request_failure(&error)).await?,
        }
        sleep(RETRY_EVERY).await;
        Ok(())
    }

    async fn served(&mut self) -> Result<Option<ApiResource>, Error> {
        let resource = served::version(&self.client, self.watch.kind).await?;
        if resource.is_some() {
            self.definition = served::definition(&self.client, self.watch.kind).await?;
        }
        Ok(resource)
    }

    /// Checks whether the kind's CRD is being removed. If so, the deletions of its objects were not requested by users.
    async fn look_at_definition(&self) -> Result<CrdState, Ended> {
        match served::definition(&self.client, self.watch.kind).await {
            Ok(now) if self.definition.has_left(&now) => {
                self.send(WatchEvent::Leaving).await?;
                Ok(if now == Definition::Leaving { CrdState::Goes } else { CrdState::Unclear })
            }
            Ok(_) => Ok(CrdState::Stays),
            Err(error) => {
                self.send(request_failure(&error)).await?;
                Ok(CrdState::Unclear)
            }
        }
    }

    async fn watch(&mut self, resource: &ApiResource) -> Result<NextWatch, Ended> {
        let api = self.watch.api(&self.client, resource);
        let mut config = watcher::Config { page_size: Some(PAGE), ..watcher::Config::default() };
        if let Some(fields) = self.watch.fields() {
            config = config.fields(fields);
        }
        if self.streams {
            // Streaming lists have no pages.
            config = config.streaming_lists();
        }
        let events = watcher(api.clone(), config).backoff(Rest::default());
        let mut events = events.ready_chunks(EVENTS_AT_ONCE).boxed();
        let mut progress = Progress::default();
        let end = Instant::now() + LIST_AGAIN;
        loop {
            let events = tokio::select! {
                () = sleep_until(end), if progress.listed => return Ok(NextWatch::Soon),
                Some(()) = self.confirm_requests.recv() => {
                    self.confirm(&api).await?;
                    // The list confirmed the state of the server, so a complete list follows.
                    return Ok(NextWatch::Soon);
                }
                events = next(&mut events, self.streams && !progress.listed) => events,
            };
            // The streaming list neither continues nor ends.
            let Some(events) = events else {
                self.streams = false;
                return Ok(NextWatch::Soon);
            };
            let removes = events.iter().any(|event| self.removes(event));
            let look = if removes { self.look_at_definition().await? } else { CrdState::Stays };
            if look == CrdState::Unclear {
                return Ok(NextWatch::Soon);
            }
            for event in events {
                if let Some(next) = self.on_event(event, &mut progress, resource).await? {
                    return Ok(next);
                }
            }
            if look == CrdState::Goes {
                return Ok(NextWatch::Soon);
            }
        }
    }

    /// Returns whether the event may remove an object.
    fn removes(&self, event: &watcher::Result<watcher::Event<DynamicObject>>) -> bool {
        match event {
            Ok(watcher::Event::Delete(_)) => true,
            Ok(watcher::Event::InitDone) => self.was_listed || self.definition == Definition::Leaving,
            _ => false,
        }
    }

    /// Processes an event; returns `Some` if the watch is over.
    async fn on_event(
        &mut self,
        event: watcher::Result<watcher::Event<DynamicObject>>,
        progress: &mut Progress,
        resource: &ApiResource,
    ) -> Result<Option<NextWatch>, Ended> {
        let event = match event {
            Ok(event) => event,
            Err(error) => return self.on_error(&error, progress).await,
        };
        // A streaming list has no event for its beginning.
        let begins = match event {
            watcher::Event::Init => true,
            watcher::Event::InitApply(_) | watcher::Event::InitDone => !progress.listing,
            _ => false,
        };
        if begins {
            (progress.listing, progress.listed) = (true, false);
            self.send(WatchEvent::ListBegins).await?;
        }
        match event {
            watcher::Event::Init => {}
            watcher::Event::InitDone => {
                (progress.listing, progress.listed, self.was_listed) = (false, true, true);
                self.send(WatchEvent::ListEnds).await?;
            }
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                if let Some(item) = item(object, resource) {
                    self.send(WatchEvent::There(Box::new(item))).await?;
                }
            }
            watcher::Event::Delete(object) => {
                let key = self.key(&object.metadata);
                self.send(WatchEvent::Deleted(key, object.metadata.uid.unwrap_or_default().into())).await?;
            }
        }
        Ok(None)
    }

    async fn on_error(&mut self, error: &watcher::Error, progress: &mut Progress) -> Result<Option<NextWatch>, Ended> {
        progress.listing = false;
        let code = code(error);
        self.streams &= progress.listed || !is_refusal(error, code);
        if code == Some(410) {
            tracing::info!(
                kind = &*self.watch.name(),
                "the watch has expired at the API server; Holdfast lists the objects again"
            );
            return Ok(Some(if progress.listed { NextWatch::AtOnce } else { NextWatch::Soon }));
        }
        self.send(watch_failure(error)).await?;
        Ok((code == Some(404) || !progress.listed).then_some(NextWatch::Soon))
    }

    fn key(&self, metadata: &kube::api::ObjectMeta) -> ObjectKey {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
        let Kind { group, kind, .. } = self.watch.kind;
        ObjectKey::new(*group, *kind, text(&metadata.namespace).as_str(), text(&metadata.name).as_str())
    }

    fn present(&self, metadata: kube::api::ObjectMeta) -> ListedObject {
        let key = self.key(&metadata);
        let version = metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        ListedObject { key, uid: metadata.uid.unwrap_or_default().into(), version }
    }

    /// Lists again, from the storage of the API server rather than from its watch cache.
    async fn confirm(&mut self, api: &Api<DynamicObject>) -> Result<(), Ended> {
        let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
        if let Some(fields) = self.watch.fields() {
            params = params.fields(fields);
        }
        let mut present = Vec::new();
        loop {
            match api.list_metadata(&params).await {
                Ok(page) => {
                    let items = page.items.into_iter();
                    present.extend(items.map(|item: PartialObjectMeta<_>| self.present(item.metadata)));
                    match page.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => params.continue_token = Some(token),
                        None => return self.send(WatchEvent::Confirmed(present)).await,
                    }
                }
                // The list will be requested again.
                Err(error) => return self.send(request_failure(&error)).await,
            }
        }
    }
}

type Events = Vec<watcher::Result<watcher::Event<DynamicObject>>>;

/// The progress of a watch.
#[derive(Default)]
struct Progress {
    /// Whether a list is being read.
    listing: bool,
    /// Whether a list was read completely.
    listed: bool,
}

/// The next events; `None` if a streaming list was silent for too long.
async fn next(events: &mut futures::stream::BoxStream<'_, Events>, streaming: bool) -> Option<Events> {
    if !streaming {
        return events.next().await;
    }
    timeout(STREAMED_LIST_MAX, events.next()).await.ok().flatten()
}

/// Decodes an object; `None` if it is not an object of the kind.
pub(crate) fn item(mut object: DynamicObject, resource: &ApiResource) -> Option<WatchedObject> {
    object.metadata.managed_fields = None;
    let uid = Arc::from(object.metadata.uid.as_deref().unwrap_or_default());
    let version = object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    let (key, event) = match decode(serde_json::to_value(object).ok()?, None) {
        Decoded::Object(object, faults) => (object.key.clone(), Event::Applied(object, faults)),
        Decoded::Unusable(key, faults) => (key.clone(), Event::Unusable(key, faults)),
        Decoded::Foreign(why) | Decoded::Nameless(why) | Decoded::Unserved(Fault { message: why, .. }) => {
            tracing::warn!(why, "the API server sent a watch event without an object");
            return None;
        }
    };
    Some(WatchedObject { key, uid, version, event })
}

fn watch_failure(error: &watcher::Error) -> WatchEvent {
    match (code(error), error) {
        (Some(403), _) => WatchEvent::Denied(cut(&error.to_string())),
        (_, watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) => {
            request_failure(error)
        }
        _ => WatchEvent::Failed(cut(&error.to_string())),
    }
}

fn request_failure(error: &Error) -> WatchEvent {
    match error {
        Error::Api(status) if status.code == 403 => WatchEvent::Denied(cut(&status.message)),
        _ => WatchEvent::Failed(cut(&error.to_string())),
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(Error::Api(status))
        | watcher::Error::WatchStartFailed(Error::Api(status))
        | watcher::Error::WatchFailed(Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// Returns whether the error means that the server does not support streaming lists.
fn is_refusal(error: &watcher::Error, code: Option<u16>) -> bool {
    let refused = code.is_some_and(|code| (400..500).contains(&code) && ![403, 404, 410, 429].contains(&code));
    refused || matches!(error, watcher::Error::WatchError(_))
}

/// The beginning of an error message.
pub(crate) fn cut(message: &str) -> String {
    message.chars().take(WATCH_ERROR_CHARS_MAX).collect()
}
