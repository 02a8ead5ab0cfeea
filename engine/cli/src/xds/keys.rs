//! Keys that sign tokens: fetched from a source, and kept for times when the source is unavailable.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use holdfast_engine::identity::keys::VerificationKeys;
use holdfast_kubernetes::token_keys::ServerKeys;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::material;

/// Interval at which a file of keys is read.
const FILE_EVERY: Duration = Duration::from_secs(1);
/// Interval of requests to a remote source.
const REMOTE_EVERY: Duration = Duration::from_secs(60);
/// How long the keys of a remote source remain valid while it is unavailable.
const KEYS_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A source of keys, as a JSON Web Key Set.
pub trait KeySetSource: Send + Sync + 'static {
    /// The current keys.
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>>>;
}

/// Keys in a file.
pub struct FileKeys(pub PathBuf);

impl KeySetSource for FileKeys {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>>> {
        let path = self.0.clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || material::read("--xds-token-jwks", &path))
                .await
                .context("cannot read")?
        })
    }
}

impl KeySetSource for ServerKeys {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(ServerKeys::fetch(self))
    }
}

/// The known keys, and until when (seconds since 1970) they are valid.
#[derive(Clone, Debug, Default)]
pub struct KnownKeys {
    keys: Option<Arc<VerificationKeys>>,
    until: Option<u64>,
}

impl KnownKeys {
    /// Keys that are valid until a time, or forever if there is none.
    pub fn new(keys: Arc<VerificationKeys>, until: Option<u64>) -> Self {
        Self { keys: Some(keys), until }
    }

    /// The keys that are valid at a time.
    pub fn at(&self, now: u64) -> Option<&VerificationKeys> {
        self.keys.as_deref().filter(|_| self.until.is_none_or(|until| now < until))
    }
}

/// Reads a source periodically.
pub struct Follower<S> {
    source: S,
    every: Duration,
    /// The file in which keys are kept, and how long they are valid while the source is unavailable.
    kept: Option<(PathBuf, Duration)>,
}

/// The content of the file in which keys are kept.
#[derive(Serialize, Deserialize)]
struct StoredKeySet {
    /// The time at which they were fetched, in seconds since 1970.
    fetched: u64,
    key_set: String,
}

impl<S: KeySetSource> Follower<S> {
    /// Follows a source that can be unavailable, and keeps its keys in a file.
    pub fn of_remote(source: S, kept: PathBuf) -> Self {
        Self { source, every: REMOTE_EVERY, kept: Some((kept, KEYS_AGE_MAX)) }
    }

    /// Reads the source now, and then periodically until the receiver is dropped.
    ///
    /// # Errors
    /// Returns an error if there are no keys now, unless the source may be unavailable.
    pub async fn start(self) -> Result<watch::Receiver<KnownKeys>> {
        let mut seen = self.source.fetch().await.map_err(|error| format!("{error:#}"));
        let first = match (self.take(&seen), &self.kept) {
            (Ok(known), _) => known,
            (Err(error), None) => return Err(error.context("--xds-token-jwks")),
            (Err(error), Some((path, age_max))) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot fetch the keys that verify tokens; Holdfast tries again"
                );
                restore(path, *age_max).unwrap_or_default()
            }
        };
        let (sender, known) = watch::channel(first);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(self.every).await;
                if sender.is_closed() {
                    return;
                }
                let fetched = self.source.fetch().await.map_err(|error| format!("{error:#}"));
                let is_news = fetched != seen;
                match self.take(&fetched) {
                    // Also for equal keys, to extend their validity.
                    Ok(known) => drop(sender.send_replace(known)),
                    Err(error) if is_news => tracing::error!(
                        error = format!("{error:#}"),
                        "cannot use the new keys that verify tokens; the previous keys stay in use"
                    ),
                    Err(_) => {}
                }
                if is_news && fetched.is_ok() {
                    tracing::info!("the keys that verify tokens have changed");
                }
                seen = fetched;
            }
        });
        Ok(known)
    }

    fn take(&self, fetched: &Result<Vec<u8>, String>) -> Result<KnownKeys> {
        let bytes = fetched.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
        let keys = Arc::new(VerificationKeys::parse(bytes)?);
        let Some((path, age_max)) = &self.kept else { return Ok(KnownKeys::new(keys, None)) };
        let now = now();
        if let Err(error) = keep(path, now, bytes) {
            tracing::warn!(error = format!("{error:#}"), "cannot save the keys that verify tokens for the next start");
        }
        Ok(KnownKeys::new(keys, Some(now + age_max.as_secs())))
    }
}

impl Follower<FileKeys> {
    /// Follows a file, which is always available.
    pub fn of_file(source: FileKeys) -> Self {
        Self { source, every: FILE_EVERY, kept: None }
    }
}

fn keep(path: &Path, fetched: u64, key_set: &[u8]) -> Result<()> {
    use std::io::Write;
    let key_set = String::from_utf8(key_set.to_vec()).context("not UTF-8")?;
    let mut file = tempfile::NamedTempFile::new_in(path.parent().context("no folder")?)?;
    file.write_all(&serde_json::to_vec(&StoredKeySet { fetched, key_set })?)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// The keys that an earlier run kept, if they are still valid. Keys with a time in the future are rejected too.
fn restore(path: &Path, age_max: Duration) -> Option<KnownKeys> {
    let kept: StoredKeySet = serde_json::from_slice(&material::read("kept keys", path).ok()?).ok()?;
    let keys = VerificationKeys::parse(kept.key_set.as_bytes()).ok()?;
    let until = kept.fetched.checked_add(age_max.as_secs())?;
    (kept.fetched <= now() && now() < until).then(|| KnownKeys::new(Arc::new(keys), Some(until)))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const KEY_SET: &[u8] = include_bytes!("../../../src/identity/testdata/rsa.jwks.json");

    /// A source that can be unavailable.
    struct UnreliableSource(Arc<AtomicBool>);

    impl KeySetSource for UnreliableSource {
        fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>>> {
            let is_away = self.0.load(Ordering::Relaxed);
            Box::pin(async move { if is_away { anyhow::bail!("away") } else { Ok(KEY_SET.to_vec()) } })
        }
    }

    #[tokio::test]
    async fn what_was_fetched_outlives_its_source_and_this_process_but_not_its_age() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let away = Arc::new(AtomicBool::new(true));
        let hour = Duration::from_secs(3600);
        let start = || {
            let remote = UnreliableSource(away.clone());
            let kept = Some((path.clone(), hour));
            Follower { source: remote, every: Duration::from_millis(5), kept }.start()
        };
        let mut known = start().await.unwrap();
        assert!(known.borrow_and_update().at(now()).is_none());
        away.store(false, Ordering::Relaxed);
        tokio::time::timeout(Duration::from_secs(30), known.changed()).await.unwrap().unwrap();
        assert_eq!(known.borrow().at(now()).map(VerificationKeys::count), Some(1));
        assert!(known.borrow().at(now() + 3601).is_none());
        drop(known);
        away.store(true, Ordering::Relaxed);
        assert!(start().await.unwrap().borrow().at(now()).is_some());
        for fetched in [now() - 3600, now() + 100] {
            keep(&path, fetched, KEY_SET).unwrap();
            assert!(start().await.unwrap().borrow().at(now()).is_none());
        }
        std::fs::write(&path, "{}").unwrap();
        assert!(start().await.unwrap().borrow().at(now()).is_none());
    }

    #[tokio::test]
    async fn a_file_without_keys_is_no_start_and_later_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jwks");
        let start =
            || Follower { every: Duration::from_millis(5), ..Follower::of_file(FileKeys(path.clone())) }.start();
        assert!(format!("{:#}", start().await.unwrap_err()).contains("--xds-token-jwks"));
        std::fs::write(&path, KEY_SET).unwrap();
        let mut known = start().await.unwrap();
        std::fs::write(&path, "{}").unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(known.borrow_and_update().at(u64::MAX).is_some());
    }
}
