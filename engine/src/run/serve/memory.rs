//! The store and the probe of a run: opened where they can be had, and run without where not.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use holdfast_store::MemoryStore;
use holdfast_store::sled::{Opened, Options, SledStore};
use tokio::sync::{mpsc, watch};

use crate::fallback::restored::Restored;
use crate::run::admin::metrics::Metrics;
use crate::run::cli::{ProbeMode, RunArgs};
use crate::run::data::DataDir;
use crate::run::envoy::{self, EnvoyBinary};
use crate::run::failure::Failure;
use crate::run::probe::{Origin, Prober, ProberOptions};
use crate::run::shared::Begun;
use crate::run::shared::task::Shared;
use crate::run::store::persist::Persist;
use crate::run::store::{FOLDER, identity, restore};
use crate::settings::RE2_PROGRAM_SIZE_MAX;
use crate::trial::Tried;

/// How long the start waits for the probe: what is published before it is there goes to Envoys untried.
const PROBE_START_MAX: Duration = Duration::from_secs(5);

/// The store of a run, and what is known at its begin.
pub struct Memory {
    /// Where it is kept; none where it cannot be.
    pub persist: Option<Arc<Persist>>,
    /// Why it cannot be kept.
    pub failure: Option<String>,
    /// What an earlier run left, or other replicas where that is newer.
    pub restored: Restored,
    /// What replicas share.
    pub learned: Option<Restored>,
}

/// Opens the store. Without one everything is served all the same.
///
/// # Errors
/// Where the key file is none.
pub fn open_store(
    args: &RunArgs,
    data: &DataDir,
    metrics: &Metrics,
    shared: Option<&mut Shared>,
) -> Result<Memory, Failure> {
    let key = args.store_key.load()?;
    let opened = SledStore::open(&data.path().join(FOLDER), &Options { identity: identity(), key });
    let Opened { store, notices } = match opened {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "there is no store: nothing is remembered beyond this run");
            let learned = shared.and_then(|shared| shared.begin(&MemoryStore::default()).learned);
            let restored = learned.clone().unwrap_or_default();
            return Ok(Memory { persist: None, failure: Some(error.to_string()), restored, learned });
        }
    };
    let Begun { learned, mirror, .. } = shared.map(|shared| shared.begin(&store)).unwrap_or_default();
    let (restored, more) = match (&learned, &mirror) {
        (Some(learned), Some(_)) => (learned.clone(), Vec::new()),
        _ => restore::restore(&store)
            .unwrap_or_else(|error| (Restored::default(), vec![format!("what is stored cannot be read: {error}")])),
    };
    notices.into_iter().chain(more).for_each(|notice| tracing::warn!("store: {notice}"));
    let persist = Persist::start(store, metrics.fallback.commits()).context("cannot start")?;
    persist.commit(mirror.unwrap_or_default());
    Ok(Memory { persist: Some(Arc::new(persist)), failure: None, restored, learned })
}

/// The probe as the main loop sees it.
pub struct Probe {
    /// Where trials go; none where there is no probe.
    pub prober: Option<Prober>,
    /// What came of them.
    pub tried: mpsc::Receiver<Vec<Tried>>,
    /// Is it there? With its build.
    pub available: watch::Receiver<Option<Arc<str>>>,
}

/// Starts the probe where there is to be one, and waits a moment for it. `binary` is that of the managed Envoys.
///
/// # Errors
/// Where there must be one, and cannot.
pub async fn start_probe(args: &RunArgs, data: &DataDir, binary: Option<EnvoyBinary>) -> Result<Probe, Failure> {
    let found = match (args.probe, &args.probe_folder, binary) {
        (ProbeMode::Off, ..) => None,
        (_, Some(folder), _) => Some(Origin::Beside(folder.clone())),
        (_, None, Some(binary)) => Some(Origin::Here(binary)),
        // Others start the Envoys: one is not fetched for the probe alone, unless it is asked for.
        (ProbeMode::Auto, None, None) => envoy::find::find_installed().map(Origin::Here),
        (ProbeMode::On, None, None) => {
            let found = tokio::task::spawn_blocking(envoy::find::find).await.context("cannot look for an Envoy")??;
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
        tracing::warn!("the probe is not ready yet; until it is, one Envoy of a fleet tries what is new");
    }
    tokio::spawn(async move {
        loop {
            let there = is_there.borrow_and_update().clone();
            // As the generated bootstrap, which the probe has too, says of itself.
            build_in.send_replace(there.map(|version| format!("{version}+re2={RE2_PROGRAM_SIZE_MAX}").into()));
            if is_there.changed().await.is_err() {
                return;
            }
        }
    });
    Ok(Probe { prober: Some(prober), tried, available })
}
