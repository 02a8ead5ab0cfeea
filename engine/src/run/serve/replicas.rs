//! The other replicas, where there are any: where what is shared stands, and who leads.

use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use holdfast_store::shards::Bucket;
use holdfast_store::{Digest, Options};
use tokio::sync::mpsc;

use super::core::{Asker, Core};
use crate::engine::Event;
use crate::run::cli::RunArgs;
use crate::run::data::DataDir;
use crate::run::failure::Failure;
use crate::run::shared::Sharing;
use crate::run::shared::folder::FolderBucket;
use crate::run::shared::task::Shared;
use crate::run::store::identity;
use crate::run::store::persist::Persist;

/// What is shared, where anything is.
///
/// # Errors
/// Where it cannot be used, or the key file is none.
pub(super) fn of(args: &RunArgs, data: &DataDir) -> Result<Option<Shared>, Failure> {
    let Some(folder) = &args.shared_store else { return Ok(None) };
    let bucket = FolderBucket::open(folder).with_context(|| format!("--shared-store {}", folder.display()))?;
    let leading = bucket.clone();
    let mut held: Option<File> = None;
    let leads = move || {
        if held.is_none() {
            held = leading.lead().unwrap_or_default();
        }
        held.is_some()
    };
    let options = Options { identity: identity(), key: args.store_key.load()? };
    let own = format!("{:?}", Digest::of(data.path().as_os_str().as_encoded_bytes()));
    let own: Arc<str> = own.chars().take(8).collect::<String>().into();
    let sharing = Sharing::new(Box::new(bucket) as Box<dyn Bucket>, &options, own);
    Ok(Some(Shared::new(sharing, Box::new(leads), data.path())))
}

/// Begins to take turns with the other replicas. What they say comes out of the receiver.
///
/// # Errors
/// Where the system gives no thread.
pub(super) fn start(
    shared: Option<Shared>,
    core: &mut Core,
    asker: Asker,
    persist: Option<Arc<Persist>>,
) -> anyhow::Result<mpsc::Receiver<Vec<Event>>> {
    let Some(shared) = shared else {
        let (_, nobody) = mpsc::channel(1);
        return Ok(nobody);
    };
    let (outbox, events) = shared.start(asker, persist)?;
    core.share(outbox);
    Ok(events)
}
