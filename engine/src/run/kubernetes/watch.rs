//! The watch of one kind, in one namespace or in all: lists, watches, begins anew, and says what it hears.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use holdfast_graph::ObjectKey;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta, TypeMeta};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Error};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::served;
use crate::apis::{Decoded, Kind, Scope, decode};
use crate::engine::Event;
use crate::watching::{Item, Word};

/// How often an API server is asked for a kind that it does not know, or that cannot be asked for.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// How many objects a page of a list has.
const PAGE: u32 = 500;
/// How long a list by way of the watch may say nothing before it is made page by page: some servers begin it and never
/// say where it ends.
const STREAMED_LIST_MAX: Duration = Duration::from_secs(20);
/// How often all objects are listed anew, since events may be lost.
const LIST_AGAIN: Duration = Duration::from_secs(30 * 60);
/// Releases of a packager are Secrets too, large ones, and nobody refers to them; nor to what replicas share.
const SECRETS_READ: &str = "type!=helm.sh/release.v1,type!=holdfast.dev/shared-store";
/// Characters of an error that are told.
const ERROR_CHARS_MAX: usize = 300;

/// What is watched.
pub(super) struct Watch {
    pub(super) kind: &'static Kind,
    pub(super) namespace: Option<Arc<str>>,
}

/// Where a second list is asked for.
pub(super) type Ask = mpsc::Sender<()>;

impl Watch {
    /// `gateway.networking.k8s.io/HTTPRoute`, with the namespace where it is of one.
    pub(super) fn name(&self) -> Arc<str> {
        let Kind { group, kind, .. } = self.kind;
        let name = if group.is_empty() { (*kind).to_owned() } else { format!("{group}/{kind}") };
        self.namespace
            .as_ref()
            .map_or_else(|| name.as_str().into(), |namespace| format!("{name} in {namespace}").into())
    }

    /// Watches until nobody takes the words any longer.
    pub(super) fn start(self, index: usize, client: Client, words: mpsc::Sender<(usize, Word)>) -> Ask {
        let (ask, asked) = mpsc::channel(1);
        let running = Running { watch: self, index, client, words, asked, streams: true };
        tokio::spawn(running.run());
        ask
    }
}

/// Nobody takes the words any longer.
struct Ended;

struct Running {
    watch: Watch,
    index: usize,
    client: Client,
    words: mpsc::Sender<(usize, Word)>,
    asked: mpsc::Receiver<()>,
    /// Does the server list by way of the watch, as far as is known?
    streams: bool,
}

impl Running {
    async fn run(mut self) {
        while self.round().await.is_ok() {}
    }

    async fn say(&self, word: Word) -> Result<(), Ended> {
        self.words.send((self.index, word)).await.map_err(|_| Ended)
    }

    /// Finds out under which version the kind is served, and watches it until that may have changed.
    async fn round(&mut self) -> Result<(), Ended> {
        match served::version(&self.client, self.watch.kind).await {
            Ok(Some(resource)) => {
                self.watch(&resource).await?;
                // Whatever ended it ends the next one just as fast.
                sleep(Duration::from_secs(1)).await;
                return Ok(());
            }
            Ok(None) => {
                self.say(Word::NoKind).await?;
                if self.asked.try_recv().is_ok() {
                    self.say(Word::Confirmed(Vec::new())).await?;
                }
            }
            Err(error) => self.say(trouble(&error)).await?,
        }
        sleep(ASK_AGAIN).await;
        Ok(())
    }

    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        match (&self.watch.namespace, self.watch.kind.scope) {
            (Some(namespace), Scope::Namespaced) => Api::namespaced_with(self.client.clone(), namespace, resource),
            _ => Api::all_with(self.client.clone(), resource),
        }
    }

    fn fields(&self) -> Option<&'static str> {
        (self.watch.kind.kind == "Secret").then_some(SECRETS_READ)
    }

    async fn watch(&mut self, resource: &ApiResource) -> Result<(), Ended> {
        let api = self.api(resource);
        let mut config = watcher::Config { page_size: Some(PAGE), ..watcher::Config::default() };
        if let Some(fields) = self.fields() {
            config = config.fields(fields);
        }
        if self.streams {
            // What is listed by way of the watch has no pages.
            config = config.streaming_lists();
        }
        let mut events = watcher(api.clone(), config).default_backoff().boxed();
        let (mut listing, mut listed) = (false, false);
        let end = Instant::now() + LIST_AGAIN;
        loop {
            let event = tokio::select! {
                () = sleep_until(end), if listed => return Ok(()),
                Some(()) = self.asked.recv() => {
                    self.confirm(&api).await?;
                    continue;
                }
                event = next(&mut events, self.streams && !listed) => event,
            };
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(error)) => {
                    listing = false;
                    let code = code(&error);
                    self.streams &= listed || !is_refusal(&error, code);
                    self.say(word_of(&error)).await?;
                    if code == Some(404) || !listed {
                        return Ok(());
                    }
                    continue;
                }
                // It neither goes on nor ends.
                None => {
                    self.streams = false;
                    return Ok(());
                }
            };
            // A list by way of the watch does not say that it begins.
            let begins = match event {
                watcher::Event::Init => true,
                watcher::Event::InitApply(_) | watcher::Event::InitDone => !listing,
                _ => false,
            };
            if begins {
                (listing, listed) = (true, false);
                self.say(Word::ListBegins).await?;
            }
            match event {
                watcher::Event::Init => {}
                watcher::Event::InitDone => {
                    (listing, listed) = (false, true);
                    self.say(Word::ListEnds).await?;
                }
                watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                    if let Some(item) = item(object, resource) {
                        self.say(Word::There(Box::new(item))).await?;
                    }
                }
                watcher::Event::Delete(object) => {
                    let key = self.key(&object.metadata);
                    self.say(Word::Deleted(key, object.metadata.uid.unwrap_or_default().into())).await?;
                }
            }
        }
    }

    fn key(&self, metadata: &kube::api::ObjectMeta) -> ObjectKey {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().to_owned();
        let Kind { group, kind, .. } = self.watch.kind;
        ObjectKey::new(*group, *kind, text(&metadata.namespace).as_str(), text(&metadata.name).as_str())
    }

    /// Lists once more, what the store of the API server has and not what some copy of it remembers.
    async fn confirm(&mut self, api: &Api<DynamicObject>) -> Result<(), Ended> {
        let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
        if let Some(fields) = self.fields() {
            params = params.fields(fields);
        }
        let mut present = Vec::new();
        loop {
            match api.list_metadata(&params).await {
                Ok(page) => {
                    let keys = page.items.iter().map(|item: &PartialObjectMeta<_>| self.key(&item.metadata));
                    present.extend(keys);
                    match page.metadata.continue_.filter(|token| !token.is_empty()) {
                        Some(token) => params.continue_token = Some(token),
                        None => return self.say(Word::Confirmed(present)).await,
                    }
                }
                // It is asked again.
                Err(error) => return self.say(trouble(&error)).await,
            }
        }
    }
}

/// The next event; `None` where a list by way of the watch says nothing for too long.
async fn next(
    events: &mut futures::stream::BoxStream<'_, watcher::Result<watcher::Event<DynamicObject>>>,
    streaming: bool,
) -> Option<watcher::Result<watcher::Event<DynamicObject>>> {
    if !streaming {
        return events.try_next().await.transpose();
    }
    timeout(STREAMED_LIST_MAX, events.try_next()).await.ok().and_then(Result::transpose)
}

/// An object as it is believed; `None` for what is no object of the kind.
fn item(mut object: DynamicObject, resource: &ApiResource) -> Option<Item> {
    object.metadata.managed_fields = None;
    let uid = Arc::from(object.metadata.uid.as_deref().unwrap_or_default());
    let version = object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    object.types = Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
    let (key, event) = match decode(serde_json::to_value(object).ok()?, None) {
        Decoded::Object(object, faults) => (object.key.clone(), Event::Applied(object, faults)),
        Decoded::Unusable(key, faults) => (key.clone(), Event::Unusable(key, faults)),
        Decoded::Foreign(why) | Decoded::Nameless(why) => {
            tracing::warn!(why, "the API server told of an object that is none");
            return None;
        }
    };
    Some(Item { key, uid, version, event })
}

fn word_of(error: &watcher::Error) -> Word {
    match (code(error), error) {
        (Some(403), _) => Word::Denied(cut(&error.to_string())),
        (_, watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) => trouble(error),
        _ => Word::Failed(cut(&error.to_string())),
    }
}

fn trouble(error: &Error) -> Word {
    match error {
        Error::Api(status) if status.code == 403 => Word::Denied(cut(&status.message)),
        _ => Word::Failed(cut(&error.to_string())),
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

/// Does the server say that it cannot list by way of the watch?
fn is_refusal(error: &watcher::Error, code: Option<u16>) -> bool {
    let refused = code.is_some_and(|code| (400..500).contains(&code) && ![403, 404, 410, 429].contains(&code));
    refused || matches!(error, watcher::Error::WatchError(_))
}

fn cut(message: &str) -> String {
    message.chars().take(ERROR_CHARS_MAX).collect()
}
