//! Setup of sharing with other replicas: the bucket, and the leader.

use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use holdfast_engine::engine::Event;
use holdfast_kubernetes::leader::Leadership;
use holdfast_kubernetes::secrets::{OWNER_BYTES_MAX, SecretBucket};
use holdfast_store::shards::Bucket;
use holdfast_store::{Digest, Options};
use tokio::sync::mpsc;

use super::core::{Core, CoreHandle};
use super::objects::{Objects, replica_name};
use crate::admin::metrics::Metrics;
use crate::commands::run::RunArgs;
use crate::data::DataDir;
use crate::failure::Failure;
use crate::shared::Sharing;
use crate::shared::folder::FolderBucket;
use crate::shared::task::{Leads, SharingTask};
use crate::store::identity;
use crate::store::persist::Persist;

/// The shared state before its task starts.
pub(super) struct Replicas {
    pub(super) shared: SharingTask,
    /// Decides whether this replica leads; `None` if the Lease decides.
    leads: Option<Leads>,
}

/// The shared state, if sharing is configured.
///
/// # Errors
/// Returns an error if the shared store cannot be used, or the key file is invalid.
pub(super) fn of(
    args: &RunArgs,
    objects: &Objects,
    data: &DataDir,
    metrics: &Metrics,
) -> Result<Option<Replicas>, Failure> {
    let (bucket, identity, leads): (Box<dyn Bucket>, _, _) = match (&args.shared_store, objects) {
        (Some(folder), _) => {
            let bucket = FolderBucket::open(folder).with_context(|| format!("--shared-store {}", folder.display()))?;
            (Box::new(bucket.clone()), identity(), Some(locks(bucket)))
        }
        (None, Objects::Kubernetes(client)) if args.kubernetes.shared_secrets.is_on() => {
            let (namespace, name) = args.kubernetes.lease(client);
            if name.len() > OWNER_BYTES_MAX {
                return Err(Failure::usage(format!(
                    "--shared-secrets: Secrets are named after the Lease, so that its name may have at most {OWNER_BYTES_MAX} characters (--lease-name)"
                )));
            }
            let identity = format!("kubernetes {} {namespace}/{name}", holdfast_api::settings::CONTROLLER_NAME).into();
            (Box::new(SecretBucket::new(client.clone(), namespace, name)), identity, None)
        }
        _ => return Ok(None),
    };
    let options = Options { identity, key: args.store_key.load()? };
    // The same path in another Pod belongs to another replica.
    let own = [replica_name().as_bytes(), b"\0", data.path().as_os_str().as_encoded_bytes()].concat();
    let own = format!("{:?}", Digest::of(&own));
    let own: Arc<str> = own.chars().take(8).collect::<String>().into();
    let shared = SharingTask::new(Sharing::new(bucket, &options, own), metrics.shared.clone(), data.path());
    Ok(Some(Replicas { shared, leads }))
}

/// Leadership by the lock of the folder: the replica that holds it leads.
fn locks(bucket: FolderBucket) -> Leads {
    let mut held: Option<File> = None;
    Box::new(move || {
        if held.is_none() {
            held = bucket.lead().unwrap_or_default();
        }
        held.is_some()
    })
}

/// Starts the exchange with the other replicas. Their events arrive on the returned receiver.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(super) fn start(
    replicas: Option<Replicas>,
    leadership: Option<Leadership>,
    core: &mut Core,
    handle: CoreHandle,
    persist: Option<Arc<Persist>>,
) -> anyhow::Result<mpsc::Receiver<Vec<Event>>> {
    let Some(Replicas { shared, leads }) = replicas else {
        let (_, closed) = mpsc::channel(1);
        return Ok(closed);
    };
    let holds = move || leadership.as_ref().is_some_and(Leadership::leads);
    let (outbox, events) = shared.start(leads.unwrap_or_else(|| Box::new(holds)), handle, persist)?;
    core.share(outbox);
    Ok(events)
}
