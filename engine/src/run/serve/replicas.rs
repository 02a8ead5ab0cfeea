//! The other replicas, where there are any: where what is shared stands, and who leads.

use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use holdfast_store::shards::Bucket;
use holdfast_store::{Digest, Options};
use tokio::sync::mpsc;

use super::core::{Asker, Core};
use super::objects::{Objects, replica_name};
use crate::engine::Event;
use crate::run::admin::metrics::Metrics;
use crate::run::cli::RunArgs;
use crate::run::data::DataDir;
use crate::run::failure::Failure;
use crate::run::kubernetes::leader::Leadership;
use crate::run::kubernetes::secrets::{OWNER_BYTES_MAX, SecretBucket};
use crate::run::shared::Sharing;
use crate::run::shared::folder::FolderBucket;
use crate::run::shared::task::{Leads, Shared};
use crate::run::store::identity;
use crate::run::store::persist::Persist;

/// What is shared, where anything is, before its turns begin.
pub(super) struct Replicas {
    pub(super) shared: Shared,
    /// Who says who leads; none where the Lease does.
    leads: Option<Leads>,
}

/// What is shared, where anything is.
///
/// # Errors
/// Where it cannot be used, or the key file is none.
pub(super) fn of(
    args: &RunArgs,
    objects: &Objects,
    data: &DataDir,
    metrics: &Metrics,
) -> Result<Option<Replicas>, Failure> {
    let (bucket, whose, leads): (Box<dyn Bucket>, _, _) = match (&args.shared_store, objects) {
        (Some(folder), _) => {
            let bucket = FolderBucket::open(folder).with_context(|| format!("--shared-store {}", folder.display()))?;
            (Box::new(bucket.clone()), identity(), Some(locks(bucket)))
        }
        (None, Objects::Kubernetes(client)) if args.kubernetes.shared_secrets.is_on() => {
            let (namespace, name) = args.kubernetes.lease(client);
            if name.len() > OWNER_BYTES_MAX {
                return Err(Failure::usage(format!(
                    "--shared-secrets: Secrets are named after the Lease, whose name may have at most {OWNER_BYTES_MAX} \
                     characters then (--lease-name)"
                )));
            }
            let whose = format!("kubernetes {} {namespace}/{name}", crate::settings::CONTROLLER_NAME).into();
            (Box::new(SecretBucket::new(client.clone(), namespace, name)), whose, None)
        }
        _ => return Ok(None),
    };
    let options = Options { identity: whose, key: args.store_key.load()? };
    // The same folder of another Pod is another replica's.
    let own = [replica_name().as_bytes(), b"\0", data.path().as_os_str().as_encoded_bytes()].concat();
    let own = format!("{:?}", Digest::of(&own));
    let own: Arc<str> = own.chars().take(8).collect::<String>().into();
    let shared = Shared::new(Sharing::new(bucket, &options, own), metrics.shared.clone(), data.path());
    Ok(Some(Replicas { shared, leads }))
}

/// The replica that holds the folder's lock leads.
fn locks(bucket: FolderBucket) -> Leads {
    let mut held: Option<File> = None;
    Box::new(move || {
        if held.is_none() {
            held = bucket.lead().unwrap_or_default();
        }
        held.is_some()
    })
}

/// Begins to take turns with the other replicas. What they say comes out of the receiver.
///
/// # Errors
/// Where the system gives no thread.
pub(super) fn start(
    replicas: Option<Replicas>,
    leadership: Option<Leadership>,
    core: &mut Core,
    asker: Asker,
    persist: Option<Arc<Persist>>,
) -> anyhow::Result<mpsc::Receiver<Vec<Event>>> {
    let Some(Replicas { shared, leads }) = replicas else {
        let (_, nobody) = mpsc::channel(1);
        return Ok(nobody);
    };
    let holds = move || leadership.as_ref().is_some_and(Leadership::leads);
    let (outbox, events) = shared.start(leads.unwrap_or_else(|| Box::new(holds)), asker, persist)?;
    core.share(outbox);
    Ok(events)
}
