//! Store and probe of a run: opened if available; the product also runs without them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use holdfast_api::settings::RE2_PROGRAM_SIZE_MAX;
use holdfast_fallback::restore;
use holdfast_fallback::restored::Restored;
use holdfast_fallback::trial::Tried;
use holdfast_probe::envoy::{EnvoyBinary, find};
use holdfast_probe::{Origin, Prober, ProberOptions};
use holdfast_store::MemoryStore;
use holdfast_store::sled::{Opened, Options, SledStore};
use tokio::sync::{mpsc, watch};

use crate::admin::metrics::Metrics;
use crate::cli::ProbeMode;
use crate::commands::run::RunArgs;
use crate::data::DataDir;
use crate::failure::Failure;
use crate::shared::Begun;
use crate::shared::task::SharingTask;
use crate::store::not_opened::NotOpened;
use crate::store::persist::Persist;
use crate::store::{FOLDER, identity};

/// How long the start waits for the probe: configuration that is published earlier is sent to Envoys untried.
const PROBE_START_MAX: Duration = Duration::from_secs(5);

/// The store of a run, and the state at its start.
pub struct Memory {
    /// The persistence; `None` if the store cannot be opened.
    pub persist: Option<Arc<Persist>>,
    /// The reason why the store cannot be opened.
    pub failure: Option<NotOpened>,
    /// The state of an earlier run, or of other replicas if that is newer.
    pub restored: Restored,
    /// The state that replicas share.
    pub learned: Option<Restored>,
}

/// Opens the store. Without a store everything is served nevertheless.
///
/// # Errors
/// Returns an error if the key file is invalid.
pub fn open_store(
    args: &RunArgs,
    data: &DataDir,
    metrics: &Metrics,
    shared: Option<&mut SharingTask>,
) -> Result<Memory, Failure> {
    let key = args.store_key.load()?;
    let folder = data.path().join(FOLDER);
    let opened = SledStore::open(&folder, &Options { identity: identity(), key });
    let Opened { store, notices } = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "cannot open the store: last valid versions are kept only until the end of this \
                                     run");
            let learned = shared.and_then(|shared| shared.begin(&MemoryStore::default()).learned);
            let restored = learned.clone().unwrap_or_default();
            return Ok(Memory { persist: None, failure: Some(NotOpened::new(folder, &error)), restored, learned });
        }
    };
    let Begun { learned, mirror, .. } = shared.map(|shared| shared.begin(&store)).unwrap_or_default();
    let (restored, more) = match (&learned, &mirror) {
        (Some(learned), Some(_)) => (learned.clone(), Vec::new()),
        _ => restore::restore(&store)
            .unwrap_or_else(|error| (Restored::default(), vec![format!("its content cannot be read: {error}")])),
    };
    notices.into_iter().chain(more).for_each(|notice| tracing::warn!("store: {notice}"));
    let persist = Persist::start(store, metrics.fallback.commits()).context("cannot start")?;
    persist.commit(mirror.unwrap_or_default());
    Ok(Memory { persist: Some(Arc::new(persist)), failure: None, restored, learned })
}

/// The probe from the main loop's view.
pub struct Probe {
    /// The handle for trials; `None` without a probe.
    pub prober: Option<Prober>,
    /// The results of trials.
    pub tried: mpsc::Receiver<Vec<Tried>>,
    /// The build of the probe, while it is available.
    pub available: watch::Receiver<Option<Arc<str>>>,
}

/// Starts the probe if one is configured, and waits a short time for it. `binary` is that of the managed Envoys.
///
/// # Errors
/// Returns an error if a probe is required and cannot be started.
pub async fn start_probe(args: &RunArgs, data: &DataDir, binary: Option<EnvoyBinary>) -> Result<Probe, Failure> {
    let found = match (args.probe, &args.probe_folder, binary) {
        (ProbeMode::Off, ..) => None,
        (_, Some(folder), _) => Some(Origin::Beside(folder.clone())),
        (_, None, Some(binary)) => Some(Origin::Here(binary)),
        // Holdfast starts no Envoys: a binary is downloaded for the probe only if the probe is requested explicitly.
        (ProbeMode::Auto, None, None) => find::find_installed().map(Origin::Here),
        (ProbeMode::On, None, None) => {
            let found = tokio::task::spawn_blocking(find::find).await.context("cannot look for an Envoy")??;
            Some(Origin::Here(found))
        }
    };
    let (build_in, available) = watch::channel(None);
    let Some(origin) = found else {
        let (_, tried) = mpsc::channel(1);
        return Ok(Probe { prober: None, tried, available });
    };
    let options = ProberOptions { origin, data: data.path().to_owned(), timeout: args.probe_timeout };
    let (prober, tried) = Prober::start(options)?;
    let mut is_there = prober.available();
    if tokio::time::timeout(PROBE_START_MAX, is_there.wait_for(Option::is_some)).await.is_err() {
        tracing::warn!(
            "the probe is not ready yet; until it is ready, one Envoy of each fleet tries changed configuration first"
        );
    }
    tokio::spawn(async move {
        loop {
            let there = is_there.borrow_and_update().clone();
            // In the form of the generated bootstrap's node metadata, which the probe has too.
            build_in.send_replace(there.map(|version| format!("{version}+re2={RE2_PROGRAM_SIZE_MAX}").into()));
            if is_there.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(Probe { prober: Some(prober), tried, available })
}
